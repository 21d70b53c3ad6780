"""Workspaces travel: an engineer's host vanishes mid-task, and another goes on with its workspace."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from services.cli.api import Login, keep_login
from services.cli.supervisor.programs import agent_programs
from shared import settings, subjects
from shared.access.credentials import find_address
from shared.access.scopes import Scope
from shared.bus.records import read_record, submission_entry
from shared.contracts import ParcelsStored, Task, TaskStatus
from shared.tasks.installed_agents import load_agents
from tests.flow.test_cli_gateway import Elsewhere
from tests.flow.test_sent_folder import make_project, run_in
from tests.support.access import Tokens
from tests.support.forking import start_program
from tests.support.hosts import Hosts
from tests.support.waiting import eventually

SOON = 10.0  # Seconds within which a task of a host that vanished has to be worked on elsewhere
EDIT = "sed -i 's/- /+ /' proj/calc.sh"


def script(path: Path, delay: float) -> str:
    """A model that edits, waits, tests by a command, and finishes."""
    steps = [
        {"call": {"name": "run_shell", "arguments": {"command": EDIT}}},
        {"call": {"name": "run_shell", "arguments": {"command": "cat proj/calc.sh"}}, "delay": delay},
        {"call": {"name": "finish_task", "arguments": {"result": "It adds."}}},
    ]
    path.write_text(yaml.safe_dump([{"agent": "engineer", "replies": steps}, {"replies": [{"text": "No."}]}]))
    return f"scripted:{path}"


class Engineers(Hosts):
    """An office whose engineers work on other hosts."""

    async def start_engineer(self, host: str, brain: str) -> str:
        variables = self.environment(host) | {"MAILROOM_BRAIN": brain}
        config = settings.load(variables)
        agent = next(each for each in load_agents(config) if each.name == "engineer")
        (program,) = agent_programs(config, agent, self.office.server.url)
        config.logs.mkdir(parents=True, exist_ok=True)
        env = {**variables, **{k: v for k, v in program.env.items() if k.startswith("MAILROOM_")}}
        env["NATS_URL"] = self.office.server.url
        name = f"engineer@{host}"
        self.office.processes[name] = start_program(program.command, env, program.log)

        def alive() -> bool:
            assert self.office.processes[name].poll() is None, program.log.read_text()[-2000:]
            return any((config.state_dir / "run").glob("engineer-*.alive"))

        await eventually(alive, 40)
        return name

    def state(self, host: str) -> Path:
        return Path(self.environment(host)["MAILROOM_STATE_DIR"])


@pytest.fixture
async def hosts(tmp_path: Path) -> AsyncIterator[Engineers]:
    running = Engineers(tmp_path)
    try:
        await running.open()
        running.office.start("critic")
        await running.office.ready("critic")
        running.office.server.start_gateway()
        for name in ("north", "south"):
            assert isinstance(await running.join(name, "engineer"), dict)
        yield running
    finally:
        await running.close()


async def test_a_task_goes_on_elsewhere_with_its_workspace(hosts: Engineers, tmp_path: Path) -> None:
    office = hosts.office
    laptop = Elsewhere(tmp_path / "laptop")
    token = Tokens(office.config).add("ada", Scope.SUBMIT)
    keep_login(laptop.config, Login(url=find_address(office.config), token=token))
    project = make_project(tmp_path / "proj")
    (project / "calc.sh").write_text("# adds\necho $(($1 - $2))\n")
    north = await hosts.start_engineer("north", script(tmp_path / "slow.yaml", 90.0))
    done = await run_in(
        project, laptop, "submit", "Make calc.sh of . add", "-c", "assignee=engineer", "--json"
    )
    assert done.returncode == 0, done.stderr
    goal_id = json.loads(done.stdout)["goal_id"]

    record = subjects.record("engineer", subjects.PARCELS, goal_id)

    async def is_stored() -> bool:
        known = await read_record(office.user, record, ParcelsStored)
        return known is not None and "+" in _workspace_file(hosts, "north", goal_id)

    await eventually(is_stored, 40)
    await asyncio.sleep(1)  # the edit is stored, and the model of this host thinks
    await hosts.start_engineer("south", script(tmp_path / "quick.yaml", 0.0))
    office.kill(north)
    begun = time.monotonic()
    await eventually(lambda: _workspace_file(hosts, "south", goal_id), 40)
    assert "+" in _workspace_file(hosts, "south", goal_id), "what was done before is there"
    took = time.monotonic() - begun
    goal = await office.finished(goal_id, 60)
    assert goal.status is TaskStatus.COMPLETED, goal
    assert took < SOON
    made, *_ = await office.results("engineer")
    assert (subjects.host_of(made.worker), made.attempt) == ("south", 2)
    assert (office.config.outputs / goal_id / "changes" / made.task_id / "proj.patch").is_file()
    done = await run_in(project, laptop, "apply", goal_id, "--yes", "--json")
    (applied,) = json.loads(done.stdout)["patches"]
    assert (applied["done"], applied["folder"]) == ("applied", str(project)), applied
    assert "+ $2" in (project / "calc.sh").read_text()


async def test_a_command_that_was_lost_with_its_host_is_run_again(hosts: Engineers, tmp_path: Path) -> None:
    office = hosts.office
    command = "echo did >> notes; case $PWD in */north/*) sleep 90;; esac"
    calls = [
        {"name": "run_shell", "arguments": {"command": each}} for each in ("echo begun > notes", command)
    ]
    steps = [
        *({"call": each} for each in calls),
        {"call": {"name": "finish_task", "arguments": {"result": "."}}},
    ]
    path = tmp_path / "commands.yaml"
    path.write_text(yaml.safe_dump([{"agent": "engineer", "replies": steps}, {"replies": [{"text": "No."}]}]))
    north = await hosts.start_engineer("north", f"scripted:{path}")
    task = Task(task_id="lost", text="Note it", assignee="engineer", requester="user", goal_id="g-lost")
    await office.user.commit([submission_entry(task)])

    def notes(host: str) -> str:
        file = hosts.state(host) / "workspaces" / "g-lost" / "lost" / "notes"
        return file.read_text() if file.exists() else ""

    await eventually(lambda: "did" in notes("north"), 40)
    await hosts.start_engineer("south", f"scripted:{path}")
    office.kill(north)

    async def has_ended() -> bool:
        return any(each.task_id == "lost" for each in await office.results("engineer"))

    await eventually(has_ended, 60)
    (result,) = [each for each in await office.results("engineer") if each.task_id == "lost"]
    assert (result.status, subjects.host_of(result.worker)) == (TaskStatus.COMPLETED, "south"), result
    assert "not repeated" not in result.output, result.output
    assert notes("south") == "begun\ndid\n"


def _workspace_file(hosts: Engineers, host: str, goal_id: str) -> str:
    found = [*(hosts.state(host) / "workspaces" / goal_id).glob("*/proj/calc.sh")]
    return found[0].read_text() if found else ""
