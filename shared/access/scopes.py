"""People, their roles and scopes: who may do what through the gateway; and the webhooks of the office.

The people are those in ``<state_dir>/gateway/users.toml``, or else the one who runs the office; the webhooks
those in ``hooks.toml`` beside it.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args
from urllib.parse import urlsplit

import msgspec

from shared.contracts import TaskPriority
from shared.contracts.base import NAME
from shared.errors import ConfigError, MailroomError
from shared.files import write_atomically
from shared.log import logger
from shared.settings import Settings
from shared.subjects import USER

T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V")
log = logger(__name__)


class Scope(IntEnum):
    """What one may do; each includes those before it.

    NONE: sign in. READ: see everything. SUBMIT: submit goals, write letters, set reminders. APPROVE: answer
    approvals, apply patches. ADMIN: pause and restart agents, send dead letters again, make tokens.
    """

    NONE = 0
    READ = 1
    SUBMIT = 2
    APPROVE = 3
    ADMIN = 4


class Person(msgspec.Struct, frozen=True):
    """Who makes a request: the name that goes into what it sends, and the highest scope.

    ``audience`` is the same name in an office of several people: who sees what is the team's and its own. It
    is empty in an office of one, and of the operator.
    """

    name: str
    scope: Scope
    audience: str = ""


def list_scopes(scope: Scope) -> list[str]:
    """The names of ``scope`` and those it includes."""
    return [each.name.lower() for each in Scope if Scope.NONE < each <= scope]


NOBODY = Person("", Scope.NONE)  # Who signs in
ROLES = {"viewer": Scope.READ, "member": Scope.SUBMIT, "approver": Scope.APPROVE, "admin": Scope.ADMIN}
"""The roles of people, with their scopes."""


def parse_scope(names: Iterable[str]) -> Scope:
    """The highest of some scopes, by their names; raises MailroomError if one is unknown or none is given."""
    known = {scope.name.lower(): scope for scope in Scope if scope is not Scope.NONE}
    wanted = [name.strip().lower() for name in names if name.strip()]
    for name in wanted:
        if name not in known:
            raise MailroomError(
                f"{name[:40]!r} is no scope", f"Scopes are {', '.join(known)}; each includes those before it"
            )
    if not wanted:
        raise MailroomError("No scope is named", f"Scopes are {', '.join(known)}")
    return max(known[name] for name in wanted)


class WatchedFile(Generic[V]):
    """What ``parse`` makes of a file, read again when its date, size or inode changes.

    So what another process or a person changes counts at once.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], V], problem: str, cure: str) -> None:
        self._path, self._parse, self._problem, self._cure = path, parse, problem, cure
        self._seen: tuple[int, int, int] | None = None
        self._content: V | None = None

    def read(self) -> V | None:
        """The content, not to be changed; None without a file. Raises ConfigError if it cannot be read."""
        try:
            stat = self._path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen:
                self._content, self._seen = self._parse(self._path.read_bytes()), seen
        except FileNotFoundError:
            self._content = self._seen = None
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            self._seen = None
            raise ConfigError(f"{self._path} {self._problem}: {error}", self._cure) from None
        return self._content


OWNER = "owner"  # The name of a person whom the system does not name
EXAMPLE = 'ada = { role = "admin", email = "ada@example.org" }'


