"""What goals teach, by rules over what happened to them."""

from typing import Any

import msgspec
import pytest

from services.conductor.learning import error_kind, failure_of, find_help, lessons_of
from services.conductor.patterns import has_helped
from services.conductor.state_machine import MAX_PATTERNS, with_patterns, with_setbacks
from shared.contracts import (
    Goal,
    GoalTask,
    Instruction,
    Pattern,
    PatternOrigin,
    ResultOutcome,
    TaskStatus,
)
from shared.contracts.cognition import TRIALS

AT = "2026-01-02T03:04:05+00:00"
TASK = GoalTask(
    name="a",
    task_id="g-a-1",
    text="Get it",
    assignee="engineer",
    action="fetch",
    params={"repo": "/srv/a"},
    status=TaskStatus.COMPLETED,
)


def goal(**more: Any) -> Goal:
    return Goal(
        **{
            "goal_id": "g",
            "text": "Get the numbers",
            "requester": "user",
            "submitted_at": AT,
            "status": TaskStatus.COMPLETED,
            "outcome": ResultOutcome.DONE,
            "tasks": (TASK,),
            **more,
        }
    )


def test_a_goal_that_went_well_at_once_or_failed_teaches_nothing() -> None:
    assert lessons_of(goal()) == []
    assert lessons_of(with_setbacks(goal(outcome=ResultOutcome.FAILED), [TASK], "no")) == []


def test_a_plan_that_replaced_a_failure_is_the_lesson() -> None:
    failed = with_setbacks(goal(plans=1), [TASK], "There is no such server")
    other = msgspec.structs.replace(TASK, task_id="g-b-p2-1", action="read")
    (lesson,) = lessons_of(msgspec.structs.replace(failed, plans=2, tasks=(other,)))
    assert (lesson.learned_from, lesson.action, lesson.error) == (PatternOrigin.REPAIR, "fetch", "not found")
    assert lesson.strategy == "Plan instead: engineer.read with repo=/srv/a (Get it)"
    assert lesson.evidence == ("goal:g",)


def test_the_very_call_that_failed_is_no_lesson_when_it_went_well_later() -> None:
    """Nor is what waited for it, and was planned once more."""
    waited = msgspec.structs.replace(TASK, task_id="g-c-1", name="c", action="sum_up")
    failed = with_setbacks(goal(plans=1), [TASK], "There is no such server")
    again = msgspec.structs.replace(TASK, task_id="g-b-p2-1", params={"repo": "/srv/b"})
    summed = msgspec.structs.replace(waited, task_id="g-c-p2-1")
    ended = msgspec.structs.replace(failed, plans=2, tasks=(again, summed), earlier=(TASK, waited))
    assert lessons_of(ended) == []
    other = msgspec.structs.replace(TASK, task_id="g-d-p2-1", action="read")
    (lesson,) = lessons_of(msgspec.structs.replace(ended, tasks=(again, other, summed)))
    assert lesson.strategy == "Plan instead: engineer.read with repo=/srv/a (Get it)"


def test_the_objections_of_several_reviews_are_one_lesson() -> None:
    sent_back = with_setbacks(goal(), [TASK], "no source is named", review=True)
    twice = with_setbacks(sent_back, [TASK], "the sum is wrong", review=True)
    (lesson,) = lessons_of(twice)
    assert lesson.strategy.endswith("no source is named; the sum is wrong")


def test_a_strategy_leaves_to_the_next_goal_what_this_one_named() -> None:
    asked = goal(plans=1, text="Get the numbers of /srv/a from March")
    failed = with_setbacks(asked, [TASK], "There is no such server")
    params = {"repo": "/srv/a", "month": "March", "limit": 60}
    other = msgspec.structs.replace(
        TASK, task_id="g-b-p2-1", action="read", text="Read /srv/a", params=params
    )
    (lesson,) = lessons_of(msgspec.structs.replace(failed, plans=2, tasks=(other,)))
    given = "repo=(as the goal says), month=(as the goal says), limit=60"
    assert lesson.strategy == f"Plan instead: engineer.read with {given} (Read (as the goal says))"


