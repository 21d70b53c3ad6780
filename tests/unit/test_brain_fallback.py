"""A chain of models: which one is asked, for how long, and what is said if none answers."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shared import settings
from shared.errors import ConfigError, ModelError, ModelUnavailable
from shared.llm import Message, Thought, Usage, make_model, make_small_model
from shared.llm.clients import Unusable
from shared.llm.config import (
    configured_fallbacks,
    configured_for,
    configured_model,
    configured_models,
    configured_small_model,
    require_known_agents,
    settings_of,
)
from shared.llm.fallback import FallbackModel
from shared.llm.protocol import Pieces
from shared.reasoning.model import RecordedModel, answered_by
from shared.reasoning.spending import Spending
from shared.settings import Settings
from shared.spans import SpanRecorder, record_spans_in

HELLO = [Message(role="user", text="Hello")]
AWAY = ModelUnavailable("The server is away")


class Model:
    """Answers with its name, or raises."""

    available = True

    def __init__(self, name: str, error: ModelError | None = None) -> None:
        self.name, self.error, self.asked = name, error, 0

    async def complete(self, messages: Sequence[Message], **options: Any) -> Thought:
        self.asked += 1
        if self.error:
            raise self.error
        return Thought(text=self.name, by=self.name)

    async def stream(self, messages: Sequence[Message], **options: Any) -> Pieces:
        self.asked += 1
        if self.error and self.asked % 2:
            raise self.error
        yield self.name
        if self.error:
            raise self.error
        yield Thought(text=self.name, by=self.name)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def answer(model: FallbackModel, task: str = "") -> str:
    return (await model.complete(HELLO, cache_key=task)).by


@pytest.mark.parametrize("error", [AWAY, Unusable("The key is not accepted"), Unusable("No such model")])
async def test_the_next_model_answers_where_the_first_cannot(error: ModelError) -> None:
    assert await answer(FallbackModel([Model("first", error), Model("second")])) == "second"


async def test_what_is_wrong_with_the_request_is_no_reason_to_ask_another_model() -> None:
    first, second = Model("first", ModelError("It is too long")), Model("second")
    with pytest.raises(ModelError, match="too long"):
        await answer(FallbackModel([first, second]))
    assert second.asked == 0


async def test_a_task_stays_with_the_model_that_answered_and_later_ones_go_back_to_the_first() -> None:
    clock, first, second = Clock(), Model("first", AWAY), Model("second")
    chain = FallbackModel([first, second], cooldown=60, clock=clock)
    assert await answer(chain, "one") == "second"
    first.error = None
    assert await answer(chain, "two") == "second"  # the first is left alone for a while
    assert first.asked == 1
    clock.now = 61
    assert await answer(chain, "one") == "second"
    assert await answer(chain, "three") == "first"


async def test_a_task_goes_back_where_its_own_model_fails_too() -> None:
    clock, first, second = Clock(), Model("first", AWAY), Model("second")
    chain = FallbackModel([first, second], cooldown=60, clock=clock)
    await answer(chain, "one")
    first.error, second.error = None, AWAY
    assert await answer(chain, "one") == "first"


async def test_if_all_fail_every_cause_is_said_and_whether_it_may_help_to_wait() -> None:
    refused = Unusable("The key is not accepted", "Correct it")
    with pytest.raises(ModelUnavailable, match=r"not accepted; The server is away\. Correct it"):
        await answer(FallbackModel([Model("first", refused), Model("second", AWAY)]))
    with pytest.raises(ModelError) as raised:
        await answer(FallbackModel([Model("first", refused), Model("second", refused)]))
    assert not isinstance(raised.value, ModelUnavailable)


async def test_a_stream_is_taken_over_before_its_first_piece_and_never_after() -> None:
    first, second = Model("first", AWAY), Model("second")
    chain = FallbackModel([first, second], cooldown=0)
    assert await anext(chain.stream(HELLO)) == "second"
    with pytest.raises(ModelUnavailable):
        _ = [piece async for piece in chain.stream(HELLO)]
    assert second.asked == 1


def load(**values: str) -> Settings:
    given = {f"MAILROOM_{name.upper()}": value for name, value in values.items()}
    return settings.load({"MAILROOM_STATE_DIR": "/nowhere", **given})


def test_fallbacks_are_read_with_their_servers_and_get_no_other_server_s_key() -> None:
    chosen = load(
        brain="openai:big",
        brain_url="http://one/v1",
        brain_key="k1",
        brain_fallback="openai:small, openai:other@http://two/v1",
    )
    same, other = configured_fallbacks(chosen)
    assert (same.url, same.key) == ("http://one/v1", "k1")
    assert (other.name, other.url, other.key) == ("openai:other", "http://two/v1", "")
    assert isinstance(make_model(chosen), FallbackModel)
    assert isinstance(make_small_model(chosen), FallbackModel)  # without a small model it is the same chain


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"brain_fallback": "openai:x@http://a/v1"},
            "MAILROOM_BRAIN_FALLBACK names a model, but MAILROOM_BRAIN none",
        ),
        (
            {"brain": "openai:x", "brain_url": "http://a/v1", "brain_fallback": "gpt"},
            "MAILROOM_BRAIN_FALLBACK is wrong",
        ),
        (
            {"brain": "openai:x", "brain_url": "http://a/v1", "brain_fallback": "anthropic:x"},
            "MAILROOM_BRAIN_FALLBACK is anthropic:x, but there is no key",
        ),
    ],
)
def test_what_is_wrong_in_the_chain_is_said(values: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make_model(load(**values))


def test_an_agent_with_a_model_of_its_own_takes_no_key_and_no_fallback(tmp_path) -> None:
    (tmp_path / "mailroom.toml").write_text(
        'brain = "openai:big"\nbrain_url = "http://one/v1"\nbrain_key = "k1"\n'
        'brain_fallback = ["openai:other"]\ncerebellum = "openai:small"\n'
        '[agents.critic]\nbrain = "openai:local"\nbrain_url = "http://two/v1"\n'
        '[agents.scout]\nbrain_effort = "low"\n'
        '[agents.nexus]\nbrian = "x"\n'
    )
    given = settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})
    critic = settings_of(given, "critic")
    model = configured_model(critic)
    assert model is not None
    assert (model.name, model.url, model.key, configured_fallbacks(critic)) == (
        "openai:local",
        "http://two/v1",
        "",
        [],
    )
    small = configured_small_model(critic)
    assert small is not None
    assert (small.model, small.url, small.key) == ("local", "http://two/v1", "")
    assert isinstance(make_small_model(settings_of(given, "engineer")), FallbackModel) is False
    scout = settings_of(given, "scout")
    assert (scout.brain, scout.brain_effort, scout.brain_fallback) == ("openai:big", "low", ("openai:other",))
    assert settings_of(given, "engineer") == given
    with pytest.raises(
        ConfigError, match=r"\[agents.nexus\] is wrong: 'brian' is none of an agent's settings"
    ):
        settings_of(given, "nexus")
    assert "k1" not in repr(given)


class Unlimited(Spending):
    """What an agent without a budget may use."""

    def __init__(self) -> None:
        """Keeps no record."""

    @asynccontextmanager
    async def reserving(self, *_: object) -> AsyncIterator[Callable[[Usage], None]]:
        """Lets everything through."""
        yield lambda _: None


async def test_what_is_recorded_of_a_call_names_the_model_that_answered() -> None:
    recorder = SpanRecorder()
    record_spans_in(recorder)
    model = RecordedModel(FallbackModel([Model("first", AWAY), Model("second")]), Unlimited())
    assert (await model.complete(HELLO)).instead_of == "first"
    assert [(each.name, each.instead_of) for each in recorder.recorded()] == [("second", "first")]
    assert answered_by.get() == "second"


def test_roles_have_models_of_their_own_before_those_of_the_brain(tmp_path) -> None:
    (tmp_path / "mailroom.toml").write_text(
        'brain = "openai:big"\nbrain_url = "http://one/v1"\nbrain_key = "k1"\n'
        'brain_plan = "openai:planner"\nbrain_review = "openai:judge@http://two/v1"\n'
        '[agents.critic]\nbrain = "openai:local"\nbrain_url = "http://three/v1"\n'
        '[agents.cortex]\nbrain_review = "openai:own@http://four/v1"\n'
    )
    given = settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})
    plan, review = configured_for(given, "plan"), configured_for(given, "review")
    assert plan is not None
    assert review is not None
    assert (plan.name, plan.url, plan.key) == ("openai:planner", "http://one/v1", "k1")
    assert (review.name, review.url, review.key) == ("openai:judge", "http://two/v1", "")
    assert [each.name for each in configured_models(given)] == [
        "openai:big",
        "openai:planner",
        "openai:judge",
    ]
    chain = make_model(given, role="review")
    assert isinstance(chain, FallbackModel)
    assert chain.name == "openai:judge"
    # What a local agent judges goes to no model of others.
    assert configured_for(settings_of(given, "critic"), "review") is None
    assert make_model(settings_of(given, "critic"), role="review").name == "openai:local"
    assert make_model(settings_of(given, "cortex"), role="review").name == "openai:own"
    require_known_agents(given, ["critic", "cortex"])


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ('[agents.crtic]\nbrain_effort = "low"', r"no agent 'crtic'. Did you mean 'critic'\?"),
        ('[agents.boss]\nbrain_effort = "low"', "no agent 'boss'. The agents are critic, scout"),
        (
            '[agents.critic]\nbrian = "openai:x"',
            r"'brian' is none of .*. Did you mean 'brain'\?",
        ),
        ('[agents.critic]\nbrain = "gpt"', r"\[agents.critic\] is wrong: MAILROOM_BRAIN is wrong"),
        ('[agents.critic]\nbrain_effort = "much"', r"\[agents.critic\] is wrong: Invalid enum value 'much'"),
        ("[agents]\ncritic = 1", r"\[agents.critic\] is wrong: it is no table"),
    ],
)
def test_a_wrong_agent_or_setting_of_one_is_refused_with_those_that_exist(
    tmp_path, table: str, sentence: str
) -> None:
    (tmp_path / "mailroom.toml").write_text(f"{table}\n")
    given = settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})
    with pytest.raises(ConfigError, match=sentence):
        require_known_agents(given, ["critic", "scout"])
