"""Runs the steps of a preparation in the jail, keeps a record of them, and says why one failed."""

import asyncio
import contextlib
import re
import shlex
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from shared.contracts import CommandRecord, Connection
from shared.errors import ActionError
from shared.gate.registries import PUBLIC, Registry, registry_reach
from shared.projects.environments import Request, format_path
from shared.projects.reading.project_files import ProjectFiles, list_registries
from shared.projects.toolchains import PROGRAMS, format_package
from shared.sandbox import CommandResult, Limits, Reach, run_command

OUTPUT_LIMIT = 2_000_000
PROGRESS = 3.0  # Seconds between two notes of what a step is doing
FILE_BYTES = 4 << 30  # The most bytes of one file: some wheels have more than 1 GiB


class StepFailedError(ActionError):
    """A step failed; ``output`` is what it printed."""

    def __init__(self, cause: str, cure: str, output: str) -> None:
        super().__init__(cause, cure)
        self.output = output


class Steps:
    """The steps of one preparation; ``records`` and ``connections`` grow with them."""

    def __init__(self, request: Request, ecosystem: str) -> None:
        self.request = request
        registry = Registry(reach=Reach())
        if ecosystem in PUBLIC:
            registry = registry_reach(ecosystem, list_registries(ProjectFiles(request.place)))
        self.registry = msgspec.structs.replace(registry, reach=registry.reach.join(request.reach))
        self.records: list[CommandRecord] = []
        self.connections: list[Connection] = []
        self.notes: list[str] = []

    @property
    def refused(self) -> tuple[str, ...]:
        """The hosts that were asked for and not reached."""
        return list_refused(self.connections)

    async def run(
        self,
        argv: Sequence[str],
        *,
        writable: Sequence[Path] = (),
        readable: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        online: bool = True,
        doing: str = "",
    ) -> CommandResult:
        """Run one step in the project's folder, ``online`` with the registries of its ecosystem.

        Raises StepFailedError with the cause and the cure if it fails.
        """
        line = shlex.join([Path(argv[0]).name, *argv[1:]])
        await self.request.note(doing or f"runs {line}")
        own = self.registry.environment if online else {}
        step_log = self.request.log.with_name(f"{self.request.log.name}.step")
        started = time.monotonic()
        async with self._following(step_log, doing or line):
            result = await run_command(
                argv,
                cwd=cwd or self.request.place,
                timeout=self.request.remaining(),
                writable=writable,
                readable=(*readable, *(self.registry.readable if online else ())),
                env={"PATH": format_path(), "CI": "true", "NO_COLOR": "1", **own, **(env or {})},
                output_limit=OUTPUT_LIMIT,
                log_path=step_log,
                limits=Limits(file_bytes=FILE_BYTES),
                reach=self.registry.reach if online else None,
            )
        seconds = round(time.monotonic() - started, 3)
        self.records.append(CommandRecord(command=line, exit_code=result.exit_code, seconds=seconds))
        self.connections += result.connections
        await asyncio.to_thread(self._append, line, step_log, result)
        if result.exit_code or result.timed_out or result.problem:
            cause, cure = explain(line, result, self.registry.named)
            raise StepFailedError(cause, cure, result.output)
        return result

    async def ask(self, argv: Sequence[str], readable: Sequence[Path] = ()) -> str:
        """What a program says of its version; that is no step of its own, and leaves no record."""
        doing = f"asks {Path(argv[0]).name} for its version"
        result = await self.run(argv, readable=readable, online=False, doing=doing)
        self.records.pop()
        return result.output.strip()

    @contextlib.asynccontextmanager
    async def _following(self, log: Path, doing: str) -> AsyncIterator[None]:
        """Note meanwhile what a step printed last, if that is new."""

        async def follow() -> None:
            last = ""
            while True:
                await asyncio.sleep(PROGRESS)
                line = _read_last_line(log)
                if line and line != last:
                    last = line
                    await self.request.note(f"{doing}: {line}")

        follower = asyncio.ensure_future(follow())
        try:
            yield
        finally:
            follower.cancel()
            await asyncio.wait({follower})

    def _append(self, line: str, step_log: Path, result: CommandResult) -> None:
        self.request.log.parent.mkdir(parents=True, exist_ok=True)
        with self.request.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {line}\n{result.output}\n[exit code {result.exit_code}, {result.seconds:.1f} s]\n")
            for each in result.connections:
                verdict = "allowed" if each.allowed else f"refused: {each.why}"
                log.write(f"[{each.host}:{each.port} {verdict}, {each.received:,} bytes]\n")
            log.write("\n")
        step_log.unlink(missing_ok=True)


def _read_last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 2_000))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    lines = [line.strip() for line in re.split(r"[\r\n]", plain) if re.search(r"\w", line)]
    return lines[-1][:160] if lines else ""


# --- why a step failed ------------------------------------------------------------------------------

