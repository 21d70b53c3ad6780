"""Processes in the jail: they see no others, are bounded, and none is left."""

import asyncio
import signal
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest

from shared.errors import ActionError
from shared.jailer import syscalls
from shared.sandbox import CommandResult, Limits, execution
from tests.flow.jailing import python, shell, start_office, start_sleep

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")

CANARY = f"canary-{uuid.uuid4().hex}"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def test_other_processes_are_neither_seen_nor_reached(workspace):
    victim = start_sleep()
    try:
        script = f"""
            ls -d /proc/[0-9]* | wc -l; kill -9 {victim.pid} 2>&1; kill -9 -1
        """
        result = await shell(script, workspace)
        assert int(result.output.split()[0]) < 8
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def processes_in(folder: Path) -> list[int]:
    """The processes of this machine that work in ``folder``."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


async def test_daemons_of_every_kind_are_gone_when_the_command_has_ended(workspace):
    script = """
        setsid sleep 4321 & nohup sleep 4321 >/dev/null 2>&1 &
        (setsid sh -c 'trap "" TERM HUP INT; (setsid sleep 4321 &) ; sleep 4321' &)
        sleep 0.2; echo done
    """
    result = await shell(script, workspace)
    assert result.output == "done\n"
    assert not processes_in(workspace)
    assert not [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] == ["sleep", "4321"]
    ]


async def test_it_leaves_no_dead_process_to_the_first_one_which_may_be_the_office(workspace):
    subreaper = syscalls.PR_SET_CHILD_SUBREAPER
    await shell("true", workspace)
    before = psutil.Process().children()
    syscalls.prctl(subreaper, 1)  # as the first process of a container is
    try:
        for _ in range(3):
            await shell("(setsid sleep 4321 &); true", workspace)
        await asyncio.sleep(0.1)
        children = [child for child in psutil.Process().children() if child not in before]
    finally:
        syscalls.prctl(subreaper, 0)
    assert not [child for child in children if child.status() == psutil.STATUS_ZOMBIE]


async def test_a_fork_bomb_is_bounded_and_gone(workspace):
    started = time.monotonic()
    result = await python(
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        workspace,
        seconds=1.5,
        limits=Limits(processes=60),
    )
    assert result.timed_out
    assert time.monotonic() - started < 15
    assert not processes_in(workspace)


async def test_processes_outside_do_not_count(workspace):
    many = [start_sleep() for _ in range(12)]
    try:
        result = await shell(
            "for n in 1 2 3; do sleep 0.1 & done; wait; echo ok", workspace, limits=Limits(processes=10)
        )
    finally:
        for process in many:
            process.kill()
            process.wait()
    assert result.output == "ok\n"


async def test_memory_is_bounded(workspace):
    one = await python("x = bytearray(900_000_000)", workspace, limits=Limits(memory_bytes=300_000_000))
    assert one.exit_code == 1
    assert "MemoryError" in one.output
    code = """
