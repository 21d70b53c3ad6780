"""A stored message in one line: sender, recipient, kind, text, status."""

import json
from collections.abc import Callable
from typing import Any

from shared import contracts, subjects
from shared.contracts import Envelope, Goal, ResultOutcome, TaskChanged, TaskStatus, decode
from shared.contracts.base import MAX_PERSON
from shared.text.display import clean, count
from shared.views.timeline import MessageSummary

SHOWN_CONNECTIONS = 4  # How many connections of a command are shown
MAX_SUMMARY = 400  # The most characters of a message's text


def summarize(subject: str, data: bytes) -> MessageSummary:
    """The summary of a message; its kind is "unreadable" if it is not an envelope."""
    address = subjects.Address.of(subject)
    if address.kind == subjects.SUBMISSION:
        return _summarize_submission(subject, data)
    if address.kind == subjects.ADVISORY:
        return _summarize_advisory(subject, data)
    sender, recipient = address.sender or subject, address.recipient
    try:
        envelope = decode(data)
    except ValueError as error:
        text = clean(str(error)[:MAX_SUMMARY])
        return MessageSummary(sender=sender, recipient=recipient, kind="unreadable", text=text)
    kind, text = summarize_envelope(envelope)
    return MessageSummary(
        sender=sender,
        recipient=recipient,
        kind=kind,
        text=clean(text[:MAX_SUMMARY]),
        id=envelope.id,
        cause=envelope.cause,
        goal_id=envelope.goal_id,
        task_id=str(getattr(envelope, "task_id", "")),
        status=_status(envelope),
        person=envelope.person if sender == subjects.USER else "",
    )


def _summarize_submission(subject: str, data: bytes) -> MessageSummary:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    values = body if isinstance(body, dict) else {}
    text = values.get("text", values.get("task_description")) or _format_control(values.get("control"))
    text = text or data[:MAX_SUMMARY].decode("utf-8", "replace")
    return MessageSummary(
        sender=clean(str(values.get("requester") or subjects.USER)[:64]),
        recipient=subjects.CONDUCTOR,
        kind="submission",
        text=clean(str(text)[:MAX_SUMMARY]),
        goal_id=clean(str(values.get("goal_id") or values.get("resume") or "")[:128]),
        person=clean(str(values.get("person") or "")[:MAX_PERSON])
        if not subjects.Address.of(subject).sender
        else "",
    )


def _format_control(control: object) -> str:
    return f"{control.get('do')} {control.get('agent')}" if isinstance(control, dict) else ""


def _summarize_advisory(subject: str, data: bytes) -> MessageSummary:
    try:
        advisory = json.loads(data)
        text = f"gave up on message {advisory['stream_seq']} after {advisory['deliveries']} deliveries"
    except (ValueError, KeyError, TypeError):
        text = clean(data[:MAX_SUMMARY].decode("utf-8", "replace"))
    return MessageSummary(sender="server", recipient=subject.rpartition(".")[2], kind="given up", text=text)


# --- envelopes -----------------------------------------------------------------------------------


def summarize_envelope(envelope: Envelope) -> tuple[str, str]:
    """Kind and text of an envelope."""
    if isinstance(envelope, contracts.StateChanged) and envelope.goal is None:
        return "office", f"{envelope.state}, {count(len(envelope.active), 'goal')} open"
    if type(envelope) in _FORMATS:
        kind, format_text = _FORMATS[type(envelope)]
        return kind, format_text(envelope)
    kind = str(type(envelope).__struct_config__.tag).partition(".")[0]
    return kind, str(getattr(envelope, "text", "") or getattr(envelope, "summary", ""))


def _status(envelope: Envelope) -> str:
    match envelope:
        case TaskChanged():
            return str(TaskStatus.IN_PROGRESS)
        case contracts.TaskResult():
            return str(envelope.status)
        case contracts.StateChanged(goal=Goal() as goal):
            return str(goal.status)
        case contracts.AgentReport():
            return str(envelope.metadata.get("status", ""))
        case contracts.Delivery():
            return str(envelope.status)
        case contracts.DeadLetter() | contracts.MemoryRefused():
            return str(TaskStatus.FAILED)
    return ""


def _task(task: contracts.Task) -> str:
    action = task.context.get("action")
    return f"{task.text} [{action}]" if action else task.text


def _task_changed(change: TaskChanged) -> str:
    attempt = f"attempt {change.attempt}" if change.attempt > 1 else ""
    return ": ".join(filter(None, (attempt, change.note))) or str(TaskStatus.IN_PROGRESS)


def _goal_changed(change: contracts.StateChanged) -> str:
    step = str(change.state) if change.state == change.previous else f"{change.previous} → {change.state}"
    assert change.goal is not None
    return "; ".join(filter(None, (step, _format_goal(change.goal))))


