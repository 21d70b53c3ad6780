"""What a message is recognised by: the features of the classifiers ``desk`` and ``following``.

Of a message that follows another: what it is like alone and with that one, and its shape.

Few features that name no words of a message, and what its embedding says of the role that a tool plays, make
the log-odds of each tool (the classifier ``following``).
"""

import math
import re
from collections.abc import Iterator, Mapping

import msgspec

from services.nexus.tools.tool import Effect, Tool
from shared.language.sayings import read_sayings
from shared.language.utterance import Act, read_utterance

WAYS = read_sayings(__file__, "following")

FOLLOWS: Mapping[str, Mapping[str, float]] = {
    "reminder_set": {"reminder_change": 6, "reminder_cancel": 8, "reminder_list": 2},
    "reminder_change": {"reminder_change": 6, "reminder_cancel": 8, "reminder_list": 3},
    "reminder_list": {"reminder_change": 6, "reminder_cancel": 16, "reminder_set": 2},
    "reminder_cancel": {"reminder_list": 3, "reminder_cancel": 2, "reminder_set": 2},
    "calendar": {"calendar": 2, "calendar_add": 2},
    "calendar_add": {"calendar_add": 3, "calendar": 2},
    "remember": {"correct": 4, "forget": 3, "remember": 2, "memory": 2},
    "correct": {"correct": 3, "forget": 2, "memory": 2},
    "forget": {"forget": 3, "memory": 3, "remember": 2},
    "memory": {"memory": 3, "correct": 3, "forget": 2, "remember": 2},
    "work": {"goals": 3, "stop": 4, "work": 2, "spending": 2},
    "goals": {"goals": 2, "work": 3, "stop": 2, "spending": 2},
    "night_job": {"queue": 3, "stop": 4, "night_job": 2, "spending": 2},
    "schedule": {"schedule": 3, "queue": 3, "stop": 4, "spending": 2},
    "queue": {"queue": 2, "stop": 3, "night_job": 2, "schedule": 2},
    "stop": {"queue": 2, "goals": 2, "work": 2},
    "waiting": {"approve": 4, "waiting": 2},
    "approve": {"waiting": 3, "approve": 3},
    "mail": {"mail": 2, "send_mail": 3},
    "send_mail": {"send_mail": 3, "mail": 2, "waiting": 2},
    "news": {"news": 2, "web": 2},
    "papers": {"papers": 2, "web": 2},
    "web": {"web": 2, "remember": 2},
    "weather": {"weather": 2},
    "small_talk": {"small_talk": 2, "capabilities": 2},
    "capabilities": {"capabilities": 2, "small_talk": 2},
}
"""How many times likelier a tool is after the answer of another; what is not named is as likely as ever."""
ALTERS: Mapping[str, str] = {
    "reminder_set": "reminder_change",
    "reminder_list": "reminder_change",
    "remember": "correct",
}
"""What alters that which another tool did; the others alter it themselves."""
ENDS: Mapping[str, str] = {
    **dict.fromkeys(("work", "goals", "night_job", "schedule", "queue"), "stop"),
    **dict.fromkeys(("reminder_set", "reminder_list", "reminder_change"), "reminder_cancel"),
    **dict.fromkeys(("remember", "correct", "memory"), "forget"),
}
"""What ends that which another tool did or told."""
TALK = frozenset({"small_talk", "statement", "refuse", "unclear", "capabilities", "language"})
"""What does nothing and tells nothing of the office."""
NAMED_ROLES = ("memory", "work", "small_talk", "statement", "unclear", "remember")
"""Tools that are a role of their own."""
ROLES = ("same", "alters", "ends", "related", *NAMED_ROLES, "other")
"""What a tool can be to the one that was talked about."""
SHORT = 3  # The most words of a message that seldom stands for itself
LEAST = 1e-3  # Added to a probability before its logarithm is taken


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What a message follows: the tool that answered the one before, and whether that was not done."""

    tool: str
    failed: bool = False


def is_whole(text: str) -> bool:
    """Whether ``text`` needs no other: "what does E07 mean?", "list our keys", but not "and by when?"."""
    said = read_utterance(text)
    refers = said.has_pronoun or said.joins
    if WAYS["wants"].match(text) and said.length >= SHORT:
        return not refers
    return said.act is Act.QUESTION and said.length > SHORT and not refers


def choose_by_odds(odds: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The probability of each tool, by what the classifier ``following`` makes of its features."""
    most = max(found["log_odds"] for found in odds.values())
    grown = {name: math.exp(found["log_odds"] - most) for name, found in odds.items()}
    total = sum(grown.values())
    return {name: value / total for name, value in grown.items()}


