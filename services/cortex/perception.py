"""Perception: what a text asks for, by rules, and what is recalled before planning."""

import asyncio
from typing import Any, Literal

import msgspec

from shared.agent.context import AgentContext
from shared.contracts import CognitiveContext, Hit, Node, Source
from shared.errors import BusError
from shared.language.sayings import read_sayings
from shared.language.utterance import Act, read_utterance
from shared.reasoning.recall import FACT, KNOWN, measure_relevance, patterns_for
from shared.text.display import fence, quote
from shared.text.prose import SENTENCE_BREAK

WAYS = read_sayings(__file__, "perception")

QueryType = Literal["question", "command", "research", "creative"]
Complexity = Literal["simple", "medium", "complex"]

MEDIUM, COMPLEX = 0.35, 0.7
"""The scores from which a task counts as medium and as complex: one verb about one thing is simple, several
about several things are complex."""
MAX_NAMED = 20  # The most entities and commands that are kept of a text


class Percept(msgspec.Struct, frozen=True, kw_only=True):
    """What a text asks for; ``commands`` are given as /name."""

    intent: str
    query_type: QueryType
    complexity: Complexity
    entities: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def perceive(text: str) -> Percept:
    """What rules find in ``text``; the intent is its first sentence."""
    named = [next(filter(None, found.groups())) for found in WAYS["quoted"].finditer(text)]
    bare = WAYS["quoted"].sub(" ", text)
    named += WAYS["address"].findall(bare)
    bare = WAYS["address"].sub(" ", bare)
    commands = WAYS["command"].findall(bare)
    paths = [found[0] for found in WAYS["path"].finditer(bare) if found[0].lstrip("/") not in commands]
    named += paths + [found[0] for found in WAYS["proper"].finditer(bare)]
    flat = " ".join(text.split())
    return Percept(
        intent=SENTENCE_BREAK.split(flat, maxsplit=1)[0][:300],
        query_type=_query_type(text),
        complexity=complexity_of(score_complexity(text, len(set(named)))),
        entities=_few(named),
        commands=_few(commands),
    )


def score_complexity(text: str, entities: int = 0) -> float:
    """A score of 0 to 1 from the text's parts, length, verbs and entities."""
    words = len(text.split())
    parts = 1 + len(WAYS["joint"].findall(text))
    asked = {found.lower() for found in WAYS["deep"].findall(text)}
    score = min(0.5, 0.2 * (parts - 1))
    score += 0.15 * (words > 40) + 0.2 * (words > 120)
    score += min(0.5, 0.35 * bool(asked) + 0.15 * max(0, len(asked) - 1))
    score += 0.15 * (entities >= 3)
    return min(1.0, score)


def complexity_of(score: float) -> Complexity:
    """The complexity for a score."""
    return "complex" if score >= COMPLEX else "medium" if score >= MEDIUM else "simple"


def _query_type(text: str) -> QueryType:
    if WAYS["research"].search(text):
        return "research"
    if WAYS["creative"].search(text):
        return "creative"
    said = read_utterance(text)
    return "question" if said.asks or said.act is Act.QUESTION else "command"


def _few(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip()[:120] for name in names if name.strip()))[:MAX_NAMED]


MAX_RECALLED = 8  # The most memories a run begins with
TIMEOUT = 10.0  # Seconds that memory has to answer; a run continues without it
MAX_QUERY = 2_000  # The most characters of a query to memory
EXCERPT = 600  # The most characters of a memory that are kept
EPISODE = 4_000  # The most characters of an answer that the episode keeps
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
