"""How much of the log is sealed, and who has witnessed it."""

import asyncio
import contextlib
from urllib.parse import urlsplit, urlunsplit

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import Seal
from shared.queries.records import last_sequence
from shared.settings import Settings

SEALS = "seals.jsonl"  # The file in the gateway's folder that has the last seals, if a stream loses its end
WITNESSED = "witnessed.json"  # The file in the gateway's folder with what each witness has

CUTS = "cuts.jsonl"  # The file in the gateway's folder that has what the streams lost


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that a stream had and lost: the server cuts off what follows a damage to its file."""

    stream: str
    first: int
    last: int
    found_at: str

    def __str__(self) -> str:
        return f"{self.stream} lost its messages {self.first:,} to {self.last:,}, found {self.found_at[:16]}"


class Witnessed(msgspec.Struct, frozen=True, kw_only=True):
    """What a witness has: the number of the last seal of each stream, and when it took that, in seconds since
    1970. ``problem`` is why it did not take a later one.
    """

    seals: dict[str, int] = {}
    at: float = 0.0
    problem: str = ""


def name_of(witness: str) -> str:
    """A witness of the settings without the user, the password and the file of credentials in its address."""
    parts = urlsplit(witness)
    if parts.scheme in ("", "mailto"):
        return witness
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def read_witnessed(config: Settings) -> dict[str, Witnessed]:
    """What each witness has, by its name in the settings."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        data = (config.gateway / WITNESSED).read_bytes()
        return msgspec.json.decode(data, type=dict[str, Witnessed])
    return {}


def read_cuts(config: Settings) -> list[Cut]:
    """What the streams lost, as the gateway found it."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.Decoder(Cut).decode_lines((config.gateway / CUTS).read_bytes())
    return []


async def read_unsealed(bus: Bus) -> dict[str, int]:
    """How many messages of each stream no seal covers yet."""

    async def count(stream: str) -> int:
        stored = await bus.last(subjects.OFFICE, subjects.seal(stream))
        end = await last_sequence(bus, stream)
        try:
            return end - (Seal.from_json(stored.data).last if stored else 0)
        except ValueError:
            return end

    return dict(zip(subjects.LOG, await asyncio.gather(*map(count, subjects.LOG)), strict=True))
