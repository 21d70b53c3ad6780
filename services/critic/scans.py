"""The tools that scan a repository in the jail and change nothing: for faults, secrets, vulnerabilities."""

import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from services.critic import secret_scan, vulnerability_scan
from services.critic.file_tools import ANY, Sources
from services.critic.findings import (
    Check,
    clean,
    completed_check,
    installed_version,
    make_finding,
    milder,
    rate,
    skipped_check,
)
from shared.contracts import ResultOutcome
from shared.contracts.checkup import Finding, NotChecked, Severity, ToolRun
from shared.errors import ActionError
from shared.projects.reading import ProjectFiles
from shared.projects.reading.locks import Locked, read_locked
from shared.projects.reading.manifests import declared_packages
from shared.sandbox import CommandResult, run_command
from shared.source import Tree, as_list, is_shown, is_test, is_vendored, read_text
from shared.tasks.actions import Outcome
from shared.text import secret_forms
from shared.text.display import count, format_list

SELECTED = "E9,F,B,PLE,ASYNC210,ASYNC220,ASYNC221,ASYNC222,ASYNC251,RUF006"
"""ruff's rules for a project that selects none: syntax, undefined and unused names, likely bugs, coroutines
that block the event loop (ASYNC2), background tasks that may be collected (RUF006)."""
IGNORED = "B007,B008,B009,B010,B011,B028,B903,B904,B905,B027,F403,F405"
"""Left out of them: matters of taste, or of what a framework wants (B008)."""
LIKELY = frozenset(
    f"B{n:03}" for n in (2, 3, 4, 5, 6, 12, 15, 16, 17, 20, 21, 22, 23, 25, 26, 29, 30, 31, 32, 35, 39, 909)
)
"""The rules of flake8-bugbear that find wrong behaviour rather than doubtful style."""
RUFF_CONFIG = (".ruff.toml", "ruff.toml", "pyproject.toml")
VERSIONS = ("py37", "py38", "py39", "py310", "py311", "py312", "py313", "py314")

SKIPPED = (*(f"B{number}" for number in range(401, 413)), "B603", "B607")
"""bandit's rules that report a mere import (the use has a rule of its own), or every call of a program."""
IN_TESTS = ("B101", "B105", "B106", "B107", "B108", "B110", "B112", "B113", "B311")
"""Rules that report what tests do on purpose: assert, invented passwords, temporary files, chance."""
HASHES = ("B303", "B324")  # Rules about MD5 and SHA-1
QUOTING = ("B105", "B106", "B107")  # Rules whose message quotes the password that was found
BATCH = 400  # Files a run of bandit: their names must fit on one command line

LOCKS = frozenset(
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml poetry.lock Pipfile.lock uv.lock"
    " Cargo.lock Gemfile.lock composer.lock go.sum flake.lock requirements.lock requirements-dev.lock".split()
)
"""Files full of checksums, which look like secrets."""
DATA = (".svg", ".ipynb", ".map", ".csv", ".tsv", ".lock", ".sum", ".css", ".po", ".pot", ".woff", ".pdf")
"""Kinds of files that hold long random strings of other sorts."""


async def _run_tool(
    tree: Tree,
    argv: Callable[[Path], Sequence[str]],
    timeout: float,
    *,
    files: str = "",
    readable: Sequence[Path] = (),
) -> tuple[CommandResult, bytes]:
    """Run a tool over ``tree``; returns its result and the content of the file ``report`` it was to write.

    ``argv`` is given the folder of that file, in which the file ``files`` has the text ``files``.
    """
    with tempfile.TemporaryDirectory(prefix="mailroom-") as name:
        folder = Path(name)
        if files:
            await asyncio.to_thread((folder / "files").write_text, files, "utf-8")
        result = await run_command(
            argv(folder), cwd=tree.root, timeout=timeout, writable=[folder], readable=readable
        )
        report = folder / "report"
        return result, report.read_bytes() if report.exists() else b""


class _RuffPlace(msgspec.Struct):
    row: int = 0


class _RuffLine(msgspec.Struct):
    """A line of ruff's JSON output; what a later version adds is left out."""

    filename: str
    message: str
    code: str | None = None
    location: _RuffPlace | None = None


