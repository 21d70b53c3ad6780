"""A person's repository on a laptop and agents elsewhere: it is sent, worked on there, and patched here."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.cli.api import Login, keep_login
from shared.access.credentials import Tokens, find_address
from shared.access.scopes import Scope
from tests.flow.test_cli_gateway import Elsewhere
from tests.support.forking import ROOT
from tests.support.office import Office
from tests.support.server import mailroom_command

AGENTS = ("conductor", "engineer", "critic", "nexus", "scout")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def make_project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "test_calc.py").write_text("from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n")
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / ".gitignore").write_text("ignored/\n")
    git(folder, "init", "--quiet", "--initial-branch=trunk")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=First")
    git(folder, "tag", "v1")
    return folder


def run_in(folder: Path, laptop: Elsewhere, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        mailroom_command(*arguments),
        cwd=folder,
        env={**laptop.variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.fixture
async def office(tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path / "office")
    try:
        await office.open(AGENTS)
        office.server.start_gateway()
        yield office
    finally:
        await office.server.close()


async def test_a_laptop_sends_its_repository(office: Office, tmp_path: Path) -> None:
    laptop = Elsewhere(tmp_path / "laptop")
    token = Tokens(office.config).add("ada", Scope.SUBMIT)
    keep_login(laptop.config, Login(url=find_address(office.config), token=token))
    project = make_project(tmp_path / "proj")
    (project / "calc.py").write_text("def add(a, b):\n    return a + b\n")  # not committed
    (project / "ignored").mkdir()
    (project / "ignored" / "large").write_text("x" * 1000)
    (project / ".env").write_text("PASSWORD=none\n")
    done = run_in(project, laptop, "submit", "Run the tests of .", "--wait", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout, done.stderr)
    assert 0
