"""The office in containers, brought up for real where an engine runs: `make test-docker`."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from shared import settings, subjects
from shared.bus import Bus
from shared.contracts import StateChanged, TaskStatus, generate_task_id
from shared.tasks.installed_agents import load_agents
from tests.docker.conftest import KEY
from tests.support.containers import PATIENCE, ROOT, Containers, inspect
from tests.support.waiting import wait_for

AGENTS = sorted(member.name for member in load_agents(settings.load({"HOME": "/nonexistent"})))


pytestmark = pytest.mark.timeout(1800)


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
    assert "1 of 1 test fails" in office.mailroom("ask", "What did the check-up find?")


def test_every_agent_shows_itself_and_is_healthy(office: Containers) -> None:
    assert sorted(presences(office)) == AGENTS
    states = [json.loads(line) for line in office.run("ps", "--format", "json").splitlines()]
    assert sorted(state["Service"] for state in states if state["Health"] == "healthy") == sorted(
        [*AGENTS, "eraser", "nats"]
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
    # The gateway compares the token of commands with its own copy.
    held = [f"{agent}.nk", *(["user.token"] if agent == "gateway" else [])]
    assert office.inside(agent, "ls /keys").split() == held
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


def test_settings_and_secrets_of_files_reach_those_who_are_to_have_them(office: Containers) -> None:
    script = "from shared import settings; read = settings.load(); print(read.home_place, read.brain_key)"
    told = {agent: office.inside(agent, f"python -c '{script}'") for agent in AGENTS}
    thinking = [agent for agent in AGENTS if agent not in ("gateway", "memory")]
    assert told == dict.fromkeys(AGENTS, "Bern") | dict.fromkeys(thinking, f"Bern {KEY}")


def test_doctor_tells_what_is_true_in_a_container(office: Containers) -> None:
    checks = {each["name"]: each for each in json.loads(office.mailroom("doctor", "--json"))}
    assert {name for name, check in checks.items() if check["verdict"] != "ok"} == set()
    assert checks["deliver"]["finding"].startswith("terminal")
    assert checks["agents"]["finding"].startswith(f"{len(AGENTS) - 1} running, and the gateway")
    for name in ("access", "index"):
        assert checks[name]["finding"] == "not checked: the gateway's folder is not here"
    inside = json.loads(office.inside("engineer", "mailroom doctor --json"))
    findings = {check["name"]: check["finding"] for check in inside}
    assert "cli doctor" in findings["office"]
    assert findings["embedder"] == "not needed: memory does not run here"


def test_old_messages_go_into_a_bundle_that_the_eraser_and_the_gateway_read(office: Containers) -> None:
    goal = json.loads(
        office.mailroom("submit", "--wait", "--json", "Check up on the repository at /repos/tiny")
    )

    def read_log() -> dict[str, Any]:
        script = "mailroom audit verify --json || true"
        (found, _) = json.loads(
            office.run("run", "--rm", "--no-TTY", "--entrypoint", "sh", "cli", "-c", script)
        )
        return dict(found)

    end = read_log()["last"]
    wait_for(lambda: read_log()["sealed"] >= end, PATIENCE)  # the gateway seals every minute
    told = json.loads(office.mailroom("audit", "archive", "--before", "0s", "/archive", "--json"))
    assert (told["left"], len(told["bundles"])) == (0, 1)
    assert told["deleted"] > 0
    found = read_log()
    assert (found["problems"], found["bundles"], found["archived"]) == ([], told["bundles"], told["messages"])
    shown = json.loads(office.mailroom("show", goal["goal_id"], "--json"))
    assert [part["is_here"] for part in shown["archived"]] == [True]
    for service in ("eraser", "gateway"):
        assert office.inside(service, "ls /archive") == told["bundles"][0]
    checked = office.run("run", "--rm", "--no-TTY", "cli", "audit", "prove", "OFFICE", "1")
    assert json.loads(checked)["seq"] == 1


def test_people_find_reports_and_exports_in_folders_of_theirs(office: Containers) -> None:
    office.mailroom("memory", "export", "all.jsonl")
    assert (office.key.parent / "exports" / "all.jsonl").read_text().startswith("{")
    assert list((office.key.parent / "outputs").iterdir())


def test_every_container_has_limits_and_an_init(office: Containers) -> None:
    for container in office.run("ps", "--quiet").split():
        limits = inspect("container", container)["HostConfig"]
        assert limits["Init"]
        assert all(limits[name] > 0 for name in ("Memory", "NanoCpus", "PidsLimit"))


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


@pytest.mark.parametrize("agent", ["cortex", "critic", "engineer", "frontier", "scout"])
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
    assert sandbox["verdict"] == "ok"
    assert sandbox["finding"].startswith("nexus runs no commands")


BLOCKING = """
import asyncio, runpy, time
from pathlib import Path
from shared.heartbeat import Heartbeat

