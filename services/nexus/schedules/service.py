"""Goals on a schedule for people: what their messages ask for, and actions that only they may have done."""

from services.nexus.routing.request import Request
from services.nexus.schedules.book import ScheduleBook
from services.nexus.schedules.times import read_whole
from services.nexus.schedules.words import read_order, read_scheduled
from shared import subjects
from shared.agent.context import AgentContext
from shared.clock import parse_timestamp
from shared.errors import ActionError
from shared.tasks.actions import Outcome, register_action
from shared.tasks.said import said_in

SCHEDULE = "Its id, the beginning of it, or words of its goal"


class ScheduleService:
    """The actions, each for a person alone: an agent cannot give itself work for later."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self.book = ScheduleBook(context.bus, context.settings)

    async def obey(self, request: Request) -> Outcome:
        """What a message of a person asks for: a command, or a goal with its times in plain words.

        It is done once for each message. Raises ActionError, a question, if it is not clear.
        """
        if request.asker != subjects.USER:
            raise self._refusal()
        book, order = self.book, read_order(request.text)
        now = parse_timestamp(request.asked_at) if request.asked_at else book.clock()
        token = self._context.bus.derive_id("schedule", request.asker, request.letter_id)
        if order is None:
            when, goal = read_scheduled(request.text, now, book.zone)
            return await book.add(goal, request.text, when, token)
        if order.verb == "add":
            return await book.add(order.text, order.when, read_whole(order.when, now, book.zone), token)
        if order.verb == "run":
            return await book.run(order.name, token)
        changes = {"pause": book.pause, "resume": book.resume, "remove": book.remove, "show": book.show}
        return await changes[order.verb](order.name)

    @register_action(
        "Put a goal on a schedule, at a person's wish",
        {
            "text": "The goal, in the person's own words",
            "when": "When it runs, such as 'every weekday at 7', or an RFC 5545 rule as 'RRULE:FREQ=...'",
        },
        personal=True,
    )
    async def schedule_goal(self, text: str, when: str) -> Outcome:
        """The schedule in data key ``schedule``; raises ActionError, a question, if the time is not clear."""
        self._require_person(text)
        found = read_whole(when, self.book.clock(), self.book.zone)
        return await self.book.add(text, when, found, self._token(text, when))

    @register_action(
        "List the goals on a schedule",
        {"everything": "Whether to include those that ended or were removed"},
        personal=True,
    )
    async def list_schedules(self, everything: bool = False) -> Outcome:
        """As ``ScheduleBook.list``."""
        return await self.book.list(everything=everything)

    @register_action("Show a goal on a schedule, with its next runs", {"schedule": SCHEDULE}, personal=True)
    async def show_schedule(self, schedule: str) -> Outcome:
        """As ``ScheduleBook.show``."""
        return await self.book.show(schedule)

    @register_action(
        "Pause a goal on a schedule: it has no runs until it is resumed",
        {"schedule": SCHEDULE},
        personal=True,
    )
    async def pause_schedule(self, schedule: str) -> Outcome:
        """As ``ScheduleBook.pause``."""
        self._require_person()
        return await self.book.pause(schedule)

    @register_action("Resume a goal on a schedule that is paused", {"schedule": SCHEDULE}, personal=True)
    async def resume_schedule(self, schedule: str) -> Outcome:
        """As ``ScheduleBook.resume``."""
        self._require_person()
        return await self.book.resume(schedule)

    @register_action(
        "Remove a goal from the schedule; a run that has begun goes on", {"schedule": SCHEDULE}, personal=True
    )
    async def remove_schedule(self, schedule: str) -> Outcome:
        """As ``ScheduleBook.remove``."""
        self._require_person()
        return await self.book.remove(schedule)

    @register_action(
        "Begin a run of a goal on a schedule now; its further runs stay",
        {"schedule": SCHEDULE},
        personal=True,
    )
    async def run_schedule(self, schedule: str) -> Outcome:
        """As ``ScheduleBook.run``."""
        self._require_person()
        return await self.book.run(schedule, self._token("run", schedule))

    def _require_person(self, text: str = "") -> None:
        """Raise ActionError unless a person asks for it, and said ``text``."""
        task, me = self._context.task, self._context.profile.name
        request = Request.of_task(task) if task.requester == me else None
        said = request.text if request and request.asker == subjects.USER else said_in(task)
        asked = said if task.requester in (subjects.USER, me) else ""
        if not asked.strip() or " ".join(text.split()) not in " ".join(asked.split()):
            raise self._refusal()

    def _refusal(self) -> ActionError:
        return ActionError(
            "Only people can put goals on a schedule and change that, in their own words",
            "Have a person write: mailroom schedule add WHEN GOAL",
        )

    def _token(self, *what: str) -> str:
        """An id that is the same for a second attempt at the same task."""
        task = self._context.task
        return self._context.bus.derive_id("schedule", task.requester, task.task_id, task.id, *what)
