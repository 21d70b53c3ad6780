"""What people are told, made from the messages of the log."""

import re
from datetime import timedelta

import msgspec

from services.gateway.call import Gateway
from services.gateway.inbox import is_question
from shared import subjects
from shared.access.address import public_address
from shared.bus import Stored
from shared.clock import seconds_between
from shared.contracts import (
    AgentReport,
    ApprovalRequest,
    DeadLetter,
    DeliveryKind,
    Email,
    Goal,
    Response,
    StateChanged,
    TaskStatus,
    decode,
)
from shared.operations.letters import parse_mail
from shared.text.display import flatten, quote_exactly
from shared.views.listed import Mail

TITLE, LINE, BODY = 200, 400, 8_000  # The most characters of a title, of a line and of a text
ASKED = "told"  # What the ids of questions begin with that people asked by replying
_REMINDER = re.compile(r"\breminders \w+ (r[0-9a-f]{6,40})\b")
_COMMAND = re.compile(r"^.*\bmailroom reminders .*$\n?", re.MULTILINE)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to tell; ``key`` is the same however often the log is read. ``about`` is as in Delivery.

    ``channel`` is the only one that tells it, empty for all that tell its kind.
    """

    key: str
    kind: DeliveryKind
    title: str
    text: str = ""
    goal_id: str = ""
    about: str = ""
    link: str = ""
    channel: str = ""


async def make_event(stored: Stored, gateway: Gateway, long_goal: timedelta) -> Event | None:
    """The event of a message, if people are to know of it."""
    try:
        envelope = decode(stored.data)
    except ValueError:
        return None
    address = public_address(gateway.settings, gateway.url)
    match envelope:
        case StateChanged(goal=Goal() as goal) if goal.status.final and goal.ended_at:
            return _goal_event(goal, long_goal, address)
        case ApprovalRequest():
            return _approval_event(envelope, address)
        case DeadLetter():
            return Event(
                key=f"{stored.stream}-{stored.seq}",
                kind=DeliveryKind.DEAD_LETTER,
                title=flatten(f"{envelope.sender} could not handle a message", TITLE),
                text=flatten(envelope.reason, BODY),
                goal_id=envelope.goal_id,
                link=f"{address}/",
            )
        case Email() | AgentReport() | Response():
            sender = subjects.Address.of(stored.subject).sender
            # Briefings and answers are the desk's alone: another's would be told as if the desk said it.
            if envelope.sender in ("", sender) and (isinstance(envelope, Email) or sender == subjects.NEXUS):
                if isinstance(envelope, AgentReport):
                    return (
                        _briefing_event(envelope, address)
                        if envelope.report_type.endswith("_briefing")
                        else None
                    )
                if isinstance(envelope, Response):
                    return _answer_event(envelope)
                found = _REMINDER.search(envelope.body)
                if sender == subjects.NEXUS and envelope.subject.startswith("Reminder: ") and found:
                    return Event(
                        key=envelope.id,
                        kind=DeliveryKind.REMINDER,
                        title=flatten(envelope.subject, TITLE),
                        text=_COMMAND.sub("", envelope.body).strip()[:BODY],
                        about=found[1],
                        link=f"{address}/timetable",
                    )
                mail = parse_mail(stored)
                if mail is None or not await is_question(gateway, mail):
                    return None
                return _question_event(mail, address)
    return None


def _goal_event(goal: Goal, long_goal: timedelta, address: str) -> Event | None:
    failed = goal.failed
    long = seconds_between(goal.submitted_at, goal.ended_at) >= long_goal.total_seconds()
    if not failed and not (goal.status is TaskStatus.COMPLETED and long):
        return None
    state = goal.standing.capitalize()
    return Event(
        key=f"{goal.goal_id}-{goal.ended_at}",
        kind=DeliveryKind.GOAL_FAILED if failed else DeliveryKind.GOAL_DONE,
        title=flatten(f"{state}: {goal.text}", TITLE),
        text=quote_exactly(goal.reason or goal.answer, BODY, f"at {address}/goals/{goal.goal_id}"),
        goal_id=goal.goal_id,
        link=f"{address}/goals/{goal.goal_id}",
    )


def _approval_event(request: ApprovalRequest, address: str) -> Event:
    why = f"Why it asks: {flatten(request.why, LINE)}" if request.why else ""
    until = f"Without an answer it is refused at {request.expires_at[:16].replace('T', ' ')} UTC."
    link = f"{address}/goals/{request.goal_id}" if request.goal_id else f"{address}/"
    return Event(
        key=f"{request.sender}-{request.approval_id}",
        kind=DeliveryKind.APPROVAL,
        title=flatten(f"{request.sender} asks: {request.what}", TITLE),
        text="\n\n".join(filter(None, (quote_exactly(request.what, BODY, f"at {link}"), why, until))),
        goal_id=request.goal_id,
        about=request.approval_id,
        link=link,
    )


def _question_event(mail: Mail, address: str) -> Event:
    return Event(
        key=mail.id,
        kind=DeliveryKind.QUESTION,
        title=flatten(f"{mail.sender} asks: {mail.subject or mail.body}", TITLE),
        text=quote_exactly(mail.body, BODY, f"at {address}/"),
        about=str(mail.number),
        link=f"{address}/",
    )


def _briefing_event(report: AgentReport, address: str) -> Event:
    return Event(
        key=report.report_id,
        kind=DeliveryKind.BRIEFING,
        title=flatten(report.summary.split("\n")[0], TITLE),
        text="\n".join(f"- {each}" for each in report.findings)[:BODY] or report.summary[:BODY],
        link=f"{address}/",
    )


def _answer_event(response: Response) -> Event | None:
    """The answer to what a person wrote on a channel, which the dispatcher finds by the question's id."""
    if not response.cause.startswith(ASKED):
        return None
    return Event(
        key=response.cause,
        kind=DeliveryKind.ANSWER,
        title="",
        text=response.text[:BODY],
        goal_id=response.goal_id,
        about=response.cause,
    )
