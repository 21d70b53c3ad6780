"""Which action a model message in plain text invokes."""

import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from shared.errors import ActionError
from shared.llm.protocol import Message
from shared.tasks.actions import Action
from shared.text.excerpt import excerpt

WINDOW = 120
"""Characters around a mention that are examined: every pattern below is bounded, so that the time grows only
linearly with the length of the text."""
MENTIONS = 200
"""Mentions of one name that are examined, the last ones."""

_VERBS = "call|use|run|invoke|execute|perform|do|try|start|go with|proceed with|continue with"
_LEAD = r"i(?:['’]ll| will| shall| am going to|['’]m going to)|let me|let us|let['’]s|now|next|then|please|so"
_OPEN, _CLOSE = r"[`*_\"'“]{0,3}", r"[`*_\"'”]{0,3}"
_LABEL = r"(?:^|\n)\W{0,8}(?:next\s)?(?:action|tool|call|function|invoke)\W{0,6}[:=]\W{0,8}"
_FIELD = r"[\"'](?:action|name|tool|function)[\"'] ?: ?"
_INTENT = (
    rf"\b(?:{_LEAD})\W{{1,4}}(?:\w{{1,20}}\W{{1,4}}){{0,2}}?(?:{_VERBS})\W{{1,4}}"
    r"(?:the\W{1,4})?(?:action\W{1,4}|tool\W{1,4}|function\W{1,4})?"
)
_LEADS_TO = re.compile(rf"(?:{_LABEL}|{_FIELD}|{_INTENT}){_OPEN}$", re.IGNORECASE)
_BEGINS_LINE = re.compile(rf"(?:^|\n) ?{_OPEN}$")
_ENDS_LINE = re.compile(rf"{_CLOSE} ?(?:[.!:] ?)?(?:$|\n)")
_IS_CALLED = re.compile(rf"{_CLOSE}\s?[({{]")
_NOT = re.compile(
    r"(?:\b(?:not|never|without|instead of|rather than|already|after|avoid|could|might)\b|n['’]t\b)"
    r"(?P<since>[^.!?,;\n]{0,40})$",
    re.IGNORECASE,
)
_TURN = re.compile(r"\b(?:so|but|instead|therefore|hence)\b(?! of\b)", re.IGNORECASE)


def detect_action(thought: str, names: Iterable[str]) -> str:
    """The longest of ``names`` that ``thought`` actually invokes; "" if it invokes none.

    A name is invoked if it is called (``name(...)``), labelled (``Action: name``, ``{"action": "name"}``),
    alone on a line, or announced ("I will call name"). It is not if it is merely mentioned, negated ("I will
    not call name"), already done, or quoted. Case is ignored; a part of a longer word or name does not count.
    """
    text = _squeeze(thought)
    lowered = text.lower()
    for name in sorted(set(names), key=lambda name: (-len(name), name)):
        if name.lower() in lowered and _is_invoked(text, name):
            return name
    return ""


_ANNOUNCED = re.compile(
    r"\b(?:let me|let us|let['’]s|i['’]ll|i (?:will|shall|would rather|am going to|need to)|i['’]m going to"
    r"|(?:first|next|now|then),? i)\b|^\W*(?:h+m+|i (?:think|ponder|wonder)|one moment|working on it)\W*$",
    re.IGNORECASE,
)


def is_answer(thought: str) -> bool:
    """Whether a message in plain text answers, rather than to announce in its end what comes next."""
    sentences = [part for part in re.split(r"(?<=[.!?:])\s+|\n+", thought.strip()) if part]
    return bool(sentences) and not _ANNOUNCED.search(sentences[-1])


def find_mentions(text: str, name: str) -> list[re.Match[str]]:
    """The mentions of ``name`` in ``text``, except in quotation marks, lines quoted with ``>``, or data."""
    word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
    mentions = deque(word.finditer(text), MENTIONS)
    return [mention for mention in mentions if not _is_quoted(text, mention.start(), mention.end())]


def _is_quoted(text: str, start: int, end: int) -> bool:
    before = text[text.rfind("\n", 0, start) + 1 : start]
    if before.lstrip().startswith(">") or before.rfind("“") > before.rfind("”"):
        return True
    if text.rfind("<data>", 0, start) > text.rfind("</data>", 0, start):
        return True
    # A name alone between quotation marks is a string in JSON.
    alone = before.endswith('"') and text.startswith('"', end)
    return not alone and (before.count('"') - before.count('\\"')) % 2 == 1


