"""All of the delivery: what sends on each channel and reads replies; searches of people's mailboxes."""

import asyncio
from datetime import tzinfo

import msgspec

from services.gateway.call import Gateway
from services.gateway.delivery.events import Dispatcher
from services.gateway.delivery.journal import Journal
from services.gateway.delivery.replies import Replies, listen
from services.gateway.delivery.sender import Sender, can_be_answered
from services.gateway.index.rows import STREAMS, Position
from shared.access.scopes import People
from shared.bus.records import retry_until_taken
from shared.clock import read_zone
from shared.delivery.channels import Deliver, DeliveryError, Mail, read_deliver
from shared.delivery.mailbox import LONGEST, MailboxQuery, search_mailbox
from shared.errors import ActionError, ConfigError, MailroomError
from shared.log import logger
from shared.queries.records import last_sequence
from shared.settings import Settings

PAUSE = 1.0  # Seconds until what failed, as with the connection to the bus, is begun again

log = logger(__name__)


async def deliver_for_ever(gateway: Gateway) -> None:
    """Tell people what happens until cancelled; without channels, or with wrong ones, return at once."""
    try:
        deliver, zone = read_deliver(gateway.settings), read_zone(gateway.settings.time_zone)
    except ConfigError as error:
        log.error("deliver_unreadable", reason=str(error))
        return
    journal = Journal(gateway)
    dispatcher = Dispatcher(gateway, deliver, journal, zone)
    if not deliver.channels:
        await retry_until_taken(dispatcher.forget, pause=PAUSE, event="delivery_interrupted")
        return

    async def read_ends() -> Position:
        return Position(*[await last_sequence(gateway.bus, stream) for stream in STREAMS])

    # The index has to have what was in the log when the gateway started: it knows what was told.
    ends = await retry_until_taken(read_ends, pause=PAUSE, event="delivery_interrupted")
    while gateway.index.position.joined(ends) != gateway.index.position:
        await gateway.index.wait_for_change()
    while True:
        try:
            await journal.load()
            await _run(gateway, deliver, journal, dispatcher, zone)
        except* (MailroomError, OSError) as errors:
            log.warning("delivery_interrupted", reason=str(errors.exceptions[0]))
        except* Exception as errors:  # people are to be told of what follows all the same
            log.error("delivery_failed", exc_info=errors.exceptions[0])
        await asyncio.sleep(PAUSE)


async def _run(
    gateway: Gateway, deliver: Deliver, journal: Journal, dispatcher: Dispatcher, zone: tzinfo | None
) -> None:
    senders = {
        name: Sender(gateway, name, channel, journal, quiet=deliver.quiet_span(channel), zone=zone)
        for name, channel in deliver.channels.items()
    }

    def wake(channel: str) -> None:
        senders[channel].wake.set()

    replies = Replies(gateway, journal, dispatcher, wake)
    async with asyncio.TaskGroup() as group:
        group.create_task(dispatcher.run(wake))
        for name, channel in deliver.channels.items():
            group.create_task(senders[name].run())
            if can_be_answered(channel):
                group.create_task(listen(name, channel, replies))


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
        mails = [each for each in read_deliver(self._config).channels.values() if isinstance(each, Mail)]
        known = [each for each in mails if each.mailbox] + [each for each in mails if each.imap]
        if not known:
            raise UNSET
        # A channel that names nobody belongs to an only person; who asks without a name does so at this
        # machine, where the passwords are.
        alone = len(People(self._config).read()) == 1
        own = (
            each
            for each in known
            if not query.person or each.person == query.person or (alone and not each.person)
        )
        channel = next(own, None)
        if channel is None:
            raise ActionError("No mailbox is set that is yours", "Set person of its channel to your name")
        try:
            async with asyncio.timeout(LONGEST), self._one:
                found = await asyncio.to_thread(search_mailbox, channel, query)
        except TimeoutError:
            raise DeliveryError(
                f"The mail server took longer than {LONGEST:g} s", "Try again later, or name the days"
            ) from None
        return msgspec.json.encode(found)
