"""What short messages do to what was done ("undo", "half an hour earlier"), or add to it ("by when?")."""

import re
from datetime import datetime

from services.nexus.conversation.ellipsis import find_subject, swap, swap_alike
from services.nexus.conversation.mentions import find_mentioned
from services.nexus.conversation.pending import Resolved, format_question
from services.nexus.timetable.reminder_requests import format_time_answer
from services.nexus.timetable.schedule_words import JOB
from shared.contracts import AskedBack, Choice, Conversation, ConversationTurn, Mentioned, Response
from shared.language.sayings import read_sayings
from shared.language.times.days import read_amount
from shared.language.times.time_phrases import find_phrases
from shared.language.utterance import Utterance, read_utterance

WAYS = read_sayings(__file__, "effects")
ENDING = WAYS["ending"]
PART_OF_HOUR = WAYS["part_of_hour"]

MAX_WORDS = 9  # The most words of a message that alters what was done
EFFECTS = frozenset(
    f"tool:{name}"
    for name in (
        "reminder_set reminder_change reminder_cancel remember correct forget calendar_add send_mail"
        " night_job schedule stop approve work"
    ).split()
)
"""The routes of answers after which something is otherwise than before."""
_MINUTES = {"quarter past": "15", "half past": "30", "quarter to": "45"}
_SET_FOR = re.compile(
    r"^(?:I shall remind you"
    r"|That was to be) on \w+ (?P<at>\d+ \w+ \d{4} at \d\d:\d\d) \([^)]*\)[^:\n]*: (?P<text>.+)",
    re.MULTILINE,
)
"""How an answer tells a reminder that was set and goes off once."""
_MOVED_TO = re.compile(
    r"^r[0-9a-f]{10} \((?P<text>.+)\) is (?:put off until|moved to) \w+ (?P<at>\d+ \w+ \d{4} at \d\d:\d\d)"
    r" \([^)]*\)\.$",
    re.MULTILINE,
)
"""How an answer tells one that was moved."""
_ADDED = re.compile(
    r"^Added to the calendar: (?P<text>.+), \w+ (?P<at>\d+ \w+ \d{4} at \d\d:\d\d)", re.MULTILINE
)
_EVENT_AT = re.compile(
    r"\w{3} (?P<day>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d)(?: to (?:\w{3} [\d-]+ )?\d\d:\d\d)?"
    r" (?P<text>[^,\n]+)"
)
"""How answers tell an event that was added, or is in the calendar."""
ENDS = {
    "goal": ("/stop {ref}", "cancel goal {ref}"),
    "job": ("/stop {ref}", "cancel job {ref}"),
    "reminder": ("/reminder_cancel cancel reminder {ref}", "cancel reminder {ref}"),
    "schedule": ("/stop {ref}", "remove schedule {ref}"),
}
"""How what was named is ended: what is routed, and the same for people."""
_LASTING = {
    "tool:stop": "What was stopped stays stopped. Say again what is to be done, and it starts again.",
    "tool:send_mail": "What was sent cannot be taken back.",
    "tool:forget": "Only the command erases, after a yes; what it erased cannot be brought back.",
    "tool:approve": "An answer to an approval cannot be taken back.",
    "tool:calendar_add": "I add events and cannot remove them; delete it in your calendar.",
}
"""What is said of what cannot be undone."""


_HELD = frozenset({"nexus", "tool:remember", "tool:correct", "tool:forget"})
"""The routes of answers that name what memory may forget."""


def has_effect(turn: ConversationTurn) -> bool:
    """Whether something is otherwise since the answer."""
    return not turn.failed and (bool(turn.goal_id) or turn.route in EFFECTS)


