"""The options of frontier in its profile."""

from typing import Any

import msgspec

from services.frontier.papers import PAUSE
from shared.errors import ConfigError


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``interests`` are what the daily discovery looks for, with the number of papers for each and of news.

    ``arxiv_delay`` is the seconds between requests to arXiv, ``arxiv_retries`` how often one is repeated.
    """

    interests: tuple[str, ...] = ()
    papers_per_interest: int = 3
    news_items: int = 5
    arxiv_delay: float = PAUSE
    arxiv_retries: int = 2


def read_options(values: dict[str, Any]) -> Options:
    """The options in ``values``; raises ConfigError naming the one that is wrong."""
    try:
        return msgspec.convert(values, Options)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The options of the frontier profile are wrong: {error}") from None