class User(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the file; ``email`` is what an OpenID provider calls the person."""

    role: Literal["viewer", "member", "approver", "admin"]
    email: str = ""

    @property
    def scope(self) -> Scope:
        """What the person may do."""
        return ROLES[self.role]


def _format_user(user: User) -> str:
    email = f", email = {json.dumps(user.email, ensure_ascii=False)}" if user.email else ""
    return f'role = "{user.role}"{email}'


def _parse_users(data: bytes) -> dict[str, User]:
    users = msgspec.convert(tomllib.loads(data.decode()), dict[str, User])
    _require_names(users)
    if USER in users:
        raise ValueError(f"{USER!r} is the operator, and no person's name")
    emails = [user.email.casefold() for user in users.values() if user.email]
    if len(set(emails)) < len(emails):
        raise ValueError("two people have the same email")
    return users


def _require_names(names: Iterable[str]) -> None:
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:64]!r} is no name of 1 to 64 lower-case letters, digits, '_' or '-'")


class People:
    """The people, read again when the file changes. A file that cannot be read lets nobody in."""

    def __init__(self, config: Settings) -> None:
        self.path = config.gateway / "users.toml"
        self._file = WatchedFile(self.path, _parse_users, "is wrong", f"Write it as in: {EXAMPLE}")

    def read(self) -> dict[str, User]:
        """The people by their names; raises ConfigError for a file that is wrong."""
        found = self._file.read()
        return {read_owner_name(): User(role="admin")} if found is None else found

    @property
    def are_several(self) -> bool:
        """Whether there are people who do not see everything of each other."""
        return len(self.read()) > 1

    def identify(self, name: str, scope: Scope) -> Person:
        """Who makes a request under a name."""
        return Person(name, scope, name if self.are_several else "")

    def find(self, name: str) -> User | None:
        """The person of that name; raises ConfigError for a file that is wrong."""
        return self.read().get(name)

    def find_by_email(self, email: str) -> str:
        """The name of the person with this address, whatever its case; empty if there is none."""
        wanted = email.strip().casefold()
        return next(
            (name for name, user in self.read().items() if wanted and user.email.casefold() == wanted), ""
        )

    def add(self, name: str, user: User) -> None:
        """Write a person to the file, the first time with the one there was; raises ConfigError."""
        people, before = self.read(), self._read_text()
        try:
            _require_names([name])
        except ValueError as error:
            raise ConfigError(str(error), "Choose another name") from None
        if name in people:
            raise ConfigError(f"There is a person {name!r} already", f"Change {self.path} with an editor")
        new = {name: user} if before else {**people, name: user}
        lines = [f"{each} = {{ {_format_user(found)} }}\n" for each, found in new.items()]
        table = re.search(r"^[ \t]*\[", before, re.MULTILINE)  # What follows such a line belongs to it
        head, tail = (before[: table.start()], before[table.start() :]) if table else (before, "")
        head += "\n" if head and not head.endswith("\n") else ""
        self._write(head + "".join(lines) + tail, {**people, name: user})

    def remove(self, name: str) -> None:
        """Take a person out of the file; raises ConfigError, also if no administrator would be left."""
        people, before = self.read(), self._read_text()
        if not before or name not in people:
            raise ConfigError(f"{self.path} has no {name[:64]!r}", "'mailroom people list' names the people")
        left = {each: user for each, user in people.items() if each != name}
        if not any(user.role == "admin" for user in left.values()):
            raise ConfigError(
                f"Without {name!r} nobody would have the role admin", "Give it to another first"
            )
        quoted = rf"[\"']?{re.escape(name)}[\"']?"
        table = rf"\[[ \t]*{quoted}[ \t]*\][^\n]*\n(?:(?![ \t]*\[)[^\n]*\n)*"
        line = rf"^[ \t]*(?:{quoted}[ \t]*=[^\n]*\n|{table})"
        self._write(re.sub(line, "", f"{before}\n", count=1, flags=re.MULTILINE).rstrip("\n") + "\n", left)

    def _read_text(self) -> str:
        return self.path.read_text("utf-8") if self.path.exists() else ""

    def _write(self, text: str, people: Mapping[str, User]) -> None:
        """Write the file if it then names these people; raises ConfigError."""
        try:
            found = _parse_users(text.encode())
        except (ValueError, msgspec.MsgspecError) as error:
            raise ConfigError(f"{self.path} is not changed: {error}", "Change it with an editor") from None
        if found != people:
            raise ConfigError(f"{self.path} is written in a way that is not changed here", "Use an editor")
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(self.path, text, mode=0o600)

    def choose(self, name: str = "") -> str:
        """``name`` if there is such a person; without one the person at this machine, or the only one.

        Raises MailroomError if there is no such person, or if it is not clear who is meant.
        """
        users = self.read()
        chosen = name or next((one for one in (read_owner_name(), *users) if one in users), "")
        names = ", ".join(users) or "nobody"
        if name and name not in users:
            raise MailroomError(f"There is no person {name[:64]!r}", f"There are: {names}")
        if not name and chosen != read_owner_name() and len(users) != 1:
            raise MailroomError(
                f"It is not clear who of {names} signs in", "Name one, as in: mailroom web --as NAME"
            )
        return chosen


def read_owner_name() -> str:
    """The name of the system's user, as a name of the office."""
    import getpass

    try:
        found = getpass.getuser()
    except (KeyError, OSError):
        return OWNER
    name = re.sub(r"[^a-z0-9_-]+", "-", found.lower()).strip("-_")[:64]
    return name or OWNER


Secret = Annotated[str, msgspec.Meta(min_length=16, max_length=500)]
Kind = Literal["approval_asked", "goal_ended", "goal_failed", "dead_letter", "mail"]

HOOKS_CURE = f"docs/gateway-security.md shows one; 'on' takes {', '.join(get_args(Kind))}"


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
    """The file ``<state_dir>/gateway/hooks.toml``, read again when it changes."""

    def __init__(self, config: Settings) -> None:
        self._path = config.gateway / "hooks.toml"
        self._file = WatchedFile(self._path, self._parse, "is wrong", HOOKS_CURE)

    def read(self) -> Hooks:
        """The webhooks; none without a file. Raises ConfigError for a file that is wrong."""
        return self._file.read() or Hooks()

    def _parse(self, data: bytes) -> Hooks:
        tables = tomllib.loads(data.decode())
        hooks = Hooks(incoming=_read_each(tables, "in", Incoming), out=_read_each(tables, "out", Outgoing))
        if unknown := sorted(tables.keys() - {"in", "out"}):
            raise ValueError(f"{unknown[0][:64]!r} is neither 'in' nor 'out'")
        _require_names((*hooks.incoming, *hooks.out))
        for name, hook in hooks.out.items():
            parts = urlsplit(hook.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"the url of {name} is no http address")
        if self._path.stat().st_mode & 0o077:
            log.warning("hooks_readable", path=str(self._path), cure="chmod 600: it holds secrets")
        return hooks


def _read_each(tables: dict[str, Any], direction: str, form: type[T]) -> dict[str, T]:
    """The webhooks of a direction by their names; raises ValueError that names the one that is wrong."""
    found: dict[str, T] = {}
    for name, table in msgspec.convert(tables.get(direction, {}), dict[str, dict[str, Any]]).items():
        try:
            found[name] = msgspec.convert(table, form)
        except msgspec.ValidationError as error:
            raise ValueError(f"[{direction}.{name[:64]}]: {error}") from None
    return found
