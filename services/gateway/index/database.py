"""The file of the index: its tables, and how it is opened."""

import sqlite3
from pathlib import Path

from services.gateway.index.facts import TABLES

VERSION = 12
"""The version of the tables; an index of another version is rebuilt."""

_TABLES = """
CREATE TABLE messages (
    number INTEGER PRIMARY KEY, office INTEGER NOT NULL, memory INTEGER NOT NULL, stream INTEGER NOT NULL,
    time TEXT NOT NULL, subject TEXT NOT NULL, type TEXT NOT NULL, sender TEXT NOT NULL,
    recipient TEXT NOT NULL, goal_id TEXT NOT NULL, task_id TEXT NOT NULL, status TEXT NOT NULL,
    person TEXT NOT NULL, text TEXT NOT NULL, size INTEGER NOT NULL
);
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
CREATE TABLE spending (
    task_id TEXT PRIMARY KEY, goal_id TEXT NOT NULL, tokens INTEGER NOT NULL, cost REAL NOT NULL
);
CREATE INDEX spending_by_goal ON spending (goal_id);
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
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 VALUES
    ('messages', 'by_goal', '90000 300 1'), ('messages', 'by_task', '80000 30 1'),
    ('messages', 'by_sender', '100000 8000 1'), ('messages', 'by_recipient', '100000 8000 1'),
    ('messages', 'by_type', '100000 2000 1'), ('messages', 'emails_by_sender', '5000 400 1'),
    ('messages', 'emails_by_recipient', '5000 400 1'), ('messages', 'by_office', '90000 1'),
    ('messages', 'by_memory', '10000 1');
ANALYZE sqlite_schema;
"""
"""The statistics say which indexes leave the fewest rows: SQLite would choose among equals by their order."""


def open_database(path: Path) -> sqlite3.Connection:
    """A connection that writes; a database that is damaged or of another version is made again."""
    db = _connect(path)
    try:
        if db.execute("PRAGMA user_version").fetchone() == (VERSION,):
            return db
    except sqlite3.DatabaseError:
        pass  # damaged
    db.close()
    return create_database(path)


def create_database(path: Path) -> sqlite3.Connection:
    """A new and empty database in place of what there is."""
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    db = _connect(path)
    db.executescript(_TABLES + TABLES)
    db.execute(f"PRAGMA user_version = {VERSION}")
    return db


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, cached_statements=256)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -4000")
    return db


def open_reading(path: Path) -> sqlite3.Connection:
    """A connection to the database that reads and never writes."""
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
