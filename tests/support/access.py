"""Tokens, links and sessions of a running gateway, as its commands make them; and a bucket for one alone."""

import itertools
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from typing import Any

from services.cli import api
from services.gateway.security.bucket import Bucket
from shared import subjects
from shared.access.credentials import TokenList, TokenRow, find_address, read_command_token
from shared.access.scopes import Scope, list_scopes
from shared.bus.entry import EXPECTED, Stored
from shared.errors import BusError
from shared.settings import Settings


def login(config: Settings) -> api.Login:
    return api.Login(url=find_address(config), token=read_command_token(config), is_here=True)


class Tokens:
    """The tokens, through the API."""

    def __init__(self, config: Settings) -> None:
        self._login = login(config)

    def add(self, name: str, scope: Scope, lifetime: timedelta | None = None, *, person: str = "") -> str:
        days = lifetime.total_seconds() / 86_400 if lifetime else None
        wanted = {"name": name, "scopes": list_scopes(scope), "days": days, "person": person}
        return api.post("/tokens", dict[str, str], wanted, login=self._login)["token"]

    def list(self) -> list[TokenRow]:
        return api.get("/tokens", TokenList, login=self._login, is_fresh=False).tokens

    def revoke(self, name: str) -> None:
        api.delete(f"/tokens/{name}", login=self._login)


def end_sessions(config: Settings, person: str = "") -> int:
    """Sign a person out in all browsers; how many sessions there were."""
    done = api.post("/sessions/end", dict[str, Any], {"person": person}, login=login(config))
    return int(done["ended"])


def create_link(config: Settings, person: str = "", page: str = "") -> str:
    return api.create_link(config, person, page)[0]


class OneBucket:
    """The bus as a Bucket sees it: a bucket in memory. Several buckets on it are several gateways."""

    name, connected = subjects.GATEWAY, True

    def __init__(self) -> None:
        self.instance = "one"
        self.stored: dict[str, Stored] = {}
        self.full = False
        self._numbers = itertools.count(1)

    async def store(self, subject: str, data: bytes, *, headers: Mapping[str, str]) -> dict[str, Any]:
        known = self.stored.get(subject)
        if self.full:
            raise BusError("The bus refused it: insufficient resources (10023)")
        if int(headers[EXPECTED]) != (known.seq if known else 0):
            raise BusError("The bus refused it: wrong last sequence (10071)")
        seq = next(self._numbers)
        self.stored[subject] = Stored(
            stream="KV_gateway", subject=subject, seq=seq, data=data, headers=dict(headers), time=""
        )
        return {"seq": seq}

    async def publish(self, subject: str, payload: bytes) -> None:
        pass

    async def read(self, stream: str, request: Mapping[str, Any]) -> AsyncGenerator[Stored, None]:
        for each in sorted(self.stored.values(), key=lambda each: each.seq):
            if each.seq >= request["seq"]:
                yield each


def one_bucket(bus: OneBucket | None = None) -> Bucket:
    """A bucket of a gateway, alone or on the ``bus`` of others."""
    return Bucket(bus or OneBucket())  # type: ignore[arg-type]
