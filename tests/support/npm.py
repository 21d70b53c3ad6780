"""Packages of npm that only tests use, installed once into the cache; nothing of them is committed."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mailroom" / "npm"


def require_package(name: str, version: str) -> Path:
    """The folder whose node_modules has it; skips the test where node or the package cannot be had."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    folder = CACHE / f"{name.replace('/', '+')}-{version}"
    if not (folder / "node_modules" / name).is_dir():
        try:
            _install(npm, f"{name}@{version}", folder)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"{name} {version} cannot be had from npm's registry: {error}")
    return folder


def _install(npm: str, package: str, folder: Path) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as made:
        options = ["--prefix", made, "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"]
        subprocess.run([npm, "install", *options, package], check=True, capture_output=True, timeout=90)
        if not folder.exists():
            Path(made, "node_modules").replace(_made(folder) / "node_modules")


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
