"""Channels on this machine, and those that apprise knows."""

import asyncio
import html
import shutil

from shared.contracts import Urgency
from shared.delivery.config import Apprise
from shared.delivery.message import DeliveryError, Message
from shared.log import logger
from shared.text.display import flatten

TOLD = "told"  # The event of the gateway's log that ``mailroom up`` prints
TIMEOUT = 10.0  # Seconds that notify-send has; without a desktop it may wait for ever
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
            async with asyncio.timeout(TIMEOUT):
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
