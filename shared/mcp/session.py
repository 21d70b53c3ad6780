"""One MCP server while it runs: started, asked for its tools, called, and ended with all its processes."""

import asyncio
import contextvars
import importlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from shared.contracts import generate_iso_timestamp
from shared.errors import ActionError
from shared.log import logger
from shared.mcp.config import ServerConfig, SignIn
from shared.mcp.pins import MAX_TOOLS, Pin, Tool, require_sound
from shared.mcp.pipes import Life, hide, open_pipes
from shared.mcp.questions import Choice, fill
from shared.mcp.remote import open_http
from shared.settings import Settings
from shared.text.display import escape_invisible, excerpt, shorten

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import ElicitRequestParams

T = TypeVar("T")
START = 30.0  # Seconds a server has to answer the first time: some compile themselves
SIGNING_IN = 600.0  # Seconds a person has to sign in
LIST_EVERY = (10.0, 300.0)
"""The least and the most seconds for which a list of tools holds as the server says (``ttlMs``). One of
2025-11-25 that says that it tells changes is not asked again before it does."""
MAX_TEXT = 200_000  # The most characters of one result

Ask = Callable[[str, str, dict[str, Any]], Awaitable[tuple[Choice, dict[str, Any]]]]
"""Asks a person for a server: its message, an address to open, and the schema of the fields wanted."""
Sample = Callable[[Any], Awaitable[Any]]  # Has the agent's model answer a server's request

