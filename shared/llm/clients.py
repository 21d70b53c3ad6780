"""Clients of the SDKs, the limit for the size of answers, and errors of servers as sentences."""

import asyncio
import functools
import importlib
import json
import math
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from shared.errors import ModelError, ModelUnavailable, TooLong
from shared.llm.config import ModelConfig
from shared.text.display import format_network_error

if TYPE_CHECKING:
    import httpx2

CONNECT = 10.0  # Seconds to connect: a host that drops packets must not use up the time of a call


CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}  # by package
NO_KEY = "none"  # The key for servers without keys, since the SDKs require one


async def open_client(config: ModelConfig, seconds: float) -> Any:
    """A client of the SDK for one request, to be closed by the caller; raises ModelError like require_sdk.

    One for each request: no connection outlives its event loop or becomes stale.
    """
    # Importing takes up to 2 s, during which the agent's presence must be renewed.
    name = CLIENTS[config.package]
    sdk = await asyncio.to_thread(require_sdk, config.package, name, "DefaultAsyncHttpxClient")
    return getattr(sdk, name)(
        api_key=config.key or NO_KEY,
        # Anthropic's SDK adds the version of the interface itself.
        base_url=config.url if config.package == "openai" else config.url.removesuffix("/v1"),
        max_retries=0,
        timeout=sdk.Timeout(seconds, connect=min(seconds, CONNECT)),
        http_client=sdk.DefaultAsyncHttpxClient(
            verify=read_ssl(),
            # A redirect would send the key to another server.
            follow_redirects=False,
            headers={"accept-encoding": "identity"},
            event_hooks={"response": [hear, bound]},
        ),
    )


def require_sdk(name: str, *needed: str) -> Any:
    """The SDK package; raises ModelError with the cure if it is missing or too old."""
    cure = f"pip install --upgrade 'mailroom[{name}]'"
    try:
        package = importlib.import_module(name)
    except ImportError as error:
        raise ModelError(f"The {name} package cannot be imported ({error})", cure) from None
    if any(not hasattr(package, attribute) for attribute in needed):
        raise ModelError(f"The {name} package is not the one needed, or too old", cure)
    return package


@functools.cache
def read_ssl() -> ssl.SSLContext:
    """The TLS context of all connections, cached: reading the certificates takes 30 ms."""
    import httpx2

    return httpx2.create_ssl_context()


heard: ContextVar[dict[str, str] | None] = ContextVar("heard", default=None)
"""Where the headers of answers in the present context go, whatever their status."""


async def hear(response: "httpx2.Response") -> None:
    """Keep the headers of ``response`` for who asked."""
    if (headers := heard.get()) is not None:
        headers.update(response.headers)


# --- the limit for the size of an answer -------------------------------------------------------------
LONGEST = 16 * 2**20  # Bytes of one answer, or of all pieces of a stream: a hundred times the usual length


async def bound(response: "httpx2.Response") -> None:
    """Make ``response`` raise MalformedResponse after LONGEST bytes, or at once if it is compressed."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._stream:
                size += len(piece)
                if size > LONGEST:
                    raise MalformedResponse(f"it has more than {LONGEST:,} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    if response.headers.get("content-encoding", "identity") != "identity":
        raise MalformedResponse("it is compressed, which was not asked for")
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = Bounded(response.stream)


# --- errors of model servers as sentences, and whether a retry can help ------------------------------
QUOTED = 300  # Characters of a server's own text that are quoted
SHORTEST_KEY = 6  # The least characters of a key that is redacted: shorter ones are part of many words
READ = 100_000  # Characters of a server's text that are processed
BUSY = (408, 409, 425, 429)  # Statuses below 500 after which the same request can succeed
_TOO_LONG = re.compile(
    r"context.{0,20}(length|size|window|limit)|maximum model length|reduce the length|request_too_large"
    r"|(prompt|input|request|conversation|messages?)\b.{0,20}\btoo (long|large)",
    re.IGNORECASE,
)
"""How servers report that a request is longer than the model's context."""
_NETWORK = ("httpx", "httpx2", "httpcore", "httpcore2")
_PARSING = (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError)


class TransientError(ModelUnavailable):
    """A retry may help; ``delay`` is the wait in seconds that the server asks for.

    ``limited``: the server is well, and refused for what it allows in a time.
    """

    def __init__(self, cause: str, cure: str = "", *, delay: float = 0.0, limited: bool = False) -> None:
        super().__init__(cause, cure)
        self.delay = delay
        self.limited = limited


class Unusable(ModelError):
    """A server refuses the key, or has no such model: another model may answer, this one does not."""


class MalformedResponse(ValueError):
    """An answer that is not in the server's wire format, or incomplete."""


