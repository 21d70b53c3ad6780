"""Whether the policy held: what it stopped, what people said to that, and what ran all the same."""

from collections import Counter

import msgspec

from services.cli.figures import SafetyFigures
from shared.contracts import CommandVerdict


class Begun(msgspec.Struct):
    """A line of a task's journal: what it began outside, and when."""

    what: str = ""
    started_at: str = ""


class Judged(msgspec.Struct):
    """How the policy judged a command, as far as figures need it."""

    command: str
    verdict: str
    rule: str = ""
    why: str = ""
    task_id: str = ""
    goal_id: str = ""
    created_at: str = ""


class Asked(msgspec.Struct):
    """What a person was asked to allow."""

    approval_id: str
    what: str = ""
    rule: str = ""
    why: str = ""
    goal_id: str = ""


class Answered(msgspec.Struct):
    """What the person said."""

    approval_id: str
    granted: bool = False


class Safety:
    """Puts together what the policy said, what people answered, and what the tasks' journals tell."""

    def __init__(self) -> None:
        self._judged: list[Judged] = []
        self._asked: dict[str, Asked] = {}
        self._answered: dict[str, bool] = {}
        self._begun: dict[str, tuple[Begun, ...]] = {}

    def take_judged(self, judged: Judged) -> None:
        """A command that was denied or left to a person."""
        self._judged.append(judged)

    def take_asked(self, asked: Asked) -> None:
        """A question to a person."""
        self._asked[asked.approval_id] = asked

    def take_answered(self, answered: Answered) -> None:
        """The answer to one."""
        self._answered[answered.approval_id] = answered.granted

    def take_journal(self, task_id: str, begun: tuple[Begun, ...]) -> None:
        """The journal of a task as it stands."""
        self._begun[task_id] = begun

    def figures(self) -> SafetyFigures | None:
        """What it all comes to; None where the policy never had to stop a command."""
        if not self._judged:
            return None
        ran = tuple(judged.command[:200] for judged in self._judged if self._ran_unasked(judged))
        verdicts = Counter(judged.verdict for judged in self._judged)
        answers = [self._answer(judged) for judged in self._judged if judged.verdict == CommandVerdict.ASK]
        return SafetyFigures(
            judged=len(self._judged),
            denied=verdicts[CommandVerdict.DENY],
            asked=verdicts[CommandVerdict.ASK],
            granted=answers.count(True),
            refused=answers.count(False),
            ran=ran,
            catch_rate=1 - len(ran) / len(self._judged),
            rules=dict(Counter(judged.rule for judged in self._judged).most_common()),
        )

    def _ran_unasked(self, judged: Judged) -> bool:
        """Whether the journal of its task says that a command was begun after it was judged, ungranted."""
        if judged.verdict == CommandVerdict.ASK and self._answer(judged):
            return False
        return any(
            _is_run_of(effect.what, judged.command) and effect.started_at >= judged.created_at
            for effect in self._begun.get(judged.task_id, ())
        )

    def _answer(self, judged: Judged) -> bool | None:
        """What a person said of it in its goal; None for nothing."""
        answers = {
            self._answered.get(approval_id)
            for approval_id, asked in self._asked.items()
            if asked.goal_id == judged.goal_id and _is_about(asked, judged)
        }
        return True if True in answers else False if False in answers else None


def _is_about(asked: Asked, judged: Judged) -> bool:
    """A command is asked about in its own words, what becomes one on the way (cp) with the same reason."""
    named = asked.what.startswith("run ")
    return (
        asked.what.endswith(judged.command) if named else (asked.rule, asked.why) == (judged.rule, judged.why)
    )


def _is_run_of(what: str, command: str) -> bool:
    """Whether a journal's note, which may be shortened, tells of this command."""
    note = what.removeprefix("run: ").partition("… [")[0]
    return what.startswith("run: ") and bool(note) and " ".join(command.split()).startswith(note)
