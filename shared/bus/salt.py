"""Random characters for every stored message, so that what commits to it cannot be guessed from its text."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from os import register_at_fork, urandom

LENGTH = 22
"""Characters of six random bits each: 132 bits."""
_AT_ONCE = 500
"""How many salts are made of one request to the kernel."""


def _make_salts() -> Iterator[str]:
    while True:
        text = urlsafe_b64encode(urandom(_AT_ONCE * LENGTH * 6 // 8)).decode()
        yield from (text[at : at + LENGTH] for at in range(0, len(text), LENGTH))


_salts = _make_salts()


def make_salt() -> str:
    """The next salt."""
    return next(_salts)


def _begin_anew() -> None:
    global _salts  # noqa: PLW0603  # a fork must not use the salts of its parent
    _salts = _make_salts()


register_at_fork(after_in_child=_begin_anew)
