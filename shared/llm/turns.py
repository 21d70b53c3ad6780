"""Turns at model servers: how many requests are open at once, and how many tokens go out in a minute.

The processes of an office note their requests in one ledger, each its own, and read those of all. So they
wait for one another before a server has to refuse them.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol
from uuid import uuid4

import msgspec

from shared.errors import BusError, ModelUnavailable
from shared.llm.config import ModelConfig
from shared.llm.protocol import Thought
from shared.log import logger

WINDOW = 60.0  # Seconds of the limits: providers count tokens in a minute
HELD = 30.0  # Seconds after which a turn that was not renewed is free: its process has died
KEPT = WINDOW + HELD  # Seconds for which a ledger has to keep an entry
LOOK = 0.5  # Seconds between two looks at the ledger, at most
TOLD = 2.0  # Seconds of waiting from which on the log names it
FIRST = 4  # Requests at once before a server has answered one: it may say what it allows then

log = logger(__name__)


class Rate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server said of a limit: the most in a minute, what is left, seconds until all of it is back."""

    limit: int = 0
    left: int = -1
    reset: float = 0.0


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request as its process noted it last.

    ``place``: its place in the queue, 0 if this is its first entry. ``ran``: seconds since it was sent.
    ``tokens`` are estimated until it is over. ``pause``: seconds for which the server wants no more of the
    model.
    """

    model: str
    tokens: int = 0
    place: int = 0
    state: Literal["waits", "runs", "over"] = "waits"
    ran: float = 0.0
    pause: float = 0.0
    by_tokens: Rate = Rate()
    by_requests: Rate = Rate()


class Noted(NamedTuple):
    """An entry of a ledger: the request, its place in the order of all entries, its age in seconds."""

    request: str
    seq: int
    age: float
    turn: Turn

    @property
    def place(self) -> int:
        """Its place in the queue."""
        return self.turn.place or self.seq

    @property
    def is_held(self) -> bool:
        """Whether its process still waits or is served, as far as can be known."""
        return self.turn.state != "over" and self.age < HELD

    @property
    def sent(self) -> float:
        """Seconds since it was sent."""
        return self.age + self.turn.ran


class Ledger(Protocol):
    """Where the turns at all servers are noted, the last entry of each request."""

    async def write(self, server: str, request: str, turn: Turn) -> int:
        """Note it; returns its place in the order of all entries. Raises BusError."""

    async def read(self, server: str) -> list[Noted]:
        """The entries of the last KEPT seconds; raises BusError."""


class OwnLedger:
    """The ledger of a process that shares none."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is in seconds."""
        self._clock = clock
        self._seq = 0
        self._entries: dict[tuple[str, str], tuple[int, float, Turn]] = {}

    async def write(self, server: str, request: str, turn: Turn) -> int:
        """As Ledger.write."""
        self._seq += 1
        now = self._clock()
        self._entries[server, request] = self._seq, now, turn
        for key in [key for key, (_, at, _) in self._entries.items() if now - at > KEPT]:
            del self._entries[key]
        return self._seq

    async def read(self, server: str) -> list[Noted]:
        """As Ledger.read."""
        now = self._clock()
        return [
            Noted(request, seq, now - at, turn)
            for (where, request), (seq, at, turn) in self._entries.items()
            if where == server
        ]


OWN = OwnLedger()
"""The ledger of this process."""


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """Requests at once at a server, and tokens of a model in a minute; 0: not limited, or not known."""

    requests: int
    tokens: int = 0


def seconds_to_wait(mine: Noted, entries: Sequence[Noted], allowed: Allowed) -> float:
    """How long to wait before looking again; 0 if it is the turn of ``mine``."""
    others = [each for each in entries if each.request != mine.request]
    held = [each for each in others if each.is_held]
    ahead = [each for each in held if each.turn.state == "runs" or each.place < mine.place]
    if len(ahead) >= allowed.requests:
        return LOOK
    same = [each for each in others if each.turn.model == mine.turn.model]
    if (pause := max((each.turn.pause - each.age for each in same), default=0.0)) > 0:
        return pause
    waiting = [each for each in ahead if each.turn.state == "waits" and each in same]
    sent = [
        each for each in same if each.turn.state == "over" or (each.turn.state == "runs" and each.is_held)
    ]
    return max(
        _until_left(mine, sent, waiting, lambda turn: turn.by_requests, lambda turn: 1),
        _until_left(mine, sent, waiting, lambda turn: turn.by_tokens, lambda turn: turn.tokens)
        if _find_told(sent, lambda turn: turn.by_tokens)
        else _until_free(mine, sent, waiting, allowed.tokens),
    )


