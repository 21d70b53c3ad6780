"""The tables of the index, its file, and what is read from them."""

import re
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from services.gateway.index.concealing import conceal
from services.gateway.index.rows import STREAMS, Header, Indexed, Position, read_header
from shared.bus import Stored
from shared.contracts import Goal
from shared.errors import StartError
from shared.views.timeline import MessageRow

VERSION = 15  # The version of the tables; an index of another version is rebuilt

TABLES = Path(__file__).with_name("tables.sql")


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
    db.executescript(TABLES.read_text())
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


MAX_PAGE = 500  # The most rows of one page

PART = "part"  # The status in the index of a goal that is a part of a task
_TEXTS = (
    "time",
    "subject",
    "type",
    "sender",
    "recipient",
    "goal_id",
    "task_id",
    "status",
    "person",
    "text",
    "audience",
)
_COLUMNS = f"number, office, memory, stream, {', '.join(_TEXTS)}, size"

_WORD = re.compile(r"\w+")
_SAYS = b'"audience":"'  # What a message has that may be for one of the people alone


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages: of an agent (sender or recipient), a goal, a task, a type, a subject's beginning or
    pattern (``mail.*.user``, ``state.>``), with these words; empty fields admit everything.
    """

    agent: str = ""
    goal: str = ""
    task: str = ""
    type: str = ""
    subject: str = ""
    text: str = ""

    def matches(self, row: MessageRow) -> bool:
        """Whether a message that has just arrived is admitted; words are looked for as parts of the text."""
        pattern = re.escape(self.subject.removesuffix(">")).replace(r"\*", ".*")
        return (
            (not self.agent or self.agent in (row.sender, row.recipient))
            and (not self.goal or row.goal_id == self.goal)
            and (not self.task or row.task_id == self.task)
            and (not self.type or row.type == self.type)
            and (not self.subject or re.match(pattern, row.subject) is not None)
            and all(word in row.text.lower() for word in self.text.lower().split())
        )


class _Repeated(msgspec.Struct):
    retry_of: str = ""


_read_repeated = msgspec.json.Decoder(_Repeated)


class Store:
    """The database of the index: one writer, in the process of the gateway.

    It holds nothing that the log does not, so it is not synced to disk and is rebuilt if it is damaged.
    """

    def __init__(self, path: Path, *, read_only: bool = False, reader: str = "") -> None:
        """With a ``reader`` it shows what that one of the people may see, and writes nothing."""
        self.path, self.reader = path.absolute(), reader
        self.made = 0
        """How often it was rebuilt: a reader with a connection of its own has to open another one then."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = open_reading(self.path) if read_only or reader else open_database(path)
            if reader:
                conceal(self._db, reader)
        except (OSError, sqlite3.Error) as error:
            raise StartError(
                f"The gateway's index {path} cannot be used: {error}",
                "Make its folder writable, or delete the file",
            ) from None
        self._number: int = self._one("SELECT coalesce(max(number), 0) FROM messages")
        self._has_private = bool(self._one("SELECT count(*) FROM (SELECT 1 FROM private LIMIT 1)"))

    def again(self) -> "Store":
        """The same on a connection of its own, which reads: for another thread."""
        return Store(self.path, read_only=True, reader=self.reader)

    def find_audience(self, stored: Stored, lately: Mapping[str, str]) -> tuple[str, Header | None]:
        """For whom alone a message is, by what it says or follows from, as indexed and ``lately`` read; and
        its header if it is for one of the people.
        """
        if not (lately or self._has_private or _SAYS in stored.data):
            return "", None
        header = read_header(stored)
        keys = [key for key in (header.task_id, header.cause) if key]
        found = header.audience or next(filter(None, map(lately.get, keys)), "")
        for key in () if found else keys:
            found = found or self._text("SELECT audience FROM private WHERE key = ?", key)
        return found, header if found else None

    def hides(self, stored: Stored) -> bool:
        """Whether a message is kept from the reader."""
        return self.audience_of(stored) not in ("", self.reader)

    def audience_of(self, stored: Stored) -> str:
        """For whom alone a message is; empty: for the team."""
        if stored.stream not in STREAMS:
            return ""
        number = STREAMS.index(stored.stream)
        where = f"stream = {number} AND {('office', 'memory')[number]} = ?"
        found = self._db.execute(f"SELECT audience FROM main.messages WHERE {where}", [stored.seq]).fetchone()
        return str(found[0]) if found else self.find_audience(stored, {})[0]

    @property
    def count(self) -> int:
        """How many messages are indexed."""
        return self._last()

    def _last(self) -> int:
        """The number of the last message; another connection writes what a reader sees."""
        return (
            self._one("SELECT coalesce(max(number), 0) FROM main.messages") if self.reader else self._number
        )

    def position(self) -> Position:
        """How far the log is indexed."""
        row = self._db.execute("SELECT office, memory FROM messages ORDER BY number DESC LIMIT 1").fetchone()
        return Position(*row) if row else Position()

    def add(self, rows: Sequence[Indexed]) -> None:
        """Add messages in the order of their positions, in one transaction: all, or with an error none."""
        messages, words, letters, goals, pieces, private = [], [], [], [], [], []
        for number, (row, text, record, letter, piece, _, header) in enumerate(rows, self._number + 1):
            place = Position.parse(row.position)
            texts = [getattr(row, name) for name in _TEXTS]
            messages.append((number, place.office, place.memory, STREAMS.index(row.stream), *texts, row.size))
            words.append((number, text, f"{row.sender} {row.recipient}"))
            if letter is not None:
                letters.append((number, *letter))
            if record is not None and record.goal is not None:
                goal = record.goal
                agents = " ".join(sorted({task.assignee for task in goal.tasks}))
                # A part of a task is listed with that: no list of goals asks for its status.
                status = PART if goal.part_of else str(goal.status)
                state = (status, str(goal.outcome), f"{goal.goal_id} {goal.text}".lower())
                goals.append((goal.goal_id, number, number, *state, f" {agents} ", goal.to_json()))
            if piece is not None:
                pieces.append((number, piece.goal_id, piece.task_id, msgspec.json.encode(piece)))
            if header is not None:
                private += [(key, row.audience) for key in (header.id, header.task_id) if key]
        with self._db:
            self._db.executemany(f"INSERT INTO messages VALUES ({_marks(16)})", messages)
            self._db.executemany("INSERT INTO letters VALUES (?, ?, ?, ?)", letters)
            self._db.executemany("INSERT INTO words (rowid, body, agents) VALUES (?, ?, ?)", words)
            self._db.executemany(
                f"INSERT INTO goals VALUES ({_marks(8)}) ON CONFLICT (goal_id) DO UPDATE SET "
                "number = excluded.number, status = excluded.status, outcome = excluded.outcome, "
                "text = excluded.text, agents = excluded.agents, record = excluded.record",
                goals,
            )
            self._db.executemany(f"INSERT INTO pieces VALUES ({_marks(4)})", pieces)
            self._db.executemany("INSERT OR IGNORE INTO private VALUES (?, ?)", private)
            for indexed in rows:
                for change in indexed.facts:
                    self._db.execute(change.sql, change.values)
        self._number += len(rows)
        self._has_private = self._has_private or bool(private)

    def renew(self) -> None:
        """Make the database again, empty; raises sqlite3.Error or OSError."""
        self._db.close()
        self._db = create_database(self.path)
        self._number, self._has_private = 0, False
        self.made += 1

    # --- messages ------------------------------------------------------------------------------------

    def messages(
        self,
        wanted: Filter,
        *,
        after: Position | None = None,
        before: Position | None = None,
        limit: int = 100,
    ) -> list[MessageRow]:
        """The first messages after a position, oldest first; else the last before one, newest first."""
        clauses: list[str] = []
        values: list[Any] = []
        for column, value in (("goal_id", wanted.goal), ("task_id", wanted.task), ("type", wanted.type)):
            if value:
                clauses.append(f"{column} = ? AND {column} != ''")  # as the conditions of their indexes say
                values.append(value)
        if wanted.subject:
            # A pattern of subjects, or the beginning of one; ``*`` may match several tokens.
            escaped = re.sub(r"([?\[])", r"[\1]", wanted.subject)
            clauses.append("subject GLOB ?")
            values.append(escaped if escaped.endswith("*") else escaped.removesuffix(">") + "*")
        if after is not None:
            # The second half matters after the index was rebuilt, which may order the streams differently.
            clauses.append("number > ? AND (CASE stream WHEN 0 THEN office > ? ELSE memory > ? END)")
            values += [self._number_at(after), after.office, after.memory]
        if before is not None:
            clauses.append("number < ?")
            values.append(self._number_at(before) or 1)
        chosen, values = _choose(wanted, clauses, values, "DESC" if after is None else "ASC")
        return self._rows(chosen, [*values, min(limit, MAX_PAGE)])

    def message(self, stream: str, seq: int) -> MessageRow | None:
        """The message at this place of the log."""
        column = "office" if stream == STREAMS[0] else "memory"
        found = self._rows(
            f"SELECT {_COLUMNS} FROM messages WHERE stream = {STREAMS.index(stream)} AND {column} = ?", [seq]
        )
        return found[0] if found else None

    def last_of(self, kind: str) -> int:
        """The number of the last message of a type; 0 if there is none."""
        return self._one("SELECT coalesce(max(number), 0) FROM messages WHERE type = ?", kind)

    def count_between(self, first: int, last: int) -> int:
        """How many messages of OFFICE from one sequence to another are indexed."""
        return self._one(
            "SELECT count(*) FROM messages WHERE stream = 0 AND office BETWEEN ? AND ?", first, last
        )

    def all_of_goal(self, goal_id: str, limit: int = 20_000) -> list[MessageRow]:
        """Every message of a goal, oldest first."""
        return self.rows("goal_id = ? AND goal_id != ''", [goal_id], limit)

    def all_of_task(self, task_id: str, limit: int = 20_000) -> list[MessageRow]:
        """Every message of a task, oldest first."""
        return self.rows("task_id = ? AND task_id != ''", [task_id], limit)

    def rows(self, where: str, values: Sequence[Any], limit: int) -> list[MessageRow]:
        """The first messages for which the SQL condition ``where`` holds, oldest first."""
        sql = f"SELECT {_COLUMNS} FROM messages WHERE {where} ORDER BY number LIMIT ?"
        return self._rows(sql, [*values, limit])

    # --- goals ---------------------------------------------------------------------------------------

    def goal(self, goal_id: str) -> Goal | None:
        """The last record of a goal."""
        row = self._db.execute("SELECT record FROM goals WHERE goal_id = ?", [goal_id]).fetchone()
        return Goal.from_checked_json(row[0]) if row else None

    def goals(
        self,
        *,
        statuses: Sequence[str] = (),
        outcome: str = "",
        agent: str = "",
        text: str = "",
        also: tuple[str, Sequence[Any]] = ("", ()),
        before: int = 0,
        limit: int = 50,
    ) -> list[tuple[int, Goal]]:
        """Goals with their cursors, the latest submitted first; ``before`` is a cursor (0: none).

        ``also`` is a further condition in SQL, with its values.
        """
        clauses: list[str] = ["status != ?"]
        values: list[Any] = [PART]
        if statuses:
            clauses.append(f"status IN ({_marks(len(statuses))})")
            values += statuses
        if outcome:
            clauses.append("outcome = ?")
            values.append(outcome)
        if agent:
            clauses.append("instr(agents, ?)")
            values.append(f" {agent} ")
        for word in text.lower().split():
            clauses.append("instr(text, ?)")
            values.append(word)
        if also[0]:
            clauses.append(also[0])
            values += also[1]
        if before:
            clauses.append("submitted < ?")
            values.append(before)
        where = " AND ".join(clauses)
        sql = f"SELECT submitted, record FROM goals WHERE {where} ORDER BY submitted DESC LIMIT ?"
        rows = self._db.execute(sql, [*values, min(limit, MAX_PAGE)])
        return [(submitted, Goal.from_checked_json(record)) for submitted, record in rows]

    def latest_goals(self, limit: int) -> list[Goal]:
        """The goals that changed last, those that are open before those that ended, in no order."""
        sql = (
            "SELECT record FROM goals WHERE status != ? "
            "ORDER BY status IN ('pending', 'in_progress', 'review') DESC, number DESC LIMIT ?"
        )
        return [Goal.from_checked_json(record) for (record,) in self._db.execute(sql, [PART, limit])]

    def failed_goals(self, limit: int) -> list[Goal]:
        """The last goals that failed, the latest submitted last."""
        where = "status IN ('failed', 'timeout') OR (status = 'completed' AND outcome = 'failed')"
        sql = f"SELECT record FROM goals WHERE {where} ORDER BY submitted DESC LIMIT ?"
        return [Goal.from_checked_json(record) for (record,) in self._db.execute(sql, [limit])][::-1]

    def asking_goals(self, limit: int) -> list[Goal]:
        """Those of the last goals that wait for a person's answer, the latest submitted last."""
        sql = (
            "SELECT record FROM (SELECT record FROM goals WHERE status = 'completed' ORDER BY submitted DESC "
            """LIMIT ?) WHERE instr(CAST(record AS TEXT), '"question":"')"""
        )
        found = [Goal.from_checked_json(record) for (record,) in self._db.execute(sql, [limit])][::-1]
        return [goal for goal in found if goal.question and not goal.part_of]

    def repeated_since(self, goal_id: str) -> set[str]:
        """The goals that were repeated by one that was submitted after ``goal_id``."""
        sql = "SELECT record FROM goals WHERE submitted > (SELECT submitted FROM goals WHERE goal_id = ?)"
        return {_read_repeated.decode(record).retry_of for (record,) in self._db.execute(sql, [goal_id])}

    def spending(self, goal_ids: Sequence[str]) -> dict[str, tuple[int, float]]:
        """Tokens and US dollars of the tasks that have ended, by goal; without those that used no model."""
        sql = (
            "SELECT goal_id, sum(tokens), sum(cost) FROM tasks "
            f"WHERE goal_id IN ({_marks(len(goal_ids))}) AND (tokens OR cost) GROUP BY goal_id"
        )
        return {goal_id: (tokens, cost) for goal_id, tokens, cost in self._db.execute(sql, list(goal_ids))}

    def count_goals(self) -> dict[str, int]:
        """The number of goals by status."""
        sql = "SELECT status, count(*) FROM goals WHERE status != ? GROUP BY status"
        return dict(self._db.execute(sql, [PART]))

    def query(self, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """The answer to any other question to the tables."""
        return self._db.execute(sql, list(values)).fetchall()

    def limit(self, seconds: float) -> None:
        """End a question that takes longer with sqlite3.OperationalError, from now on."""
        end = time.monotonic() + seconds
        self._db.set_progress_handler(lambda: time.monotonic() > end, 10_000)

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _number_at(self, position: Position) -> int:
        """The number of the message whose position is ``position``; else of the last one before it."""
        # Both numbers of a position only grow, so that this is a binary search.
        low, high = 0, self._last()
        while low < high:
            middle = (low + high + 1) // 2
            (office, memory) = self._db.execute(
                "SELECT office, memory FROM main.messages WHERE number = ?", [middle]
            ).fetchone()
            if office <= position.office and memory <= position.memory:
                low = middle
            else:
                high = middle - 1
        return low

    def _rows(self, sql: str, values: Sequence[Any]) -> list[MessageRow]:
        return [
            MessageRow(
                position=f"{office}-{memory}",
                stream=STREAMS[stream],
                seq=memory if stream else office,
                time=time,
                subject=subject,
                type=kind,
                sender=sender,
                recipient=recipient,
                goal_id=goal_id,
                task_id=task_id,
                status=status,
                person=person,
                text=text,
                audience=audience,
                size=size,
            )
            # As _COLUMNS has them; written out, since a page has a hundred
            for (
                _,
                office,
                memory,
                stream,
                time,
                subject,
                kind,
                sender,
                recipient,
                goal_id,
                task_id,
                status,
                person,
                text,
                audience,
                size,
            ) in self._db.execute(sql, values)
        ]

    def _text(self, sql: str, *values: Any) -> str:
        found = self._db.execute(sql, values).fetchone()
        return str(found[0]) if found else ""

    def _one(self, sql: str, *values: Any) -> int:
        (value,) = self._db.execute(sql, values).fetchone()
        return int(value)


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _choose(
    wanted: Filter, clauses: Sequence[str], values: Sequence[Any], order: str
) -> tuple[str, list[Any]]:
    """The question for a page: such that the first rows are found without reading all that there are."""
    end = f"ORDER BY number {order} LIMIT ?"
    if words := _WORD.findall(wanted.text):
        match = " ".join(f'"{word}"*' for word in words)
        conditions = ["words MATCH ?", *clauses]
        if wanted.agent:
            conditions.append("? IN (sender, recipient)")
            match = f'body : ({match}) AND agents : "{" ".join(_WORD.findall(wanted.agent))}"'
        else:
            match = f"body : ({match})"
        where = " AND ".join(conditions)
        source = "words CROSS JOIN messages ON number = words.rowid"
        given = [match, *values, *([wanted.agent] if wanted.agent else [])]
        return f"SELECT {_COLUMNS} FROM {source} WHERE {where} ORDER BY words.rowid {order} LIMIT ?", given
    if not wanted.agent:
        where = f"WHERE {' AND '.join(clauses)}" if clauses else ""
        return f"SELECT {_COLUMNS} FROM messages {where} {end}", list(values)
    halves = []
    for column in ("sender", "recipient"):
        where = " AND ".join([f"{column} = ?", *clauses])
        halves.append(f"SELECT * FROM (SELECT {_COLUMNS} FROM messages WHERE {where} {end})")
    half = [wanted.agent, *values, MAX_PAGE]
    return f"SELECT * FROM ({' UNION '.join(halves)}) {end}", [*half, *half]
