"""The inbox: all that waits for a person, dead letters among it, and what people answered lately."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from services.gateway.api.approvals import MAX_LIMIT, with_goal
from services.gateway.api.goals import summarize_goals
from services.gateway.call import Call, Gateway
from services.gateway.inbox import put_item_aside, read_dead, read_put_aside, read_questions, read_requests
from services.gateway.problems import not_found
from services.gateway.routing import API, Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.contracts import DeadLetter, Goal, PutAside, generate_iso_timestamp
from shared.operations.approvals import agent_of
from shared.operations.dead_letters import read_dead_letter
from shared.queries.office import select_failed
from shared.queries.records import select_fairly
from shared.text.display import flatten
from shared.text.times import parse_time
from shared.views.approval import Approval
from shared.views.listed import Answered, DeadLetterList, DeadLetterView, Inbox, InboxItem, Mail
from shared.views.timeline import GoalSummary

RECENT = timedelta(days=1)  # Answers older than this are left out
MAX_EACH = 200  # The most items of one kind
MAX_ASKING = 1_000  # Goals that are looked through for those that ask something
TEXT = 300


async def read_inbox(call: Call) -> Inbox:
    """All that waits for a person: approvals, questions, dead letters, failed goals nobody looked at.

    A goal that asks its person something is a question too: POST /goals/{goal_id}/say answers it.
    """
    gateway = call.gateway
    aside, requests, questions, dead = await asyncio.gather(
        read_put_aside(gateway), read_requests(gateway), read_questions(gateway), _read_dead(gateway)
    )
    # Goals of the last days that failed, unless they were done again since
    store = gateway.index.store
    failed = store.failed_goals(MAX_EACH)
    failed = select_failed(failed, store.repeated_since(failed[0].goal_id)) if failed else []
    asking = store.asking_goals(MAX_ASKING)
    again = store.repeated_since(asking[0].goal_id) if asking else set()
    recent = select_fairly(requests.approvals, agent_of, MAX_EACH)
    approvals = [with_goal(gateway, each) for each in recent]
    items = [
        *(_approval_item(each) for each in approvals if each.state == "waiting"),
        *(_question_item(each) for each in questions.open),
        *(_asking_item(each) for each in asking if each.goal_id not in again),
        *(_dead_item(each) for each in dead),
        *map(_failed_item, await summarize_goals(gateway, failed)),
    ]
    waiting = sorted((each for each in items if each.id not in aside), key=lambda each: each.since)
    return Inbox(waiting=waiting, answered=_answered(approvals, questions.answered, aside))


async def put_aside(call: Call) -> None:
    """Take an item out of the inbox for everybody; what it stands for is not changed."""
    item_id = call.path["item_id"]
    kind, _, rest = item_id.partition(":")
    if kind not in ("question", "dead_letter", "failed_goal") or not rest or len(item_id) > 200:
        raise not_found(f"item {item_id[:80]!r}", "Approvals are answered; other items have ids of the inbox")
    agents = {f"dead_letter:{each.number}": each.agent for each in await _read_dead(call.gateway)}
    item = PutAside(
        id=item_id, agent=agents.get(item_id, ""), by=call.person.name, created_at=generate_iso_timestamp()
    )
    await put_item_aside(call.gateway, item)


def _approval_item(view: Approval) -> InboxItem:
    return InboxItem(
        id=f"approval:{view.approval_id}",
        kind="approval",
        title=f"{view.agent} asks: may I?",
        text=flatten(view.what, TEXT),
        agent=view.agent,
        since=view.asked_at,
        goal_id=view.goal_id,
        approval=view,
    )


def _question_item(mail: Mail) -> InboxItem:
    return InboxItem(
        id=f"question:{mail.id}",
        kind="question",
        title=flatten(mail.subject, TEXT) or f"{mail.sender} asks",
        text=flatten(mail.body, TEXT),
        agent=mail.sender,
        since=mail.created_at,
        question=mail,
    )


def _asking_item(goal: Goal) -> InboxItem:
    return InboxItem(
        id=f"question:{goal.goal_id}",
        kind="question",
        title=flatten(goal.text, TEXT),
        text=flatten(goal.question, TEXT),
        agent=subjects.CONDUCTOR,
        since=goal.ended_at,
        goal_id=goal.goal_id,
        asked=goal.question,
    )


async def _read_dead(gateway: Gateway) -> list[DeadLetterView]:
    found, _ = await read_dead(gateway, MAX_EACH)
    return [view_dead_letter(number, letter, MAX_ORIGINAL) for number, letter in found]


def _dead_item(view: DeadLetterView) -> InboxItem:
    return InboxItem(
        id=f"dead_letter:{view.number}",
        kind="dead_letter",
        title=f"{view.agent} could not handle a message",
        text=flatten(view.reason, TEXT),
        agent=view.agent,
        since=view.since,
        goal_id=view.goal_id,
        dead_letter=view,
    )


def _failed_item(goal: GoalSummary) -> InboxItem:
    return InboxItem(
        id=f"failed_goal:{goal.goal_id}",
        kind="failed_goal",
        title=goal.title,
        text=goal.summary or f"It ended: {goal.status}",
        agent="",
        since=goal.ended_at,
        goal_id=goal.goal_id,
        goal=goal,
    )


def _answered(
    approvals: list[Approval], replies: list[tuple[Mail, Mail]], aside: dict[str, PutAside]
) -> list[Answered]:
    found = [
        Answered(
            id=f"approval:{each.approval_id}",
            kind="approval",
            title=flatten(each.what, TEXT),
            outcome=each.state,
            by=each.answer.person,
            at=each.answer.created_at,
            goal_id=each.goal_id,
            note=each.answer.note,
        )
        for each in approvals
        if each.answer is not None
    ]
    found += [
        Answered(
            id=f"question:{mail.id}",
            kind="question",
            title=flatten(mail.subject or mail.body, TEXT),
            outcome="answered",
            by=reply.person,
            at=reply.created_at,
            note=flatten(reply.body, TEXT),
        )
        for mail, reply in replies
    ]
    found += [
        Answered(
            id=item, kind=item.partition(":")[0], title="", outcome="seen", by=each.by, at=each.created_at
        )
        for item, each in aside.items()
    ]
    since = datetime.now(UTC) - RECENT
    recent = [each for each in found if parse_time(each.at) > since]
    return sorted(recent, key=lambda each: each.at, reverse=True)[:MAX_EACH]


MAX_ORIGINAL = 4_000  # Characters of a message that a list shows of it


class DeadLetterQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters: of one agent, or of each in turn."""

    agent: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)] = 500


