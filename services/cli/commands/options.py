"""The types of arguments and the options that several commands share."""

import json
import math
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from services.cli.output.times import SPAN, parse_span, parse_time
from shared.contracts import MAX_TEXT

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
"""The option that every command has that prints."""


class PastType(click.ParamType[datetime]):
    """An option's moment in the past: ``10m`` ago, or an ISO 8601 time."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment in UTC; a usage error for anything else."""
        return _moment(self, value, -1, param, ctx)


class FutureType(click.ParamType[datetime]):
    """An option's moment in the future: in ``10m``, or an ISO 8601 time."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment in UTC; a usage error for anything else and for a moment that has passed."""
        moment = _moment(self, value, 1, param, ctx)
        if moment <= datetime.now(UTC):
            self.fail(f"{value!r} has passed", param, ctx)
        return moment


def _moment(
    kind: click.ParamType[datetime],
    text: str,
    sign: int,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> datetime:
    try:
        if SPAN.match(text) and not re.match(r"\d{4}-|\d{8}", text):
            return datetime.now(UTC) + sign * timedelta(seconds=parse_span(text))
        return parse_time(text)
    except (ValueError, OverflowError) as error:
        kind.fail(str(error), param, ctx)


class NumberType(click.ParamType[float]):
    """A number from ``least`` to ``most`` (None: no bound), a whole one unless told otherwise."""

    name = "number"

    def __init__(self, least: float = 0, most: float | None = None, *, whole: bool = True) -> None:
        self._least, self._most, self._whole = least, most, whole

    @property
    def wanted(self) -> str:
        """What is allowed, in words."""
        word = "a whole number" if self._whole else "a number"
        if self._most is None:
            return f"{word} of {self._least:g} or more"
        return f"{word} from {self._least:g} to {self._most}"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """``1..100`` in the help of an option that has both bounds."""
        if self._most is None or isinstance(param, click.Argument):
            return None
        return f"{self._least:g}..{self._most}"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error for anything else and for what is out of bounds."""
        try:
            number = int(str(value)) if self._whole else float(str(value))
        except ValueError:
            number = math.nan
        most = math.inf if self._most is None else self._most
        if not (self._least <= number <= most and number != math.inf):
            self.fail(f"{str(value)[:100]!r} is not {self.wanted}", param, ctx)
        return number


class TextType(click.ParamType[str]):
    """Words for the office; ``-`` reads them from standard input."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; a usage error where it is empty or too long."""
        text = read_stdin() if value == "-" else value
        if not text.strip():
            self.fail("it is empty; say in a sentence what you want", param, ctx)
        if len(text) > MAX_TEXT:
            self.fail(
                f"it has {len(text):,} characters and the limit is {MAX_TEXT:,}; put the rest in a file "
                "and name its path",
                param,
                ctx,
            )
        return text


def read_stdin() -> str:
    """All of standard input, as UTF-8; what is none is replaced."""
    return sys.stdin.buffer.read().decode(errors="replace")


def parse_context(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """``key=value`` pairs of an option as a dictionary, JSON objects and lists read; else a usage error."""
    context = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{pair!r} is not of the form key=value", ctx, param)
        context[key] = _parse_value(pair, value, ctx, param)
    return context


def _parse_value(pair: str, value: str, ctx: click.Context, param: click.Parameter) -> Any:
    if not value.startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise click.BadParameter(
            f"{pair[:60]!r} begins like JSON, but is not valid: {error}", ctx, param
        ) from None
