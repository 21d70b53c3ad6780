"""A model behind a server: deadlines, retries and the breaker around a wire format."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec

from shared.errors import ModelError, ModelUnavailable
from shared.llm.clients import CONNECT, open_client
from shared.llm.config import ModelConfig
from shared.llm.protocol import AskOptions, Message, Thought
from shared.llm.provider import ModelRequest, Provider
from shared.llm.provider_errors import MalformedResponse, TransientError, explain
from shared.llm.scripted import read_script

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState


FAILURES = 5
"""So many in a row open it: more than the attempts at one question, so that one question never does."""
PAUSE = 30.0
"""Seconds it stays open; a server that was restarted has loaded a small model by then."""


class CircuitBreaker:
    """Closed, it lets everything through; ``failures`` in a row open it for ``pause`` seconds.

    Then one probe goes through: it closes the breaker, or opens it again.
    """

    def __init__(
        self,
        place: str,
        *,
        failures: int = FAILURES,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``place`` is how the server is called in the refusal; ``clock`` in seconds."""
        self._place = place
        self._limit = failures
        self._pause = pause
        self._clock = clock
        self._failed = 0
        self._reason = ""
        self._open_until = 0.0
        self._probing = False

    def admit(self) -> None:
        """Nothing if a call may go out; raises ModelUnavailable that says until when none does."""
        if self._failed < self._limit:
            return
        left = self._open_until - self._clock()
        if left > 0:
            until = datetime.now(UTC) + timedelta(seconds=left)
            raise ModelUnavailable(
                f"{self._reason}; after {self._failed} failures in a row it is left alone until "
                f"{until:%H:%M:%S} UTC",
                "'mailroom doctor' says what is wrong with it",
            )
        if self._probing:
            raise ModelUnavailable(f"The model server at {self._place} failed and is just being tried again")
        self._probing = True

    def succeed(self) -> None:
        """The server answered."""
        self._failed = 0
        self._probing = False

    def fail(self, reason: str) -> None:
        """The server did not answer, or said that it cannot now; ``reason`` goes into the refusal."""
        self._failed += 1
        self._reason = reason
        self._probing = False
        if self._failed >= self._limit:
            self._open_until = self._clock() + self._pause

    def abandon(self) -> None:
        """Nobody waits for the answer any more: nothing is known."""
        self._probing = False


_breakers: dict[str, CircuitBreaker] = {}


def find_circuit_breaker(url: str, place: str) -> CircuitBreaker:
    """The breaker of a server; all brains of this process that use it share it."""
    return _breakers.setdefault(url, CircuitBreaker(place))


