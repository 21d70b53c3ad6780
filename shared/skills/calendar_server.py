"""A calendar on a CalDAV server: its events of some days, and an event that is added. The functions block."""

import contextlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.mail import LOCAL
from shared.text.network_errors import format_network_error
from shared.web.quoting import clean

SCHEMES = {"caldavs": "https", "caldav": "http"}
"""What an address begins with, and how it is reached: without TLS on this machine alone."""


def is_on_server(source: str) -> bool:
    """Whether the setting ``calendar`` names a calendar on a CalDAV server."""
    return bool(re.match(r"caldavs?://", source, re.IGNORECASE))


def load_events(config: Settings, begin: datetime, end: datetime, most: int) -> bytes:
    """The events between two moments as one text of ICS, repeated ones with their rules.

    Raises ActionError if the calendar cannot be read, or has more than ``most`` bytes of them.
    """
    with _open(config) as calendar:
        found = calendar.search(start=begin, end=end, event=True, expand=False)
        data = "\r\n".join(str(each.data) for each in found) or "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"
    if len(data) > most:
        raise ActionError(f"The calendar has more than {most:,} bytes of events", "Ask for fewer days")
    return data.encode()


def add_event(config: Settings, event: bytes, uid: str) -> None:
    """Store an event, an ICS text with this ``uid``; one that is there already stays as it is.

    Raises ActionError if the server cannot be reached or refuses it.
    """
    with _open(config) as calendar:
        from caldav.lib.error import NotFoundError

        try:
            calendar.event_by_uid(uid)
        except NotFoundError:
            calendar.save_event(event.decode())


@contextlib.contextmanager
def _open(config: Settings) -> Iterator[Any]:
    """The calendar of the settings; what fails in the block becomes an ActionError that names the host."""
    try:
        import caldav
        from caldav.lib.error import AuthorizationError, NotFoundError
    except ImportError:
        raise ActionError(
            "The calendar is on a CalDAV server, and the package caldav is missing",
            "Install it: pip install 'mailroom[caldav]'",
        ) from None
    parts = urlsplit(config.calendar)
    host = parts.hostname or ""
    if parts.scheme == "caldav" and host not in LOCAL:
        raise ActionError(f"The calendar at {host} would be read without TLS", "Write it as caldavs://")
    url = urlunsplit((SCHEMES[parts.scheme], parts.netloc.rpartition("@")[2], parts.path, "", ""))
    user = {"username": unquote(parts.username or "") or None, "password": config.calendar_password}
    try:
        with caldav.DAVClient(url, **user, timeout=config.http_timeout) as client:  # type: ignore[arg-type]
            if parts.path.strip("/"):
                yield client.calendar(url=url)  # type: ignore[no-untyped-call]
            else:
                yield _find_only(client, host)
    except ActionError:
        raise
    except AuthorizationError:
        raise ActionError(
            f"The calendar at {host} refuses the user or the password",
            "Check MAILROOM_CALENDAR and MAILROOM_CALENDAR_PASSWORD",
        ) from None
    except NotFoundError:
        raise ActionError(f"{host} has no such calendar", "Check the path in MAILROOM_CALENDAR") from None
    except OSError as error:
        raise ActionError(
            f"The calendar at {host} cannot be reached: {format_network_error(error)}",
            "Check the network connection and MAILROOM_CALENDAR",
        ) from None
    except Exception as error:  # an odd answer makes the libraries raise many kinds
        kind = type(error).__name__
        raise ActionError(
            f"The calendar at {host} does not answer as a CalDAV server ({kind})", "Check MAILROOM_CALENDAR"
        ) from None


def _find_only(client: Any, host: str) -> Any:
    """The user's calendar on a server that was named without a path; raises ActionError if it has several."""
    found = client.principal().calendars()
    if len(found) == 1:
        return found[0]
    paths = ", ".join(clean(urlsplit(str(each.url)).path, 100) for each in found[:5])
    raise ActionError(
        f"{host} has {len(found) or 'no'} calendars of this user{': ' if paths else ''}{paths}",
        "Add the path of one to MAILROOM_CALENDAR",
    )
