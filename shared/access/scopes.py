"""Scopes and roles: what a person or a script may do through the gateway."""

from collections.abc import Iterable
from enum import IntEnum

import msgspec

from shared.errors import MailroomError


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
    """Who makes a request: the name that goes into what it sends, and the highest scope."""

    name: str
    scope: Scope


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
