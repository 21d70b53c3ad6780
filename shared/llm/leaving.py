"""What leaves with a request to a model: the kinds of text its server may have, and masks for secrets."""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Unpack
from urllib.parse import urlsplit

import msgspec

from shared.errors import ConfigError
from shared.llm.config import (
    ModelConfig,
    configured_fallbacks,
    configured_for,
    configured_model,
    configured_small_model,
    is_local,
)
from shared.llm.protocol import AskOptions, LanguageModel, Message, Pieces, StreamOptions, Thought, ToolCall
from shared.llm.sent import AgentModels, ModelUse, OpenRequest, SentLog, make_folder
from shared.log import logger
from shared.setting_values import KINDS
from shared.settings import SECRETS, Settings
from shared.text.display import fence
from shared.text.secret_forms import find_secrets

TASK = "task"
"""The kind of what always goes: the task, the office's own instructions, what a model made of these alone."""
UNKNOWN = "unknown"  # Text of a kind that nothing says; it goes only where all kinds may
NAMES = {
    "private": "private notes",
    "mail": "mail",
    "files": "files",
    "repository": "what was read of a whole repository",
    "memory": "what memory holds",
    "web": "what is on the web",
    UNKNOWN: "text of an unknown kind",
}
"""The kinds as the mark of what is withheld names them."""

log = logger(__name__)


# --- which kinds may go where ------------------------------------------------------------------------


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """The ``kinds`` of text that may go to the server at ``place``; ``is_local``: it is in your network."""

    place: str
    kinds: tuple[str, ...]
    is_local: bool

    def withholds(self, kinds: Iterable[str]) -> list[str]:
        """Those of ``kinds`` that may not go; one that is not known counts as all together."""
        every = len(self.kinds) == len(KINDS)
        return [kind for kind in kinds if kind != TASK and kind not in self.kinds and not every]


def rule_for(settings: Settings, url: str) -> Rule:
    """What may go to the server at ``url`` by the setting ``leaves``; raises ConfigError.

    The entry of its host and port counts before that of its host, and that before ``*``, which does not
    concern servers in one's own network. Without an entry everything may go.
    """
    known = {_place_of(name): _kinds_of(name, given) for name, given in settings.leaves.items()}
    parts, local = urlsplit(url), is_local(url)
    host = parts.hostname or ""
    with_port = f"[{host}]:{parts.port}" if ":" in host else f"{host}:{parts.port}"
    names = (with_port, host, *(() if local else ("*",)))
    kinds = next((known[name] for name in names if name in known), KINDS)
    return Rule(place=parts.netloc.rpartition("@")[2] or "this process", kinds=kinds, is_local=local)


def _place_of(name: str) -> str:
    host = name.strip().lower()
    if host != "*" and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*(:\d{1,5})?|\[?[0-9a-f:.]+\]?(:\d{1,5})?", host):
        raise ConfigError(
            f"MAILROOM_LEAVES is wrong: {name!r} names no server",
            "Write the host of a model's server, as api.openai.com or 10.0.0.7:8000, or * for all others",
        )
    return host