def find_ended(said: Utterance, conversation: Conversation) -> Resolved | None:
    """What "cancel that" ends, and "undo that" takes back: what was named last, or was done last."""
    text, words = said.text, said.plain
    if not WAYS["dropped"].fullmatch(words):
        words = read_utterance(WAYS["reason"].sub("", text)).plain
    if WAYS["forget"].fullmatch(words) and (kept := _find_kept(conversation)):
        return kept
    last = conversation.turns[-1]
    drops = bool(WAYS["dropped"].fullmatch(words)) and last.route not in _HELD
    if drops and not has_effect(last):
        return Resolved(text=text, reply="All right.", route="tool:small_talk")
    if WAYS["end_all"].fullmatch(words):
        return _end_all(conversation)
    undoes = bool(WAYS["undo"].fullmatch(words) or WAYS["undo"].fullmatch(said.plain))
    stops = bool(WAYS["stop"].fullmatch(words))
    ends = WAYS["end"].fullmatch(words) or WAYS["takes_back"].fullmatch(said.plain)
    if not (drops or undoes or stops or ends):
        return None
    recent = conversation.turns[-2:] if stops else conversation.turns
    turn = next((each for each in reversed(recent) if has_effect(each)), None)
    if undoes:
        return _undo(text, turn) if turn else None
    wanted = next((kind for kind in ENDS if kind in words), "")
    named = [each for each in conversation.mentioned if each.what in ENDS and wanted in ("", each.what)]
    if len(named) > 1 and conversation.turns[-1] is not turn:
        return None
    if turn and conversation.turns[-1] is turn and turn.route in ("tool:reminder_cancel", "tool:stop"):
        return Resolved(text=text, reply="It is cancelled already; nothing more was done.", route=turn.route)
    if len(named) == 1:
        return end(named[0])
    return _undo(text, turn) if turn and not named else None


def _find_kept(conversation: Conversation) -> Resolved | None:
    """That the memory is to be forgotten which the last answer kept, or quoted first; None for neither."""
    turn = conversation.turns[-1]
    named = [each for each in conversation.mentioned if each.what == "memory"]
    if named and len(named) == len(conversation.mentioned):
        return Resolved(text=f"/forget memory {named[0].ref}", understood="forget that")
    quoted = turn.answer.partition("\n")[0] if turn.route == "nexus" and conversation.mentioned else ""
    return Resolved(text=f"/forget {quoted}", understood="forget that") if quoted else None


def _end_all(conversation: Conversation) -> Resolved | None:
    """The question whether all reminders are to be cancelled which the last answer listed."""
    named = [each for each in conversation.mentioned if each.what == "reminder"]
    if not named or conversation.turns[-1].route != "tool:reminder_list":
        return None
    choices = (Choice(label="Yes", text="Cancel all reminders"), Choice(label="No"))
    asks = AskedBack(choices=choices)
    reply = format_question(f"Shall I cancel all reminders ({len(named)} were listed)?", asks)
    return Resolved(text="Cancel all reminders", reply=reply, route="tool:reminder_cancel", asks=asks)


def _undo(text: str, turn: ConversationTurn) -> Resolved:
    if turn.route.startswith("tool:reminder_"):
        shown = "undo the change of the reminder"
        return Resolved(text=f"/reminder_change {shown}", understood=shown)
    if turn.route in ("tool:remember", "tool:correct"):
        kept = re.search(r"memory forget (\S+)", turn.answer)
        about = f"memory {kept[1]}" if kept else turn.text
        return Resolved(text=f"/forget {about}", understood="forget that")
    if turn.route in _LASTING:
        return Resolved(text=text, reply=_LASTING[turn.route], route=turn.route)
    response = Response(text=turn.answer, goal_id=turn.goal_id)
    begun = [each for each in find_mentioned(response) if each.what in ENDS and each.what != "reminder"]
    return end(begun[0]) if begun else Resolved(text=f"/stop {text}")


def end(named: Mentioned) -> Resolved:
    """The message that ends what was named."""
    routed, shown = ENDS[named.what]
    return Resolved(text=routed.format(ref=named.ref), understood=shown.format(ref=named.ref))


