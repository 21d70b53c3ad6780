"""What stands in the office: goals, what waits for people, dead letters, conversations, deliveries."""

import asyncio
import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.records import Record, read_record
from shared.clock import parse_timestamp
from shared.contracts import (
    ApprovalAnswer,
    ApprovalRequest,
    Contract,
    Conversation,
    DailySpending,
    DeadLetter,
    Delivery,
    DeliveryReply,
    Email,
    Goal,
    InboxChanged,
    LettersDropped,
    SentEmail,
    StateChanged,
)
from shared.contracts.base import amended
from shared.queries.records import count_subjects, read_last, read_newest_of_each, scan
from shared.text.times import parse_time
from shared.views.desk import LIFETIME
from shared.views.status import DeadLetters, Waiting

MAX_CONCURRENT = 32  # Records that are read side by side
MAX_RECORDS = 20_000  # The most records of a kind that are read
FAILED_FOR = timedelta(days=7)  # Goals that failed longer ago wait for nobody
TASKS_FOR = timedelta(days=7)  # The tasks of goals that ended longer ago are not kept
ASKED_WITHIN = timedelta(days=14)  # Questions that are older wait for nobody

C = TypeVar("C", bound=Contract)


def select_failed(goals: Iterable[Goal], again: Collection[str]) -> list[Goal]:
    """The goals that failed within FAILED_FOR, unless they were done ``again`` since."""
    since = datetime.now(UTC) - FAILED_FOR
    return [
        goal
        for goal in goals
        if goal.failed and goal.goal_id not in again and goal.ended_at and parse_time(goal.ended_at) > since
    ]


def is_question(sent: SentEmail, ended: Collection[str]) -> bool:
    """Whether a letter to a person waits for an answer, by what its sender noted; ``ended`` are goals.

    It does if a task waits for the answer, or if it ends with a question mark.
    """
    asks = sent.awaited or sent.email.body.rstrip().endswith("?")
    recent = parse_time(sent.email.created_at) > datetime.now(UTC) - ASKED_WITHIN
    return asks and recent and sent.answer is None and sent.email.goal_id not in ended


