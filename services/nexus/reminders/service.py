"""Reminders: the actions that set, list, change and end them, and what happens when one is due."""

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from services.nexus.reminders.changes import change_reminders, choose_reminders, list_range
from services.nexus.reminders.intents import ReminderIntent
from services.nexus.reminders.requests import ANSWERED, ReminderRequest, read_new, read_reminder_request
from services.nexus.reminders.state import (
    DEFAULT_SNOOZE,
    ENDED,
    MAX_REMINDER,
    MAX_SNOOZE,
    WAITING,
    add_reminder,
    due_time,
    fire,
    format_reminder,
    format_short,
    to_timestamp,
    undo_change,
)
from services.nexus.reminders.store import ReminderStore
from services.nexus.reminders.when import read_when
from services.nexus.routing.request import Request
from services.nexus.tools.tool import command
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Entry
from shared.bus.entry import seal
from shared.clock import format_moment, parse_timestamp, read_zone
from shared.contracts import (
    AskedBack,
    Choice,
    Email,
    Reminder,
    ReminderDue,
    Reminders,
    ReminderStatus,
)
from shared.contracts.conversation import SLOT
from shared.errors import ActionError
from shared.recurrence import describe_recurrence, parse_recurrence
from shared.tasks.actions import Outcome, register_action

LATE = timedelta(minutes=1)
"""With a delay of more than this an email says that it is late."""
EARLY = timedelta(seconds=2)
"""A timer that fires early by at most this, due to clock skew between machines, is waited for."""
MAX_LISTED = 100
"""The most reminders of a list."""
REMINDER = "Its id, the beginning of it, or words of its text"


