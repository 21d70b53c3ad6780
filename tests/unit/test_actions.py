"""Actions: marked methods, found by name, called with parameters that fit."""

from typing import Annotated, Literal

import msgspec
import pytest

from shared.errors import ActionError, ConfigError
from shared.tasks.actions import Outcome, collect_actions, perform, register_action


class Song(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    year: Annotated[int, msgspec.Meta(ge=1900)] = 2000


class SearchSkill:
    @register_action("Search the web", {"query": "What to look for", "limit": "How many results"})
    async def search(self, query: str, limit: int = 5) -> Outcome:
        return Outcome(
            output=f"{limit} results for {query}", data={"limit": limit}, evidence_refs=("https://a.example",)
        )


class Agent(SearchSkill):
    greeting = "Hello"

    @register_action("Greet somebody", {"name": "Who", "tone": "How"})
    async def greet(self, name: str, tone: Literal["warm", "cool"] = "warm") -> str:
        return f"{self.greeting}, {name} ({tone})"

    @register_action("Do nothing")
    async def rest(self) -> str:
        return ""

    @register_action("Play songs", {"songs": "Which", "volume": "How loud"})
    async def play(self, songs: list[Song], volume: float | None = None) -> str:
        return f"{len(songs)} songs, {volume}"

    async def not_an_action(self) -> None: ...


ACTIONS = collect_actions(Agent())


def test_actions_are_found_those_of_mixins_included():
    assert set(ACTIONS) == {"greet", "play", "rest", "search"}
    assert ACTIONS["search"].description == "Search the web"
    assert ACTIONS["search"].param_infos == {"query": "What to look for", "limit": "How many results"}


def test_an_overriding_method_takes_the_place_of_the_inherited_action():
    class Other(Agent):
        @register_action("Greet in another way", {"name": "Who"})
        async def greet(self, name: str) -> str:
            return f"Ahoy, {name}"

    greet = collect_actions(Other())["greet"]
    assert greet.description == "Greet in another way"
    assert list(greet.param_infos) == ["name"]


def test_the_schema_comes_from_the_type_hints():
    schema = ACTIONS["search"].schema()
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "query": {"type": "string", "description": "What to look for"},
        "limit": {"type": "integer", "default": 5, "description": "How many results"},
    }
    assert ACTIONS["greet"].schema()["properties"]["tone"]["enum"] == ["cool", "warm"]
    assert ACTIONS["rest"].schema()["properties"] == {}


async def test_an_action_is_performed_with_its_parameters_and_defaults():
    assert await perform(Agent(), ACTIONS["search"], {"query": "nats"}) == Outcome(
        output="5 results for nats", data={"limit": 5}, evidence_refs=("https://a.example",)
    )


async def test_a_string_is_outcome_enough():
    assert await perform(Agent(), ACTIONS["greet"], {"name": "world"}) == Outcome(
        output="Hello, world (warm)"
    )
    assert await perform(Agent(), ACTIONS["rest"], {}) == Outcome(output="")


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("search", {}, "search: its parameter query is missing. Its parameters are: query, limit"),
        ("search", {"query": 5}, "search: its parameter query must be text, not a whole number. Its"),
        (
            "search",
            {"query": "nats", "limit": "5"},
            "search: its parameter limit must be a whole number, not text",
        ),
        ("search", {"query": "nats", "pages": 2}, "search: it has no parameter 'pages'. Its"),
        ("search", {"words": "x"}, "its parameter query is missing, and it has no parameter 'words'"),
        (
            "greet",
            {"name": "world", "tone": "Rude"},
            "greet: its parameter tone cannot be 'Rude' (it may be cool, warm). Its",
        ),
        ("rest", {"long": True}, "rest: it has no parameter 'long'. Its parameters are: none"),
        ("rest", dict.fromkeys("abcdefgh", 1), "no parameter 'd', and it has no parameter 'e'. Its"),
        ("search", {"query": "nats", 1: "nats"}, "search: it has no parameter '1'"),
        ("play", {"songs": [{"title": 5}]}, "play: its parameter songs[0].title must be text, not a"),
        (
            "play",
            {"songs": [{}]},
            "play: its parameter songs[0] lacks title. Its parameters are: songs, volume",
        ),
        ("play", {"songs": [{"title": "x", "key": 1}]}, "play: its parameter songs[0] has no key. Its"),
        ("play", {"songs": [{"title": "x", "year": 0}]}, "songs[0].year must be a whole number >= 1900. Its"),
        ("play", {"songs": [], "volume": "x"}, "its parameter volume must be a number or nothing, not text"),
    ],
)
async def test_parameters_that_do_not_fit_are_refused_with_those_that_would(name, params, message):
    with pytest.raises(ActionError) as caught:
        await perform(Agent(), ACTIONS[name], params)
    assert message in str(caught.value)


@pytest.mark.parametrize("infos", [{}, {"name": "Who", "age": "How old"}, {"nam": "Who"}])
def test_descriptions_that_do_not_match_the_parameters_are_refused_at_definition(infos):
    with pytest.raises(ConfigError, match="Action greet has the parameters"):

        @register_action("Greet somebody", infos)
        async def greet(self, name: str) -> str:
            return name


async def test_an_error_of_the_action_itself_comes_through():
    class Broken:
        @register_action("Break")
        async def snap(self) -> str:
            raise ActionError("It is broken already", "Mend it")

    broken = Broken()
    with pytest.raises(ActionError, match=r"It is broken already\. Mend it"):
        await perform(broken, collect_actions(broken)["snap"], {})
