"""The door through which programs are run: real processes."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import psutil
import pytest

from shared.errors import ActionError
from shared.sandbox import Limits, execution, remove_tree, run_command
from shared.sandbox.jail import GRACE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")


def unique_sleep() -> str:
    """A sleep that can be told from every other process."""
    return f"sleep {1000 + uuid.uuid4().int % 1_000_000_000}"


def alive(command: str) -> list[psutil.Process]:
    """The living processes whose command line is ``command``."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["cmdline"] == command.split() and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def wait_until(condition, seconds=10.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


async def shell(script: str, cwd: Path, seconds: float = 20.0, **options):
    return await run_command(["sh", "-c", script], cwd=cwd, timeout=seconds, writable=[cwd], **options)


async def test_tells_exit_code_and_both_streams_as_they_came(tmp_path):
    result = await shell("echo one; echo two >&2; echo three; pwd; exit 3", tmp_path)
    assert (result.exit_code, result.timed_out, result.truncated) == (3, False, False)
    assert result.output == f"one\ntwo\nthree\n{tmp_path.resolve()}\n"
    assert result.argv[0] == "sh"
    assert 0 < result.seconds < 10


async def test_keeps_errors_apart_where_that_is_asked_for(tmp_path):
    result = await shell("echo out; echo err >&2", tmp_path, separate_errors=True)
    assert (result.output, result.errors) == ("out\n", "err\n")


async def test_undecodable_bytes_are_replaced(tmp_path):
    assert (await shell(r"printf 'a\377b'", tmp_path)).output == "a�b"


async def test_arguments_are_not_read_by_a_shell(tmp_path):
    result = await run_command(["printf", "%s|", "$HOME", "a b", ";ls"], cwd=tmp_path, timeout=10)
    assert result.output == "$HOME|a b|;ls|"


async def test_the_callers_environment_does_not_leak(tmp_path, monkeypatch):
    monkeypatch.setenv("MAILROOM_CANARY", "canary-in-the-environment")
    monkeypatch.setenv("OPENAI_API_KEY", "canary-in-the-environment")
    script = "env; cat /proc/$PPID/environ /proc/self/environ 2>/dev/null || true"
    result = await shell(script, tmp_path, env={"ADDED": "yes"})
    assert "canary" not in result.output
    names = {line.partition("=")[0] for line in result.output.partition("\0")[0].splitlines()}
    assert names >= {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "ADDED"}
    assert f"HOME={Path.home()}\n" not in result.output


async def test_home_is_thrown_away(tmp_path):
    result = await shell(
        "mkdir -p ~/a/b; chmod 500 ~/a; touch ~/x $TMPDIR/y; echo $HOME; echo $TMPDIR", tmp_path
    )
    home, temporary = map(Path, result.output.split())
    assert result.exit_code == 0
    assert not (home / "x").exists()
    assert not (temporary / "y").exists()


async def test_there_is_no_input_and_no_terminal(tmp_path):
    script = "cat; tty || true; (exec 3<>/dev/tty) || echo no terminal"
    result = await shell(script, tmp_path, seconds=10)
    assert not result.timed_out
    assert result.output.startswith("not a tty")
    assert "no terminal" in result.output


async def test_what_cannot_be_run_is_said_in_a_sentence(tmp_path):
    with pytest.raises(ActionError, match="no-such-program is not installed"):
        await run_command(["no-such-program"], cwd=tmp_path, timeout=5)
    with pytest.raises(ActionError, match="does not exist"):
        await run_command(["true"], cwd=tmp_path / "nowhere", timeout=5)
    with pytest.raises(ActionError, match="must name a program"):
        await run_command([], cwd=tmp_path, timeout=5)
    with pytest.raises(ActionError, match="NUL"):
        await run_command(["echo", "a\0b"], cwd=tmp_path, timeout=5)
    (tmp_path / "file").write_text("")
    with pytest.raises(ActionError, match="cannot be written"):
        await run_command(["true"], cwd=tmp_path, timeout=5, log_path=tmp_path / "file" / "log")


