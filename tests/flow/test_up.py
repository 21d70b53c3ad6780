"""``mailroom up`` as people run it: real processes in a state directory of their own."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from services.cli.supervisor.programs import find_server, free_port
from shared import settings, subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import Node, Question
from shared.errors import BusUnavailable
from shared.memory import Memory
from shared.operations.forgetting import find_nodes, order_forgetting
from shared.tasks.installed_agents import load_agents
from tests.support.server import environment, run_mailroom
from tests.support.up import TIMEOUT, UpCommand, processes_of
from tests.support.waiting import eventually, wait_for

AGENTS = {member.name for member in load_agents(settings.load({"HOME": "/nonexistent"}))}


def mailroom(state_dir: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return run_mailroom(environment(state_dir, **more), *arguments)


@pytest.fixture(autouse=True)
def clean(tmp_path: Path) -> Iterator[None]:
    """A test that fails leaves nothing behind either."""
    yield
    for process in processes_of(tmp_path / "state"):
        with contextlib.suppress(psutil.Error):
            psutil.Process(process).kill()


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpCommand]:
    office = UpCommand(tmp_path_factory.mktemp("office") / "state")
    try:
        yield office
    finally:
        office.close()


def test_everything_is_ready_when_it_says_where_it_is(office: UpCommand) -> None:
    record = office.record()
    assert record["pid"] == office.up.pid
    assert json.loads((office.state_dir / "run" / "office.json").read_text()) == record
    signs = office.signs_of_life()
    assert set(signs) == AGENTS
    commands = processes_of(office.state_dir)
    assert all(f"services.{name}" in commands[pid] for name, pid in signs.items())
    logs = office.state_dir / "logs"
    assert {path.stem for path in logs.glob("*.log")} == {*AGENTS, "nats"}
    wait_for(lambda: '"event":"ready"' in (logs / "scout.log").read_text().replace(" ", ""))


def test_a_second_up_says_what_runs_and_breaks_nothing(office: UpCommand) -> None:
    record = office.record()
    before = processes_of(office.state_dir)
    again = mailroom(office.state_dir, "up")
    assert again.returncode == 0
    assert f"running already: process {record['pid']}" in again.stdout
    assert f"--server {record['url']} --nkey {office.state_dir}/keys/user.nk" in again.stdout
    assert json.loads(mailroom(office.state_dir, "up", "--json").stdout) == record
    assert processes_of(office.state_dir) == before


def test_a_killed_agent_is_started_again(office: UpCommand) -> None:
    office.record()
    first = office.signs_of_life()["scout"]
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: office.signs_of_life().get("scout", first) != first)
    assert office.said("scout", "was killed by SIGKILL; started again in 0.5 s")


@pytest.mark.parametrize("name", ["frontier", "memory"])
def test_an_agent_that_people_restart_is_back_at_once(office: UpCommand, name: str) -> None:
    office.record()
    first = office.signs_of_life()[name]
    done = mailroom(office.state_dir, "agents", "restart", name)
    assert done.stdout.strip() == f"{name} starts again", done.stderr
    wait_for(lambda: office.signs_of_life().get(name, first) != first)
    assert office.said(name, "ended to start again, as people want")
    assert not office.said(name, "ended with exit code")


def test_a_killed_server_is_started_again_on_its_port(office: UpCommand) -> None:
    url = office.record()["url"]
    first = office.process("nats-server.conf")
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: office.process("nats-server.conf") not in {0, first})
    port = int(url.rpartition(":")[2])
    wait_for(lambda: listens(port))
    assert office.said("nats", "was killed by SIGKILL")


def test_what_is_to_be_forgotten_is_erased_though_server_and_memory_are_killed(office: UpCommand) -> None:
    """As the dashboard leaves it: who orders it has no admin's key, and 'mailroom up' has."""
    secret = "The cook of the night shift hides the saffron in the tin of nails"
    url = office.record()["url"]
    asyncio.run(_order_forgetting(office, url, secret))
    wait_for(lambda: not _holders(office.state_dir, "saffron in the tin"))
    wait_for(lambda: office.said("office", "erased what quoted a forgotten memory"))
    done = mailroom(office.state_dir, "audit", "verify")
    assert done.returncode == 0, done.stdout
    assert "by order of a person" in done.stdout


