"""Structured answers: requested, found in the model's text, checked, and requested again if wrong."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from shared.errors import ModelError
from shared.llm.protocol import LanguageModel, Message, Usage
from shared.llm.provider import strip_thinking

T = TypeVar("T")

LONGEST_ANSWER = 200_000  # Characters of an answer that are searched for JSON; no sensible answer is longer
MOST_ATTEMPTS = 50  # Positions of an answer at which JSON is tried
QUOTED = 4_000  # Characters of a wrong answer that are shown to the model again

_FENCED = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[{\[]")


async def ask_for(
    model: LanguageModel,
    messages: Sequence[Message],
    kind: type[T],
    *,
    tries: int = 3,
    check: Callable[[T], str | None] | None = None,
    max_tokens: int = 0,
    timeout: float = 0.0,
    spent: Callable[[Usage], None] | None = None,
) -> tuple[T, Usage]:
    """An answer that is a ``kind``, and the usage of all calls it took.

    An answer that is no such JSON, or of which ``check`` returns what is wrong, goes back to the model with
    the reason, up to ``tries`` answers in all; then ModelError. ``spent`` is called with the usage of
    each call, so that failures are counted too; it may raise to end the attempts.
    """
    conversation, usage, reason = list(messages), Usage(), ""
    schema = describe(kind)
    for _ in range(tries):
        thought = await model.complete(conversation, schema=schema, max_tokens=max_tokens, timeout=timeout)
        usage = usage.plus(thought.usage)
        if spent:
            spent(thought.usage)
        try:
            answer = read_answer(thought.text, kind)
        except ValueError as error:
            reason = f"it was cut off for its length ({error})" if thought.stop == "length" else str(error)
        else:
            reason = (check(answer) if check else None) or ""
            if not reason:
                return answer, usage
        request = (
            f"That answer cannot be used: {reason}. Answer again, with the corrected JSON alone: "
            "no other words, no fences."
        )
        conversation.append(Message(role="assistant", text=thought.text[:QUOTED] or "(nothing)"))
        conversation.append(Message(role="user", text=request))
    raise ModelError(f"The model {model.name} gave no usable answer in {tries} tries: {reason}")


def describe(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type; its root is not a reference, since servers refuse that."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    if "$ref" in schema:
        root = schema["$ref"].rpartition("/")[2]
        schema = definitions[root]
        if f'"#/$defs/{root}"' not in json.dumps(definitions):
            del definitions[root]  # a type that does not contain itself
    return {**schema, "$defs": definitions} if definitions else schema


def read_answer(text: str, kind: type[T]) -> T:
    """The JSON in a model's answer, alone, fenced or within other text, as ``kind``.

    Raises ValueError with the problem of the likeliest candidate. Quoted numbers are accepted as numbers.
    """
    reason = ""
    for candidate in _candidates(strip_thinking(text[:LONGEST_ANSWER])):
        try:
            answer = msgspec.convert(candidate, kind, strict=False)
            # A lone surrogate is possible in JSON, but cannot be encoded to be sent on.
            msgspec.json.encode(answer)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            reason = reason or str(error)
        else:
            return answer
    raise ValueError(reason or "there is no JSON in it")


def _candidates(text: str) -> Iterator[Any]:
    for part in (text, *(match[1] for match in _FENCED.finditer(text))):
        try:
            yield json.loads(part)
        except (ValueError, RecursionError):
            continue
    decoder, start = json.JSONDecoder(), 0
    for _ in range(MOST_ATTEMPTS):
        found = _OPENING.search(text, start)
        if not found:
            return
        try:
            value, start = decoder.raw_decode(text, found.start())
            yield value
        except (ValueError, RecursionError):
            start = found.end()
