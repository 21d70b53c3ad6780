"""Telegram: messages with buttons by its Bot API, and what people press and write."""

from typing import Any

import msgspec

from shared.delivery.config import Telegram
from shared.delivery.http import refusal
from shared.delivery.message import LABELS, DeliveryError, Message, Reply
from shared.text.display import format_network_error, shorten

TIMEOUT = 10.0  # Seconds that the server has to answer
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
