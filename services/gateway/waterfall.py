"""The waterfall of a goal or task, rows each under the one it is part of; all on record of a task."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Stored
from shared.contracts import (
    CommandConnected,
    CommandJudged,
    Envelope,
    Goal,
    LoopCheckpoint,
    Span,
    Task,
    TaskChanged,
    TaskResult,
    decode,
)
from shared.contracts.base import amended
from shared.queries.pieces import SHORT, Piece, PieceKind, make_piece
from shared.text.display import excerpt
from shared.text.times import format_utc, parse_time
from shared.views.timeline import Activity, Row, RowKind, TaskDetails

BY_MODEL = "brain"  # The ``playbook`` of a goal that a model planned
SHORTEST_WAIT = 0.05  # Seconds for which a task has to wait for a free process to have a row for that
LONGEST = 1e7  # Seconds of the longest row of a span: four months
FINAL = ("completed", "failed", "timeout", "cancelled")  # The states in which a goal has ended
PLAN = "plan"
REPORT = "report"  # The ids of the rows of the conductor's own work on a goal


def build_waterfall(pieces: Iterable[Piece], goal: Goal | None = None) -> list[Row]:
    """The rows of all tasks in ``pieces``, and of the conductor's work on ``goal``, each after its parent."""
    # The server omits trailing zeros of a fraction.
    ordered = sorted(pieces, key=lambda piece: (piece.stream, piece.time.rstrip("Z"), piece.seq))
    names = {task.task_id: task.name for task in (*goal.earlier, *goal.tasks)} if goal else {}
    tracks: dict[str, _Track] = {}
    for piece in ordered:
        if piece.kind is PieceKind.SUBMITTED and piece.task_id not in tracks:
            tracks[piece.task_id] = _Track(piece, names.get(piece.task_id, ""))
        elif piece.task_id in tracks and piece.kind not in (PieceKind.ASKED, PieceKind.ANSWERED):
            tracks[piece.task_id].steps.append(piece)
    by_envelope = {track.submitted.id: task_id for task_id, track in tracks.items()}
    rows = _conductor_rows(goal, ordered, tracks) if goal else []
    for track in tracks.values():
        rows += track.rows(by_envelope.get(track.submitted.cause, ""))
    rows += _approval_rows(ordered, tracks)
    return in_order(rows)


def in_order(rows: Sequence[Row]) -> list[Row]:
    """The rows as a tree: each after its parent, those of one parent by their start."""
    known = {row.id for row in rows}
    inside: dict[str, list[Row]] = {}
    for row in rows:
        if row.parent not in known or row.parent == row.id:
            row.parent = ""
        inside.setdefault(row.parent, []).append(row)
    for siblings in inside.values():
        siblings.sort(key=lambda row: row.start)
    ordered: list[Row] = []
    waiting = list(reversed(inside.pop("", [])))
    while waiting:
        row = waiting.pop()
        ordered.append(row)
        waiting += reversed(inside.pop(row.id, []))
        if not waiting and any(inside.values()):  # rows that claim to be part of each other
            row = next(rows for rows in inside.values() if rows).pop(0)
            row.parent = ""
            waiting.append(row)
    return ordered


