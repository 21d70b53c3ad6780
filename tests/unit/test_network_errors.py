"""Errors of the network are words for people."""

import ssl

import pytest

from shared.text.display import format_network_error


def raised(outer: Exception, inner: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(101, "Network is unreachable"), "no network"),
        (OSError(-3, "Temporary failure in name resolution"), "no network"),
        (Exception("[Errno -2] Name or service not known"), "there is no host of that name"),
        (Exception("RequestError: DNSError('no such host')"), "there is no host of that name"),
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "nothing listens there"),
        (raised(Exception("All attempts failed"), ConnectionResetError(104, "x")), "it broke off"),
        (ssl.SSLCertVerificationError("certificate verify failed"), "its certificate is not valid"),
        (TimeoutError(), "no answer in time"),
        (type("ConnectTimeout", (Exception,), {})(), "no answer in time"),
        (Exception("the line is busy"), "the line is busy"),
        (Exception("OddError(7, <object at 0x7f>)"), "the connection failed"),
        (Exception(), "the connection failed"),
    ],
)
def test_a_reason_is_words(error: Exception, reason: str) -> None:
    assert format_network_error(error) == reason