def explain(error: Exception, config: ModelConfig) -> ModelError | None:
    """The error as a ModelError (TransientError: retry); None if it does not come from a model server.

    Keys are redacted, whatever the server wrote.
    """
    if isinstance(error, ModelError):
        return error
    causes = _causes(error)
    # The SDK wraps a MalformedResponse in a connection error.
    error = next((cause for cause in causes if isinstance(cause, MalformedResponse)), error)
    status = getattr(error, "status_code", None)
    server = f"The model server at {config.place}"
    if isinstance(status, int) and status >= 300:
        return _explain_status(error, status, config)
    if type(error).__name__ == "APITimeoutError" or "Timeout" in type(error).__name__:
        return TransientError(f"{server} did not answer in time")
    if isinstance(error, MalformedResponse):
        return TransientError(f"{server} gave an answer that cannot be read: {_redact(str(error), config)}")
    if isinstance(error, _PARSING):
        return TransientError(f"{server} gave an answer that cannot be read ({type(error).__name__})")
    package = type(error).__module__.partition(".")[0]
    if type(error).__name__ == "APIConnectionError" or isinstance(error, OSError) or package in _NETWORK:
        cause = causes[-1]
        if type(cause).__name__ in ("RemoteProtocolError", "ReadError"):
            return TransientError(f"{server} broke off: {_redact(str(cause), config)}")
        return TransientError(
            f"{server} cannot be reached: {format_network_error(error)}",
            f"Start it, or correct {config.url_setting}",
        )
    return broken_off(_server_text(error), config) if package in ("openai", "anthropic") else None


def broken_off(text: Any, config: ModelConfig) -> TransientError:
    """The error for a server that reports one instead of finishing its answer."""
    server = f"The model server at {config.place}"
    return TransientError(f"{server} broke off with an error: {_redact(_unpack(text), config)}")


def _explain_status(error: Exception, status: int, config: ModelConfig) -> ModelError:
    server = f"The model server at {config.place}"
    text = _redact(_server_text(error), config)
    if status in (401, 403) and not config.key:
        return Unusable(
            f"{server} wants a key for {config.name}, and none is set: {text}",
            f"Set {config.key_setting}; {config.package.upper()}_API_KEY goes to its provider alone",
        )
    if status == 401:
        return Unusable(
            f"{server} does not accept the key for {config.name}", f"Correct {config.key_setting}"
        )
    if status in (402, 403) or "insufficient_quota" in (text, getattr(error, "code", "")):
        return Unusable(f"{server} refuses {config.name}: {text}", "Check the account of the key")
    if status == 404:
        return Unusable(
            f"{server} has no model {config.model!r}: {text}",
            f"Correct {config.variable} or {config.url_setting}, or have the server fetch the model",
        )
    if status < 400:
        return ModelError(
            f"{server} sends the request elsewhere (status {status}), which is not followed, since the key "
            "would go along",
            f"Write the address it moved to into {config.url_setting}",
        )
    if status == 413 or _TOO_LONG.search(_server_text(error)):
        return TooLong(
            f"{server} was sent more than {config.name} can read: {text}",
            "Set MAILROOM_BRAIN_CONTEXT to the tokens it can, or have the server give it a longer context",
        )
    if status in BUSY or status >= 500:
        delay = read_delay(getattr(getattr(error, "response", None), "headers", {}))
        asks = f" and asks to wait {delay:.0f} s" if delay else ""
        cause = f"{server} answered with status {status}{asks}: {text}"
        return TransientError(cause, delay=delay, limited=status == 429)
    return ModelError(f"{server} refuses the request with status {status}: {text}")


def read_delay(headers: Mapping[str, str]) -> float:
    """The seconds that Retry-After (a number or a date) or retry-after-ms ask for; 0 without."""
    for name, parts in (("retry-after-ms", 1000), ("retry-after", 1)):
        if (number := _number(headers.get(name, ""))) is not None:
            return number / parts
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return 0.0
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _server_text(error: Exception) -> str:
    """The server's own text, from the error formats of OpenAI, Anthropic, Ollama and Gemini."""
    text = _unpack(getattr(error, "body", None))
    return text or str(getattr(error, "message", "") or error) or type(error).__name__


def _unpack(body: Any) -> str:
    if isinstance(body, list) and body:  # Gemini's
        body = body[0]
    for _ in range(2):
        if isinstance(body, Mapping):
            body = body.get("error") or body.get("message") or body.get("detail") or dict(body)
    if body is None or isinstance(body, str):
        return body or ""
    return json.dumps(body, default=str)


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from, the innermost last."""
    return [error, *(_causes(error.__cause__) if error.__cause__ else ())]


def _redact(text: str, config: ModelConfig) -> str:
    # Control characters could colour or clear the reader's terminal.
    shown = " ".join("".join(c if c.isprintable() else " " for c in text[:READ]).split())
    for secret in (config.key, config.url if config.url != config.place else ""):
        shown = shown.replace(secret, "(hidden)") if len(secret) >= SHORTEST_KEY else shown
    return shown[:QUOTED].rstrip(". ")