def alter(said: Utterance, conversation: Conversation) -> Resolved | None:
    """What a bare time changes: the reminder, the schedule or the event that was told of last."""
    text, turn = said.bare, conversation.turns[-1]
    if another := WAYS["another"].fullmatch(text):
        return _set_another(another, turn)
    if same := WAYS["same"].fullmatch(text):
        return _set_same(format_time_answer(same["time"]), turn)
    if said.length > MAX_WORDS or WAYS["more"].match(text) or said.asks:
        return None
    bare = WAYS["after"].sub("", WAYS["after"].sub("", WAYS["before"].sub("", text))).strip(" .!,")
    named = [each.ref for each in conversation.mentioned if each.what == "reminder"]
    reminded = len(named) == 1 and turn.route.startswith("tool:reminder_")
    if reminded and (whole := _repeat_it(said, named[0], turn)):
        return Resolved(text=whole, understood=whole)
    if (called := WAYS["called"].fullmatch(text)) and len(named) == 1 and not turn.failed:
        whole = f"Rename reminder {named[0]} to {called['name'].strip(' .!')}"
        return Resolved(text=whole, understood=whole)
    if (part := PART_OF_HOUR.fullmatch(bare)) and (told := _SET_FOR.search(turn.answer)):
        bare = (
            f"{told['at'][-5:-2]}{_MINUTES[' '.join(part[1].lower().split())]}"  # of the hour that was told
        )
    if (pushed := WAYS["pushed"].fullmatch(WAYS["after"].sub("", text).strip(" .!,"))) and named:
        bare = f"{pushed['amount']} {'earlier' if pushed['earlier'] else 'later'}"
    bare = WAYS.rewrite("day_beside", bare)
    by = WAYS["by"].fullmatch(bare)
    time = "" if by else format_time_answer(bare)
    if not (by or time) or turn.failed:
        return None
    if reminded:
        when = bare if by else re.sub(r"(?i)^(?:(?:at|to|on)\s+)?", "to ", bare, count=1)
        whole = f"Move the reminder {named[0]} {when}"
        return Resolved(text=whole, understood=whole)
    schedules = [each.ref for each in conversation.mentioned if each.what == "schedule"]
    if turn.route == "tool:schedule" and schedules and time:
        whole = swap(turn.meant or turn.text, bare if read_utterance(bare).is_time else time)
        return Resolved(text=f"/schedule {whole}", understood=whole, replaces=schedules[0])
    jobs = [each.ref for each in conversation.mentioned if each.what == "job"]
    if turn.route == "tool:night_job" and len(jobs) == 1 and time:
        whole = swap(turn.meant or turn.text, bare if read_utterance(bare).is_time else time)
        return Resolved(text=f"/night_job {whole}", understood=whole, replaces=jobs[0])
    if turn.route == "tool:calendar_add":
        reply = "I add events and cannot change them; move it in your calendar. Nothing was changed."
        return Resolved(text=text, reply=reply, route=turn.route)
    return None


def _find_told(turn: ConversationTurn) -> tuple[datetime, str] | None:
    """When the reminder or the event is that an answer told first, and what it is."""
    if event := _EVENT_AT.search(turn.answer) if turn.route == "tool:calendar" else None:
        return datetime.fromisoformat(f"{event['day']}T{event['clock']}"), event["text"]
    found = next(filter(None, (way.search(turn.answer) for way in (_SET_FOR, _MOVED_TO, _ADDED))), None)
    return (datetime.strptime(found["at"], "%d %B %Y at %H:%M"), found["text"]) if found else None  # noqa: DTZ007 - local


def _repeat_it(said: Utterance, ref: str, turn: ConversationTurn) -> str:
    """The order that has a reminder repeated from now on: "do that every day", at the time that was told."""
    phrases = [each for each in said.times.chosen if each.kind == "repeat"]
    told = _find_told(turn)
    if not phrases or not told or WAYS["about_reminder"].sub(" ", said.times.rest).strip():
        return ""
    at = told[0]
    named = " ".join(each.match[0].strip() for each in said.times.chosen)
    day = f" on {at:%A}" if WAYS["of_week"].search(named) else ""
    timed = any(each.kind in ("clock", "part") for each in said.times.chosen)
    return f"Move the reminder {ref} to {named}{day}{'' if timed else f' at {at:%H:%M}'}"


def _set_another(another: re.Match[str], turn: ConversationTurn) -> Resolved | None:
    """One more of the reminder that was set last, so long before or after it."""
    if turn.route not in ("tool:reminder_set", "tool:reminder_change") or turn.failed:
        return None
    if (told := _find_told(turn)) is None:  # what repeats, or several
        reply = "Which one, and when? Say it in one sentence, as in 'remind me on Friday at 9 to call Ana'."
        return Resolved(text=turn.text, reply=reply, route=turn.route)
    (at, text), away = told, read_amount(another["amount"])
    at = at - away if another["way"].lower() in ("earlier", "sooner", "before") else at + away
    whole = f"Remind me on {at:%Y-%m-%d} at {at:%H:%M} to {text}"
    return Resolved(text=whole, understood=whole)


