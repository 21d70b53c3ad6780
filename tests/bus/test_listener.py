"""Waiting for messages leaves no subscription behind: the gateway does it all day."""

import pytest

from shared import subjects
from shared.queries.records import Listener
from tests.support.server import Server


async def nothing() -> str | None:
    return None


async def something() -> str | None:
    return "found"


async def test_who_waited_listens_no_more(server: Server) -> None:
    user = await server.connect(subjects.USER)
    before = len(user._client._subs)
    for _ in range(3):
        listener = Listener(user, 0.05)
        await listener.subscribe(subjects.goal("g1"), subjects.dead(subjects.CONDUCTOR))
        assert await listener.wait_for(something, 1) == "found"
        listener = Listener(user, 0.05)
        await listener.subscribe(subjects.goal("g1"))
        with pytest.raises(TimeoutError):
            await listener.wait_for(nothing, 0.1)
    assert len(user._client._subs) == before
