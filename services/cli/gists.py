"""The gist of each type of envelope: its kind, a text, and the status it tells of, if it does."""

from collections.abc import Callable
from typing import Any

from shared.contracts import (
    AgentReport,
    AnyEnvelope,
    ApprovalAnswer,
    ApprovalRequest,
    Briefing,
    CancelGoal,
    CognitiveMessage,
    CommandJudged,
    DailySpending,
    DeadLetter,
    DiscoveryResult,
    Email,
    Experience,
    ExperienceIndex,
    Goal,
    GoalDue,
    GraphVersion,
    LoopCheckpoint,
    MemoryRefused,
    MemoryWrite,
    Question,
    ReminderDue,
    Reminders,
    Response,
    SentEmail,
    StateChanged,
    Task,
    TaskChanged,
    TaskPlan,
    TaskRequest,
    TaskResult,
    TaskSession,
    TaskStatus,
)

Gist = tuple[str, str, str]


def gist_of(envelope: AnyEnvelope) -> Gist:
    """Kind, text and status of any envelope."""
    return _GISTS.get(type(envelope), _plain)(envelope)


def _email(email: Email) -> Gist:
    return "email", f"{email.subject}: {email.body}" if email.subject else email.body, ""


def _task(task: Task) -> Gist:
    action = task.context.get("action")
    return "task", f"{task.text} [{action}]" if action else task.text, ""


def _request(request: TaskRequest) -> Gist:
    return "request", request.task_description, ""


def _result(result: TaskResult) -> Gist:
    return "result", f"{result.status}: {result.error_message or result.output}", str(result.status)


def _changed(change: TaskChanged) -> Gist:
    status = change.task.status
    text = str(status)
    if change.attempt > 1:
        text += f" (attempt {change.attempt})"
    if change.note:
        text += f": {change.note}"
    elif change.result is not None and change.result.error_message:
        text += f": {change.result.error_message}"
    elif status is TaskStatus.PENDING:
        text += f": {change.task.text}"
    return "state", text, str(status)


def _moved(change: StateChanged) -> Gist:
    step = str(change.state) if change.state == change.previous else f"{change.previous} → {change.state}"
    if change.goal is None:
        return "office", f"{change.state}, {_count(len(change.active), 'goal')} open", ""
    return "goal", "; ".join(filter(None, (step, _progress(change.goal)))), str(change.goal.status)


def _progress(goal: Goal) -> str:
    if goal.status.final:
        return (
            f"{goal.status}: {goal.reason or goal.answer}" if goal.reason or goal.answer else str(goal.status)
        )
    ended = sum(task.status.final for task in goal.tasks)
    return f"{ended} of {len(goal.tasks)} tasks ended" if goal.tasks else ""


def _question(question: Question) -> Gist:
    return "question", question.text, ""


def _response(response: Response) -> Gist:
    return "answer", response.text, ""


def _cancel(request: CancelGoal) -> Gist:
    return "cancel", request.reason or f"end goal {request.goal_id}", ""


def _report(report: AgentReport) -> Gist:
    return "report", report.summary, str(report.metadata.get("status", ""))


def _discovery(found: DiscoveryResult) -> Gist:
    return "discovery", found.summary or found.query, ""


def _dead(letter: DeadLetter) -> Gist:
    return "dead", f"{letter.subject}: {letter.reason}", str(TaskStatus.FAILED)


def _write(write: MemoryWrite) -> Gist:
    titles = "; ".join(node.title for node in write.nodes[:3])
    parts = (
        (write.nodes, _count(len(write.nodes), "node")),
        (write.edges, _count(len(write.edges), "edge")),
        (write.retire, f"{len(write.retire)} retired"),
        (write.unlink, f"{len(write.unlink)} unlinked"),
        (write.accessed, f"{len(write.accessed)} looked at"),
    )
    counts = ", ".join(told for given, told in parts if given)
    return "memory", f"{counts}: {titles}" if titles else counts, ""


def _refused(refusal: MemoryRefused) -> Gist:
    check = f"{refusal.rejection.check}: " if refusal.rejection else ""
    return "refused", f"{check}{refusal.error}", str(TaskStatus.FAILED)


def _version(version: GraphVersion) -> Gist:
    return "version", f"graph version {version.version}, {_count(len(version.ids), 'node')} touched", ""


