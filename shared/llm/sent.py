"""What was sent to models: a file for each task, with each text once, and which requests held it.

Each agent has a folder of its own, so that in containers no other agent reads what it sent.
"""

import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from shared.contracts import TOKEN
from shared.errors import MailroomError
from shared.files import write_atomically
from shared.llm.protocol import Message, Usage
from shared.log import logger

MAX_FILE = 16 << 20
"""Bytes of the record of one task; the texts of further requests are left out, and counted."""
DAY = 86_400.0
MODELS = "models.json"  # The file in which an agent tells of its models, beside the goals'
MAX_FILES = 200  # Files whose texts are remembered: more than an agent works on at once

log = logger(__name__)


def make_folder(folder: Path, sent: Path) -> None:
    """Make ``folder`` within ``sent``, for its owner alone; raises OSError if there is no state folder."""
    if not sent.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {sent.parent}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


class SentText(msgspec.Struct, frozen=True, kw_only=True, tag="text", omit_defaults=True):
    """A message as it was sent; ``left_out`` are its characters if it is beyond MAX_FILE."""

    id: str
    role: str
    text: str = ""
    calls: list[dict[str, str]] = []
    left_out: int = 0


class SentRequest(msgspec.Struct, frozen=True, kw_only=True, tag="request", omit_defaults=True):
    """A request to a model: by whom, to which server, which kinds of text, and the ids of its messages.

    ``withheld`` are the characters by kind that were left out of it, ``masked`` the secrets in it that were.
    """

    id: str
    at: str
    agent: str
    model: str
    place: str
    task_id: str = ""
    is_local: bool = False
    kinds: tuple[str, ...] = ()
    withheld: dict[str, int] = {}
    masked: int = 0
    tools: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


class SentEnd(msgspec.Struct, frozen=True, kw_only=True, tag="end", omit_defaults=True):
    """How the request ``id`` ended: its answer's usage, or why there is none."""

    id: str
    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    failed: str = ""


class Sent(msgspec.Struct, kw_only=True):
    """What was sent for a goal or a task: requests in their order, how they ended, and the texts by id."""

    requests: list[SentRequest] = []
    ends: dict[str, SentEnd] = {}
    texts: dict[str, SentText] = {}


class OpenRequest(msgspec.Struct, kw_only=True):
    """A request that has not ended; its sender sets the ``usage`` of the answer."""

    usage: Usage = Usage()


sent_for: ContextVar[tuple[str, str]] = ContextVar("sent_for", default=("", ""))
"""For which goal and task models are asked in the present context."""


class SentLog:
    """Records what an agent sends, in its ``folder``/<goal>/<task>.jsonl, which its owner alone can read.

    A record that cannot be written is logged, and the model is asked all the same. What was not added to for
    ``days`` is removed; 0: never.
    """

    def __init__(self, folder: Path, agent: str, days: int = 0) -> None:
        self._folder = folder
        self._agent = agent
        self._days = days
        self._cleaned = ""
        self._count = 0
        self._known: OrderedDict[tuple[Path, int], set[str]] = OrderedDict()

    @contextmanager
    def request(self, *, messages: Sequence[Message], **about: object) -> Iterator[OpenRequest]:
        """A block in which a request is made; ``about`` are fields of SentRequest."""
        goal, task = sent_for.get()
        now = datetime.now(UTC)
        path = self._folder / (goal or f"{now:%Y-%m-%d}") / f"{task or self._agent}.jsonl"
        if self._days and self._cleaned != f"{now:%Y-%m-%d}":
            self._cleaned = f"{now:%Y-%m-%d}"
            self._clean(now.timestamp() - self._days * DAY)
        self._count += 1
        request_id = f"{now:%H%M%S}-{os.getpid()}-{self._count}"
        texts = [_text_of(message) for message in messages]
        request = msgspec.convert(
            {
                **about,
                "type": "request",
                "id": request_id,
                "at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "agent": self._agent,
                "task_id": task,
                "messages": [text.id for text in texts],
            },
            SentRequest,
        )
        self._write(path, request, texts)
        opened, begun, failed = OpenRequest(), time.monotonic(), "it was stopped"
        try:
            yield opened
            failed = ""
        except MailroomError as error:
            failed = error.cause
            raise
        finally:
            usage = opened.usage
            end = SentEnd(
                id=request_id,
                seconds=round(time.monotonic() - begun, 3),
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                cost=usage.cost,
                failed=failed,
            )
            self._write(path, end)

    def _write(self, path: Path, entry: SentRequest | SentEnd, texts: Sequence[SentText] = ()) -> None:
        try:
            make_folder(path.parent, self._folder.parent)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
                known = self._known_of(path, file.fileno())
                size, lines = os.fstat(file.fileno()).st_size, []
                for text in texts:
                    if text.id in known:
                        continue
                    line = msgspec.json.encode(text)
                    if size + len(line) > MAX_FILE:
                        short = SentText(id=text.id, role=text.role, left_out=len(text.text))
                        line = msgspec.json.encode(short)
                    size += len(line)
                    lines.append(line)
                    known.add(text.id)
                # One write: processes of an agent append to the same file.
                file.write(b"\n".join([*lines, msgspec.json.encode(entry), b""]))
        except OSError as error:
            log.warning("sent_not_recorded", path=str(path), reason=str(error))

    def _clean(self, before: float) -> None:
        for path in self._folder.glob("*/*.jsonl"):
            with suppress(OSError):  # not empty: other tasks of the goal
                if path.stat().st_mtime < before:
                    path.unlink()
                    path.parent.rmdir()

    def _known_of(self, path: Path, handle: int) -> set[str]:
        """The ids of the texts in an open file; it may have been begun by an earlier process."""
        key = path, os.fstat(handle).st_ino
        if key not in self._known:
            with path.open("rb") as file:
                self._known[key] = {each.id for each in _entries(file) if isinstance(each, SentText)}
        self._known.move_to_end(key)
        if len(self._known) > MAX_FILES:
            self._known.popitem(last=False)
        return self._known[key]


