-- The tables of the index (store.py). A change of them is a new VERSION there: an index of another one is made again.

CREATE TABLE messages (
    number INTEGER PRIMARY KEY, office INTEGER NOT NULL, memory INTEGER NOT NULL, stream INTEGER NOT NULL,
    time TEXT NOT NULL, subject TEXT NOT NULL, type TEXT NOT NULL, sender TEXT NOT NULL,
    recipient TEXT NOT NULL, goal_id TEXT NOT NULL, task_id TEXT NOT NULL, status TEXT NOT NULL,
    person TEXT NOT NULL, text TEXT NOT NULL, audience TEXT NOT NULL, size INTEGER NOT NULL
);
-- The ids of messages and tasks that are for one of the people alone, and so is what follows from them.
CREATE TABLE private (key TEXT PRIMARY KEY, audience TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX by_goal ON messages (goal_id, number) WHERE goal_id != '';
CREATE INDEX by_task ON messages (task_id, number) WHERE task_id != '';
CREATE INDEX by_sender ON messages (sender, number);
CREATE INDEX by_recipient ON messages (recipient, number);
CREATE INDEX emails_by_sender ON messages (sender, number) WHERE type = 'email';
CREATE INDEX emails_by_recipient ON messages (recipient, number) WHERE type = 'email';
CREATE INDEX by_type ON messages (type, number);
CREATE INDEX by_office ON messages (office) WHERE stream = 0;
CREATE INDEX by_memory ON messages (memory) WHERE stream = 1;
CREATE TABLE goals (
    goal_id TEXT PRIMARY KEY, number INTEGER NOT NULL, submitted INTEGER NOT NULL, status TEXT NOT NULL,
    outcome TEXT NOT NULL, text TEXT NOT NULL, agents TEXT NOT NULL, record BLOB NOT NULL
);
CREATE TABLE pieces (
    number INTEGER PRIMARY KEY, goal_id TEXT NOT NULL, task_id TEXT NOT NULL, piece BLOB NOT NULL
);
CREATE INDEX pieces_by_goal ON pieces (goal_id, number) WHERE goal_id != '';
CREATE INDEX goals_by_submission ON goals (submitted);
CREATE INDEX goals_by_status ON goals (status, submitted);
CREATE TABLE letters (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL, session TEXT NOT NULL, cause TEXT NOT NULL
);
CREATE INDEX letters_by_session ON letters (session, number) WHERE session != '';
CREATE INDEX letters_by_cause ON letters (cause, number) WHERE cause != '';
CREATE INDEX letters_by_id ON letters (id);
CREATE VIRTUAL TABLE words USING fts5 (body, agents, content='');
-- The statistics say which indexes leave the fewest rows: SQLite would choose among equals by their order.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 VALUES
    ('messages', 'by_goal', '90000 300 1'), ('messages', 'by_task', '80000 30 1'),
    ('messages', 'by_sender', '100000 8000 1'), ('messages', 'by_recipient', '100000 8000 1'),
    ('messages', 'by_type', '100000 2000 1'), ('messages', 'emails_by_sender', '5000 400 1'),
    ('messages', 'emails_by_recipient', '5000 400 1'), ('messages', 'by_office', '90000 1'),
    ('messages', 'by_memory', '10000 1');
ANALYZE sqlite_schema;

-- What figures need (facts.py): "tasks" has a row for each task with its waiting and working times in seconds, "offline" if
-- the network led nowhere; "scores" the cosine of the nearest memory for each question; "usage" model calls by hour; "policy" verdicts, requests, answers and the
-- journals of the tasks whose commands were judged; "deliveries" and "replies" the last record of each.
CREATE TABLE tasks (
    name TEXT PRIMARY KEY, agent TEXT NOT NULL, lane TEXT NOT NULL, kind TEXT NOT NULL, goal_id TEXT NOT NULL,
    submitted_at TEXT NOT NULL, claimed_at TEXT NOT NULL DEFAULT '', ended_at TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT 'pending', outcome TEXT NOT NULL DEFAULT '',
    attempts INTEGER NOT NULL DEFAULT 0, waited REAL, worked REAL,
    tokens INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0,
    rules INTEGER, broken INTEGER, violations INTEGER, unchecked TEXT NOT NULL DEFAULT '',
    offline INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX tasks_by_end ON tasks (ended_at);
CREATE INDEX tasks_by_goal ON tasks (goal_id);
CREATE INDEX open_tasks ON tasks (agent) WHERE ended_at = '';
CREATE TABLE scores (at TEXT NOT NULL, score REAL NOT NULL, goal_id TEXT NOT NULL);
CREATE INDEX scores_by_time ON scores (at);
CREATE TABLE usage (
    hour TEXT NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL, calls INTEGER NOT NULL,
    input INTEGER NOT NULL, output INTEGER NOT NULL, cost REAL NOT NULL, PRIMARY KEY (hour, agent, model)
);
CREATE TABLE policy (
    kind TEXT NOT NULL, name TEXT NOT NULL, at TEXT NOT NULL, agent TEXT NOT NULL, label TEXT NOT NULL,
    goal_id TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (kind, name)
);
CREATE TABLE deliveries (
    delivery_id TEXT PRIMARY KEY, channel TEXT NOT NULL, status TEXT NOT NULL, first_at TEXT NOT NULL,
    reference TEXT NOT NULL, body BLOB NOT NULL
);
CREATE INDEX deliveries_by_time ON deliveries (first_at, delivery_id);
CREATE INDEX open_deliveries ON deliveries (channel) WHERE status IN ('waiting', 'sending');
CREATE INDEX deliveries_by_reference ON deliveries (channel, reference) WHERE reference != '';
CREATE TABLE replies (
    reply_id TEXT PRIMARY KEY, delivery_id TEXT NOT NULL, outcome TEXT NOT NULL, at TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX replies_by_delivery ON replies (delivery_id);
