"""What is unmistakable about a message: commands, other languages, reminders, times of work, examples."""

import functools
import re
from collections.abc import Mapping

from services.nexus.conversation.phrases import CLOCK, DAY
from services.nexus.reminders.intents import ReminderIntent, find_intent
from services.nexus.routing.decision import UNCLEAR, Decision, fits, is_allowed
from services.nexus.routing.features import normalise
from services.nexus.routing.following import SHORT
from services.nexus.routing.languages import find_language
from services.nexus.routing.speech_acts import Act, find_act
from services.nexus.tools.tool import Tool

INTENTS = {
    ReminderIntent.SET: "reminder_set",
    ReminderIntent.LIST: "reminder_list",
    ReminderIntent.SNOOZE: "reminder_change",
    ReminderIntent.MOVE: "reminder_change",
    ReminderIntent.RENAME: "reminder_change",
    ReminderIntent.UNDO: "reminder_change",
    ReminderIntent.FINISH: "reminder_change",
    ReminderIntent.CANCEL: "reminder_cancel",
}
MADE_OR_LISTED = frozenset({ReminderIntent.SET, ReminderIntent.LIST})
"""What is not wanted by "no reminders today"."""
QUALIFIED = frozenset({"work", "night_job", "web", "papers", "news", "weather"})
"""What is done repeatedly or tonight if the message says so."""
_REPEATED = re.compile(
    r"(?i)^\W*(?:please\s+)?(?:every|evry|each|cron|daily|nightly|(?:bi-?)?weekly|fortnightly|monthly|quarterly|hourly|yearly|once\s+an?|twice\s+an?|(?:on\s+)?week(?:days|ends)"
    r"|from\s+now\s+on|on\s+the\s+\d+\w*\s+and\s+(?:the\s+)?\d+\w*)\b"
    r"|\b(?:\d+(?:st|nd|rd|th)|first|last)(?:\s+\w+){0,2}\s+of\s+(?:the|each|every)\s+(?:month|quarter|year)\b"
    r"|^\W*(?:on\s+)?(?:mon|tues?|wed|thurs?|fri|sat|sun)\w*\s*(?:\+|&|and)\s*(?:mon|tues?|wed|thurs?|fri|sat|sun)"
    r"|\b(?:once|twice|\w+\s+times)\s+(?:an?|per)\s+(?:hour|day|night|week|month|quarter|year)\b"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days\b|\b(?:every|each)\s+(?:\w+\s+)?(?:day|night|morning|evening|week\w*|month|hour"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?\b"
)
TONIGHT = re.compile(
    r"(?i)\b(?:to\s?ni(?:ght|te)|over\s?ni(?:ght|te)|(?:during|through|in)\s+the\s+night|after\s+(?:hours|closing|work(?!\s+on\b))"
    r"|(?:small|wee|quiet|night)\s+hours|before\s+(?:breakfast|dawn|sunrise)|by\s+(?:tomorrow\s+)?morning"
    r"|(?:while|whilst|when|once|after|as\s+soon\s+as)\s+(?:i|we|you|every\s?(?:one|body)|no\s?(?:body|one))(?:['’]?\s?(?:m|re|s|ve)|\s+(?:am|are|is"
    r"|has|have))?\s*(?:a?sleep\w*|in\s+bed|gone|left|closed|shut|off\s?line|went|goes|gone\s+to\s+bed))\b"
)
_TIMED = re.compile(
    rf"(?i)^\W*(?:please\s+)?(?:(?:{DAY})[\s,]+)?(?:{CLOCK})(?:\s+(?:{DAY}))?[\s,:;]+(?=\w+\s)"
    rf"|(?:\s|^)[~.]?/\S+\s+(?:(?:{DAY})\s+)?(?:{CLOCK})(?:\s+(?:{DAY}))?(?:\s+please)?\W*$"
)
"""A time, before what is to be done or behind a path, at which it is to begin."""
_DENIED = re.compile(r"(?i)\bnot\s+(?:to\s?night|today|now|yet|this\s+(?:week|evening)|over\s?night)\b")
"""A time at which something is not to be done."""
_FORBIDDEN = re.compile(
    r"(?is)\b(?:turn|switch|shut)\s+off\b.{0,20}\b(?:safety|audit|sandbox|jail|approvals?|policy|guards?"
    r"|logging)\b"
    r"|\b(?:disable|delete|erase|wipe|remove|skip|bypass|ignore|override|circumvent|break|disregard"
    r"|forget)\b.{0,20}"
    r"\b(?:safety|audit|sandbox|jail|approvals?|policy|polic(?:y|ies)|rules?|instructions?|guidelines?"
    r"|restrictions?|"
    r"limits\s+for)\b|\bsystem\s+prompt\b|\bdeveloper\s+mode\b|\byou\s+are\s+now\s+(?:an?\s+|in\s+)?(?:dan"
    r"|root|admin\w*|unrestricted|free)\b"
    r"|\b(?:act|pretend|behave)\s+(?:as\s+(?:if|though)|like|that)\b.{0,40}\b(?:rules|limits|admin\w*|root"
    r"|approved|restrict\w*)\b"
    r"|\b(?:approve|grant|confirm|allow)\b(?!.*\?).{0,60}\b(?:from\s+now\s+on|in\s+(?:the\s+)?future|always|automatically|without\s+(?:asking|showing))\b"
)
"""Orders to break the office's rules."""
ALIASES = {
    "help": "capabilities",
    "reminders": "reminder_list",
    "remind": "reminder_set",
    "status": "goals",
    "ask": "memory",
}
"""Other names of commands: /help, /status."""


def decide_by_rule(text: str, tools: Mapping[str, Tool], *, goes_on: bool = False) -> Decision | None:
    """The tool whose words are unmistakable: a command, another language, or the words of an example.

    If the message ``goes_on`` after another, a short example ("stop it") is not unmistakable.
    """
    if found := read_command(text, tools):
        return found
    if language := find_language(text):
        return Decision(tool="language", why=f"it is {language}")
    if _FORBIDDEN.search(text):
        return Decision(tool="refuse", why="it orders to break the rules")
    intent = find_intent(text)
    if intent and (intent not in MADE_OR_LISTED or find_act(text) is not Act.NEGATED):
        return Decision(tool=INTENTS[intent], why=f"it wants to {intent.value} a reminder")
    said = next((name for name, tool in tools.items() if tool.says and tool.says.match(text)), "")
    if said and fits(tools[said], text) and is_allowed(tools[said], find_act(text)):
        return Decision(tool=said, why=f"it begins as what is for {said}")
    wanted = "" if goes_on and len(text.split()) <= SHORT else _plain(text)
    for name, tool in tools.items():
        if wanted and wanted in _plain_examples(tool):
            return Decision(tool=name, why=f"it is an example of {name}")
    return None


def read_command(text: str, tools: Mapping[str, Tool]) -> Decision | None:
    """The tool that ``/name`` at the beginning of ``text`` calls; None if there is none."""
    found = re.match(r"\s*/(\w+)\s*(.*)", text, re.DOTALL)
    name = ALIASES.get(found[1].lower(), found[1].lower()) if found else ""
    if found is None or name not in tools:
        return None
    return Decision(tool=name, why=f"it is the command /{found[1]}", text=found[2].strip() or name)


def qualify(text: str, name: str, tools: Mapping[str, Tool]) -> str:
    """The tool for work of ``name`` at the time that ``text`` names: repeated, tonight, later, or now.

    It is unclear if the text names only a time at which it is not to be done.
    """
    if _REPEATED.search(text) and fits(tools["schedule"], text):
        return "schedule"
    if _DENIED.search(text) and not TONIGHT.search(_DENIED.sub(" ", text)):
        return UNCLEAR
    later = TONIGHT.search(text) or _TIMED.search(text)
    return "night_job" if later and name == "work" else name


@functools.cache
def _plain_examples(tool: Tool) -> frozenset[str]:
    return frozenset(map(_plain, tool.sentences))


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s+*/%-]", " ", normalise(text).lower()).split())