def remind_before(said: Utterance, conversation: Conversation) -> Resolved | None:
    """A reminder so long before the event that was told of last; of a reminder it asks what is meant."""
    turn, found = conversation.turns[-1], WAYS["remind_before"].fullmatch(said.bare)
    told = _find_told(turn)
    if not found or turn.failed or not told:
        return None
    (at, text), amount = told, re.sub(r"(?i)^the ", "1 ", found["amount"])
    earlier = at - read_amount(amount)
    whole = f"Remind me on {earlier:%Y-%m-%d} at {earlier:%H:%M} of {text}"
    named = [each.ref for each in conversation.mentioned if each.what == "reminder"]
    if len(named) != 1:
        return Resolved(text=whole, understood=whole)
    choices = (
        Choice(
            label=f"move it to {earlier:%A} at {earlier:%H:%M}",
            text=f"Move the reminder {named[0]} {amount} earlier",
        ),
        Choice(label="one more reminder then", text=whole),
    )
    asks = AskedBack(choices=choices)
    reply = format_question("Shall I move it, or remind you twice? Answer with a number.", asks)
    return Resolved(text=whole, reply=reply, route="tool:reminder_change", asks=asks)


def _set_same(time: str, turn: ConversationTurn) -> Resolved | None:
    """The reminder that was set last once more, at ``time``; of a day alone at its time of day."""
    told = _find_told(turn)
    if not time or not told or turn.failed:
        return None
    timed = any(each.kind in ("clock", "part", "span") for each in find_phrases(time))
    clock = "" if timed else f" at {told[0]:%H:%M}"
    whole = f"Remind me {time}{clock} to {told[1]}"
    return Resolved(text=whole, understood=whole)


KEPT = frozenset({"tool:remember", "tool:correct"})
_SAID_KEPT = re.compile(r"I shall remember: (?P<fact>[^\n]+)")


def amend(said: Utterance, turn: ConversationTurn) -> Resolved | None:
    """What "make that 19" corrects in the fact that was kept last, if it has such a value or thing."""
    kept = _SAID_KEPT.match(turn.answer) if turn.route in KEPT and not turn.failed else None
    found = WAYS["amends"].fullmatch(said.bare)
    if not kept or not found or said.length > MAX_WORDS or WAYS["more"].match(said.text) or said.asks:
        return None
    whole = swap_alike(kept["fact"], found["other"])
    return Resolved(text=f"/correct {whole}", understood=whole) if whole else None


ADDS = read_sayings(__file__, "context")

_ALONE = ("tool:small_talk", "tool:unclear", "tool:refuse", "tool:language", "tool:statement", "conductor")
"""The routes of answers that nothing is added to."""


def add(said: Utterance, turn: ConversationTurn) -> Resolved | None:
    """What ``said`` adds to the last message, for the tool that answered it; None for any other message."""
    text, words = said.bare, said.plain
    if ADDS["told"].fullmatch(words):
        return Resolved(text=text, reply=f"You wrote: “{turn.text}”")
    before = (turn.meant or turn.text).strip().rstrip("?.! ")
    if ADDS["now"].fullmatch(words):
        if turn.route == "tool:night_job" and (job := JOB.search(turn.answer)):
            return Resolved(text=f"/queue run {job[0]}", understood=f"run job {job[0]} now")
        timeless = ADDS["any_time"].sub(" ", before).strip()
        bare = re.sub(r"(?i)\b(?:for|until|on|at|in)$", "", timeless)
        whole = f"{' '.join(bare.split())} now"
        return Resolved(text=whole, understood=whole)
    if (
        (given := ADDS["value"].fullmatch(text))
        and (subject := find_subject(before))
        and (turn.route == "nexus" and turn.answer.startswith("Memory holds nothing"))
    ):
        whole = f"Remember that {subject} is {given['value']}"
        return Resolved(text=whole, understood=whole)
    if len(words.split()) > MAX_WORDS or not is_reading(turn):
        return None
    adds = ADDS["too"].fullmatch(text) and not ADDS["it"].search(text)
    narrows = (ADDS["narrows"].fullmatch(text) or adds) and not ADDS["talk"].search(text)
    refers = turn.route != "nexus" and ADDS["pronoun"].fullmatch(text)
    if narrows or refers or ADDS["which"].fullmatch(words):
        whole = f"{before}, {text}"
        return Resolved(text=said.text, joined=whole) if refers else stay(whole, turn)
    return None


def stay(whole: str, turn: ConversationTurn) -> Resolved:
    """``whole`` for the tool that answered last."""
    tool = turn.route.removeprefix("tool:") if turn.route.startswith("tool:") else "memory"
    return Resolved(text=f"/{tool} {whole}", understood=whole)


def is_reading(turn: ConversationTurn) -> bool:
    """Whether the last answer told something, so that more can be asked of the tool that told it."""
    return not turn.goal_id and turn.route not in EFFECTS and turn.route not in _ALONE