def _find_told(sent: Sequence[Noted], rate: Callable[[Turn], Rate]) -> Noted | None:
    """The entry with the newest word of the server on what is left, as long as it holds."""
    told = max((each for each in sent if rate(each.turn).left >= 0), key=lambda each: each.seq, default=None)
    return told if told and told.age <= max(rate(told.turn).reset, LOOK) else None


def _until_left(
    mine: Noted,
    sent: Sequence[Noted],
    waiting: Sequence[Noted],
    rate: Callable[[Turn], Rate],
    amount: Callable[[Turn], int],
) -> float:
    """The wait by what the server said is left of a limit, which comes back bit by bit until ``reset``."""
    told = _find_told(sent, rate)
    if told is None:
        return 0.0
    said = rate(told.turn)
    whole = max(said.limit, said.left)
    speed = (whole - said.left) / said.reset if said.reset else 0.0
    since = sum(
        amount(each.turn) for each in sent if each.turn.state == "runs" or each.sent < told.age
    ) + sum(amount(each.turn) for each in waiting)
    lacking = min(amount(mine.turn), whole) + since - (said.left + speed * told.age)
    if lacking <= 0:
        return 0.0
    return max(0.01, min(LOOK, lacking / speed if speed else LOOK))


def _until_free(mine: Noted, sent: Sequence[Noted], waiting: Sequence[Noted], limit: int) -> float:
    """The wait by the tokens of the last minute, as the ledger has them."""
    spent = [each for each in sent if each.sent < WINDOW]
    used = sum(each.turn.tokens for each in (*spent, *waiting))
    if not limit or not (spent or waiting) or used + mine.turn.tokens <= limit:
        return 0.0
    return max(0.01, min([LOOK, *(WINDOW - each.sent for each in spent)]))


class Turns:
    """The turns of one model at its server."""

    def __init__(self, config: ModelConfig, ledger: Ledger = OWN) -> None:
        self._server = sha256(config.url.encode()).hexdigest()[:16]
        self._model, self._place = config.model, config.place
        self._allowed = Allowed(requests=config.concurrency, tokens=config.tokens_per_minute)
        self._ledger = ledger
        self._reads_free = config.kind == "anthropic"  # its limits do not count what its cache held
        self._answered = False
        self._limit = 0

    @asynccontextmanager
    async def take(self, tokens: int, waited: float, longest: float) -> AsyncIterator["OpenTurn"]:
        """A block in which the request of about ``tokens`` may be sent.

        It is renewed while it lasts, and over with the block. ``waited`` are seconds that it has waited
        before; raises ModelUnavailable if that comes to ``longest`` without its turn.
        """
        turn = OpenTurn(self, tokens, waited)
        renewing = asyncio.ensure_future(turn.renew())
        try:
            await turn.wait(longest)
            yield turn
        finally:
            renewing.cancel()
            await asyncio.shield(turn.end())

    async def note(self, request: str, turn: Turn) -> int:
        """Note ``turn`` in the ledger; in that of the process alone while the office's is out of reach."""
        try:
            return await self._ledger.write(self._server, request, turn)
        except BusError as error:
            log.warning("turns_not_shared", reason=error.cause)
            return await OWN.write(self._server, request, turn)

    async def look(self, mine: Noted) -> float:
        """How long to wait until looking again; 0 if it is the turn of ``mine``."""
        try:
            entries = await self._ledger.read(self._server)
        except BusError:
            entries = await OWN.read(self._server)
        return seconds_to_wait(mine, entries, self._learn(entries))

    def _learn(self, entries: Sequence[Noted]) -> Allowed:
        """What is allowed now.

        Before the first answer few requests go out at once, and one after a refusal; each answer allows one
        more.
        """
        over = [each for each in entries if each.turn.state == "over" and each.turn.model == self._model]
        answers = [each.seq for each in over if not each.turn.pause]
        told = [each for each in over if each.turn.by_tokens.limit]
        if newest := max(told, key=lambda each: each.seq, default=None):
            self._limit = newest.turn.by_tokens.limit
        self._answered = self._answered or bool(answers)
        requests = self._allowed.requests
        if refused := max((each.seq for each in over if each.turn.pause), default=0):
            requests = min(requests, 1 + sum(seq > refused for seq in answers))
        elif not (self._answered or self._limit or self._allowed.tokens):
            requests = min(requests, FIRST)
        return Allowed(requests=requests, tokens=self._allowed.tokens or self._limit)


