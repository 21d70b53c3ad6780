"""Reminding: the actions that set, list, put off and end reminders, and what happens when one is due."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from services.nexus.book import Book
from services.nexus.errand import Errand, read_errand
from services.nexus.reminders import (
    ENDED,
    SNOOZE,
    WAITING,
    add,
    describe,
    due_of,
    end,
    find_one,
    finish,
    fire,
    name,
    put_off,
    read_reminder,
    snooze,
    to_wire,
)
from services.nexus.repeating import tell_repeat, write_repeat
from services.nexus.visit import Visit
from services.nexus.when import read_when
from shared import subjects
from shared.agent.base import Agent
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.clock import read_zone, tell
from shared.contracts import Email, Reminder, ReminderDue, Reminders, ReminderStatus
from shared.errors import ActionError
from shared.settings import Settings
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profile import Profile

LATE = timedelta(minutes=1)
"""From this delay on a letter says that it comes late."""
NEAR = timedelta(seconds=2)
"""So near to its time a timer that goes off early, by another machine's clock, is waited out."""
LISTED = 100
"""The most reminders of a list."""


class Reminding(Agent):
    """An agent that keeps reminders; its name must be among subjects.TIMED."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self.book = Book(bus)
        self.zone = read_zone(settings.time_zone)

    # --- actions ---------------------------------------------------------------------------------

    @register_action(
        "Set a reminder for the person of the office",
        {
            "text": "What to be reminded of; it may name the time, as in 'call Ana tomorrow at 9'",
            "when": "The time, where the text does not name it: plain words or ISO 8601",
        },
    )
    async def set_reminder(self, text: str, when: str = "") -> Outcome:
        """The reminder in data key ``reminder``; asks back (ActionError) where the time is not clear."""
        found = read_reminder(text, when, self._asked_at(), self.zone)
        reminder = Reminder(
            reminder_id="r" + self._token("set", text, when)[:10],
            text=found.rest,
            person=subjects.USER,
            due_at=to_wire(found.moment),
            repeats=write_repeat(found.repeat) if found.repeat else "",
        )
        stored = await self.book.add(reminder, add)
        due = tell(due_of(stored), self.zone)
        every = f"{tell_repeat(found.repeat)}, first " if found.repeat else ""
        told = f"I shall remind you {every}on {due}: {stored.text}"
        if due_of(stored) <= datetime.now(UTC):
            told = f"That was to be on {due}, before I came to it, so it goes off now: {stored.text}"
        return Outcome(
            output=f"{told}\nIt is reminder {stored.reminder_id}. "
            f"Not what you meant? mailroom reminders cancel {stored.reminder_id}",
            data={"reminder": stored.to_dict()},
        )

    @register_action(
        "List the reminders of the office", {"everything": "Whether those that are done or cancelled too"}
    )
    async def list_reminders(self, everything: bool = False) -> Outcome:
        """Those that wait for their time or for a person, the next one first; data key ``reminders``."""
        reminders, _ = await self.book.read()
        shown = sorted(
            (each for each in reminders.reminders if everything or each.status not in ENDED),
            key=lambda each: (each.status in ENDED, each.due_at),
        )
        lines = [describe(each, self.zone) for each in shown[:LISTED]] or ["There are no open reminders."]
        if len(shown) > LISTED:
            lines.append(f"... and {len(shown) - LISTED} more")
        return Outcome(output="\n".join(lines), data={"reminders": [each.to_dict() for each in shown]})

    @register_action(
        "Put a reminder off",
        {
            "reminder": "Its id, the beginning of it, or words of its text",
            "minutes": "For how long: from now on where it went off, else from when it was due",
            "until": "Or until when: plain words or ISO 8601",
        },
    )
    async def snooze_reminder(self, reminder: str, minutes: float = SNOOZE, until: str = "") -> Outcome:
        """The reminder with its new time; ActionError where there is no such one, or it is ended."""
        asked = self._asked_at()
        moment = read_when(until, asked, self.zone).moment if until.strip() else None
        first = frozenset({ReminderStatus.FIRED})
        changed = await self._change(
            "snooze",
            reminder,
            first,
            lambda found: put_off(found, moment) if moment else snooze(found, asked, minutes),
        )
        return self._told(changed, f"{name(changed)} is put off until {tell(due_of(changed), self.zone)}.")

    @register_action(
        "Mark a reminder as done", {"reminder": "Its id, the beginning of it, or words of its text"}
    )
    async def finish_reminder(self, reminder: str) -> Outcome:
        """The reminder; ActionError where there is no such one, or it was cancelled."""
        now = datetime.now(UTC)
        changed = await self._change("finish", reminder, _OPEN, lambda found: finish(found, now, self.zone))
        if changed.repeats:
            due = tell(due_of(changed), self.zone)
            return self._told(
                changed,
                f"{name(changed)} is done for this time; it goes off again on {due}. "
                f"No more of it: mailroom reminders cancel {changed.reminder_id}",
            )
        return self._told(changed, f"{name(changed)} is done.")

    @register_action("Cancel a reminder", {"reminder": "Its id, the beginning of it, or words of its text"})
    async def cancel_reminder(self, reminder: str) -> Outcome:
        """The reminder; ActionError where there is no such one, or it was done."""
        changed = await self._change(
            "cancel", reminder, _OPEN, lambda found: end(found, ReminderStatus.CANCELLED)
        )
        return self._told(changed, f"{name(changed)} is cancelled.")

    @register_action(
        "Do what a message in plain words asks about reminders: set, list, put off, finish or cancel",
        {"text": "The message"},
    )
    async def mind_reminders(self, text: str) -> Outcome:
        """As the action that is meant; what it says it did is in the record."""
        wish = read_errand(text)
        if wish.errand in (Errand.SET, Errand.LIST):
            return await (self.set_reminder(text) if wish.errand is Errand.SET else self.list_reminders())
        about = wish.about or await self._only_one(wish.errand)
        if wish.errand is Errand.SNOOZE:
            return await self.snooze_reminder(about, wish.minutes or SNOOZE, wish.until)
        if wish.errand is Errand.FINISH:
            return await self.finish_reminder(about)
        return await self.cancel_reminder(about)

    # --- what becomes of them --------------------------------------------------------------------

    async def remind(self, due: ReminderDue) -> None:
        """Its time has come: it is fired and told in one commit; nothing where it is not waiting any more."""
        reminders, _ = await self.book.read()
        found = next((each for each in reminders.reminders if each.reminder_id == due.reminder_id), None)
        if found is None or found.status not in WAITING:
            return
        ahead = due_of(found) - datetime.now(UTC)
        if ahead > NEAR:
            # Of an earlier setting, or the first stretch of a long way: the record knows the time.
            await self.book.arm(found)
            return
        if ahead > timedelta():
            await asyncio.sleep(ahead.total_seconds())
            await self.remind(due)
            return
        now = datetime.now(UTC)
        await self.book.fire(found, lambda waiting: fire(waiting, now, self.zone), self._letter)

    def _letter(self, reminder: Reminder, fired: Reminder) -> Entry:
        due = due_of(reminder)
        delay = datetime.fromisoformat(fired.fired_at) - due
        late = f"\nIt comes late: it was due on {tell(due, self.zone)}, when this office was not at work."
        letter = Email(
            id=self.context.bus.derive_id("reminded", reminder.reminder_id, str(reminder.count)),
            sender=self.context.profile.name,
            recipient=reminder.person,
            subject=f"Reminder: {' '.join(reminder.text.split())}"[:500],
            body=f"{reminder.text}\n\nYou wanted to be reminded of this on {tell(due, self.zone)}."
            f"{late if delay > LATE else ''}\n{self._what_next(fired)}\n"
            f"Later: mailroom reminders snooze {reminder.reminder_id}",
        )
        return seal(subjects.mail(reminder.person, self.context.profile.name), letter)

    def _what_next(self, fired: Reminder) -> str:
        if not fired.repeats:
            return f"Done: mailroom reminders done {fired.reminder_id}"
        return (
            f"It goes off again on {tell(due_of(fired), self.zone)}.\n"
            f"No more of it: mailroom reminders cancel {fired.reminder_id}"
        )

    async def _change(
        self,
        verb: str,
        words: str,
        among: frozenset[ReminderStatus],
        step: Callable[[Reminder], Reminder],
    ) -> Reminder:
        def find(reminders: Reminders) -> Reminder:
            return find_one(reminders, words, among=among)

        return await self.book.change(find, step, self._token(verb, words))

    async def _only_one(self, errand: Errand) -> str:
        """The id of the one reminder that can be meant by 'it'; ActionError where there are several."""
        reminders, _ = await self.book.read()
        waiting = [each for each in reminders.reminders if each.status in WAITING]
        fired = [each for each in reminders.reminders if each.status is ReminderStatus.FIRED]
        if errand is not Errand.CANCEL:
            fired += [each for each in waiting if each.repeats and each.fired_at]
        pool = fired or waiting
        if not pool:
            raise ActionError("There are no open reminders", "Set one: 'remind me to call Ana tomorrow at 9'")
        if len(pool) == 1 or (errand is Errand.SNOOZE and fired):
            return max(pool, key=lambda each: each.fired_at).reminder_id
        told = "; ".join(map(name, pool[:5]))
        raise ActionError(f"That may mean {len(pool)} reminders: {told}", "Name one by its id")

    def _told(self, reminder: Reminder, text: str) -> Outcome:
        return Outcome(output=text, data={"reminder": reminder.to_dict()})

    def _token(self, *what: str) -> str:
        """The same for the same wish of the same task, so that a second attempt is known as one."""
        task = self.context.task
        return self.context.bus.derive_id("reminder", task.requester, task.task_id, task.id, *what)

    def _asked_at(self) -> datetime:
        """When what is worked on was asked for: 'in 20 minutes' counts from there."""
        task = self.context.task
        asked = task.created_at
        if task.requester == self.context.profile.name and "visit" in task.context:
            asked = Visit.from_dict(task.context["visit"]).asked_at or asked
        moment = datetime.fromisoformat(asked)
        return min(datetime.now(UTC), moment if moment.tzinfo else moment.replace(tzinfo=UTC))


_OPEN = frozenset({ReminderStatus.SCHEDULED, ReminderStatus.SNOOZED, ReminderStatus.FIRED})
