"""What goes wrong with a model server, as a sentence, and whether trying again can help."""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from shared.errors import ModelError, ModelUnavailable
from shared.llm.config import ModelConfig

QUOTED = 300
"""Characters of a server's own words that go into a sentence."""
SHORTEST_KEY = 6
"""Characters of the shortest key that is one."""
READ = 100_000
"""Characters of them that are looked at."""
BUSY = (408, 409, 425, 429)
"""Statuses below 500 after which the same request can succeed."""
_TOO_LONG = re.compile(
    r"context.{0,20}(length|size|window|limit)|maximum model length|reduce the length|request_too_large"
    r"|(prompt|input|request|conversation|messages?)\b.{0,20}\btoo (long|large)",
    re.IGNORECASE,
)
"""How servers say that they were asked more than the model can read."""
_PARSING = (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError)


class TransientError(ModelUnavailable):
    """What may have passed in a moment; ``delay`` are the seconds the server asks to wait."""

    def __init__(self, cause: str, cure: str = "", *, delay: float = 0.0) -> None:
        super().__init__(cause, cure)
        self.delay = delay


class MalformedResponse(ValueError):
    """An answer that is not of the server's wire format, or of which the end is missing."""


def explain(error: Exception, choice: ModelConfig) -> ModelError | None:
    """The error as a ModelError (Passing: try again); None if it is none of a model server.

    No key is in its text, whatever the server wrote.
    """
    if isinstance(error, ModelError):
        return error
    if (unread := _malformed(error)) is not None:
        error = unread
    status = getattr(error, "status_code", None)
    where = f"The model server at {choice.place}"
    if isinstance(status, int) and status >= 300:
        return _explain_status(error, status, choice)
    if type(error).__name__ == "APITimeoutError" or "Timeout" in type(error).__name__:
        return TransientError(f"{where} did not answer in time")
    if isinstance(error, MalformedResponse):
        return TransientError(f"{where} gave an answer that cannot be read: {_redact(str(error), choice)}")
    if isinstance(error, _PARSING):
        return TransientError(f"{where} gave an answer that cannot be read ({type(error).__name__})")
    if type(error).__name__ == "APIConnectionError" or _of_network(error):
        cause = _innermost(error)
        reason = _redact(str(cause), choice) or type(cause).__name__
        if type(cause).__name__ in ("RemoteProtocolError", "ReadError"):
            return TransientError(f"{where} broke off: {reason}")
        return TransientError(
            f"{where} cannot be reached: {reason}",
            f"Start it, or correct MAILROOM_{choice.setting.upper()}_URL",
        )
    return broken_off(_words(error), choice) if _of_sdk(error) else None


def broken_off(said: Any, choice: ModelConfig) -> TransientError:
    """What a server said instead of an answer that it had begun."""
    where = f"The model server at {choice.place}"
    return TransientError(f"{where} broke off with an error: {_redact(_unpack(said), choice)}")


def _explain_status(error: Exception, status: int, choice: ModelConfig) -> ModelError:
    where, setting = f"The model server at {choice.place}", f"MAILROOM_{choice.setting.upper()}"
    said = _redact(_words(error), choice)
    if status in (401, 403) and not choice.key:
        return ModelError(
            f"{where} wants a key for {choice.name}, and none is set: {said}",
            f"Set {setting}_KEY; {choice.kind.upper()}_API_KEY goes to its provider alone",
        )
    if status == 401:
        return ModelError(f"{where} does not accept the key for {choice.name}", f"Correct {setting}_KEY")
    if status in (402, 403) or "insufficient_quota" in (said, getattr(error, "code", "")):
        return ModelError(f"{where} refuses {choice.name}: {said}", "See to the account of the key")
    if status == 404:
        return ModelError(
            f"{where} has no model {choice.model!r}: {said}",
            f"Correct {setting} or {setting}_URL, or have the server fetch the model",
        )
    if status < 400:
        return ModelError(
            f"{where} sends the request elsewhere (status {status}), which is not followed, since the key "
            "would go along",
            f"Write the address it moved to into {setting}_URL",
        )
    if status == 413 or _TOO_LONG.search(_words(error)):
        return ModelError(
            f"{where} was sent more than {choice.name} can read: {said}",
            "Set MAILROOM_BRAIN_CONTEXT to the tokens it can, or have the server give it a longer context",
        )
    if status in BUSY or status >= 500:
        delay = read_delay(_headers(error)) or 0.0
        asks = f" and asks to wait {delay:.0f} s" if delay else ""
        return TransientError(f"{where} answered with status {status}{asks}: {said}", delay=delay)
    return ModelError(f"{where} refuses the request with status {status}: {said}")


def read_delay(headers: Mapping[str, str]) -> float | None:
    """The seconds that Retry-After (a number or a date) or retry-after-ms ask for; None without."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _headers(error: Exception) -> Mapping[str, str]:
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    return headers


def _words(error: Exception) -> str:
    """What the server said: OpenAI's and Anthropic's errors, Ollama's, or just text."""
    said = _unpack(getattr(error, "body", None))
    return said or str(getattr(error, "message", "") or error) or type(error).__name__


def _unpack(body: Any) -> str:
    if isinstance(body, list) and body:  # Gemini's
        body = body[0]
    for _ in range(2):
        if isinstance(body, Mapping):
            body = body.get("error") or body.get("message") or body.get("detail") or dict(body)
    if body is None or isinstance(body, str):
        return body or ""
    return json.dumps(body, default=str)


def _innermost(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _malformed(error: BaseException | None) -> MalformedResponse | None:
    """What was wrong with an answer, if the SDK took it for a connection that failed."""
    while error is not None and not isinstance(error, MalformedResponse):
        error = error.__cause__
    return error


def _redact(text: str, choice: ModelConfig) -> str:
    # What a server says must not colour or clear the terminal of whoever reads it.
    shown = " ".join("".join(c if c.isprintable() else " " for c in text[:READ]).split())
    for secret in (choice.key, choice.url if choice.url != choice.place else ""):
        # What is so short is no secret, and stands in many words.
        shown = shown.replace(secret, "(hidden)") if len(secret) >= SHORTEST_KEY else shown
    return shown[:QUOTED].rstrip(". ")


def _of_network(error: BaseException) -> bool:
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in (
        "httpx",
        "httpx2",
        "httpcore",
        "httpcore2",
    )


def _of_sdk(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("openai", "anthropic")
