"""The wordings of a half: subjects, values and sentence frames, read from a TOML file beside this module."""

import tomllib
from pathlib import Path

import msgspec

HALVES = ("work", "held_out")
"""The half that may be worked with, and the half that is only reported; they share no sentence."""


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a subject has one of at a time, and the sentences about it; see work.toml for the slots."""

    attribute: str
    kind: str
    subjects: tuple[str, ...]
    values: tuple[str, ...] | str
    says: tuple[str, ...]
    moves: tuple[str, ...]
    asks: tuple[str, ...]
    ends: tuple[str, ...] = ()
    number: bool = False


class PlainFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact that never changes, and a question in other words."""

    says: str
    ask: str


class Lookalikes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pairs of sentences that hold side by side."""

    pairs: tuple[tuple[str, str], ...]


class Fillers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sentences around the claims; ``chat`` are what a message looks like in a conversation or a list."""

    owners: tuple[str, ...]
    preferences: tuple[str, ...]
    incidents: tuple[str, ...]
    tasks: tuple[str, ...]
    notes: tuple[str, ...]
    things: tuple[str, ...]
    noise: tuple[str, ...]
    private: tuple[str, ...]
    goals: tuple[str, ...]
    rulings: tuple[str, ...]
    chat: tuple[str, ...]
    unanswerable: tuple[str, ...]
    near_misses: tuple[str, ...]


class Wording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a half's store is made of."""

    people: tuple[str, ...]
    services: tuple[str, ...]
    reasons: tuple[str, ...]
    topics: tuple[Topic, ...]
    lookalikes: Lookalikes
    facts: tuple[PlainFact, ...]
    fillers: Fillers

    @property
    def frames(self) -> tuple[str, ...]:
        """The sentences about claims."""
        return tuple(
            frame for topic in self.topics for frame in (*topic.says, *topic.moves, *topic.ends, *topic.asks)
        )


def path_of(half: str) -> Path:
    """The file of a half, one of HALVES."""
    return Path(__file__).with_name(f"{half}.toml")


def read_wording(path: Path) -> Wording:
    """The wording in a file of the form of work.toml."""
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Wording)


def fill(frame: str, **slots: object) -> str:
    """A sentence with its slots filled and a capital at its beginning."""
    subject = str(slots.get("s", ""))
    text = frame.format(S=capitalise(subject), **slots) if subject else frame.format(**slots)
    return capitalise(text)


def capitalise(text: str) -> str:
    """The text with its first letter as a capital."""
    return text[:1].upper() + text[1:]