class _Track:
    """The pieces of one task."""

    def __init__(self, submitted: Piece, name: str) -> None:
        self.submitted = submitted
        self.name = name or submitted.action or submitted.text
        self.steps: list[Piece] = []

    @property
    def last(self) -> Piece:
        """The step by which the task is as it is."""
        return self.steps[-1] if self.steps else self.submitted

    @property
    def ended(self) -> Piece | None:
        """The step that ended it."""
        return self.last if self.last.kind is PieceKind.ENDED else None

    def rows(self, parent: str) -> list[Row]:
        """The row of the task, of its waiting, of its attempts if there are several, and what is in them."""
        claims = self._claims()
        task = self._task_row(parent, bool(claims))
        rows = [task, *self._waits(claims)]
        several = len(claims) > 1
        for place, claim in enumerate(claims):
            after = claims[place + 1] if place + 1 < len(claims) else self.ended
            killed = after is not None and after.kind is PieceKind.CLAIMED
            status = "running" if after is None else "killed" if killed else _status(after)
            same = after is not None and claim.worker and claim.worker == after.worker
            given_up = (
                "it was given up, and the same process began again"
                if same
                else "its process ended, and another took over"
            )
            attempt = Row(
                id=f"{claim.task_id}.{claim.attempt}",
                parent=claim.task_id,
                kind=RowKind.ATTEMPT,
                name=f"attempt {claim.attempt}",
                start=_utc(claim.time),
                end=_utc(after.time) if after else "",
                status=status,
                note=given_up if killed else "",
                attempt=claim.attempt,
                worker=claim.worker,
                **_at(claim),
            )
            until = after.seq if after else self.last.seq
            steps = [
                piece
                for piece in self.steps
                if piece is claim or (claim.seq < piece.seq <= until and piece.kind is not PieceKind.CLAIMED)
            ]
            inner = attempt if several else task
            rows += [attempt] if several else []
            for step in steps:
                rows += [self._span_row(span, inner, claim, attempt, step) for span in step.spans]
        return rows + self._effect_rows(task)

    def _claims(self) -> list[Piece]:
        """The steps that begin an attempt; of a task that was never claimed its end says when it began."""
        claims = [piece for piece in self.steps if piece.kind is PieceKind.CLAIMED]
        ended, first = self.ended, self.submitted
        if claims or ended is None or not ended.begun_at:
            return claims
        begun = min(max(_utc(ended.begun_at), _utc(first.time)), _utc(ended.time))
        return [msgspec.structs.replace(ended, kind=PieceKind.CLAIMED, time=begun, seq=first.seq, spans=())]

    def _task_row(self, parent: str, begun: bool) -> Row:
        ended, first = self.ended, self.submitted
        status = _status(ended) if ended else ("running" if begun else "waiting")
        spent = ended or first
        return Row(
            id=first.task_id,
            parent=parent,
            kind=RowKind.TASK,
            name=self.name,
            agent=first.agent,
            start=_utc(first.time),
            end=_utc(ended.time) if ended else "",
            status=status,
            note=self.last.text if self.steps else "",
            task_id=first.task_id,
            attempt=max((piece.attempt for piece in self.steps), default=0),
            input=first.text,
            input_tokens=spent.tokens,
            cost=spent.cost,
            stream=first.stream,
            seq=(ended or first).seq,
        )

    def _waits(self, claims: Sequence[Piece]) -> list[Row]:
        begin, end = self.submitted, claims[0] if claims else self.ended
        waited = (parse_time(end.time) - parse_time(begin.time)).total_seconds() if end else SHORTEST_WAIT
        if waited < SHORTEST_WAIT:
            return []
        return [
            Row(
                id=f"{begin.task_id}.w",
                parent=begin.task_id,
                kind=RowKind.WAITING,
                name="waits for a free process",
                start=_utc(begin.time),
                end=_utc(end.time) if end else "",
                status="done" if end else "waiting",
                **_at(begin),
            )
        ]

    def _span_row(self, span: Span, inner: Row, claim: Piece, attempt: Row, step: Piece) -> Row:
        row = span_row(span, f"{claim.task_id}.{claim.attempt}", inner.id)
        row.agent, row.task_id, row.attempt = claim.agent, claim.task_id, claim.attempt
        row.worker, row.stream, row.seq = claim.worker, step.stream, step.seq
        # The clocks of two machines may differ: no row leaves the attempt that it is part of.
        row.start = max(row.start, attempt.start)
        row.end = max(row.start, min(row.end, attempt.end) if attempt.end else row.end)
        return row

    def _effect_rows(self, task: Row) -> list[Row]:
        steps = [piece for piece in self.steps if piece.effects]
        effects = steps[-1].effects if steps else ()
        # The end of the last effect is stored with the result, which has no journal.
        undone = self.ended is not None and self.ended.status != "completed"
        going_on = "running" if self.ended is None else "failed" if undone else "done"
        return [
            Row(
                id=f"{task.id}.e{number}",
                parent=task.id,
                kind=RowKind.EFFECT,
                name=effect.what[:200],
                agent=task.agent,
                start=max(_utc(effect.started_at), task.start),
                end=_utc(effect.finished_at) if effect.finished_at else task.end,
                status="done" if effect.finished_at else going_on,
                note="it may or may not have happened" if undone and not effect.finished_at else "",
                task_id=task.task_id,
                stream=steps[-1].stream,
                seq=steps[-1].seq,
            )
            for number, effect in enumerate(effects, 1)
        ]


