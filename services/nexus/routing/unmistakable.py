"""What is unmistakable about a message: commands, other languages, reminders."""

import functools
import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from services.nexus.answers.asked_time import read_asked_time
from services.nexus.routing.decision import UNCLEAR, Decision, fits, is_allowed
from services.nexus.routing.following import SHORT, normalise
from services.nexus.routing.request import Request
from services.nexus.timetable.reminder_requests import ReminderIntent, find_intent, read_new
from services.nexus.tools.tool import Tool
from shared.language.sayings import read_sayings
from shared.language.utterance import Act, read_utterance
from shared.text.prose import split_sentences

FILE = Path(__file__).with_name("languages.toml")
_MARKS = re.compile(r"[äöüß¿¡ñçéèêàâîôûãõœąćęłńśźżåğışčďěňřšťůž]")
ENGLISH_ONLY = (
    "Without a model I understand English only: write in English, or set up a model (MAILROOM_BRAIN)."
)
"""The same for a language that is not recognised."""


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """How a language is recognised, and the ``sentence`` in it that without a model English is understood."""

    sentence: str
    words: str = ""
    letters: str = ""
    script: str = ""


class Languages(msgspec.Struct, frozen=True, kw_only=True):
    """What languages.toml holds."""

    english: str
    languages: dict[str, Language]

    def count(self, words: list[str]) -> dict[str, int]:
        """How many of ``words`` are small words of each language."""
        known = {name: frozenset(each.words.split()) for name, each in self.languages.items() if each.words}
        return {name: sum(word in small for word in words) for name, small in known.items()}


@functools.cache
def read_languages() -> Languages:
    """The languages of the file."""
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), Languages)


def find_language(text: str) -> str:
    """The language of ``text`` if it is one of the file and not English; else an empty text."""
    known, lower = read_languages(), text.lower()
    for name, each in known.languages.items():
        if each.script and re.search(each.script, text):
            return name
    words = re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", lower.replace("’", "'"))
    if not words:
        return ""
    english = sum(word in known.english.split() for word in words)
    counts = known.count(words)
    for name in counts:
        letters = known.languages[name].letters
        counts[name] += bool(letters and re.search(letters, lower))
    best = max(counts, key=lambda name: counts[name])
    marked = bool(_MARKS.search(lower))
    enough = counts[best] >= 2 or (marked and counts[best] >= 1 and len(words) <= 6)
    share = counts[best] / len(words)
    return best if enough and counts[best] > english + (0 if marked else 1) and share >= 0.25 else ""


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
SURE_ASKED = 0.99  # How sure what asks what happened is for memory: the office may be asked instead
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
    now = datetime.now(UTC)
    asked = read_asked_time(text, now)
    if asked and asked.wants_all and not asked.names and asked.span.end <= now.timestamp():
        return Decision(tool="memory", why=f"it asks what happened: {asked.named}", sure=SURE_ASKED)
    intent = find_intent(text)
    if intent and (intent not in MADE_OR_LISTED or read_utterance(text).act is not Act.NEGATED):
        return Decision(tool=INTENTS[intent], why=f"it wants to {intent.value} a reminder")
    begun = ((name, tool.says.match(text)) for name, tool in tools.items() if tool.says)
    said, match = next(((name, match) for name, match in begun if match), ("", None))
    # "What I told you is wrong, it is 19" is the statement after its first clause.
    whole = text[match.end() :] if said == "correct" and match else text
    if said and fits(tools[said], text) and is_allowed(tools[said], read_utterance(whole).act):
        return Decision(tool=said, why=f"it begins as what is for {said}")
    wanted = "" if goes_on and len(text.split()) <= SHORT else _plain(text)
    for name, tool in tools.items():
        if wanted and wanted in _plain_examples(tool):
            return Decision(tool=name, why=f"it is an example of {name}")
    return None


_TAKES_ALL = frozenset({"remember", "correct", "refuse"})  # What takes a whole message, however long it is
_ADDRESS = re.compile(r"\S@\S")
MIN_MORE = 3  # The fewest words of another sentence that says more than a courtesy


def decide_whole(request: Request, tools: Mapping[str, Tool]) -> Decision | None:
    """The tool whose words are unmistakable and leave nothing of the message over; None if a model is asked.

    It is asked what memory has to answer, what the conversation has to complete, and in other languages.
    """
    text, said = request.text, request.utterance
    found = decide_by_rule(text, tools, goes_on=bool(request.before))
    if found is None or found.tool in ("memory", "language"):
        return None
    if request.understood or read_command(text, tools) or found.tool in _TAKES_ALL:
        return found
    whole = [each for each in split_sentences(text) if len(each.split()) >= MIN_MORE]
    if len(whole) > 1 or WAYS["more"].search(text) or (request.before and said.has_pronoun):
        return None
    if found.tool == "send_mail" and not _ADDRESS.search(text):
        return None
    if found.tool == "reminder_set" and request.before:
        return found if not read_new(text, datetime.now(UTC), UTC).missing else None
    return found


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
