"""Checkers that need the project prepared: its own eslint, xo, biome, tsc; go vet, staticcheck; clippy."""

import asyncio
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec

from services.critic.claims import as_list, as_mapping
from services.critic.file_tools import OUTPUT, missed
from services.critic.findings import Check, clean, completed_check, make_finding, rate
from services.critic.kinds import Sources
from shared.contracts.checkup import Finding, NotChecked
from shared.errors import ActionError
from shared.projects.environment import Environment
from shared.sandbox import CommandResult, run_command
from shared.sandbox.jail import search_path
from shared.source import read_text

SCRIPTS = ("JavaScript", "TypeScript")
SECONDS = 60.0  # How long one of them may run: a check-up is not to wait minutes for rules that need types
REPLACED = "oxlint"  # The checker that a project's own one for the same files takes the place of
Row = tuple[str, str, str, int, str]  # File, rule, level, line and message, as a tool reports them


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A working copy of a repository, and the environments of the projects in it."""

    root: Path
    environments: tuple[Environment, ...] = ()


Workshop = Callable[[], AbstractAsyncContextManager[Prepared]]
"""Makes a working copy with its environments, and removes it afterwards."""


class ProjectTool(msgspec.Struct, frozen=True, kw_only=True):
    """A checker of a whole project, in the folder where it is prepared.

    ``named`` finds in package.json that the project uses it (default: it is used wherever it is there).
    ``owns`` says that it takes the place of Mailroom's own checker of the same files.
    """

    name: str
    ecosystem: str
    kinds: tuple[str, ...]
    command: tuple[str, ...]
    read: Callable[[CommandResult], Iterable[Row]]
    exits: tuple[int, ...] = (0, 1)
    named: str = ""
    needs: str = ""
    owns: bool = False

    def is_used(self, sources: Sources, folder: str) -> bool:
        """Whether the project in ``folder`` uses it."""
        prefix = "" if folder in ("", ".") else f"{folder}/"
        if self.needs and f"{prefix}{self.needs}" not in sources.tree.files:
            return False
        text = read_text(sources.tree.root, f"{prefix}package.json") if self.named else ""
        return not self.named or bool(re.search(rf'"{self.named}"\s*:\s*"', text))


def read_eslint(result: CommandResult) -> Iterator[Row]:
    """eslint --format json, xo too; what comes before the report is skipped."""
    start = result.output.find("[{") if "[{" in result.output else result.output.find("[")
    for file in as_list(msgspec.json.decode(result.output[max(start, 0) :].strip().encode())):
        for row in as_list(file.get("messages")):
            level = "error" if row.get("severity") == 2 or row.get("fatal") else "warning"
            rule = str(row.get("ruleId") or "syntax")
            yield str(file["filePath"]), rule, level, int(row.get("line") or 0), str(row["message"])


def read_biome(result: CommandResult) -> Iterator[Row]:
    """biome --reporter=github: a line for each finding."""
    form = r"^::(error|warning|notice) title=([^,]+),file=([^,]+),line=(\d+)[^:]*::(.*)$"
    for match in re.finditer(form, result.output, re.MULTILINE):
        yield match[3], match[2], match[1], int(match[4]), match[5]


def read_tsc(result: CommandResult) -> Iterator[Row]:
    """tsc --pretty false."""
    for match in re.finditer(r"^(.+?)\((\d+),\d+\): (error) (TS\d+): (.*)$", result.output, re.MULTILINE):
        yield match[1], match[4], match[3], int(match[2]), match[5]


def read_vet(result: CommandResult) -> Iterator[Row]:
    """go vet -json: an object for each package, between lines that name it."""
    text = "\n".join(
        line for line in f"{result.output}\n{result.errors}".splitlines() if not line.startswith("#")
    )
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        package, end = decoder.raw_decode(text)
        text = text[end:]
        for checks in as_mapping(package).values():
            for rule, rows in as_mapping(checks).items():
                for row in as_list(rows):
                    file, line, *_ = [*str(row["posn"]).rsplit(":", 2), "0"]
                    yield file, rule, "error", int(line), str(row["message"])


def read_staticcheck(result: CommandResult) -> Iterator[Row]:
    """staticcheck -f json: an object a line."""
    for line in result.output.splitlines():
        row = msgspec.json.decode(line.encode())
        place = row["location"]
        yield place["file"], row["code"], row["severity"], int(place["line"]), row["message"]


def read_clippy(result: CommandResult) -> Iterator[Row]:
    """cargo clippy --message-format=json: an object a line, of which the compiler's messages count."""
    for line in result.output.splitlines():
        row: Any = msgspec.json.decode(line.encode()) if line.startswith("{") else {}
        message = as_mapping(row.get("message")) if row.get("reason") == "compiler-message" else {}
        spans = [span for span in as_list(message.get("spans")) if span.get("is_primary")]
        if spans:
            rule = str(as_mapping(message.get("code")).get("code") or "rustc")
            place = spans[0]
            yield (
                place["file_name"],
                rule,
                str(message["level"]),
                int(place["line_start"]),
                str(message["message"]),
            )


