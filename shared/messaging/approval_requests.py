"""Approvals by people: requested on the bus, valid for one goal, refused if no answer comes in time."""

import asyncio
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta

from shared import subjects
from shared.bus import Bus
from shared.bus.consumer import yield_slot
from shared.bus.entry import seal
from shared.bus.records import read_record, read_task
from shared.clock import parse_timestamp
from shared.contracts import ApprovalAnswer, ApprovalRequest, Task
from shared.errors import BusUnavailable, Conflict, NotApproved, Unanswered
from shared.log import logger
from shared.tasks.context import TaskContext, current_task, require_current_task
from shared.text.display import flatten

MAX_OPEN, MAX_OPEN_OF_TASK = 100, 10
"""The most requests of one process, and of one task of it, that may wait for a person."""
MAX_REACH_REQUESTS = 100  # The most requests of one agent for reach in one goal
POLL = 0.5  # Seconds between two checks for an answer

log = logger(__name__)


class Approvals:
    """The approvals that one agent requests from people."""

    def __init__(self, bus: Bus, timeout: float) -> None:
        self._bus = bus
        self._timeout = timeout
        self._open: dict[str, tuple[Task, ApprovalRequest]] = {}

    async def require(
        self, what: str, *, rule: str = "", why: str = "", reach: Collection[str] = ()
    ) -> frozenset[str]:
        """Wait until a person grants ``what`` for the goal of the current task; returns the reach it opens.

        That is ``reach``, and the hosts that the person named beside it. Raises NotApproved if a person
        refuses it, the request expires, or too many requests wait already. One request is made for a goal,
        and its answer holds for this agent and the rest of the goal, if the conductor or a person submitted
        the task. A task from another agent may name any goal, so there it holds for that task alone. An
        answer stored after the request expired does not count. Request and answer survive a restart.
        """
        task = require_current_task()
        request = await self._ask(task, what, rule, why, tuple(reach))
        answer = await self._answer(request)
        if answer is None and datetime.now(UTC) < datetime.fromisoformat(request.expires_at):
            await task.progress(f"waits for approval {request.approval_id[:8]}: {flatten(what, 200)}")
            async with yield_slot():
                answer = await self._await(request)
        if answer is None:
            raise Unanswered(
                f"Nobody approved it in time: {flatten(what, 200)}",
                "Submit the goal again, and answer with 'mailroom approvals grant'",
            )
        if not answer.granted:
            note = f" ({answer.note[:200]})" if answer.note else ""
            raise NotApproved(f"A person refused it{note}: {flatten(what, 200)}")
        return _opened(request, answer)

    async def granted_reach(self) -> frozenset[str]:
        """The reach that people granted for the current task or its goal; nothing outside of a task."""
        task = current_task.get()
        opened: frozenset[str] = frozenset()
        for approval_id in self._numbered(task.task) if task else ():
            request = await self._read_request(approval_id)
            if request is None or task is None:
                break
            answer = await self._answer(request)
            same_task = request.task_id == task.task.task_id
            if (
                answer
                and answer.granted
                and (answer.scope == "goal" or (answer.scope == "task" and same_task))
            ):
                opened |= _opened(request, answer)
        return opened

    def _numbered(self, task: Task) -> Iterator[str]:
        """The ids of the requests for reach in a goal, in order: a later command finds the earlier ones."""
        return (self._bus.derive_id("reach", *_scope(task), str(n)) for n in range(MAX_REACH_REQUESTS))

    async def _ask(
        self, task: TaskContext, what: str, rule: str, why: str, reach: tuple[str, ...]
    ) -> ApprovalRequest:
        """The request for ``what``, which was stored before or is stored now."""
        ids = (
            self._numbered(task.task)
            if reach
            else [self._bus.derive_id("approval", *_scope(task.task), what)]
        )
        for approval_id in ids:
            request = await self._read_request(approval_id) if reach else None
            request = request or await self._request(approval_id, task, what, rule, why, reach)
            if request.what == what:
                return request
        raise NotApproved(
            f"A person was asked {MAX_REACH_REQUESTS} times for this goal: {flatten(what, 200)}",
            "Name what commands may reach beforehand, as 'reach' in the settings",
        )

    async def _await(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """The answer, or None once the request expired; while the server is away, it goes on waiting."""
        while True:
            over = datetime.now(UTC) >= datetime.fromisoformat(request.expires_at)
            try:
                if (answer := await self._answer(request)) is not None or over:
                    return answer
            except BusUnavailable as error:
                log.info("waits_without_server", reason=str(error))
            await asyncio.sleep(POLL)

    async def _request(
        self,
        approval_id: str,
        parent: TaskContext,
        what: str,
        rule: str,
        why: str,
        reach: tuple[str, ...],
    ) -> ApprovalRequest:
        """The stored request; it is stored now if it was not before."""
        subject = subjects.approval_asked(self._bus.name, approval_id)
        request = ApprovalRequest(
            sender=self._bus.name,
            recipient=subjects.USER,
            cause=parent.task.id,
            goal_id=parent.task.goal_id,
            approval_id=approval_id,
            task_id=parent.task.task_id,
            what=what,
            rule=rule,
            why=why,
            reach=reach,
            expires_at=(datetime.now(UTC) + timedelta(seconds=self._timeout)).isoformat(),
        )
        await self._require_room(parent.task, request)
        self._open[approval_id] = (parent.task, request)
        try:
            await self._bus.commit([seal(subject, request, expect=0)])
        except Conflict:
            stored = await self._read_request(approval_id)
            if stored is None:
                raise
            self._open[approval_id] = (parent.task, stored)
            return stored
        return request

    async def _require_room(self, task: Task, wanted: ApprovalRequest) -> None:
        """Raise NotApproved if a further request is more than may wait; one that waits already is none."""
        if wanted.approval_id in self._open or not self._count_too_many(task):
            return
        for approval_id, (of_task, request) in list(self._open.items()):
            if await self._is_over(of_task, request):
                self._open.pop(approval_id, None)
        if number := self._count_too_many(task):
            raise NotApproved(
                f"{number} requests wait for a person already, so this one is not made: "
                f"{flatten(wanted.what, 200)}",
                "Answer some of 'mailroom approvals list' first",
            )

    def _count_too_many(self, task: Task) -> int:
        """How many requests wait, of ``task`` or of all, if no further one may; else 0."""
        mine = sum(of_task.task_id == task.task_id for of_task, _ in self._open.values())
        if mine >= MAX_OPEN_OF_TASK:
            return mine
        return len(self._open) if len(self._open) >= MAX_OPEN else 0

    async def _is_over(self, task: Task, request: ApprovalRequest) -> bool:
        """Whether a request is answered or expired, or its task has ended."""
        expires = datetime.fromisoformat(request.expires_at)
        if datetime.now(UTC) >= expires or await self._answer(request):
            return True
        state = await read_task(self._bus, task)
        return state is not None and state.status.final

    async def _read_request(self, approval_id: str) -> ApprovalRequest | None:
        subject = subjects.approval_asked(self._bus.name, approval_id)
        record = await read_record(self._bus, subject, ApprovalRequest)
        return record.value if record else None

    async def _answer(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """The answer that came in time; a grant of another text is none."""
        subject = subjects.approval_answered(self._bus.name, request.approval_id)
        try:
            record = await read_record(self._bus, subject, ApprovalAnswer)
        except ValueError:
            return None
        if record is None or parse_timestamp(record.stored_at) > parse_timestamp(request.expires_at):
            return None
        if record.value.granted and not record.value.allows(request):
            log.warning("grant_of_another_text", approval_id=request.approval_id)
            return None
        return record.value


def _scope(task: Task) -> tuple[str, ...]:
    if task.goal_id and task.requester in (subjects.CONDUCTOR, subjects.USER):
        return ("goal", task.goal_id)
    return ("task", task.requester, task.task_id)


def _opened(request: ApprovalRequest, answer: ApprovalAnswer) -> frozenset[str]:
    return frozenset((*request.reach, *(f"host:{host}" for host in answer.hosts)))