def _format_goal(goal: Goal) -> str:
    if goal.status.final:
        detail = goal.reason or goal.answer
        end = _end(str(goal.status), goal.outcome)
        return f"{end}: {detail}" if detail else end
    ended = sum(task.status.final for task in goal.tasks)
    return f"{ended} of {len(goal.tasks)} tasks ended" if goal.tasks else ""


def _end(status: str, outcome: ResultOutcome) -> str:
    """A final status, with what it came to if that is more than done or failed."""
    clean_end = outcome in (ResultOutcome.NONE, ResultOutcome.DONE, ResultOutcome.FAILED)
    return status if clean_end else f"{status}, {outcome.replace('_', ' ')}"


def _memory_write(write: contracts.MemoryWrite) -> str:
    titles = "; ".join(node.title for node in write.nodes[:3])
    parts = (
        (write.nodes, count(len(write.nodes), "node")),
        (write.edges, count(len(write.edges), "edge")),
        (write.retire, f"{len(write.retire)} retired"),
        (write.forget, f"{len(write.forget)} to be forgotten"),
        (write.unlink, f"{len(write.unlink)} unlinked"),
        (write.accessed, f"{len(write.accessed)} accessed"),
    )
    counts = ", ".join(text for given, text in parts if given)
    return f"{counts}: {titles}" if titles else counts


def _access(event: contracts.AccessChanged) -> str:
    parts = (event.act.value.replace("_", " "), event.about, event.address, event.reason)
    return "  ".join(part for part in parts if part)


def _judged(judged: contracts.CommandJudged) -> str:
    verdict = {"deny": "denied", "ask": "left to a person"}.get(str(judged.verdict), str(judged.verdict))
    return f"{verdict} ({judged.rule}): {judged.command}"


def _connected(event: contracts.CommandConnected) -> str:
    shown = [
        f"{each.host}:{each.port} {each.received:,} bytes"
        if each.allowed
        else f"{each.host}:{each.port} refused"
        for each in event.connections[:SHOWN_CONNECTIONS]
    ]
    more = len(event.connections) - len(shown)
    return f"{', '.join(shown)}{f' and {more} more' if more else ''}: {event.command}"


def _answered(answer: contracts.ApprovalAnswer) -> str:
    by = f" by {answer.person}" if answer.person else ""
    text = f"{'granted' if answer.granted else 'refused'} {answer.approval_id[:8]}{by}"
    return f"{text}: {answer.note}" if answer.note else text


def _instructed(told: contracts.Instructions) -> str:
    return "; ".join(
        f"{each.text} ({each.person})" if each.person else each.text for each in told.instructions
    )


def _controlled(control: contracts.AgentControl) -> str:
    by = f" by {control.asked_by}" if control.asked_by else ""
    done = {"pause": "paused", "resume": "resumed", "restart": "to start again"}[control.do]
    return f"{control.agent} {done}{by}"


def _session(session: contracts.TaskSession) -> str:
    last = str(session.history[-1].get("text", "")) if session.history else ""
    return f"with {session.original_sender}, {count(len(session.history), 'message')}: {last}"


def _thread(note: contracts.SentEmail) -> str:
    if note.answer is not None:
        return f"{note.answer.sender} answered: {note.answer.body}"
    return f"wrote to {note.email.recipient}: {note.email.subject or note.email.body}"


def _checkpoint(page: contracts.LoopCheckpoint) -> str:
    text = next((str(m.get("text", "")) for m in page.messages if m.get("role") == "assistant"), "")
    calls = [
        str(call.get("name"))
        for message in page.messages
        for call in message.get("tool_calls", ())
        if isinstance(call, dict)
    ]
    return f"step {page.steps}: {text or ', '.join(calls) or 'results'}"


def _spending(spending: contracts.DailySpending) -> str:
    cost = f", {spending.cost:.4f} USD" if spending.cost else ""
    tokens = spending.input_tokens + spending.output_tokens
    return f"{spending.day}: {tokens:,} tokens in {count(spending.calls, 'call')}{cost}"


