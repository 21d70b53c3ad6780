"""``python -m tests.prices_table`` writes shared/llm/prices.tsv from the package genai-prices (MIT)."""

import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parents[1] / "shared" / "llm" / "prices.tsv"
PROVIDERS = ("anthropic", "deepseek", "google", "groq", "mistral", "openai", "openrouter", "x-ai")
HEAD = """# US dollars for a million tokens, by provider: in, out, read from the cache, written to it.
# Made by `make prices` on {day} from genai-prices {version} (MIT, github.com/pydantic/genai-prices).
# provider	model (* is any text)	in	out	cached	written
"""


def make_table() -> str:
    from genai_prices.data import providers

    rows: dict[tuple[str, str], str] = {}
    for provider in providers:
        if provider.id not in PROVIDERS:
            continue
        for model in provider.models:
            price = _current(model.prices)
            numbers = [_number(getattr(price, name, None)) for name in ("input_mtok", "output_mtok")]
            numbers += [
                _number(getattr(price, name, None)) for name in ("cache_read_mtok", "cache_write_mtok")
            ]
            if numbers[0] and numbers[1]:
                for pattern in _patterns(model.match):
                    rows.setdefault((provider.id, pattern), "\t".join(numbers))
    head = HEAD.format(day=f"{datetime.now(UTC):%Y-%m-%d}", version=version("genai-prices"))
    return head + "".join(f"{name}\t{pattern}\t{row}\n" for (name, pattern), row in sorted(rows.items()))


def _current(prices: Any) -> Any:
    """The price of today, if there are several by date or hour: the last that has no hours."""
    if not isinstance(prices, list):
        return prices
    today = datetime.now(UTC).date()
    begun = [each for each in prices if getattr(each.constraint, "start_date", today) <= today]
    plain = [each for each in begun if not hasattr(each.constraint, "start_time")]
    return (plain or begun or prices)[-1].prices


def _number(price: Any) -> str:
    """The price as text; of one with tiers the lowest, which most requests pay; empty if there is none."""
    value = getattr(price, "base", price)
    return "" if value is None else f"{value.normalize():f}"


def _patterns(match: Any) -> list[str]:
    kind = type(match).__name__
    if kind == "ClauseOr":
        return [pattern for each in match.or_ for pattern in _patterns(each)]
    if kind == "ClauseEquals":
        return [match.equals]
    if kind == "ClauseStartsWith":
        return [f"{match.starts_with}*"]
    if kind == "ClauseRegex" and re.fullmatch(r"\^[\w.-]+\\d\{8\}\$", match.regex):
        return [match.regex[1:].partition("\\")[0] + "????????"]
    return []  # a part of a name says too little


if __name__ == "__main__":
    TABLE.write_text(make_table(), "utf-8")
