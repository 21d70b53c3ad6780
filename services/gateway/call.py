"""What handlers work with."""

from typing import NamedTuple

import msgspec
from starlette.requests import Request

from services.gateway.index.index import LogIndex
from services.gateway.metrics.exposition import Exposition
from services.gateway.security.authentication import AccessLog
from services.gateway.spoken_words import SpokenWords
from shared.access.scopes import Person
from shared.bus import Bus
from shared.settings import Settings


class Gateway(msgspec.Struct, frozen=True):
    """The parts of the gateway that all requests share."""

    bus: Bus
    settings: Settings
    index: LogIndex
    url: str
    """The address under which the gateway listens, such as ``http://127.0.0.1:8642``."""
    access: AccessLog
    exposition: Exposition
    words: SpokenWords


class Call(NamedTuple):
    """One request: who makes it, the parameters in its path, and its Idempotency-Key (empty: none)."""

    gateway: Gateway
    person: Person
    path: dict[str, str]
    key: str
    request: Request