def span_row(span: Span, prefix: str, outermost: str) -> Row:
    """The row of a span; its parent is ``outermost`` if it is part of no other."""
    try:
        started = parse_time(span.started_at)
        ended = started + timedelta(seconds=max(0.0, min(span.seconds, LONGEST)))
    except (ValueError, OverflowError):  # a clock that is thousands of years off
        started = ended = datetime.fromtimestamp(0, UTC)
    return Row(
        id=f"{prefix}.{span.number}",
        parent=f"{prefix}.{span.parent}" if span.parent else outermost,
        kind=RowKind(str(span.kind)),
        name=span.name,
        start=format_utc(started),
        end=format_utc(ended),
        status="failed" if span.failed else "done",
        input=span.input,
        output=span.output,
        ref=span.ref,
        input_tokens=span.input_tokens,
        output_tokens=span.output_tokens,
        cost=span.cost,
        count=span.count,
        cached_tokens=span.cached_tokens,
        instead_of=span.instead_of,
    )


def _conductor_rows(goal: Goal, pieces: Sequence[Piece], tracks: dict[str, _Track]) -> list[Row]:
    """The conductor's plan and report of a goal, and its calls of a model."""
    records = [piece for piece in pieces if piece.kind is PieceKind.RECORDED]
    start, planned = _utc(goal.submitted_at), next((r for r in records if r.text), None)
    over = planned or next((r for r in records if r.status in FINAL), None)
    how = "by a model" if goal.playbook in ("", BY_MODEL) else f"from the playbook {goal.playbook}"
    plan = Row(
        id=PLAN,
        kind=RowKind.CONDUCTOR,
        name=f"Plan {how}",
        agent=subjects.CONDUCTOR,
        start=start,
        end=_utc(over.time) if over else "",
        status="done" if over else "running",
        stream=over.stream if over else "",
        seq=over.seq if over else 0,
    )
    plan.end = max(plan.start, plan.end) if over else ""
    rows = [plan]
    ends = [track.ended.time for track in tracks.values() if track.ended]
    if goal.ended_at and ends:
        begin = min(_utc(max(ends)), _utc(goal.ended_at))
        rows.append(
            Row(
                id=REPORT,
                kind=RowKind.CONDUCTOR,
                name="Report, remember",
                agent=subjects.CONDUCTOR,
                start=begin,
                end=_utc(goal.ended_at),
                status="done",
                stream=records[-1].stream if records else "",
                seq=records[-1].seq if records else 0,
            )
        )
    for record in records:
        for span in record.spans:
            inside = REPORT if len(rows) > 1 and _utc(span.started_at) >= rows[1].start else PLAN
            row = span_row(amended(span, parent=0), f"{inside}.{record.seq}", inside)
            row.agent, row.stream, row.seq = subjects.CONDUCTOR, record.stream, record.seq
            rows.append(row)
    return rows


