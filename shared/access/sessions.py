"""Sessions of browsers, which survive a restart of the gateway."""

import contextlib
from datetime import datetime, timedelta

import msgspec

from shared.access.file import RecordFile
from shared.access.secrets import hash_secret, make_secret, now
from shared.errors import MailroomError
from shared.settings import Settings

SESSION_LIFETIME = timedelta(days=30)  # How long a session lasts at most
IDLE_LIFETIME = timedelta(days=7)  # How long it lasts without a request
SEEN_INTERVAL = timedelta(hours=1)  # How exactly the last request is noted: each note is a write to the disk
MAX_SESSIONS = 1_000  # The most sessions that are kept; a new one ends the oldest


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in browser; ``token`` is the name of the token it was signed in with, or empty."""

    person: str
    token: str = ""
    created_at: datetime
    seen_at: datetime

    @property
    def ends_at(self) -> datetime:
        """When the session ends if there is no further request."""
        return min(self.created_at + SESSION_LIFETIME, self.seen_at + IDLE_LIFETIME)


class Sessions:
    """The sessions, stored as hashes of what the cookies hold."""

    def __init__(self, config: Settings) -> None:
        self._file = RecordFile(config.gateway / "sessions.json", Session)

    def create(self, person: str, token: str = "") -> str:
        """The secret of a new session, for a cookie; raises MailroomError if it cannot be stored."""
        secret, moment = make_secret(), now()
        with self._file.change() as sessions:
            for key in [key for key, session in sessions.items() if session.ends_at <= moment]:
                del sessions[key]
            while len(sessions) >= MAX_SESSIONS:
                del sessions[min(sessions, key=lambda key: sessions[key].seen_at)]
            new = Session(person=person, token=token, created_at=moment, seen_at=moment)
            sessions[hash_secret(secret)] = new
        return secret

    def find(self, secret: str) -> Session | None:
        """The session with this secret, unless it has ended; the request is noted."""
        key, moment = hash_secret(secret), now()
        session = self._file.read().get(key)
        if session is None or session.ends_at <= moment:
            return None
        if moment - session.seen_at > SEEN_INTERVAL:
            # On a full disk people are let in all the same.
            with contextlib.suppress(MailroomError), self._file.change() as sessions:
                if key in sessions:  # another process may have ended it
                    sessions[key] = msgspec.structs.replace(sessions[key], seen_at=moment)
        return session

    def end(self, secret: str) -> None:
        """End the session with this secret, if there is one."""
        with self._file.change() as sessions:
            sessions.pop(hash_secret(secret), None)

    def end_all(self, person: str = "") -> int:
        """End the sessions of ``person``, or of everybody; returns how many there were."""
        with self._file.change() as sessions:
            ended = [key for key, session in sessions.items() if person in ("", session.person)]
            for key in ended:
                del sessions[key]
        return len(ended)
