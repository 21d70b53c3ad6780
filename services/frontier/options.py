"""The options of frontier in its profile."""

from typing import Annotated, Any

import msgspec

from shared.errors import ConfigError
from shared.skills.papers import PAUSE, RETRIES


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``interests`` are what the daily discovery looks for, with the number of papers for each and of news.

    ``remembered_interests`` is how many more are taken from memory. ``cache_hours`` is how long what a source
    answered is used again, 0: never. ``arxiv_delay`` is the seconds between requests to arXiv,
    ``arxiv_retries`` how often one is repeated.
    """

    interests: tuple[str, ...] = ()
    remembered_interests: Annotated[int, msgspec.Meta(ge=0, le=50)] = 5
    papers_per_interest: Annotated[int, msgspec.Meta(ge=1, le=30)] = 3
    news_items: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5
    cache_hours: Annotated[float, msgspec.Meta(ge=0, le=1_000)] = 6.0
    arxiv_delay: Annotated[float, msgspec.Meta(ge=0, le=600)] = PAUSE
    arxiv_retries: Annotated[int, msgspec.Meta(ge=0, le=10)] = RETRIES


def read_options(values: dict[str, Any]) -> Options:
    """The options in ``values``; raises ConfigError naming the one that is wrong."""
    try:
        return msgspec.convert(values, Options)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The options of the frontier profile are wrong: {error}") from None