MISSING = (
    r"(?m)^(?:(?:sh|/bin/sh|bash|env)?:? ?(?:\d+: |line \d+: )?|[\w./-]+: line \d+: )"
    r"‘?'?([\w.+-]+)'?’?: (?:command )?not found",
    r"(?m)error: (?:command|linker) ['`\"]([\w.+/-]+)['`\"] (?:failed: )?(?:not found|No such file)",
    r"\[Errno 2\] No such file or directory: '([\w.+-]+)'",
    r"(pg_config|mysql_config|pkg-config|llvm-config|cargo|rustc|cmake|ninja|swig|gfortran)"
    r"(?: executable)?(?: is)? (?:not found|not installed|required)",
    r"(?:Could not find|Unable to find|can't find) (?:a )?(?:program |compiler )?['`\"]?"
    r"(cmake|cargo|gcc|g\+\+|make)",
)
"""Messages that a program is missing; the first group is its name."""
NETWORK_FAILED = re.compile(
    r"(?i)\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|tunneling socket|CONNECT tunnel failed"
    r"|Could not resolve|dns error|Temporary failure in name resolution|Failed to fetch"
    r"|spurious network error|client error \(Connect\)|failed to download|no such host"
    r"|Proxy CONNECT|403 Forbidden)\b"
)
NOISE = re.compile(
    r"(?i)^(npm (warn|notice)|warning|note|hint|info|debug|a complete log|see also|for more information"
    r"|\[?notice|npm error (a complete log|code|errno|path|syscall|command|\s*/)|resolved \d"
    r"|downloading|building|try ['\"`‘].*|usage:|options:|run .* --help"
    r"|×|╰|├|\^|~)"
)
CURES = {
    "rust": "run `cargo vendor` in the project, or name a mirror in ~/.cargo/config.toml",
    "go": "run `go mod vendor` in the project, or name a mirror in GOPROXY",
    "java": "name a mirror in ~/.m2/settings.xml",
    "python": "name an index that is, in pip.conf or uv.toml",
    "javascript": "name a registry that is, in ~/.npmrc",
}


def list_refused(connections: Iterable[Connection]) -> tuple[str, ...]:
    """The hosts that were asked for and sent nothing back."""
    answered = {each.host for each in connections if each.allowed and each.received}
    # The gate reports a bounded number of connections, and the rest as one without a port.
    return tuple(dict.fromkeys(each.host for each in connections if each.port and each.host not in answered))


def explain(line: str, result: CommandResult, named: Iterable[str] = ()) -> tuple[str, str]:
    """The cause and the cure of a step that failed.

    ``line`` is the step, ``named`` the hosts that the project's own files name.
    """
    shown = line if len(line) <= 80 else f"{line[:79]}…"
    output = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", result.output)
    refused = list_refused(result.connections)
    denied = [each for each in result.connections if each.why and each.host in refused]
    failed = result.timed_out or NETWORK_FAILED.search(output)
    if denied and (failed or any(each.host in output for each in denied)):
        return _explain_network(shown, denied, tuple(named))
    if result.timed_out:
        cure = "Give it more time (test_timeout and command_timeout in mailroom.toml)"
        return f"{shown} did not end in {result.seconds:.0f} s", cure
    missing = (match[1] for pattern in MISSING if (match := re.search(pattern, output)))
    if program := next(missing, "").rpartition("/")[2]:
        return f"{shown} failed: it needs {program}, which is not installed", format_package(program)
    if match := re.search(r"fatal error: ['\"]?([\w./+-]+\.h(?:pp)?)['\"]?(?::| file)", output):
        package = next((name for start, name in PROGRAMS.headers.items() if match[1].startswith(start)), "")
        cure = (
            f"Install {package} (apt install {package})"
            if package
            else "Install the library that it belongs to"
        )
        return f"{shown} failed: the C header {match[1]} is missing", cure
    reason = "; ".join(_find_reason(output)) or result.problem or f"exit code {result.exit_code}"
    return f"{shown} failed: {reason}", "The log has all of what it printed"


def _explain_network(shown: str, denied: list[Connection], named: tuple[str, ...]) -> tuple[str, str]:
    hosts = tuple(dict.fromkeys(each.host for each in denied))
    whys = "; ".join(dict.fromkeys(f"{each.host}: {each.why}" for each in denied))
    cause = f"{shown} failed: {', '.join(hosts)} could not be reached ({whys})"
    strange = [each.host for each in denied if not each.allowed and "not among the hosts" in each.why]
    if not strange:
        return cause, ""
    setting = f'reach = ["{strange[0]}"] in mailroom.toml'
    if any(name.split(":")[0] == strange[0] for name in named):
        return cause, f"The project's own files name this host; allow it if you trust it: {setting}"
    return cause, f"If what is installed needs this host and you trust it, allow it: {setting}"


def _find_reason(output: str) -> Iterator[str]:
    """The lines that say what was wrong, as one or two clauses."""
    if match := re.search(r"(?s)╰─▶ (.+?)(?:\n\s*\n|\n\s*hint:|\Z)", output):
        yield _shorten(" ".join(match[1].split()))
        return
    if causes := re.findall(r"(?m)^\s*cause: (.+)$", output):
        yield _shorten(causes[-1])
        inner = r"(?m)^\s+(?:\S+: )?(fatal error: .+|[\w.]+(?:Error|Exception|Exit): .+)$"
        if raised := re.findall(inner, output):
            yield _shorten(raised[-1])
        return
    rows = (row.strip() for row in output.splitlines() if row.strip())
    lines = [re.sub(r"^➤ YN\d+: (?:[│└┌·] )?", "", row) for row in rows]
    form = re.compile(r"(?i)(npm err(or|!)|error|fatal|ERR_|\S*Error\b|.*\berror:)")
    marked = list(filter(form.match, lines))
    telling = [line for line in lines if not NOISE.match(line)]
    useful = [line for line in marked if not NOISE.match(line)] or telling
    for line in useful[:1] if marked else useful[-1:]:
        yield _shorten(re.sub(r"(?i)^(npm err(or|!)|error:)\s*", "", line))


def _shorten(text: str) -> str:
    text = text.rstrip(". ")
    return text if len(text) <= 300 else f"{text[:299]}…"