async def list_dead_letters(call: Call, query: DeadLetterQuery) -> DeadLetterList:
    """The latest dead letters, latest last."""
    found, more = await read_dead(call.gateway, query.limit, query.agent)
    shown = [view_dead_letter(number, letter, MAX_ORIGINAL) for number, letter in found]
    return DeadLetterList(dead_letters=shown, total=len(shown) + sum(more.values()), more=more)


async def show_dead_letter(call: Call) -> DeadLetterView:
    """A dead letter, and what is kept of its message."""
    text = call.path["number"]
    number = int(text) if text.isdecimal() and len(text) <= 18 else 0
    return view_dead_letter(number, await read_dead_letter(call.gateway.bus, number))


def view_dead_letter(number: int, letter: DeadLetter, characters: int | None = None) -> DeadLetterView:
    """A dead letter as it is shown, with so many characters of its message; None: all that is kept."""
    return DeadLetterView(
        number=number,
        agent=letter.sender,
        reason=letter.reason,
        subject=letter.subject,
        since=letter.created_at,
        deliveries=letter.deliveries,
        goal_id=letter.goal_id,
        task_id=letter.task_id,
        stream=letter.stream,
        stream_seq=letter.stream_seq,
        headers=letter.headers,
        original=letter.original[:characters],
        original_size=letter.original_size,
    )


ENDPOINTS = (
    Endpoint("GET", f"{API}/inbox", read_inbox, scope=Scope.READ, tag="inbox"),
    Endpoint("POST", f"{API}/inbox/{{item_id}}/seen", put_aside, scope=Scope.SUBMIT, tag="inbox"),
    Endpoint("GET", f"{API}/dead-letters", list_dead_letters, scope=Scope.READ, tag="dead letters"),
    Endpoint("GET", f"{API}/dead-letters/{{number}}", show_dead_letter, scope=Scope.READ, tag="dead letters"),
)
