"""Channels by HTTP (ntfy, webhooks signed by HMAC-SHA256, Telegram), on this machine, and by apprise."""

import asyncio
import hashlib
import hmac
import html
import http.client
import json
import shutil
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from shared.contracts import Urgency
from shared.delivery.channels import (
    LABELS,
    AnyChannel,
    Apprise,
    DeliveryError,
    Desktop,
    Mail,
    Message,
    Ntfy,
    Outlet,
    Reply,
    Telegram,
    Terminal,
    Webhook,
)
from shared.log import logger
from shared.text.display import flatten, format_network_error, shorten

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


WAIT = 25  # Seconds for which it may keep a request for news open
AGAIN = "This may have come before."


class _Answer(msgspec.Struct):
    ok: bool = False
    result: Any = None
    description: str = ""
    error_code: int = 0


class TelegramOutlet:
    """A bot that writes to one chat and hears those who are allowed to answer.

    The API knows no ids of ours: a message whose answer was lost is sent again and says so.
    """

    def __init__(self, channel: Telegram) -> None:
        self._channel = channel
        self._url = f"{channel.api.rstrip('/')}/bot{channel.token}"

    async def send(self, message: Message) -> str:
        """The number of the message in its chat."""
        text = message.brief()
        title = "" if message.thread and text else message.title
        parts = [title, text, message.link, AGAIN if message.again else ""]
        body: dict[str, Any] = {
            "chat_id": int(message.to or self._channel.chat),
            "text": "\n\n".join(dict.fromkeys(filter(None, parts))),
            "disable_notification": message.urgency == "low",
            "link_preview_options": {"is_disabled": True},
        }
        if message.thread:
            body["reply_parameters"] = {
                "message_id": int(message.thread),
                "allow_sending_without_reply": True,
            }
        if message.acts:
            row = [{"text": LABELS[act], "callback_data": f"{act}:{message.id}"} for act in message.acts]
            body["reply_markup"] = {"inline_keyboard": [row]}
        sent = await self._call("sendMessage", body)
        return str(sent.get("message_id", "")) if isinstance(sent, dict) else ""

    async def check(self) -> str:
        """The bot's name."""
        me = await self._call("getMe", {})
        return f"replies are heard by the bot {me.get('username', '')!r}" if isinstance(me, dict) else ""

    async def read_replies(self, offset: int) -> tuple[list[Reply], int]:
        """What was pressed and written from ``offset`` on, and the next offset; waits for WAIT seconds."""
        body = {"offset": offset, "timeout": WAIT, "allowed_updates": ["message", "callback_query"]}
        updates = await self._call("getUpdates", body, TIMEOUT + WAIT)
        replies = []
        for update in updates if isinstance(updates, list) else ():
            offset = max(offset, int(update.get("update_id", 0)) + 1)
            if reply := parse_update(update, self._channel):
                replies.append(reply)
            if query := update.get("callback_query"):
                await self._acknowledge(query)
        return replies, offset

    async def _acknowledge(self, query: dict[str, Any]) -> None:
        """End the sign that a button was pressed; it is refused after a while, which does not matter."""
        try:
            await self._call("answerCallbackQuery", {"callback_query_id": str(query.get("id", ""))})
        except DeliveryError:
            return

    async def _call(self, method: str, body: dict[str, Any], timeout: float = TIMEOUT) -> Any:
        """The result of a method; raises DeliveryError, which never shows the token."""
        import httpx2

        try:
            async with httpx2.AsyncClient(timeout=timeout, follow_redirects=False) as client:
                response = await client.post(f"{self._url}/{method}", json=body)
            answer = msgspec.json.decode(response.content, type=_Answer)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise DeliveryError(
                f"Telegram cannot be reached: {format_network_error(error)}",
                "Check the network",
                uncertain=not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout),
            ) from None
        except msgspec.MsgspecError:
            raise refusal("Telegram", response.status_code) from None
        if answer.ok:
            return answer.result
        cure = {401: "Check the token", 403: "Write to the bot first, and start it again"}
        raise DeliveryError(
            f"Telegram refused {method}: {shorten(answer.description, 200)}",
            cure.get(answer.error_code, ""),
            final=answer.error_code == 400,
        )


