"""The risk of a request for approval: graded for every rule that asks a person, higher with reach."""

import pytest

from shared.contracts import ApprovalRequest, CommandVerdict
from shared.operations.approvals import BY_FAMILY, NO_RULE, grade_risk
from shared.policy.rules import RULES


def asks(rule: str = "", *reach: str) -> ApprovalRequest:
    return ApprovalRequest(
        sender="engineer",
        approval_id="a",
        what="run: x",
        rule=rule,
        reach=reach,
        expires_at="2026-01-02T14:30:00+00:00",
    )


def test_every_rule_that_asks_has_a_grade_of_its_own() -> None:
    asking = [name for name, rule in RULES.items() if rule.verdict is CommandVerdict.ASK]
    assert asking
    assert [name for name in asking if name.partition(".")[0] not in BY_FAMILY] == []


@pytest.mark.parametrize(
    ("rule", "reach", "grade"),
    [
        ("unclear.eval", (), "high"),
        ("share.publish", (), "high"),
        ("git.discard", (), "low"),
        ("destroy.workspace", (), "low"),
        ("read.system", (), "medium"),
        ("reach.python", ("python",), "low"),
        ("reach.host", ("host:example.org",), "medium"),
        ("reach.python", ("python", "host:example.org"), "medium"),
        ("reach.network", ("network",), "high"),
        ("read.system", ("network",), "high"),
        ("read.system", ("python",), "medium"),
        ("share.publish", ("host:example.org",), "high"),
        ("", (), "medium"),
    ],
)
def test_grades(rule: str, reach: tuple[str, ...], grade: str) -> None:
    risk = grade_risk(asks(rule, *reach))
    assert risk.grade == grade
    assert risk.reason.endswith(".")


def test_an_unknown_rule_is_not_called_harmless() -> None:
    assert grade_risk(asks("made.up")) == NO_RULE