def _node(name: str, *words: str) -> tuple[str, ...]:
    return (f"node_modules/.bin/{name}", *words)


TOOLS = (
    ProjectTool(
        name="eslint",
        ecosystem="javascript",
        kinds=SCRIPTS,
        command=_node("eslint", "--format", "json", "."),
        read=read_eslint,
        named="eslint",
        owns=True,
    ),
    ProjectTool(
        name="xo",
        ecosystem="javascript",
        kinds=SCRIPTS,
        command=_node("xo", "--reporter", "json"),
        read=read_eslint,
        named="xo",
        owns=True,
    ),
    ProjectTool(
        name="biome",
        ecosystem="javascript",
        kinds=SCRIPTS,
        command=_node("biome", "lint", "--reporter=github", "--max-diagnostics=1000", "."),
        read=read_biome,
        named="@biomejs/biome",
        owns=True,
    ),
    ProjectTool(
        name="tsc",
        ecosystem="javascript",
        kinds=("TypeScript",),
        command=_node("tsc", "--noEmit", "--pretty", "false"),
        read=read_tsc,
        exits=(0, 1, 2),
        named="typescript",
        needs="tsconfig.json",
    ),
    ProjectTool(
        name="go vet", ecosystem="go", kinds=("Go",), command=("go", "vet", "-json", "./..."), read=read_vet
    ),
    ProjectTool(
        name="staticcheck",
        ecosystem="go",
        kinds=("Go",),
        command=("staticcheck", "-f", "json", "./..."),
        read=read_staticcheck,
    ),
    ProjectTool(
        name="clippy",
        ecosystem="rust",
        kinds=("Rust",),
        command=("cargo", "clippy", "--offline", "--all-targets", "--message-format=json"),
        read=read_clippy,
        exits=(0, 101),
    ),
)
CHAINS = {
    "go": ("Go", "go", "there is no go on this machine", "apt install golang-go, or brew install go"),
    "rust": ("Rust", "cargo", "there is no cargo on this machine", "Install Rust from https://rustup.rs"),
}
"""The kind of files of an ecosystem, the program it needs, and what to say if that is missing."""
CLIPPY = ("cargo has no clippy", "rustup component add clippy, or apt install rust-clippy")


async def check_projects(sources: Sources, workshop: Workshop | None, *, timeout: float) -> list[Check]:
    """Run every checker that a project in the repository uses and that needs it prepared."""
    checks, wanted = _without_chain(sources)
    if workshop is None:
        why = "the project was not prepared"
        return [*checks, *(_failed(tool, sources, why) for tool in wanted)]
    if not wanted:
        return checks
    try:
        async with workshop() as prepared:
            for environment in prepared.environments:
                for tool in wanted:
                    if tool.ecosystem == environment.ecosystem and tool.is_used(sources, environment.folder):
                        checks += await _run(tool, sources, prepared, environment, timeout)
    except ActionError as error:
        checks += [missed(tool.name, sources, tool.kinds, error.cause, error.cure) for tool in wanted]
    return checks


def _without_chain(sources: Sources) -> tuple[list[Check], list[ProjectTool]]:
    """The checks that fail because a tool chain is missing, and the tools that may be run."""
    checks: list[Check] = []
    wanted = [tool for tool in TOOLS if sources.files(tool.kinds)]
    for ecosystem, (kind, program, why, cure) in CHAINS.items():
        if sources.kinds.get(kind) and not shutil.which(program, path=search_path()):
            checks.append(missed("go vet" if kind == "Go" else "clippy", sources, (kind,), why, cure))
            wanted = [tool for tool in wanted if tool.ecosystem != ecosystem]
    if any(tool.name == "clippy" for tool in wanted) and not shutil.which("cargo-clippy", path=search_path()):
        checks.append(missed("clippy", sources, ("Rust",), *CLIPPY))
        wanted = [tool for tool in wanted if tool.name != "clippy"]
    if not shutil.which("staticcheck", path=search_path()):
        wanted = [tool for tool in wanted if tool.name != "staticcheck"]
    scripts = [tool for tool in wanted if tool.ecosystem == "javascript"]
    folders = [str(Path(path).parent) for path in sources.tree.files if Path(path).name == "package.json"]
    unused = [tool for tool in scripts if not any(tool.is_used(sources, folder) for folder in folders)]
    return checks, [tool for tool in wanted if tool not in unused]