def _is_invoked(text: str, name: str) -> bool:
    for mention in find_mentions(text, name):
        before = text[max(0, mention.start() - WINDOW) : mention.start()]
        after = text[mention.end() : mention.end() + WINDOW]
        called = (
            _IS_CALLED.match(after)
            or _LEADS_TO.search(before)
            or (_BEGINS_LINE.search(before) and _ENDS_LINE.match(after))
        )
        if called and not _is_negated(before):
            return True
    return False


def _is_negated(before: str) -> bool:
    found = _NOT.search(before)
    return found is not None and not _TURN.search(found["since"])


def _squeeze(text: str) -> str:
    """``text`` with runs of blanks, empty lines and repeated punctuation shortened."""
    text = re.sub(r"[^\S\n]+", " ", text)
    text = re.sub(r"\n[ \n]*", "\n", text)
    return re.sub(r"([^\w\s])\1{3,}", r"\1\1\1", text)


MAX_TURNS = 5
"""How often the small model is asked before the call fails."""
MAX_ANSWER = 2_000
"""Characters of its answer that are kept or passed on."""

TASK = """\
Work out the parameters of an action from what an agent thought. Take them from the thought; make nothing up.

The action: {name} - {description}
Its parameters as JSON schema:
{schema}

Answer with one JSON object and nothing else:
{{"status": "READY", "params": {{...}}}} when the thought says all that is needed;
{{"status": "ASK", "question": "..."}} when something is unclear;
{{"status": "NOT_FEASIBLE", "reason": "..."}} when the action cannot do what is wanted.

The thought:
{thought}"""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """The small model's answer."""

    status: Literal["READY", "ASK", "NOT_FEASIBLE"]
    params: dict[str, Any] = {}
    question: str = ""
    reason: str = ""


Ask = Callable[[Sequence[Message]], Awaitable[Proposal]]
"""Asks the small model."""
Clarify = Callable[[str], Awaitable[str]]
"""Asks the model a question about its message."""


async def fill_arguments(
    action: Action, thought: str, ask: Ask, clarify: Clarify, check: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """The parameters for ``action`` that ``thought`` describes, as ``check`` returns them.

    ``check`` takes JSON and raises ActionError if it is invalid. Raises ActionError if the small model says
    the call is not feasible, or after MAX_TURNS without valid parameters.
    """
    schema = json.dumps(action.schema(), ensure_ascii=False)
    text = TASK.format(name=action.name, description=action.description, schema=schema, thought=thought)
    messages = [Message(role="user", text=text)]
    problem = "it stayed unclear"
    for _ in range(MAX_TURNS):
        proposal = await ask(messages)
        answer = excerpt(msgspec.json.encode(proposal).decode(), MAX_ANSWER)
        messages.append(Message(role="assistant", text=answer))
        if proposal.status == "NOT_FEASIBLE":
            reason = excerpt(proposal.reason, MAX_ANSWER) or "no reason given"
            raise ActionError(f"{action.name} is not feasible: {reason}")
        if proposal.status == "ASK":
            question = excerpt(proposal.question, MAX_ANSWER)
            reply = await clarify(f"About the parameters of {action.name}: {question}")
            messages.append(Message(role="user", text=f"The agent answers: {reply}"))
            continue
        try:
            return check(msgspec.json.encode(proposal.params).decode())
        except ActionError as error:
            problem = str(error)
            messages.append(Message(role="user", text=f"These do not fit: {problem}"))
    raise ActionError(f"No parameters for {action.name} after {MAX_TURNS} turns: {problem}")


def inline_arguments(thought: str, name: str) -> str:
    """The JSON object that follows the last mention of ``name`` in ``thought``; "" if none does."""
    mentions = find_mentions(thought, name)
    after = thought[mentions[-1].end() :] if mentions else ""
    start = after.find("{")
    if start < 0 or start > 40:
        return ""
    try:
        _, end = json.JSONDecoder().raw_decode(after[start:])
    except (ValueError, RecursionError):
        return ""
    return after[start : start + end]