async def lint(sources: Sources, *, timeout: float) -> Check:
    """Run ruff over the Python files for at most ``timeout`` seconds; it writes nothing there."""
    tree, files = sources.tree, sources.files(["Python"])
    if not files:
        return skipped_check("ruff", "there are no Python files")
    problem = ""
    config, options = own_config(sources.project)
    if config:
        result, findings = await _run_ruff(tree, files, options, timeout)
        if result.exit_code in (0, 1) and not result.timed_out:
            version = f"{installed_version('ruff')} as {config} says"
            return completed_check("ruff", version, findings, files=len(files))
        reason = _ruff_reason(result, timeout)
        problem = f"what {config} says cannot be used ({reason}), so Mailroom's own rules were"
    chosen = ["--isolated", "--select", SELECTED, "--ignore", IGNORED]
    chosen += ["--per-file-ignores", "__init__.py:F401"]
    # The oldest Python that the project supports, as ruff names it; the newest one if it does not say
    wanted = sources.project.table("pyproject.toml", "project").get("requires-python", "")
    match = re.search(r"(?:>=|~=|==)\s*3\.(\d+)", str(wanted))
    oldest = f"py3{match[1]}" if match else ""
    chosen += ["--target-version", oldest if oldest in VERSIONS else VERSIONS[-1]]
    result, findings = await _run_ruff(tree, files, chosen, timeout)
    if result.exit_code not in (0, 1) or result.timed_out:
        return skipped_check("ruff", f"it did not finish: {_ruff_reason(result, timeout)}")
    version = f"{installed_version('ruff')} with Mailroom's selection of likely bugs"
    return completed_check("ruff", version, findings, problem, files=len(files))


def own_config(project: ProjectFiles) -> tuple[str, list[str]]:
    """The file at the root that configures ruff ("" for none), and the options that complete it.

    A project that selects no rules of its own has not asked for ruff's ever growing default set: it gets our
    selection, and what it adds.
    """
    for name in RUFF_CONFIG:
        keys = ("tool", "ruff") if name == "pyproject.toml" else ()
        ruff = project.table(name, *keys)
        if not ruff:
            continue
        rules = ruff | project.table(name, *keys, "lint")
        if "select" in rules or "extend" in rules:
            return name, []
        added = [rule for rule in rules.get("extend-select", []) if re.fullmatch(r"[A-Z]+\d*", str(rule))]
        return name, ["--select", ",".join([SELECTED, *added]), "--extend-ignore", IGNORED]
    return "", []


async def _run_ruff(
    tree: Tree, files: list[str], options: list[str], timeout: float
) -> tuple[CommandResult, list[Finding]]:
    # A project's configuration may ask ruff to repair the files: these flags override it.
    safe = ["--no-fix", "--no-fix-only", "--no-unsafe-fixes", "--no-cache", "--no-show-fixes"]
    # The files by name, since the folder may hold large ones; what a project excludes stays excluded.
    form = ["--force-exclude", "--output-format", "json-lines", "--output-file"]
    ruff = [sys.executable, "-I", "-m", "ruff", "check", *safe, *options, *form]
    result, report = await _run_tool(
        tree,
        lambda folder: [*ruff, str(folder / "report"), f"@{folder / 'files'}"],
        timeout,
        files="\n".join(f"./{path}" for path in files),
    )
    findings, known = [], set(tree.files)
    for row in report.splitlines():
        try:
            line = msgspec.json.decode(row, type=_RuffLine)
        except msgspec.MsgspecError:
            continue
        path = Path(line.filename)
        file = str(path.relative_to(tree.root)) if path.is_relative_to(tree.root) else line.filename
        if file in known and not is_vendored(file) and line.code != "E902":  # it cannot be read
            code = line.code or "invalid-syntax"
            number = line.location.row if line.location else 0
            severity = _ruff_severity(code, file)
            findings.append(make_finding("ruff", code, severity, file, number, line.message))
    return result, findings


def _ruff_severity(code: str, file: str) -> Severity:
    aside = is_test(file) or is_shown(file)
    if code == "invalid-syntax" or code.startswith("E9"):
        return "low" if aside else "high"  # tests keep broken files on purpose
    if re.match(r"F7|F82|F50|F52|F63|PLE", code):
        return "medium" if aside else "high"
    if code in LIKELY or re.match(r"F811|F6|ASYNC2|RUF006|S\d", code):
        return "low" if aside else "medium"
    return "low"


def _ruff_reason(result: CommandResult, timeout: float) -> str:
    if result.timed_out:
        return f"it took longer than {timeout:g} s"
    words = clean(result.output, 200)
    return words or f"exit code {result.exit_code}"


