"""Who came in through the gateway, and who was let in or kept out."""

from enum import StrEnum
from typing import Annotated

from shared.contracts.base import Envelope, at_most


class AccessAct(StrEnum):
    """What was done, or refused."""

    SIGNED_IN = "signed_in"
    SIGN_IN_REFUSED = "sign_in_refused"
    SIGNED_OUT = "signed_out"
    TOKEN_ADDED = "token_added"  # noqa: S105  # an act
    TOKEN_REVOKED = "token_revoked"  # noqa: S105
    TOKEN_REFUSED = "token_refused"  # noqa: S105
    HOOK_REFUSED = "hook_refused"
    HOOK_FAILED = "hook_failed"
    REPLY_REFUSED = "reply_refused"


class AccessChanged(Envelope, frozen=True, kw_only=True, tag="access_changed.v1"):
    """Someone signed in or out, a token was made or revoked, or something was refused; never a secret.

    ``person`` is who did it, as far as that is known, ``address`` the network address it came from, ``about``
    the name of the token, webhook or channel.
    """

    act: AccessAct
    address: Annotated[str, at_most(100)] = ""
    about: Annotated[str, at_most(100)] = ""
    reason: Annotated[str, at_most(500)] = ""
