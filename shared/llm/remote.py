"""A model behind a server: deadlines, retries and the breaker around a wire format."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime, timedelta
from typing import TypeVar, Unpack

import msgspec

from shared.errors import ModelUnavailable
from shared.llm.clients import MalformedResponse, TransientError, explain, heard
from shared.llm.config import ModelConfig
from shared.llm.dialects import forget_dialects
from shared.llm.protocol import Aside, AskOptions, Message, Pieces, StreamOptions, Thought
from shared.llm.provider import ModelRequest, Provider, estimate_request
from shared.llm.turns import OWN, Ledger, OpenTurn, Turns

FAILURES = 5  # Consecutive failures that open the breaker: more than the attempts of one request
PAUSE = 30.0  # Seconds it stays open: enough for a restarted server to load a small model


class CircuitBreaker:
    """Refuses calls for ``pause`` seconds after ``failures`` in a row.

    Then one call is let through as a probe: it closes the breaker or opens it again.
    """

    def __init__(
        self,
        place: str,
        *,
        failures: int = FAILURES,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``place`` names the server in errors; ``clock`` is in seconds."""
        self._place = place
        self._limit = failures
        self._pause = pause
        self._clock = clock
        self._failed = 0
        self._reason = ""
        self._open_until = 0.0
        self._probing = False

    def admit(self) -> None:
        """Raise ModelUnavailable, which names the time of the next attempt, if no call may be made now."""
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
        """The server did not answer, or cannot now; ``reason`` is for the error."""
        self._failed += 1
        self._reason = reason
        self._probing = False
        if self._failed >= self._limit:
            self._open_until = self._clock() + self._pause

    def abandon(self) -> None:
        """The call was cancelled, so its outcome is unknown."""
        self._probing = False


_breakers: dict[str, CircuitBreaker] = {}
"""The breaker of each server by its address, shared by all models of this process that use it."""


def forget_breaker(url: str) -> None:
    """Have the server at ``url`` begin without failures, as one that takes everything."""
    _breakers.pop(url, None)
    forget_dialects(url)