@pytest.mark.parametrize(("action", "helped"), [("fetch", False), ("read", True)])
def test_a_pattern_did_not_help_where_its_own_failure_came_again(action: str, helped: bool) -> None:
    pattern = Pattern(
        condition="c", strategy="s", learned_from=PatternOrigin.REPAIR, agent="engineer", action="fetch"
    )
    met = msgspec.structs.replace(TASK, action=action)
    assert has_helped(pattern, with_setbacks(goal(), [met], "no")) is helped
    assert not has_helped(pattern, goal(outcome=ResultOutcome.FAILED))


def test_a_review_that_sent_back_and_then_approved_is_a_lesson() -> None:
    (lesson,) = lessons_of(with_setbacks(goal(), [TASK], "no source is named", review=True))
    assert lesson.learned_from is PatternOrigin.REVIEW
    assert lesson.strategy == "See to it before it is handed in: no source is named"


def test_what_a_person_said_after_a_failure_is_the_lesson() -> None:
    before = Instruction(id="i0", text="Be quick", given_at=AT)
    failed = with_setbacks(goal(instructions=(before,)), [TASK], "no access")
    said = Instruction(id="i1", text="Use the archive", given_at=AT)
    (lesson,) = lessons_of(msgspec.structs.replace(failed, instructions=(before, said)))
    assert lesson.learned_from is PatternOrigin.CORRECTION
    assert lesson.strategy == "A person said: Use the archive"


@pytest.mark.parametrize(
    ("failed", "later", "params"),
    [
        ({"repo": "/a"}, {"repo": "/a", "limit": 600}, {"limit": 600}),
        ({"repo": "/a", "limit": 60}, {"repo": "/a", "limit": 600}, {"limit": 600}),
        ({"repo": "/a"}, {"repo": "/b", "limit": 600}, {}),
        ({"repo": "/a", "name": "x"}, {"repo": "/a", "name": "y"}, {}),
        ({"repo": "/a"}, {"repo": "/a", "to": "/etc/passwd"}, {}),
        ({"repo": "/a"}, {"repo": "/a", "command": "rm -rf x"}, {}),
        ({"name": "x"}, {"name": "x", "limit": 600}, {}),
    ],
)
def test_a_parameter_helped_if_the_same_call_failed_without_it(
    failed: dict[str, Any], later: dict[str, Any], params: dict[str, Any]
) -> None:
    failure = failure_of(goal(), msgspec.structs.replace(TASK, params=failed), "It timed out", "python")
    found = find_help(msgspec.structs.replace(TASK, params=later), [failure])
    assert found == (([failure], params) if params else ([], {}))


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("pytest did not end within 60 s", "timeout"),
        ("The policy refused it", "refused"),
        ("worker does not answer", "unavailable"),
        ("No module named 'x'", "not installed"),
        ("There is no folder /a", "not found"),
        ("limit must be a number", "bad input"),
        ("3 tests failed", "other"),
    ],
)
def test_kinds_of_failure(reason: str, kind: str) -> None:
    assert error_kind(reason) == kind


def test_a_use_is_counted_once_and_what_does_not_pay_is_seen_after_ten() -> None:
    pattern = Pattern(condition="x", strategy="y", learned_from=PatternOrigin.REPAIR)
    once = pattern.plus("g", well=True)
    assert once.plus("g", well=True) is once
    for number in range(TRIALS - 1):
        assert once.pays
        once = once.plus(f"g{number}", well=False)
    assert (once.uses, once.successes, once.pays) == (TRIALS, 1, False)


@pytest.mark.parametrize("ids", [None, 5, "abc", {"a": 1}, [5, None, "a b", ""]])
def test_what_agents_write_as_patterns_may_be_anything(ids: object) -> None:
    before = goal()
    assert with_patterns(before, ids) is before
    assert len(with_patterns(before, [f"p{number}" for number in range(99)]).patterns) == MAX_PATTERNS
