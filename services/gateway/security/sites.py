"""Under which names the gateway may be addressed, and which pages may change anything.

A page of another site can send requests to a gateway on this machine from the browser of its owner. It cannot
choose the headers Host, Origin and Sec-Fetch-Site, which the browser writes. Ports make no difference to
cookies: what another program serves on this machine is refused as well.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from shared.errors import ConfigError
from shared.settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?)(?::([0-9]{1,5}))?")


class Site(NamedTuple):
    """What a request is addressed to; ``secure``: browsers reach it by https."""

    name: str
    port: str
    secure: bool = False

    @property
    def host(self) -> str:
        """Name and port as in the header Host."""
        return f"{self.name}:{self.port}" if self.port else self.name

    def is_origin(self, origin: str) -> bool:
        """Whether a page of this very site has ``origin``."""
        schemes = ("https",) if self.secure else ("http", "https")
        return origin.lower() in {f"{scheme}://{self.host}" for scheme in schemes}


class Sites:
    """The names the gateway answers to: those of this machine's loopback, with any port, and ``named`` ones.

    One of these is ``host``, ``host:port`` or ``https://host``; the last says that a proxy speaks https for
    it. Raises ConfigError for another form.
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._named = [Site(name, "") for name in LOOPBACK] + [_parse_site(text) for text in named]

    def find(self, hosts: list[str]) -> Site | None:
        """The site of a request with these headers Host; None unless there is one, of a known name."""
        match = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        if match is None:
            return None
        name, port = match[1], match[2] or ""
        known = (each for each in self._named if each.name == name and each.port in ("", port))
        found = next(known, None)
        return Site(name, port, found.secure) if found else None


def list_sites(config: Settings) -> list[str]:
    """The names in the settings: the public address, and further hosts.

    Raises ConfigError for a public address that is none.
    """
    public = config.gateway_public_url
    if public and not public.startswith(("http://", "https://")):
        raise ConfigError(
            f"MAILROOM_GATEWAY_PUBLIC_URL is {public[:80]!r}",
            "Write it as in https://office.example.org or http://127.0.0.1:9000",
        )
    return [*([public] if public else []), *config.gateway_hosts]


def _parse_site(text: str) -> Site:
    scheme, separator, rest = text.strip().lower().rpartition("://")
    match = _HOST.fullmatch(rest.rstrip("/") if separator else rest)
    if match is None or scheme not in ("", "http", "https"):
        raise ConfigError(
            f"{text[:80]!r} in MAILROOM_GATEWAY_HOSTS or MAILROOM_GATEWAY_PUBLIC_URL is no host",
            "Write it as in office.example.org, office:8080 or https://office.example.org",
        )
    return Site(match[1], match[2] or "", scheme == "https")


def is_foreign_read(fetch_site: str) -> bool:
    """Whether another site's page reads: ``fetch_site`` is the header Sec-Fetch-Site, or empty."""
    return fetch_site not in ("", "same-origin", "none")


def is_foreign_change(site: Site, origins: list[str], fetch_site: str) -> bool:
    """Whether another site's page sends a change."""
    return is_foreign_read(fetch_site) or any(not site.is_origin(origin) for origin in origins)
