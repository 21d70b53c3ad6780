"""Claims in a model's text about what was done or exists, removed if nothing supports them."""

import re
from collections.abc import Callable, Collection

from shared.text.prose import SENTENCE_BREAK, is_supported

CITED = re.compile(r"\s*\[[\w-]+\]")
_NOT = re.compile(r"(?i)\b(?:no(?!\s+(?:worries|problem))|not|never|nothing|none|cannot|unable)\b|n['’]t\b")
_VERBS = (
    r"set(?:\s+up)?|creat\w+|add\w*|schedul\w+|start\w*|submit\w*|queu\w+|plan\w*|book\w*|arrang\w+|order\w*|"
    r"delegat\w+|assign\w*|hand\w*|pass\w*|forward\w*|ask\w*|told|tell|sen[dt]\w*|e?-?mail\w*|notif\w+|inform\w*|"
    r"remind\w*|cancel\w*|snooz\w+|delet\w+|updat\w+|chang\w+|stor\w+|sav\w+|not(?:e|ed)|remember\w*|record\w*|"
    r"writ\w+|wrote|fix\w*|run|ran|launch\w*|trigger\w*|initiat\w+|open\w*|fil(?:e|ed)|logg?\w*|mak\w+|made|"
    r"granted|approved|refused|put|place[ds]?|register\w*|arm\w*|enabl\w+|work\w*|look\w*|check\w*|monitor\w*|watch\w*"
)
_DID = re.compile(
    r"(?i)\b(?:i|we)(?:\s+(?:have|had|has|did|will|shall|am|are|was|just|already|also|now|then|immediately|successfully)"
    rf"|['’](?:ve|ll|d|m|re))*\s+(?:(?:just|already|also|now|going\s+to|\w+ly)\s+)*(?:{_VERBS})\b"
)
_DONE = re.compile(
    r"(?i)\b(?:reminders?|tasks?|goals?|jobs?|tickets?|meetings?|appointments?|events?|alarms?|timers?|(?:e-?)?mails?|letters?)\b"
    r"[^.!?]{0,60}\b(?:has|have|had|is|are|was|were|got|will\s+be)\b[^.!?]{0,30}"
    r"\b(?:set|created|scheduled|started|submitted|queued|added|sent|booked|arranged|in\s+place|active|pending|running|"
    r"on\s+(?:its|the)\s+way|cancelled|canceled|snoozed)\b"
    r"|\b(?:reminder|task|goal|job|alarm|timer)\s+(?:set|created|scheduled|started|submitted|queued|added)\b"
    r"|^\W*(?:done|all\s+set|consider\s+it\s+done|scheduled|created|submitted|reminder\s+set)\b"
)
_MADE = (
    r"(?:set(?:\s+up)?|created|scheduled|started|submitted|queued|added|sent|booked|arranged|noted|saved|stored|recorded"
    r"|handed|passed|forwarded|delegated|assigned|asked|told|informed|notified|done|taken\s+care\s+of)"
)
_IT_IS = re.compile(
    r"(?i)\b(?:it|that|this|everything|all)(?:\s+(?:has|have|is|was|will)|['’](?:s|ll))(?:\s+(?:been|be|now|already|just|all))*"
    rf"\s+{_MADE}\b"
)
_AT_WORK = re.compile(
    r"(?i)\b(?:conductor|engineer|scout|critic|cortex|frontier|nexus|office|team|colleagues?|somebody|someone)\b"
    r"(?:\s+(?:is|are)(?:\s+(?:now|currently|already|just|still))*\s+\w+ing"
    rf"|\s+(?:will|['’]ll|is\s+going\s+to|are\s+going\s+to)\s+\w+|\s+(?:has|have|was|were)\s+(?:just\s+|already\s+)?(?:been\s+)?{_MADE})\b"
    r"|\b(?:tasks?|goals?|jobs?)\b[^.!?]{0,40}\b(?:in\s+progress|running|waiting|pending|queued|open|under\s+way|for\s+(?:this|that|it))\b"
)
"""What agents are said to be doing: true only if a memory is cited."""
_REMINDERS = re.compile(r"(?i)\bremind(?:ers?|s|ed|ing)?\b|\b(?:ping|nudge|alert|notify)(?:ing)?\s+you\b")
_HOW_TO = re.compile(
    r"(?i)\b(?:you|one)\s+(?:can|could|may|might|should)\b|\b(?:if\s+you|to\s+(?:set|have|get|see|list|add|create)|say|ask|try|use|type|run)\b"
)
_YOURS = re.compile(
    r"(?i)\byou(?:r\s+(?:\w+\s+){0,3}reminders?\b|(?:['’](?:ve|ll|re)|\s+(?:(?:\w+\s+){0,2}(?:have|get)|will|are))\b[^.!?]*\bremind)"
)
_DENIED = re.compile(r"(?i)\b(?:i|we)\b[^.!?]{0,300}?(?:\bnot\b|n['’]t\b|\bnever\b|\bcannot\b|\bunable\b)")
_RUN = re.compile(r"\b(?:goal|task|job|ask)_[A-Za-z0-9_]{6,}\b|\br[0-9a-f]{10}\b")
_ASKS = re.compile(
    r"(?i)\W*(?:(?:and|so|but|or)\s+)?(?:what|which|who|whom|when|where|how|why|shall|should|may|can|could|do|would)\b"
    r"[^?]*\?\W*$"
)
"""A question to the person: "what shall I remember?"."""
_CLAUSE = re.compile(
    r"(?i);\s+|,?\s+(?:but|so|however|yet)\s+|,\s+(?:and\s+)?(?=(?:i|we|it|that|this|you|your|the|a)\b)"
)
"""What ends a clause: one clause may deny what the next one claims."""