class _BanditIssue(msgspec.Struct):
    """One entry of bandit's JSON output."""

    filename: str
    line_number: int
    test_id: str
    test_name: str
    issue_text: str
    issue_severity: str
    issue_confidence: str


class _BanditOutput(msgspec.Struct):
    results: list[_BanditIssue] = []


async def scan_security(sources: Sources, *, timeout: float) -> Check:
    """Run bandit over the Python files for at most ``timeout`` seconds in all.

    Severity is bandit's own, one step milder if its confidence is low and in tests and examples. The
    project's own lists of skipped rules and folders in pyproject.toml hold; no other configuration is read,
    because it could name a file to be written.
    """
    tree = sources.tree
    own = sources.project.table("pyproject.toml", "tool", "bandit")
    folders = (str(name).removeprefix("./").rstrip("/") for name in as_list(own.get("exclude_dirs")))
    excluded = tuple(f"{folder}/" for folder in folders)
    sources_of_python = (path for path in sources.files(["Python"]) if not path.endswith(".pyi"))
    files = [path for path in sources_of_python if not path.startswith(excluded)]
    if not files:
        return skipped_check("bandit", "there are no Python files")
    findings: list[Finding] = []
    problems = []
    ends = time.monotonic() + timeout
    for start in range(0, len(files), BATCH):
        left = max(0.0, ends - time.monotonic())
        found, problem = await _run_bandit(
            tree, files[start : start + BATCH], as_list(own.get("skips")), left
        )
        findings += found
        problems += [problem] if problem else []
    version = f"{installed_version('bandit')}{' as pyproject.toml says' if own else ''}"
    return completed_check("bandit", version, findings, problems[0] if problems else "", files=len(files))


async def _run_bandit(
    tree: Tree, files: list[str], skipped: list[Any], timeout: float
) -> tuple[list[Finding], str]:
    # Files, not a folder: in a folder bandit looks for a .bandit file, which may name an output file.
    options = ["--skip", ",".join(SKIPPED), "--", *(f"./{path}" for path in files)]
    bandit = [sys.executable, "-I", "-m", "bandit", "-q", "--exit-zero", "-f", "json", "-o"]
    result, report = await _run_tool(
        tree, lambda folder: [*bandit, str(folder / "report"), *options], timeout
    )
    if result.timed_out:
        return [], f"{len(files)} files were not scanned: the time was up"
    try:
        issues = msgspec.json.decode(report, type=_BanditOutput).results
    except msgspec.MsgspecError:
        return [], f"bandit ended with exit code {result.exit_code} and without a report"
    return [
        found for issue in issues if issue.test_id not in skipped and (found := _rate_issue(issue, tree))
    ], ""


def _rate_issue(issue: _BanditIssue, tree: Tree) -> Finding | None:
    file = str(PurePosixPath(issue.filename))
    # What is broken of these hashes does not matter in an HMAC.
    in_hmac = issue.test_id in HASHES and re.search(r"\bhmac\b", read_text(tree.root, file))
    aside = is_test(file) or is_shown(file) or bool(in_hmac)
    if aside and issue.test_id in IN_TESTS:
        return None
    severity: Severity = {"HIGH": "high", "MEDIUM": "medium"}.get(issue.issue_severity, "low")  # type: ignore[assignment]
    for mild in (issue.issue_confidence == "LOW", aside, in_hmac):
        severity = milder(severity) if mild else severity
    text = issue.issue_text
    message = re.sub(r"'.*'", "(not shown)", text) if issue.test_id in QUOTING else text
    return make_finding(
        "bandit", f"{issue.test_id} {issue.test_name}", severity, file, issue.line_number, message
    )


