"""Whose memory a node is: what lies in an agent's folder is its own, everything else is everybody's."""

from contextvars import ContextVar

from shared import subjects
from shared.contracts import Node

GLOBAL = "global"  # The tag of what concerns all agents, which their briefings show

AGENTS_FOLDER = "agents"  # What lies in ``agents/<name>/`` of the ingest folder is the memory of that agent

CHANNEL = "ingest"
"""The ``source.channel`` of what was taken in from files; their ``source.session`` is the file."""


def find_owner(node: Node) -> str:
    """The agent whose own memory a node is; empty if it is everybody's, as what is tagged GLOBAL is."""
    return owner_of(node.source.session, node.source.channel) if GLOBAL not in node.tags else ""


def owner_of(session: str, channel: str) -> str:
    """The same by the source of what is not tagged."""
    folder, _, rest = session.partition("/")
    name, inside, _ = rest.partition("/")
    return name if inside and channel == CHANNEL and folder == AGENTS_FOLDER else ""


reads_for: ContextVar[str] = ContextVar("reads_for", default="")
"""Whom nexus reads memory for, an agent or ``user``; empty: on its own account."""


def find_reader(asker: str, named: str = "") -> str:
    """As whom an identity that asks memory reads: agents as themselves, people and nexus as ``user``; nexus
    as the one that it has ``named``, if any.

    ``user`` may read all, an agent its own memory and everybody's, and what is tagged with its name.
    """
    return (named or subjects.USER) if asker == subjects.NEXUS else asker


FINDERS = frozenset({subjects.CRITIC, "engineer", "scout", "frontier"})
"""The agents whose work is to find things out, which they store themselves, not at a model's word."""
AT_A_WORD = frozenset({CHANNEL, "skill"})  # Channels of what files say, and of what a model has remembered


def is_private(node: Node) -> bool:
    """Whether a node counts as a private note where texts leave the office.

    All do but what agents found and stored themselves, and patterns learned from goals.
    """
    learned = node.kind == "pattern" and node.source.agent == subjects.CONDUCTOR
    found = node.source.agent in FINDERS and node.source.channel not in AT_A_WORD
    return bool(find_owner(node)) or not (learned or found)


def may_end(newer: Node, older: Node) -> bool:
    """Whether what ``newer`` says can end what ``older`` says: an agent's own note ends its own notes alone,
    since the others do not see it.
    """
    return find_owner(newer) in ("", find_owner(older))