T = TypeVar("T")


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how patiently one question is asked; waits in seconds, doubled each time, with jitter.

    ``longest_asked``: the longest Retry-After that is waited for; a longer one ends the call.
    """

    attempts: int = 4
    first_wait: float = 0.5
    longest_wait: float = 8.0
    longest_asked: float = 60.0


class RemoteModel:
    """A model behind a server. A question is asked again only if that can help, until its deadline."""

    available = True

    def __init__(self, choice: ModelConfig, wire: Provider, patience: RetryPolicy | None = None) -> None:
        """``wire`` speaks to the server that ``choice`` names."""
        self.name = choice.name
        self._choice = choice
        self._wire = wire
        self._patience = patience or RetryPolicy()
        self._breaker = find_circuit_breaker(choice.url, choice.place)

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
        """One answer within ``timeout`` seconds, all attempts together (0: ``brain_timeout``).

        Raises ModelUnavailable if the model may answer later, else ModelError.
        """
        question = ModelRequest(
            messages=tuple(messages),
            tools=tuple(options.get("tools", ())),
            schema=options.get("schema"),
            max_tokens=options.get("max_tokens", 0),
        )
        limit = options.get("timeout") or self._choice.timeout
        deadline = time.monotonic() + limit

        async def attempt() -> Thought:
            self._breaker.admit()
            left = deadline - time.monotonic()
            return await self._guard(lambda: self._wire.answer(question, limit), left, limit)

        return await self._retrying(limit)(attempt)

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int = 0, timeout: float = 0.0
    ) -> AsyncIterator[str | Thought]:
        """The pieces as they come, the whole Thought last; the consumer's own time does not count.

        It is asked again only as long as no piece came; an end that is missing is a ModelUnavailable.
        """
        question = ModelRequest(messages=tuple(messages), max_tokens=max_tokens)
        limit = timeout or self._choice.timeout
        deadline = time.monotonic() + limit

        async def begin() -> tuple[AsyncIterator[str | Thought], str | Thought]:
            self._breaker.admit()
            left = deadline - time.monotonic()
            pieces = self._wire.stream(question, limit)
            try:
                return pieces, await self._guard(lambda: _next(pieces), left, limit)
            except BaseException:
                await _close(pieces)
                raise

        pieces: AsyncIterator[str | Thought]
        piece: str | Thought
        pieces, piece = await self._retrying(limit)(begin)
        left = deadline - time.monotonic()
        try:
            while True:
                yield piece
                if isinstance(piece, Thought):
                    return
                began = time.monotonic()
                piece = await self._guard(lambda: _next(pieces), left, limit)
                left -= time.monotonic() - began
        finally:
            await _close(pieces)

    async def _guard(self, ask: Callable[[], Awaitable[T]], left: float, limit: float) -> T:
        """Ask once within ``left`` seconds and tell the breaker; what goes wrong is a ModelError."""
        try:
            async with asyncio.timeout(left):
                answer = await ask()
        except TimeoutError:
            late = self._late(limit)
            self._breaker.fail(late.cause)
            raise late from None
        except asyncio.CancelledError:
            self._breaker.abandon()
            raise
        except Exception as error:
            raise self._judge(error) from None
        self._breaker.succeed()
        return answer

    def _judge(self, error: Exception) -> Exception:
        explained = explain(error, self._choice)
        if explained is None:
            self._breaker.abandon()
            return error
        # A server that refuses a request is well; one that cannot answer is not.
        if isinstance(explained, ModelUnavailable):
            self._breaker.fail(explained.cause)
        else:
            self._breaker.succeed()
        return explained

    def _late(self, limit: float) -> ModelUnavailable:
        return ModelUnavailable(
            f"The model {self.name} at {self._choice.place} did not answer within {limit:g} s",
            "Raise MAILROOM_BRAIN_TIMEOUT, or take a quicker model",
        )

    def _retrying(self, limit: float) -> "AsyncRetrying":
        from tenacity import (
            AsyncRetrying,
            retry_if_exception,
            stop_after_attempt,
            stop_before_delay,
            wait_exponential,
            wait_random,
        )

        patience = self._patience
        growing = wait_exponential(patience.first_wait, patience.longest_wait) + wait_random(
            0, patience.first_wait
        )

        def wait(state: "RetryCallState") -> float:
            error = state.outcome.exception() if state.outcome else None
            return max(growing(state), error.delay if isinstance(error, TransientError) else 0.0)

        return AsyncRetrying(
            retry=retry_if_exception(
                lambda error: isinstance(error, TransientError) and error.delay <= patience.longest_asked
            ),
            wait=wait,
            stop=stop_after_attempt(patience.attempts) | stop_before_delay(limit),
            reraise=True,
        )


async def _next(pieces: AsyncIterator[str | Thought]) -> str | Thought:
    try:
        return await anext(pieces)
    except StopAsyncIteration:
        raise MalformedResponse("its end is missing") from None


async def _close(pieces: AsyncIterator[str | Thought]) -> None:
    if close := getattr(pieces, "aclose", None):
        await close()


NO_LIST = (400, 404, 405, 501)
"""How a server says that it lists no models; it is there all the same."""


async def probe(choice: ModelConfig) -> None:
    """Ask the server of ``choice`` for its models; raises ModelError if something is wrong, within 10 s.

    A script is read instead; raises ConfigError.
    """
    if choice.kind == "scripted":
        read_script(Path(choice.model).expanduser())
        return
    try:
        async with asyncio.timeout(CONNECT):
            models = await _list_models(choice)
    except TimeoutError:
        raise ModelError(f"The model server at {choice.place} did not answer within {CONNECT:g} s") from None
    except Exception as error:
        if getattr(error, "status_code", 0) in NO_LIST:
            return
        raise explain(error, choice) or error from None
    # Ollama lists MODEL:latest, which answers to MODEL.
    if models and not {choice.model, f"{choice.model}:latest"} & models:
        raise ModelError(
            f"The model server at {choice.place} does not list {choice.model!r}",
            f"Correct MAILROOM_{choice.setting.upper()}, or have the server fetch the model",
        )


async def _list_models(choice: ModelConfig) -> set[str]:
    async with await open_client(choice, CONNECT) as client:
        page: Any = await client.models.list()
        return {model.id for model in getattr(page, "data", None) or ()}
