"""What a message does to a plan, a reminder or a goal that it names by its words: the order by its id."""

import msgspec

from services.nexus.office.query import COMMON
from services.nexus.office.things import find_joined
from services.nexus.timetable.reminder_requests import format_time_answer
from shared import subjects
from shared.agent.context import AgentContext
from shared.contracts import DueKind
from shared.language.sayings import read_sayings
from shared.language.utterance import Utterance
from shared.memory.nearest import match_words
from shared.queries.office import OfficeReader
from shared.text.prose import find_terms
from shared.timetable import KEPT, read_timetable

WAYS = read_sayings(__file__, "altering")
LIST = "list my schedules"
MOST_GOALS = 50  # The latest goals that may be meant by "do the kiln thing once more"


class Altering(msgspec.Struct, frozen=True, kw_only=True):
    """The tool that alters what is named, and the whole order for it."""

    tool: str
    text: str


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may be named by its ``words``, its id or text, and what alters it."""

    ref: str
    words: str
    tool: str


async def read_altering(context: AgentContext, office: OfficeReader, said: Utterance) -> Altering | None:
    """The order that ``said`` gives for the one thing that has all its words; None for any other message.

    Schedules are paused and resumed, reminders moved, and goals begun once more.
    """
    if (found := WAYS["pauses"].match(said.bare)) or (found := WAYS["resumes"].match(said.bare)):
        verb = "pause" if WAYS["pauses"].match(said.bare) else "resume"
        named = choose(found["what"], [each for each in await _list_due(context) if each.tool == "schedule"])
        # What pauses nothing that there is puts nothing on a schedule: the plans are told
        return Altering(tool="schedule" if named else "queue", text=f"{verb} {named.ref}" if named else LIST)
    if moved := WAYS["moves"].fullmatch(said.bare):
        named = choose(moved["what"], [each for each in await _list_due(context) if each.tool == "reminder"])
        time = format_time_answer(moved["time"])
        text = (
            f"Move the reminder {named.ref} {time if time[:1] in 'ai' else f'to {time}'}"
            if named and time
            else ""
        )
        return Altering(tool="reminder_change", text=text) if text else None
    if again := WAYS["again"].fullmatch(said.bare):
        goals = (await office.goals())[-MOST_GOALS:]
        ended = {goal.text: goal for goal in goals if goal.status.final}
        named = choose(again["what"], [Named(ref=text, words=text, tool="work") for text in ended])
        return Altering(tool="work", text=named.ref) if named else None
    return None


async def _list_due(context: AgentContext) -> list[Named]:
    kinds = {DueKind.GOAL: "schedule", DueKind.MAIL: "reminder"}
    known = await read_timetable(context.bus, subjects.NEXUS)
    return [
        Named(ref=each.due_id, words=f"{each.text} {each.words}", tool=kinds[each.what])
        for each in known.items
        if each.what in kinds and each.status in KEPT
    ]


def choose(what: str, things: list[Named]) -> Named | None:
    """The only one of ``things`` that has every word of ``what``; None if none has, or several have."""
    terms = {stem: word for stem, word in find_terms(what).items() if stem not in COMMON}
    matched = match_words(terms, [find_joined(each.words) for each in things])
    best = [things[place] for place in matched.places]
    has_all = [each for each in best if len(matched.places) == 1 or terms.keys() <= find_joined(each.words)]
    return has_all[0] if terms and not matched.missing and len(has_all) == 1 else None
