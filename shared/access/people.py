"""The people of the office: those in ``<state_dir>/gateway/users.toml``, or else the one who runs it."""

import re
import tomllib
from typing import Literal

import msgspec

from shared.access.scopes import ROLES, Scope
from shared.contracts.base import NAME
from shared.errors import ConfigError, MailroomError
from shared.settings import Settings

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


class People:
    """The people, read again when the file changes. A file that cannot be read lets nobody in."""

    def __init__(self, config: Settings) -> None:
        self._path = config.gateway / "users.toml"
        self._seen: tuple[int, int, int] | None = None
        self._users: dict[str, User] = {}

    def read(self) -> dict[str, User]:
        """The people by their names; raises ConfigError for a file that is wrong."""
        try:
            stat = self._path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen:
                users = msgspec.convert(tomllib.loads(self._path.read_text()), dict[str, User])
                emails = [user.email.casefold() for user in users.values() if user.email]
                for name in users:
                    if not NAME.fullmatch(name):
                        raise ValueError(
                            f"{name[:64]!r} is no name of 1 to 64 lower-case letters, digits, '_' or '-'"
                        )
                if len(set(emails)) < len(emails):
                    raise ValueError("two people have the same email")
                self._users = users
                self._seen = seen
        except FileNotFoundError:
            self._seen = None
            return {read_owner_name(): User(role="admin")}
        except (OSError, ValueError, msgspec.ValidationError) as error:
            self._seen = None
            raise ConfigError(f"{self._path} is wrong: {error}", f"Write it as in: {EXAMPLE}") from None
        return self._users

    def find(self, name: str) -> User | None:
        """The person of that name; raises ConfigError for a file that is wrong."""
        return self.read().get(name)

    def find_by_email(self, email: str) -> str:
        """The name of the person with this address, whatever its case; empty if there is none."""
        wanted = email.strip().casefold()
        return next(
            (name for name, user in self.read().items() if wanted and user.email.casefold() == wanted), ""
        )

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