def remove_unsupported(
    text: str, known: str, cited: Collection[str], told: str = ""
) -> tuple[str, tuple[str, ...], bool]:
    """``text`` without its false sentences; those sentences; whether one of them is about reminders.

    The model that wrote it could do nothing but write, so a sentence is false if it says that the model did,
    set, started or sent something, unless it denies that. A statement about what others did or do stays if it
    cites one of the ``cited`` memories in brackets, or if what tools ``told`` the model supports it. Else the
    model cannot know which reminders there are. Ids of goals, tasks and reminders must be in ``known``, the
    text that the model was given, or in ``told``.
    """

    def is_false(sentence: str) -> bool:
        if told and not _DID.search(sentence) and is_supported(CITED.sub("", sentence), told):
            return any(number not in told + known for number in _RUN.findall(sentence))
        return _is_false(sentence, known + told, cited)

    text, removed = _remove(text, is_false)
    return (
        text,
        tuple(" ".join(sentence.split()) for sentence in removed),
        any("remind" in sentence.lower() for sentence in removed),
    )


def remove_reminder_claims(text: str) -> tuple[str, bool]:
    """``text`` without its claims that a reminder was changed, and whether there were any.

    For the text of a task that could have changed reminders, if their record did not change.
    """
    text, removed = _remove(
        text, lambda sentence: "remind" in sentence.lower() and _is_false(sentence, sentence, ())
    )
    return text, bool(removed)


def _remove(text: str, is_false: Callable[[str], bool]) -> tuple[str, list[str]]:
    removed: list[str] = []
    lines = []
    for line in text.split("\n"):
        verdicts = [(sentence, is_false(sentence)) for sentence in SENTENCE_BREAK.split(line)]
        removed += [sentence for sentence, false in verdicts if false]
        kept = [sentence for sentence, false in verdicts if not false]
        if kept or not line.strip():
            lines.append(" ".join(kept))
    return "\n".join(lines).strip(), removed


def _is_false(sentence: str, known: str, cited: Collection[str]) -> bool:
    if any(number not in known for number in _RUN.findall(sentence)):
        return True
    if _ASKS.match(sentence):
        return False
    backed = any(f"[{node_id}]" in sentence for node_id in cited)
    return any(_is_claim(clause, backed=backed) for clause in _CLAUSE.split(sentence))


def _is_claim(clause: str, *, backed: bool) -> bool:
    """Whether a clause claims something; ``backed`` if a memory is cited, which is enough for some claims."""
    if _DENIED.search(clause):
        return False
    is_advice = bool(_HOW_TO.search(clause))
    if _REMINDERS.search(clause) and not is_advice and (not backed or _YOURS.search(clause)):
        return True
    if _NOT.search(clause):
        return False
    if _DID.search(clause):
        return True
    return not backed and not is_advice and any(each.search(clause) for each in (_DONE, _IT_IS, _AT_WORK))
