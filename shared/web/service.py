"""Web services whose addresses are in the settings, with errors that name the service and its setting."""

import re
from collections.abc import Collection, Mapping
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from shared.errors import ActionError
from shared.settings import Settings
from shared.web.address import WebAddress, parse_address
from shared.web.fetching import WebResponse, fetch
from shared.web.quoting import clean

Shape = TypeVar("Shape")


async def fetch_configured(
    url: str, accept: str, *, timeout: float, private_hosts: Collection[str] = ()
) -> WebResponse:
    """``fetch`` an address from the settings.

    It may be private, since a person chose it; what it redirects to may be private only if it is among
    ``private_hosts``.
    """
    allowed = {parse_address(url).pair, *private_hosts}
    return await fetch(url, timeout=timeout, allowed=allowed, headers={"Accept": accept})


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service: its name in sentences, its address, and the setting of that address."""

    name: str
    url: str
    setting: str
    settings: Settings

    @property
    def place(self) -> str:
        """The name and the host, as in an error; raises ActionError if the address is invalid."""
        return f"{self.name} at {self._address().netloc}"

    def _address(self) -> WebAddress:
        try:
            return parse_address(self.url)
        except ActionError as error:
            cause = f"{self.name} cannot be used: {error.cause}"
            raise ActionError(cause, f"Correct the setting {self.setting}") from None

    async def ask(self, params: Mapping[str, object], *, accept: str = "*/*") -> WebResponse:
        """The response to a query of ``params``; raises ActionError with the reason if there is none."""
        place, joint = self.place, "&" if "?" in self.url else "?"
        url = f"{self.url}{joint}{urlencode({key: str(value) for key, value in params.items()})}"
        try:
            return await fetch_configured(
                url, accept, timeout=self.settings.http_timeout, private_hosts=self.settings.private_hosts
            )
        except ActionError as error:
            # Without the long address of the query.
            if error.cause.startswith(f"{self._address().host} could not be reached"):
                raise ActionError(error.cause, error.cure) from None
            cause = re.sub(re.escape(self._address().url.partition("?")[0]) + r"\S*", "it", error.cause)
            raise ActionError(
                f"{place} cannot be used: {cause}",
                f"Check the network connection and the setting {self.setting}",
            ) from None

    async def ask_json(self, params: Mapping[str, object], shape: type[Shape]) -> Shape:
        """The response decoded as a ``shape``; raises ActionError if it is something else."""
        answer = await self.ask(params, accept="application/json")
        try:
            return msgspec.json.decode(answer.body, type=shape)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ActionError(
                f"{self.place} answered what cannot be read ({clean(str(error))})",
                f"Try again later, or check the setting {self.setting}",
            ) from None
