"""Memory in a run: what is recalled before planning, and the episode that is stored after it."""

import asyncio
from typing import Any

from shared.agent.context import AgentContext
from shared.contracts import CognitiveContext, Hit, Node, Source
from shared.errors import BusError
from shared.reasoning.recall import FACT, KNOWN, measure_relevance, patterns_for
from shared.text.display import fence, quote

MAX_RECALLED = 8
"""The most memories a run begins with."""
TIMEOUT = 10.0
"""Seconds that memory has to answer; a run continues without it."""
MAX_QUERY = 2_000
"""The most characters of a query to memory."""
EXCERPT = 600
"""The most characters of a memory that are kept."""
EPISODE = 4_000
"""The most characters of an answer that the episode keeps."""
CATEGORIES = {"episodic": "episodic", "event": "episodic", "task": "episodic", "pattern": "procedural"}
"""The category of a memory by its kind; every other kind is semantic: facts, decisions, observations."""


async def recall(context: AgentContext, query: str) -> dict[str, Any]:
    """Memories about ``query`` as ``episodic``, ``semantic`` and ``procedural``; ``problem`` says why none.

    Their relevance and the patterns that apply are recorded in the facts of the task, as for every task, and
    under ``facts``, from which another attempt restores them.
    """
    facts = context.current_task.facts
    cache: dict[str, Any] = {"episodic": [], "semantic": [], "procedural": []}
    try:
        async with asyncio.timeout(TIMEOUT):
            hits = await context.memory.search(query[:MAX_QUERY], limit=MAX_RECALLED)
            if relevance := await measure_relevance(context.memory, query[:MAX_QUERY], hits):
                facts["context"] = relevance
    except (BusError, TimeoutError) as error:
        return {**cache, "problem": f"memory was not asked: {str(error) or 'it did not answer in time'}"}
    cache["learned"] = await patterns_for(context.memory, query[:MAX_QUERY])
    cache["facts"] = {name: facts[name] for name in ("context", FACT) if name in facts}
    for hit in hits:
        cache[CATEGORIES.get(hit.node.kind, "semantic")].append(_brief(hit))
    return cache


def known_ids(state: CognitiveContext) -> tuple[str, ...]:
    """The evidence references of the memories."""
    return tuple(f"memory:{entry['id']}" for entry in _entries(state))


def format_memories(state: CognitiveContext) -> str:
    """The memories for a question to the model, with their evidence references; earlier runs come last."""
    lines = [f"- [memory:{entry['id']}] {entry['title']}: {entry['body']}" for entry in _entries(state)]
    held = fence("\n".join(lines)) or "- nothing"
    return "\n".join(filter(None, [held, _learned(state)]))


def format_known(state: CognitiveContext) -> str:
    """The memories as a quotation beside a question; empty for none."""
    return quote(KNOWN, format_memories(state)) if known_ids(state) or _learned(state) else ""


async def store_episode(context: AgentContext, state: CognitiveContext, *, complete: bool) -> str:
    """Store the run as a memory, once however often this is called; returns "" or why it was not stored."""
    task = context.task
    outcome = "" if complete else " (not complete)"
    node = Node(
        id=context.bus.derive_id("episode", task.task_id),
        kind="episodic",
        title=f"Worked out{outcome}: {' '.join(state.original_query.split())}"[:200],
        body=state.answer[:EPISODE],
        tags=("cognition", state.mode or "cognitive"),
        metadata={
            "task_id": task.task_id,
            "confidence": state.confidence,
            "iterations": state.iteration_count,
            "complete": complete,
        },
        source=Source(agent=context.profile.name, session=task.goal_id or task.task_id, channel="cognition"),
        importance=0.5 if complete else 0.3,
        created_at=task.created_at,
    )
    try:
        await context.memory.add(node)
    except BusError as error:
        return str(error)
    return ""


def _entries(state: CognitiveContext) -> list[dict[str, Any]]:
    groups = [state.memory_cache.get(name, ()) for name in ("semantic", "procedural")]
    return [entry for group in (*groups, state.episodic_memories) for entry in group]


def _learned(state: CognitiveContext) -> str:
    return str(state.memory_cache.get("learned", ""))


def _brief(hit: Hit) -> dict[str, Any]:
    node = hit.node
    return {
        "id": node.id,
        "kind": node.kind,
        "title": node.title,
        "body": node.body[:EXCERPT],
        "score": round(hit.score, 3),
    }
