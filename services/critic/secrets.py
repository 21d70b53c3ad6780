"""Secrets in files, by their form or by what they are called; what is found is never shown."""

import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec

from services.critic import secret_scan
from services.critic.findings import Check, conclude, find, installed, milder, skip
from shared.contracts.checkup import Finding, Severity
from shared.sandbox import run_command
from shared.source.places import is_shown, is_test, is_vendored
from shared.source.tree import Tree

LOCKS = frozenset(
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml poetry.lock Pipfile.lock uv.lock"
    " Cargo.lock Gemfile.lock composer.lock go.sum flake.lock requirements.lock requirements-dev.lock".split()
)
"""Files full of checksums, which look like secrets."""

DATA = (".svg", ".ipynb", ".map", ".csv", ".tsv", ".lock", ".sum", ".css", ".po", ".pot", ".woff", ".pdf")
"""Kinds of files that hold long random strings of other sorts."""


async def scan_secrets(tree: Tree, *, timeout: float) -> Check:
    """Scan the text files of ``tree`` for at most ``timeout`` seconds.

    A token of a known form is of high severity, a random value with a telling name of medium; both are one
    step milder in tests and examples. Nothing is sent anywhere to be verified.
    """
    files = [path for path in tree.files if _is_scanned(path)]
    if not files:
        return skip("secret scan", "there are no files to scan")
    with tempfile.TemporaryDirectory(prefix="mailroom-") as folder:
        listing, output = Path(folder, "files"), Path(folder, "found.jsonl")
        await asyncio.to_thread(listing.write_text, "\0".join(files), "utf-8")
        # -I, and a path instead of -m: nothing of the scanned repository can be imported
        script = [sys.executable, "-I", secret_scan.__file__, str(tree.root), str(listing), str(output)]
        result = await run_command(
            script,
            cwd=Path(folder),
            timeout=timeout,
            writable=[Path(folder)],
            readable=[tree.root, Path(secret_scan.__file__).parent],
        )
        rows = output.read_bytes().splitlines() if output.exists() else []
    problem = ""
    if result.timed_out:
        problem = f"not every file was scanned within {timeout:g} s"
    elif result.exit_code:
        problem = f"the scan ended with exit code {result.exit_code}"
    version = f"detect-secrets {installed('detect-secrets')} and forms of our own"
    return conclude("secret scan", version, [_finding(row) for row in rows], problem)


def _is_scanned(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name not in LOCKS and not name.lower().endswith(DATA) and not is_vendored(path)


def _finding(row: bytes) -> Finding:
    path, line, kind, sureness, mask = msgspec.json.decode(row, type=tuple[str, int, str, int, str])
    severity: Severity = "high" if sureness == 2 else "medium"
    if is_test(path) or is_shown(path):
        # a test's own certificates need keys, but hardly ever a token of somebody's service
        severity = "low" if kind == secret_scan.PRIVATE_KEY else milder(severity)
    return find("secrets", kind, severity, path, line, f"{kind}: {mask}")