async def scan_secrets(sources: Sources, *, timeout: float) -> Check:
    """Scan the text files for at most ``timeout`` seconds.

    A token of a known form is of high severity, a random value with a telling name of medium; both are one
    step milder in tests and examples. Nothing is sent anywhere to be verified.
    """
    tree = sources.tree
    named = ((path, path.rsplit("/", 1)[-1]) for path in sources.files([ANY]))
    files = [path for path, name in named if name not in LOCKS and not name.lower().endswith(DATA)]
    if not files:
        return skipped_check("secret scan", "there are no files to scan")
    # -I, and a path instead of -m: nothing of the scanned repository can be imported
    scan = [sys.executable, "-I", secret_scan.__file__, str(tree.root)]
    result, report = await _run_tool(
        tree,
        lambda folder: [*scan, str(folder / "files"), str(folder / "report")],
        timeout,
        files="\0".join(files),
        readable=[tree.root, *(Path(str(each.__file__)).parent for each in (secret_scan, secret_forms))],
    )
    problem = ""
    if result.timed_out:
        problem = f"not every file was scanned within {timeout:g} s"
    elif result.exit_code:
        problem = f"the scan ended with exit code {result.exit_code}"
    version = f"detect-secrets {installed_version('detect-secrets')} and forms of our own"
    found = []
    for row in report.splitlines():
        path, line, kind, sureness, mask = msgspec.json.decode(row, type=tuple[str, int, str, int, str])
        severity: Severity = "high" if sureness == 2 else "medium"
        if is_test(path) or is_shown(path):
            # a test's own certificates need keys, but hardly ever a token for a real service
            severity = "low" if kind == secret_forms.PRIVATE_KEY else milder(severity)
        found.append(make_finding("secrets", kind, severity, path, line, f"{kind}: {mask}"))
    check = completed_check("secret scan", version, found, problem, files=len(files))
    return msgspec.structs.replace(
        check, looked=f"{count(len(files), 'file')} searched for secrets, not their history"
    )


# --- known vulnerabilities, where a host that knows them was granted ----------------------------------

NAME = "vulnerabilities"
OSV = "api.osv.dev"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A database of vulnerabilities: the entry of reach that opens it, and whose packages it knows."""

    name: str
    entry: str
    address: str
    ecosystems: tuple[str, ...]


SOURCES = (
    Source(
        name="osv",
        entry=f"host:{OSV}",
        address=f"https://{OSV}",
        ecosystems=("PyPI", "npm", "crates.io", "Go"),
    ),
    Source(name="npm", entry="javascript", address="https://registry.npmjs.org", ecosystems=("npm",)),
    Source(name="pypi", entry="python", address="https://pypi.org", ecosystems=("PyPI",)),
)
"""Whom to ask, in this order: the first that is granted and knows a package's ecosystem."""


def list_lacking(packages: Iterable[Locked], granted: Collection[str]) -> tuple[Source, ...]:
    """Who knows the most of ``packages`` and may not be asked: registries, and OSV for what has none here."""
    ecosystems = dict.fromkeys(package.ecosystem for package in packages)
    found = (next((s for s in reversed(SOURCES) if name in s.ecosystems), None) for name in ecosystems)
    return tuple(dict.fromkeys(source for source in found if source and source.entry not in granted))


async def look_up(
    sources: Sources, *, timeout: float, granted: Collection[str] = (), known: Sequence[Source] = SOURCES
) -> Check:
    """Ask for the vulnerabilities of every locked package, as far as ``granted`` reach allows."""
    packages = await asyncio.to_thread(read_locked, sources.project, sources.tree.files)
    findings: list[Finding] = []
    gaps: list[NotChecked] = []
    asked = 0
    told: list[str] = []
    for ecosystem in dict.fromkeys(package.ecosystem for package in packages):
        wanted = [package for package in packages if package.ecosystem == ecosystem]
        source = next((s for s in known if s.entry in granted and ecosystem in s.ecosystems), None)
        what = f"known vulnerabilities of {count(len(wanted), f'{ecosystem} package')}"
        if source is None:
            cure = f"Allow a host that does, as MAILROOM_REACH={OSV} or as reach in mailroom.toml"
            gaps.append(NotChecked(what=what, why="no host that knows them may be reached", cure=cure))
            continue
        try:
            rows = await _ask(source, source.name, wanted, timeout)
            findings += [_finding(wanted, row) for row in rows]
        except ActionError as error:
            gaps.append(NotChecked(what=what, why=clean(error.cause), cure=error.cure))
            continue
        asked += len(wanted)
        told.append(source.name)
    if not asked:
        return Check(tool=ToolRun(name=NAME, problem=gaps[0].why if gaps else ""), not_checked=tuple(gaps))
    files = len({package.file for package in packages})
    done = completed_check(NAME, f"as {format_list(list(dict.fromkeys(told)))} knows", findings, files=files)
    looked = f"{count(asked, 'locked package')} looked up"
    return msgspec.structs.replace(done, not_checked=tuple(gaps), looked=looked)


