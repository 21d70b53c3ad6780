"""Signing in and out, who one is, and tokens for scripts."""

from datetime import timedelta
from typing import Annotated

import msgspec
from starlette.responses import Response

from services.gateway.call import Call
from services.gateway.problems import Failure, not_found
from services.gateway.routing import JSON, Endpoint
from services.gateway.security.authentication import Authenticator, Credential, clear_cookie, set_cookie
from shared.access.credentials import LINK_LIFETIME, TokenList, TokenRow
from shared.access.scopes import Person, Scope, list_scopes, parse_scope
from shared.contracts import AccessAct
from shared.contracts.base import NAME

PATH = "/api/v1/session"
Secret = Annotated[str, msgspec.Meta(max_length=200)]


class SignIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one signs in with: the code of a one-time link, what is behind its ``#``; or a token."""

    link: Secret = ""
    token: Secret = ""


class SignOutQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``everywhere`` ends the sessions of the person in all browsers."""

    everywhere: bool = False


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who one is, and the scopes one has; ``audience`` is the same name where there are several people.

    ``position`` is how far the log was read: what happens from then on is in ``/events?after=``. A sign-in
    has none.
    """

    person: str
    scopes: list[str]
    audience: str = ""
    position: str = ""


async def read_session(call: Call) -> SessionInfo:
    """Who makes the request."""
    position = str(call.gateway.index.position)
    return SessionInfo(
        person=call.person.name,
        scopes=list_scopes(call.person.scope),
        audience=call.person.audience,
        position=position,
    )


async def sign_in(call: Call, body: SignIn) -> Response:
    """Begin a session with a one-time link or a token; the cookie of the answer holds it.

    A browser that is signed in as another person has to sign out first, so that no one is made to work in
    another one's name by a link.
    """
    access = call.gateway.authenticator
    same = body.token and access.identify_token(body.token) == call.person
    same = same or (body.link and access.links.find(body.link) == call.person.name)
    if call.person.name and not same:
        raise Failure(409, f"This browser is signed in as {call.person.name}", "Sign out first")
    if bool(body.link) == bool(body.token):
        raise Failure(422, "Give either the code of a link or a token", 'Such as {"link": "..."}')
    address = call.request.state.address
    try:
        person, secret = await _begin(access, body)
    except Failure as failure:
        call.gateway.access.note(AccessAct.SIGN_IN_REFUSED, address=address, reason=failure.cause)
        raise
    call.gateway.access.note(AccessAct.SIGNED_IN, person=person.name, address=address)
    info = SessionInfo(person=person.name, scopes=list_scopes(person.scope))
    answer = Response(msgspec.json.encode(info), media_type=JSON)
    set_cookie(answer, call.request.state.site, secret)
    return answer


async def _begin(access: Authenticator, body: SignIn) -> tuple[Person, str]:
    if body.token:
        person = access.identify_token(body.token)
        if person is None:
            raise Failure(401, "The token is not valid", "'mailroom token list' shows those that are")
        token = access.tokens.find(body.token)
        return person, await access.sessions.create(person.name, token=token.name if token else person.name)
    name = await access.links.use(body.link)
    user = access.people.find(name) if name else None
    if user is None:
        raise Failure(
            401,
            "The link is not valid: it was used, or is older than ten minutes",
            "'mailroom web' prints a new one",
        )
    return access.people.identify(name, user.scope), await access.sessions.create(name)


async def sign_out(call: Call, query: SignOutQuery) -> Response:
    """End the session; the cookie is removed."""
    access = call.gateway.authenticator
    credential: Credential = call.request.state.credential
    if credential.via == "session":
        await access.sessions.end(credential.secret)
    if query.everywhere:
        await access.sessions.end_all(call.person.name)
    call.gateway.access.note(
        AccessAct.SIGNED_OUT, person=call.person.name, address=call.request.state.address
    )
    answer = Response(status_code=204)
    clear_cookie(answer, call.request.state.site)
    return answer


LINKS, SIGN_OUT = "/api/v1/links", "/api/v1/sessions/end"