log = logger(__name__)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a call returned: its text, and ``failed`` if the server says that it did not work."""

    text: str
    failed: bool = False
    structured: Any = None


class Session:
    """A server, from ``start`` to ``close``; one call at a time, so that its questions belong to that call.

    ``ask`` puts its questions to a person; ``sample`` has a model answer it. Both run as part of the call. A
    server elsewhere needs the ``settings``; with ``sign_in`` a person signs in there.
    """

    def __init__(
        self,
        name: str,
        server: ServerConfig,
        *,
        ask: Ask | None = None,
        sample: Sample | None = None,
        mode: str = "auto",
        settings: Settings | None = None,
        sign_in: SignIn | None = None,
    ) -> None:
        self.name = name
        self.server = server
        self._settings, self._sign_in = settings, sign_in
        self._ask, self._sample, self._mode = ask, sample, mode
        self._stop, self._ready = asyncio.Event(), asyncio.Event()
        self._life = Life(name, self._end)
        self._turn = asyncio.Lock()
        self._clock: asyncio.Timeout | None = None
        self._asked = 0
        self._caller = contextvars.copy_context()
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._listed: tuple[float, Pin] | None = None  # And until when it holds
        self._told, self._holds = False, 0.0
        self.used_at = time.monotonic()

    @property
    def running(self) -> bool:
        """Whether it can be called."""
        return self._owner is not None and not self._owner.done() and not self._stop.is_set()

    @property
    def busy(self) -> bool:
        """Whether a call waits for it."""
        return self._turn.locked()

    async def start(self) -> None:
        """Start it; raises ActionError with the reason if it does not answer."""
        try:
            # In a thread: it takes a second, during which the agent is to answer others.
            await asyncio.to_thread(importlib.import_module, "mcp")
        except ImportError:
            raise ActionError(
                "Tools of MCP servers need the package mcp, which is not installed",
                "Install Mailroom with it: pip install 'mailroom[mcp]'",
            ) from None
        # A context of its own: the server serves several tasks, and belongs to none.
        self._owner = asyncio.create_task(self._serve(), context=contextvars.Context())
        ready = asyncio.ensure_future(self._ready.wait())
        seconds = SIGNING_IN if self._sign_in else START
        await asyncio.wait({self._owner, ready}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._client is None:
            self._life.end(f"it did not answer within {seconds:g} s")
            await self.close()
            raise ActionError(f"The MCP server {self.name} does not start: {self._life.reason}")

    async def close(self) -> None:
        """End it; returns when none of its processes is left."""
        self._end()
        if self._owner is not None:
            if self._client is None:  # it has not begun, and may never answer
                self._owner.cancel()
            await asyncio.wait({self._owner})

    def _end(self) -> None:
        self._stop.set()
        self._ready.set()

    async def _serve(self) -> None:
        from mcp import Client
        from mcp_types import Implementation

        try:
            async with Client(
                self._open(),
                mode=self._mode,
                client_info=Implementation(name="mailroom", version="1"),
                elicitation_callback=self._elicit if self._ask else None,
                sampling_callback=self._answer_sampling if self._sample else None,
                message_handler=self._hear,
            ) as self._client:
                self._ready.set()
                await self._stop.wait()
        except Exception as error:
            # Of a group, the first tells; what a server does wrong is told, and breaks nothing here.
            cause: BaseException = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
            self._life.end(shorten(escape_invisible(str(cause) or type(cause).__name__), 300))
        finally:
            self._end()

    def _open(self) -> AbstractAsyncContextManager[Any]:
        if self.server.command:
            return open_pipes(self.server, self._life)
        assert self._settings is not None, "A server elsewhere has tokens among the files of the office"
        return open_http(self.name, self.server, self._life, self._settings, self._sign_in)

    # --- what it offers --------------------------------------------------------------------------

    async def list_tools(self) -> Pin:
        """What it offers now; raises ActionError."""
        if self._listed and time.monotonic() < self._listed[0]:
            return self._listed[1]
        async with self._taking_turn(START):
            assert self._client is not None
            info, can = self._client.server_info, self._client.server_capabilities
            self._told = False
            listed, prompts, has_resources = await asyncio.gather(
                self._pages(self._client.list_tools, "tools"),
                self._pages(self._client.list_prompts if can.prompts else None, "prompts"),
                self._has_resources(bool(can.resources)),
            )
            tools = [*map(_describe, listed), *map(_describe_prompt, prompts)]
            tools += [RESOURCES] if has_resources else []
            pin = Pin(
                server=self.name,
                program=escape_invisible(info.name)[:200] if info else "",
                version=escape_invisible(info.version)[:100] if info else "",
                protocol=self._client.protocol_version,
                tools=tuple(require_sound(tool) for tool in tools),
                pinned_at=generate_iso_timestamp(),
            )
        if not self._told:
            tells = bool(can.tools and can.tools.list_changed and pin.protocol < "2026")
            self._listed = math.inf if tells else time.monotonic() + self._holds, pin
        return pin

    async def _has_resources(self, asked: bool) -> bool:
        assert self._client is not None
        if not asked:
            return False
        found = (await self._client.list_resources()).resources
        return bool(found or (await self._client.list_resource_templates()).resource_templates)

    async def _pages(self, ask: Callable[..., Awaitable[Any]] | None, kind: str) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        while ask is not None:
            page = await ask(cursor=cursor, cache_mode="bypass")
            found += getattr(page, kind)
            cursor = page.next_cursor
            if len(found) > MAX_TOOLS:
                raise ActionError(f"The MCP server {self.name} offers more than {MAX_TOOLS} {kind}")
            if kind == "tools":
                least, most = LIST_EVERY
                self._holds = min(max((page.ttl_ms or 0) / 1_000, least), most)
            if not cursor:
                break
        return found

    async def _hear(self, message: Any) -> None:
        if "list_changed" in str(getattr(message, "method", "")):
            self._listed, self._told = None, True

    # --- calls -----------------------------------------------------------------------------------

    async def call(self, tool: Tool, params: dict[str, Any]) -> Answer:
        """Call a tool, read a resource or get a prompt; raises ActionError if there is no answer in time."""
        async with self._taking_turn(self.server.timeout):
            assert self._client is not None
            if tool.kind == "resources":
                content: Any = (
                    await self._client.read_resource(str(params["uri"]), cache_mode="bypass")
                ).contents
                return Answer(text=self._read(content))
            if tool.kind == "prompt":
                texts = {key: str(value) for key, value in params.items()}
                messages = (await self._client.get_prompt(tool.name, texts)).messages
                return Answer(text=self._read([each.content for each in messages]))
            result = await self._client.call_tool(tool.name, params)
            text = self._read(result.content)
            if not text and result.structured_content is not None:
                text = self._clean(msgspec.json.encode(result.structured_content).decode())
            return Answer(text=text, failed=bool(result.is_error), structured=result.structured_content)

    @asynccontextmanager
    async def _taking_turn(self, seconds: float) -> AsyncIterator[None]:
        """One exchange, with ``seconds`` for it; a server that does not answer in time is stopped."""
        async with self._turn:
            if not self.running:
                raise ActionError(f"The MCP server {self.name} has ended: {self._life.reason}")
            self._life.allow()
            self._caller = contextvars.copy_context()
            try:
                async with asyncio.timeout(seconds) as self._clock:
                    yield
            except TimeoutError:
                self._life.end(f"it did not answer within {seconds:g} s")
                raise ActionError(f"The MCP server {self.name} was stopped: {self._life.reason}") from None
            except ActionError:
                raise
            except Exception as error:  # whatever the library raises for what a server sends
                if self._stop.is_set():
                    raise ActionError(f"The MCP server {self.name} has ended: {self._life.reason}") from None
                reason = self._clean(str(error) or type(error).__name__)
                raise ActionError(f"The MCP server {self.name} refused it: {shorten(reason, 500)}") from None
            finally:
                self.used_at = time.monotonic()

    def _clean(self, text: str) -> str:
        hidden = hide(text, self.server.read_secrets()) if self.server.secrets else text
        return excerpt(escape_invisible(hidden.replace("\r\n", "\n").expandtabs(4)), MAX_TEXT)

    def _read(self, content: Any) -> str:
        """The texts of a result, and a line for what is none."""
        parts = []
        for each in content:
            inner = getattr(each, "resource", each)
            if (text := getattr(inner, "text", None)) is not None:
                parts.append(str(text))
            elif (data := getattr(inner, "data", None) or getattr(inner, "blob", None)) is not None:
                kind = getattr(inner, "mime_type", None) or "data"
                parts.append(f"({kind} of {len(data) * 3 // 4:,} bytes, which is not shown)")
            else:
                parts.append(f"({getattr(inner, 'uri', 'something that is no text')})")
        return self._clean("\n".join(parts))

    # --- what it asks meanwhile ------------------------------------------------------------------

    async def _elicit(self, context: object, params: "ElicitRequestParams") -> Any:
        from mcp_types import ElicitResult

        assert self._ask is not None
        schema = dict(getattr(params, "requested_schema", None) or {})
        url = str(getattr(params, "url", ""))
        action, values = await self._as_caller(self._ask(params.message, url, schema))
        content = fill(schema, values) if action == "accept" and not url else None
        return ElicitResult(action=action, content=content)

    async def _answer_sampling(self, context: object, params: Any) -> Any:
        assert self._sample is not None
        return await self._as_caller(self._sample(params))

    async def _as_caller(self, work: Any) -> Any:
        """Do ``work`` as part of the call under way, whose time does not run while any such work is done."""
        self._asked += 1
        if self._clock is not None:
            self._clock.reschedule(None)
        try:
            return await asyncio.create_task(work, context=self._caller.copy())
        finally:
            self._asked -= 1
            if self._clock is not None and not self._asked and not self._clock.expired():
                self._clock.reschedule(asyncio.get_running_loop().time() + self.server.timeout)


RESOURCES = Tool(
    name="resources",
    kind="resources",
    description="Read a resource of this server",
    schema={
        "type": "object",
        "properties": {"uri": {"type": "string", "description": "Its address, as the server names it"}},
        "required": ["uri"],
    },
)


def _describe(tool: Any) -> Tool:
    said = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    return Tool(
        name=tool.name, description=tool.description or "", schema=tool.input_schema, annotations=said
    )


def _describe_prompt(prompt: Any) -> Tool:
    arguments = prompt.arguments or []
    schema = {
        "type": "object",
        "properties": {
            each.name: {"type": "string", "description": each.description or ""} for each in arguments
        },
        "required": [each.name for each in arguments if each.required],
    }
    return Tool(name=prompt.name, kind="prompt", description=prompt.description or "", schema=schema)