def _text_of(message: Message) -> SentText:
    calls = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    attached = [
        f"[{each.kind} {each.name}, {len(each.data):,} bytes, {hashlib.sha256(each.data).hexdigest()}]"
        for each in message.attached
    ]
    text = "\n".join([message.text, *attached])
    digest = hashlib.blake2b(msgspec.json.encode([message.role, text, calls]), digest_size=8).hexdigest()
    return SentText(id=digest, role=message.role, text=text, calls=calls)


_decoder = msgspec.json.Decoder(SentText | SentRequest | SentEnd)


def _entries(lines: Iterable[bytes]) -> Iterator[SentText | SentRequest | SentEnd]:
    for line in lines:
        try:
            yield _decoder.decode(line)
        except msgspec.MsgspecError:  # cut off by a crash, or partly forgotten
            continue


def read_sent(folder: Path, name: str) -> Sent:
    """What all agents sent for a goal, or for a task, by its id; empty if nothing is recorded."""
    sent = Sent()
    if not TOKEN.fullmatch(name):
        return sent
    found = {*folder.glob(f"*/{name}/*.jsonl"), *folder.glob(f"*/*/{name}.jsonl")}
    for path in sorted(found):
        try:
            with path.open("rb") as file:
                for entry in _entries(file):
                    if isinstance(entry, SentText):
                        sent.texts[entry.id] = entry
                    elif isinstance(entry, SentEnd):
                        sent.ends[entry.id] = entry
                    else:
                        sent.requests.append(entry)
        except OSError as error:
            log.warning("sent_not_read", path=str(path), reason=str(error))
    sent.requests.sort(key=lambda request: request.at)
    return sent


class SentSum(msgspec.Struct, kw_only=True):
    """What one agent sent to one server: requests, tokens of them and of the answers, characters withheld."""

    agent: str
    model: str
    place: str
    requests: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    masked: int = 0
    withheld: dict[str, int] = {}


def sum_sent(folder: Path, since: float) -> list[SentSum]:
    """The sums by agent, model and server of what was sent since a time in seconds of the epoch."""
    sums: dict[tuple[str, str, str], SentSum] = {}
    first = datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for path in folder.glob("*/*/*.jsonl"):
        try:
            if path.stat().st_mtime < since:
                continue
            with path.open("rb") as file:
                _add_sums(
                    sums, _entries(line for line in file if not line.startswith(b'{"type":"text"')), first
                )
        except OSError:  # removed meanwhile
            continue
    return sorted(sums.values(), key=lambda each: (each.agent, each.place, each.model))


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """A model that an agent asks, what for, and the ``kinds`` of text that may go to its server."""

    role: str
    name: str
    place: str
    is_local: bool
    kinds: tuple[str, ...]


class AgentModels(msgspec.Struct, kw_only=True):
    """The models of an agent as it was started; ``today`` is what it sent (UTC)."""

    agent: str
    local_only: bool = False
    models: list[ModelUse] = []
    today: list[SentSum] = []


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The models of all agents, by the agents' names."""

    agents: list[AgentModels]


def tell_models(folder: Path, models: AgentModels) -> None:
    """Write down the models that an agent begins with; a failure is logged."""
    try:
        make_folder(folder / models.agent, folder)
        write_atomically(folder / models.agent / MODELS, msgspec.json.encode(models), mode=0o600)
    except OSError as error:
        log.warning("models_not_told", folder=str(folder), reason=str(error))


def read_models(folder: Path) -> list[AgentModels]:
    """The models of all agents, as they began, with what each sent today (UTC)."""
    found: dict[str, AgentModels] = {}
    for path in sorted(folder.glob(f"*/{MODELS}")):
        with suppress(OSError, msgspec.MsgspecError):
            each = msgspec.json.decode(path.read_bytes(), type=AgentModels)
            found[each.agent] = each
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for total in sum_sent(folder, today.timestamp()):
        found.setdefault(total.agent, AgentModels(agent=total.agent)).today.append(total)
    return [found[name] for name in sorted(found)]


def _add_sums(
    sums: dict[tuple[str, str, str], SentSum], entries: Iterator[SentText | SentRequest | SentEnd], first: str
) -> None:
    asked: dict[str, SentSum] = {}
    for entry in entries:
        if isinstance(entry, SentRequest) and entry.at >= first:
            key = entry.agent, entry.model, entry.place
            total = sums.setdefault(key, SentSum(agent=key[0], model=key[1], place=key[2]))
            total.requests += 1
            total.masked += entry.masked
            for kind, size in entry.withheld.items():
                total.withheld[kind] = total.withheld.get(kind, 0) + size
            asked[entry.id] = total
        elif isinstance(entry, SentEnd) and (ended := asked.get(entry.id)) is not None:
            ended.failed += bool(entry.failed)
            ended.input_tokens += entry.input_tokens
            ended.output_tokens += entry.output_tokens
            ended.cost += entry.cost
