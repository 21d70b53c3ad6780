"""Channels that take messages by HTTP: ntfy, and webhooks signed by HMAC-SHA256."""

import hashlib
import hmac
import http.client
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from shared.contracts import Urgency
from shared.delivery.config import Ntfy, Webhook
from shared.delivery.message import DeliveryError, Message
from shared.text.display import format_network_error

DELIVERY, TIMESTAMP, SIGNATURE = "x-mailroom-delivery", "x-mailroom-timestamp", "x-mailroom-signature"
GITHUB_SIGNATURE = "x-hub-signature-256"
TOLERANCE = 300  # Seconds that a delivery may be old, or ahead
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


TIMEOUT = 10.0  # Seconds that a server has to answer
FINAL = (400, 410, 413, 422)
"""Answers after which the same message is refused again: 410 (gone) by a receiver that wants no more."""
PRIORITY = {Urgency.LOW: 2, Urgency.NORMAL: 3, Urgency.HIGH: 5}
"""ntfy's numbers: 2 makes no sound, 5 rings and vibrates."""
CACHED = "12h"  # How long ntfy keeps messages, in which one that may have been sent is looked for


async def request(method: str, url: str, *, headers: dict[str, str], content: bytes | None = None) -> bytes:
    """The answer's body, at most 1 MB; raises DeliveryError."""
    import httpx2

    host = urlsplit(url).netloc.rpartition("@")[2]
    try:
        async with (
            httpx2.AsyncClient(timeout=TIMEOUT, follow_redirects=False) as client,
            client.stream(method, url, headers=headers, content=content) as answer,
        ):
            body = b""
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > 1_000_000:
                    break
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise DeliveryError(
            f"{host} cannot be reached: {format_network_error(error)}",
            "Check the address and the network",
            uncertain=not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout),
        ) from None
    if answer.is_success:
        return body
    raise refusal(host, answer.status_code)


def refusal(host: str, status: int) -> DeliveryError:
    """The error that a server's answer amounts to."""
    phrase = http.client.responses.get(status, "")
    cures = {
        401: "Check the token",
        403: "Check the token",
        404: "Check the url",
        429: "It takes no more for now",
    }
    cure = cures.get(status, "Write the url that it leads to" if status < 400 else "")
    if status >= 500:
        cure = "Look at the log of that server"
    said = f"{host} answered {status}" + (f" ({phrase})" if phrase else "")
    return DeliveryError(said, cure, final=status in FINAL)


class NtfyOutlet:
    """Publishes to a topic; a message that may have been sent is first looked for among the cached ones."""

    def __init__(self, channel: Ntfy) -> None:
        self._url = channel.url.rstrip("/")
        self._headers = {"authorization": f"Bearer {channel.token}"} if channel.token else {}

    async def send(self, message: Message) -> str:
        """The id that the server gave it."""
        if message.again and (found := await self._find(message.id)):
            return found
        parts = urlsplit(self._url)
        base, _, topic = parts.path.rpartition("/")
        body: dict[str, Any] = {
            "topic": topic,
            "title": message.title,
            "message": message.brief() or message.title,
            "markdown": False,
            "priority": PRIORITY[message.urgency],
            "sequence_id": message.id,  # a newer server and telephone show two of one id once
            "click": f"{message.link}#told-{message.id}",
        }
        if message.link:
            body["actions"] = [{"action": "view", "label": "Open", "url": message.link}]
        url = urlunsplit(parts._replace(path=f"{base}/"))
        return _id_of(await request("POST", url, headers=self._headers, content=json.dumps(body).encode()))

    async def check(self) -> str:
        """Nothing more is needed."""
        return ""

    async def _find(self, message_id: str) -> str:
        """The server's id of a message that it has; empty if it has none."""
        url = f"{self._url}/json?poll=1&since={CACHED}"
        for line in (await request("GET", url, headers=self._headers)).splitlines():
            if message_id.encode() in line:
                return _id_of(line)
        return ""


def _id_of(answer: bytes) -> str:
    try:
        found = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        return ""
    return str(found.get("id", ""))[:100] if isinstance(found, dict) else ""


class WebhookOutlet:
    """Posts what happened, signed; a receiver knows a second one by its id."""

    def __init__(self, channel: Webhook) -> None:
        self._url, self._secret = channel.url, channel.secret

    async def send(self, message: Message) -> str:
        """Its own id."""
        content = {
            "id": message.id,
            "kind": message.kind,
            "urgency": message.urgency,
            "at": message.at,
            "title": message.title,
            "text": message.text,
            "link": message.link,
            **message.items,
        }
        body = msgspec.json.encode(content)
        headers = sign(self._secret, body, delivery=message.id, moment=int(time.time()))
        headers |= {"content-type": "application/json", "user-agent": "mailroom"}
        await request("POST", self._url, headers=headers, content=body)
        return message.id

    async def check(self) -> str:
        """Nothing more is needed."""
        return ""