def parse_update(update: dict[str, Any], channel: Telegram) -> Reply | None:
    """What a person pressed or wrote; None for all else."""
    query = update.get("callback_query")
    message = (query or {}).get("message") if query else update.get("message")
    person = (query or message or {}).get("from") or {}
    if not isinstance(message, dict) or not isinstance(person.get("id"), int):
        return None
    allowed = person["id"] in (channel.allowed or (channel.chat,))
    answered = message if query else (message.get("reply_to_message") or {})
    act, _, delivery_id = str(query.get("data", "")).partition(":") if query else ("", "", "")
    return Reply(
        id=str(update.get("update_id", "")),
        address=str(person["id"]),
        text="" if query else str(message.get("text", "")),
        act=act if act in LABELS else "",
        delivery_id=delivery_id,
        reference=str(answered.get("message_id", "")),
        thread=str(message.get("message_id", "")),
        ignored="" if allowed and not person.get("is_bot") else "this person is not among those allowed",
    )


TOLD = "told"  # The event of the gateway's log that ``mailroom up`` prints
TIMEOUT_DESKTOP = 10.0  # Seconds that notify-send has; without a desktop it may wait for ever
TIMEOUT_APPRISE = 30.0
LINE = 300  # The most characters of a line
WHERE = "Start 'mailroom up' in your desktop's session"
LEVELS = {Urgency.LOW: "low", Urgency.NORMAL: "normal", Urgency.HIGH: "critical"}

log = logger(__name__)


class TerminalOutlet:
    """Writes an event to the gateway's log, of which ``mailroom up`` prints one line."""

    async def send(self, message: Message) -> str:
        """Empty."""
        log.warning(TOLD, title=flatten(message.title, LINE), link=message.link)
        return ""

    async def check(self) -> str:
        """Nothing more is needed."""
        return ""


class DesktopOutlet:
    """Shows a notification by notify-send."""

    async def send(self, message: Message) -> str:
        """Empty."""
        program = shutil.which("notify-send")
        if program is None:
            raise DeliveryError("notify-send is not installed", "Install libnotify (apt: libnotify-bin)")
        text = html.escape(message.brief(LINE), quote=False)  # it reads markup
        words = ["--app-name=Mailroom", f"--urgency={LEVELS[message.urgency]}", "--", message.title, text]
        process = await asyncio.create_subprocess_exec(
            program, *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(TIMEOUT_DESKTOP):
                _, problem = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise DeliveryError("notify-send did not end", WHERE) from None
        if process.returncode:
            reason = flatten(problem.decode("utf-8", "replace"), LINE)
            raise DeliveryError(f"notify-send failed: {reason}", WHERE)
        return ""

    async def check(self) -> str:
        """Nothing more is needed."""
        return ""


class AppriseOutlet:
    """Gives messages to apprise, which knows Slack, Matrix and more."""

    def __init__(self, channel: Apprise) -> None:
        self._url = channel.url

    async def send(self, message: Message) -> str:
        """Empty: apprise does not say what a service calls a message."""
        try:
            import apprise
        except ImportError:
            raise DeliveryError("apprise is not installed", "pip install 'mailroom[apprise]'") from None
        client = apprise.Apprise()
        if not client.add(self._url):
            raise DeliveryError("apprise does not know this address", "Correct the channel's url")
        body = "\n\n".join(filter(None, (message.brief(), message.link)))
        try:
            async with asyncio.timeout(TIMEOUT_APPRISE):
                # As plain text, so that apprise escapes what a service would take for markup.
                taken = await client.async_notify(
                    body=body or message.title, title=message.title, body_format=apprise.NotifyFormat.TEXT
                )
        except TimeoutError:
            raise DeliveryError("The service did not answer in time", uncertain=True) from None
        if not taken:
            raise DeliveryError("The service did not take it", "Check the channel's url")
        return ""

    async def check(self) -> str:
        """Nothing more is needed."""
        return ""


def make_outlet(channel: AnyChannel) -> Outlet:
    """What sends on a channel."""
    match channel:
        case Mail():
            from shared.delivery.smtp import MailOutlet

            return MailOutlet(channel)
        case Ntfy():
            return NtfyOutlet(channel)
        case Webhook():
            return WebhookOutlet(channel)
        case Telegram():
            return TelegramOutlet(channel)
        case Desktop():
            return DesktopOutlet()
        case Terminal():
            return TerminalOutlet()
        case Apprise():
            return AppriseOutlet(channel)
