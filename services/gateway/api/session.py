"""Signing in and out, and who one is."""

from typing import Annotated

import msgspec
from starlette.responses import Response

from services.gateway.call import Call
from services.gateway.problems import Failure
from services.gateway.routing import JSON, Endpoint
from services.gateway.security.authentication import Authenticator, Credential, clear_cookie, set_cookie
from shared.access.scopes import Person, Scope, list_scopes
from shared.contracts import AccessAct

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
    """Who one is, and the scopes one has.

    ``position`` is how far the log was read: what happens from then on is in ``/events?after=``. A sign-in
    has none.
    """

    person: str
    scopes: list[str]
    position: str = ""

    @classmethod
    def of(cls, person: Person) -> "SessionInfo":
        """The information about ``person``."""
        return cls(person=person.name, scopes=list_scopes(person.scope))


async def read_session(call: Call) -> SessionInfo:
    """Who makes the request."""
    position = str(call.gateway.index.position)
    return msgspec.structs.replace(SessionInfo.of(call.person), position=position)


async def sign_in(call: Call, body: SignIn) -> Response:
    """Begin a session with a one-time link or a token; the cookie of the answer holds it.

    A browser that is signed in as another person has to sign out first, so that no one is made to work in
    another one's name by a link.
    """
    access = Authenticator(call.gateway.settings)
    if call.person.name and not await _is_same_person(access, call.person, body):
        raise Failure(409, f"This browser is signed in as {call.person.name}", "Sign out first")
    if bool(body.link) == bool(body.token):
        raise Failure(422, "Give either the code of a link or a token", 'Such as {"link": "..."}')
    address = call.request.state.address
    try:
        person, secret = _begin(access, body)
    except Failure as failure:
        call.gateway.access.note(AccessAct.SIGN_IN_REFUSED, address=address, reason=failure.cause)
        raise
    call.gateway.access.note(AccessAct.SIGNED_IN, person=person.name, address=address)
    answer = Response(msgspec.json.encode(SessionInfo.of(person)), media_type=JSON)
    set_cookie(answer, call.request.state.site, secret)
    return answer


async def _is_same_person(access: Authenticator, person: Person, body: SignIn) -> bool:
    found = access.identify_token(body.token) if body.token else None
    return found == person or (bool(body.link) and access.links.find(body.link) == person.name)


def _begin(access: Authenticator, body: SignIn) -> tuple[Person, str]:
    if body.token:
        person = access.identify_token(body.token)
        if person is None:
            raise Failure(401, "The token is not valid", "'mailroom token list' shows those that are")
        return person, access.sessions.create(person.name, token=person.name)
    name = access.links.use(body.link)
    user = access.people.find(name) if name else None
    if user is None:
        raise Failure(
            401,
            "The link is not valid: it was used, or is older than ten minutes",
            "'mailroom web' prints a new one",
        )
    return Person(name, user.scope), access.sessions.create(name)


async def sign_out(call: Call, query: SignOutQuery) -> Response:
    """End the session; the cookie is removed."""
    access = Authenticator(call.gateway.settings)
    credential: Credential = call.request.state.credential
    if credential.via == "session":
        access.sessions.end(credential.secret)
    if query.everywhere:
        access.sessions.end_all(call.person.name)
    call.gateway.access.note(
        AccessAct.SIGNED_OUT, person=call.person.name, address=call.request.state.address
    )
    answer = Response(status_code=204)
    clear_cookie(answer, call.request.state.site)
    return answer


ENDPOINTS = (
    Endpoint("GET", PATH, read_session, scope=Scope.READ, tag="session"),
    Endpoint("POST", PATH, sign_in, scope=Scope.NONE, tag="session"),
    Endpoint("DELETE", PATH, sign_out, scope=Scope.READ, tag="session", status=204),
)