start, first = Heartbeat.start, Path("/state/cache/blocked")

def start_and_block(heartbeat):
    start(heartbeat)
    if not first.exists():
        first.touch()
        asyncio.get_running_loop().call_later(1, time.sleep, 600)

Heartbeat.start = start_and_block
runpy.run_module("services.frontier", run_name="__main__")
"""


def test_a_process_that_blocks_or_is_stopped_is_named_and_started_again(
    office: Containers, tmp_path: Path
) -> None:
    """As a supervisor does elsewhere: after the limit, and with what it had in hand handed back."""
    tmp_path.chmod(0o755)
    (tmp_path / "blocking.py").write_text(BLOCKING)
    service = {
        "command": ["python", "/probe/blocking.py"],
        "environment": {"MAILROOM_UNRESPONSIVE_LIMIT": "15"},
        "volumes": [f"{tmp_path}:/probe:ro"],
    }
    (tmp_path / "blocking.json").write_text(json.dumps({"services": {"frontier": service}}))
    files = ("--file", "compose.yaml", "--file", str(tmp_path / "blocking.json"))
    office.run(*files, "up", "--detach", "--no-deps", "frontier")
    try:

        def restarted(times: int) -> bool:
            (container,) = office.run("ps", "--all", "--quiet", "frontier").split()
            is_ready = "frontier" in presences(office)
            return inspect("container", container)["RestartCount"] == times and is_ready

        wait_for(lambda: restarted(1), PATIENCE)
        logged = office.run("logs", "frontier")
        assert "event_loop_blocked" in logged
        assert "start_and_block" in logged or "blocking.py" in logged or "in sleep" in logged
        wait_for(lambda: office.inside("frontier", "ls /state/run | grep alive || true"), PATIENCE)
        office.inside("frontier", "kill -STOP $(ls /state/run | sed -n 's/.*-\\([0-9]*\\).alive/\\1/p')")
        wait_for(lambda: restarted(2), PATIENCE)
        assert "was stopped by a signal for " in office.run("logs", "frontier")
    finally:
        office.run("up", "--detach", "--wait", "--no-deps", "frontier")


def test_the_office_opens_again_with_what_it_knew(office: Containers) -> None:
    before = office.mailroom("tasks", "--json")
    office.close()
    office.run("up", "--detach", "--wait")
    assert office.mailroom("tasks", "--json") == before


def test_an_agent_is_healthy_while_the_server_answers_it(office: Containers) -> None:
    """A server that hangs accepts connections; no agent is started again for it."""

    def health(agent: str) -> str:
        (container,) = office.run("ps", "--quiet", agent).split()
        return str(inspect("container", container)["State"]["Health"]["Status"])

    told = ("frontier", "memory", "gateway")
    office.run("pause", "nats")
    wait_for(lambda: {health(agent) for agent in told} == {"unhealthy"}, PATIENCE)
    office.run("unpause", "nats")
    wait_for(lambda: {health(agent) for agent in told} == {"healthy"}, PATIENCE)
    for agent in told:
        (container,) = office.run("ps", "--quiet", agent).split()
        assert inspect("container", container)["RestartCount"] == 0


def test_the_office_of_a_backup_opens_in_new_volumes(office: Containers) -> None:
    restore = ("run", "--rm", "--no-TTY", "restore", "/exports/office.tar")
    office.run("run", "--rm", "--no-TTY", "backup", "/exports/office.tar")
    before = office.mailroom("tasks", "--json")
    with pytest.raises(AssertionError, match="There is an office in these volumes"):
        office.run(*restore)
    office.run("--profile", "cli", "down", "--volumes", "--remove-orphans")
    office.run(*restore)
    office.run("up", "--detach", "--wait")
    assert office.mailroom("tasks", "--json") == before
    assert "whole" in office.mailroom("audit", "verify")
    assert "1 of 1 test fails" in office.mailroom("ask", "What did the check-up find?")
    ended = json.loads(
        office.mailroom("submit", "--wait", "--json", "Check up on the repository at /repos/tiny")
    )
    assert ended["status"] == "completed"


def presences(office: Containers) -> list[str]:
    return [presence["agent"] for presence in json.loads(office.mailroom("agents", "--json"))]
