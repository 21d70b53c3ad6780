"""The record of each conversation: read before a message, stored in one commit with its answer.

A message that is delivered again finds its turn there, and is not answered twice. Two messages of a
conversation that are handled at once write one after the other: the second is handled again.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from services.nexus.conversation.mentions import find_mentioned
from services.nexus.conversation.pending import Resolved
from services.nexus.conversation.resolve import resolve
from services.nexus.routing.request import Request
from shared import subjects
from shared.agent.base import Outbox
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import Record, cancelling_entry, read_submitted
from shared.clock import parse_timestamp
from shared.contracts import (
    AskedBack,
    Conversation,
    ConversationTurn,
    Envelope,
    Response,
    ResultOutcome,
    StopAnswer,
    Task,
    TaskStatus,
    Told,
)
from shared.contracts.emails import CUT, MAX_TOLD, MAX_TURNS
from shared.language.utterance import is_question, is_statement, read_utterance
from shared.queries.office import conversation_subject, read_conversation

FORMS = frozenset({"reminders"})  # Sessions that are no conversations: what forms of the dashboard send
ANOTHERS = "This conversation is another person's. Begin one of your own."
STOPPED = "Stopped, as you asked: nothing more is done for this."
RECENT = timedelta(minutes=30)  # For how long "it" means the reminder that was spoken of last
Handle = Callable[[Request], Awaitable[Outbox]]


TALK = ("tool:small_talk", "tool:statement")
"""The routes of talk between messages: what follows goes on with what was before it."""
_KEEP = re.compile(r"(?i)^remember\s+that\s+")
_KEEPING = ("tool:remember", "tool:correct")
_TOLD = ("tool:small_talk", "tool:unclear")  # Routes of what is no statement, or was understood as none


class Conversations:
    """The conversations of people with nexus; what agents write is handled without one."""

    def __init__(self, bus: Bus, *, with_model: Callable[[], bool]) -> None:
        """``with_model`` is whether a model reads the conversation itself."""
        self._bus = bus
        self._with_model = with_model

    async def hold(self, request: Request, handle: Handle) -> Outbox:
        """What follows from a message in its conversation: ``handle`` gets what it stands for."""
        if request.asker != subjects.USER or request.session in FORMS:
            return [_sent(each, request) for each in await handle(request)]
        record = await read_conversation(self._bus, request.session)
        conversation = record.value
        if not may_continue(conversation, request.person):
            refusal = Response(text=ANOTHERS, outcome=ResultOutcome.FAILED)
            return [_sent(request.reply(refusal), request)]
        if any(turn.id == request.letter_id for turn in conversation.turns):
            return ()
        with_model = self._with_model()
        said, now = request.utterance, datetime.now(UTC)
        resolved = resolve(said, conversation, now, with_model=with_model)
        if read_utterance(resolved.understood).plain == said.plain:  # it stands for itself
            resolved = msgspec.structs.replace(resolved, understood="")
        whole = place(request, conversation, resolved)
        if with_model:
            replaces = whole.replaces or resolve(said, conversation, now).replaces
            whole = msgspec.structs.replace(
                whole,
                talk=conversation,
                wrote=resolved.text if resolved.understood else request.text,
                replaces=replaces,
            )
        if resolved.reply:
            outbox: Outbox = [request.reply(reply_of(resolved))]
        else:
            outbox = await handle(whole)
        begun = begin(conversation, request, resolved)
        return self._close(record, begun, request, outbox)

    async def complete(self, request: Request, outbox: Outbox) -> Outbox:
        """What follows from the result of a task, for its conversation; nothing if it was stopped."""
        if request.asker != subjects.USER or request.session in FORMS or not outbox:
            return [_sent(each, request) for each in outbox]
        record = await read_conversation(self._bus, request.session)
        turn = _find_turn(record.value, request.letter_id)
        if turn is None:  # there were many since: it is answered, and no part of what is talked about
            return [_sent(each, request) for each in outbox]
        if turn.state == "stopped":
            return ()
        return self._close(record, record.value, request, outbox)

    async def stop(self, order: StopAnswer) -> Outbox:
        """End what is done for a question, and answer that it was; nothing if it is answered already."""
        record = await read_conversation(self._bus, order.session_id)
        conversation = record.value
        turn = _find_turn(conversation, order.question_id)
        if not may_continue(conversation, order.person) or (turn and turn.state != "waiting"):
            return ()
        known = turn or ConversationTurn(id=order.question_id, text="")
        ended = msgspec.structs.replace(known, state="stopped", answer=STOPPED)
        changed = _with_turn(conversation, ended)
        if not turn:  # it comes before its question: that one then finds itself stopped
            changed = msgspec.structs.replace(changed, owner=conversation.owner or order.person)
        response = Response(
            text=STOPPED, recipient=order.sender, cause=order.question_id, outcome=ResultOutcome.FAILED
        )
        return [*await self._cancelled(known), response, self._entry(record, changed)]

    async def _cancelled(self, turn: ConversationTurn) -> list[Entry]:
        """The entry that ends the task of a turn, if it has one that is open."""
        if not turn.task_id:
            return []
        task = await read_submitted(self._bus, turn.assignee, self._bus.name, turn.task_id)
        if task is None:
            return []
        entry, _ = await cancelling_entry(
            self._bus, task, "the person stopped the answer", status=TaskStatus.CANCELLED
        )
        return [entry] if entry else []

    def _close(
        self, record: Record[Conversation], conversation: Conversation, request: Request, outbox: Outbox
    ) -> Outbox:
        """``outbox`` as it is sent, with the record of what it says."""
        for each in outbox:
            if isinstance(each, Response) and each.cause == request.letter_id:
                conversation = answer(conversation, each)
            elif isinstance(each, Task):
                letter_id = request.letter_id
                turn = _find_turn(conversation, letter_id)
                assert turn is not None
                waiting = msgspec.structs.replace(turn, assignee=each.assignee, task_id=each.task_id)
                conversation = _with_turn(conversation, waiting)
        return [*(_sent(each, request) for each in outbox), self._entry(record, conversation)]

    def _entry(self, record: Record[Conversation], conversation: Conversation) -> Entry:
        fresh = Conversation(**{name: getattr(conversation, name) for name in _KEPT}, sender=self._bus.name)
        subject = conversation_subject(conversation.asker, conversation.session_id)
        return seal(subject, fresh, expect=record.seq)


def place(request: Request, conversation: Conversation, resolved: Resolved) -> Request:
    """``request`` as what it stands for in its conversation."""
    last = next((turn for turn in reversed(conversation.turns) if turn.route not in TALK), None)
    return msgspec.structs.replace(
        request,
        text=resolved.text,
        understood=resolved.understood,
        before=(last.meant or last.text) if last else "",
        before_route=last.route if last else "",
        before_failed=bool(last and last.failed),
        joined=resolved.joined,
        spoken=find_spoken(conversation, request.asked_at),
        replaces=resolved.replaces,
        told=conversation.told[::-1],
        just_told=_find_just_told(conversation),
        cited=next((each.ref for each in conversation.mentioned if each.what == "memory"), ""),
    )


def reply_of(resolved: Resolved) -> Response:
    """The answer to a message that is answered by what was said alone."""
    return Response(
        text=resolved.reply,
        asks=resolved.asks,
        route_used=resolved.route or "nexus",
        outcome=ResultOutcome.FAILED if resolved.asks else ResultOutcome.NONE,
    )


def find_spoken(conversation: Conversation, now: str) -> tuple[str, ...]:
    """The ids of the reminders that the last answer named, if that was not long before ``now``."""
    if not conversation.turns or not conversation.turns[-1].asked_at or not now:
        return ()
    age = parse_timestamp(now) - parse_timestamp(conversation.turns[-1].asked_at)
    return (
        tuple(each.ref for each in conversation.mentioned if each.what == "reminder") if age <= RECENT else ()
    )


_KEPT = (
    "session_id",
    "asker",
    "title",
    "owner",
    "begun_at",
    "questions",
    "turns",
    "asks",
    "mentioned",
    "told",
)


def may_continue(conversation: Conversation, person: str) -> bool:
    """Whether ``person`` (empty: the one at the machine) may go on with a conversation.

    Everybody may begin one. The one at the machine may go on with any, and the gateway decides who of the
    people may go on with those that were begun there.
    """
    return not conversation.questions or not person or conversation.owner in ("", person)


def begin(conversation: Conversation, request: Request, resolved: Resolved) -> Conversation:
    """The conversation with the message as its last turn; what was asked back is settled, or dropped."""
    first = not conversation.questions
    turn = ConversationTurn(
        id=request.letter_id,
        text=request.text[:CUT],
        meant=resolved.understood[:CUT],
        asked_at=request.asked_at,
    )
    changed = msgspec.structs.replace(
        conversation,
        questions=conversation.questions + 1,
        title=" ".join(request.text.split())[:200] if first else conversation.title,
        owner=request.person if first else conversation.owner,
        asks=None,
    )
    return _with_turn(changed, turn)


def answer(conversation: Conversation, response: Response) -> Conversation:
    """The conversation with an answer to one of its turns.

    The line before it, which says what the message was taken for, is no part of what was answered.
    """
    turn = _find_turn(conversation, response.cause)
    assert turn is not None
    answered = msgspec.structs.replace(
        turn,
        meant=turn.meant or response.understood[:CUT],
        answer=(response.text.partition("\n")[2] if response.understood else response.text)[:CUT],
        route=response.route_used,
        state="answered",
        failed=response.outcome is ResultOutcome.FAILED,
        goal_id=response.goal_id,
    )
    if turn is not conversation.turns[-1]:  # it comes late: what was talked about since is what is meant
        return _with_turn(conversation, answered)
    return msgspec.structs.replace(
        _with_turn(conversation, answered),
        asks=response.asks,
        mentioned=find_mentioned(response),
        told=_note_told(conversation.told, turn, response),
    )


def _note_told(told: Sequence[Told], turn: ConversationTurn, response: Response) -> tuple[Told, ...]:
    """``told`` with what an answer offers to keep, or a statement that was taken for something else; and
    without what was kept.
    """
    if response.route_used in _KEEPING and response.citations:
        kept = _KEEP.sub("", response.understood or turn.text)
        return tuple(each for each in told if each.text != kept)
    talk = response.route_used in _TOLD and is_statement(turn.text) and not is_question(turn.text)
    said = (_read_offer(response.asks) or (turn.text if talk else ""))[:CUT]
    if not said or any(each.text == said for each in told):
        return tuple(told)
    return (*told, Told(id=turn.id, text=said, asked_at=turn.asked_at))[-MAX_TOLD:]


def _find_just_told(conversation: Conversation) -> str:
    """What the last message told; empty if it told nothing."""
    last = conversation.turns[-1].id if conversation.turns else ""
    return next((each.text for each in conversation.told if each.id == last), "")


def _read_offer(asks: AskedBack | None) -> str:
    """The fact that an answer offers to keep; empty if it offers nothing like that."""
    offered = asks.choices[0].text if asks and len(asks.choices) == 1 else ""
    return _KEEP.sub("", offered) if _KEEP.match(offered) else ""


def _find_turn(conversation: Conversation, letter_id: str) -> ConversationTurn | None:
    return next((turn for turn in conversation.turns if turn.id == letter_id), None)


def _with_turn(conversation: Conversation, turn: ConversationTurn) -> Conversation:
    """The conversation with ``turn`` in the place of the one with its id, or as the last."""
    turns: Sequence[ConversationTurn] = conversation.turns
    if any(each.id == turn.id for each in turns):
        turns = [turn if each.id == turn.id else each for each in turns]
    else:
        turns = [*turns, turn]
    return msgspec.structs.replace(conversation, turns=tuple(turns[-MAX_TURNS:]))


def _sent(message: Envelope | Entry, request: Request) -> Envelope | Entry:
    """A message as it is sent: the answer to an email is an email of its thread."""
    if isinstance(message, Response) and message.cause == request.letter_id and request.subject is not None:
        return request.as_email(message)
    return message
