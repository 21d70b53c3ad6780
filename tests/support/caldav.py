"""A real CalDAV server on this machine: radicale, with its calendars in a folder."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import caldav

from services.cli.supervisor.programs import free_port, is_listening
from tests.support.waiting import wait_for

USER, PASSWORD = "ada", "a-secret"


class CalendarServer:
    """The server at ``host``, of which USER has calendars."""

    def __init__(self, port: int) -> None:
        self.host = f"127.0.0.1:{port}"

    def make(self, name: str) -> str:
        """The address of a new calendar, as the setting has it."""
        calendar = self._client().principal().make_calendar(name)
        return str(calendar.url).replace("http://", f"caldav://{USER}@")

    def put(self, address: str, *lines: str) -> None:
        """Store an event of these lines."""
        text = "\r\n".join(
            ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:x", "BEGIN:VEVENT", *lines, "END:VEVENT"]
        )
        self._calendar(address).save_event(f"{text}\r\nEND:VCALENDAR\r\n")

    def events(self, address: str) -> list[str]:
        """The events as the server has them."""
        return [str(each.data) for each in self._calendar(address).events()]

    def _calendar(self, address: str) -> caldav.Calendar:
        return self._client().calendar(url=address.replace(f"caldav://{USER}@", "http://"))

    def _client(self) -> caldav.DAVClient:
        return caldav.DAVClient(f"http://{self.host}/", username=USER, password=PASSWORD)


@contextlib.contextmanager
def run_calendar_server(folder: Path) -> Iterator[CalendarServer]:
    """The server, until the block ends."""
    port = free_port()
    users = folder / "users"
    users.write_text(f"{USER}:{PASSWORD}\n")
    options = {
        "server-hosts": f"127.0.0.1:{port}",
        "storage-filesystem-folder": str(folder / "collections"),
        "auth-type": "htpasswd",
        "auth-htpasswd-filename": str(users),
        "auth-htpasswd-encryption": "plain",
        "auth-delay": "0",
    }
    given = [part for name, value in options.items() for part in (f"--{name}", value)]
    with (folder / "radicale.log").open("wb") as log:
        command = [sys.executable, "-m", "radicale", "--config", "", *given]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(lambda: is_listening(port))
        yield CalendarServer(port)
    finally:
        process.kill()
        process.wait()
