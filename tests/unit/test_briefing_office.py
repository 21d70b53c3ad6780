"""Lines of a briefing about the office: goals that failed, and reminders."""

from datetime import UTC, datetime

import msgspec

from services.nexus.briefings.sections import done_lines, due_reminders, failed_lines, missed_reminders
from shared.contracts import Due, DueKind, DueStatus, Goal, ResultOutcome, TaskStatus

FINDINGS = ResultOutcome.FINDINGS
NOW = datetime(2026, 3, 18, 18, 0, tzinfo=UTC)


def make_goal(name: str, status: TaskStatus) -> Goal:
    times = {"submitted_at": NOW.isoformat(), "ended_at": NOW.isoformat()}
    failed = ResultOutcome.FAILED
    return Goal(goal_id=name, text=name, requester="user", status=status, outcome=failed, **times)


def test_a_goal_that_a_person_stopped_has_not_failed() -> None:
    goals = [make_goal("broken", TaskStatus.FAILED), make_goal("unwanted", TaskStatus.CANCELLED)]
    lines = failed_lines(goals, datetime(2026, 3, 18, tzinfo=UTC))
    assert [line.text.partition(":")[0] for line in lines] == ["broken"]


def make_reminder(text: str, due: datetime, status: DueStatus = DueStatus.WAITING) -> Due:
    return Due(due_id=text, what=DueKind.MAIL, text=text, requester="user", at=due.isoformat(), status=status)


def test_what_is_due_before_the_day_that_is_told_has_its_weekday() -> None:
    reminders = [
        make_reminder("lock", datetime(2026, 3, 18, 22, 0, tzinfo=UTC)),
        make_reminder("bank", datetime(2026, 3, 19, 9, 0, tzinfo=UTC)),
        make_reminder("oven", datetime(2026, 3, 18, 12, 0, tzinfo=UTC), DueStatus.FIRED),
    ]
    until = datetime(2026, 3, 20, tzinfo=UTC)
    told = [line.text for line in due_reminders(reminders, until, UTC, fired=False)]
    assert told == ["Wednesday 22:00 lock", "09:00 bank"]
    assert [line.text for line in missed_reminders(reminders, UTC)] == ["oven: went off at 12:00, not done"]


def test_what_was_not_checked_is_not_told_as_done() -> None:
    goals = [
        msgspec.structs.replace(make_goal(str(outcome), TaskStatus.COMPLETED), outcome=outcome)
        for outcome in (ResultOutcome.NOT_CHECKED, ResultOutcome.FAILED, ResultOutcome.DONE, FINDINGS)
    ]
    day = datetime(2026, 3, 18, tzinfo=UTC)
    assert {line.sources[0].id for line in failed_lines(goals, day)} == {"not_checked", "failed"}
    assert {line.sources[0].id for line in done_lines(goals, day)} == {"done", "done_with_findings"}
