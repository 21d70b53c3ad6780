"""Reminders: the actions that set, list, change and end them, and what happens when one is due."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from services.nexus.routing.request import Request
from services.nexus.timetable.reminder_changes import (
    DEFAULT_SNOOZE,
    change_reminders,
    choose_reminders,
    fire,
    format_reminder,
    list_range,
    undo_change,
)
from services.nexus.timetable.reminder_requests import (
    ANSWERED,
    ReminderIntent,
    ReminderRequest,
    read_new,
    read_reminder_request,
    read_when,
)
from services.nexus.tools.tool import command
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Entry
from shared.bus.entry import seal
from shared.clock import format_moment, parse_timestamp
from shared.contracts import AskedBack, Choice, Due, DueKind, DueStatus, Email
from shared.contracts.emails import SLOT
from shared.errors import ActionError
from shared.memory.ownership import audience_read_for
from shared.recurrence import describe_recurrence, parse_recurrence
from shared.tasks.actions import Outcome, register_action
from shared.timetable import (
    ENDED,
    PUNCTUAL,
    Change,
    Known,
    TimetableKeeper,
    due_time,
    format_short,
    to_timestamp,
)

MAX_LISTED = 100  # reminders of a list
MAX_REMINDER = 1_000  # characters of a reminder
MAX_SNOOZE = 60.0 * 24 * 366  # minutes: a year
REMINDER = "Its id, the beginning of it, or words of its text"


class ReminderService:
    """Sets, lists and ends reminders, and sends each by email when it is due."""

    def __init__(self, context: AgentContext, keeper: TimetableKeeper) -> None:
        self._context = context
        self._keeper = keeper
        self._zone = keeper.zone

    # --- actions ---------------------------------------------------------------------------------

    @register_action(
        "Set a reminder for the user",
        {
            "text": "What to be reminded of; it may name the time, as in 'call Ana tomorrow at 9'",
            "when": "The time, if the text does not name it: plain words or ISO 8601",
        },
        personal=True,
    )
    async def set_reminder(self, text: str, when: str = "") -> Outcome:
        """The reminder in data key ``reminder``; raises ActionError, a question, if the time is not clear."""
        if when.strip():
            request = read_when(text, when, self._asked_at(), self._zone)
        else:
            request = read_new(text, self._asked_at(), self._zone)
        return await self._set(request, text)

    @register_action(
        "List the reminders",
        {"everything": "Whether to include those that are done or cancelled"},
        personal=True,
    )
    async def list_reminders(self, everything: bool = False) -> Outcome:
        """The open ones, the next one first, or ``everything``; data key ``reminders``."""
        known = await self._keeper.read()
        found = [each for each in known.of(DueKind.MAIL) if everything or each.status not in ENDED]
        return _listed(found, self._zone, known.problem)

    @register_action(
        "Snooze a reminder",
        {
            "reminder": REMINDER,
            "minutes": "For how many minutes: from now if it was sent, else from when it was due",
            "until": "Or until when: plain words or ISO 8601",
        },
        personal=True,
    )
    async def snooze_reminder(
        self, reminder: str, minutes: float = DEFAULT_SNOOZE, until: str = ""
    ) -> Outcome:
        """The reminder with its new time; raises ActionError if there is none, or it has ended."""
        return await self._change(
            ReminderRequest(
                intent=ReminderIntent.SNOOZE,
                about=_named(reminder),
                time=until.strip(),
                away=None if until.strip() else _minutes(minutes),
            ),
            reminder,
        )

    @register_action("Mark a reminder as done", {"reminder": REMINDER}, personal=True)
    async def finish_reminder(self, reminder: str) -> Outcome:
        """The reminder; raises ActionError if there is none, or it was cancelled."""
        return await self._change(
            ReminderRequest(intent=ReminderIntent.FINISH, about=_named(reminder)), reminder
        )

    @register_action("Cancel a reminder", {"reminder": REMINDER}, personal=True)
    async def cancel_reminder(self, reminder: str) -> Outcome:
        """The reminder; raises ActionError if there is none, or it was done."""
        return await self._change(
            ReminderRequest(intent=ReminderIntent.CANCEL, about=_named(reminder)), reminder
        )

    @register_action(
        "Do what a message asks about reminders: set, list, snooze, move, rename, finish, cancel, undo",
        {
            "text": "The message",
            "meaning": "What it means if its words do not say: set, list, change or cancel",
        },
        personal=True,
    )
    async def mind_reminders(self, text: str, meaning: str = "") -> Outcome:
        """The outcome of what the message means; raises ActionError, a question, if that is not clear."""
        asked = self._asked_at()
        known = await self._keeper.read()
        reminders, before = known.of(DueKind.MAIL), known.contents
        if before.cause == self._token("change", text):
            return _listed([each for each in reminders if each.due_id in before.changed], self._zone)
        request = read_reminder_request(text, asked, self._zone)
        if request.intent is None:
            request = _as_meant(text, meaning, asked, self._zone)
        if request.intent is ReminderIntent.SET:
            return await self._set(request, text)
        if request.intent is ReminderIntent.LIST:
            found = list_range(reminders, request.time, asked, self._zone)
            return _listed(found, self._zone, known.problem)
        return await self._change(request, text)

    # --- how ---------------------------------------------------------------------------------------

    async def _set(self, request: ReminderRequest, said: str) -> Outcome:
        if len(request.text) > MAX_REMINDER:
            raise ActionError(
                f"A reminder has at most {MAX_REMINDER:,} characters, and this one {len(request.text):,}"
            )
        wanted = [request, *request.also]
        if request.missing or request.when is None:
            raise self._ask(request.question, format_template(request, said), request.missing)
        new = [
            Due(
                due_id="r" + self._token("set", said, *([str(number)] if number else []))[:10],
                what=DueKind.MAIL,
                text=each.text,
                requester=subjects.USER,
                audience=audience_read_for(),
                at=to_timestamp(each.when or request.when),
                repeats=each.rrule,
            )
            for number, each in enumerate(wanted)
        ]

        async def step(_: Known) -> Change:
            undo = [msgspec.structs.replace(each, status=DueStatus.CANCELLED) for each in new]
            return Change(items=new, undo=undo)

        stored = await self._keeper.change(step, self._token("set", said))
        answers = [self._format_set(each, one.note) for each, one in zip(stored, wanted, strict=False)]
        return _outcome(stored, "\n".join(answers))

    def _format_set(self, stored: Due, note: str) -> str:
        due = self._format_due(stored)
        every = f"{describe_recurrence(parse_recurrence(stored.repeats))}, first " if stored.repeats else ""
        answer = f"I shall remind you {every}on {due}: {stored.text}"
        if due_time(stored) <= datetime.now(UTC):
            answer = f"That was to be on {due}, before I came to it, so it goes off now: {stored.text}"
        return (
            f"{answer}\n{note + ' ' if note else ''}It is reminder {stored.due_id}. "
            f"Not what you meant? mailroom reminders cancel {stored.due_id}"
        )

    async def _change(self, request: ReminderRequest, text: str) -> Outcome:
        """Change those that are meant; raises ActionError, which asks which one if there are several."""
        asked, spoken = self._asked_at(), self._spoken()
        told: list[str] = []
        several: list[Due] = []

        async def step(known: Known) -> Change:
            told.clear()
            several.clear()
            reminders = known.of(DueKind.MAIL)
            if request.intent is ReminderIntent.UNDO:
                restored = undo_change(reminders, known.contents.undo, spoken)
                told.extend(f"As it was: {format_reminder(each, self._zone)}" for each in restored)
                return Change(items=restored)
            found = choose_reminders(reminders, request, spoken, self._zone)
            if len(found) > 1 and not request.everything:
                several.extend(found)
                return Change()
            changed, lines = change_reminders(found, request, asked, self._zone)
            told.extend(lines)
            return Change(items=changed, undo=found)

        changed = await self._keeper.change(step, self._token("change", text))
        if several:
            lines = [
                f"{number}. {format_reminder(each, self._zone)}" for number, each in enumerate(several[:8], 1)
            ]
            question = f"That may mean {len(several)} reminders. Which one? Answer with its number, or 'all'."
            raise self._ask("\n".join([question, *lines]), "", "which", _choices(request, several[:8]))
        return _outcome(changed, "\n".join(told or [format_reminder(each, self._zone) for each in changed]))

    # --- when one is due -------------------------------------------------------------------------

    async def fire(self, due: Due, now: datetime) -> tuple[Due, Sequence[Entry]]:
        """The reminder after it went off, and its email."""
        fired = fire(due, now, self._zone)
        return fired, [self._email(due, fired)]

    def _email(self, reminder: Due, fired: Due) -> Entry:
        context, due = self._context, self._format_due(reminder)
        delay = parse_timestamp(fired.last_at) - due_time(reminder)
        late = f"\nIt comes late: it was due on {due}, when Mailroom was not running."
        if fired.repeats:
            follow_up = (
                f"It goes off again on {self._format_due(fired)}.\n"
                f"No more of it: mailroom reminders cancel {fired.due_id}"
            )
        else:
            follow_up = f"Done: mailroom reminders done {fired.due_id}"
        email = Email(
            id=context.bus.derive_id("reminded", reminder.due_id, reminder.at),
            sender=context.profile.name,
            recipient=reminder.requester,
            audience=reminder.audience,
            subject=f"Reminder: {' '.join(reminder.text.split())}"[:500],
            body=f"{reminder.text}\n\nYou wanted to be reminded of this on {due}."
            f"{late if delay > PUNCTUAL else ''}\n{follow_up}\n"
            f"Later: mailroom reminders snooze {reminder.due_id}",
        )
        return seal(subjects.mail(reminder.requester, context.profile.name), email)

    def _format_due(self, reminder: Due) -> str:
        return format_moment(due_time(reminder), self._zone)

    def _ask(
        self, question: str, template: str, missing: str, choices: tuple[Choice, ...] = ()
    ) -> ActionError:
        """The error that asks ``question``; its result says which short answers settle it."""
        expects = {"which": "choice", "text": "text"}.get(missing, "time")
        asks = AskedBack.from_dict(
            {"choices": [each.to_dict() for each in choices], "template": template, "expects": expects}
        )
        self._context.current_task.facts["asks"] = asks.to_dict()
        return ActionError(question)

    def _spoken(self) -> tuple[str, ...]:
        """The ids of the reminders that the last answer of the conversation named."""
        request = Request.of_task(self._context.task)
        return request.spoken if request else ()

    def _token(self, *what: str) -> str:
        """An id of the change that is the same for a second attempt at the same task."""
        task = self._context.task
        return self._context.bus.derive_id("reminder", task.requester, task.task_id, task.id, *what)

    def _asked_at(self) -> datetime:
        """When the person wrote the request: "in 20 minutes" counts from then."""
        task = self._context.task
        asked = task.created_at
        if task.requester == self._context.profile.name and (request := Request.of_task(task)):
            asked = request.asked_at or asked
        return min(datetime.now(UTC), parse_timestamp(asked))


def format_template(request: ReminderRequest, said: str) -> str:
    """The whole request, with ``{answer}`` where a short answer goes."""
    if request.missing == "text":
        return f"{command('reminder_set', said).rstrip(' .!?')} to {SLOT}"
    if request.day and request.missing == "time" and not request.rrule:
        return f"Remind me {SLOT} on {request.day.isoformat()} to {request.text or SLOT}"
    return f"{command('reminder_set', said).rstrip(' .!?')}{ANSWERED}{SLOT}"


def _choices(request: ReminderRequest, found: Sequence[Due]) -> tuple[Choice, ...]:
    """A message for each of ``found`` that asks for the same of this one only."""
    minutes = (request.away or timedelta()).total_seconds() / 60
    words = {
        ReminderIntent.FINISH: "mark the reminder {} as done",
        ReminderIntent.RENAME: "rename the reminder {} to " + request.text,
        ReminderIntent.SNOOZE: f"snooze the reminder {{}} for {minutes or DEFAULT_SNOOZE:g} minutes",
        ReminderIntent.MOVE: f"move the reminder {{}} by {minutes:g} minutes",
    }.get(request.intent or ReminderIntent.CANCEL, "cancel the reminder {}")
    if request.time:
        words = "move the reminder {} to " + request.time
    each_one = [
        Choice(label=format_short(each)[:200], text=words.replace("{}", each.due_id)) for each in found
    ]
    ids = " ".join(each.due_id for each in found)
    every = words.replace("the reminder {}", f"all the reminders {ids}")
    return (*each_one, Choice(label="all", text=every))


_LATER = re.compile(r"(?i)\b(?:later|again|snooze|not\s+now|wait)\b")
_DONE = re.compile(
    r"(?i)\b(?:done|finished|complete[d]?|over|off|did|dealt|sorted|handled|already|made|paid|sent|bought|been|gone|took|taken|got|(?!need)\w{2,}ed)\b"
)
"""What says that the thing is done of which a reminder reminds."""


def _as_meant(text: str, meaning: str, asked: datetime, zone: tzinfo | None) -> ReminderRequest:
    """The request of a message whose words do not say what it wants about reminders."""
    if meaning == "list":
        return ReminderRequest(intent=ReminderIntent.LIST, time=text)
    if meaning in ("change", "cancel"):
        verb = "move" if meaning == "change" else "cancel"
        found = read_reminder_request(f"{verb} the reminder {text}", asked, zone)
        if meaning == "change" and not found.time and found.away is None:
            vague = ReminderIntent.SNOOZE if _LATER.search(text) else found.intent
            return msgspec.structs.replace(
                found, intent=ReminderIntent.FINISH if _DONE.search(text) else vague
            )
        return found
    return read_new(text, asked, zone)


def _named(reminder: str) -> str:
    if not reminder.strip():
        raise ActionError("That does not say which reminder", "'mailroom reminders list' shows their ids")
    return reminder.strip()


def _minutes(minutes: float) -> timedelta:
    if not 0 < minutes <= MAX_SNOOZE:
        raise ActionError(f"A reminder is put off by up to a year, not by {minutes:g} minutes")
    return timedelta(minutes=minutes)


def _listed(reminders: Sequence[Due], zone: tzinfo | None, problem: str = "") -> Outcome:
    shown = sorted(reminders, key=lambda each: (each.status in ENDED, each.at))
    lines = [format_reminder(each, zone) for each in shown[:MAX_LISTED]]
    lines = lines or ["There are no open reminders."]
    if len(shown) > MAX_LISTED:
        lines.append(f"... and {len(shown) - MAX_LISTED} more")
    lines += [problem] if problem else []
    return Outcome(output="\n".join(lines), data={"reminders": [each.to_dict() for each in shown]})


def _outcome(reminders: Sequence[Due], text: str) -> Outcome:
    data = {"reminder": reminders[0].to_dict(), "reminders": [each.to_dict() for each in reminders]}
    return Outcome(output=text, data=data if reminders else {})
