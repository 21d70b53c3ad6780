"""The webhooks of the office, as ``<state_dir>/gateway/hooks.toml`` has them."""

import tomllib
from typing import Annotated, Any, Literal, TypeVar, get_args
from urllib.parse import urlsplit

import msgspec

from shared.contracts import TaskPriority
from shared.contracts.base import NAME
from shared.errors import ConfigError
from shared.log import logger
from shared.settings import Settings

MIN_SECRET = 16
Secret = Annotated[str, msgspec.Meta(min_length=MIN_SECRET, max_length=500)]
Kind = Literal["approval_asked", "goal_ended", "goal_failed", "dead_letter", "mail"]

CURE = f"docs/gateway-security.md shows one; 'on' takes {', '.join(get_args(Kind))}"

log = logger(__name__)
T = TypeVar("T", bound=msgspec.Struct)


class Incoming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who has ``secret`` submits a goal: ``text``, in which ``{a.b}`` stands for a field of the body.

    ``form`` is how deliveries are signed. ``context`` and ``priority`` are those of the goal.
    """

    secret: Secret
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
    form: Literal["mailroom", "github"] = "mailroom"
    context: dict[str, Any] = {}
    priority: TaskPriority = TaskPriority.MEDIUM


class Outgoing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens of the kinds in ``on`` is posted to ``url``, signed with ``secret``."""

    on: Annotated[tuple[Kind, ...], msgspec.Meta(min_length=1)]
    url: str
    secret: Secret


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """The webhooks by their names: those that come ``in``, and those that go ``out``."""

    incoming: dict[str, Incoming] = {}
    out: dict[str, Outgoing] = {}


class HookFile:
    """The file, read again when it changes."""

    def __init__(self, config: Settings) -> None:
        self._path = config.gateway / "hooks.toml"
        self._seen: tuple[int, int, int] | None = None
        self._hooks = Hooks()

    def read(self) -> Hooks:
        """The webhooks; none without a file. Raises ConfigError for a file that is wrong."""
        try:
            stat = self._path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen:
                self._hooks = _parse_hooks(self._path.read_text())
                self._seen = seen
                if stat.st_mode & 0o077:
                    log.warning("hooks_readable", path=str(self._path), cure="chmod 600: it holds secrets")
        except FileNotFoundError:
            self._seen, self._hooks = None, Hooks()
        except (OSError, ValueError, msgspec.ValidationError) as error:
            self._seen = None
            raise ConfigError(f"{self._path} is wrong: {error}", CURE) from None
        return self._hooks


def _read_each(tables: dict[str, Any], direction: str, form: type[T]) -> dict[str, T]:
    """The webhooks of a direction by their names; raises ValueError that names the one that is wrong."""
    found: dict[str, T] = {}
    for name, table in msgspec.convert(tables.get(direction, {}), dict[str, dict[str, Any]]).items():
        try:
            found[name] = msgspec.convert(table, form)
        except msgspec.ValidationError as error:
            raise ValueError(f"[{direction}.{name[:64]}]: {error}") from None
    return found


def _parse_hooks(text: str) -> Hooks:
    tables = tomllib.loads(text)
    hooks = Hooks(incoming=_read_each(tables, "in", Incoming), out=_read_each(tables, "out", Outgoing))
    if unknown := sorted(tables.keys() - {"in", "out"}):
        raise ValueError(f"{unknown[0][:64]!r} is neither 'in' nor 'out'")
    for name in (*hooks.incoming, *hooks.out):
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:64]!r} is no name of 1 to 64 lower-case letters, digits, '_' or '-'")
    for name, hook in hooks.out.items():
        parts = urlsplit(hook.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the url of {name} is no http address")
    return hooks
