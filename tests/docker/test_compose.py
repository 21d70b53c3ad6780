"""The office in containers, brought up for real where an engine runs: `make test-docker`."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testcontainers.compose import DockerCompose

from services.cli.agents import load_agents
from services.cli.supervisor.programs import free_port
from shared import settings, subjects
from shared.bus import Bus
from shared.contracts import StateChanged, TaskStatus, generate_task_id

ROOT = Path(__file__).resolve().parents[2]
AGENTS = sorted(member.name for member in load_agents(settings.load({"HOME": "/nonexistent"})))
PATIENCE = 120.0


def missing() -> str:
    """Why there can be no containers here; empty where there can."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    for command, what in (
        (["docker", "info"], "no engine answers"),
        (["docker", "compose", "version"], "no compose"),
    ):
        if subprocess.run(command, capture_output=True).returncode:
            return f"{what}: `{' '.join(command)}` fails"
    return ""


reason = missing()
pytestmark = [pytest.mark.skipif(bool(reason), reason=reason), pytest.mark.timeout(1800)]


class Containers:
    """The stack under a name of its own, so that no other office is touched."""

    def __init__(self, compose: DockerCompose, url: str, key: Path) -> None:
        self.compose = compose
        self.url = url
        self.key = key

    def run(self, *arguments: str) -> str:
        """What a `docker compose` command prints; fails the test with its errors where it fails."""
        command = [*self.compose.docker_compose_command(), *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def mailroom(self, *arguments: str) -> str:
        return self.run("run", "--rm", "--no-TTY", "cli", *arguments)

    def inside(self, service: str, script: str) -> str:
        return self.run("exec", "--no-TTY", service, "sh", "-c", script).strip()


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    folder = tmp_path_factory.mktemp("compose")
    make_repository(folder / "repos" / "tiny")
    port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPOSE_PROJECT_NAME", f"mailroom-test-{os.getpid()}")
        patch.setenv("MAILROOM_IMAGE", "mailroom-test")
        patch.setenv("MAILROOM_NATS_PORT", str(port))
        patch.setenv("MAILROOM_REPOS", str(folder / "repos"))
        with DockerCompose(ROOT, build=True, wait=True) as compose:
            running = Containers(compose, f"nats://127.0.0.1:{port}", folder / "user.nk")
            running.key.write_text(
                running.run("run", "--rm", "--no-TTY", "--entrypoint", "cat", "cli", "/keys/user.nk")
            )
            yield running


def make_repository(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# Tiny\n\nTiny adds numbers.\n")
    (folder / "tiny.py").write_text("import os\n\n\ndef add(a, b):\n    return a + b\n")
    (folder / "test_tiny.py").write_text(
        "from tiny import add\n\n\ndef test_add():\n    assert add(1, 2) == 4\n"
    )
    git = ["git", "-C", str(folder), "-c", "user.name=Tiny", "-c", "user.email=tiny@example.org"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Add tiny"]):
        subprocess.run([*git, *arguments], check=True)
    # The containers' user is none of this machine's.
    for path in (folder.parents[1], folder.parent, folder):
        path.chmod(0o755)


async def test_a_goal_from_a_plain_client_ends_with_a_report(office: Containers) -> None:
    goal_id = generate_task_id("goal")
    body = {"text": "Check up on the repository at /repos/tiny", "goal_id": goal_id}
    bus = await Bus.connect(subjects.USER, office.url, office.key)
    try:
        await bus.store(subjects.SUBMIT, json.dumps(body).encode())
        goal = None
        deadline = time.monotonic() + PATIENCE
        while (goal is None or not goal.status.final) and time.monotonic() < deadline:
            stored = await bus.last(subjects.OFFICE, subjects.goal(goal_id))
            goal = StateChanged.from_json(stored.data).goal if stored else None
    finally:
        await bus.close()
    assert goal is not None
    assert goal.status is TaskStatus.COMPLETED
    report = office.inside("conductor", f"cat {goal.report_path}")
    assert "test_add" in report
    assert "tiny.py:1" in report
    assert "os" in office.mailroom("ask", "What did the check-up find?")


def test_every_agent_shows_itself_and_is_healthy(office: Containers) -> None:
    assert sorted(presences(office)) == AGENTS
    states = [json.loads(line) for line in office.run("ps", "--format", "json").splitlines()]
    assert sorted(state["Service"] for state in states if state["Health"] == "healthy") == sorted(
        [*AGENTS, "nats"]
    )


def test_replicas_share_the_work(office: Containers) -> None:
    office.run("up", "--detach", "--wait", "--no-recreate", "--scale", "engineer=3")
    assert presences(office).count("engineer") == 3
    ended = [
        json.loads(office.mailroom("submit", "--wait", "--json", "Check up on the repository at /repos/tiny"))
        for _ in range(2)
    ]
    assert [goal["status"] for goal in ended] == ["completed", "completed"]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_holds_its_own_key_and_no_rights(office: Containers, agent: str) -> None:
    assert office.inside(agent, "ls /keys") == f"{agent}.nk"
    assert office.inside(agent, "ls -A /deal/* | grep -c nk || true") == "0"
    assert office.inside(agent, "id -u") == "10001"
    assert office.inside(agent, "touch /anything 2>&1 || true").endswith("Read-only file system")
    assert office.inside(agent, "grep -E 'CapEff|NoNewPrivs' /proc/1/status").split() == [
        "CapEff:",
        "0" * 16,
        "NoNewPrivs:",
        "1",
    ]


def test_only_what_neither_thinks_nor_fetches_has_no_way_out(office: Containers) -> None:
    def is_closed(agent: str) -> bool:
        """Whether all networks of the agent's container are internal."""
        container = office.run("ps", "--quiet", agent).split()[0]
        names = inspect("container", container)["NetworkSettings"]["Networks"]
        return all(inspect("network", name)["Internal"] for name in names)

    assert [agent for agent in AGENTS if is_closed(agent)] == ["memory"]


@pytest.mark.parametrize("agent", ["cortex", "engineer"])
def test_a_workspace_is_changed_with_a_snapshot_before(office: Containers, agent: str) -> None:
    context = {"assignee": agent, "action": "run_shell", "command": "touch made"}
    named = [word for pair in context.items() for word in ("--context", "=".join(pair))]
    ended = json.loads(office.mailroom("submit", "--wait", "--json", *named, "Touch a file"))
    assert ended["status"] == "completed", ended


PROBE = """
import asyncio, pathlib
from shared.sandbox import check_jail, run_command
async def main():
    print(await check_jail())
    place = pathlib.Path("/state/workspaces/probe")
    place.mkdir(exist_ok=True)
    script = "id -u; cat /keys/*; ls /repos; touch made; wc -l < /proc/net/dev"
    result = await run_command(["sh", "-c", script], cwd=place, timeout=20, writable=[place])
    print(result.output)
    print(sorted(path.name for path in place.iterdir()))
asyncio.run(main())
"""


@pytest.mark.parametrize("agent", ["cortex", "critic", "engineer", "scout"])
def test_commands_run_in_the_jail_in_a_container_too(office: Containers, agent: str) -> None:
    told = office.run("exec", "--no-TTY", agent, "python", "-c", PROBE).splitlines()
    assert told[0] == ""
    assert told[1] == "1000"
    assert "['made']" in told
    assert "No such file" in told[2]
    assert not any("tiny" in line or "SU" in line for line in told)
    assert "3" in told  # the heading's two lines, and the loopback
    checks = json.loads(office.run("exec", "--no-TTY", agent, "sh", "-c", "mailroom doctor --json || true"))
    assert {check["name"]: check["verdict"] for check in checks}["sandbox"] == "ok"


def test_commands_are_refused_where_the_jail_cannot_be_made(office: Containers) -> None:
    # As the nexus is started: with the engine's own profile, which refuses user namespaces.
    program = PROBE.replace("/state/workspaces", "/tmp")
    done = subprocess.run(
        [*office.compose.docker_compose_command(), "exec", "--no-TTY", "nexus", "python", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "Commands are refused, because the jail does not work here" in done.stderr
    checks = json.loads(office.run("exec", "--no-TTY", "nexus", "sh", "-c", "mailroom doctor --json || true"))
    sandbox = next(check for check in checks if check["name"] == "sandbox")
    assert sandbox["verdict"] == "warn"
    assert "compose.yaml" in sandbox["fix"]


def inspect(kind: str, name: str) -> dict[str, Any]:
    done = subprocess.run(["docker", kind, "inspect", name], capture_output=True, text=True, check=True)
    inspected: list[dict[str, Any]] = json.loads(done.stdout)
    return inspected[0]


def test_the_office_opens_again_with_what_it_knew(office: Containers) -> None:
    before = office.mailroom("tasks", "--json")
    office.run("down")
    office.run("up", "--detach", "--wait")
    assert office.mailroom("tasks", "--json") == before


def presences(office: Containers) -> list[str]:
    return [presence["agent"] for presence in json.loads(office.mailroom("agents", "--json"))]
