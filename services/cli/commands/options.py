"""Types of arguments, and options that several commands share."""

import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from services.cli import api
from services.cli.commands.completion import AgentName, GoalName
from services.cli.output.outcomes import FAIL_ON
from shared import settings
from shared.contracts import MAX_TEXT, Contract, GoalBudget, TestRun, TestSuite, ToolRun
from shared.errors import MailroomError
from shared.files import write_atomically
from shared.tasks.submission import parse_budget
from shared.text.prose import PATH_IN_TEXT
from shared.text.times import SPAN, format_utc, parse_span, parse_time
from shared.views.timeline import GoalResults

Command = TypeVar("Command", bound=Callable[..., Any])
C = TypeVar("C", bound=Contract)


def format_examples(*lines: str) -> str:
    """The end of a command's help: lines to type."""
    return "\n".join(("\b\nExamples:", *(f"  {line}" for line in lines)))


class NumberType(click.ParamType[float]):
    """A number from ``least`` to ``most`` (None: no bound).

    Unlike click's IntRange and FloatRange it refuses nan and inf, and says in the error what is allowed.
    """

    name = "number"

    def __init__(self, least: float = 0, most: float | None = None, *, whole: bool = True) -> None:
        self._least, self._most, self._whole = least, most, whole

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """``1..100`` in the help of an option that has both bounds."""
        if self._most is None or isinstance(param, click.Argument):
            return None
        return f"{self._least:g}..{self._most}"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error for anything else and for numbers out of bounds."""
        try:
            number = int(str(value)) if self._whole else float(str(value))
        except ValueError:
            number = math.nan
        most = math.inf if self._most is None else self._most
        if not (self._least <= number <= most and number != math.inf):
            word = "a whole number" if self._whole else "a number"
            bounds = (
                f"of {self._least:g} or more" if self._most is None else f"from {self._least:g} to {most}"
            )
            self.fail(f"{str(value)[:100]!r} is not {word} {bounds}", param, ctx)
        return number


SHARE = NumberType(0, 1, whole=False)


class TimeType(click.ParamType[datetime]):
    """A time: ISO 8601, or a span such as ``10m`` relative to now, in the past unless ``future``."""

    name = "time"

    def __init__(self, *, future: bool = False) -> None:
        self._future = future

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time in UTC; a usage error for anything else, and if it should be in the future and is not."""
        try:
            if SPAN.match(value) and not re.match(r"\d{4}-|\d{8}", value):
                span = timedelta(seconds=parse_span(value))
                time = datetime.now(UTC) + (span if self._future else -span)
            else:
                time = parse_time(value)
        except (ValueError, OverflowError) as error:
            self.fail(str(error), param, ctx)
        if self._future and time <= datetime.now(UTC):
            self.fail(f"{value!r} has passed", param, ctx)
        return time


