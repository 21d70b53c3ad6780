"""Errors of the network as words."""

import errno
import re
import socket

from shared.text.display import clean

REASONS = (
    (r"network is (unreachable|down)|temporary failure in name resolution|no route to host", "no network"),
    (
        r"name or service not known|nodename nor servname|no address associated|dns ?error|failed to lookup",
        "there is no host of that name",
    ),
    (r"certificate|self.signed", "its certificate is not valid"),
    (r"timed? ?out", "no answer in time"),
    (
        r"connection refused|connect call failed|all connection attempts failed",
        "nothing listens there",
    ),
    (r"disconnected|reset by peer|broken pipe|incomplete", "it broke off"),
    (r"\bssl|\btls|wrong version number", "it does not speak TLS as expected"),
)
"""What systems and libraries write (as a regular expression, in any case), and what it means."""
NO_NETWORK = REASONS[0][1]
_NUMBERS = {
    errno.ENETUNREACH: NO_NETWORK,
    errno.ENETDOWN: NO_NETWORK,
    errno.EHOSTUNREACH: NO_NETWORK,
    socket.EAI_AGAIN: NO_NETWORK,
    socket.EAI_NONAME: "there is no host of that name",
    errno.ECONNREFUSED: "nothing listens there",
    errno.ECONNRESET: "it broke off",
    errno.EPIPE: "it broke off",
}
_RAW = re.compile(r"\w+(Error|Exception)\b|\[Errno")  # Parts of a message that is for programmers


def format_network_error(error: BaseException) -> str:
    """Why a host did not answer, such as "no network", without the class names of libraries.

    The innermost cause is what counts. A message that is known nowhere is quoted if it is for people.
    """
    causes = _causes(error)
    for cause in causes:
        if known := _NUMBERS.get(getattr(cause, "errno", None) or 0):
            return known
    for cause in causes:
        words = f"{type(cause).__name__} {cause}"
        for pattern, reason in REASONS:
            if re.search(pattern, words, re.IGNORECASE):
                return reason
    text = clean(str(error))[:200]
    return text if text and not _RAW.search(text) else "the connection failed"


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from, the innermost first."""
    inner = error.__cause__ or error.__context__
    return [*(_causes(inner) if inner else ()), error]