async def _ask(source: Source, what: str, packages: Sequence[Locked], timeout: float) -> list[bytes]:
    """The rows of what ``source`` says to the question ``what`` about the packages; raises ActionError."""
    from shared.gate.registries import open_reach

    registry = await asyncio.to_thread(open_reach, [source.entry])
    with tempfile.TemporaryDirectory(prefix="mailroom-") as name:
        folder = Path(name)
        body = {
            "source": what,
            "address": source.address,
            "packages": [[each.ecosystem, each.name, each.version] for each in packages],
        }
        (folder / "request").write_bytes(msgspec.json.encode(body))
        script = Path(vulnerability_scan.__file__)
        result = await run_command(
            [sys.executable, "-I", str(script), str(folder / "request"), str(folder / "report")],
            cwd=folder,
            timeout=timeout,
            writable=[folder],
            readable=[script.parent, *registry.readable],
            env=registry.environment,
            reach=registry.reach,
        )
        if result.timed_out or result.exit_code:
            said = result.output.strip().splitlines()[-1:] or [f"exit code {result.exit_code}"]
            why = f"{source.address} did not answer in {timeout:g} s" if result.timed_out else said[0]
            raise ActionError(clean(why, 200), "Check that this machine can reach it, and try again")
        return (folder / "report").read_bytes().splitlines()


def _finding(packages: Sequence[Locked], row: bytes) -> Finding:
    index, label, level, summary, fixes = msgspec.json.decode(row, type=tuple[int, str, str, str, list[str]])
    package = packages[index]
    fixed = f"; fixed in {format_list(list(dict.fromkeys(fixes)), 3)}" if fixes else ""
    head = f"{package.name} {package.version}: {clean(summary, 200) or label}{fixed}"
    severity = rate(NAME, label, level or "unknown", package.file)
    return make_finding(NAME, label, severity, package.file, package.line, head)


async def find_outdated(sources: Sources, *, timeout: float, granted: Collection[str] = ()) -> Outcome:
    """Which locked packages that the project itself names have a newer release, if ``granted`` allows."""
    packages = await asyncio.to_thread(read_locked, sources.project, sources.tree.files)
    named = {name.lower().replace("_", "-") for name in declared_packages(sources.project)}
    direct = [each for each in packages if not named or each.name.lower().replace("_", "-") in named]
    if not direct:
        said = "The project locks no versions of its dependencies: what is installed is the newest it allows"
        return Outcome(output=f"{said}.", outcome=ResultOutcome.DONE)
    behind: list[str] = []
    gaps: list[str] = []
    asked = 0
    for source in (each for each in SOURCES if each.name != "osv"):
        wanted = [each for each in direct if each.ecosystem in source.ecosystems]
        what = f"{count(len(wanted), f'{source.ecosystems[0]} package')}"
        if wanted and source.entry not in granted:
            gaps.append(f"{what}: {source.address} may not be asked (grant the reach {source.entry!r})")
            continue
        try:
            rows = await _ask(source, f"{source.name} newest", wanted, timeout) if wanted else []
        except ActionError as error:
            gaps.append(f"{what}: {error.cause}")
            continue
        asked += len(wanted)
        for row in rows:
            index, newest, *_ = msgspec.json.decode(row, type=tuple[int, str, str, str, list[str]])
            package = wanted[index]
            if _number(newest) > _number(package.version):
                place = f"{package.file}:{package.line}" if package.line else package.file
                behind.append(f"- {package.name} {package.version}, newest {newest} ({place})")
    compared = count(asked, "locked dependency", "locked dependencies")
    head = f"Of {compared}, {len(behind):,} {'has' if len(behind) == 1 else 'have'} a newer release"
    why = next(iter(gaps), "no registry of these packages can be asked")
    text = [f"{head}{':' if behind else '.'}", *behind] if asked else [f"Nothing was compared: {why}."]
    text += ["Not compared:", *(f"- {gap}" for gap in gaps)] if gaps[not asked :] else []
    return Outcome(
        output="\n".join(text),
        data={"outdated": behind, "not_checked": gaps},
        evidence_refs=tuple(dict.fromkeys(each.file for each in direct)),
        outcome=ResultOutcome.DONE if asked else ResultOutcome.NOT_CHECKED,
    )


def _number(version: str) -> tuple[int, ...]:
    """The numbers that a release begins with; a preliminary one is not compared further."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[-+a-zA-Z]", version)[0]))
