"""Copies of projects with their environments, and checkers that need one: eslint, tsc, go vet, clippy."""

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import uv

from services.critic.file_tools import OUTPUT, Sources, missed
from services.critic.findings import Check, clean, completed_check, make_finding, rate
from shared.contracts.checkup import Finding, NotChecked
from shared.errors import ActionError
from shared.gate.registries import registry_reach
from shared.projects.environments import Environment, Note
from shared.projects.preparation import prepare
from shared.projects.reading.installs import find_call
from shared.projects.reading.manifests import NODE_DEPENDENCIES
from shared.projects.reading.project_files import list_registries
from shared.sandbox import CommandResult, Reach, is_older, remove_tree, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.sandbox.jail import search_path
from shared.settings import Settings
from shared.skills.workspace import goal_folder
from shared.source import as_list, as_mapping, read_tree

SCRIPTS = ("JavaScript", "TypeScript")
SECONDS = 60.0  # How long one of them may run: a check-up is not to wait minutes for rules that need types
REPLACED = "oxlint"  # The checker that a project's own one for the same files takes the place of
Row = tuple[str, str, str, int, str]  # File, rule, level, line and message, as a tool reports them


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A working copy of a repository, and the environments of the projects in it."""

    root: Path
    environments: tuple[Environment, ...] = ()

    async def run(
        self,
        words: Sequence[str],
        environment: Environment,
        timeout: float = SECONDS,
        reach: Reach | None = None,
        **env: str,
    ) -> CommandResult:
        """The result of a program in the folder of one of the environments."""
        return await run_command(
            words,
            cwd=self.root / environment.folder,
            timeout=timeout,
            writable=[self.root, *environment.writable],
            readable=environment.readable,
            env={**environment.env, "NO_COLOR": "1", "COLUMNS": "300", **env},
            output_limit=OUTPUT,
            separate_errors=True,
            reach=reach,
        )


Workshop = Callable[[], AbstractAsyncContextManager[Prepared]]
"""Makes a working copy with its environments, and removes it afterwards."""


class ProjectTool(msgspec.Struct, frozen=True, kw_only=True):
    """A checker of a whole project, in the folder where it is prepared.

    ``named`` finds in package.json that the project uses it (default: it is used wherever it is there), and
    ``settings`` that it configures it: files, each with what it has to hold. ``package`` has it in the
    registry, for a project that has not installed it for its tests. ``owns`` says that it takes the place of
    Mailroom's own checker of the same files.
    """

    name: str
    ecosystem: str
    kinds: tuple[str, ...]
    command: tuple[str, ...]
    read: Callable[[CommandResult], Iterable[Row]]
    exits: tuple[int, ...] = (0, 1)
    named: str = ""
    needs: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    package: str = ""
    owns: bool = False

    def is_used(self, sources: Sources, folder: str) -> bool:
        """Whether the project in ``folder`` uses it."""
        project = sources.project.at(folder)
        if self.needs and not project.has(self.needs):
            return False
        if self.settings and not any(project.find_line(*each) for each in self.settings):
            return False
        named = (project.table("package.json", key) for key in (*NODE_DEPENDENCIES, "scripts"))
        return not self.named or any(self.named in table for table in named)


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


def read_mypy(result: CommandResult) -> Iterator[Row]:
    """mypy's own form; modules that are not installed here are not the project's fault."""
    form = r"^(.+?):(\d+)(?::\d+)?: (error): (.*?)  \[([\w-]+)\]$"
    for match in re.finditer(form, result.output, re.MULTILINE):
        if not match[5].startswith("import"):
            yield match[1], match[5], match[3], int(match[2]), match[4]


def read_pyright(result: CommandResult) -> Iterator[Row]:
    """pyright --outputjson."""
    report = as_mapping(msgspec.json.decode(result.output[result.output.index("{") :].encode()))
    for row in map(as_mapping, as_list(report.get("generalDiagnostics"))):
        rule = str(row.get("rule") or "syntax")
        start = as_mapping(as_mapping(row.get("range")).get("start"))
        if not rule.startswith("reportMissing"):
            yield (
                str(row["file"]),
                rule,
                str(row["severity"]),
                int(start.get("line", -1)) + 1,
                str(row["message"]),
            )


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
            file, number = spans[0]["file_name"], int(spans[0]["line_start"])
            yield file, rule, str(message["level"]), number, str(message["message"])


def _of_project(
    name: str, words: str, read: Callable[[CommandResult], Iterable[Row]], **more: Any
) -> ProjectTool:
    """A checker that a project of JavaScript or TypeScript installs itself; it takes the place of ours."""
    program, *options = words.split()
    command = (f"node_modules/.bin/{program}", *options)
    given = {"kinds": SCRIPTS, "named": name, "owns": True, **more}
    return ProjectTool(name=name, ecosystem="javascript", command=command, read=read, **given)


def _configures(name: str, *others: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return (("pyproject.toml", rf"^\[tool\.{name}\]"), *others)


TOOLS = (
    _of_project("eslint", "eslint --format json .", read_eslint),
    _of_project("xo", "xo --reporter json", read_eslint),
    _of_project(
        "biome", "biome lint --reporter=github --max-diagnostics=1000 .", read_biome, named="@biomejs/biome"
    ),
    _of_project(
        "tsc",
        "tsc --noEmit --pretty false",
        read_tsc,
        kinds=("TypeScript",),
        named="typescript",
        needs="tsconfig.json",
        exits=(0, 1, 2),
        owns=False,
    ),
    ProjectTool(
        name="mypy",
        ecosystem="python",
        kinds=("Python",),
        command=("mypy", "--no-error-summary", "--no-pretty", "--show-error-codes"),
        read=read_mypy,
        settings=_configures("mypy", ("mypy.ini", r"\S"), (".mypy.ini", r"\S"), ("setup.cfg", r"^\[mypy\]")),
        package="mypy",
    ),
    ProjectTool(
        name="pyright",
        ecosystem="python",
        kinds=("Python",),
        command=("basedpyright", "--outputjson"),
        read=read_pyright,
        settings=_configures("pyright", ("pyrightconfig.json", r"\S")),
        package="basedpyright",
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
CONFIGURED = frozenset(
    ("package.json", "pyproject.toml", "setup.cfg", "mypy.ini", ".mypy.ini", "pyrightconfig.json")
)
"""Files that say that a project uses a checker of its own."""
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
    scripts = [tool for tool in wanted if tool.ecosystem == "javascript" or tool.settings]
    folders = {str(Path(path).parent) for path in sources.tree.files if Path(path).name in CONFIGURED}
    unused = [tool for tool in scripts if not any(tool.is_used(sources, folder) for folder in folders)]
    return checks, [tool for tool in wanted if tool not in unused]


async def _run(
    tool: ProjectTool, sources: Sources, prepared: Prepared, environment: Environment, timeout: float
) -> list[Check]:
    place = prepared.root / environment.folder
    program = next(
        (str(path / tool.command[0]) for path in environment.path if (path / tool.command[0]).exists()), ""
    )
    words = [program or _find_program(tool.command[0], place, prepared.root)]
    reach, env = None, {"CI": "true"}
    if not words[0] and tool.package:
        registry = registry_reach("python", list_registries(sources.project))
        words = [uv.find_uv_bin(), "tool", "run", "--from", tool.package, tool.command[0]]
        reach, env = registry.reach, {**env, **registry.environment}
    program = words[0]
    if environment.preparation.problem or not program:
        missing = f"the project's {tool.name} is not installed in its environment"
        why = environment.preparation.problem or missing
        return [_failed(tool, sources, why, environment.preparation.cure)]
    seconds = min(timeout, SECONDS)
    options = _list_options(tool, sources, environment)
    result = await prepared.run([*words, *tool.command[1:], *options], environment, seconds, reach, **env)
    try:
        if result.timed_out or result.exit_code not in tool.exits:
            raise ValueError
        rows = await asyncio.to_thread(lambda: list(tool.read(result)))
    except (ValueError, KeyError, TypeError, AttributeError, msgspec.MsgspecError):
        cure = f"Run it in the project: {' '.join(tool.command)}" if result.timed_out else ""
        return [_failed(tool, sources, _reason(tool, result, seconds), cure)]
    if tool.name == "clippy" and result.exit_code and not any(level == "error" for _, _, level, _, _ in rows):
        return [_failed(tool, sources, _reason(tool, result, seconds))]
    return [_completed(tool, sources, rows, prepared.root, place)]


def _list_options(tool: ProjectTool, sources: Sources, environment: Environment) -> list[str]:
    """What a checker of types is told beside its settings: the interpreter, and where to look if need be."""
    if tool.ecosystem != "python":
        return []
    files = sources.project.at(environment.folder)
    if tool.name == "pyright":
        return ["--pythonpath", environment.python]
    called = find_call(files, tool.name)
    if called is not None and any(not word.startswith("-") for word in called):  # what CI checks, no more
        return ["--python-executable", environment.python, *called]
    settings = " ".join(map(files.text, ("mypy.ini", ".mypy.ini", "setup.cfg")))
    stated = files.table("pyproject.toml", "tool", "mypy")
    lists = r"(?m)^(?:files|packages|modules) *="
    named = {"files", "packages", "modules"} & {*stated} or re.search(lists, settings)
    return ["--python-executable", environment.python, *([] if named else ["."])]


def _completed(tool: ProjectTool, sources: Sources, rows: list[Row], root: Path, place: Path) -> Check:
    known = set(sources.tree.files)
    findings: list[Finding] = []
    for path, rule, level, line, message in rows:
        # The path within the repository of what a tool in ``place`` names; empty for what lies elsewhere
        whole = Path(path) if Path(path).is_absolute() else place / path
        file = str(whole.relative_to(root)) if whole.is_relative_to(root) else ""
        if file in known:
            severity = rate(tool.name, rule, level, file)
            findings.append(make_finding(tool.name, rule, severity, file, line, message))
    version = "of the project" if tool.named else "as installed"
    return completed_check(tool.name, version, findings, files=len(sources.files(tool.kinds)))


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
    errors = [line for line in said if re.search(r"error|cannot|not found", line, re.IGNORECASE)]
    told = (errors[:1] or said[-1:] or [""])[0].strip()
    return clean(f"{tool.name} ended with exit code {result.exit_code}{f': {told}' if told else ''}", 250)


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


# --- copies of projects -----------------------------------------------------------------------------

PREFIX = "review-"
STALE = 86_400.0  # Seconds after which a folder that a crash left is removed: longer than a review lasts
MAX_BYTES = 500_000_000  # The most bytes that are copied


@asynccontextmanager
async def review_folder(folder: Path) -> AsyncIterator[Path]:
    """A new folder beneath ``folder``, removed at the end; raises ActionError."""
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        place = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=PREFIX, dir=folder))
    except OSError as error:
        raise ActionError(f"No folder can be made in {folder}: {error.strerror}") from None
    try:
        yield place
    finally:
        await asyncio.to_thread(remove_tree, place)


def clean_review_folders(folder: Path) -> int:
    """Remove the folders of reviews in ``folder`` that a crash left more than STALE ago; returns how many."""
    places = [place for place in folder.glob(f"{PREFIX}*") if is_older(place, STALE)]
    for place in places:
        remove_tree(place)
    return len(places)


def copy_tree(repo: Path, target: Path, settings: Settings) -> None:
    """Copy what belongs to ``repo`` (see read_tree) to ``target``, without Mailroom's own folders in it.

    A link swapped in meanwhile is not followed. Raises ActionError for one, if there is too much to be
    copied, and if all of it is Mailroom's own.
    """
    tree = read_tree(repo)
    if tree.cut:
        raise ActionError(f"{repo} is too large to be copied: {tree.cut}")
    held = goal_folder(settings, tree.root)
    own = () if held else (settings.state_dir.resolve(), settings.keys.resolve())
    if any(map(tree.root.is_relative_to, own)):
        raise ActionError(f"{tree.root} is the office's own and not copied", "Name the folder of a project")
    target.mkdir(parents=True)
    total = 0
    with ConfinedFolder(held or tree.root) as confined:
        for name in tree.files:
            source = tree.root / name
            if any(map(source.is_relative_to, own)):
                continue
            total += confined.copy_out(str(source), target / name, MAX_BYTES - total)
            if total > MAX_BYTES:
                raise ActionError(f"{repo} is too large to be copied: it has more than {MAX_BYTES:,} bytes")


@asynccontextmanager
async def open_workshop(repo: Path, settings: Settings, note: Note) -> AsyncIterator[Prepared]:
    """A copy of ``repo`` with an environment for each of its projects; the copy is removed at the end.

    What is being prepared goes to ``note``. Raises ActionError if no copy can be made.
    """
    async with review_folder(settings.workspaces) as folder:
        copy = folder / "copy" / (repo.name or "root")
        await asyncio.to_thread(copy_tree, repo, copy, settings)
        environments = await prepare(
            copy,
            source=repo,
            cache=settings.environments,
            note=note,
            timeout=settings.command_timeout,
            log=folder / "preparing.log",
        )
        yield Prepared(root=copy.resolve(), environments=environments)
