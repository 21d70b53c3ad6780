"""What of a memory is looked for elsewhere."""

from collections.abc import Iterable

from shared.contracts import Node

STRUCTURE = frozenset(
    "file heading headings line hash links unresolved merged_from count first last session".split()
)
"""Metadata that say where a text stood, which other texts share."""


def texts_of_nodes(nodes: Iterable[Node]) -> list[str]:
    """What nodes say: titles, bodies, and what their metadata tell beside where they come from."""
    found: dict[str, None] = {}
    for node in nodes:
        told = [value for name, value in node.metadata.items() if name not in STRUCTURE]
        for text in (node.title, node.body, *(each for each in told if isinstance(each, str))):
            found |= {text: None} if text.strip() else {}
    return list(found)