async def _order_forgetting(office: UpCommand, url: str, secret: str) -> None:
    """Have a memory quoted, order that it be forgotten, and kill who is to do it."""
    user = await Bus.connect(subjects.USER, url, office.state_dir / "keys" / "user.nk")
    memory = Memory(user)

    async def answers() -> bool:
        with contextlib.suppress(BusUnavailable):
            return bool(await memory.health())
        return False

    try:
        await eventually(answers, TIMEOUT)
        await memory.add(Node(id="saffron", title=secret), insist=True)
        question = Question(sender="user", recipient="nexus", text="Where does the cook hide the saffron?")
        await user.commit([seal(subjects.mail("nexus", "user"), question)])
        answered = subjects.mail("user", "nexus")
        await eventually(lambda: user.last(subjects.OFFICE, answered), TIMEOUT)
        assert _holders(office.state_dir, "saffron in the tin")
        await order_forgetting(user, await find_nodes(memory, ["saffron"]))
        for part in ("services.memory", "nats-server.conf"):
            os.kill(office.process(part), signal.SIGKILL)
    finally:
        await user.close()


def _holders(folder: Path, text: str) -> list[Path]:
    found = []
    for path in (Path(inner, name) for inner, _, names in os.walk(folder) for name in names):
        with contextlib.suppress(OSError):  # gone meanwhile
            found += [path] if path.is_file() and text.encode() in path.read_bytes() else []
    return found


def test_a_killed_warden_is_replaced(office: UpCommand) -> None:
    office.record()
    first = office.process("watchdog_script.py")
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: office.process("watchdog_script.py") not in {0, first})
    assert office.up.poll() is None
    assert set(office.signs_of_life()) == AGENTS


def test_the_keys_of_another_office_are_of_no_use(office: UpCommand, tmp_path: Path) -> None:
    done = mailroom(tmp_path / "state", "up", NATS_URL=office.record()["url"])
    assert done.returncode == 1
    assert (
        f"does not know the office's keys. Add the line 'include {tmp_path}/state/nats/office.conf'"
        in done.stderr
    )
    assert_one_sentence(done.stderr)
    assert not processes_of(tmp_path / "state")


def test_a_second_ctrl_c_ends_at_once_what_does_not_end(office: UpCommand) -> None:
    # The last of those that share this office: it ends it.
    office.record()
    os.kill(office.signs_of_life()["scout"], signal.SIGSTOP)
    office.up.send_signal(signal.SIGINT)
    wait_for(lambda: office.said("office", "closing"))
    time.sleep(0.5)
    assert office.up.poll() is None
    begun = time.monotonic()
    office.up.send_signal(signal.SIGINT)
    assert office.up.wait(TIMEOUT) == 0
    assert time.monotonic() - begun < 5
    assert not processes_of(office.state_dir)
    assert not (office.state_dir / "run" / "office.json").exists()


def test_ctrl_c_while_it_opens_leaves_nothing(tmp_path: Path) -> None:
    office = UpCommand(tmp_path / "state")
    wait_for(lambda: office.said("nats", "ready"))
    office.close()
    assert office.up.returncode == 0
    assert not processes_of(tmp_path / "state")


def test_up_killed_leaves_nothing_and_the_next_one_opens(tmp_path: Path) -> None:
    state = tmp_path / "state"
    opened = mailroom(state, "up", "--detach", "--json")
    assert opened.returncode == 0, opened.stderr
    first = json.loads(opened.stdout)
    assert len(processes_of(state)) >= len(AGENTS) + 3
    os.kill(first["pid"], signal.SIGKILL)
    again = mailroom(state, "up", "--detach", "--json")
    assert again.returncode == 0, again.stderr
    second = json.loads(again.stdout)
    assert second["pid"] != first["pid"]
    os.kill(second["pid"], signal.SIGKILL)
    wait_for(lambda: not processes_of(state))
    assert not (state / "run" / "office.json").exists()
    closed = mailroom(state, "down")
    assert (closed.returncode, closed.stdout) == (0, f"No office is running in {state}.\n")


def test_what_outlived_up_and_its_warden_is_ended_first(tmp_path: Path) -> None:
    state = tmp_path / "state"
    opened = mailroom(state, "up", "--detach", "--json")
    assert opened.returncode == 0, opened.stderr
    warden = next(
        process for process, command in processes_of(state).items() if "watchdog_script.py" in command
    )
    both = [psutil.Process(process) for process in (json.loads(opened.stdout)["pid"], warden)]
    for process in both:  # so that neither sees the other die
        process.suspend()
    for process in both:
        process.kill()
        process.wait(TIMEOUT)
    left = set(processes_of(state))
    assert len(left) >= len(AGENTS) + 1  # the server too, and what an agent has started of its own
    office = UpCommand(state)
    try:
        office.record()
        assert not left & set(processes_of(state))
    finally:
        office.close()
    assert office.up.returncode == 0
    assert not processes_of(state)