class OfficeReader:
    """Reads records of the office under the rights of people or of nexus.

    A record that did not change is read once. With ``newest``, people read that many requests and letters of
    each agent at most, the newest ones, each time.
    """

    def __init__(self, bus: Bus, newest: int = 0) -> None:
        self._bus, self._newest, self._bounded = bus, newest, False
        self._known: dict[str, tuple[int, Any]] = {}
        self._gate = asyncio.Semaphore(MAX_CONCURRENT)

    async def goals(self) -> list[Goal]:
        """Every goal, the one that was submitted last at the end; without most of what a goal has.

        Goals that are parts of a task are none of people's.
        """
        records = await self._read(subjects.goal("*"), StateChanged)
        goals = [each.goal for each, _ in records if each.goal is not None and not each.goal.part_of]
        return sorted(goals, key=lambda goal: parse_time(goal.submitted_at))

    async def waiting(self, goals: Collection[Goal]) -> Waiting:
        """What waits for a person; ``goals`` are those known."""
        approvals, questions, dead, put_aside = await asyncio.gather(
            self.approvals(goals), self._questions(goals), self._dead_letters(), self._put_aside()
        )
        again = {goal.retry_of for goal in goals}
        failed = select_failed(goals, again)
        aside = {each.id for each in put_aside.put_aside}
        of_agents = [each.agent for each in put_aside.put_aside if each.id.startswith("dead_letter:")]
        return Waiting(
            approvals=approvals,
            questions=[each for each in questions if f"question:{each.id}" not in aside],
            dead_letters=[left for each in dead if (left := _without(each, of_agents, aside)).count],
            asking=[
                each
                for each in goals
                if each.question and each.goal_id not in again and f"question:{each.goal_id}" not in aside
            ],
            failed_goals=[each for each in failed if f"failed_goal:{each.goal_id}" not in aside],
            bounded=self._bounded,
        )

    async def approvals(self, goals: Collection[Goal]) -> list[ApprovalRequest]:
        """The requests that wait for an answer, the latest last; ``goals`` are those known."""
        if self._newest:
            asked = await self._read_newest(subjects.approval_asked("{agent}", "*"), ApprovalRequest)
            names = [subjects.approval_answered(each.sender, each.approval_id) for each, _ in asked]
            answered = _decode_all((await self._read_last(names)).values(), ApprovalAnswer)
        else:
            asked, answered = await asyncio.gather(
                self._read(subjects.approval_asked("*", "*"), ApprovalRequest),
                self._read(subjects.approval_answered("*", "*"), ApprovalAnswer),
            )
        answers = {answer.approval_id: answer for answer, _ in answered}
        settled_goals = {goal.goal_id for goal in goals if goal.status.final}
        now = datetime.now(UTC)
        return [
            request
            for request, _ in asked
            if not _is_settled(request, answers.get(request.approval_id))
            and request.goal_id not in settled_goals
            and parse_time(request.expires_at) > now
        ]

    async def sent(self) -> list[SentEmail]:
        """Agents' letters to people of which the sender keeps a record, the latest last."""
        sent = await self._read(subjects.record("*", "letter", "*"), SentEmail)
        found = [each for each, _ in sent if each.email.recipient == subjects.USER]
        return sorted(found, key=lambda each: each.email.created_at)

    async def spending(self, day: str) -> list[DailySpending]:
        """What each agent used of its model on ``day`` (UTC, as 2026-01-02), the most tokens first."""
        found = [each for each, _ in await self._read(subjects.record("*", "spending", day), DailySpending)]
        return sorted(found, key=lambda each: -(each.input_tokens + each.output_tokens))

    async def _questions(self, goals: Collection[Goal]) -> list[Email]:
        ended = {goal.goal_id for goal in goals if goal.status.final}
        if self._newest:
            sent = await self._read_newest(subjects.record("{agent}", "letter", "*"), SentEmail)
        else:
            sent = await self._read(subjects.record("*", "letter", "*"), SentEmail)
        return [
            each.email
            for each, _ in sent
            if each.email.recipient == subjects.USER and is_question(each, ended)
        ]

    async def _dead_letters(self) -> list[DeadLetters]:
        """The dead letters of each agent that has some."""
        counts = await count_subjects(self._bus, subjects.OFFICE, subjects.dead("*"))
        for record, _ in await self._read(subjects.dropped("*"), LettersDropped):
            counts[subjects.dead(record.recipient)] -= len(record.numbers)
        return [
            DeadLetters(agent=letter.sender, count=number, number=seq, last=letter)
            for letter, seq in await self._read(subjects.dead("*"), DeadLetter)
            if (number := counts.get(subjects.dead(letter.sender)))
        ]

    async def _put_aside(self) -> InboxChanged:
        try:
            record = await read_record(self._bus, subjects.PUT_ASIDE, InboxChanged)
        except ValueError:
            record = None
        return record.value if record else InboxChanged()

    async def _read(self, pattern: str, kind: type[C]) -> list[tuple[C, int]]:
        """The last message of each subject that matches, and its sequence, in the order of storage.

        What is no ``kind`` is left out.
        """
        counts = await count_subjects(self._bus, subjects.OFFICE, pattern)
        if len(self._known) > MAX_RECORDS:
            self._known.clear()
        names = list(counts)[:MAX_RECORDS]
        changed = [name for name in names if self._known.get(name, (0, None))[0] != counts[name]]
        found = await self._read_last(changed)
        for name in changed:
            stored = found.get(name)
            value = _decode(stored, kind) if stored is not None else None
            self._known[name] = (counts[name], (value, stored.seq) if stored and value else None)
        known = (self._known[name][1] for name in names)
        return sorted((each for each in known if each is not None), key=lambda each: each[1])

    async def _read_newest(self, pattern: str, kind: type[C]) -> list[tuple[C, int]]:
        """The same of the newest messages of each agent alone."""
        found, older = await read_newest_of_each(self._bus, pattern, self._newest)
        self._bounded = self._bounded or bool(older)
        last = {stored.subject: stored for stored in found}
        return sorted(_decode_all(last.values(), kind), key=lambda each: each[1])

    async def _read_last(self, names: Sequence[str]) -> dict[str, Stored]:
        if self._bus.name in subjects.PEOPLE:
            return await read_last(self._bus, subjects.OFFICE, names)
        # an agent has to ask for each by its subject
        found = await asyncio.gather(*(self._last(name) for name in names))
        return {stored.subject: stored for stored in found if stored is not None}

    async def _last(self, name: str) -> Stored | None:
        async with self._gate:
            return await self._bus.last(subjects.OFFICE, name)


def _without(letters: DeadLetters, of_agents: Sequence[str], aside: Collection[str]) -> DeadLetters:
    """``letters`` without those put aside; of these some may have been sent again or dropped since."""
    left = letters.count - of_agents.count(letters.agent)
    least = 0 if f"dead_letter:{letters.number}" in aside else 1
    return msgspec.structs.replace(letters, count=max(left, least))


def _is_settled(request: ApprovalRequest, answer: ApprovalAnswer | None) -> bool:
    return answer is not None and (not answer.granted or answer.allows(request))


