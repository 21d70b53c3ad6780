"""A model behind a server: deadlines, retries and the breaker around a wire format."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from shared.errors import ModelUnavailable
from shared.llm.choice import ModelConfig
from shared.llm.circuit_breaker import find_circuit_breaker
from shared.llm.protocol import Message, Thought, Tool
from shared.llm.provider import ModelRequest, Provider
from shared.llm.provider_errors import MalformedResponse, TransientError, explain

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

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
    """A model behind a server. A question is asked again only where that can help, until its deadline."""

    available = True

    def __init__(self, choice: ModelConfig, wire: Provider, patience: RetryPolicy | None = None) -> None:
        """``wire`` speaks to the server that ``choice`` names."""
        self.name = choice.name
        self._choice = choice
        self._wire = wire
        self._patience = patience or RetryPolicy()
        self._breaker = find_circuit_breaker(choice.url, choice.place)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        schema: dict[str, Any] | None = None,
        max_tokens: int = 0,
        timeout: float = 0.0,
    ) -> Thought:
        """One answer within ``timeout`` seconds, all attempts together (0: ``brain_timeout``).

        Raises ModelUnavailable where the model may answer later, else ModelError.
        """
        question = ModelRequest(
            messages=tuple(messages), tools=tuple(tools), schema=schema, max_tokens=max_tokens
        )
        limit = timeout or self._choice.timeout
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