def read_following(
    text: str,
    before: Before,
    alone: Mapping[str, float],
    joined: Mapping[str, float],
    tools: Mapping[str, Tool],
) -> dict[str, dict[str, float]]:
    """The features of each tool; ``alone`` is how likely it is for ``text``, ``joined`` for both messages."""
    shapes = find_shapes(text, before, tools)
    read = {}
    for name in alone:
        like, together = math.log(alone[name] + LEAST), math.log(joined[name] + LEAST)
        found = {
            "alone": like,
            "joined": together,
            "follows": math.log(FOLLOWS.get(before.tool, {}).get(name, 1.0)),
        }
        for shape in {"short", "pronoun", "part"} & shapes:
            found |= {f"alone {shape}": like, f"joined {shape}": together}
        roles = {
            "same": name == before.tool,
            "alters": ALTERS.get(before.tool) == name,
            "ends": ENDS.get(before.tool) == name,
            "talk": name in TALK,
            "memory": name == "memory",
            "work": name == "work",
            "effect": tools[name].effect is not Effect.READS,
        }
        for role in (role for role, is_so in roles.items() if is_so):
            found |= {f"{role} {shape}": 1.0 for shape in shapes}
        read[name] = found | {f"role {role}": 1.0 for role in find_roles(before.tool, name)}
    return read


def find_roles(last: str, name: str) -> tuple[str, ...]:
    """What the tool ``name`` is to one that was talked about."""
    acts = {"same": name == last, "alters": ALTERS.get(last) == name, "ends": ENDS.get(last) == name}
    acts["related"] = name in FOLLOWS.get(last, {}) and not any(acts.values())
    found = [role for role, is_so in acts.items() if is_so]
    return tuple([*found, name] if name in NAMED_ROLES else found) or ("other",)


def find_shapes(text: str, before: Before, tools: Mapping[str, Tool]) -> set[str]:
    """The names of what can be seen of a message without its meaning."""
    said = read_utterance(text)
    act, words = said.act, said.length
    last = tools.get(before.tool)
    seen = {
        "any": True,
        "part": said.is_part,
        "short": words <= SHORT,
        "middling": words <= 6,
        "long": words > 10,
        "question": act is Act.QUESTION or said.asks,
        "failed": before.failed,
        "after reading": last is not None and last.effect is Effect.READS,
        "after talk": before.tool in TALK,
        **{kind.value: act is kind for kind in (Act.REQUEST, Act.STATEMENT, Act.NEGATED)},
        "pronoun": said.has_pronoun,
        "joins": said.joins,
        **{shape: bool(WAYS[shape].search(text)) for shape in ("heard", "ends", "time")},
    }
    return {shape for shape, is_so in seen.items() if is_so}


FEATURE_WAYS = read_sayings(__file__, "features")

MAX_LENGTH = 600  # Characters of a message that are read: a request states its purpose at the beginning
_WORD, _PAIR, _PART, _CUE = 1.0, 0.8, 0.35, 1.5
"""The weights of a word, of two words, of a part of a word, and of an act or a value."""

_PATH = re.compile(
    r"(?<![\w/.])~?/[^\s\"'`]+|~/\S*|(?<!\w)\.\.?/\S*"
    r"|(?<![\w/.~:-])[a-zA-Z_][\w.-]+(?:/[\w.-]{2,}){2,}/?|(?<![\w/.~:-])[a-zA-Z_][\w-]+/[\w-]+\.[a-z]{1,4}\b"
    r"|(?<![\w/.~:-])(?:src|libs?|services|packages|pkgs?|apps?|docs?|tests?|bin|scripts|cmd|internal|api|frontend|backend|server"
    r"|client|core|config|infra|deploy|modules|tools|examples|components)/[\w./-]+"
)
"""Also what is a path without saying so: "services/auth", "docs/intro.md"."""
_URL = re.compile(r"(?i)\b(?:https?://|www\.)\S+")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")
_TOKEN = re.compile(r"[a-zà-ÿ']+|\d+|[?!:%€$£*+=/]")
_CUES = (
    "number clock day night repeated span remind remember forget mail calendar money office weather science"
    " web agent person short long we me you"
).split()


def normalise(text: str) -> str:
    """``text`` spelled in full, with paths and addresses as PATH, URL and ADDRESS, as in the examples."""
    text = read_utterance(text[:MAX_LENGTH]).spelled
    return _PATH.sub("PATH", _ADDRESS.sub("ADDRESS", _URL.sub("URL", text)))


def read_features(text: str) -> dict[str, float]:
    """The weights of the features of ``text`` by their names: its act, values, words and parts of words."""
    return dict(_read(text))


def _read(text: str) -> Iterator[tuple[str, float]]:
    text = normalise(text)
    yield f"act {read_utterance(text).act.value}", _CUE
    for cue in _CUES:
        if FEATURE_WAYS[cue].search(text):
            yield f"cue {cue}", _CUE
    for value in ("PATH", "URL", "ADDRESS"):
        if value in text:
            yield f"cue {value}", _CUE
    words = _TOKEN.findall(re.sub(r"\d", "0", text.lower()))[:80]
    yield from ((f"word {word}", _WORD) for word in words)
    yield from ((f"pair {one} {two}", _PAIR) for one, two in zip(["^", *words], [*words, "$"], strict=True))
    for word in words:
        framed = f"<{word}>"
        for size in (3, 4, 5):
            yield from ((f"part {framed[at : at + size]}", _PART) for at in range(len(framed) - size + 1))