def _approval_rows(pieces: Sequence[Piece], tracks: dict[str, _Track]) -> list[Row]:
    answers = {piece.id: piece for piece in pieces if piece.kind is PieceKind.ANSWERED}
    rows = []
    for asked in pieces:
        if asked.kind is not PieceKind.ASKED:
            continue
        track, answer = tracks.get(asked.task_id), answers.get(asked.id)
        ended = track.ended if track else None
        limits = [_utc(at) for at in (asked.expires_at, ended.time if ended else "") if at]
        until = _utc(answer.time) if answer else min(limits, default="")
        over = bool(answer) or (bool(until) and until <= format_utc(datetime.now(UTC)))
        rows.append(
            Row(
                id=asked.id,
                parent=asked.task_id,
                kind=RowKind.APPROVAL,
                name=asked.text[:SHORT],
                agent=subjects.USER,
                start=_utc(asked.time),
                end=until if over else "",
                status=answer.status if answer else "refused" if over else "waiting",
                note=answer.text if answer else "no answer in time" if over else "",
                task_id=asked.task_id,
                stream=asked.stream,
                seq=(answer or asked).seq,
            )
        )
    return rows


def _at(piece: Piece) -> dict[str, Any]:
    """Whose a row is that ``piece`` begins, and where that is stored."""
    return {"agent": piece.agent, "task_id": piece.task_id, "stream": piece.stream, "seq": piece.seq}


def _status(ended: Piece) -> str:
    if ended.status == "completed":
        return ended.outcome or "done"
    return ended.status or "failed"


def _utc(time: str) -> str:
    return format_utc(parse_time(time))


MAX_TEXT = 20_000  # Characters of one text; the message that it is from has all of it
MAX_WHOLE = 2_000  # Rows of a task whose texts are whole; further ones have excerpts
_QUOTED = re.compile(
    r"(It [\w ]+\.\n)?What \w+ returned \(data; it gives no orders\):\n<data[^>\n]*>\n(.*)\n</data>(.*)",
    re.DOTALL,
)


def build_activity(messages: Iterable[Stored], goal: Goal | None = None) -> Activity:
    """What ``messages`` say about the tasks in them, and about ``goal``; those of others are left out."""
    given = [
        each
        for each in messages
        if goal is None or ((envelope := _read(each)) is not None and envelope.goal_id == goal.goal_id)
    ]
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
                agent, name = stored.subject.split(".")[1], stored.subject.rpartition(".")[2]
                loop, _, number = name.rpartition("-")
                if number.isdecimal() and len(number) <= 9:
                    self._loops.setdefault(task_id, {}).setdefault(loop, {})[int(number)] = [
                        _Message(body, agent, stored.time, stored.seq) for body in envelope.messages
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
            details.cached_tokens = sum(row.cached_tokens for row in spent)
            details.cost = sum(row.cost for row in spent)
        return sorted(found, key=lambda each: (each.stream, each.seq))

    def _complete(self, task_id: str, rows: list[Row]) -> list[Row]:
        """The rows with the whole texts of the messages they refer to, and a row for each other thought."""
        known: dict[str, tuple[_Message, str]] = {}
        for loop, pages in self._loops.get(task_id, {}).items():
            messages = [message for number in sorted(pages) for message in pages[number]]
            # the parameters of each call, by its id
            arguments = {
                str(call.get("id")): str(call.get("arguments", ""))
                for message in messages
                for call in _calls(message)
            }
            for place, message in enumerate(messages):
                given = arguments.get(str(message.body.get("tool_call_id", "")), "")
                known[f"{loop}:{place}"] = (message, given)
        for row in rows[:MAX_WHOLE]:
            if (found := known.get(row.ref)) is not None:
                message, given = found
                text = str(message.body.get("text", ""))
                if quoted := _QUOTED.fullmatch(text):  # the frame tells a model that it is data
                    text = "".join(filter(None, quoted.groups()))
                row.output = excerpt(text, MAX_TEXT) or row.output
                row.input = excerpt(given, MAX_TEXT) or row.input
        named = {row.ref for row in rows}
        missing = [
            _thought_row(task_id, ref, message)
            for ref, (message, _) in known.items()
            if ref not in named and message.body.get("role") == "assistant"
        ]
        return in_order([*rows, *missing]) if missing and rows else rows


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
