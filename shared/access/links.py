"""One-time links: how a person signs in without a password."""

from datetime import datetime, timedelta
from urllib.parse import quote

import msgspec

from shared.access.address import find_address, public_address
from shared.access.file import RecordFile
from shared.access.people import People
from shared.access.secrets import hash_secret, make_secret, now
from shared.settings import Settings

LINK_LIFETIME = timedelta(minutes=10)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link that was made and not used."""

    person: str
    expires_at: datetime


class Links:
    """The links, stored as hashes of their codes."""

    def __init__(self, config: Settings) -> None:
        self._file = RecordFile(config.gateway / "links.json", Link)

    def create(self, person: str) -> str:
        """The code of a new link for ``person``; raises MailroomError if it cannot be stored."""
        code = make_secret()
        with self._file.change() as links:
            for key in [key for key, link in links.items() if link.expires_at <= now()]:
                del links[key]
            links[hash_secret(code)] = Link(person=person, expires_at=now() + LINK_LIFETIME)
        return code

    def find(self, code: str) -> str:
        """The person whom the link with this code would sign in; empty if there is none."""
        link = self._file.read().get(hash_secret(code))
        return link.person if link and link.expires_at > now() else ""

    def use(self, code: str) -> str:
        """The person whose link has this code, which is then void; empty if it is unknown, used or old."""
        key = hash_secret(code)
        if key not in self._file.read():
            return ""
        with self._file.change() as links:
            link = links.pop(key, None)
        return link.person if link and link.expires_at > now() else ""


def create_link(config: Settings, person: str = "", page: str = "") -> str:
    """A link that signs ``person`` (default: the one at this machine) in at the running gateway.

    It leads to ``page``, such as ``/goals/ID`` (empty: the inbox), and works once, within ten minutes. The
    code is behind ``#``, which browsers do not send, so that no server logs it. Raises StartError if no
    gateway runs, MailroomError if there is no such person.
    """
    address = public_address(config, find_address(config))
    to = f"?next={quote(page)}" if page else ""
    return f"{address}/login{to}#{Links(config).create(People(config).choose(person))}"
