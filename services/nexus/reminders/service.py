"""Reminders: the actions that set, list, change and end them, and what happens when one is due."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from services.nexus.reminders.answers import read_answer
from services.nexus.reminders.changes import change_reminders, choose_reminders, list_range
from services.nexus.reminders.requests import ReminderIntent, ReminderRequest, read_new, read_reminder_request
from services.nexus.reminders.state import (
    DEFAULT_SNOOZE,
    ENDED,
    MAX_REMINDER,
    MAX_SNOOZE,
    WAITING,
    add_reminder,
    due_time,
    find_talk,
    fire,
    format_reminder,
    format_short,
    keep_talk,
    to_timestamp,
    undo_change,
)
from services.nexus.reminders.store import ReminderStore
from services.nexus.reminders.when import read_when
from services.nexus.routing.request import Request
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
    ReminderTalk,
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
    )
    async def set_reminder(self, text: str, when: str = "") -> Outcome:
        """The reminder in data key ``reminder``; raises ActionError, a question, if the time is not clear."""
        if when.strip():
            request = read_when(text, when, self._asked_at(), self._zone)
        else:
            request = read_new(text, self._asked_at(), self._zone)
        return await self._set(request, ReminderTalk(session=self._session(), at=self._now(), said=text))

    @register_action(
        "List the reminders", {"everything": "Whether to include those that are done or cancelled"}
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

    @register_action("Mark a reminder as done", {"reminder": REMINDER})
    async def finish_reminder(self, reminder: str) -> Outcome:
        """The reminder; raises ActionError if there is none, or it was cancelled."""
        return await self._change(
            ReminderRequest(intent=ReminderIntent.FINISH, about=_named(reminder)), reminder
        )

    @register_action("Cancel a reminder", {"reminder": REMINDER})
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
    )
    async def mind_reminders(self, text: str, meaning: str = "") -> Outcome:
        """The outcome of what the message means; raises ActionError, a question, if that is not clear.

        A short answer to the last question of its session completes the request that was asked about.
        """
        asked = self._asked_at()
        reminders, _ = await self._store.read()
        if reminders.cause == self._token("change", text) and reminders.talks:
            known = [each for each in reminders.reminders if each.reminder_id in reminders.talks[-1].shown]
            return _listed(known, self._zone)
        talk = find_talk(reminders, self._session())
        request = read_answer(talk, text, asked, self._zone) if talk else None
        said: str = text
        answers: tuple[str, ...] = ()
        if request and talk and talk.missing and request.missing != "dropped":
            said, answers = talk.said, (*talk.answers, *([request.time] if request.time else []))
        request = request or read_reminder_request(text, asked, self._zone)
        if request.intent is None and request.missing != "dropped":
            request = _as_meant(text, meaning, asked, self._zone)
        now = ReminderTalk(session=self._session(), at=self._now(), said=said, answers=answers)
        if request.missing == "dropped":
            await self._store.change(lambda before: (keep_talk(before, now), []), self._token("change", text))
            return Outcome(output="Then I leave it as it is.")
        if request.intent is ReminderIntent.SET:
            return await self._set(request, now)
        if request.intent is ReminderIntent.LIST:
            return await self._list(request, reminders, now)
        return await self._change(request, text, now)

    async def expects(self, session: str, text: str, asked_at: str) -> bool:
        """Whether ``text`` answers or follows up what was last said about reminders in ``session``."""
        reminders, _ = await self._store.read()
        talk = find_talk(reminders, session)
        return bool(talk and read_answer(talk, text, parse_timestamp(asked_at), self._zone))

    # --- how ---------------------------------------------------------------------------------------

    async def _set(self, request: ReminderRequest, talk: ReminderTalk) -> Outcome:
        if len(request.text) > MAX_REMINDER:
            raise ActionError(
                f"A reminder has at most {MAX_REMINDER:,} characters, and this one {len(request.text):,}"
            )
        wanted = [request, *request.also]
        if request.missing or request.when is None:
            asked = msgspec.structs.replace(talk, missing=request.missing)
            await self._store.change(
                lambda before: (keep_talk(before, asked), []), self._token("ask", talk.said)
            )
            raise self._ask(request.question, _template(request, talk), request.missing)
        new = [
            Reminder(
                reminder_id="r"
                + self._token("set", talk.said, *talk.answers, *([str(number)] if number else []))[:10],
                text=each.text,
                person=subjects.USER,
                due_at=to_timestamp(each.when or request.when),
                repeats=each.rrule,
            )
            for number, each in enumerate(wanted)
        ]

        def step(before: Reminders) -> tuple[Reminders, list[Reminder]]:
            after = before
            for each in new:
                after = add_reminder(after, each)
            if after is before:
                return before, [each for each in before.reminders if each.reminder_id in ids]
            undo = tuple(msgspec.structs.replace(each, status=ReminderStatus.CANCELLED) for each in new)
            shown = ReminderTalk(session=talk.session, at=talk.at, shown=tuple(ids))
            return keep_talk(msgspec.structs.replace(after, undo=undo), shown), new

        ids = [each.reminder_id for each in new]
        stored = await self._store.change(step, self._token("set", talk.said))
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

    async def _list(self, request: ReminderRequest, reminders: Reminders, talk: ReminderTalk) -> Outcome:
        found = list_range(reminders.reminders, request.time, self._asked_at(), self._zone)
        outcome = _listed(found, self._zone)
        shown = tuple(each["reminder_id"] for each in outcome.data["reminders"])[:MAX_LISTED]
        kept = ReminderTalk(session=talk.session, at=talk.at, shown=shown)
        await self._store.change(
            lambda before: (keep_talk(before, kept), []), self._token("change", talk.said)
        )
        return outcome

    async def _change(self, request: ReminderRequest, text: str, talk: ReminderTalk | None = None) -> Outcome:
        """Change those that are meant; raises ActionError, which asks which one if there are several."""
        asked, session = self._asked_at(), self._session()
        talk = talk or ReminderTalk(session=session, at=self._now(), said=text)
        told: list[str] = []

        def step(before: Reminders) -> tuple[Reminders, list[Reminder]]:
            told.clear()
            if request.intent is ReminderIntent.UNDO:
                after, changed = undo_change(before)
                told.extend(f"As it was: {format_reminder(each, self._zone)}" for each in changed)
            else:
                found = choose_reminders(before, request, find_talk(before, session), self._zone)
                if len(found) > 1 and not request.everything:
                    ids = tuple(each.reminder_id for each in found)
                    return keep_talk(before, msgspec.structs.replace(talk, missing="which", shown=ids)), []
                after, changed, lines = change_reminders(before, found, request, asked, self._zone)
                told.extend(lines)
            shown = tuple(each.reminder_id for each in changed)
            return keep_talk(after, ReminderTalk(session=session, at=talk.at, shown=shown)), changed

        changed = await self._store.change(step, self._token("change", text))
        if not changed:
            reminders, _ = await self._store.read()
            shown = (find_talk(reminders, session) or talk).shown
            named = [each for each in reminders.reminders if each.reminder_id in shown]
            lines = [
                f"{number}. {format_reminder(each, self._zone)}" for number, each in enumerate(named[:9], 1)
            ]
            question = f"That may mean {len(named)} reminders. Which one? Answer with its number, or 'all'."
            raise self._ask("\n".join([question, *lines]), "", "which", _choices(request, named[:9]))
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

    def _session(self) -> str:
        """The session of the request that this task is for, or who asked."""
        request = Request.of_task(self._context.task)
        return (request.session or request.asker) if request else self._context.task.requester

    def _now(self) -> str:
        return to_timestamp(datetime.now(UTC))

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


def _template(request: ReminderRequest, talk: ReminderTalk) -> str:
    """The whole request, with ``{answer}`` where a short answer goes."""
    if request.missing == "text":
        return f"{talk.said.rstrip(' .!?')} to {SLOT}"
    if request.rrule or request.missing == "day":
        return " ".join([talk.said.rstrip(" .!?"), *talk.answers, SLOT])
    day = f" on {request.day.isoformat()}" if request.day and request.missing == "time" else ""
    return f"Remind me {SLOT}{day} to {request.text or SLOT}"


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
    return tuple(
        Choice(label=format_short(each)[:200], text=words.replace("{}", each.reminder_id)) for each in found
    )


def _as_meant(text: str, meaning: str, asked: datetime, zone: tzinfo | None) -> ReminderRequest:
    """The request of a message whose words do not say what it wants about reminders."""
    if meaning == "list":
        return ReminderRequest(intent=ReminderIntent.LIST, time=text)
    if meaning in ("change", "cancel"):
        verb = "move" if meaning == "change" else "cancel"
        found = read_reminder_request(f"{verb} the reminder {text}", asked, zone)
        if meaning == "change" and not found.time and found.away is None:
            return msgspec.structs.replace(found, intent=ReminderIntent.FINISH)
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
