"""What the SDKs are given: the packages themselves, a TLS context, patience to connect."""

import functools
import importlib
import ssl
from typing import Any

from shared.errors import BrainError

CONNECT = 10.0
"""Seconds to connect in: a host that drops packets must not take the whole time of a call."""


def require_sdk(name: str, *needed: str) -> Any:
    """The SDK package; raises BrainError with the cure where it is missing or too old."""
    cure = f"pip install --upgrade 'mailroom[{name}]'"
    try:
        package = importlib.import_module(name)
    except ImportError as error:
        raise BrainError(f"The {name} package cannot be imported ({error})", cure) from None
    if any(not hasattr(package, attribute) for attribute in needed):
        raise BrainError(f"The {name} package is not the one needed, or too old", cure)
    return package


@functools.cache
def read_ssl() -> ssl.SSLContext:
    """The TLS context for every connection: reading the certificates takes 30 ms, once is enough."""
    import httpx2

    return httpx2.create_ssl_context()