async def _run(
    tool: ProjectTool, sources: Sources, prepared: Prepared, environment: Environment, timeout: float
) -> list[Check]:
    place = prepared.root / environment.folder
    program = _find_program(tool.command[0], place, prepared.root)
    if environment.preparation.problem or not program:
        why = (
            environment.preparation.problem
            or f"the project's {tool.name} is not installed in its environment"
        )
        return [_failed(tool, sources, why, environment.preparation.cure)]
    result = await run_command(
        [program, *tool.command[1:]],
        cwd=place,
        timeout=min(timeout, SECONDS),
        writable=[prepared.root, *environment.writable],
        readable=environment.readable,
        env={**environment.env, "NO_COLOR": "1", "CI": "true"},
        output_limit=OUTPUT,
        separate_errors=True,
    )
    try:
        if result.timed_out or result.exit_code not in tool.exits:
            raise ValueError
        rows = await asyncio.to_thread(lambda: list(tool.read(result)))
    except (ValueError, KeyError, TypeError, AttributeError, msgspec.MsgspecError):
        cure = f"Run it in the project: {' '.join(tool.command)}" if result.timed_out else ""
        return [_failed(tool, sources, _reason(tool, result, min(timeout, SECONDS)), cure)]
    if tool.name == "clippy" and result.exit_code and not any(level == "error" for _, _, level, _, _ in rows):
        return [_failed(tool, sources, _reason(tool, result, min(timeout, SECONDS)))]
    return [_completed(tool, sources, rows, prepared.root, place)]


def _completed(tool: ProjectTool, sources: Sources, rows: list[Row], root: Path, place: Path) -> Check:
    known = set(sources.tree.files)
    findings: list[Finding] = []
    for path, rule, level, line, message in rows:
        # The path within the repository of what a tool in ``place`` names; empty for what lies elsewhere
        whole = Path(path) if Path(path).is_absolute() else place / path
        file = str(whole.relative_to(root)) if whole.is_relative_to(root) else ""
        if file in known:
            findings.append(
                make_finding(tool.name, rule, rate(tool.name, rule, level, file), file, line, message)
            )
    files = len(sources.files(tool.kinds))
    return completed_check(
        tool.name, "of the project" if tool.named else "as installed", findings, files=files
    )


def _failed(tool: ProjectTool, sources: Sources, why: str, cure: str = "") -> Check:
    """The check that did not come about; scripts are looked at by Mailroom's own checker all the same."""
    check = missed(tool.name, sources, tool.kinds, why, cure)
    if tool.ecosystem != "javascript":
        return check
    gap = NotChecked(what=f"what the project's own {tool.name} says", why=clean(why), cure=cure)
    return msgspec.structs.replace(check, not_checked=(gap,))


def _reason(tool: ProjectTool, result: CommandResult, timeout: float) -> str:
    if result.timed_out:
        return f"{tool.name} did not end within {timeout:g} s"
    said = [line for line in (result.errors or result.output).splitlines() if line.strip()]
    told = next(
        (line for line in said if re.search(r"error|cannot|not found", line, re.IGNORECASE)),
        said[-1] if said else "",
    )
    return clean(
        f"{tool.name} ended with exit code {result.exit_code}{f': {told.strip()}' if told else ''}", 250
    )


def _find_program(name: str, place: Path, root: Path) -> str:
    """The program in the project's folder, or in one above it within the working copy, or on the PATH."""
    if "/" not in name:
        return name if shutil.which(name, path=search_path()) else ""
    folders = [folder for folder in (place, *place.parents) if folder.is_relative_to(root)]
    return next((str(folder / name) for folder in folders if (folder / name).exists()), "")


def is_replaced(checks: Sequence[Check]) -> bool:
    """Whether the project's own checker has looked at the files that REPLACED looks at."""
    owning = {tool.name for tool in TOOLS if tool.owns}
    return any(check.tool.name in owning and check.tool.files for check in checks)


def kinds_of(check: Check) -> tuple[str, ...]:
    """The kinds of files that the tool of a check looks at."""
    return next((tool.kinds for tool in TOOLS if tool.name == check.tool.name), ())
