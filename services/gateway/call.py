"""What handlers work with: the parts of the gateway, one request, and what is kept of the bus."""

import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from starlette.requests import Request

from services.gateway.index.index import LogIndex
from services.gateway.metrics.exposition import Exposition
from services.gateway.problems import not_found
from services.gateway.security.authentication import AccessLog
from shared import subjects
from shared.access.scopes import Person
from shared.bus import Bus
from shared.contracts import TOKEN, AnswerWords, generate_id
from shared.settings import Settings

KEPT = 50  # How many answers' words are kept, the latest: each as long as it is written, and a while longer

Receive = Callable[[AnswerWords], None]


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


class Gateway(msgspec.Struct, frozen=True):
    """The parts of the gateway that all requests share."""

    bus: Bus
    settings: Settings
    index: LogIndex
    url: str
    """The address under which the gateway listens, such as ``http://127.0.0.1:8642``."""
    access: AccessLog
    exposition: Exposition
    words: SpokenWords


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


T = TypeVar("T")


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
