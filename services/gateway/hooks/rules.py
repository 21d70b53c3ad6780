"""The webhooks of the office, as ``<state_dir>/gateway/hooks.toml`` has them."""

import tomllib
from typing import Annotated, Any, Literal
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

log = logger(__name__)


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


class Hooks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"incoming": "in"}):
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
            cure = "docs/gateway-security.md shows one"
            raise ConfigError(f"{self._path} is wrong: {error}", cure) from None
        return self._hooks


def _parse_hooks(text: str) -> Hooks:
    hooks = msgspec.convert(tomllib.loads(text), Hooks)
    for name in (*hooks.incoming, *hooks.out):
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:64]!r} is no name of 1 to 64 lower-case letters, digits, '_' or '-'")
    for name, hook in hooks.out.items():
        parts = urlsplit(hook.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the url of {name} is no http address")
    return hooks
