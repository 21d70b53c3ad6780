"""``--junit`` and ``--sarif``: what was found, as files for the services that run a project's checks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from services.cli.commands.options import combine
from services.cli.output.reports import format_junit, format_sarif
from services.cli.queries.results import GoalResults
from shared.contracts import TestRun, TestSuite, ToolRun
from shared.errors import MailroomError
from shared.files import write_atomically


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
