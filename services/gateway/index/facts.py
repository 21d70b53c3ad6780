"""What messages say about tasks, spending and the policy, in tables: figures need no reading of the log."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from services.gateway.metrics.computing import best_score, read_inspection
from shared import subjects
from shared.bus import Stored
from shared.contracts import (
    ApprovalRequest,
    CommandVerdict,
    Delivery,
    DeliveryReply,
    ResultOutcome,
    TaskStatus,
)
from shared.contracts.cognition import kind_of, spending_of
from shared.contracts.task import Span, SpanKind
from shared.tasks.submission import UNREACHED

_SUBMITTED = (
    "INSERT INTO tasks (name, agent, lane, kind, goal_id, submitted_at) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (name) DO NOTHING"
)
_CLAIMED = (
    "UPDATE tasks SET attempts = max(attempts, ?1), claimed_at = iif(claimed_at = '', ?2, claimed_at), "
    "waited = coalesce(waited, max(0, (julianday(?2) - julianday(submitted_at)) * 86400)), "
    "status = 'in_progress' WHERE name = ?3 AND ended_at = ''"
)
_ENDED = (
    "UPDATE tasks SET ended_at = ?1, status = ?2, outcome = ?3, attempts = max(attempts, ?4), "
    "tokens = ?5, cost = ?6, rules = ?7, broken = ?8, violations = ?9, unchecked = ?11, offline = ?13, "
    "claimed_at = iif(claimed_at = '', ?12, claimed_at), "
    "waited = coalesce(waited, max(0, (julianday(nullif(?12, '')) - julianday(submitted_at)) * 86400)), "
    "worked = max(0, (julianday(?1) - julianday(nullif(iif(claimed_at = '', ?12, claimed_at), ''))) * 86400) "
    "WHERE name = ?10 AND ended_at = ''"
)
_SCORE = "INSERT INTO scores VALUES (?, ?, ?)"
_USED = (
    "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hour, agent, model) DO UPDATE SET "
    "calls = calls + excluded.calls, input = input + excluded.input, output = output + excluded.output, "
    "cost = cost + excluded.cost"
)
_POLICY = "INSERT OR REPLACE INTO policy VALUES (?, ?, ?, ?, ?, ?, ?)"
_DELIVERY = "INSERT OR REPLACE INTO deliveries VALUES (?, ?, ?, ?, ?, ?)"
_REPLY = "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?)"
_JOURNAL = (
    "INSERT OR REPLACE INTO policy SELECT 'journal', ?1, ?2, ?3, '', '', ?4 "
    "WHERE EXISTS (SELECT 1 FROM policy WHERE kind = 'judged' AND label LIKE '%:' || ?1)"
)
HOUR = len("2026-11-30T05")  # The characters of a time up to its hour
MAX_COUNT = 2**53  # The largest count that is kept; agents may write larger ones
_LANES = {step: priority.lower() for priority, step in subjects.NEW.items()}


class Change(NamedTuple):
    """A statement of SQL and its values."""

    sql: str
    values: tuple[Any, ...]


class _Task(msgspec.Struct):
    text: str = ""
    created_at: str = ""
    goal_id: str = ""
    context: dict[str, Any] = {}


class _Step(msgspec.Struct):
    task_id: str = ""
    goal_id: str = ""
    created_at: str = ""
    completed_at: str = ""
    begun_at: str = ""
    status: str = ""
    outcome: str = ""
    attempt: int = 0
    metadata: dict[str, Any] = {}
    journal: tuple[msgspec.Raw, ...] = ()
    spans: tuple[msgspec.Raw, ...] = ()


class _Judged(msgspec.Struct):
    verdict: str = ""
    task_id: str = ""
    goal_id: str = ""
    created_at: str = ""


class _Mail(msgspec.Struct):
    created_at: str = ""
    goal_id: str = ""
    context_used: dict[str, Any] | None = None


_read_task = msgspec.json.Decoder(_Task).decode
_read_step = msgspec.json.Decoder(_Step).decode
_read_judged = msgspec.json.Decoder(_Judged).decode
_read_mail = msgspec.json.Decoder(_Mail).decode
_read_asked = msgspec.json.Decoder(ApprovalRequest).decode
_read_delivery = Delivery.from_json
_read_reply = DeliveryReply.from_json


def facts_of(stored: Stored) -> list[Change]:
    """What a message changes in the tables; nothing if it says nothing there, or cannot be read.

    An end of a task that cannot be read is its failure, as for its requester.
    """
    try:
        return list(_changes(stored))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        match stored.subject.split("."):
            case ["task", agent, requester, task_id, step] if step in subjects.FINAL_STEPS:
                failed = (stored.time, str(TaskStatus.FAILED), "", 0, 0, 0.0, None, None, None)
                return [Change(_ENDED, (*failed, f"{agent}.{requester}.{task_id}", "", "", 0))]
        return []


def _known(value: str, values: type[StrEnum]) -> str:
    """``value`` if it is one of an enumeration, else ``other``: agents may write anything."""
    return value if value in values.__members__.values() else "other"


def _limited(number: float) -> int:
    """A count that the tables can hold."""
    return int(min(max(number, 0), MAX_COUNT))


def _changes(stored: Stored) -> Iterator[Change]:
    match stored.subject.split("."):
        case ["task", agent, requester, task_id, step]:
            yield from _of_task(stored, f"{agent}.{requester}.{task_id}", agent, step)
        case ["event", agent, "command_judged"]:
            judged = _read_judged(stored.data)
            label = f"{_known(judged.verdict, CommandVerdict)}:{judged.task_id}"
            values = ("judged", str(stored.seq), judged.created_at, agent, label, judged.goal_id, stored.data)
            yield Change(_POLICY, values)
        case ["approval", agent, "asked", approval_id]:
            asked = _read_asked(stored.data)
            values = ("asked", approval_id, asked.expires_at, agent, "", asked.goal_id, stored.data)
            yield Change(_POLICY, values)
        case ["approval", agent, "answered", approval_id]:
            yield Change(_POLICY, ("answered", approval_id, stored.time, agent, "", "", stored.data))
        case ["state", "goal", _] if b'"spans":[{' in stored.data:
            yield from _usage(_read_step(stored.data).spans, subjects.CONDUCTOR)
        case ["record", subjects.GATEWAY, subjects.DELIVERY, delivery_id]:
            told = _read_delivery(stored.data)
            state = (told.channel, str(told.status), told.first_at, told.reference)
            yield Change(_DELIVERY, (delivery_id, *state, stored.data))
        case ["record", subjects.GATEWAY, subjects.REPLY, reply_id]:
            reply = _read_reply(stored.data)
            said = (reply.delivery_id, str(reply.outcome), reply.created_at)
            yield Change(_REPLY, (reply_id, *said, stored.data))
        case ["mail", _, subjects.NEXUS] if b'"context_used"' in stored.data:
            mail = _read_mail(stored.data)
            yield from _scores(mail.created_at, mail.context_used, mail.goal_id)


def _of_task(stored: Stored, name: str, agent: str, step: str) -> Iterator[Change]:
    if step in _LANES:
        task = _read_task(stored.data)
        kind = kind_of(task.text, str(task.context.get("action") or ""))
        yield Change(_SUBMITTED, (name, agent, _LANES[step], kind, task.goal_id, task.created_at))
        return
    read = _read_step(stored.data)
    if step == subjects.CLAIMED:
        yield Change(_CLAIMED, (_limited(read.attempt), read.created_at, name))
    elif step in subjects.FINAL_STEPS:
        yield from _of_end(read, name)
    if read.journal:
        journal = msgspec.json.encode(read.journal)
        yield Change(_JOURNAL, (read.task_id, read.created_at, agent, journal))
    yield from _usage(read.spans, agent)


def _usage(spans: tuple[msgspec.Raw, ...], agent: str) -> Iterator[Change]:
    for raw in spans:
        span = msgspec.json.decode(raw, type=Span)
        if span.kind is SpanKind.MODEL or span.input_tokens or span.output_tokens:
            model = span.name if span.kind is SpanKind.MODEL else "other"
            numbers = (span.count, span.input_tokens, span.output_tokens)
            used = (*map(_limited, numbers), span.cost)
            yield Change(_USED, (span.started_at[:HOUR], agent, model, *used))


def _of_end(read: _Step, name: str) -> Iterator[Change]:
    """The end of a task; the numbers of rules and violations are NULL if it was no inspection."""
    meta = read.metadata
    tokens, cost = spending_of(meta)
    at = read.completed_at or read.created_at
    status, outcome = _known(read.status, TaskStatus), _known(read.outcome, ResultOutcome)
    drift: tuple[int | None, ...] = (None, None, None)
    unchecked = ""
    if found := read_inspection(meta):
        counts, rules = found
        drift = (len(counts), sum(count > 0 for count in counts), sum(counts))
        unchecked = "\n".join(" ".join(rule.split()) for rule in rules)
    spent = (_limited(read.attempt), _limited(tokens), cost)
    offline = int(bool(meta.get(UNREACHED)))
    yield Change(_ENDED, (at, status, outcome, *spent, *drift, name, unchecked, read.begun_at, offline))
    yield from _scores(at, meta.get("context"), read.goal_id)


def _scores(at: str, context: object, goal_id: str) -> Iterator[Change]:
    if (best := best_score(context)) is not None:
        yield Change(_SCORE, (at, best, goal_id))
