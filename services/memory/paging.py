"""Pages of a list, no larger than a message can be."""

import msgspec

from shared import subjects
from shared.contracts import NodePage

MAX_BYTES = subjects.MAX_PAYLOAD // 2
"""The bytes after which a page is full: the largest node has half of a message."""


def fit_page(page: NodePage, most: int = MAX_BYTES) -> NodePage:
    """The page, or as much of its beginning as ``most`` bytes of JSON hold, at least one node.

    Its ``next`` leads to the rest.
    """
    size = 0
    for place, node in enumerate(page.nodes):
        size += len(msgspec.json.encode(node))
        if size > most and place:
            return NodePage(nodes=page.nodes[:place], next=page.nodes[place - 1].id, version=page.version)
    return page
