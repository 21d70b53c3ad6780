"""Everything on record of a task: attempts, thoughts, calls, memories, effects, connections, result."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from services.gateway.pages.waterfall import build_waterfall, in_order
from shared.bus import Stored
from shared.contracts import (
    CommandConnected,
    CommandJudged,
    Envelope,
    Goal,
    LoopCheckpoint,
    Task,
    TaskChanged,
    TaskResult,
    decode,
)
from shared.queries.pieces import make_piece
from shared.text.display import excerpt
from shared.text.times import format_utc, parse_time
from shared.views.activity import Activity, Row, RowKind, TaskDetails

MAX_TEXT = 20_000  # Characters of one text; the message that it is from has all of it
MAX_WHOLE = 2_000  # Rows of a task whose texts are whole; further ones have excerpts
_QUOTED = re.compile(r"What \w+ returned \(data; it gives no orders\):\n<data>\n(.*)\n</data>(.*)", re.DOTALL)


def build_activity(messages: Iterable[Stored], goal: Goal | None = None) -> Activity:
    """What ``messages`` say about the tasks in them, and about ``goal``; those of others are left out."""
    given = [each for each in messages if goal is None or _belongs(each, goal.goal_id)]
    pieces = [piece for stored in given if (piece := make_piece(stored, whole=True))]
    rows = build_waterfall(pieces, goal)
    details = _Details()
    for stored in given:
        details.add(stored)
    return Activity(
        goal_id=goal.goal_id if goal else "",
        conductor=[row for row in rows if not row.task_id],
        tasks=details.tasks(rows),
    )


def _belongs(stored: Stored, goal_id: str) -> bool:
    envelope = _read(stored)
    return envelope is not None and envelope.goal_id == goal_id


def _read(stored: Stored) -> Envelope | None:
    try:
        return decode(stored.data)
    except ValueError:
        return None


class _Message(msgspec.Struct, frozen=True):
    """A message of an agent loop, and when and where its checkpoint was stored."""

    body: Mapping[str, Any]
    agent: str
    time: str
    seq: int


class _Details:
    """Collects what is on record of several tasks."""

    def __init__(self) -> None:
        self._found: dict[str, TaskDetails] = {}
        self._loops: dict[str, dict[str, dict[int, list[_Message]]]] = {}

    def add(self, stored: Stored) -> None:
        """Add a message."""
        envelope = _read(stored)
        task_id = str(getattr(envelope, "task_id", ""))
        if envelope is None or not task_id:
            return
        details = self._found.setdefault(
            task_id, TaskDetails(task_id=task_id, rows=[], connections=[], judged=[])
        )
        match envelope:
            case Task() if details.task is None:
                details.task, details.stream, details.seq = envelope, stored.stream, stored.seq
            case TaskChanged():
                details.effects = envelope.journal
            case TaskResult():
                details.result = msgspec.structs.replace(envelope, spans=())
            case CommandConnected():
                details.connections.append(envelope)
            case CommandJudged():
                details.judged.append(envelope)
            case LoopCheckpoint():
                self._add_checkpoint(stored, envelope)

    def _add_checkpoint(self, stored: Stored, checkpoint: LoopCheckpoint) -> None:
        agent, name = stored.subject.split(".")[1], stored.subject.rpartition(".")[2]
        loop, _, number = name.rpartition("-")
        if not number.isdecimal() or len(number) > 9:
            return
        loops = self._loops.setdefault(checkpoint.task_id, {})
        loops.setdefault(loop, {})[int(number)] = [
            _Message(body, agent, stored.time, stored.seq) for body in checkpoint.messages
        ]

    def tasks(self, rows: Sequence[Row]) -> list[TaskDetails]:
        """The tasks with their rows, in the order of their submission; without one it is none."""
        inside: dict[str, list[Row]] = {}
        for row in rows:
            inside.setdefault(row.task_id, []).append(row)
        found = [each for each in self._found.values() if each.task is not None]
        for details in found:
            details.rows = self._complete(details.task_id, inside.get(details.task_id, []))
            details.status = details.rows[0].status if details.rows else ""
            spent = [row for row in details.rows if row.kind in (RowKind.MODEL, RowKind.MORE)]
            details.input_tokens = sum(row.input_tokens for row in spent)
            details.output_tokens = sum(row.output_tokens for row in spent)
            details.cost = sum(row.cost for row in spent)
        return sorted(found, key=lambda each: (each.stream, each.seq))

    def _complete(self, task_id: str, rows: list[Row]) -> list[Row]:
        """The rows with the whole texts of the messages they refer to, and a row for each other thought."""
        known: dict[str, tuple[_Message, str]] = {}
        for loop, pages in self._loops.get(task_id, {}).items():
            messages = [message for number in sorted(pages) for message in pages[number]]
            arguments = _arguments(messages)
            for place, message in enumerate(messages):
                given = arguments.get(str(message.body.get("tool_call_id", "")), "")
                known[f"{loop}:{place}"] = (message, given)
        for row in rows[:MAX_WHOLE]:
            if (found := known.get(row.ref)) is not None:
                message, given = found
                row.output = excerpt(_unquoted(str(message.body.get("text", ""))), MAX_TEXT) or row.output
                row.input = excerpt(given, MAX_TEXT) or row.input
        named = {row.ref for row in rows}
        missing = [
            _thought_row(task_id, ref, message)
            for ref, (message, _) in known.items()
            if ref not in named and message.body.get("role") == "assistant"
        ]
        return in_order([*rows, *missing]) if missing and rows else rows


def _unquoted(text: str) -> str:
    """An action's result without the frame that tells a model that it is data."""
    found = _QUOTED.fullmatch(text)
    return found[1] + found[2] if found else text


def _arguments(messages: Sequence[_Message]) -> dict[str, str]:
    """The parameters of each call, by its id."""
    return {
        str(call.get("id")): str(call.get("arguments", ""))
        for message in messages
        for call in _calls(message)
    }


def _calls(message: _Message) -> list[Mapping[str, Any]]:
    """The calls in a message; what an agent wrote there that is none is left out."""
    given = message.body.get("tool_calls")
    return [call for call in given if isinstance(call, Mapping)] if isinstance(given, list) else []


def _thought_row(task_id: str, ref: str, message: _Message) -> Row:
    """The row of a thought of which only a checkpoint knows: it was stored by an earlier version."""
    at = format_utc(parse_time(message.time))
    calls = [str(call.get("name")) for call in _calls(message)]
    return Row(
        id=ref,
        parent=task_id,
        kind=RowKind.MODEL,
        name="model",
        agent=message.agent,
        start=at,
        end=at,
        status="done",
        task_id=task_id,
        output=excerpt(str(message.body.get("text", "")), MAX_TEXT) or ", ".join(calls),
        ref=ref,
        seq=message.seq,
    )
