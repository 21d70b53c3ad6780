"""What a message is recognised by: its words and parts of words, its act, and the values in it."""

import re
import zlib
from collections.abc import Iterator

from services.nexus.routing.speech_acts import find_act

BUCKETS = 4_096
"""How many numbers the words and their parts are hashed to."""
MAX_LENGTH = 600
"""Characters of a message that are read: a request states its purpose at the beginning."""
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
_CUES = {
    "number": re.compile(r"\d"),
    "clock": re.compile(
        r"(?i)\b\d{1,2}[:.]\d\d\b|\b(?:at|by|until|till)\s+\d{1,2}\b|\b\d{1,2}\s?(?:am|pm|h|uhr)\b|\b(?:noon|midnight|half\s+past)\b"
    ),
    "day": re.compile(
        r"(?i)\b(?:today|tomorrow|tmrw|(?:mon|tues|wednes|thurs|fri|satur|sun)day|weekend)\b|\b\d{1,2}(?:st|nd|rd|th)\b"
    ),
    "night": re.compile(
        r"(?i)\b(?:to\s?ni(?:ght|te)|over\s?ni(?:ght|te)|night|(?:small|wee|quiet)\s+hours|asleep|sleep|after\s+(?:work|hours)|by\s+(?:the\s+)?morning|in\s+bed)\b"
    ),
    "repeated": re.compile(
        r"(?i)\b(?:every|each|daily|nightly|weekly|monthly|hourly|yearly|once\s+an?|twice\s+an?)\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days\b"
    ),
    "span": re.compile(
        r"(?i)\b(?:in|for|by)\s+(?:\d+|an?|half\s+an?|two|three|five|ten)\s+(?:min\w*|hours?|h|days?|weeks?|months?)\b"
    ),
    "remind": re.compile(r"(?i)\b(?:remind\w*|alarms?|timers?|nudge|ping\s+me|wake\s+me|snooze)\b"),
    "remember": re.compile(
        r"(?i)\b(?:remember|memori[sz]e|note\s+(?:that|down|to)|keep\s+in\s+mind|for\s+the\s+record)\b"
    ),
    "forget": re.compile(r"(?i)\b(?:forget|erase|unlearn|wipe)\b"),
    "mail": re.compile(
        r"(?i)\b(?:e-?mails?|mails?|letters?|inbox|messages?|wrote|write\s+(?:to\s+)?[A-Z])\b"
    ),
    "calendar": re.compile(r"(?i)\b(?:calendar|diary|agenda|appointments?)\b"),
    "money": re.compile(r"(?i)\b(?:costs?|spend\w*|spent|tokens?|budget|dollars?|expensive|cheap\w*)\b"),
    "office": re.compile(r"(?i)\b(?:goals?|tasks?|jobs?|queued?|schedules?d?|runs?|running)\b"),
    "weather": re.compile(
        r"(?i)\b(?:weather|rain\w*|snow\w*|sunny|forecast|temperature|wind\w*|storm|frost)\b"
    ),
    "science": re.compile(r"(?i)\b(?:papers?|arxiv|stud(?:y|ies)|literature|publi\w+|preprints?)\b"),
    "web": re.compile(r"(?i)\b(?:web|online|internet|google|website|site|wikipedia|look\s+(?:it\s+)?up)\b"),
    "agent": re.compile(r"(?i)\b(?:cortex|scout|engineer|critic|conductor|frontier|agents?|team)\b"),
    "person": re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+"),
    "short": re.compile(r"^\W*(?:\S+\s*){1,3}$"),
    "long": re.compile(r"(?s).{160,}"),
    "we": re.compile(r"(?i)\b(?:we|us|our|ours)\b"),
    "me": re.compile(r"(?i)\b(?:i|me|my|mine)\b"),
    "you": re.compile(r"(?i)\b(?:you|your)\b"),
}


def normalise(text: str) -> str:
    """``text`` with paths, addresses and numbers of mail as PATH, URL and ADDRESS, as in the examples."""
    return _PATH.sub("PATH", _ADDRESS.sub("ADDRESS", _URL.sub("URL", text[:MAX_LENGTH])))


def read_features(text: str) -> dict[int, float]:
    """The weight of each bucket that ``text`` has, of length 1 together."""
    found: dict[int, float] = {}
    for name, weight in set(_named_features(text)):
        bucket = zlib.crc32(name.encode()) % BUCKETS
        found[bucket] = found.get(bucket, 0.0) + weight
    length = sum(weight * weight for weight in found.values()) ** 0.5
    return {bucket: weight / length for bucket, weight in found.items()} if length else {}


def _named_features(text: str) -> Iterator[tuple[str, float]]:
    text = normalise(text)
    yield f"act {find_act(text).value}", _CUE
    for cue, pattern in _CUES.items():
        if pattern.search(text):
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
