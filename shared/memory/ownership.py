"""Whose memory a node is: an agent's own, a person's alone, or everybody's.

What lies in an agent's folder is its own. What is a person's alone lies in that person's folder, or has a
channel that says so: nobody else reads it but the operator, whatever its tags.
"""

from contextvars import ContextVar

from shared import subjects
from shared.contracts import Node

GLOBAL = "global"  # The tag of what concerns all agents, which their briefings show

AGENTS_FOLDER = "agents"  # What lies in ``agents/<name>/`` of the ingest folder is the memory of that agent

CHANNEL = "ingest"
"""The ``source.channel`` of what was taken in from files; their ``source.session`` is the file."""


PEOPLE_FOLDER = "people"  # The same of people: ``people/<name>/``

PRIVATE = "private:"
"""What the ``source.channel`` of a person's own memory begins with; the person's name follows."""

TEAM = subjects.PERSON  # A reader that is one of the people and nobody in particular


def is_person(name: str) -> bool:
    """Whether a reader or an owner is one of the people, and not the operator."""
    return name.startswith(TEAM)


def find_owner(node: Node) -> str:
    """The agent or the person (``user-ana``) whose own memory a node is; empty if it is everybody's, as what
    is tagged GLOBAL is unless it is a person's.
    """
    owner = owner_of(node.source.session, node.source.channel)
    return owner if is_person(owner) or GLOBAL not in node.tags else ""


def owner_of(session: str, channel: str) -> str:
    """The same by the source of what is not tagged."""
    if channel.startswith(PRIVATE):
        return TEAM + channel.removeprefix(PRIVATE)
    folder, _, rest = session.partition("/")
    name, inside, _ = rest.partition("/")
    if not inside or channel != CHANNEL or folder not in (AGENTS_FOLDER, PEOPLE_FOLDER):
        return ""
    return name if folder == AGENTS_FOLDER else TEAM + name


def is_kept_from(node: Node, reader: str) -> bool:
    """Whether a node is one of the people's alone, and ``reader`` neither that one nor the operator."""
    owner = find_owner(node)
    return is_person(owner) and reader not in (owner, subjects.USER)


reads_for: ContextVar[str] = ContextVar("reads_for", default="")
"""Whom nexus and the gateway read for, and keep what is said: an agent, ``user``, or one of the people
(``user-ana``); empty: on their own account."""


def reader_of(asker: str, audience: str) -> str:
    """Who reads what a message of ``asker`` for the ``audience`` asks for."""
    return TEAM + audience if asker == subjects.USER and audience else asker


def audience_read_for() -> str:
    """The person for whom alone what is kept now is; empty: the team."""
    reader = reads_for.get()
    return reader.removeprefix(TEAM) if is_person(reader) else ""


def find_reader(asker: str, named: str = "") -> str:
    """As whom an identity that asks memory reads: agents and the operator as themselves, but the operator's
    key (which the gateway shares) as one of the people if it ``named`` one; nexus as the one that it named.

    ``user`` may read all, one of the people all but what is another's, an agent its own memory and
    everybody's, and what is tagged with its name. Nexus on its own account reads as TEAM: what it tells goes
    to all.
    """
    if asker == subjects.NEXUS:
        return TEAM if named in ("", subjects.USER) else named
    return named if asker == subjects.USER and is_person(named) else asker


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
