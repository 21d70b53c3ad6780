"""What an agent has memory know of it: who it is, so that a briefing can begin with that."""

import hashlib

from shared.contracts import MemoryWrite, Node, Source
from shared.tasks.profile import Profile


def introduce(profile: Profile) -> MemoryWrite:
    """The node ``agent-<name>`` of an agent; writing the same again changes nothing."""
    body = f"{profile.description}\n\n{profile.instructions}".strip()
    digest = hashlib.sha256(f"{profile.name}\n{body}".encode()).hexdigest()[:32]
    node = Node(
        id=f"agent-{profile.name}",
        kind="agent",
        title=profile.name,
        body=body,
        tags=(profile.name,),
        source=Source(agent=profile.name, channel="profile"),
    )
    return MemoryWrite(id=f"introduction-{digest}", sender=profile.name, nodes=(node,), insist=True)