def _briefing(briefing: Briefing) -> Gist:
    return "briefing", f"for {briefing.agent} at graph version {briefing.version}", ""


def _judged(judged: CommandJudged) -> Gist:
    verdict = {"deny": "denied", "ask": "left to a person"}.get(str(judged.verdict), str(judged.verdict))
    return "policy", f"{verdict} ({judged.rule}): {judged.command}", ""


def _asked(request: ApprovalRequest) -> Gist:
    return "approval", f"may I? {request.what} ({request.approval_id[:8]})", ""


def _approved(answer: ApprovalAnswer) -> Gist:
    told = f"{'granted' if answer.granted else 'refused'} {answer.approval_id[:8]}"
    return "approval", f"{told}: {answer.note}" if answer.note else told, ""


def _session(session: TaskSession) -> Gist:
    said = str(session.history[-1].get("text", "")) if session.history else ""
    return "thread", f"with {session.original_sender}, {_count(len(session.history), 'message')}: {said}", ""


def _correspondence(note: SentEmail) -> Gist:
    if note.answer is not None:
        return "letter", f"{note.answer.sender} answered: {note.answer.body}", ""
    return "letter", f"wrote to {note.email.recipient}: {note.email.subject or note.email.body}", ""


def _thinking(checkpoint: LoopCheckpoint) -> Gist:
    said = next((str(m.get("text", "")) for m in checkpoint.messages if m.get("role") == "assistant"), "")
    calls = [
        str(call.get("name"))
        for message in checkpoint.messages
        for call in message.get("tool_calls", ())
        if isinstance(call, dict)
    ]
    return "thought", f"step {checkpoint.steps}: {said or ', '.join(calls) or 'what came of it'}", ""


def _spending(spending: DailySpending) -> Gist:
    cost = f", {spending.cost:.4f} USD" if spending.cost else ""
    tokens = spending.input_tokens + spending.output_tokens
    return "spending", f"{spending.day}: {tokens:,} tokens in {_count(spending.calls, 'call')}{cost}", ""


def _experience(experience: Experience) -> Gist:
    told = f"{experience.agent} at {experience.kind}: {experience.completed} completed"
    return "experience", f"{told}, {experience.failed} failed", ""


def _experiences(index: ExperienceIndex) -> Gist:
    return "experience", f"{_count(len(index.records), 'kind')} of tasks known", ""


def _reminders(reminders: Reminders) -> Gist:
    return "reminders", f"{_count(len(reminders.reminders), 'reminder')} kept", ""


def _plan(plan: TaskPlan) -> Gist:
    return "plan", f"{_count(len(plan.steps), 'step')} for {plan.task_id}", ""


def _goal_due(due: GoalDue) -> Gist:
    return "due", f"is it done: {due.what}" if due.what else "the deadline of the goal", ""


def _due(due: ReminderDue) -> Gist:
    return "due", due.reminder_id, ""


def _stage(message: CognitiveMessage) -> Gist:
    stage = message.payload.get("stage", "")
    return "stage", str(stage or message.message_type), ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def _plain(envelope: AnyEnvelope) -> Gist:
    kind = str(type(envelope).__struct_config__.tag).partition(".")[0]
    return kind, str(getattr(envelope, "text", "") or getattr(envelope, "summary", "")), ""


_GISTS: dict[type, Callable[[Any], Gist]] = {
    Email: _email,
    Task: _task,
    TaskRequest: _request,
    TaskResult: _result,
    TaskChanged: _changed,
    StateChanged: _moved,
    Question: _question,
    Response: _response,
    CancelGoal: _cancel,
    AgentReport: _report,
    DiscoveryResult: _discovery,
    DeadLetter: _dead,
    MemoryWrite: _write,
    MemoryRefused: _refused,
    GraphVersion: _version,
    Briefing: _briefing,
    CommandJudged: _judged,
    ApprovalRequest: _asked,
    ApprovalAnswer: _approved,
    TaskSession: _session,
    SentEmail: _correspondence,
    LoopCheckpoint: _thinking,
    DailySpending: _spending,
    Experience: _experience,
    ExperienceIndex: _experiences,
    Reminders: _reminders,
    TaskPlan: _plan,
    GoalDue: _goal_due,
    ReminderDue: _due,
    CognitiveMessage: _stage,
}
