"""The scopes of a person or a token: each includes those before it."""

from shared.access.scopes import Person, Scope

__all__ = ["Person", "Scope"]