T = TypeVar("T")


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts of one request; waits in seconds, doubled each time, with jitter.

    ``longest_asked``: the longest Retry-After that is honoured; a longer one ends the call.
    ``longest_turn``: how long a request waits in all for its turn; ``longest_refused``: how long for a server
    that allows no more now.
    """

    attempts: int = 4
    first_wait: float = 0.5
    longest_wait: float = 8.0
    longest_asked: float = 60.0
    longest_turn: float = 600.0
    longest_refused: float = 600.0

    def wait(self, failures: int, asked: float) -> float:
        """The wait after so many failures, at least what the server ``asked`` for."""
        growing = min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 30))
        return max(asked, growing + random.uniform(0, self.first_wait))  # noqa: S311 - no secret


class RemoteModel:
    """A model behind a server; a request is retried only if that can help, until its deadline.

    It is sent when its turn has come, which the deadline does not count.
    """

    available = True

    def __init__(
        self,
        config: ModelConfig,
        provider: Provider,
        policy: RetryPolicy | None = None,
        ledger: Ledger = OWN,
    ) -> None:
        """``provider`` implements the wire format of the server that ``config`` names.

        Requests take turns with those of all processes that share ``ledger``.
        """
        self.name = config.name
        self._config = config
        self._provider = provider
        self._policy = policy or RetryPolicy()
        self._breaker = _breakers.setdefault(config.url, CircuitBreaker(config.place))
        self._turns = Turns(config, ledger)

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
        """One answer within ``timeout`` seconds, all attempts together (0: ``brain_timeout``).

        Raises ModelUnavailable if the model may answer later, else ModelError.
        """
        question = ModelRequest(
            messages=tuple(messages),
            tools=tuple(options.get("tools", ())),
            schema=options.get("schema"),
            max_tokens=options.get("max_tokens", 0),
            cache_key=options.get("cache_key", ""),
        )
        limit = options.get("timeout") or self._config.timeout
        async with AsyncExitStack() as held:
            on_piece = None if question.schema else options.get("on_piece")
            thought, turn, _ = await self._ask(
                question, limit, held, lambda: self._answer(question, limit, on_piece)
            )
            return turn.counted(thought)

    async def _answer(
        self, question: ModelRequest, limit: float, on_piece: Callable[[str | None], None] | None
    ) -> Thought:
        """One attempt, which tells of its pieces if somebody listens."""
        if on_piece is None:
            return await self._provider.answer(question, limit)
        on_piece(None)
        async with aclosing(self._provider.stream(question, limit)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Thought):
                    return piece
                on_piece(piece)
        raise MalformedResponse("its end is missing")

    async def stream(self, messages: Sequence[Message], **options: Unpack[StreamOptions]) -> Pieces:
        """The pieces as they arrive, then the whole Thought; time spent by the caller does not count.

        It is retried only until the first piece; an incomplete answer raises ModelUnavailable.
        """
        question = ModelRequest(
            messages=tuple(messages),
            tools=tuple(options.get("tools", ())),
            max_tokens=options.get("max_tokens", 0),
            cache_key=options.get("cache_key", ""),
        )
        limit = options.get("timeout") or self._config.timeout

        async def begin() -> tuple[Pieces, str | Thought]:
            pieces = self._provider.stream(question, limit)
            try:
                return pieces, await _next(pieces)
            except BaseException:
                await pieces.aclose()
                raise

        async with AsyncExitStack() as held:
            (pieces, piece), turn, left = await self._ask(question, limit, held, begin)
            await held.enter_async_context(aclosing(pieces))
            while not isinstance(piece, Thought):
                if not isinstance(piece, Aside):
                    yield piece
                began = time.monotonic()
                piece = await self._guard(lambda: _next(pieces), left, limit)
                left -= time.monotonic() - began
            yield turn.counted(piece)

    async def _ask(
        self, question: ModelRequest, limit: float, held: AsyncExitStack, ask: Callable[[], Awaitable[T]]
    ) -> tuple[T, OpenTurn, float]:
        """What ``ask`` returns, its turn, which ``held`` ends, and the seconds that are left of ``limit``.

        Waits for a turn, and pauses of a server that allows no more now, are not part of ``limit``.
        """
        left, waited, refused, failures, refusals = limit, 0.0, 0.0, 0, 0
        tokens = estimate_request(question, self._config.answer)
        while True:
            async with AsyncExitStack() as own:
                turn = await own.enter_async_context(
                    self._turns.take(tokens, waited, self._policy.longest_turn)
                )
                self._breaker.admit()
                began, headers = time.monotonic(), dict[str, str]()
                token = heard.set(headers)
                try:
                    answer = await self._guard(ask, left, limit)
                except TransientError as error:
                    waited, failed = turn.waited, error
                    if failed.limited:
                        refusals += 1
                        pause = self._policy.wait(refusals, failed.delay)
                        turn.refused(pause, headers)
                else:
                    turn.answered(tokens, headers)
                    held.push_async_exit(own.pop_all())
                    return answer, turn, left - (time.monotonic() - began)
                finally:
                    heard.reset(token)
            if failed.delay > self._policy.longest_asked:
                raise failed
            if failed.limited:
                refused += pause
                if refused > self._policy.longest_refused:
                    raise failed
                continue  # the next turn comes after the pause
            failures += 1
            left -= time.monotonic() - began
            pause = self._policy.wait(failures, failed.delay)
            if failures >= self._policy.attempts or pause >= left:
                raise failed
            left -= pause
            await asyncio.sleep(pause)

    async def _guard(self, ask: Callable[[], Awaitable[T]], left: float, limit: float) -> T:
        """Ask once within ``left`` seconds, and record the outcome in the breaker; errors are ModelErrors."""
        try:
            async with asyncio.timeout(left):
                answer = await ask()
        except TimeoutError:
            cause = f"The model {self.name} at {self._config.place} did not answer within {limit:g} s"
            self._breaker.fail(cause)
            cure = "Raise MAILROOM_BRAIN_TIMEOUT, or take a quicker model"
            raise ModelUnavailable(cause, cure) from None
        except asyncio.CancelledError:
            self._breaker.abandon()
            raise
        except Exception as error:
            raise self._explain(error) from None
        self._breaker.succeed()
        return answer

    def _explain(self, error: Exception) -> Exception:
        explained = explain(error, self._config)
        if explained is None:
            self._breaker.abandon()
            return error
        # A server that refuses a request works; one that cannot answer does not.
        limited = isinstance(explained, TransientError) and explained.limited
        if isinstance(explained, ModelUnavailable) and not limited:
            self._breaker.fail(explained.cause)
        else:
            self._breaker.succeed()
        return explained


async def _next(pieces: Pieces) -> str | Thought:
    try:
        return await anext(pieces)
    except StopAsyncIteration:
        raise MalformedResponse("its end is missing") from None