class OpenTurn:
    """A request that waits for its turn or has it; ``waited`` in seconds."""

    def __init__(self, turns: Turns, tokens: int, waited: float) -> None:
        self._turns = turns
        self._request = uuid4().hex[:16]
        self._turn = Turn(model=turns._model, tokens=tokens)
        self._sent = 0.0
        self._changed = asyncio.Lock()
        self.waited = waited

    async def wait(self, longest: float) -> None:
        """Wait for the turn; raises ModelUnavailable once it has waited ``longest`` seconds in all."""
        began = time.monotonic() - self.waited
        seq = await self._note(self._turn)
        self._turn = msgspec.structs.replace(self._turn, place=seq)
        told = False
        while seconds := await self._turns.look(Noted(self._request, seq, 0.0, self._turn)):
            self.waited = time.monotonic() - began
            if self.waited + seconds > longest:
                raise ModelUnavailable(
                    f"The model server at {self._turns._place} has had no room for a request for "
                    f"{self.waited:.0f} s: as many are open, or as many tokens used, as it allows",
                    "Try again later; if it allows more, raise MAILROOM_BRAIN_CONCURRENCY or "
                    "MAILROOM_BRAIN_TOKENS_PER_MINUTE",
                )
            if not told and self.waited + seconds > TOLD:
                told = True
                log.info("model_waits", model=self._turns._model, server=self._turns._place)
            await asyncio.sleep(seconds)
        self.waited = time.monotonic() - began
        if told:
            log.info("model_waited", model=self._turns._model, seconds=round(self.waited, 1))
        self._sent = time.monotonic()
        await self._change(state="runs")

    async def renew(self) -> None:
        """Note again and again that the process is there, until this is cancelled."""
        while True:
            await asyncio.sleep(HELD / 3)
            await self._change()

    def answered(self, tokens: int, headers: Mapping[str, str]) -> None:
        """The server answered, and said in ``headers`` what it allows; ``tokens`` were used."""
        by_tokens, by_requests = read_rates(headers)
        self._turn = msgspec.structs.replace(
            self._turn, tokens=tokens, by_tokens=by_tokens, by_requests=by_requests
        )

    def counted(self, thought: Thought) -> Thought:
        """``thought`` with the wait in its usage; its tokens are those of the turn."""
        used = thought.usage.tokens - (thought.usage.cached_tokens if self._turns._reads_free else 0)
        self._turn = msgspec.structs.replace(self._turn, tokens=used)
        usage = msgspec.structs.replace(thought.usage, waited=round(self.waited, 1))
        return msgspec.structs.replace(thought, usage=usage)

    def refused(self, pause: float, headers: Mapping[str, str]) -> None:
        """The server refused for its limits, and wants to be left alone for ``pause`` seconds."""
        self.answered(0, headers)
        self._turn = msgspec.structs.replace(self._turn, pause=pause)
        log.info("model_refused_for_rate", model=self._turns._model, seconds=round(pause, 1))

    async def end(self) -> None:
        """It is over: its place is free, its tokens count for the rest of the minute if it was sent."""
        if not self._sent:
            self._turn = msgspec.structs.replace(self._turn, tokens=0)
        await self._change(state="over")

    async def _change(self, **changes: Literal["runs", "over"]) -> None:
        async with self._changed:
            if self._turn.state == "over":
                return
            ran = time.monotonic() - self._sent if self._sent else 0.0
            self._turn = msgspec.structs.replace(self._turn, ran=round(ran, 3), **changes)
            await self._note(self._turn)

    async def _note(self, turn: Turn) -> int:
        return await self._turns.note(self._request, turn)


# --- what servers say of their limits ------------------------------------------------------------

_NAMES = (
    # OpenAI, Groq, Together, vLLM's gateways, LiteLLM
    ("x-ratelimit-limit-{}", "x-ratelimit-remaining-{}", "x-ratelimit-reset-{}"),
    (
        "anthropic-ratelimit-input-{}-limit",
        "anthropic-ratelimit-input-{}-remaining",
        "anthropic-ratelimit-input-{}-reset",
    ),
    ("anthropic-ratelimit-{}-limit", "anthropic-ratelimit-{}-remaining", "anthropic-ratelimit-{}-reset"),
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LONGEST_RESET = 3_600.0  # A limit of a day is no reason to wait: the refusal says how long


def read_rates(headers: Mapping[str, str]) -> tuple[Rate, Rate]:
    """What the headers of an answer say of tokens and of requests."""
    lower = {name.lower(): value for name, value in headers.items()}
    return _read_rate(lower, "tokens"), _read_rate(lower, "requests")


def _read_rate(headers: Mapping[str, str], kind: str) -> Rate:
    for names in _NAMES:
        limit, left, reset = (headers.get(name.format(kind), "") for name in names)
        if limit.isdecimal() or left.isdecimal():
            seconds = read_span(reset)
            known = left.isdecimal() and seconds <= _LONGEST_RESET
            return Rate(
                limit=int(limit) if limit.isdecimal() else 0,
                left=int(left) if known else -1,
                reset=seconds if known else 0.0,
            )
    return Rate()


def read_span(text: str) -> float:
    """The seconds of ``6m0s``, ``120ms``, ``59`` or until a time by ISO 8601; 0 for anything else."""
    text = text.strip()
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd])", text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    return 0.0
