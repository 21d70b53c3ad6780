"""Reminders: the actions that set, list, snooze and end them, and what happens when one is due."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from services.nexus.reminders.intents import ReminderIntent, parse_intent
from services.nexus.reminders.recurrence import encode_recurrence, format_recurrence
from services.nexus.reminders.state import (
    DEFAULT_SNOOZE,
    ENDED,
    OPEN,
    WAITING,
    due_time,
    end,
    find_reminder,
    finish,
    fire,
    format_reminder,
    format_short,
    parse_reminder,
    snooze,
    snooze_until,
    to_timestamp,
)
from services.nexus.reminders.store import ReminderStore
from services.nexus.reminders.time_parser import parse_time
from services.nexus.routing.request import Request
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Entry
from shared.bus.entry import seal
from shared.clock import format_moment, parse_timestamp, read_zone
from shared.contracts import Email, Reminder, ReminderDue, Reminders, ReminderStatus
from shared.errors import ActionError
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
    )
    async def set_reminder(self, text: str, when: str = "") -> Outcome:
        """The reminder in data key ``reminder``; raises ActionError, a question, if the time is not clear."""
        parsed = parse_reminder(text, when, self._asked_at(), self._zone)
        reminder = Reminder(
            reminder_id="r" + self._token("set", text, when)[:10],
            text=parsed.rest,
            person=subjects.USER,
            due_at=to_timestamp(parsed.moment),
            repeats=encode_recurrence(parsed.recurrence) if parsed.recurrence else "",
        )
        stored = await self._store.add(reminder)
        due = self._format_due(stored)
        every = f"{format_recurrence(parsed.recurrence)}, first " if parsed.recurrence else ""
        answer = f"I shall remind you {every}on {due}: {stored.text}"
        if due_time(stored) <= datetime.now(UTC):
            answer = f"That was to be on {due}, before I came to it, so it goes off now: {stored.text}"
        return _outcome(
            stored,
            f"{answer}\nIt is reminder {stored.reminder_id}. "
            f"Not what you meant? mailroom reminders cancel {stored.reminder_id}",
        )

    @register_action(
        "List the reminders", {"everything": "Whether to include those that are done or cancelled"}
    )
    async def list_reminders(self, everything: bool = False) -> Outcome:
        """The open ones, the next one first, or ``everything``; data key ``reminders``."""
        reminders, _ = await self._store.read()
        shown = sorted(
            (each for each in reminders.reminders if everything or each.status not in ENDED),
            key=lambda each: (each.status in ENDED, each.due_at),
        )
        lines = [format_reminder(each, self._zone) for each in shown[:MAX_LISTED]]
        lines = lines or ["There are no open reminders."]
        if len(shown) > MAX_LISTED:
            lines.append(f"... and {len(shown) - MAX_LISTED} more")
        return Outcome(output="\n".join(lines), data={"reminders": [each.to_dict() for each in shown]})

    @register_action(
        "Snooze a reminder",
        {
            "reminder": REMINDER,
            "minutes": "For how many minutes: from now if it was sent, else from when it was due",
            "until": "Or until when: plain words or ISO 8601",
        },
    )
    async def snooze_reminder(
        self, reminder: str, minutes: float = DEFAULT_SNOOZE, until: str = ""
    ) -> Outcome:
        """The reminder with its new time; raises ActionError if there is none, or it has ended."""
        asked = self._asked_at()
        moment = parse_time(until, asked, self._zone).moment if until.strip() else None
        was_due: list[datetime] = []

        def move(found: Reminder) -> Reminder:
            was_due.append(due_time(found))
            return snooze_until(found, moment) if moment else snooze(found, asked, minutes)

        changed = await self._change("snooze", reminder, frozenset({ReminderStatus.FIRED}), move)
        earlier = bool(was_due) and due_time(changed) < was_due[-1]
        how = "moved to" if earlier else "put off until"
        return _outcome(changed, f"{format_short(changed)} is {how} {self._format_due(changed)}.")

    @register_action("Mark a reminder as done", {"reminder": REMINDER})
    async def finish_reminder(self, reminder: str) -> Outcome:
        """The reminder; raises ActionError if there is none, or it was cancelled."""
        now = datetime.now(UTC)
        changed = await self._change("finish", reminder, OPEN, lambda found: finish(found, now, self._zone))
        if not changed.repeats:
            return _outcome(changed, f"{format_short(changed)} is done.")
        return _outcome(
            changed,
            f"{format_short(changed)} is done for this time; it goes off again on "
            f"{self._format_due(changed)}. No more of it: mailroom reminders cancel {changed.reminder_id}",
        )

    @register_action("Cancel a reminder", {"reminder": REMINDER})
    async def cancel_reminder(self, reminder: str) -> Outcome:
        """The reminder; raises ActionError if there is none, or it was done."""
        changed = await self._change(
            "cancel", reminder, OPEN, lambda found: end(found, ReminderStatus.CANCELLED)
        )
        return _outcome(changed, f"{format_short(changed)} is cancelled.")

    @register_action(
        "Do what a message in plain words asks about reminders: set, list, snooze, finish or cancel",
        {"text": "The message"},
    )
    async def mind_reminders(self, text: str) -> Outcome:
        """The outcome of the action that the message means."""
        details = parse_intent(text)
        if details.intent is ReminderIntent.SET:
            return await self.set_reminder(text)
        if details.intent is ReminderIntent.LIST:
            return await self.list_reminders()
        about = details.about or await self._find_only(details.intent)
        if details.intent is ReminderIntent.SNOOZE:
            return await self.snooze_reminder(about, details.minutes or DEFAULT_SNOOZE, details.until)
        if details.intent is ReminderIntent.FINISH:
            return await self.finish_reminder(about)
        return await self.cancel_reminder(about)

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

    async def _change(
        self,
        verb: str,
        words: str,
        preferred: frozenset[ReminderStatus],
        step: Callable[[Reminder], Reminder],
    ) -> Reminder:
        def find(reminders: Reminders) -> Reminder:
            return find_reminder(reminders, words, preferred=preferred)

        return await self._store.change(find, step, self._token(verb, words))

    async def _find_only(self, intent: ReminderIntent) -> str:
        """The id of the one reminder that "it" can mean; raises ActionError if there are several or none."""
        reminders, _ = await self._store.read()
        waiting = [each for each in reminders.reminders if each.status in WAITING]
        fired = [each for each in reminders.reminders if each.status is ReminderStatus.FIRED]
        if intent is not ReminderIntent.CANCEL:
            fired += [each for each in waiting if each.repeats and each.fired_at]
        pool = fired or waiting
        if not pool:
            raise ActionError("There are no open reminders", "Set one: 'remind me to call Ana tomorrow at 9'")
        if len(pool) == 1 or (intent is ReminderIntent.SNOOZE and fired):
            return max(pool, key=lambda each: each.fired_at).reminder_id
        named = "; ".join(map(format_short, pool[:5]))
        raise ActionError(f"That may mean {len(pool)} reminders: {named}", "Name one by its id")

    def _format_due(self, reminder: Reminder) -> str:
        return format_moment(due_time(reminder), self._zone)

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


def _outcome(reminder: Reminder, text: str) -> Outcome:
    return Outcome(output=text, data={"reminder": reminder.to_dict()})