import os, time
for _ in range(6): os.fork()
x = bytearray(os.urandom(1)) * 40_000_000
time.sleep(20)
"""
    together = await python(code, workspace, limits=Limits(memory_bytes=300_000_000))
    assert together.exit_code == -signal.SIGKILL
    assert "memory" in together.problem
    assert not processes_in(workspace)


async def test_its_own_places_are_bounded(workspace):
    result = await shell("df -k --output=size,target; head -c 300000000 /dev/zero > /dev/shm/big", workspace)
    rows = [line.split() for line in result.output.splitlines()]
    sizes = {row[1]: int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit()}
    assert all(sizes[place] <= 1 << 20 for place in ("/tmp", "/home/agent", "/dev/shm")), sizes
    assert "No space left" in result.output


async def test_the_caller_may_die_at_any_moment(workspace):
    """Whenever a caller is killed, nothing of its command goes on."""
    name = str(9_000_000 + uuid.uuid4().int % 1_000_000)
    code = (
        "import asyncio, pathlib\nfrom shared.sandbox import run_command\n"
        f"place = pathlib.Path({str(workspace)!r})\n"
        "async def main():\n"
        "    await run_command(['true'], cwd=place, timeout=9)\n"
        "    print('ready', flush=True)\n"
        f"    await run_command(['sleep', '{name}'], cwd=place, timeout=99)\n"
        "asyncio.run(main())"
    )
    for delay in (0.0, 0.004, 0.008, 0.015):
        caller = start_office(code)
        await asyncio.sleep(delay)
        caller.kill()
        caller.wait()
        caller.stdout.close()

    def left() -> list[psutil.Process]:
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if name in (process.info["cmdline"] or []) and process.status() != psutil.STATUS_ZOMBIE
        ]

    until = time.monotonic() + 10
    while left() and time.monotonic() < until:
        await asyncio.sleep(0.05)
    assert not left()


async def test_the_starter_of_commands_may_be_killed(workspace):
    await shell("true", workspace)
    starter = next(
        child for child in psutil.Process().children() if "shared.jailer" in " ".join(child.cmdline())
    )
    running = asyncio.create_task(shell("sleep 1; echo finished", workspace))
    await asyncio.sleep(0.3)
    starter.kill()
    assert (await running).output == "finished\n"
    assert (await shell("echo again", workspace)).output == "again\n"


async def start_two(workspace: Path) -> "tuple[asyncio.Task[CommandResult], list[psutil.Process]]":
    """A command that ignores signals and leaves its session, and its parents: bubblewrap, its supervisor."""
    mark = str(9_000_000 + uuid.uuid4().int % 1_000_000)
    script = f"trap '' TERM; (setsid sleep {mark} &); sleep {mark}"
    running = asyncio.create_task(shell(script, workspace, seconds=1.0))
    found: list[psutil.Process] = []
    while len(found) < 2:
        await asyncio.sleep(0.05)
        found = [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", mark]]
    above = max((each.parents() for each in found), key=len)
    names = [each for each in above if "bwrap" in " ".join(each.cmdline()[:1])]
    return running, [names[-1], names[-1].parent()]


@pytest.mark.parametrize(("who", "number"), [(0, signal.SIGKILL), (1, signal.SIGKILL), (1, signal.SIGSTOP)])
async def test_whoever_of_those_above_it_is_killed_or_frozen_the_command_is_gone(
    workspace, monkeypatch, who, number
):
    monkeypatch.setattr(execution, "PATIENCE", 0.2)
    await shell("true", workspace)
    running, above = await start_two(workspace)
    above[who].send_signal(number)
    result = await running
    assert (result.exit_code, result.problem) == (-signal.SIGKILL, "it was ended from outside")
    assert not processes_in(workspace)
    assert (await shell("echo again", workspace)).output == "again\n"


def starters():
    alive = (each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE)
    return [child for child in alive if "shared.jailer" in " ".join(child.cmdline())]


async def supervisor_in_waiting():
    """The process that will mind the next command; those of earlier commands have ended."""
    seen = []
    while True:
        children = starters()[0].children()
        if len(children) == 1 and children == seen and children[0].status() == psutil.STATUS_SLEEPING:
            return children[0]
        seen = children
        await asyncio.sleep(0.2)


async def test_a_starter_of_commands_that_does_not_answer_is_given_up(workspace, monkeypatch):
    monkeypatch.setattr(execution, "PATIENCE", 0.2)
    await shell("true", workspace)
    starters()[0].suspend()
    assert (await shell("echo the one that waited", workspace)).exit_code == 0
    with pytest.raises(ActionError, match="what starts them does not answer"):
        await shell("touch late", workspace, seconds=0.3)
    assert (await shell("echo again", workspace)).output == "again\n"
    assert not list(workspace.iterdir())


async def test_only_the_starter_that_does_not_answer_is_given_up(workspace, monkeypatch):
    monkeypatch.setattr(execution, "PATIENCE", 0.2)
    await shell("true", workspace)
    waiting = await supervisor_in_waiting()
    waiting.suspend()
    try:
        late = asyncio.ensure_future(shell("true", workspace, seconds=1))
        with pytest.raises(ActionError, match="what starts them does not answer"):
            await shell("true", workspace, seconds=0.1)
        assert (await shell("echo again", workspace)).output == "again\n"
        another = starters()
        with pytest.raises(ActionError, match="what starts them does not answer"):
            await late
        assert starters() == another
    finally:
        waiting.kill()


async def test_no_descriptor_of_the_office_is_inherited(workspace):
    result = await shell("ls -l /proc/self/fd", workspace)
    targets = [
        line.split(" -> ")[1].partition(":")[0] for line in result.output.splitlines() if " -> " in line
    ]
    assert sorted(set(targets)) == ["/dev/null", "/proc/3/fd", "pipe"]
    assert len(targets) == 4
    assert "bwrap" in (await shell("tr '\\0' ' ' < /proc/1/cmdline", workspace, env={"TOKEN": CANARY})).output
    assert (
        CANARY
        not in (await shell("cat /proc/1/environ /proc/1/cmdline", workspace, env={"TOKEN": CANARY})).output
    )


async def test_what_is_set_for_the_command_does_not_reach_what_makes_the_jail(workspace):
    loaded = workspace / "loaded.so"
    loaded.write_text("no library")
    result = await shell(
        "echo $LD_PRELOAD", workspace, env={"LD_PRELOAD": str(loaded), "LD_DEBUG": "nothing"}
    )
    assert result.output.count("cannot be preloaded") == 1  # by the shell alone
    assert str(loaded) in result.output
