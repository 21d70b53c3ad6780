"""What goes wrong with a model server, as a sentence, and whether trying again can help."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from shared.brain.choice import Choice
from shared.errors import BrainError, BrainUnavailable

QUOTED = 300
"""Characters of a server's own words that go into a sentence."""
BUSY = (408, 409, 425, 429)
"""Statuses below 500 after which the same request can succeed."""
_PARSING = (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError)


class Passing(BrainUnavailable):
    """What may have passed in a moment; ``delay`` are the seconds the server asks to wait."""

    def __init__(self, cause: str, cure: str = "", *, delay: float = 0.0) -> None:
        super().__init__(cause, cure)
        self.delay = delay


class Malformed(ValueError):
    """An answer that is not of the server's wire format, or of which the end is missing."""


def explain(error: Exception, choice: Choice) -> BrainError | None:
    """The error as a BrainError (Passing: try again); None where it is none of a model server.

    No key is in its text, whatever the server wrote.
    """
    if isinstance(error, BrainError):
        return error
    status = getattr(error, "status_code", None)
    where = f"The model server at {choice.place}"
    if isinstance(status, int) and status >= 300:
        return _explain_status(error, status, choice)
    if type(error).__name__ == "APITimeoutError" or "Timeout" in type(error).__name__:
        return Passing(f"{where} did not answer in time")
    if isinstance(error, Malformed):
        return Passing(f"{where} gave an answer that cannot be read: {_redact(str(error), choice)}")
    if isinstance(error, _PARSING):
        return Passing(f"{where} gave an answer that cannot be read ({type(error).__name__})")
    if type(error).__name__ == "APIConnectionError" or _of_network(error):
        reason = _redact(_innermost(error), choice)
        return Passing(
            f"{where} cannot be reached: {reason}",
            f"See whether it runs, and MAILROOM_{choice.setting.upper()}_URL",
        )
    if _of_sdk(error):
        return Passing(f"{where} broke off with an error: {_redact(_words(error), choice)}")
    return None


def _explain_status(error: Exception, status: int, choice: Choice) -> BrainError:
    where, setting = f"The model server at {choice.place}", f"MAILROOM_{choice.setting.upper()}"
    said = _redact(_words(error), choice)
    if status == 401:
        return BrainError(f"{where} does not accept the key for {choice.name}", f"Correct {setting}_KEY")
    if status in (402, 403) or "insufficient_quota" in (said, getattr(error, "code", "")):
        return BrainError(f"{where} refuses {choice.name}: {said}", "See to the account of the key")
    if status == 404:
        return BrainError(
            f"{where} has no model {choice.model!r}: {said}",
            f"Correct {setting} or {setting}_URL, or have the server fetch the model",
        )
    if status in BUSY or status >= 500:
        delay = read_delay(_headers(error)) or 0.0
        asks = f" and asks to wait {delay:.0f} s" if delay else ""
        return Passing(f"{where} answered with status {status}{asks}: {said}", delay=delay)
    return BrainError(f"{where} refuses the request with status {status}: {said}")


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
    body: Any = getattr(error, "body", None)
    for _ in range(2):
        if isinstance(body, Mapping):
            body = body.get("error") or body.get("message") or body.get("detail") or dict(body)
    if body is not None and not isinstance(body, str):
        body = json.dumps(body, default=str)
    return body or str(getattr(error, "message", "") or error) or type(error).__name__


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__


def _redact(text: str, choice: Choice) -> str:
    shown = " ".join(text.split())
    for secret in (choice.key, choice.url if choice.url != choice.place else ""):
        shown = shown.replace(secret, "(hidden)") if secret else shown
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