def test_the_demonstration_shows_a_piece_of_work_from_end_to_end(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "tiny")
    before = git(repo, "status", "--porcelain", "--ignored")
    state = tmp_path / "state"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = mailroom(state, "demo", str(repo), MAILROOM_GATEWAY_PORT=str(taken.getsockname()[1]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"user → conductor +submission +Check up on the repository at", done.stdout)
    assert re.search(r"critic → conductor +result +completed: Checked", done.stdout)
    report = Path(re.findall(r"^Report: (.+)$", done.stdout, re.MULTILINE)[-1])
    assert report.is_relative_to(state / "demo")
    assert "its port is in use" not in done.stdout  # also while an office runs
    assert "## What it is" in report.read_text()
    assert "## What it is" in done.stdout
    answer = done.stdout.partition('== mailroom ask "What did the check-up find?"')[2]
    assert "1 of 1 test fails" in answer
    assert "(conductor, 20" in answer
    assert git(repo, "status", "--porcelain", "--ignored") == before
    assert not processes_of(report.parents[2])


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "README.md").write_text("# Tiny\n\nTiny adds numbers.\n")
    (folder / "test_tiny.py").write_text("import os\n\n\ndef test_add():\n    assert 1 + 2 == 4\n")
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Add tiny"]):
        git(folder, *arguments)
    return folder


def git(repo: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Tiny", "-c", "user.email=tiny@example.org"]
    return subprocess.run(
        ["git", "-C", str(repo), *identity, *arguments], capture_output=True, text=True, check=True
    ).stdout


# --- what goes wrong -----------------------------------------------------------------------------


def assert_one_sentence(text: str) -> None:
    assert text.startswith("Error: ")
    assert len(text.splitlines()) == 1
    assert "Traceback" not in text


def fails(state_dir: Path, *arguments: str, **more: str) -> str:
    """The one sentence with which ``up`` fails, nothing left running."""
    done = mailroom(state_dir, "up", *arguments, **more)
    assert done.returncode == 1
    assert_one_sentence(done.stderr)
    assert not processes_of(state_dir)
    return done.stderr


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = fails(tmp_path / "state", "--port", str(port))
    assert f"Port {port} is taken by another program. Stop it, choose another port with --port" in said


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("MAILROOM_BRAIN", "foo", "'foo' names no model. Write openai:MODEL"),
        ("MAILROOM_BRAIN", "scripted:/nowhere", "/nowhere cannot be read"),
        ("MAILROOM_TIME_ZONE", "Mars", "'Mars', which is no time zone. Write it as in"),
    ],
)
def test_what_no_agent_could_work_with_is_said_once_and_nothing_is_started(
    tmp_path: Path, setting: str, value: str, reason: str
) -> None:
    result = mailroom(tmp_path / "state", "up", **{setting: value})
    assert result.returncode == 1
    assert reason in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert not processes_of(tmp_path / "state")


def test_a_state_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    assert "cannot be used: it is a file" in fails(tmp_path / "state").replace(
        "Not a directory", "it is a file"
    )


def test_a_state_directory_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    # Root may write everywhere but into the kernel's own file systems.
    state = Path("/sys/mailroom") if os.geteuid() == 0 else tmp_path / "state"
    said = fails(state, "--state-dir", str(state))
    assert f"The state directory {state} cannot be used: " in said
    assert "name another with --state-dir or MAILROOM_STATE_DIR" in said


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here: that takes root on Linux")
    try:
        assert "the disk is full, 7 MB are free. Make it writable or free disk space" in fails(disk / "state")
        with contextlib.suppress(OSError):
            (disk / "fill").write_bytes(bytes(1 << 23))
        assert "cannot be used: " in fails(disk / "state")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_no_nats_server(tmp_path: Path) -> None:
    said = fails(tmp_path / "state", NATS_SERVER_BIN="/nonexistent/nats-server")
    assert (
        "NATS_SERVER_BIN names /nonexistent/nats-server, which is not executable. Correct it, or unset it"
        in said
    )


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    said = fails(tmp_path / "state", NATS_URL=url)
    assert f"NATS_URL names a server that cannot be used: No nats-server answers at {url}" in said


