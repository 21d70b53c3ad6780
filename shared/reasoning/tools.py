"""The actions that a model may call in an agent loop: offered as tools, found in messages, counted."""

import json
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from shared.errors import ActionError
from shared.llm.leaving import MASK, UNKNOWN
from shared.llm.protocol import Message, Tool
from shared.llm.provider import read_answer
from shared.reasoning.conversation import WINDOW, Call
from shared.tasks.actions import Action, Bound, Outcome, perform
from shared.text.display import excerpt

FINISH = "finish_task"
REST = "rest_n_wait"
MAX_ARGUMENTS = 200_000
"""The longest parameters of a call, in characters; larger content belongs in files, written in pieces."""


def _ending(name: str, description: str, infos: dict[str, str]) -> Action:
    params = msgspec.defstruct(
        name, [(key, str) for key in infos], frozen=True, kw_only=True, forbid_unknown_fields=True
    )
    return Action(name=name, description=description, param_infos=infos, params=params)


_FINISH_ACTION = _ending(
    FINISH,
    "Say that the task is done, and with what result; call it once everything is done",
    {"result": "The result, as the requester is to read it"},
)
_REST_ACTION = _ending(
    REST, "End your turn without finishing: nothing is to be done until someone writes", {}
)


class Toolbox:
    """The actions a model may call; ``finish_task`` and, if ``may_rest``, ``rest_n_wait`` end its loop.

    With a ``form`` the parameters of ``finish_task`` are its fields.
    """

    def __init__(
        self, bound: Mapping[str, Bound], *, may_rest: bool = False, form: Action | None = None
    ) -> None:
        self._form = form
        self._end = {FINISH: form or _FINISH_ACTION} | ({REST: _REST_ACTION} if may_rest else {})
        # An agent's own action cannot replace one that ends the loop.
        self._bound = {name: each for name, each in bound.items() if name not in (FINISH, REST)}
        self._offers: list[Tool] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The names of everything that can be called."""
        return (*self._bound, *self._end)

    def action(self, name: str) -> Action:
        """The action of this name; raises ActionError that lists the names if there is none."""
        action = self._bound[name].action if name in self._bound else self._end.get(name)
        if action is None:
            raise ActionError(
                f"There is no action {name[:80]!r}", f"The actions are: {', '.join(sorted(self.names))}"
            )
        return action

    def offers(self) -> list[Tool]:
        """The actions as tools for a model."""
        if not self._offers:
            self._offers = [
                Tool(name=name, description=action.description, schema=_brief(action.schema()))
                for name in self.names
                for action in (self.action(name),)
            ]
        return self._offers

    def check(self, name: str, arguments: str) -> dict[str, Any]:
        """The parameters in the JSON text ``arguments``, checked; raises ActionError with what is wrong."""
        action = self.action(name)
        if len(arguments) > MAX_ARGUMENTS:
            raise ActionError(
                f"The parameters of {name} have {len(arguments):,} of {MAX_ARGUMENTS:,} characters",
                "Do it in smaller pieces",
            )
        if name not in self._end and (mask := MASK.search(arguments)):
            raise ActionError(
                f"The parameters of {name} hold {mask[0]}, which stands for a secret that you were not sent",
                "Change what is around it, by an edit that leaves it out, or tell the person what to do",
            )
        try:
            return action.convert(msgspec.json.decode(arguments or "{}"))
        except (msgspec.MsgspecError, RecursionError) as error:
            wanted = "; ".join(f"{key}: {info}" for key, info in action.param_infos.items()) or "none"
            raise ActionError(
                f"The parameters of {name} are wrong: {str(error)[:500]}", f"They are: {wanted}"
            ) from None

    async def perform(self, name: str, params: Mapping[str, Any]) -> Outcome:
        """Call an action that does not end the loop."""
        bound = self._bound[name]
        return await perform(bound.owner, bound.action, params)

    def concluded(self) -> bool:
        """Whether the calls of this turn end the loop, without a result of its own."""
        return False

    def find_form(self, text: str) -> str:
        """The filled form in a message in plain text, as JSON; empty if there is none, or none is wanted."""
        try:
            return msgspec.json.encode(read_answer(text, self._form.params)).decode() if self._form else ""
        except ValueError:
            return ""

    def conclude(self, params: Mapping[str, Any]) -> str:
        """The result that an end with these parameters gives: the form as JSON, or the text."""
        return msgspec.json.encode(params).decode() if self._form else str(params.get("result", ""))

    def is_end(self, name: str) -> bool:
        """Whether calling it ends the loop."""
        return name in self._end


def _brief(schema: Any) -> Any:
    """A schema without what tells a model nothing: titles, empty defaults, that there is nothing else."""
    if isinstance(schema, list):
        return [_brief(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    # A parameter may have such a name; its value is a schema, which is never empty.
    idle = {
        name
        for name, each in schema.items()
        if (name == "title" and isinstance(each, str))
        or (name in ("additionalProperties", "default", "required") and not each)
    }
    return {name: _brief(each) for name, each in schema.items() if name not in idle}


EXAMINED = 120
"""Characters around a mention that are examined: every pattern below is bounded, so that the time grows only
linearly with the length of the text."""
MENTIONS = 200  # Mentions of one name that are examined, the last ones

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
    if text.rfind("<data", 0, start) > text.rfind("</data>", 0, start):
        return True
    # A name alone between quotation marks is a string in JSON.
    alone = before.endswith('"') and text.startswith('"', end)
    return not alone and (before.count('"') - before.count('\\"')) % 2 == 1


def _is_invoked(text: str, name: str) -> bool:
    for mention in find_mentions(text, name):
        before = text[max(0, mention.start() - EXAMINED) : mention.start()]
        after = text[mention.end() : mention.end() + EXAMINED]
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


MAX_TURNS = 5  # How often the small model is asked before the call fails
MAX_ANSWER = 2_000  # Characters of its answer that are kept or passed on

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


Ask = Callable[[Sequence[Message]], Awaitable[Proposal]]  # Asks the small model
Clarify = Callable[[str], Awaitable[str]]  # Asks the model a question about its message


async def fill_arguments(
    action: Action,
    thought: str,
    ask: Ask,
    clarify: Clarify,
    check: Callable[[str], dict[str, Any]],
    kinds: tuple[str, ...] = (UNKNOWN,),
) -> dict[str, Any]:
    """The parameters for ``action`` that ``thought`` describes, as ``check`` returns them.

    ``check`` takes JSON and raises ActionError if it is invalid; ``kinds`` are those of the thought's text.
    Raises ActionError if the small model says the call is not feasible, or after MAX_TURNS without valid
    parameters.
    """
    schema = json.dumps(action.schema(), ensure_ascii=False)
    text = TASK.format(name=action.name, description=action.description, schema=schema, thought=thought)
    messages = [Message(role="user", text=text, kinds=kinds)]
    problem = "it stayed unclear"
    for _ in range(MAX_TURNS):
        proposal = await ask(messages)
        answer = excerpt(msgspec.json.encode(proposal).decode(), MAX_ANSWER)
        messages.append(Message(role="assistant", text=answer, kinds=kinds))
        if proposal.status == "NOT_FEASIBLE":
            reason = excerpt(proposal.reason, MAX_ANSWER) or "no reason given"
            raise ActionError(f"{action.name} is not feasible: {reason}")
        if proposal.status == "ASK":
            question = excerpt(proposal.question, MAX_ANSWER)
            reply = await clarify(f"About the parameters of {action.name}: {question}")
            messages.append(Message(role="user", text=f"The agent answers: {reply}", kinds=kinds))
            continue
        try:
            return check(msgspec.json.encode(proposal.params).decode())
        except ActionError as error:
            problem = str(error)
            messages.append(Message(role="user", text=f"These do not fit: {problem}", kinds=kinds))
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


MAX_REPEATS = 5  # Consecutive calls of one action with the same parameters that end a loop
AGAIN = "This is the same call as before. If it does not get you further, do something else or finish_task."


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one agent loop: ``steps``, ``tokens`` and ``seconds``; 0 is no limit.

    ``window``: characters of the conversation that are sent to the model at once; ``fruitless``: consecutive
    steps that ran no action: none was called, it is unknown, or its parameters are invalid.
    """

    steps: int = 50
    tokens: int = 0
    seconds: float = 0.0
    window: int = WINDOW
    fruitless: int = 5


