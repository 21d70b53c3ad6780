"""Patterns in memory: stored as goals teach them, recalled, counted with their outcome, retired."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from services.conductor.learning import WELL, MetaLearner, lessons_of, subject_of
from services.conductor.state_machine import with_patterns
from shared import subjects
from shared.contracts import Goal, GoalTask, Node, Pattern, PatternOrigin, Source, TaskStatus
from shared.contracts.cognition import MAX_EVIDENCE
from shared.errors import MailroomError
from shared.log import logger
from shared.memory import Memory
from shared.projects.reading import read_project
from shared.reasoning.recall import SEARCHED, WAIT, KnownPattern, pattern_of, recall_patterns
from shared.text.prose import leave_out_places

IMPORTANCE = 0.6

log = logger(__name__)


class PatternBook:
    """The patterns of the office. If memory does not answer, goals go on without them, and this is logged."""

    def __init__(self, memory: Memory, learner: MetaLearner, derive_id: Callable[..., str]) -> None:
        self._memory = memory
        self._learner = learner
        self._derive_id = derive_id
        self._turn = asyncio.Lock()

    async def recall(self, goal: Goal) -> tuple[KnownPattern, ...]:
        """The patterns that were learned from goals like ``goal``, nearest first."""
        return await recall_patterns(self._memory, goal.text)

    async def apply(self, goal: Goal) -> Goal:
        """``goal`` with the parameters that helped its actions before, where it does not name them."""
        used: list[str] = []
        tasks = tuple([await self._apply(task, used) for task in goal.tasks])
        return with_patterns(msgspec.structs.replace(goal, tasks=tasks), used) if used else goal

    async def close(self, goal: Goal) -> None:
        """Count the uses of patterns in an ended goal, and store what it teaches; a second time adds none."""
        if goal.status is not TaskStatus.CANCELLED:
            await self._count(goal)
        await self.store(goal, lessons_of(goal))

    async def store(self, goal: Goal, lessons: Sequence[Pattern]) -> tuple[str, ...]:
        """Store patterns; returns their ids. A known one gets more evidence, a retired one stays retired."""
        ids: tuple[str, ...] = ()
        if lessons:
            async with self._turn:
                ids = tuple([await self._id_of(lesson) for lesson in lessons])
                before = {node.id: node for node in await self._get(ids)}
                nodes = []
                for node_id, lesson in zip(ids, lessons, strict=True):
                    known = before.get(node_id)
                    if known is None:
                        nodes.append(_node(node_id, lesson, goal))
                    elif not known.retired_version:
                        was = pattern_of(known)
                        evidence = tuple(dict.fromkeys((*was.evidence, *lesson.evidence)))[-MAX_EVIDENCE:]
                        counts = {"uses": was.uses, "successes": was.successes, "counted": was.counted}
                        merged = msgspec.structs.replace(lesson, evidence=evidence, **counts)
                        nodes.append(_node(node_id, merged, goal))
                await self._write(*nodes)
        return ids

    async def _apply(self, task: GoalTask, used: list[str]) -> GoalTask:
        nodes = await self._get(self._learner.pattern_ids(task))
        known = [KnownPattern(node.id, pattern_of(node)) for node in nodes if not node.retired_version]
        project = await project_of(task) if known else ""
        params = dict(task.params)
        for each in known:
            more = {name: value for name, value in each.pattern.params.items() if name not in params}
            if more and each.pattern.project in ("", project):
                params |= more
                used.append(each.id)
        return msgspec.structs.replace(task, params=params)

    async def _count(self, goal: Goal) -> None:
        if not goal.patterns:
            return
        async with self._turn:
            changed: list[Node] = []
            for node in await self._get(goal.patterns):
                # What a person wrote is the person's to change: it is used, and not counted here.
                if node.retired_version or node.source.agent != subjects.CONDUCTOR:
                    continue
                pattern = pattern_of(node)
                after = pattern.plus(goal.goal_id, well=has_helped(pattern, goal))
                if after is not pattern:
                    changed.append(msgspec.structs.replace(node, metadata=after.to_dict(), embedding=()))
            await self._write(*changed)
            if spent := [node.id for node in changed if not pattern_of(node).pays]:
                await self._ask(self._memory.retire(*spent))

    async def _get(self, ids: Sequence[str]) -> list[Node]:
        found = await self._ask(self._memory.get(*ids)) if ids else None
        return [node for node in found or () if node.kind == "pattern"]

    async def _write(self, *nodes: Node) -> None:
        if nodes:
            await self._ask(self._memory.add(*nodes, insist=True))

    async def _ask(self, request: Any) -> Any:
        try:
            async with asyncio.timeout(WAIT):
                return await request
        except (MailroomError, TimeoutError) as error:
            log.warning("pattern_not_kept", reason=str(error) or f"memory gave no answer in {WAIT:g} s")
            return None

    async def _id_of(self, pattern: Pattern) -> str:
        """The id of what was learned from the same cause, if its goal was like this one; else a new one."""
        key = (pattern.learned_from, pattern.agent, pattern.action, pattern.error, pattern.project)
        if pattern.params:  # a call fails alike in goals of any text
            return self._derive_id("pattern", *key, "")
        for near in await recall_patterns(self._memory, pattern.example, limit=SEARCHED):
            known = near.pattern
            alike = (known.learned_from, known.agent, known.action, known.error, known.project)
            if alike == key and not known.params and known.evidence:
                return near.id
        return self._derive_id("pattern", *key, leave_out_places(pattern.example))


def has_helped(pattern: Pattern, goal: Goal) -> bool:
    """Whether ``goal``, which used ``pattern``, ended well, and not after the very failure this is about."""
    is_review = pattern.learned_from is PatternOrigin.REVIEW
    about = pattern.agent, pattern.action, is_review
    met = {(each.agent, each.action, each.review) for each in goal.setbacks}
    return goal.outcome in WELL and about not in met


async def project_of(task: GoalTask) -> str:
    """The kinds of the projects that a task is about, as "python"; empty if it names no folder here."""
    folder = Path(subject_of(task.params) or ".")
    if not folder.is_absolute():
        return ""
    found = await asyncio.to_thread(lambda: read_project(folder).parts if folder.is_dir() else ())
    return "+".join(sorted({project.kind for project in found}))


def _node(node_id: str, pattern: Pattern, goal: Goal) -> Node:
    call = f"{pattern.agent}.{pattern.action}" if pattern.action else pattern.agent
    return Node(
        id=node_id,
        kind="pattern",
        title=pattern.condition[:256],
        body=f"{pattern.condition}\n{pattern.advice}"[:4_000],
        tags=("learned", str(pattern.learned_from), call),
        metadata=pattern.to_dict(),
        source=Source(agent=subjects.CONDUCTOR, session=goal.goal_id, channel="goal"),
        importance=IMPORTANCE,
    )
