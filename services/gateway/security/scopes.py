"""The scopes of a person or a token: each includes those before it."""

from enum import IntEnum

import msgspec


class Scope(IntEnum):
    """What one may do.

    READ: see everything. SUBMIT: submit goals, write letters, set reminders. APPROVE: answer approvals, apply
    patches. ADMIN: pause and restart agents, send dead letters again, make tokens.
    """

    READ = 1
    SUBMIT = 2
    APPROVE = 3
    ADMIN = 4


class Person(msgspec.Struct, frozen=True):
    """Who makes a request: the name that goes into what it sends, and the highest scope."""

    name: str
    scope: Scope
