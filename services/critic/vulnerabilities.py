"""Known vulnerabilities of the packages that lock files name, where a host that knows them was granted."""

import asyncio
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from services.critic import vulnerability_scan
from services.critic.file_tools import Sources
from services.critic.findings import Check, clean, completed_check, make_finding, rate
from shared.contracts.checkup import Finding, NotChecked, ToolRun
from shared.errors import ActionError
from shared.projects.reading.locks import Locked, read_locked
from shared.sandbox import run_command
from shared.text.display import count, format_list

# --- what is known of them --------------------------------------------------------------------------

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
            findings += await _ask(source, wanted, timeout)
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


async def _ask(source: Source, packages: Sequence[Locked], timeout: float) -> list[Finding]:
    from shared.gate.registries import open_reach

    registry = await asyncio.to_thread(open_reach, [source.entry])
    with tempfile.TemporaryDirectory(prefix="mailroom-") as name:
        folder = Path(name)
        body = {
            "source": source.name,
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
        rows = (folder / "report").read_bytes().splitlines()
    return [_finding(packages, row) for row in rows]


def _finding(packages: Sequence[Locked], row: bytes) -> Finding:
    index, label, level, summary, fixes = msgspec.json.decode(row, type=tuple[int, str, str, str, list[str]])
    package = packages[index]
    fixed = f"; fixed in {format_list(list(dict.fromkeys(fixes)), 3)}" if fixes else ""
    head = f"{package.name} {package.version}: {clean(summary, 200) or label}{fixed}"
    severity = rate(NAME, label, level or "unknown", package.file)
    return make_finding(NAME, label, severity, package.file, package.line, head)
