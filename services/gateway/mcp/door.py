"""The door at /mcp: who comes in, with which scope, and the sessions of the hosts that have such."""

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Send
from starlette.types import Scope as Message

from services.gateway.call import Gateway
from services.gateway.metrics.exposition import ROUTE
from services.gateway.problems import to_response
from services.gateway.routing import require_scope
from services.gateway.security.authentication import Credential
from shared.access.credentials import is_command_token
from shared.access.scopes import Person, Scope
from shared.errors import MailroomError
from shared.settings import Settings

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
MISSING = "MCP is an extra that is not installed here"
CURE = "Install it where the gateway runs: pip install 'mailroom[mcp]'"
MOST_SESSIONS = 64  # Sessions that one person's hosts may have open at the same time
IDLE = 3_600.0  # Seconds after which a session that nobody uses ends


def scope_of(config: Settings, person: Person, credential: Credential) -> Scope:
    """What a host may do in the name of ``person``.

    The model behind it must not approve what its own team asks for, so more than SUBMIT takes a token that
    was made with such a scope: neither a browser's session nor the token of this machine's commands does.
    """
    is_own = credential.via == "token" and not is_command_token(config, credential.secret)
    return person.scope if is_own else min(person.scope, Scope.SUBMIT)


class Door:
    """An ASGI application that imports the server when it is first used."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._server: Server[Any] | None = None
        self._managers: dict[str, asyncio.Future[StreamableHTTPSessionManager]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, message: Message, receive: Receive, send: Send) -> None:
        """Handle a request."""
        message[ROUTE] = PATH
        request = Request(message)
        try:
            person = require_scope(request, Scope.READ)
            if find_spec("mcp") is None:
                raise MailroomError(MISSING, CURE)
        except MailroomError as error:
            await to_response(getattr(error, "status", 501), error.cause, error.cure)(message, receive, send)
            return
        scope = scope_of(self._gateway.settings, person, request.state.credential)
        message["state"]["person"] = msgspec.structs.replace(person, scope=scope)
        manager = await self._manager_of(person.name)
        await manager.handle_request(message, receive, send)

    async def _manager_of(self, name: str) -> "StreamableHTTPSessionManager":
        """The sessions of a person: nobody else's hosts can use or crowd out one of them."""
        found = self._managers.get(name)
        if found is None:
            found = self._managers[name] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(self._run(found))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await asyncio.shield(found)

    async def _run(self, ready: "asyncio.Future[StreamableHTTPSessionManager]") -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from services.gateway.mcp.server import build_server

        try:
            if self._server is None:
                self._server = build_server(self._gateway)
            manager = StreamableHTTPSessionManager(
                self._server, max_sessions=MOST_SESSIONS, session_idle_timeout=IDLE
            )
            async with manager.run():
                ready.set_result(manager)
                await asyncio.Event().wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
