"""``mailroom up`` with processes that start slowly, block, or are stopped, and with a disk that fills up."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from shared import settings
from shared.access.credentials import find_address
from shared.access.scopes import Scope
from shared.tasks.installed_agents import load_agents
from tests.support.access import Tokens
from tests.support.server import environment, mailroom_command, run_mailroom
from tests.support.up import CONDUCTOR_ALONE, UpCommand, processes_of
from tests.support.waiting import wait_for

BUILT_IN = {member.name for member in load_agents(settings.load({"HOME": "/nonexistent"}))}
LIMIT = 20.0
SOON = 6.0
"""Seconds in which a command answers on a machine that runs other tests; a quiet one takes less than 3."""
BLOCKER = '''"""An agent for tests: blocks its event loop at the first attempt."""
import time
from shared.agent.base import Agent
from shared.agent.process import run
from shared.tasks.actions import register_action


class Blocker(Agent):
    """Blocks."""

    @register_action("Block", {})
    async def block(self) -> str:
        """The number of the attempt."""
        attempt = self.context.current_task.attempt
        if attempt == 1:
            time.sleep(600)
        return f"attempt {attempt}"


if __name__ == "__main__":
    run(Blocker, __file__)
'''
LATE = BLOCKER.replace("import time\n", "import time\ntime.sleep(36)\n")


def write_agent(folder: Path, code: str) -> None:
    folder.mkdir(parents=True)
    (folder / "profile.yaml").write_text(f"name: {folder.name}\ndescription: For tests.\n")
    (folder / "__main__.py").write_text(code)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpCommand]:
    folder = tmp_path_factory.mktemp("office")
    write_agent(folder / "agents" / "blocker", BLOCKER)
    write_agent(folder / "agents" / "late", LATE)
    own = {"MAILROOM_AGENTS_DIR": str(folder / "agents"), "MAILROOM_UNRESPONSIVE_LIMIT": str(LIMIT)}
    office = UpCommand(folder / "state", **own)
    try:
        yield office
    finally:
        office.close()
        for process in processes_of(folder / "state"):
            with contextlib.suppress(psutil.Error):
                psutil.Process(process).kill()


def mailroom(office: UpCommand, *arguments: str) -> "subprocess.CompletedProcess[str]":
    own = {"MAILROOM_AGENTS_DIR": str(office.state_dir.parent / "agents")}
    return run_mailroom(environment(office.state_dir, **own), *arguments)


def troubled(office: UpCommand) -> dict[str, dict[str, Any]]:
    status = json.loads(mailroom(office, "status", "--json").stdout)
    return {each["agent"]: each for each in status["troubled"]}


def check_agents(office: UpCommand) -> dict[str, Any]:
    checks = json.loads(mailroom(office, "doctor", "--json").stdout)
    return next(check for check in checks if check["name"] == "agents")


def test_the_office_opens_without_what_is_slow_to_start(office: UpCommand) -> None:
    wait_for(lambda: troubled(office).get("late", {}).get("state") == "starting")
    office.record()
    assert office.said("late", "is still starting: the office opens without it")
    assert set(office.signs_of_life()) == {*BUILT_IN, "blocker"}
    assert re.search(
        r"^late \(process \d+\) is starting for ", mailroom(office, "status").stdout, re.MULTILINE
    )
    assert check_agents(office)["verdict"] == "warn"
    wait_for(lambda: office.said("late", "ready after"))
    assert not troubled(office)


def test_a_blocked_process_is_named_ended_and_its_task_taken_over_once(office: UpCommand) -> None:
    office.record()
    first = office.signs_of_life()["blocker"]
    own = ("-c", "assignee=blocker", "-c", "action=block")
    submitted = subprocess.Popen(
        mailroom_command("submit", "Block", *own, "--wait", "--json"),
        env=environment(office.state_dir),
        stdout=subprocess.PIPE,
        text=True,
    )
    named = wait_for(lambda: troubled(office).get("blocker"))
    assert (named["pid"], named["state"]) == (first, "unresponsive")
    with ThreadPoolExecutor() as pool:
        status, check = pool.submit(mailroom, office, "status"), pool.submit(check_agents, office)
        assert shown(office, "blocker")["state"] == "not responding"
    assert f"blocker (process {first}) does not respond for " in status.result().stdout
    assert check.result()["verdict"] == "fail"
    assert f"blocker (process {first}) does not respond for " in check.result()["finding"]
    assert office.said("blocker", "does not respond for 1")
    answer, _ = submitted.communicate(timeout=90)
    assert "attempt 2" in answer
    assert office.said("blocker", "ended with exit code 1: event loop blocked seconds=")
    log = (office.state_dir / "logs" / "blocker.log").read_text()
    assert re.search(r"__main__\.py\", line \d+ in block$", log, re.MULTILINE)
    wait_for(lambda: shown(office, "blocker")["state"] == "running")
    wait_for(lambda: office.signs_of_life()["blocker"] != first)


def shown(office: UpCommand, name: str) -> dict[str, Any]:
    """The agent as the dashboard shows it."""
    config = settings.load(environment(office.state_dir))
    token = Tokens(config).add(f"test-{time.monotonic_ns()}", Scope.READ)
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx2.get(f"{find_address(config)}/api/v1/agents", headers=headers, timeout=20)
    return next(each for each in answer.json()["agents"] if each["name"] == name)


def test_stopped_processes_are_named_and_replaced(office: UpCommand) -> None:
    office.record()
    before = {name: office.signs_of_life()[name] for name in ("scout", "gateway")}
    server = office.process("nats-server")
    for process in (*before.values(), server):
        os.kill(process, signal.SIGSTOP)
    status = mailroom(office, "status")
    assert status.returncode == 1
    assert "The server does not answer within" in status.stderr
    assert f"nats (process {server}) is stopped by a signal" in status.stdout
    check = check_agents(office)
    assert f"scout (process {before['scout']}) is stopped by a signal for " in check["finding"]
    assert "kill -CONT " in check["fix"]
    wait_for(lambda: office.said("nats", "did not respond for"))
    wait_for(lambda: all(office.said(name, "did not respond for") for name in before))
    wait_for(lambda: office.signs_of_life().keys() >= before.keys())
    assert not before.items() & office.signs_of_life().items()
    wait_for(lambda: mailroom(office, "status").returncode == 0)


def test_all_processes_stopped_and_resumed_together_go_on(office: UpCommand) -> None:
    """As a machine does that slept: longer than the limit, and nothing is started again."""
    office.record()
    wait_for(lambda: not troubled(office))
    before, server = office.signs_of_life(), office.process("nats-server")
    processes = (office.up.pid, *processes_of(office.state_dir))
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    time.sleep(LIMIT + 10)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
    time.sleep(5)
    assert (office.signs_of_life(), office.process("nats-server")) == (before, server)


def test_a_disk_that_fills_up_is_the_first_thing_said(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(disk)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here: that takes root on Linux")
    office = UpCommand(disk / "state", MAILROOM_NATS_MAX_STORE=str(80 << 20), **CONDUCTOR_ALONE)
    try:
        office.record()
        fill(disk / "fill")
        mailroom(office, "submit", "Say hello")
        wait_for(lambda: office.said("nats", "no space left on device"))
        fill(disk / "more")
        begun = time.monotonic()
        status = mailroom(office, "status")
        assert time.monotonic() - begun < SOON
        assert status.stdout.startswith("the disk is full, so nothing can be stored: ")
        first = json.loads(mailroom(office, "status", "--json").stdout)["problems"][0]
        assert first.startswith("the disk is full")
        begun = time.monotonic()
        doctor = mailroom(office, "doctor")
        assert time.monotonic() - begun < SOON
        assert doctor.stdout.startswith("fail disk       the disk is full")
        assert doctor.returncode == 1
        assert json.loads(mailroom(office, "doctor", "--json").stdout)[0]["name"] == "disk"
        assert office.up.poll() is None
    finally:
        for path in ("fill", "more"):
            (disk / path).unlink(missing_ok=True)
        office.close()
        subprocess.run(["umount", str(disk)], check=True)


def fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
