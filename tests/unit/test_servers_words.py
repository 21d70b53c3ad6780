"""Which tool of a server the words of a message mean, and with which arguments."""

import pytest

from services.nexus.servers.choosing import Choice, Chooser, Offered, choose
from services.nexus.servers.reading import Said, read_known, read_tokens
from shared.language.utterance import read_utterance
from shared.mcp.pins import Tool
from tests.support import home_server

STATES = {name: state for name, (_, _, state) in home_server.HOUSE.items()}
KNOWN = {"home": read_known(home_server.describe(STATES, list(STATES)))}
CHOOSER = Chooser(
    [
        Offered(
            action=f"home__{each['name']}",
            server="home",
            tool=Tool(name=each["name"], description=each["description"], schema=each["inputSchema"]),
            assignee="nexus",
            asks=each["name"] != "GetLiveContext",
        )
        for each in home_server.TOOLS
    ]
)


def find(text: str) -> list[Choice]:
    said = Said(text, read_tokens(text), read_utterance(text).act, "Europe/Berlin")
    return choose(CHOOSER.rank(said, KNOWN), said, sure=0.0, is_general=True)


@pytest.mark.parametrize(
    ("text", "tool", "params"),
    [
        ("can you switch off the kitchen lights?", "HassTurnOff", {"area": "Kitchen", "domain": ["light"]}),
        ("lock the front door", "HassTurnOn", {"name": "Front Door"}),
        ("is the garage door open?", "GetLiveContext", {"name": "Garage Door"}),
        ("set the bedroom lamp to 40%", "HassLightSet", {"name": "Bedroom Lamp", "brightness": 40}),
        ("set the bedroom thermostat to 18", "HassClimateSetTemperature", {"temperature": 18}),
    ],
)
def test_words_find_the_tool_and_fill_it(text: str, tool: str, params: dict[str, object]) -> None:
    (found,) = find(text)
    assert found.offered.tool.name == tool
    assert params.items() <= found.filled.params.items()


@pytest.mark.parametrize(
    "text",
    [
        "turn off the lights but not in the kitchen",
        "turn off the kitchen lights in 10 minutes",
        "turn off the lights and lock the front door",
        "don't turn off the lights",
        "if nobody is home turn off the lights",
        "remind me to turn off the lights",
        "status",
    ],
)
def test_what_a_call_cannot_say_is_no_call(text: str) -> None:
    assert not find(text)


def test_nothing_is_done_to_a_thing_that_there_is_not() -> None:
    (found,) = find("turn off the radio in the shed")
    assert found.filled.missing
