"""Finding the goal that a person means: by its id, the beginning or end of it, or as the latest."""

import msgspec

from services.cli.queries.records import count_subjects, read_goal, read_goals
from shared import subjects
from shared.bus import Bus
from shared.contracts import TOKEN, Goal
from shared.errors import MailroomError

LAST = ("last", "-")
"""The latest goal that a person submitted."""
CURE = "'mailroom tasks --all' lists the goals"


class _Submission(msgspec.Struct):
    goal_id: str = ""
    resume: str = ""


async def find_goal(bus: Bus, name: str) -> tuple[Goal, int]:
    """The goal that ``name`` means, and the sequence of its record.

    Raises MailroomError if there is none, or several.
    """
    found = await read_goal(bus, await expand_goal_id(bus, name)) if _is_name(name) else None
    if found is None:
        raise MailroomError(f"There is no goal {name[:130]!r}", CURE)
    return found


async def expand_goal_id(bus: Bus, name: str) -> str:
    """The id that ``name`` is, begins or ends; ``name`` itself if there is none.

    Raises MailroomError if it may mean several.
    """
    if name in LAST:
        return await _find_latest(bus)
    if not TOKEN.fullmatch(name) or await bus.last(subjects.OFFICE, subjects.goal(name)) is not None:
        return name
    recorded = await count_subjects(bus, subjects.OFFICE, subjects.goal("*"))
    ids = [subject.removeprefix(subjects.goal("")) for subject in recorded]
    found = [each for each in ids if each.startswith((name, f"goal_{name}")) or each.endswith(name)]
    if len(found) > 1:
        shown = ", ".join(sorted(found)[-3:])
        raise MailroomError(f"{name!r} may mean {len(found)} goals, such as {shown}", "Write more of its id")
    return found[0] if found else name


def _is_name(name: str) -> bool:
    return name in LAST or TOKEN.fullmatch(name) is not None


async def _find_latest(bus: Bus) -> str:
    stored = await bus.last(subjects.OFFICE, subjects.SUBMIT)
    if stored is not None:
        try:
            submission = msgspec.json.decode(stored.data, type=_Submission)
        except msgspec.MsgspecError:
            submission = _Submission()
        if name := submission.goal_id or submission.resume:
            return name
    mine = [goal for goal in await read_goals(bus) if goal.requester == subjects.USER]
    if not mine:
        raise MailroomError("There is no goal yet", 'Submit one: mailroom submit "..."')
    return max(mine, key=lambda goal: goal.submitted_at).goal_id
