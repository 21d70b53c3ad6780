"""What models used, in words, and what is left of the budgets."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from shared.contracts import DailySpending, NightState
from shared.errors import ConfigError
from shared.llm.config import configured_model, configured_small_model
from shared.queries.spending import format_left, format_night
from shared.settings import Settings, load
from shared.tasks.submission import format_budget, parse_budget
from shared.views.timeline import format_spent


def spent(tokens: int, cost: float = 0.0) -> DailySpending:
    return DailySpending(day="2026-11-23", input_tokens=tokens, cost=cost)


@pytest.mark.parametrize(
    ("tokens", "cost", "text"),
    [
        (0, 0.0, "0 tokens"),
        (1, 0.0, "1 token, – (no price is known)"),
        (12_345, 0.0123, "12,345 tokens, $0.0123"),
        (5_000_000, 12.5, "5,000,000 tokens, $12.50"),
    ],
)
def test_what_was_used(tokens: int, cost: float, text: str) -> None:
    assert format_spent(tokens, cost) == text


def test_what_is_left_is_that_of_the_agent_with_the_least() -> None:
    today = {"scout": spent(100, 4.0), "engineer": spent(900)}
    tokens = Settings(state_dir=Path("/x"), day_tokens=1_000)
    assert format_left(tokens, today) == "left today: 100 of 1,000 tokens for engineer"
    both = Settings(state_dir=Path("/x"), day_tokens=100_000, day_cost=5.0)
    assert format_left(both, today) == "left today: 99,900 of 100,000 tokens and $1.00 of $5.00 for scout"
    assert format_left(Settings(state_dir=Path("/x"), day_tokens=10), today).startswith("left today: 0 of 10")
    assert format_left(Settings(state_dir=Path("/x"), day_tokens=0), today) == ""
    whole = "left today: all of 100,000 tokens and $5.00 for each agent"
    assert format_left(both, {}) == whole


def test_how_the_night_stands() -> None:
    settings = Settings(state_dir=Path("/x"), time_zone="UTC", night_tokens=1_000)
    noon, midnight = datetime(2026, 11, 23, 12, tzinfo=UTC), datetime(2026, 11, 23, 23, tzinfo=UTC)
    state = NightState(tokens=1_200, held="the night's budget is spent")
    assert format_night(settings, state, noon).startswith("from 22:00 to 06:00; it begins on Monday 23")
    assert format_night(settings, state, midnight) == (
        "until 06:00; 1,200 tokens, – (no price is known) of 1,000 tokens; "
        "no job begins: the night's budget is spent"
    )
    always = Settings(state_dir=Path("/x"), night="always")
    assert format_night(always, NightState(), noon) == "jobs begin at once"


def test_prices_come_from_a_table_unless_a_model_has_its_own(tmp_path: Path) -> None:
    table = {
        "MAILROOM_PRICES": "openai:big=3/15, openai:small=0.5/2",
        "MAILROOM_BRAIN_URL": "http://127.0.0.1:1/v1",
    }
    known = {"MAILROOM_STATE_DIR": str(tmp_path), "MAILROOM_BRAIN": "openai:big", **table}
    model = configured_model(load(known))
    assert model is not None
    assert (model.price.input, model.price.output) == (3.0, 15.0)
    small = configured_small_model(load({**known, "MAILROOM_CEREBELLUM": "openai:small"}))
    assert small is not None
    assert small.price.output == 2.0
    own = configured_model(load({**known, "MAILROOM_BRAIN_PRICE": "1/1"}))
    assert own is not None
    assert own.price.input == 1.0
    with pytest.raises(ConfigError, match="MAILROOM_PRICES is wrong: 'cheap' is no price"):
        configured_model(load({**known, "MAILROOM_PRICES": "openai:big=cheap"}))
    with pytest.raises(ConfigError, match="MAILROOM_NIGHT_COST limits the cost of models"):
        configured_model(load({**known, "MAILROOM_PRICES": "", "MAILROOM_NIGHT_COST": "2"}))


def test_prices_and_the_night_stand_in_the_file_of_settings(tmp_path: Path) -> None:
    text = 'night = "23:00-05:00"\nnight_tokens = 2_000\n\n[prices]\n"openai:big" = "3/15"\n'
    (tmp_path / "mailroom.toml").write_text(text)
    settings = load({"MAILROOM_STATE_DIR": str(tmp_path)})
    assert (settings.night, settings.night_tokens, settings.prices) == (
        "23:00-05:00",
        2_000,
        {"openai:big": "3/15"},
    )


@pytest.mark.parametrize(
    ("text", "tokens", "cost"),
    [
        ("200k", 200_000, 0.0),
        ("1.5M", 1_500_000, 0.0),
        ("50_000 tokens", 50_000, 0.0),
        ("$1.50", 0, 1.5),
        ("200k,$2", 200_000, 2.0),
        ("$0.5, 80000", 80_000, 0.5),
    ],
)
def test_a_budget_as_people_write_it(text: str, tokens: int, cost: float) -> None:
    budget = parse_budget(text)
    assert (budget.tokens, budget.cost) == (tokens, cost)
    assert parse_budget(format_budget(budget).replace("'", "")) == budget


@pytest.mark.parametrize("text", ["", "much", "-5", "$1k", "5,6", "1e9", "$", "200k tokens a day", "5 $"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no budget"):
        parse_budget(text)
