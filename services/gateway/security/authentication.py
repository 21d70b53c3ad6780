"""Who sends a request: by the token or the cookie it carries."""

from typing import Literal, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from services.gateway.security.cookies import cookie_name
from services.gateway.security.sites import Site
from shared.access.command_token import is_command_token
from shared.access.links import Links
from shared.access.people import People
from shared.access.scopes import Person, Scope
from shared.access.secrets import TOKEN_PREFIX
from shared.access.sessions import Session, Sessions
from shared.access.tokens import Tokens
from shared.settings import Settings

Via = Literal["session", "token"]
COMMANDS = Person("", Scope.ADMIN)
"""Who shows the token of this machine: its acts are those of ``user``, of no person by name."""
MAX_SECRET = 200
"""Characters of what may be a token or a session."""


class Credential(NamedTuple):
    """What a request shows for itself; ``via`` is None if that is nothing."""

    via: Via | None
    secret: str = ""


def read_credential(headers: Headers, site: Site) -> Credential:
    """The credential of a request: what its header Authorization holds, and without one its cookie."""
    given = headers.getlist("authorization")
    if given:
        scheme, _, secret = given[0].partition(" ")
        valid = len(given) == 1 and scheme.lower() == "bearer"
        return Credential("token", secret.strip() if valid else "")
    secret = cookie_parser("; ".join(headers.getlist("cookie"))).get(cookie_name(site), "")
    return Credential("session", secret) if secret else Credential(None)


class Authenticator:
    """Finds the person of a credential, in the files as they are at that moment."""

    def __init__(self, config: Settings) -> None:
        self._config = config
        self.people = People(config)
        self.links = Links(config)
        self.sessions = Sessions(config)
        self.tokens = Tokens(config)

    def identify(self, credential: Credential) -> Person | None:
        """The person; None for a credential that is unknown, revoked or has expired.

        Raises ConfigError if a file cannot be read: then nobody is let in.
        """
        if not 0 < len(credential.secret) <= MAX_SECRET:
            return None
        if credential.via == "token":
            return self.identify_token(credential.secret)
        session = self.sessions.find(credential.secret)
        return self._person_of(session) if session else None

    def identify_token(self, secret: str) -> Person | None:
        """The person of a token; None if it is not valid."""
        if not secret.startswith(TOKEN_PREFIX):
            return None
        if is_command_token(self._config, secret):
            return COMMANDS
        token = self.tokens.find(secret)
        return Person(token.name, token.scope) if token else None

    def _person_of(self, session: Session) -> Person | None:
        if session.token:
            token = self.tokens.find_named(session.token)
            valid = token is not None and token.created_at <= session.created_at
            return Person(token.name, token.scope) if token and valid else None
        user = self.people.find(session.person)
        return Person(session.person, user.scope) if user else None
