"""Reads what people reply, by asking each channel again and again."""

import asyncio

from services.gateway.delivery.replies import Replies
from shared.delivery.config import AnyChannel, Mail, Telegram
from shared.errors import MailroomError
from shared.log import logger

PAUSE, LONGEST_PAUSE = 2.0, 300.0
"""Seconds until a channel is read again after an error; each pause is twice the one before."""

log = logger(__name__)


async def listen(name: str, channel: AnyChannel, replies: Replies) -> None:
    """Take the replies of a channel without end."""
    from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

    def note(state: RetryCallState) -> None:
        log.warning("replies_unread", channel=name, reason=str(state.outcome and state.outcome.exception()))

    errors = retry_if_exception_type((MailroomError, OSError))
    pauses = wait_exponential(PAUSE, max=LONGEST_PAUSE)
    asking, offset = AsyncRetrying(retry=errors, wait=pauses, before_sleep=note), 0
    while True:
        offset = await asking(_take, name, channel, replies, offset)


async def _take(name: str, channel: AnyChannel, replies: Replies, offset: int) -> int:
    """Take what came since ``offset``, and wait for more; the next offset."""
    if isinstance(channel, Mail):
        await _take_mail(name, channel, replies)
        await asyncio.sleep(channel.poll)
    elif isinstance(channel, Telegram):
        return await _take_updates(name, channel, replies, offset)
    return offset


async def _take_mail(name: str, channel: Mail, replies: Replies) -> None:
    """Take each new mail, and mark it as read after that: a crash between has it read again, once taken."""
    from shared.delivery.mail import mark_read, read_replies

    for number, reply in await asyncio.to_thread(read_replies, channel):
        await replies.take(name, channel, reply)
        await asyncio.to_thread(mark_read, channel, [number])


async def _take_updates(name: str, channel: Telegram, replies: Replies, offset: int) -> int:
    """Take what came; the server forgets it when it is asked for what follows."""
    from shared.delivery.telegram import TelegramOutlet

    found, following = await TelegramOutlet(channel).read_replies(offset)
    for reply in found:
        await replies.take(name, channel, reply)
    return following
