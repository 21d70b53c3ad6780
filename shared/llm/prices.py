"""Prices of models at their providers, from a table that is made with the package genai-prices."""

import functools
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from shared.llm.protocol import Price

TABLE = Path(__file__).with_name("prices.tsv")
SERVERS = {
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.openai.com": "openai",
    "api.x.ai": "x-ai",
    "generativelanguage.googleapis.com": "google",
    "openrouter.ai": "openrouter",
}
"""The providers of the table by the host of their server: a model of the same name elsewhere has no price."""


@functools.cache
def find_price(url: str, model: str) -> Price | None:
    """The price of ``model`` at the server of ``url``; None if it is not known.

    Of several patterns that match its name the longest counts.
    """
    provider = SERVERS.get(urlsplit(url).hostname or "")
    if provider is None:
        return None
    rows = [line.split("\t") for line in TABLE.read_text("utf-8").splitlines() if line.startswith(provider)]
    found = [row for row in rows if row[0] == provider and fnmatchcase(model, row[1])]
    if not found:
        return None
    *_, read, out, cached, written = max(found, key=lambda row: ("*" not in row[1], len(row[1])))
    prices = [float(number) if number else None for number in (read, out, cached, written)]
    return Price(input=prices[0] or 0.0, output=prices[1] or 0.0, cached=prices[2], written=prices[3])