class BudgetType(click.ParamType[GoalBudget]):
    """What models may use for a goal: ``200k`` tokens, ``$1.50``, or both with a comma."""

    name = "budget"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> GoalBudget:
        """The budget; a usage error for anything else."""
        try:
            return value if isinstance(value, GoalBudget) else parse_budget(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


budget_option = click.option(
    "--budget",
    type=BudgetType(),
    help="The most that models may use for the goal, all tasks together: 200k (tokens) or '$1.50', or both.",
)


class TextType(click.ParamType[str]):
    """Text; ``-`` reads it from standard input."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; a usage error if it is empty or too long."""
        text = read_stdin() if value == "-" else value
        if not text.strip():
            self.fail("it is empty; say in a sentence what you want", param, ctx)
        if len(text) > MAX_TEXT:
            sizes = f"it has {len(text):,} characters and the limit is {MAX_TEXT:,}"
            self.fail(f"{sizes}; put the rest in a file and name its path", param, ctx)
        return text


def read_stdin() -> str:
    """All of standard input as UTF-8; invalid bytes are replaced."""
    return sys.stdin.buffer.read().decode(errors="replace")


def parse_context(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """The pairs of an option as a dictionary.

    ``key=text`` is text, or a JSON object or list; ``key:=3`` is any JSON, such as a number or true.
    """
    context: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        is_json = key.endswith(":")
        key = key.removesuffix(":")
        if not key or not equals:
            raise click.BadParameter(f"{pair!r} is not of the form key=value", ctx, param)
        if key in context:
            raise click.BadParameter(f"{key!r} is given twice; a list is {key}:=[...]", ctx, param)
        try:
            context[key] = json.loads(value) if is_json or value.startswith(("{", "[")) else value
        except ValueError as error:
            fault = "is not JSON" if is_json else "begins like JSON, but is not valid"
            cure = f"; text is given as {key}={value[:40]}" if is_json else ""
            raise click.BadParameter(f"{pair[:60]!r} {fault}: {error}{cure}", ctx, param) from None
    return context


def build(contract: type[C], /, **fields: Any) -> C:
    """A contract of the values of options; a usage error if one is invalid."""
    try:
        return contract(**fields)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def format_time_option(_: click.Context, __: click.Parameter, time: datetime | None) -> str:
    """The callback of an option that passes a time on as text; empty without one."""
    return format_utc(time) if time else ""


def combine(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator of several options and arguments, in this order."""

    def apply(command: Command) -> Command:
        return reduce(lambda wrapped, decorator: decorator(wrapped), reversed(decorators), command)

    return apply


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
limit_option = click.option(
    "--limit", type=NumberType(1), default=30, show_default=True, help="The most to list."
)
agent_option = click.option(
    "--agent", type=AgentName(), default="*", metavar="NAME", help="Only those of this agent."
)
goal_argument = click.argument("name", metavar="GOAL", type=GoalName())
fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="Exit with 3 if tests fail, or if there are high findings, medium ones, or any at all; each "
    "includes those before it.",
)
context_option = click.option(
    "-c",
    "--context",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_context,
    help="Context for the work, such as repo=PATH. KEY:=JSON is a number, true, a list or an object, such "
    "as limit:=3. Repeatable.",
)
since_option = click.option(
    "--since",
    type=TimeType(),
    metavar="TIME",
    help="Only messages since TIME: a span such as 10m, or ISO 8601.",
)


def timeout_option(default: float) -> Callable[[Command], Command]:
    """The option of the seconds to wait."""
    text = "Seconds to wait for the answer."
    kind = NumberType(0.1, whole=False)
    return click.option("--timeout", type=kind, default=default, show_default=True, help=text)


# --- paths in texts ---------------------------------------------------------------------------------

RELATIVE_PATH = re.compile(
    r"""(?P<quote>["'`])(?P<quoted>(?:\.{1,2}|~[\w-]*)(?:/[^"'`\n]*)?)(?P=quote)"""
    r"""|(?<![^\s(\[{=:,])(?!\.{3})(?P<bare>(?:\.{1,2}|~[\w-]*)/[^\s"'`]*|\.{1,2}(?=$|[\s,;:!?)\]}]))"""
)
"""``.``, ``..``, ``./x``, ``../x`` and ``~/x``, in quotes or up to a space."""
TRAILING = ".,;:!?)]}"
NEEDS_QUOTES = re.compile(r"[\s,;()\[\]{}<>|]")  # What ends a path in a text unless it is in quotes
Resolved = dict[str, str]  # Absolute paths, by what was written for them


class FolderType(click.ParamType[Path]):
    """An existing folder, as an absolute path; ``~`` is the home folder, also where no shell expands it."""

    name = "folder"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The folder without links; a usage error if there is none."""
        path = _absolute(str(value))
        if path is None or not path.is_dir():
            what = "is a file, not a folder" if path and path.exists() else "is not a folder here"
            self.fail(f"{str(value)[:200]!r} {what} (in {Path.cwd()})", param, ctx)
        return path


def resolve_text(text: str) -> tuple[str, Resolved]:
    """``text`` with the relative paths of existing files and folders made absolute, and what they became.

    Others stay as they are written, and became "". What was pasted from a shell or quoted stays as it is.
    """
    from shared.language.utterance import Act, read_utterance

    if read_utterance(text).act is Act.QUOTED:
        return text, {}
    resolved: Resolved = {}

    def replace(match: re.Match[str]) -> str:
        written = match["quoted"] or match["bare"]
        kept = written
        while (path := _absolute(kept)) is None or not path.exists():
            if match["quoted"] or kept[-1] not in TRAILING or len(kept) < 3:
                resolved[written.rstrip(TRAILING)] = ""
                return match[0]
            kept = kept[:-1]
        resolved[kept] = str(path)
        sign = match["quote"] or ""
        shown = f"{sign}{path}{sign}" if sign and sign not in str(path) else quote(str(path))
        return shown + written[len(kept) :]

    return RELATIVE_PATH.sub(replace, text), resolved


def quote(path: str) -> str:
    """``path`` as a text for agents names it: in quotes if it has a space."""
    sign = "'" if "'" not in path else '"'
    return f"{sign}{path}{sign}" if NEEDS_QUOTES.search(path) else path


def resolve_context(context: Mapping[str, Any]) -> tuple[dict[str, Any], Resolved]:
    """The context of a goal with an absolute ``repo``, and ``folder`` if no action is named.

    An action's ``folder`` may be one of its workspace. Raises click.UsageError if a relative one is missing.
    """
    changed, resolved = dict(context), {}
    for key in ("repo",) if context.get("action") else ("repo", "folder"):
        value = context.get(key)
        if not isinstance(value, str) or not value or Path(value).is_absolute():
            continue
        path = _absolute(value)
        if path is None or not path.exists():
            raise click.UsageError(f"{key}={value[:200]}: there is no such folder in {Path.cwd()}")
        changed[key] = resolved[f"{key}={value}"] = str(path)
    return changed, resolved


def find_repository_here(context: Mapping[str, Any]) -> str:
    """The git repository of the current folder, which a goal is about where its text names no folder.

    Empty where an action, agent or folder is named, where there is no repository (the home folder is none),
    and for an office on another machine, which does not have it.
    """
    if not context.keys().isdisjoint({"action", "assignee", "repo", "folder"}):
        return ""
    here = Path.cwd()
    root = next((each for each in (here, *here.parents) if (each / ".git").exists()), None)
    found = root is not None and root != Path.home() and not api.find_office_elsewhere(settings.load())
    return str(root) if found else ""


def names_path(text: str) -> bool:
    """Whether ``text`` names a file or folder of this machine by its absolute path."""
    named = (found["quoted"] or found["bare"].rstrip(TRAILING) for found in PATH_IN_TEXT.finditer(text))
    return any(os.path.exists(path) for path in named)  # noqa: PTH110 - any text is taken


def print_resolved(resolved: Resolved) -> None:
    """Print what each path became, or that there is none, to standard error.

    Raises MailroomError if the office is elsewhere.
    """
    elsewhere = api.find_office_elsewhere(settings.load()) if any(resolved.values()) else ""
    for written, path in resolved.items():
        if not path:
            click.echo(f"{written} does not exist in {Path.cwd()}", err=True)
            continue
        if elsewhere:
            raise MailroomError(
                f"{written} is {path} on this machine, and the office at {elsewhere} is on another",
                "Name a folder of that machine by its whole path",
            )
        click.echo(f"{written} is {path}", err=True)


def _absolute(written: str) -> Path | None:
    try:
        return Path(written).expanduser().resolve()
    except (OSError, RuntimeError, ValueError):  # no such user, a circle of links, a zero byte
        return None


# --- report files -----------------------------------------------------------------------------------


class ReportFile(click.ParamType[Path]):
    """A file to be written, in a folder that exists."""

    name = "file"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; a usage error if it is a folder or its folder does not exist."""
        path = Path(value).expanduser()
        if path.is_dir():
            self.fail(f"{value!r} is a folder", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"there is no folder {str(path.parent)!r}", param, ctx)
        return path.absolute()


report_options: Callable[[Callable[..., Any]], Callable[..., Any]] = combine(
    click.option("--junit", type=ReportFile(), help="Write the test results as JUnit XML."),
    click.option("--sarif", type=ReportFile(), help="Write the findings as SARIF 2.1.0."),
)


def write_reports(results: GoalResults, junit: Path | None, sarif: Path | None) -> None:
    """Write the files that are asked for; raises MailroomError if one cannot be written."""
    from services.cli.output.reports import format_junit, format_sarif

    if junit is not None:
        _write(junit, format_junit(_join(results.tests)))
    if sarif is not None:
        tools = [tool for inspection in results.inspections for tool in inspection.tools]
        if not results.inspections:
            tools = [ToolRun(name="mailroom", problem="No tool looked at the project")]
        _write(sarif, format_sarif(results.findings, tools))


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text)
    except OSError as error:
        raise MailroomError(f"{path} cannot be written: {error.strerror}") from None


def _join(runs: tuple[TestRun, ...]) -> TestRun:
    """One run with the suites of all; one that says so if nothing was run."""
    if len(runs) == 1:
        return runs[0]
    if not runs:
        return TestRun(problem="No test was run")
    suites = [suite for run in runs for suite in run.suites or (_as_suite(run),)]
    return TestRun(suites=tuple(suites), not_run=tuple(each for run in runs for each in run.not_run))


def _as_suite(run: TestRun) -> TestSuite:
    return TestSuite(**{name: getattr(run, name) for name in TestSuite.__struct_fields__})