class Limits:
    """Counts what one loop does against its caps; every method raises ActionError if a limit is reached."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._began = time.monotonic()
        self._fruitless = 0
        self._repeats = 0
        self._last = ("", "")

    def require_step(self, steps: int, tokens: int) -> None:
        """Raise ActionError unless another step may follow ``steps`` and ``tokens``."""
        caps = self._caps
        if caps.steps and steps >= caps.steps:
            raise ActionError(f"It was not finished after {steps} steps", "Raise max_steps, or ask for less")
        if caps.tokens and tokens >= caps.tokens:
            raise ActionError(
                f"It was not finished after {tokens:,} tokens", "Raise task_tokens, or ask for less"
            )
        if caps.seconds and time.monotonic() - self._began >= caps.seconds:
            raise ActionError(f"It was not finished after {caps.seconds:g} s")

    def count_fruitless(self, reason: str) -> None:
        """Count a step that ran no action."""
        self._fruitless += 1
        if self._fruitless >= self._caps.fruitless:
            raise ActionError(
                f"The model did nothing that helps {self._fruitless} times in a row; last: {reason}"[:1_500]
            )

    def count_call(self, call: Call) -> str:
        """Count a call; returns a notice for the model if it repeats the call before, else ""."""
        self._fruitless = 0
        same = (call.name, call.arguments) == self._last
        self._repeats = self._repeats + 1 if same else 1
        self._last = (call.name, call.arguments)
        if self._repeats >= MAX_REPEATS:
            raise ActionError(
                f"The model called {call.name} {MAX_REPEATS} times in a row with the same parameters"
            )
        return f"\n{AGAIN}" if self._repeats > 1 else ""