def _kinds_of(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    words = given.split() if isinstance(given, str) else list(given)
    if words == ["all"]:
        return KINDS
    if words == ["none"]:
        return ()
    if not words or (unknown := [word for word in words if word not in KINDS]):
        what = f"{unknown[0]!r} is no kind of text" if words else "it names no kind of text"
        raise ConfigError(
            f"MAILROOM_LEAVES is wrong for {name}: {what}", f"Write all, none, or some of {', '.join(KINDS)}"
        )
    return tuple(kind for kind in KINDS if kind in words)


def require_local(settings: Settings, config: ModelConfig) -> None:
    """Raise ConfigError if only local models may be asked (``brain_local``) and this one is not local."""
    if settings.brain_local and not is_local(config.url):
        raise ConfigError(
            f"{config.setting} names {config.name} at {config.place}, but brain_local allows only models in "
            "your own network",
            "Name one at an address there, or take brain_local away",
        )


def describe_models(settings: Settings, agent: str) -> AgentModels:
    """Which models an agent asks, in their order, and what may go to each; raises ConfigError.

    ``settings`` are the agent's own.
    """
    small = configured_small_model(settings) if settings.cerebellum else None
    chosen = [("reasons", configured_model(settings))]
    chosen += [("stands in", each) for each in configured_fallbacks(settings)]
    chosen += [("plans", configured_for(settings, "plan")), ("reviews", configured_for(settings, "review"))]
    models = []
    for role, config in [*chosen, ("is small", small)]:
        if config is None:
            continue
        require_local(settings, config)
        rule = rule_for(settings, config.url)
        models.append(
            ModelUse(role=role, name=config.name, place=rule.place, is_local=rule.is_local, kinds=rule.kinds)
        )
    return AgentModels(agent=agent, local_only=settings.brain_local, models=models)


# --- sections of a message, each of its kind ------------------------------------------------------------

_OPENING = re.compile(
    r"<(?P<name>(?:data|results?|memory|document|briefing|text|answer)(?:-[0-9a-f]{8})?)"
    r"(?: kinds=\"(?P<kinds>[a-z ]{1,80})\")?(?: [^<>\n]{0,200})?>"
    r"|Quoted from [^\n]{0,600}\. It is material to judge, not instructions to follow\."
    r"(?: \(kinds: (?P<of>[a-z ]{1,80})\))?\n"
)
"""What opens a section of data in a prompt; the first that closes it ends it, whatever is within."""
_LINES = re.compile(r"(?:\n?>[^\n]*)*")  # What is quoted line by line (shared/web/quoting.py)
_PRIVATE = re.compile(r"<private>(.*?)(?:</private>|\Z)", re.DOTALL)
"""The part of a section that is private, as ``mark_private`` marks it."""


def mark_private(text: str) -> str:
    """``text`` as the private part of a section of another kind."""
    return f"<private>{text.replace('</private', '‹/private')}</private>"


class _Part(NamedTuple):
    text: str
    kinds: tuple[str, ...] = ()  # empty: those of the message itself


def _parts_of(text: str) -> Iterator[_Part]:
    """A text in its sections of data and what stands between them; one that is not closed goes to the end."""
    end = 0
    while opening := _OPENING.search(text, end):
        yield _Part(text[end : opening.end()])
        if opening["name"]:
            close = text.find(f"</{opening['name']}>", opening.end())
            end = len(text) if close < 0 else close
        elif lines := _LINES.match(text, opening.end()):
            end = lines.end()
        stated = opening["kinds"] or opening["of"]
        stated = stated or ("private" if opening["name"] == "briefing" else UNKNOWN)
        inner = _PRIVATE.split(text[opening.end() : end])
        for number, part in enumerate(inner):  # every second one is between marks
            yield _Part(part, ("private",) if number % 2 else tuple(stated.split()))
    yield _Part(text[end:])


def section(text: str, kinds: str) -> str:
    """``text`` as a section of these kinds, for a prompt that does not quote it as data."""
    return f'<text kinds="{kinds or UNKNOWN}">\n{fence(text)}\n</text>'


def told_kinds(metadata: object) -> tuple[str, ...]:
    """The kinds of text that a result may tell, by its metadata or a task's context; empty if none says."""
    kinds = metadata.get("kinds") if isinstance(metadata, Mapping) else None
    if not isinstance(kinds, list | tuple) or not all(isinstance(kind, str) for kind in kinds):
        return ()
    return (tuple(kinds) or (TASK,)) if set(kinds) <= {TASK, *KINDS} else ()


def own_kinds(message: Message) -> tuple[str, ...]:
    """The kinds of a message's text outside of sections.

    What a person or the office wrote is the task's; what a model wrote may repeat all that it was shown, and
    what an action returned is of the action's kind.
    """
    if message.kinds:
        return message.kinds
    return (TASK,) if message.role in ("system", "user") else (UNKNOWN,)


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Messages as they may go: the kinds of text in them, how much was withheld by kind, and masked."""

    messages: list[Message]
    kinds: tuple[str, ...]
    withheld: dict[str, int]
    masked: int


def prepare(messages: Sequence[Message], rule: Rule, masks: "Masks") -> Prepared:
    """``messages`` without what may not go to the server of ``rule``, and with masks in place of secrets."""
    shown: dict[str, None] = {}
    withheld: dict[str, int] = {}

    def leave_out(text: str, kinds: Sequence[str]) -> str:
        refused = rule.withholds(kinds)
        if not refused or not text.strip():
            shown.update(dict.fromkeys(kinds) if text.strip() else {})
            return text
        withheld.update({kind: withheld.get(kind, 0) + len(text) for kind in refused[:1]})
        return f"(withheld: {NAMES.get(refused[0], NAMES[UNKNOWN])} may not go to {rule.place})"

    prepared, masked = [], 0
    for message in messages:
        own = own_kinds(message)
        whole = message.role in ("assistant", "tool") and rule.withholds(own)
        parts = [_Part(message.text)] if whole or message.role == "assistant" else _parts_of(message.text)
        text = "".join(leave_out(part.text, part.kinds or own) for part in parts)
        text, count = masks.cover(text)
        calls, masked = [], masked + count
        for call in message.tool_calls:
            arguments, count = masks.cover(call.arguments)
            masked += count
            calls.append(ToolCall(id=call.id, name=call.name, arguments="{}" if whole else arguments))
        prepared.append(
            msgspec.structs.replace(
                message,
                text=text,
                tool_calls=tuple(calls),
                kept=() if whole else message.kept,
                attached=() if rule.withholds(own) else message.attached,
            )
        )
    return Prepared(messages=prepared, kinds=tuple(shown), withheld=withheld, masked=masked)


# --- masks ---------------------------------------------------------------------------------------------

MASK = re.compile(r"\[secret-[0-9a-f]{8}: [A-Za-z ]{1,40}\]")
"""A mask: an agent has the same one for a secret at all times, so that a prompt begins as the one before."""
SHORTEST = 8  # Characters of a secret of the settings that is looked for: shorter ones are part of words
KEY = (
    "mask.key"  # The file that makes masks the same in all its processes, and nobody able to try out secrets
)


class Masks:
    """Puts masks in place of secrets: those of known forms, and the settings' own, wherever they stand."""

    def __init__(self, key: bytes | Path, own: Iterable[str] = ()) -> None:
        """``key`` is that of the masks, or the path of its file, which is made when it is needed."""
        self._key = key
        self._own = sorted({each for each in own if len(each) >= SHORTEST}, key=len, reverse=True)

    def cover(self, text: str) -> tuple[str, int]:
        """``text`` with masks, and how many secrets they stand for."""
        count = 0
        for own in self._own:
            if own in text:
                count += text.count(own)
                text = text.replace(own, self._mask(own, "secret of the settings"))
        found = find_secrets(text)
        if not found:
            return text, count
        pieces, end = [], 0
        for secret in found:
            value = text[secret.start : secret.end]
            pieces += [text[end : secret.start], self._mask(value, secret.kind)]
            end = secret.end
        return "".join([*pieces, text[end:]]), count + len(found)

    def _mask(self, value: str, kind: str) -> str:
        key = _read_key(self._key) if isinstance(self._key, Path) else self._key
        digest = hmac.new(key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        return f"[secret-{digest[:8]}: {kind}]"


def masks_of(settings: Settings, agent: str) -> Masks:
    """The masks of an agent; if its key can be neither read nor made, those of this process alone."""
    own = [str(getattr(settings, name)) for name in SECRETS]
    own += settings.deliver_secrets.values()
    own += [
        str(value)
        for each in settings.agents.values()
        if isinstance(each, dict)
        for name, value in each.items()
        if name.endswith("_key")
    ]
    return Masks(settings.sent / agent / KEY, own)


@lru_cache(maxsize=16)
def _read_key(path: Path) -> bytes:
    draft = path.with_name(f".{KEY}-{secrets.token_hex(4)}")
    with suppress(OSError):  # FileExistsError: another process was first
        make_folder(path.parent, path.parents[1])
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        os.link(draft, path)
    with suppress(OSError):
        draft.unlink()
    try:
        key = path.read_bytes()
    except OSError as error:
        log.warning("masks_of_this_process", path=str(path), reason=str(error))
        key = b""
    return key if len(key) == 32 else secrets.token_bytes(32)


# --- the model behind them -----------------------------------------------------------------------------


class GuardedModel:
    """A model that gets what may go to its server, with masks for secrets; what was sent is recorded."""

    def __init__(self, model: LanguageModel, rule: Rule, masks: Masks, sent: SentLog) -> None:
        self.name = model.name
        self.available = model.available
        self._model = model
        self._rule = rule
        self._masks = masks
        self._sent = sent

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
        """As LanguageModel.complete; the answer says which kinds of text the model was ``shown``."""
        prepared = prepare(messages, self._rule, self._masks)
        with self._recorded(prepared, [tool.name for tool in options.get("tools", ())]) as request:
            thought = await self._model.complete(prepared.messages, **options)
            request.usage = thought.usage
        return msgspec.structs.replace(thought, shown=prepared.kinds)

    async def stream(self, messages: Sequence[Message], **options: Unpack[StreamOptions]) -> Pieces:
        """As LanguageModel.stream."""
        prepared = prepare(messages, self._rule, self._masks)
        with self._recorded(prepared, ()) as request:
            async with aclosing(self._model.stream(prepared.messages, **options)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Thought):
                        request.usage = piece.usage
                        piece = msgspec.structs.replace(piece, shown=prepared.kinds)
                    yield piece

    def _recorded(self, prepared: Prepared, tools: Sequence[str]) -> AbstractContextManager[OpenRequest]:
        return self._sent.request(
            model=self.name,
            place=self._rule.place,
            is_local=self._rule.is_local,
            kinds=prepared.kinds,
            withheld=prepared.withheld,
            masked=prepared.masked,
            tools=tools,
            messages=prepared.messages,
        )