class ReminderService:
    """Sets, lists and ends reminders, and sends each by email when it is due.

    The agent's name must be among subjects.TIMED.
    """

    def __init__(self, context: AgentContext, store: ReminderStore) -> None:
        self._context = context
        self._store = store
        self._zone = read_zone(context.settings.time_zone)

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
        reminders, _ = await self._store.read()
        return _listed(
            [each for each in reminders.reminders if everything or each.status not in ENDED], self._zone
        )

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
        reminders, _ = await self._store.read()
        if reminders.cause == self._token("change", text):
            known = [each for each in reminders.reminders if each.reminder_id in reminders.changed]
            return _listed(known, self._zone)
        request = read_reminder_request(text, asked, self._zone)
        if request.intent is None:
            request = _as_meant(text, meaning, asked, self._zone)
        if request.intent is ReminderIntent.SET:
            return await self._set(request, text)
        if request.intent is ReminderIntent.LIST:
            return _listed(list_range(reminders.reminders, request.time, asked, self._zone), self._zone)
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
            Reminder(
                reminder_id="r" + self._token("set", said, *([str(number)] if number else []))[:10],
                text=each.text,
                person=subjects.USER,
                due_at=to_timestamp(each.when or request.when),
                repeats=each.rrule,
            )
            for number, each in enumerate(wanted)
        ]
        ids = tuple(each.reminder_id for each in new)

        def step(before: Reminders) -> tuple[Reminders, list[Reminder]]:
            after = before
            for each in new:
                after = add_reminder(after, each)
            if after is before:
                return before, [each for each in before.reminders if each.reminder_id in ids]
            undo = tuple(msgspec.structs.replace(each, status=ReminderStatus.CANCELLED) for each in new)
            return msgspec.structs.replace(after, undo=undo), new

        stored = await self._store.change(step, self._token("set", said))
        answers = [self._format_set(each, one.note) for each, one in zip(stored, wanted, strict=False)]
        return _outcome(stored, "\n".join(answers))

    def _format_set(self, stored: Reminder, note: str) -> str:
        due = self._format_due(stored)
        every = f"{describe_recurrence(parse_recurrence(stored.repeats))}, first " if stored.repeats else ""
        answer = f"I shall remind you {every}on {due}: {stored.text}"
        if due_time(stored) <= datetime.now(UTC):
            answer = f"That was to be on {due}, before I came to it, so it goes off now: {stored.text}"
        return (
            f"{answer}\n{note + ' ' if note else ''}It is reminder {stored.reminder_id}. "
            f"Not what you meant? mailroom reminders cancel {stored.reminder_id}"
        )

    async def _change(self, request: ReminderRequest, text: str) -> Outcome:
        """Change those that are meant; raises ActionError, which asks which one if there are several."""
        asked, spoken = self._asked_at(), self._spoken()
        told: list[str] = []
        several: list[Reminder] = []

        def step(before: Reminders) -> tuple[Reminders, list[Reminder]]:
            told.clear()
            several.clear()
            if request.intent is ReminderIntent.UNDO:
                after, changed = undo_change(before, spoken)
                told.extend(f"As it was: {format_reminder(each, self._zone)}" for each in changed)
                return after, changed
            found = choose_reminders(before, request, spoken, self._zone)
            if len(found) > 1 and not request.everything:
                several.extend(found)
                return before, []
            after, changed, lines = change_reminders(before, found, request, asked, self._zone)
            told.extend(lines)
            return after, changed

        changed = await self._store.change(step, self._token("change", text))
        if several:
            lines = [
                f"{number}. {format_reminder(each, self._zone)}" for number, each in enumerate(several[:8], 1)
            ]
            question = f"That may mean {len(several)} reminders. Which one? Answer with its number, or 'all'."
            raise self._ask("\n".join([question, *lines]), "", "which", _choices(request, several[:8]))
        return _outcome(changed, "\n".join(told or [format_reminder(each, self._zone) for each in changed]))

    # --- when one is due -------------------------------------------------------------------------

    async def on_due(self, due: ReminderDue) -> None:
        """Fire a reminder and send its email in one commit; do nothing if it is not waiting any more."""
        reminders, _ = await self._store.read()
        found = next((each for each in reminders.reminders if each.reminder_id == due.reminder_id), None)
        if found is None or found.status not in WAITING:
            return
        ahead = due_time(found) - datetime.now(UTC)
        if ahead > EARLY:
            # The timer is that of an earlier time, or of the first part of a long wait.
            await self._store.set_timer(found)
            return
        if ahead > timedelta():
            await asyncio.sleep(ahead.total_seconds())
            await self.on_due(due)
            return
        now = datetime.now(UTC)
        await self._store.fire(found, lambda waiting: fire(waiting, now, self._zone), self._email)

    def _email(self, reminder: Reminder, fired: Reminder) -> Entry:
        context, due = self._context, self._format_due(reminder)
        delay = datetime.fromisoformat(fired.fired_at) - due_time(reminder)
        late = f"\nIt comes late: it was due on {due}, when Mailroom was not running."
        if fired.repeats:
            follow_up = (
                f"It goes off again on {self._format_due(fired)}.\n"
                f"No more of it: mailroom reminders cancel {fired.reminder_id}"
            )
        else:
            follow_up = f"Done: mailroom reminders done {fired.reminder_id}"
        email = Email(
            id=context.bus.derive_id("reminded", reminder.reminder_id, str(reminder.count)),
            sender=context.profile.name,
            recipient=reminder.person,
            subject=f"Reminder: {' '.join(reminder.text.split())}"[:500],
            body=f"{reminder.text}\n\nYou wanted to be reminded of this on {due}."
            f"{late if delay > LATE else ''}\n{follow_up}\n"
            f"Later: mailroom reminders snooze {reminder.reminder_id}",
        )
        return seal(subjects.mail(reminder.person, context.profile.name), email)

    def _format_due(self, reminder: Reminder) -> str:
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


def _choices(request: ReminderRequest, found: Sequence[Reminder]) -> tuple[Choice, ...]:
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
        Choice(label=format_short(each)[:200], text=words.replace("{}", each.reminder_id)) for each in found
    ]
    ids = " ".join(each.reminder_id for each in found)
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


def _listed(reminders: Sequence[Reminder], zone: tzinfo | None) -> Outcome:
    shown = sorted(reminders, key=lambda each: (each.status in ENDED, each.due_at))
    lines = [format_reminder(each, zone) for each in shown[:MAX_LISTED]]
    lines = lines or ["There are no open reminders."]
    if len(shown) > MAX_LISTED:
        lines.append(f"... and {len(shown) - MAX_LISTED} more")
    return Outcome(output="\n".join(lines), data={"reminders": [each.to_dict() for each in shown]})


def _outcome(reminders: Sequence[Reminder], text: str) -> Outcome:
    data = {"reminder": reminders[0].to_dict(), "reminders": [each.to_dict() for each in reminders]}
    return Outcome(output=text, data=data if reminders else {})
