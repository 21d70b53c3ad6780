"""What handlers work with: the parts of the gateway, one request, and what is kept of the bus."""

import asyncio
import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from starlette.requests import Request

from services.gateway.duty import Duty
from services.gateway.index.index import LogIndex
from services.gateway.metrics.exposition import Exposition
from services.gateway.problems import not_found
from services.gateway.security.authentication import AccessLog, Authenticator
from services.gateway.security.bucket import Bucket
from shared import subjects
from shared.access.scopes import Person
from shared.bus import Bus
from shared.contracts import TOKEN, AnswerWords, TaskThoughts, generate_id
from shared.errors import Conflict
from shared.settings import Settings

KEPT = 50  # How many answers' words are kept, the latest: each as long as it is written, and a while longer

MOST_TASKS = 200  # Tasks whose thoughts wait for one follower
THOUGHTS_INTERVAL = 0.2  # Seconds between two deliveries to one follower

Receive = Callable[[AnswerWords], None]
T = TypeVar("T")


class SpokenWords:
    """Hears what nexus tells of all answers, so that a page that follows one late misses nothing."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, list[AnswerWords]] = OrderedDict()
        self._followers: defaultdict[str, set[Receive]] = defaultdict(set)

    async def listen(self, bus: Bus) -> None:
        """Hear everything from now on."""
        await bus.subscribe(subjects.words("*"), self._hear)

    def told(self, question_id: str) -> tuple[AnswerWords, ...]:
        """What was told of an answer so far; empty if that was long ago."""
        return tuple(self._told.get(question_id, ()))

    def follow(self, question_id: str, receive: Receive) -> Callable[[], None]:
        """Call ``receive`` with all that was told of an answer and with what follows; the result ends it."""
        for words in self.told(question_id):
            receive(words)
        self._followers[question_id].add(receive)

        def end() -> None:
            followers = self._followers[question_id]
            followers.discard(receive)
            if not followers:
                del self._followers[question_id]

        return end

    async def _hear(self, _: str, payload: bytes, __: dict[str, str]) -> None:
        with contextlib.suppress(ValueError):
            words = AnswerWords.from_json(payload)
            self._told.setdefault(words.question_id, []).append(words)
            self._told.move_to_end(words.question_id)
            if len(self._told) > KEPT:
                self._told.popitem(last=False)
            for receive in tuple(self._followers.get(words.question_id, ())):
                receive(words)


class Thoughts:
    """Hears what models write for tasks, and collects for each follower the latest of each task."""

    def __init__(self) -> None:
        self._followers: set[Callable[[TaskThoughts], None]] = set()

    async def listen(self, bus: Bus) -> None:
        """Hear everything from now on."""
        await bus.subscribe(subjects.thoughts("*", "*"), self._hear)

    async def follow(self, goal_id: str = "") -> AsyncGenerator[list[TaskThoughts], None]:
        """The latest thoughts of each task (of a goal) that changed, at most five times a second."""
        latest: dict[str, TaskThoughts] = {}
        came = asyncio.Event()

        def receive(thoughts: TaskThoughts) -> None:
            if goal_id in ("", thoughts.goal_id) and (thoughts.task_id in latest or len(latest) < MOST_TASKS):
                latest[thoughts.task_id] = thoughts
                came.set()

        self._followers.add(receive)
        try:
            while True:
                await came.wait()
                came.clear()
                changed = list(latest.values())
                latest.clear()
                yield changed
                await asyncio.sleep(THOUGHTS_INTERVAL)
        finally:
            self._followers.discard(receive)

    async def _hear(self, subject: str, payload: bytes, _: dict[str, str]) -> None:
        with contextlib.suppress(ValueError):
            thoughts = TaskThoughts.from_json(payload)
            # The broker says whose they are: another agent's task is not spoken for.
            if subject == subjects.thoughts(thoughts.agent, thoughts.task_id):
                for receive in tuple(self._followers):
                    receive(thoughts)


async def merge(*sources: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """What several generators yield, as it comes, until the first of them ends; closes all of them."""
    pending = {asyncio.ensure_future(anext(source)): source for source in sources}
    try:
        while True:
            done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                source = pending.pop(each)
                yield each.result()
                pending[asyncio.ensure_future(anext(source))] = source
    except StopAsyncIteration:
        return
    finally:
        for each in pending:
            each.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for source in sources:
            await source.aclose()


class Gateway(msgspec.Struct, frozen=True):
    """The parts of the gateway that all requests share."""

    bus: Bus
    settings: Settings
    index: LogIndex
    url: str
    """The address under which the gateway listens, such as ``http://127.0.0.1:8642``."""
    duty: Duty
    access: AccessLog
    bucket: Bucket
    """What it shares with the other gateways."""
    authenticator: Authenticator
    exposition: Exposition
    words: SpokenWords
    thoughts: Thoughts

    def require_duty(self) -> None:
        """Raise Conflict unless this gateway is the one that tells people and seals."""
        if not self.duty.is_held:
            raise Conflict("Another gateway may have this duty by now")


class Call(NamedTuple):
    """One request: who makes it, the parameters in its path, and its Idempotency-Key (empty: none)."""

    gateway: Gateway
    person: Person
    path: dict[str, str]
    key: str
    request: Request

    def token(self, name: str, what: str) -> str:
        """The id in the path that is called ``name``; raises Failure if nothing can have it."""
        token = self.path[name]
        if not TOKEN.fullmatch(token):
            raise not_found(f"{what} {token[:40]!r}", "An id has letters, digits, '_' and '-'")
        return token

    def message_id(self) -> str:
        """The id of what the request sends: its Idempotency-Key, so that it is sent once, or a new one."""
        return self.key if TOKEN.fullmatch(self.key) else generate_id()


class Kept(Generic[T]):
    """What ``read`` reads of the bus, kept until the index has another message of a type."""

    def __init__(self, kind: str, read: Callable[[Gateway], Awaitable[T]]) -> None:
        self._kind, self._read = kind, read
        self._known: WeakKeyDictionary[LogIndex, tuple[tuple[int, int], T]] = WeakKeyDictionary()

    async def find(self, gateway: Gateway, also: int = 0) -> T:
        """What was read, or is read again if there is another message, or ``also`` is another number."""
        mark = (gateway.index.store.last_of(self._kind), also)
        known = self._known.get(gateway.index)
        if known is None or known[0] != mark:
            known = self._known[gateway.index] = (mark, await self._read(gateway))
        return known[1]

    def forget(self, gateway: Gateway) -> None:
        """Have it read again the next time."""
        self._known.pop(gateway.index, None)