def test_a_server_that_takes_anybody(tmp_path: Path) -> None:
    port = free_port()
    command = [find_server(settings.load({"HOME": "/nonexistent"})), "-a", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen([*command, "-js", "-sd", str(tmp_path / "js")], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: listens(port))
        said = fails(tmp_path / "state", NATS_URL=f"nats://127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait()
    assert "does not know the office's keys" in said


def test_a_server_that_includes_the_offices_configuration(tmp_path: Path) -> None:
    state, port = tmp_path / "state", free_port()
    assert mailroom(state, "provision").returncode == 0
    (tmp_path / "own.conf").write_text(f"host: 127.0.0.1\nport: {port}\ninclude state/nats/office.conf\n")
    command = [find_server(settings.load({"HOME": "/nonexistent"})), "-c", str(tmp_path / "own.conf")]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: listens(port))
        done = mailroom(state, "provision", NATS_URL=f"nats://127.0.0.1:{port}")
        again = mailroom(state, "provision", "--json", NATS_URL=f"nats://127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait()
    assert "created stream OFFICE" in done.stdout, done.stderr
    assert json.loads(again.stdout)["changes"] == []


def test_a_damaged_key(tmp_path: Path) -> None:
    keys = tmp_path / "state" / "keys"
    keys.mkdir(parents=True)
    (keys / "scout.nk").write_text("nonsense")
    assert "scout.nk is damaged. Delete the file" in fails(tmp_path / "state")


JUGGLING = """
from shared.tasks.actions import Outcome, register_action
from mailroom_own_agent.json import BALLS

class JugglingSkill:
    def __init__(self, context):
        self.context = context

    @register_action("Juggle", {})
    async def juggle(self) -> Outcome:
        return Outcome(output=f"{BALLS} balls")
"""


def test_broken_agents_of_one_s_own_are_kept_out_and_the_others_work(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    path = write_profile(agents / "clerk", "descripton: typed in haste")
    write_profile(agents / "packer", "skills: [shared.skills.packing.PackingSkill]")
    write_profile(agents / "juggler", "skills: [juggling.JugglingSkill, shared.skills.memory.MemorySkill]")
    (agents / "juggler" / "juggling.py").write_text(JUGGLING)
    (agents / "juggler" / "json.py").write_text("BALLS = 3")  # hides no module of that name
    office = UpCommand(tmp_path / "state", MAILROOM_AGENTS_DIR=str(agents))
    try:
        office.record()
        reason = f"{path}:3: unknown field 'descripton'. Did you mean 'description'?"
        assert office.said("office", f"the office runs without clerk: {reason}")
        wait_for(lambda: office.said("packer", "ended with exit code 1: The profile of"))
        missing = office.said(
            "office", "the office runs without packer: packer does not start: The profile of"
        )
        assert missing or office.said("packer", "is still starting: the office opens without it")
        assert set(office.signs_of_life()) == {*AGENTS, "juggler"}
        own = {"MAILROOM_AGENTS_DIR": str(agents)}
        asked = ("submit", "Juggle", "-c", "assignee=juggler", "-c", "action=juggle", "--wait", "--json")
        assert "3 balls" in mailroom(tmp_path / "state", *asked, **own).stdout
        assert f"clerk is kept out: {reason}" in mailroom(tmp_path / "state", "status", **own).stdout
        checks = json.loads(mailroom(tmp_path / "state", "doctor", "--json", **own).stdout)
        assert f"clerk is kept out: {reason}" in {check["finding"] for check in checks}
        # On a slow machine its next try may be under way.
        assert any(re.search("not running: packer|packer .* is starting", each["finding"]) for each in checks)
    finally:
        office.close()


def write_profile(folder: Path, more: str) -> Path:
    folder.mkdir(parents=True)
    path = folder / "profile.yaml"
    path.write_text(f"name: {folder.name}\ndescription: Does things.\n{more}\n")
    return path


def test_provision_alone_makes_keys_and_deals_them(tmp_path: Path) -> None:
    state, dealt = tmp_path / "state", tmp_path / "dealt"
    done = mailroom(
        state, "provision", "--config-dir", str(tmp_path / "nats"), "--store", "/data", "--deal", str(dealt)
    )
    assert done.returncode == 0, done.stderr
    assert '"/data"' in (tmp_path / "nats" / "office.conf").read_text()
    assert {path.name for path in dealt.iterdir()} == {*AGENTS, "user", "admin", "eraser"}
    key = dealt / "scout" / "scout.nk"
    assert [key] == list(key.parent.iterdir())
    assert key.read_bytes() == (state / "keys" / "scout.nk").read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    again = mailroom(state, "provision", "--only", "keys", "--json")
    assert json.loads(again.stdout)["config_changed"] is True
