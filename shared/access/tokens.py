"""Tokens of scripts: ``Authorization: Bearer mr_...``."""

import contextlib
from datetime import datetime, timedelta

import msgspec

from shared.access.file import RecordFile
from shared.access.people import People
from shared.access.scopes import Scope
from shared.access.secrets import TOKEN_PREFIX, hash_secret, make_secret, now
from shared.contracts.base import NAME
from shared.errors import MailroomError
from shared.settings import Settings

USED_INTERVAL = timedelta(minutes=1)  # How exactly the last use is noted: each note is a write to the disk


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token, valid until it expires (None: never) or is revoked; ``name`` is who acts with it."""

    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None = None
    used_at: datetime | None = None

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now()


class Tokens:
    """The tokens, stored as their hashes."""

    def __init__(self, config: Settings) -> None:
        self._file = RecordFile(config.gateway / "tokens.json", Token)
        self._people = People(config)

    def add(self, name: str, scope: Scope, lifetime: timedelta | None = None) -> str:
        """A new token, which is shown this once.

        Raises MailroomError for a wrong name, and if a token or a person has it.
        """
        if not NAME.fullmatch(name):
            raise MailroomError(
                f"{name[:64]!r} is no name for a token",
                "Take 1 to 64 lower-case letters, digits, '_' or '-', beginning with a letter or digit",
            )
        if self._people.find(name):
            raise MailroomError(f"{name!r} is a person's name", "Choose another: it says who did something")
        secret = make_secret(TOKEN_PREFIX)
        with self._file.change() as tokens:
            if any(token.name == name and not token.expired for token in tokens.values()):
                raise MailroomError(
                    f"There is a token {name!r} already", "Choose another name, or revoke that one"
                )
            for key in [key for key, token in tokens.items() if token.name == name]:
                del tokens[key]
            moment = now()
            tokens[hash_secret(secret)] = Token(
                name=name,
                scope=scope,
                created_at=moment,
                expires_at=moment + lifetime if lifetime is not None else None,
            )
        return secret

    def list(self) -> list[Token]:
        """The tokens by name, those that expired too."""
        return sorted(self._file.read().values(), key=lambda token: token.name)

    def find(self, secret: str) -> Token | None:
        """The token, unless it is unknown, revoked or expired; its use is noted."""
        key = hash_secret(secret)
        token = self._file.read().get(key)
        if token is None or token.expired:
            return None
        if token.used_at is None or now() - token.used_at > USED_INTERVAL:
            # On a full disk scripts are let in all the same.
            with contextlib.suppress(MailroomError), self._file.change() as tokens:
                if key in tokens:  # another process may have revoked it
                    tokens[key] = msgspec.structs.replace(tokens[key], used_at=now())
        return token

    def find_named(self, name: str) -> Token | None:
        """The token of that name, unless it is revoked or expired."""
        tokens = self._file.read().values()
        return next((token for token in tokens if token.name == name and not token.expired), None)

    def revoke(self, name: str) -> None:
        """Make a token invalid, from its next request on; raises MailroomError if there is none."""
        with self._file.change() as tokens:
            found = [key for key, token in tokens.items() if token.name == name]
            for key in found:
                del tokens[key]
            if not found:
                names = ", ".join(sorted(token.name for token in tokens.values())) or "none"
                raise MailroomError(f"There is no token {name[:64]!r}", f"There are: {names}")
