"""Services the settings name: asked at their address, with a sentence where they do not answer as due."""

import re
from collections.abc import Collection, Mapping
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from shared.errors import ActionError
from shared.web.address import Place, parse_place
from shared.web.fetching import Answer, fetch
from shared.web.quoting import clean

Shape = TypeVar("Shape")


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service: its name in sentences, its address, the setting that address stands in, and its time.

    Whoever wrote the setting chose the address, so it may be a private one; what it redirects to may not.
    ``timeout`` is seconds; ``private_hosts`` are further host:port pairs that may be private.
    """

    name: str
    url: str
    setting: str
    timeout: float
    private_hosts: Collection[str] = ()

    @property
    def place(self) -> str:
        """Its name and where it is; raises ActionError where its address is none."""
        return f"{self.name} at {self._address().netloc}"

    def _address(self) -> Place:
        try:
            return parse_place(self.url)
        except ActionError as error:
            cause = f"{self.name} cannot be used: {error.cause}"
            raise ActionError(cause, f"Correct the setting {self.setting}") from None

    async def ask(self, params: Mapping[str, object], *, accept: str = "*/*") -> Answer:
        """What it answers to ``params``; raises ActionError saying that it cannot be reached, and why."""
        allowed = {self._address().pair, *self.private_hosts}
        joint = "&" if "?" in self.url else "?"
        url = f"{self.url}{joint}{urlencode({key: str(value) for key, value in params.items()})}"
        try:
            return await fetch(url, timeout=self.timeout, allowed=allowed, headers={"Accept": accept})
        except ActionError as error:
            raise ActionError(
                f"{self.place} cannot be used: {self._shorten(error.cause)}",
                f"Check the network connection and the setting {self.setting}",
            ) from None

    async def ask_json(self, params: Mapping[str, object], shape: type[Shape]) -> Shape:
        """Its answer as a ``shape``; raises ActionError too where it answers something else."""
        answer = await self.ask(params, accept="application/json")
        try:
            return msgspec.json.decode(answer.body, type=shape)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ActionError(
                f"{self.place} answered what cannot be read ({clean(str(error))})",
                f"Try again later, or check the setting {self.setting}",
            ) from None

    def _shorten(self, cause: str) -> str:
        """``cause`` without the long address of a question."""
        base = self._address().url.partition("?")[0]
        return re.sub(re.escape(base) + r"\S*", "it", cause)