async def test_a_relative_entry_of_the_path_finds_nothing(tmp_path, monkeypatch):
    tool = tmp_path / "planted"
    tool.write_text("#!/bin/sh\necho planted\n")
    tool.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    with pytest.raises(ActionError, match="not installed"):
        await run_command(["planted"], cwd=tmp_path, timeout=5)
    assert (await run_command(["./planted"], cwd=tmp_path, timeout=5)).output == "planted\n"


async def test_a_file_that_is_no_program_ends_with_127(tmp_path):
    tool = tmp_path / "tool"
    tool.write_bytes(b"\x7fELFnot really")
    tool.chmod(0o755)
    result = await run_command(["./tool"], cwd=tmp_path, timeout=5)
    assert result.exit_code == 127
    assert "./tool: " in result.output


async def test_a_deadly_signal_is_told(tmp_path):
    assert (await shell("kill -SEGV $$", tmp_path)).exit_code == -signal.SIGSEGV


async def test_time_is_limited(tmp_path):
    sleep = unique_sleep()
    started = time.monotonic()
    result = await shell(f"echo before; {sleep}", tmp_path, seconds=0.5)
    assert result.timed_out
    assert result.output.startswith("before\n")  # a shell may go on to tell what ended its child
    assert time.monotonic() - started < 0.5 + GRACE
    assert not alive(sleep)


async def test_who_ignores_the_stop_signal_is_killed(tmp_path):
    sleep = unique_sleep()
    result = await shell(f"trap '' TERM; {sleep} & {sleep}; {sleep}", tmp_path, seconds=0.3)
    assert result.timed_out
    assert GRACE <= result.seconds < GRACE + 5
    assert not alive(sleep)


async def test_who_hears_the_stop_signal_may_say_goodbye(tmp_path):
    script = "trap 'echo goodbye; exit 7' INT; while :; do sleep 0.05; done"
    result = await shell(script, tmp_path, seconds=0.5, stop_signal=signal.SIGINT)
    assert (result.output, result.exit_code, result.timed_out) == ("goodbye\n", 7, True)


async def test_a_daemon_that_left_the_session_dies_with_the_command(tmp_path):
    sleep = unique_sleep()
    daemon = f"setsid sh -c 'setsid {sleep} & {sleep}' & "
    deaf = daemon.replace("sh -c '", 'sh -c \'trap "" TERM HUP; ')
    ended = await shell(deaf + "sleep 0.3; echo done", tmp_path)
    assert (ended.exit_code, ended.output, ended.timed_out) == (0, "done\n", False)
    assert not alive(sleep)
    stopped = await shell(daemon + "sleep 60", tmp_path, seconds=0.5)
    assert stopped.timed_out
    assert not alive(sleep)


async def test_a_descendant_that_keeps_the_output_open_does_not_hang_it(tmp_path):
    sleep = unique_sleep()
    result = await shell(f"{sleep} & echo started", tmp_path)
    assert (result.output, result.timed_out) == ("started\n", False)
    assert result.seconds < GRACE
    assert not alive(sleep)


async def test_a_command_that_stops_its_supervisor_is_ended_all_the_same(tmp_path):
    sleep = unique_sleep()
    result = await shell(f"kill -STOP $PPID; {sleep}", tmp_path, seconds=0.5)
    assert result.timed_out
    assert not alive(sleep)


