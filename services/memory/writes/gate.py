"""The write gate: what is not worth remembering is answered with why, and what to do about it."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from services.memory.linking.rules import is_assertion
from services.memory.linking.statements import have_other_values
from services.memory.linking.text_comparison import find_difference
from services.memory.writes.change import embedded_text
from shared.contracts import Node, Rejection
from shared.memory.ownership import find_owner

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

MIN_CHARACTERS = 15
MIN_WORDS = 3
"""What an assertion needs, title and body together, in different words: "Alice lives in Rome" is enough,
"Port is 4222" (of what?) is not. An event or a task needs two words; the name of an agent and a turn of a
conversation, one."""

KNOWN = 0.92  # The cosine above which an assertion is known, whatever its kind

KNOWN_OF_KIND = 0.85  # The same for assertions of one kind

NEW_WORDS = 0.34
NEW_WORDS_OF_KIND = 0.2
"""The shares of its words that may be new, and it says nothing new: above KNOWN and above KNOWN_OF_KIND."""

NEEDED = ((0.9, 100), (0.8, 50))  # From such an importance on, so many characters must say why

FOUND = 0.7  # From this importance on, it must have a tag or a body

INSIST = "or store it as it is with insist (mailroom memory add --insist)"

NEAREST = 20  # The nodes that one is held against which was stored before it had a vector; some came after it

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
"""A word; a character of a script that is written without blanks counts as one."""

EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
AHEAD = 86_400.0  # Seconds by which a clock may be ahead: the day of a date depends on the place


def find_wrong_date(created_at: str, moment: float) -> str:
    """Why nothing that is written at ``moment`` was created then; empty if it may have been."""
    if not created_at:
        return ""
    created = datetime.fromisoformat(created_at)
    created = created if created.tzinfo else created.replace(tzinfo=UTC)
    if created < EARLIEST:
        return f"created_at {created_at[:10]} is before 1900: give the day on which it was so, or none"
    if created.timestamp() > moment + AHEAD:
        return (
            f"created_at {created_at[:10]} is in the future, by more than a day: a date that is to come is "
            "valid_from or valid_to, or part of the text"
        )
    return ""


def find_rejection(node: Node, nearest: Node | None, cosine: float) -> Rejection | None:
    """Why ``node`` is not to be stored, None if it is; a write with ``insist`` is not checked.

    ``nearest`` is the live node most like it by ``cosine``, itself apart. Checks, in this order:

    - thin: it says too little to be useful (see MIN_WORDS);
    - importance: from .7 it needs a tag or a body, from .8 fifty characters in all, from .9 a hundred;
      agents, tasks, events, turns and episodes, which matter for what they are, need neither;
    - known: it says nothing that is not there already: above a cosine of .92, or of .85 among assertions of
      one kind, unless numbers, names, negation or other words differ (see ``find_difference``): that is news.
      What took place is never known: two events are two. What no longer holds may be said again.
    """
    return _check_thin(node) or _check_importance(node) or _check_known(node, nearest, cosine)


def find_known(view: "View", ids: Sequence[str]) -> dict[str, Node]:
    """Which of these nodes, given in the order in which they were written, the gate would have refused as
    known had they had their vectors then, with what says the same: it came before them.
    """
    places = {node_id: place for place, node_id in enumerate(ids)}

    def age(node: Node) -> tuple[int, int]:
        return node.created_version, places.get(node.id, -1)

    known: dict[str, Node] = {}
    for node in view.nodes(ids):
        vector = view.vector(node.id)
        if vector is None or node.retired_version or not is_assertion(node):
            continue
        near = dict(view.similar(vector, NEAREST, KNOWN_OF_KIND))
        for other in view.nodes(near):
            is_earlier = other.id not in known and age(other) < age(node)
            if is_earlier and _check_known(node, other, near[other.id]) is not None:
                known[node.id] = other
                break
    return known


def _check_thin(node: Node) -> Rejection | None:
    text = embedded_text(node).strip()
    words, needed, letters = len(set(_WORD.findall(text.casefold()))), MIN_WORDS, MIN_CHARACTERS
    if not is_assertion(node):
        needed, letters = (2, 0) if node.kind in {"event", "task"} else (1, 0)
    if words >= needed and len(text) >= letters:
        return None
    article = "an" if node.kind[:1] in "aeiou" else "a"
    least = f"{needed} different words" + (f" and {letters} characters" if letters else "")
    return Rejection(
        check="thin",
        reason=f"{article} {node.kind} needs at least {least} in title and body together; "
        f"{text[:60]!r} has {words} and {len(text)}",
        suggestion="Say in a sentence what is so and of what, as in 'The port of the broker is 4222'; "
        + INSIST,
    )


def _check_importance(node: Node) -> Rejection | None:
    if not is_assertion(node) or node.importance < FOUND:
        return None
    length = len(embedded_text(node).strip())
    short = next((needed for importance, needed in NEEDED if node.importance >= importance), 0)
    if length < short:
        lacks = f"{short} characters in title and body together that say why; it has {length}"
    elif not node.tags and not node.body.strip():
        lacks = "a tag or a body, so that it is found and understood"
    else:
        return None
    return Rejection(
        check="importance",
        reason=f"an importance of {node.importance:g} needs {lacks}",
        suggestion=f"Add tags and a body that says why it matters, or lower it under {FOUND:g}; " + INSIST,
    )


def _check_known(node: Node, nearest: Node | None, cosine: float) -> Rejection | None:
    if nearest is None or nearest.id == node.id or nearest.valid_to:
        return None
    if find_owner(nearest) not in ("", find_owner(node)):  # who writes does not see it
        return None
    if not (is_assertion(node) and is_assertion(nearest)):
        return None
    if cosine > KNOWN:
        news = find_difference(embedded_text(node), embedded_text(nearest), NEW_WORDS)
    elif cosine > KNOWN_OF_KIND and node.kind == nearest.kind:
        news = find_difference(embedded_text(node), embedded_text(nearest), NEW_WORDS_OF_KIND)
    else:
        return None
    if news or have_other_values(embedded_text(node), embedded_text(nearest)):
        return None
    return Rejection(
        check="known",
        reason=f"memory has it already as {nearest.kind} {nearest.id}, "
        f"{nearest.title[:80]!r} (cosine {cosine:.2f})",
        suggestion=f"Read it with 'mailroom memory get {nearest.id}', and write under that id to change it "
        f"('mailroom memory add TITLE --id {nearest.id}'); " + INSIST,
        existing=nearest,
    )
