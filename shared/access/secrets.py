"""Secrets that are shown once: made at random, and stored as their hashes."""

import hashlib
import secrets
from datetime import UTC, datetime

TOKEN_PREFIX = "mr_"  # noqa: S105  # not a secret: it tells scanners of secrets what they found
"""What tokens of scripts begin with."""


def make_secret(prefix: str = "") -> str:
    """A new secret: ``prefix``, and 32 random bytes as 43 characters that need no quoting anywhere."""
    return prefix + secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """The SHA-256 of a secret, which is what the files hold.

    A slow hash with a salt protects passwords, of which there are few likely ones. Nobody can try 2**256
    random values, so a quick hash is as good, and a request is not delayed by it. Secrets are found by their
    hash: how long the search takes says nothing about the secret.
    """
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def now() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)
