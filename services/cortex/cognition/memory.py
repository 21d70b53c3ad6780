"""Memory in a run: what is recalled before planning, and the episode that is kept after it."""

import asyncio
import operator
from collections.abc import Sequence
from typing import Any

from services.cortex.cognition.material import fence
from shared.agent.context import AgentContext
from shared.contracts import CognitiveContext, Hit, Node, Source
from shared.errors import BusError

RECALLED = 8
"""The most memories a run begins with (the documents this descends from)."""
PATIENCE = 10.0
"""Seconds memory has to recall: a run can do without."""
LONGEST = 2_000
"""The most characters of a text that memory is asked about."""
EXCERPT = 600
"""The most characters of a memory that are taken along."""
EPISODE = 4_000
"""The most characters of an answer that the episode keeps."""
ROOMS = {"episodic": "episodic", "event": "episodic", "task": "episodic", "pattern": "procedural"}
"""What a memory's kind is to a run; every other kind is semantic: facts, decisions, observations."""


async def recall(agent: AgentContext, query: str) -> dict[str, Any]:
    """Memories about ``query`` as ``episodic``, ``semantic`` and ``procedural``; ``problem`` says why none.

    How well they fit goes into the facts of the job, as with any task that memory is asked for.
    """
    cache: dict[str, Any] = {"episodic": [], "semantic": [], "procedural": []}
    try:
        async with asyncio.timeout(PATIENCE):
            hits = await agent.memory.search(query[:LONGEST], limit=RECALLED)
            await _measure(agent, query, hits)
    except (BusError, TimeoutError) as error:
        return {**cache, "problem": f"memory was not asked: {str(error) or 'it did not answer in time'}"}
    for hit in hits:
        cache[ROOMS.get(hit.node.kind, "semantic")].append(_brief(hit))
    return cache


def known_ids(cache: dict[str, Any]) -> tuple[str, ...]:
    """The evidence references of what was recalled."""
    return tuple(
        f"memory:{entry['id']}" for room in cache.values() if isinstance(room, list) for entry in room
    )


def describe(cache: dict[str, Any]) -> str:
    """What was recalled for a question to the model, with evidence references."""
    lines = [
        f"- [memory:{entry['id']}] {entry['title']}: {entry['body']}"
        for room in cache.values()
        if isinstance(room, list)
        for entry in room
    ]
    return fence("\n".join(lines)) or "- nothing"


async def store_episode(agent: AgentContext, context: CognitiveContext, *, complete: bool) -> str:
    """Remember the run through the write gate, once however often it is done; "" or why it was not stored."""
    task = agent.task
    outcome = "" if complete else " (not complete)"
    node = Node(
        id=agent.bus.derive_id("episode", task.task_id),
        kind="episodic",
        title=f"Worked out{outcome}: {' '.join(context.original_query.split())}"[:200],
        body=context.answer[:EPISODE],
        tags=("cognition", context.mode or "cognitive"),
        metadata={
            "task_id": task.task_id,
            "confidence": context.confidence,
            "iterations": context.iteration_count,
            "complete": complete,
        },
        source=Source(agent=agent.profile.name, session=task.goal_id or task.task_id, channel="cognition"),
        importance=0.5 if complete else 0.3,
        created_at=task.created_at,
    )
    try:
        await agent.memory.add(node)
    except BusError as error:
        return str(error)
    return ""


async def _measure(agent: AgentContext, query: str, hits: Sequence[Hit]) -> None:
    """Put the cosine of each memory to the query into the job's facts: the context hit rate is made of it."""
    if not hits:
        return
    texts = [f"{hit.node.title}\n{hit.node.body}"[:LONGEST] for hit in hits]
    asked, *found = await agent.memory.embed(query[:LONGEST], *texts)
    scores = [round(sum(map(operator.mul, asked, vector)), 4) for vector in found]
    agent.current_task.facts["context"] = {"scores": scores, "best": max(scores)}


def _brief(hit: Hit) -> dict[str, Any]:
    node = hit.node
    return {
        "id": node.id,
        "kind": node.kind,
        "title": node.title,
        "body": node.body[:EXCERPT],
        "score": round(hit.score, 3),
    }
