"""The gate: the process through which jailed commands reach hosts that they may reach; all but ``registries``
with the standard library alone, so that it starts quickly.

This module is what it shares with its client: the addresses inside the jail, and what is sent for a command.
"""

import json
from typing import Any, NamedTuple

PORT = 61_128
"""Where the proxy listens on the jail's loopback: above the ports that the kernel gives out by itself."""
SOCKET = "/run/gate.sock"  # Where a command's own socket to the gate is inside the jail
DESCRIPTORS = 2
"""The descriptors in a message for a command: its listening Unix socket, and its control socket."""


class Session(NamedTuple):
    """What one command may reach: see shared.sandbox.jail.Reach, of which this is the part for the gate.

    ``upstream`` is the machine's own proxy (``http://user:password@host:port``), empty if it has none, and
    ``direct`` what is reached without that one, as in the variable NO_PROXY.
    """

    hosts: list[str]
    private: list[str]
    max_bytes: int
    upstream: str = ""
    direct: str = ""


def encode_session(session: Session) -> bytes:
    """``session`` as a message to the gate."""
    return json.dumps(session).encode()


def decode_session(message: bytes) -> Session:
    """The session in a message."""
    return Session(*json.loads(message))


def decode_report(words: bytes) -> list[dict[str, Any]]:
    """The connections that a gate reported at the end of a command, as the fields of Connection."""
    found: list[dict[str, Any]] = json.loads(words or b"[]")
    return found
