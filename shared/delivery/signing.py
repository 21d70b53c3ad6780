"""Signatures of webhooks: HMAC-SHA256 over the id of the delivery, the time and the body."""

import hashlib
import hmac
import time
from collections.abc import Mapping

DELIVERY, TIMESTAMP, SIGNATURE = "x-mailroom-delivery", "x-mailroom-timestamp", "x-mailroom-signature"
GITHUB_SIGNATURE = "x-hub-signature-256"
TOLERANCE = 300
"""Seconds that a delivery may be old, or ahead."""
MAX_DELIVERY = 200


def sign(secret: str, body: bytes, *, delivery: str, moment: int) -> dict[str, str]:
    """The headers of a signed delivery at ``moment``, in seconds since 1970."""
    content = f"{delivery}.{moment}.".encode() + body
    return {DELIVERY: delivery, TIMESTAMP: str(moment), SIGNATURE: _digest(secret, content)}


def verify(secret: str, headers: Mapping[str, str], body: bytes) -> str:
    """The id of a delivery, if its signature is that of ``secret`` and its time is now; else empty."""
    delivery, moment = headers.get(DELIVERY, ""), headers.get(TIMESTAMP, "")
    content = f"{delivery}.{moment}.".encode() + body
    genuine = _is_same(headers.get(SIGNATURE, ""), _digest(secret, content))
    timely = moment.isascii() and moment.isdecimal() and abs(time.time() - int(moment[:20])) <= TOLERANCE
    return delivery if genuine and timely and 0 < len(delivery) <= MAX_DELIVERY else ""


def verify_github(secret: str, headers: Mapping[str, str], body: bytes) -> str:
    """The same for GitHub's form, which signs neither time nor id: the id follows from the body.

    So the same body counts once, whenever and under whichever id it is sent again.
    """
    genuine = _is_same(headers.get(GITHUB_SIGNATURE, ""), _digest(secret, body))
    return hashlib.sha256(body).hexdigest() if genuine else ""


def _digest(secret: str, content: bytes) -> str:
    return f"sha256={hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()}"


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())
