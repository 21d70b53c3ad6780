"""Searches people's own mailboxes for the front desk, which has no password of any."""

import asyncio

import msgspec

from shared.access.people import People
from shared.delivery.config import Mail, read_deliver
from shared.delivery.mailbox import LONGEST, MailboxQuery, search_mailbox
from shared.delivery.message import DeliveryError
from shared.errors import ActionError
from shared.settings import Settings

UNSET = ActionError(
    "No mailbox of yours is set",
    "Set mailbox of [deliver.mail] in mailroom.toml as docs/delivery.md shows, and restart the gateway",
)


class MailboxSearch:
    """Answers ``subjects.MAILBOX``; one search at a time, so that no slow server occupies many threads."""

    def __init__(self, config: Settings) -> None:
        self._config = config
        self._one = asyncio.Lock()

    async def answer(self, data: bytes) -> bytes:
        """FoundMails for a MailboxQuery; raises MailroomError with what is missing or does not work."""
        query = msgspec.json.decode(data, type=MailboxQuery)
        channel = self._choose(query.person)
        try:
            async with asyncio.timeout(LONGEST), self._one:
                found = await asyncio.to_thread(search_mailbox, channel, query)
        except TimeoutError:
            raise DeliveryError(
                f"The mail server took longer than {LONGEST:g} s", "Try again later, or name the days"
            ) from None
        return msgspec.json.encode(found)

    def _choose(self, person: str) -> Mail:
        """The channel with the mailbox of ``person``; one that names nobody belongs to an only person.

        Who asks without a name does so at this machine, where the passwords are.
        """
        mails = [each for each in read_deliver(self._config).channels.values() if isinstance(each, Mail)]
        found = [each for each in mails if each.mailbox] + [each for each in mails if each.imap]
        alone = len(People(self._config).read()) == 1
        for channel in found:
            if not person or channel.person == person or (alone and not channel.person):
                return channel
        if found:
            raise ActionError("No mailbox is set that is yours", "Set person of its channel to your name")
        raise UNSET
