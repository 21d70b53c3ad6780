"""What the client asks of the daemon beside the contracts: questions that only the two of them know."""

from typing import Literal

import msgspec


class WrittenQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the outcome of the write ``id``, stored in MEMORY at ``seq``."""

    id: str
    seq: int


class EmbedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the embeddings of texts."""

    texts: tuple[str, ...]


class LinkerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks how the linker stands, or has it do a round now."""

    action: Literal["status", "trigger"] = "status"


class RebuildQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Has the store made anew from its log; ``force`` even where that has lost its beginning."""

    force: bool = False