async def test_cancelling_ends_the_command(tmp_path):
    sleep = unique_sleep()
    running = asyncio.create_task(shell(f"setsid {sleep} & {sleep}", tmp_path))
    await asyncio.to_thread(wait_until, lambda: len(alive(sleep)) == 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not alive(sleep)


async def test_cancelling_at_once_leaves_nothing_behind(tmp_path):
    sleep = unique_sleep()
    started = time.monotonic()
    for delay in (0.0, 0.001, 0.01, 0.03, 0.05):
        running = asyncio.create_task(run_command(sleep.split(), cwd=tmp_path, timeout=30))
        await asyncio.sleep(delay)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not alive(sleep)
    assert time.monotonic() - started < GRACE


def test_a_caller_killed_outright_takes_the_command_with_it(tmp_path):
    sleep = unique_sleep()
    argv = ["sh", "-c", f"setsid {sleep} & {sleep}"]
    code = (
        "import asyncio, pathlib\nfrom shared.sandbox import run_command\n"
        f"asyncio.run(run_command({argv!r}, cwd=pathlib.Path('/'), timeout=99))"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    caller = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2], env=env)
    wait_until(lambda: len(alive(sleep)) == 2)
    caller.kill()
    caller.wait()
    wait_until(lambda: not alive(sleep))
    wait_until(lambda: not list(tmp_path.iterdir()))


async def test_output_without_end_is_cut_in_the_middle_and_the_log_has_it_all(tmp_path):
    log = tmp_path / "logs" / "run.log"
    script = "echo start; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo finish"
    result = await shell(script, tmp_path, output_limit=10_000, log_path=log)
    assert result.truncated
    assert len(result.output) < 10_100
    assert result.output.startswith("start\nxxx")
    assert result.output.endswith("xxx\nfinish\n")
    assert "[... 2,990,014 bytes cut ...]" in result.output
    assert log.stat().st_size == 3_000_014


async def test_output_of_exactly_the_limit_is_whole(tmp_path):
    result = await shell("printf 0123456789", tmp_path, output_limit=10)
    assert (result.output, result.truncated) == ("0123456789", False)


async def test_the_log_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "LOG_LIMIT", 1000)
    log = tmp_path / "run.log"
    result = await shell("head -c 500000 /dev/zero | tr '\\0' x", tmp_path, log_path=log)
    assert len(result.output) == 500_000
    text = log.read_text()
    assert text.startswith("x" * 1000 + "\n[the log ends here")
    assert len(text) < 1100


async def test_files_and_cpu_are_limited(tmp_path):
    big = await shell("head -c 20000 /dev/zero > big; ls -l big", tmp_path, limits=Limits(file_bytes=10_000))
    assert (tmp_path / "big").stat().st_size == 10_000
    assert "10000" in big.output
    busy = await shell("while :; do :; done", tmp_path, limits=Limits(cpu_seconds=1))
    assert busy.exit_code in (-signal.SIGXCPU, -signal.SIGKILL)
    assert not busy.timed_out
    assert (await shell("ulimit -c", tmp_path)).output == "0\n"


async def test_many_commands_leave_no_descriptor_process_or_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    this = psutil.Process()
    await asyncio.gather(*(shell("echo $$", tmp_path) for _ in range(2)))
    before, children = this.num_fds(), this.children()
    results = await asyncio.gather(*(shell("cat /proc/sys/kernel/random/uuid", tmp_path) for _ in range(10)))
    assert len({result.output for result in results}) == 10
    assert this.num_fds() == before
    assert not list(tmp_path.iterdir())
    assert this.children() == children  # the one that starts commands among them


def test_removing_a_tree_follows_no_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    tree = tmp_path / "tree"
    (tree / "closed" / "deep").mkdir(parents=True)
    (tree / "closed" / "deep" / "file").write_text("x")
    (tree / "link").symlink_to(outside)
    (tree / "closed").chmod(0)
    remove_tree(tree)
    assert not tree.exists()
    assert outside.stat().st_mode & 0o777 == 0o500
    remove_tree(tmp_path / "nowhere")


async def test_time_that_is_up_before_the_jail_is_made_is_no_error(tmp_path):
    for seconds in (0.0, 0.002, 0.005, 0.01):
        assert (await shell("sleep 5", tmp_path, seconds=seconds)).timed_out