_FORMATS: dict[type, tuple[str, Callable[[Any], str]]] = {
    contracts.Email: ("email", lambda e: f"{e.subject}: {e.body}" if e.subject else e.body),
    contracts.Task: ("task", _task),
    contracts.TaskRequest: ("request", lambda e: e.task_description),
    contracts.TaskResult: (
        "result",
        lambda e: f"{_end(str(e.status), e.outcome)}: {e.error_message or e.output}",
    ),
    TaskChanged: ("state", _task_changed),
    contracts.StateChanged: ("goal", _goal_changed),
    contracts.Question: ("question", lambda e: e.text),
    contracts.Response: ("answer", lambda e: e.text),
    contracts.Conversation: (
        "conversation",
        lambda e: f"{count(e.questions, 'question')}: {e.title or e.session_id}",
    ),
    contracts.StopAnswer: ("stop", lambda e: f"end what is done for question {e.question_id}"),
    contracts.CancelGoal: ("cancel", lambda e: e.reason or f"end goal {e.goal_id}"),
    contracts.AgentReport: ("report", lambda e: e.summary),
    contracts.DiscoveryResult: ("discovery", lambda e: e.summary or e.query),
    contracts.DeadLetter: ("dead", lambda e: f"{e.subject}: {e.reason}"),
    contracts.Delivery: ("delivery", lambda e: f"{e.status} by {e.channel}: {e.title}"),
    contracts.DeliveryReply: ("reply", lambda e: f"{e.outcome} by {e.channel}: {e.text or e.reason}"),
    contracts.MemoryWrite: ("memory", _memory_write),
    contracts.MemoryRefused: (
        "refused",
        lambda e: f"{e.rejection.check}: {e.error}" if e.rejection else e.error,
    ),
    contracts.MemoryErased: (
        "erased",
        lambda e: f"a message of {e.time[:19]} on {e.subject}, {count(len(e.seqs), 'place')}",
    ),
    contracts.MemoryForgotten: (
        "forgotten",
        lambda e: f"{count(len(e.ids), 'node')}, {count(len(e.seqs), 'message')} erased",
    ),
    contracts.MessagesErased: (
        "erased",
        lambda e: f"{count(len(e.messages) or len(e.gone), 'message')} that held what was forgotten",
    ),
    contracts.MemoryErasable: ("erasable", lambda e: f"{count(len(e.seqs), 'message')} to be erased"),
    contracts.Seal: (
        "seal",
        lambda e: f"{e.stream} {e.first} to {e.last}, {count(e.count, 'message')}: {e.chain[:16]}",
    ),
    contracts.ArchiveOrder: ("archive", lambda e: f"OFFICE {e.first} to {e.last} lie in {e.bundle}"),
    contracts.MessagesArchived: ("archived", lambda e: f"{count(e.deleted, 'message')}, {e.kept:,} kept"),
    contracts.ErasureOrder: ("forget", lambda e: count(len(e.nodes), "node")),
    contracts.GraphVersion: (
        "version",
        lambda e: f"graph version {e.version}, {count(len(e.ids), 'node')} touched",
    ),
    contracts.Briefing: ("briefing", lambda e: f"for {e.agent} at graph version {e.version}"),
    contracts.AccessChanged: ("access", _access),
    contracts.CommandConnected: ("gate", _connected),
    contracts.CommandJudged: ("policy", _judged),
    contracts.ApprovalRequest: ("approval", lambda e: f"may I? {e.what} ({e.approval_id[:8]})"),
    contracts.ApprovalAnswer: ("approval", _answered),
    contracts.AgentControl: ("control", _controlled),
    contracts.TaskSession: ("thread", _session),
    contracts.SentEmail: ("letter", _thread),
    contracts.LoopCheckpoint: ("thought", _checkpoint),
    contracts.LettersDropped: ("dropped", lambda e: count(len(e.numbers), "dead letter")),
    contracts.InboxChanged: ("inbox", lambda e: f"{count(len(e.put_aside), 'item')} put aside"),
    contracts.PersonLimits: ("limits", lambda e: f"what {e.whose} may use in a day"),
    contracts.PersonGoals: ("limits", lambda e: f"{count(len(e.opened), 'goal')} of {e.whose} may be open"),
    contracts.ParcelsStored: ("files", lambda e: f"{count(len(e.parcels), 'folder')} in the object store"),
    contracts.Instructions: ("instructions", _instructed),
    contracts.DailySpending: ("spending", _spending),
    contracts.Experience: (
        "experience",
        lambda e: f"{e.agent} at {e.kind}: {e.completed} completed, {e.failed} failed",
    ),
    contracts.ExperienceIndex: ("experience", lambda e: f"{count(len(e.records), 'kind')} of tasks known"),
    contracts.Due: ("later", lambda e: f"{e.what} {e.due_id} {e.status}: {e.text}"),
    contracts.Timetable: ("timetable", lambda e: f"{count(len(e.ids), 'item')} kept"),
    contracts.NightState: ("night", lambda e: e.held or (f"until {e.ends_at}" if e.ends_at else "by day")),
    contracts.TaskPlan: ("plan", lambda e: f"{count(len(e.steps), 'step')} for {e.task_id}"),
    contracts.GoalDue: ("due", lambda e: f"is it done: {e.what}" if e.what else "the deadline of the goal"),
    contracts.TimerDue: ("due", lambda e: e.due_id),
    contracts.CognitiveMessage: ("stage", lambda e: str(e.payload.get("stage", "") or e.message_type)),
}
"""Kind and text of each type of envelope."""