class Named(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom a link signs in, or who is signed out; empty for the person at the gateway's machine."""

    person: Annotated[str, msgspec.Meta(max_length=64)] = ""


class MadeLink(msgspec.Struct, frozen=True, kw_only=True):
    """The code of a new one-time link, which is shown this once, and counts for ``minutes``."""

    person: str
    code: str
    minutes: int


class EndedSessions(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions of a person were ended."""

    person: str
    ended: int


async def make_link(call: Call, body: Named) -> MadeLink:
    """Make a link that signs one browser in, once."""
    access = call.gateway.authenticator
    person = access.people.choose(body.person)
    code = await access.links.create(person)
    return MadeLink(person=person, code=code, minutes=int(LINK_LIFETIME.total_seconds() // 60))


async def end_sessions(call: Call, body: Named) -> EndedSessions:
    """Sign a person out in all browsers."""
    access = call.gateway.authenticator
    person = access.people.choose(body.person)
    ended = await access.sessions.end_all(person)
    call.gateway.access.note(AccessAct.SIGNED_OUT, person=call.person.name, about=person)
    return EndedSessions(person=person, ended=ended)


TOKENS = "/api/v1/tokens"
MAX_DAYS = 3_650


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token to be made; ``days`` until it expires, or null for one that does not; ``person`` is whose it
    is, empty for a script.
    """

    name: Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}$")]
    scopes: Annotated[list[str], msgspec.Meta(min_length=1, max_length=8)]
    days: Annotated[float, msgspec.Meta(gt=0, le=MAX_DAYS)] | None = None
    person: Annotated[str, msgspec.Meta(max_length=64)] = ""


class MadeToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token: ``token`` is shown this once."""

    name: str
    token: str


async def list_tokens(call: Call) -> TokenList:
    """The tokens, those that expired too, without their secrets."""
    return TokenList(
        tokens=[
            TokenRow(
                name=token.name,
                person=token.person,
                scopes=list_scopes(token.scope),
                created_at=token.created_at,
                expires_at=token.expires_at,
                used_at=token.used_at,
                expired=token.expired,
            )
            for token in call.gateway.authenticator.tokens.list()
        ]
    )


async def add_token(call: Call, body: NewToken) -> MadeToken:
    """Make a token; the answer alone has its secret."""
    scope = parse_scope(body.scopes)
    tokens = call.gateway.authenticator.tokens
    if tokens.find_named(body.name):
        raise Failure(
            409, f"There is a token {body.name!r} already", "Choose another name, or revoke that one"
        )
    lifetime = timedelta(days=body.days) if body.days else None
    secret = await tokens.add(body.name, scope, lifetime, body.person)
    call.gateway.access.note(AccessAct.TOKEN_ADDED, person=call.person.name, about=body.name)
    return MadeToken(name=body.name, token=secret)


async def revoke_token(call: Call) -> None:
    """Make a token invalid at once; sessions that were begun with it end too."""
    tokens, name = call.gateway.authenticator.tokens, call.path["name"]
    if all(token.name != name for token in tokens.list()):
        raise not_found(f"token {name[:64]!r}")
    await tokens.revoke(name)
    call.gateway.access.note(AccessAct.TOKEN_REVOKED, person=call.person.name, about=name)


ENDPOINTS = (
    Endpoint("GET", PATH, read_session, scope=Scope.READ, tag="session"),
    Endpoint("POST", PATH, sign_in, scope=Scope.NONE, tag="session"),
    Endpoint("DELETE", PATH, sign_out, scope=Scope.READ, tag="session", status=204),
    Endpoint("POST", LINKS, make_link, scope=Scope.ADMIN, tag="session", status=201),
    Endpoint("POST", SIGN_OUT, end_sessions, scope=Scope.ADMIN, tag="session"),
    Endpoint("GET", TOKENS, list_tokens, scope=Scope.ADMIN, tag="tokens"),
    Endpoint("POST", TOKENS, add_token, scope=Scope.ADMIN, tag="tokens", status=201),
    Endpoint("DELETE", f"{TOKENS}/{{name}}", revoke_token, scope=Scope.ADMIN, tag="tokens"),
)
