"""IMAP: the way into a mailbox, for replies to what was told and for searches of a person's own mail."""

import contextlib
import imaplib
import ssl
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from shared.delivery.message import DeliveryError
from shared.skills.mail import LOCAL
from shared.text.display import flatten, format_network_error

TIMEOUT = 20.0  # Seconds that a server has for each step
LARGEST = 2_000_000  # The most bytes that a server may send as one text: more than is ever asked for


@contextlib.contextmanager
def open_mailbox(
    address: str, password: str, folder: str, *, setting: str = "imap", readonly: bool = False
) -> Iterator[imaplib.IMAP4]:
    """The folder of the mailbox at ``address``, such as ``imaps://user@host``; blocks.

    Raises DeliveryError, also for errors within the block; its cure names ``setting``.
    """
    parts = urlsplit(address)
    where = f"The mail server {parts.hostname}"
    try:
        box = _connect(parts.scheme, parts.hostname or "", parts.port)
        try:
            if parts.username:
                box.login(unquote(parts.username), password)
            if box.select(_quote(folder), readonly)[0] != "OK":
                raise DeliveryError(f"{where} has no folder {folder!r}", "Correct folder")
            yield box
        finally:
            with contextlib.suppress(OSError, imaplib.IMAP4.error):
                box.logout()
    except imaplib.IMAP4.error as error:
        reason = flatten(str(error).removeprefix("b'").removesuffix("'"), 200).rstrip(".")
        raise DeliveryError(f"{where} refused: {reason}", f"Check {setting} and {setting}_password") from None
    except OSError as error:
        reason = format_network_error(error)
        raise DeliveryError(f"{where} cannot be reached: {reason}", f"Check {setting}") from None


class _Bounded(imaplib.IMAP4):
    """A connection that reads no text larger than LARGEST, whatever size the server announces."""

    def read(self, size: int) -> bytes:
        if size > LARGEST:
            raise self.abort(f"it sends {size:,} bytes at once")
        return super().read(size)


class _BoundedTls(_Bounded, imaplib.IMAP4_SSL):
    """The same over TLS."""


def _connect(scheme: str, host: str, port: int | None) -> imaplib.IMAP4:
    """A connection with TLS, which only this machine itself need not have."""
    if scheme == "imaps":
        return _BoundedTls(host, port or 993, ssl_context=ssl.create_default_context(), timeout=TIMEOUT)
    box = _Bounded(host, port or 143, timeout=TIMEOUT)
    if host not in LOCAL:
        box.starttls(ssl.create_default_context())
    return box


def _quote(folder: str) -> str:
    escaped = folder.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
