"""The machine's own proxy, if it has one: the gate then connects through it."""

import asyncio
import base64
import re
from urllib.parse import unquote, urlsplit

from shared.gate import Session
from shared.gate.addresses import parse_ip
from shared.gate.reachable import BAD_GATEWAY, Refused, matches


def has_upstream(session: Session, host: str, port: int) -> bool:
    """Whether the host is reached through the machine's own proxy."""
    if not session.upstream or any(matches(pattern, host, port) for pattern in session.private):
        return False
    for word in re.split(r"[,\s]+", session.direct.lower()):
        name = word.removeprefix("*").removeprefix(".")
        if word == "*" or (name and (host == name or (host.endswith(f".{name}") and parse_ip(host) is None))):
            return False
    return True


async def connect_upstream(
    session: Session, host: str, port: int, limit: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A tunnel to the host through that proxy; raises Refused if it gives none, OSError."""
    proxy = urlsplit(session.upstream)
    reader, writer = await asyncio.open_connection(proxy.hostname, proxy.port or 80, limit=limit)
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username:
        login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}")
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = await reader.readuntil(b"\r\n\r\n")
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.transport.abort()
        raise Refused(BAD_GATEWAY, "the machine's own proxy gave no answer") from None
    status = re.match(rb"HTTP/1\.[01] ([0-9]{3})", head)
    if status is None or not status[1].startswith(b"2"):
        writer.transport.abort()
        code = status[1].decode() if status else "no status"
        raise Refused(BAD_GATEWAY, f"the machine's own proxy refused {host}:{port} ({code})")
    return reader, writer
