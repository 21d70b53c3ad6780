"""The sending side of each type of channel."""

from urllib.parse import urlsplit

from shared.delivery.config import AnyChannel, Apprise, Desktop, Mail, Ntfy, Telegram, Terminal, Webhook
from shared.delivery.message import Outlet


def make_outlet(channel: AnyChannel) -> Outlet:
    """What sends on a channel; each imports only what it needs."""
    match channel:
        case Mail():
            from shared.delivery.smtp import MailOutlet

            return MailOutlet(channel)
        case Ntfy():
            from shared.delivery.http import NtfyOutlet

            return NtfyOutlet(channel)
        case Webhook():
            from shared.delivery.http import WebhookOutlet

            return WebhookOutlet(channel)
        case Telegram():
            from shared.delivery.telegram import TelegramOutlet

            return TelegramOutlet(channel)
        case Desktop():
            from shared.delivery.local import DesktopOutlet

            return DesktopOutlet()
        case Terminal():
            from shared.delivery.local import TerminalOutlet

            return TerminalOutlet()
        case Apprise():
            from shared.delivery.local import AppriseOutlet

            return AppriseOutlet(channel)


def describe(channel: AnyChannel) -> str:
    """Where a channel leads, without secrets."""
    match channel:
        case Mail():
            return f"mail to {channel.to}"
        case Ntfy() | Webhook():
            return f"{channel.__struct_config__.tag} at {urlsplit(channel.url).hostname}"
        case Telegram():
            return f"Telegram, chat {channel.chat}"
        case Desktop():
            return "notifications on the desktop"
        case Terminal():
            return "a line and the bell where 'mailroom up' runs"
        case Apprise():
            return f"apprise, {channel.url.partition('://')[0]}"
