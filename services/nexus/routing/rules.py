"""What is unmistakable about a message: commands, other languages, reminders, times of work, examples."""

import functools
import re
from collections.abc import Mapping

from services.nexus.reminders.intents import ReminderIntent, find_intent
from services.nexus.routing.decision import UNCLEAR, Decision, fits, is_allowed
from services.nexus.routing.features import normalise
from services.nexus.routing.following import SHORT
from services.nexus.routing.languages import find_language
from services.nexus.tools.tool import Tool
from shared.language.sayings import read_sayings
from shared.language.speech_acts import Act
from shared.language.utterance import read_utterance

WAYS = read_sayings(__file__, "rules")
TONIGHT = WAYS["tonight"]

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
    if WAYS["forbidden"].search(text):
        return Decision(tool="refuse", why="it orders to break the rules")
    intent = find_intent(text)
    if intent and (intent not in MADE_OR_LISTED or read_utterance(text).act is not Act.NEGATED):
        return Decision(tool=INTENTS[intent], why=f"it wants to {intent.value} a reminder")
    said = next((name for name, tool in tools.items() if tool.says and tool.says.match(text)), "")
    if said and fits(tools[said], text) and is_allowed(tools[said], read_utterance(text).act):
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
    if WAYS["repeated"].search(text) and fits(tools["schedule"], text):
        return "schedule"
    if WAYS["denied"].search(text) and not TONIGHT.search(WAYS["denied"].sub(" ", text)):
        return UNCLEAR
    later = TONIGHT.search(text) or WAYS["timed"].search(text)
    return "night_job" if later and name == "work" else name


@functools.cache
def _plain_examples(tool: Tool) -> frozenset[str]:
    return frozenset(map(_plain, tool.sentences))


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s+*/%-]", " ", normalise(text).lower()).split())
