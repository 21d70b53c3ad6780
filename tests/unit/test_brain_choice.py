"""Which brain the settings choose, and the sentences for what is wrong in them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from shared import settings
from shared.errors import ConfigError, ModelError, NoModel
from shared.llm import Message, make_model, make_small_model
from shared.llm.clients import require_sdk
from shared.llm.config import configured_model, configured_small_model
from shared.llm.prices import find_price
from shared.llm.protocol import Price, read_price
from shared.settings import Settings

KEY = "sk-0123456789secret"


def config(**values: str) -> Settings:
    return settings.load(
        {"MAILROOM_STATE_DIR": "/nowhere", **{f"MAILROOM_{k.upper()}": v for k, v in values.items()}}
    )


async def test_without_a_model_the_brain_says_how_to_configure_one():
    brain = make_model(config())
    assert (brain.name, brain.available) == ("offline", False)
    with pytest.raises(NoModel, match=r"No model is configured.*MAILROOM_BRAIN to openai:MODEL"):
        await brain.complete([Message(role="user", text="Hello")])
    with pytest.raises(NoModel):
        await anext(aiter(brain.stream([])))


def test_models_are_named_by_kind_and_model():
    brain = make_model(config(brain="openai:qwen3:8b", brain_url="http://127.0.0.1:11434/v1"))
    assert (brain.name, brain.available) == ("openai:qwen3:8b", True)
    assert make_model(config(brain="anthropic:small", brain_key=KEY)).name == "anthropic:small"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"brain": "gpt"}, r"MAILROOM_BRAIN is wrong: 'gpt' names no model. Write openai:MODEL"),
        ({"brain": "openai:"}, "MAILROOM_BRAIN is wrong"),
        ({"brain": "ollama:qwen3"}, "MAILROOM_BRAIN is wrong: .* at MAILROOM_BRAIN_URL"),
        (
            {"brain": "openai:x"},
            r"no key for https://api.openai.com/v1. Set MAILROOM_BRAIN_KEY or OPENAI_API",
        ),
        ({"brain": "anthropic:x"}, "Set MAILROOM_BRAIN_KEY or ANTHROPIC_API_KEY"),
        ({"brain": "openai:x", "brain_url": "localhost:1234"}, "MAILROOM_BRAIN_URL is no http address"),
        ({"brain": "openai:x", "brain_url": "http://a:port/v1"}, "MAILROOM_BRAIN_URL is no http address"),
        ({"brain": "openai:x", "brain_price": "cheap"}, "MAILROOM_BRAIN_PRICE is wrong: 'cheap' is no price"),
        ({"brain": "openai:x", "brain_price": "3/nan"}, "MAILROOM_BRAIN_PRICE is wrong"),
        ({"brain": "openai:x", "day_cost": "5"}, "openai:x has no price. Set MAILROOM_BRAIN_PRICE"),
        (
            {"brain": "anthropic:x", "brain_key": "sk-\u2026"},
            "characters no key has. Correct MAILROOM_BRAIN_KEY",
        ),
        ({"brain": "scripted:/nowhere.yaml"}, "The script /nowhere.yaml cannot be read"),
    ],
)
def test_what_is_wrong_in_the_settings_is_said_with_the_cure(values, sentence):
    with pytest.raises(ConfigError, match=sentence):
        make_model(config(**values))


def test_a_cerebellum_that_is_wrong_names_its_own_setting():
    with pytest.raises(ConfigError, match="MAILROOM_CEREBELLUM is wrong"):
        make_small_model(config(cerebellum="tiny"))


def test_the_cerebellum_is_the_brain_where_none_is_named():
    local = config(brain="openai:big", brain_url="http://127.0.0.1:1/v1", brain_key=KEY)
    assert configured_small_model(local) == configured_model(local)
    assert make_small_model(config()).name == "offline"


def test_a_cerebellum_of_the_brain_s_kind_takes_what_it_lacks_from_the_brain():
    brain = {"brain": "openai:big", "brain_url": "http://127.0.0.1:1/v1", "brain_price": "3/15"}
    small = configured_small_model(config(**brain, brain_key=KEY, cerebellum="openai:small"))
    assert (small.model, small.url, small.key) == ("small", "http://127.0.0.1:1/v1", KEY)
    assert small.price == Price(input=3, output=15)
    own = {"cerebellum_url": "http://127.0.0.1:2/v1", "cerebellum_price": "1/2"}
    small = configured_small_model(config(**brain, **own, cerebellum="openai:small"))
    assert (small.url, small.price) == ("http://127.0.0.1:2/v1", Price(input=1, output=2))


def test_a_cerebellum_of_another_kind_never_gets_the_brain_s_key_or_address():
    values = {"brain": "openai:big", "brain_url": "http://127.0.0.1:1/v1", "brain_key": KEY}
    with pytest.raises(ConfigError, match="MAILROOM_CEREBELLUM_KEY or ANTHROPIC_API_KEY"):
        configured_small_model(config(**values, cerebellum="anthropic:small"))


def test_the_provider_s_own_variables_give_the_key():
    env = {"MAILROOM_STATE_DIR": "/nowhere", "MAILROOM_BRAIN": "openai:x", "OPENAI_API_KEY": f"{KEY}\n"}
    assert configured_model(settings.load(env)).key == KEY


def test_a_key_goes_to_no_other_server_than_the_one_it_is_for():
    env = {"MAILROOM_STATE_DIR": "/nowhere", "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    elsewhere = {"MAILROOM_BRAIN_URL": "http://127.0.0.1:1/v1"}
    for kind in ("openai", "anthropic"):
        assert configured_model(settings.load({**env, **elsewhere, "MAILROOM_BRAIN": f"{kind}:x"})).key == ""
    home = {"MAILROOM_BRAIN": "anthropic:x", "MAILROOM_BRAIN_URL": "https://api.anthropic.com/v1/"}
    assert configured_model(settings.load({**env, **home})).key == KEY
    values = {"brain": "openai:big", "brain_key": KEY, "cerebellum": "openai:small"}
    assert configured_small_model(config(**values, cerebellum_url="http://127.0.0.1:2/v1")).key == ""
    assert configured_small_model(config(**values)).key == KEY


@pytest.mark.parametrize("url", ["https://API.openai.com/v1", "https://api.openai.com:443/v1/"])
def test_one_server_is_one_however_its_address_is_written(url):
    own = {"cerebellum": "openai:small", "cerebellum_url": url}
    assert configured_small_model(config(brain="openai:big", brain_key=KEY, **own)).key == KEY
    values = {"brain": "openai:big", "brain_url": "http://a/v1/", "brain_key": KEY}
    assert configured_small_model(config(**values, **own | {"cerebellum_url": "http://a:80/v1"})).key == KEY
    with pytest.raises(ConfigError, match="there is no key for"):
        configured_small_model(config(**values, **own))
    env = {"MAILROOM_STATE_DIR": "/nowhere", "OPENAI_API_KEY": KEY, "MAILROOM_BRAIN": "openai:x"}
    assert configured_model(settings.load({**env, "MAILROOM_BRAIN_URL": url})).key == KEY
    plain = {"MAILROOM_BRAIN_URL": "http://api.openai.com/v1"}
    assert configured_model(settings.load({**env, **plain})).key == ""


def test_no_key_is_in_the_text_of_a_choice():
    choice = configured_model(
        config(brain="openai:x", brain_url=f"http://me:{KEY}@host/v1?key={KEY}", brain_key=KEY)
    )
    assert KEY not in repr(choice) + str(choice) + choice.place
    assert choice.place == "http://host/v1"
    assert KEY not in repr(make_model(config(brain="openai:x", brain_key=KEY)))


def test_an_extra_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'mailroom\[anthropic\]'"):
        make_model(config(brain="anthropic:x", brain_key=KEY))


def test_an_sdk_that_cannot_be_imported_or_is_another_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModelError, match=r"cannot be imported.*pip install --upgrade 'mailroom\[openai\]'"):
        require_sdk("openai", "AsyncOpenAI")
    with pytest.raises(ModelError, match="too old"):
        require_sdk("msgspec", "AsyncOpenAI")


def test_neither_sdk_is_imported_for_making_a_brain():
    code = (
        "import sys; from shared import settings; from shared.llm import make_model;"
        "make_model(settings.load({'MAILROOM_STATE_DIR': '/x', 'MAILROOM_BRAIN': 'openai:x',"
        "'MAILROOM_BRAIN_URL': 'http://127.0.0.1:1'}));"
        "print({'openai', 'anthropic', 'tenacity', 'httpx2', 'yaml'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.parametrize(("text", "price"), [("", (0, 0)), ("3/15", (3, 15)), (" 0.15 / 0.6 ", (0.15, 0.6))])
def test_prices_are_dollars_for_a_million_tokens(text, price):
    assert read_price(text) == Price(input=price[0], output=price[1])
    usage = read_price(text).count([], "", input_tokens=1_000_000, output_tokens=500_000)
    assert usage.cost == pytest.approx(price[0] + price[1] / 2)


def test_tokens_a_server_does_not_count_are_estimated_and_that_is_said():
    messages = [Message(role="user", text="a" * 40)]
    counted = Price().count(messages, "b" * 8, input_tokens=5, output_tokens=1)
    assert (counted.input_tokens, counted.output_tokens, counted.estimated) == (5, 1, False)
    estimated = Price().count(messages, "b" * 8)
    assert (estimated.input_tokens, estimated.output_tokens, estimated.estimated) == (10, 2, True)
    assert counted.plus(estimated).estimated


def test_the_table_of_prices_knows_what_a_provider_takes_at_its_own_server():
    known = {"brain": "anthropic:claude-sonnet-4-6", "brain_key": KEY}
    model = configured_model(config(**known, day_cost="5"))
    assert model
    assert model.price == Price(input=3, output=15, cached=0.3, written=3.75)
    assert configured_model(config(**known, brain_price="1/2")).price == Price(input=1, output=2)
    elsewhere = configured_model(config(**known, brain_url="http://127.0.0.1:1"))
    assert elsewhere
    assert elsewhere.price == Price()
    with pytest.raises(ConfigError, match="anthropic:of-tomorrow has no price"):
        configured_model(config(brain="anthropic:of-tomorrow", brain_key=KEY, day_cost="5"))


def test_the_longest_pattern_of_the_table_counts():
    home = "https://api.openai.com/v1"
    assert find_price(home, "gpt-5-1") == Price(input=1.25, output=10, cached=0.125)
    assert find_price(home, "gpt-5-1-codex-mini") == Price(input=0.25, output=2, cached=0.025)
    assert find_price("https://openrouter.ai/api/v1", "gpt-5-1") is None
    assert find_price("http://api.openai.com.example.org/v1", "gpt-5-1") is None