def _decode_all(found: Iterable[Stored], kind: type[C]) -> list[tuple[C, int]]:
    return [(value, stored.seq) for stored in found if (value := _decode(stored, kind)) is not None]


def _decode(stored: Stored, kind: type[C]) -> C | None:
    try:
        value = kind.from_json(stored.data)
    except ValueError:
        return None
    if isinstance(value, StateChanged) and value.goal is not None:
        # thousands of goals are kept: without what fills most of their records
        old = value.goal.ended_at and parse_time(value.goal.ended_at) < datetime.now(UTC) - TASKS_FOR
        tasks = () if old else tuple(amended(each, params={}, summary="") for each in value.goal.tasks)
        goal = amended(value.goal, tasks=tasks, earlier=(), instructions=(), said=None, parameters={})
        return amended(value, goal=goal, spans=())
    return value


KIND = "conversation"


def conversation_subject(asker: str, session_id: str) -> str:
    """The record of a conversation with ``asker``: people, or an agent."""
    name = hashlib.sha256(f"{asker}\0{session_id}".encode()).hexdigest()[:32]
    return subjects.record(subjects.NEXUS, KIND, name)


async def read_conversation(bus: Bus, session_id: str, asker: str = subjects.USER) -> Record[Conversation]:
    """A conversation with its sequence; without turns and 0 if it never began or is too old.

    Raises BusError, and ValueError if what is stored is no conversation.
    """
    found = await read_record(bus, conversation_subject(asker, session_id), Conversation)
    if found is not None and not is_over(found.value):
        return found
    now = datetime.now(UTC).isoformat()
    fresh = Conversation(session_id=session_id, asker=asker, begun_at=now)
    return Record(fresh, found.seq if found else 0, "")


def is_over(conversation: Conversation, now: datetime | None = None) -> bool:
    """Whether a conversation is too old to be continued."""
    return (now or datetime.now(UTC)) - parse_timestamp(conversation.created_at) > LIFETIME


DELIVERIES = subjects.record(subjects.GATEWAY, subjects.DELIVERY, "*")
REPLIES = subjects.record(subjects.GATEWAY, subjects.REPLY, "*")


async def read_deliveries(bus: Bus, since: datetime) -> list[Delivery]:
    """The last record of each delivery that changed since then, those that began last at the end."""
    found: dict[str, Delivery] = {}
    async for stored in scan(bus, subjects.OFFICE, DELIVERIES, since=since):
        try:
            delivery = Delivery.from_json(stored.data)
        except ValueError:
            continue
        found[delivery.delivery_id] = delivery
    return sorted(found.values(), key=lambda each: each.first_at)


async def read_replies(bus: Bus, since: datetime) -> list[DeliveryReply]:
    """What people replied since then, the latest last."""
    found = []
    async for stored in scan(bus, subjects.OFFICE, REPLIES, since=since):
        try:
            found.append(DeliveryReply.from_json(stored.data))
        except ValueError:
            continue
    return found


async def read_dropped(bus: Bus) -> dict[str, frozenset[int]]:
    """The numbers of the dead letters that were dropped or sent again, by the agent that wrote them."""
    names = await count_subjects(bus, subjects.OFFICE, subjects.dropped("*"))
    dropped: dict[str, frozenset[int]] = {}
    for subject, stored in (await read_last(bus, subjects.OFFICE, names)).items():
        numbers = LettersDropped.from_json(stored.data).numbers
        dropped[subject.rpartition(".")[2]] = frozenset(numbers)
    return dropped


async def count_dead_letters(bus: Bus) -> dict[str, int]:
    """How many dead letters each agent has that were not dropped."""
    dropped = await read_dropped(bus)
    counts = await count_subjects(bus, subjects.OFFICE, subjects.dead("*"))
    left = {
        agent: number - len(dropped.get(agent, ()))
        for subject, number in counts.items()
        if (agent := subject.rpartition(".")[2])
    }
    return {agent: number for agent, number in left.items() if number}


async def find_dead_letter(bus: Bus, agent: str, seq: int) -> DeadLetter | None:
    """The dead letter of ``agent`` about message ``seq`` of OFFICE, unless it was dropped or sent again."""
    async for stored in scan(bus, subjects.OFFICE, subjects.dead(agent), seq=seq):
        try:
            letter = DeadLetter.from_json(stored.data)
        except ValueError:
            continue
        if (letter.stream, letter.stream_seq) == (subjects.OFFICE, seq):
            dropped = await read_dropped(bus)
            return None if stored.seq in dropped.get(agent, ()) else letter
    return None
