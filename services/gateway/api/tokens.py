"""Tokens for scripts."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from services.gateway.call import Call
from services.gateway.problems import Failure, not_found
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope, list_scopes, parse_scope
from shared.access.tokens import Token, Tokens
from shared.contracts import AccessAct
from shared.contracts.base import NAME

PATH = "/api/v1/tokens"
MAX_DAYS = 3_650


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token to be made; ``days`` until it expires, or null for one that does not."""

    name: Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}$")]
    scopes: Annotated[list[str], msgspec.Meta(min_length=1, max_length=8)]
    days: Annotated[int, msgspec.Meta(ge=1, le=MAX_DAYS)] | None = None


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    expired: bool

    @classmethod
    def of(cls, token: Token) -> "TokenRow":
        """What is shown of ``token``."""
        return cls(
            name=token.name,
            scopes=list_scopes(token.scope),
            created_at=token.created_at,
            expires_at=token.expires_at,
            used_at=token.used_at,
            expired=token.expires_at is not None and token.expires_at <= datetime.now(UTC),
        )


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens by name."""

    tokens: list[TokenRow]


class MadeToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token: ``token`` is shown this once."""

    name: str
    token: str


async def list_tokens(call: Call) -> TokenList:
    """The tokens, those that expired too, without their secrets."""
    found = Tokens(call.gateway.settings).list()
    return TokenList(tokens=[TokenRow.of(token) for token in found])


async def add_token(call: Call, body: NewToken) -> MadeToken:
    """Make a token; the answer alone has its secret."""
    scope = parse_scope(body.scopes)
    tokens = Tokens(call.gateway.settings)
    if tokens.find_named(body.name):
        raise Failure(
            409, f"There is a token {body.name!r} already", "Choose another name, or revoke that one"
        )
    lifetime = timedelta(days=body.days) if body.days else None
    secret = tokens.add(body.name, scope, lifetime)
    call.gateway.access.note_token(AccessAct.TOKEN_ADDED, body.name, call.person.name)
    return MadeToken(name=body.name, token=secret)


async def revoke_token(call: Call) -> None:
    """Make a token invalid at once; sessions that were begun with it end too."""
    tokens, name = Tokens(call.gateway.settings), call.path["name"]
    if all(token.name != name for token in tokens.list()):
        raise not_found(f"token {name[:64]!r}")
    tokens.revoke(name)
    call.gateway.access.note_token(AccessAct.TOKEN_REVOKED, name, call.person.name)


ENDPOINTS = (
    Endpoint("GET", PATH, list_tokens, scope=Scope.ADMIN, tag="tokens"),
    Endpoint("POST", PATH, add_token, scope=Scope.ADMIN, tag="tokens", status=201),
    Endpoint("DELETE", f"{PATH}/{{name}}", revoke_token, scope=Scope.ADMIN, tag="tokens"),
)
