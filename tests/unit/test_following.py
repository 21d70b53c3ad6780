"""What can follow an answer: parts of messages, the likelier tools, and that likelihood permits nothing."""

import pytest

from services.nexus.routing.decider import continue_talk, decide_by_likeness
from services.nexus.routing.following import ALTERS, ANSWERS, FOLLOWS, find_next, is_part
from services.nexus.routing.registry import load_tools
from services.nexus.routing.request import Request
from services.nexus.tools.tool import Effect

TOOLS = load_tools()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("the one in the hall", True),
        ("no, only the blue ones", True),
        ("to water the figs, Monday", True),
        ("that Ines has the key", True),
        ("from May sorry", True),
        ("the hall is closed", False),
        ("that is wrong", False),
        ("who has the key?", False),
        ("remind me at 9", False),
        ("yes to the first, no to the others", False),
        ("the one in the hall?", False),
        ("", False),
    ],
)
def test_a_part_is_no_sentence(text: str, part: bool) -> None:
    assert is_part(text) is part


def test_the_tools_that_follow_exist() -> None:
    named = {*FOLLOWS, *ALTERS, *ALTERS.values(), *ANSWERS, *ANSWERS.values()}
    named |= {name for likelier in FOLLOWS.values() for name in likelier}
    assert named <= set(TOOLS)


@pytest.mark.parametrize(
    ("last", "text", "asks", "name"),
    [
        ("reminder_set", "the other one", False, "reminder_change"),
        ("remember", "from May sorry", False, "correct"),
        ("waiting", "go for it", False, "approve"),
        ("waiting", "the second one", False, "waiting"),
        ("waiting", "since when", True, "waiting"),
        ("weather", "and there", False, "weather"),
    ],
)
def test_what_a_message_goes_on_with(last: str, text: str, asks: bool, name: str) -> None:
    assert find_next(last, text, asks=asks) == name


@pytest.mark.parametrize("last", ["goals", "waiting", "mail", "schedule", "memory"])
@pytest.mark.parametrize(
    "text", ["has anyone sent the mail?", "don't run it yet", "if we ran the tests, what would it cost"]
)
def test_what_was_said_before_permits_no_effect(last: str, text: str) -> None:
    decision = decide_by_likeness(text, (), TOOLS, likelier=FOLLOWS[last])
    request = Request(asker="user", letter_id="x", text=text, before="x", before_route=f"tool:{last}")
    decision = continue_talk(decision, request, TOOLS)
    assert TOOLS[decision.tool].effect is not Effect.STARTS or decision.says_part
