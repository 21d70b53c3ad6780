"""The API for people who use a NATS client with a key of their own: the broker says who asks.

A request is passed to the same handlers as one by HTTP, in the name and with the role of that person.
"""

import asyncio
from collections import Counter
from typing import Any

import msgspec
from starlette.routing import Router

from services.gateway.api import TABLE
from services.gateway.call import Gateway
from services.gateway.routing import API, JSON, make_routes
from shared import subjects
from shared.access.scopes import People, Person
from shared.errors import ActionError, MailroomError
from shared.views.personal import PersonalAnswer, PersonalRequest

MOST_OPEN = 16  # Requests of one person at a time
LONGEST = 60.0  # Seconds that an answer may take
MOST_BYTES = subjects.MAX_PAYLOAD // 2
_BY_HTTP_ALONE = (f"{API}/session", f"{API}/tokens", f"{API}/events")


class PersonalDoor:
    """Answers ``subjects.API``."""

    def __init__(self, gateway: Gateway) -> None:
        self._people = People(gateway.settings)
        self._router = Router(make_routes(gateway, TABLE))
        self._open: Counter[str] = Counter()

    async def answer(self, data: bytes, asker: str) -> bytes:
        """A PersonalAnswer to a PersonalRequest of the identity ``asker``; raises MailroomError."""
        asked = msgspec.json.decode(data, type=PersonalRequest)
        name = asker.removeprefix(subjects.PERSON)
        user = self._people.find(name) if asker.startswith(subjects.PERSON) else None
        if user is None:
            raise ActionError(f"{name[:64]!r} is nobody in gateway/users.toml", "Ask who runs the office")
        if not asked.path.startswith(f"{API}/") or asked.path.startswith(_BY_HTTP_ALONE):
            raise ActionError(f"{asked.path[:100]!r} is not answered here", f"Ask for a path of {API}/")
        if self._open[name] >= MOST_OPEN:
            raise ActionError(f"{MOST_OPEN} requests are open already", "Wait for one of them")
        self._open[name] += 1
        try:
            async with asyncio.timeout(LONGEST):
                return msgspec.json.encode(
                    await self._pass_on(asked, self._people.identify(name, user.scope))
                )
        except TimeoutError:
            raise ActionError(f"It took longer than {LONGEST:g} s", "Ask for less, or by HTTP") from None
        finally:
            self._open[name] -= 1

    async def _pass_on(self, asked: PersonalRequest, person: Person) -> PersonalAnswer:
        path, _, query = asked.path.partition("?")
        body = b"" if asked.body is None else msgspec.json.encode(asked.body)
        headers = [(b"content-type", JSON.encode()), (b"idempotency-key", asked.key.encode())]
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": asked.method,
            "path": path,
            "root_path": "",
            "scheme": "http",
            "query_string": query.encode(),
            "headers": headers if asked.key else headers[:1],
            "state": {"person": person},
        }
        sent = [{"type": "http.request", "body": body}]
        status, parts, size = 500, [], 0

        async def receive() -> dict[str, Any]:
            if not sent:
                await asyncio.Event().wait()  # who asked stays
            return sent.pop()

        async def send(message: dict[str, Any]) -> None:
            nonlocal status, size
            status = message.get("status", status)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > MOST_BYTES:
                raise MailroomError(f"The answer has more than {MOST_BYTES:,} bytes", "Ask for less at once")

        await self._router(scope, receive, send)  # type: ignore[arg-type]  # mappings are what ASGI has
        return PersonalAnswer(status=status, body=b"".join(parts).decode(errors="replace"))
