"""What a provider's cache would hold of a request, by the rules that the providers publish.

Anthropic: a mark (``cache_control``) stores all before it, in the order tools, system, messages; a request
reads the longest stored beginning that ends at one of its marks, or up to 20 blocks before one; at least
1,024 tokens, at most 4 marks. OpenAI: a request reads the longest beginning it shares with an earlier one, in
steps of 128 tokens and of at least 1,024, if both have one ``prompt_cache_key``.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

SMALLEST = 1024  # Tokens that are stored at least
STEP = 128  # Tokens by which OpenAI's cache grows
LOOK_BACK = 20  # Blocks before a mark at which Anthropic's cache looks for a stored beginning
CHARACTERS_A_TOKEN = 4


def cached_share(requests: Sequence[Mapping[str, Any]]) -> float:
    """The share of all tokens read from the cache by requests of one kind, in their order."""
    cached = total = 0
    stored: set[str] = set()
    earlier: list[tuple[str, str]] = []
    for request in requests:
        blocks = list_blocks(request)
        size = sum(map(len, (text for text, _ in blocks)))
        total += size
        if "anthropic_marks" in request or ("max_tokens" in request and "input" not in request):
            cached += _read_marked(blocks, stored)
        else:
            cached += _read_beginning(request, "".join(text for text, _ in blocks), earlier)
    return cached / total


def list_blocks(request: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """The parts of a request in the order in which they are cached, and whether each is marked."""
    system = request.get("system") or request.get("instructions") or []
    parts = [*request.get("tools", ()), *([{"text": system}] if isinstance(system, str) else system)]
    for message in request.get("messages") or request.get("input") or ():
        content = message.get("content")
        if isinstance(content, list):
            parts += [{"role": message["role"], **block} for block in content]
        else:
            parts.append(message)
    return [
        (
            json.dumps({name: part[name] for name in sorted(part) if name != "cache_control"}),
            "cache_control" in part,
        )
        for part in parts
    ]


def _read_marked(blocks: list[tuple[str, bool]], stored: set[str]) -> int:
    marks = [number for number, (_, marked) in enumerate(blocks) if marked]
    assert len(marks) <= 4, "A maximum of 4 blocks with cache_control may be provided."
    found = 0
    for mark in marks:
        for end in range(mark, max(-1, mark - LOOK_BACK), -1):
            beginning = "".join(text for text, _ in blocks[: end + 1])
            if beginning in stored:
                found = max(found, len(beginning))
                break
    for mark in marks:
        beginning = "".join(text for text, _ in blocks[: mark + 1])
        if len(beginning) >= SMALLEST * CHARACTERS_A_TOKEN:
            stored.add(beginning)
    return found


def _read_beginning(request: Mapping[str, Any], text: str, earlier: list[tuple[str, str]]) -> int:
    key = str(request.get("prompt_cache_key", ""))
    longest = max((_shared(text, other) for name, other in earlier if name == key), default=0)
    earlier.append((key, text))
    tokens = longest // CHARACTERS_A_TOKEN // STEP * STEP
    return tokens * CHARACTERS_A_TOKEN if tokens >= SMALLEST else 0


def _shared(one: str, other: str) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
