"""One program kept running: tiny shell scripts stand for agents."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from services.cli.supervisor.child import ALERT_AFTER, Backoff, Child, Program
from services.cli.supervisor.lock import InstanceLock, is_held
from services.cli.supervisor.logs import LogLine, read_last_error
from services.cli.supervisor.watchdog import Watchdog
from shared.agent.process import RESTART_STATUS
from shared.bus.connecting import read_supervisor
from shared.errors import StartError
from tests.support.waiting import eventually

ARRIVES = 'touch "ready-$$"; '
"""What a script does once it is ready."""


class Bench:
    def __init__(self, folder: Path, watchdog: Watchdog) -> None:
        self.folder = folder
        self.watchdog = watchdog
        self.lines: list[LogLine] = []
        self.children: list[Child] = []

    def start(self, script: str, *, start_limit: float = 60.0, unresponsive_limit: float = 60.0) -> Child:
        program = Program(
            name="scout",
            command=("/bin/sh", "-c", script),
            cwd=self.folder,
            env={"PATH": os.environ["PATH"]},
            log=self.folder / "scout.log",
            stage=0,
            ready=lambda process: self.sign(process).exists(),
            last_error=read_last_error,
            start_limit=start_limit,
            unresponsive_limit=unresponsive_limit,
            beat=self.beat,
            clean_up=lambda process: self.sign(process).unlink(missing_ok=True),
        )
        child = Child(program, report=self.lines.append, watchdog=self.watchdog)
        self.children.append(child)
        return child

    async def beat(self, process: int) -> float:
        return self.sign(process).stat().st_mtime_ns

    def sign(self, process: int) -> Path:
        return self.folder / f"ready-{process}"

    def said(self, text: str) -> bool:
        return any(text in line.text for line in self.lines)

    async def until(self, what: Callable[[], object]) -> None:
        await eventually(what)


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(Backoff, "FIRST", 0.01)
    lock = InstanceLock.acquire(tmp_path)
    assert lock is not None
    watchdog = Watchdog(lock, tmp_path / "office.json", 1.0)
    await watchdog.start()
    bench = Bench(tmp_path, watchdog)
    yield bench
    await asyncio.gather(*(child.stop(1.0) for child in bench.children))
    await watchdog.stop()
    lock.release()


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


async def test_one_that_ends_is_started_again(bench: Bench) -> None:
    child = bench.start(ARRIVES + "sleep 60")
    await child.started
    assert child.process is not None
    first = child.process.pid
    os.kill(first, signal.SIGKILL)
    await bench.until(lambda: bench.said("was killed by SIGKILL; started again in 0.01 s"))
    await bench.until(lambda: child.process is not None and bench.sign(child.process.pid).exists())
    assert not bench.sign(first).exists()


async def test_one_that_people_want_to_start_again_does_so_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backoff, "FIRST", 60.0)
    child = bench.start(
        f"{ARRIVES} if [ ! -e begun ]; then touch begun; sleep 0.2; exit {RESTART_STATUS}; fi; sleep 60"
    )
    await bench.until(lambda: bench.said("ended to start again, as people want"))
    await bench.until(lambda: child.process is not None and bench.sign(child.process.pid).exists())
    assert [line.level for line in bench.lines] == ["info"] * len(bench.lines)


async def test_one_that_never_gets_ready_does_not_open(bench: Bench) -> None:
    child = bench.start("echo 'scout: The key is damaged. Delete it' >&2; exit 1")
    with pytest.raises(
        StartError, match=r"^scout does not start: The key is damaged. Delete it. Its log is .*scout\.log$"
    ):
        await child.started
    assert bench.said("ended with exit code 1: The key is damaged. Delete it; started again in 0.01 s")


async def test_one_that_takes_too_long_is_started_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.cli.supervisor.child.LAST_WORDS", 1.0)
    child = bench.start(f"if [ -e begun ]; then {ARRIVES} fi; touch begun; sleep 60", start_limit=0.5)
    await child.started
    assert bench.said("was not ready after 2 s; started again in 0.01 s")


async def test_one_that_stops_responding_is_named_and_started_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.cli.supervisor.child.LAST_WORDS", 1.0)
    monkeypatch.setattr("services.cli.supervisor.child.UNRESPONSIVE", 2.0)
    script = f'trap "" TERM; {ARRIVES} while :; do sleep 0.2; touch "ready-$$"; done'
    child = bench.start(script, unresponsive_limit=3.0)
    await child.started
    await asyncio.sleep(4)
    assert child.process is not None
    assert len(bench.lines) == 1
    first = child.process.pid
    os.kill(first, signal.SIGSTOP)
    await bench.until(lambda: bench.said("does not respond for"))
    await bench.until(lambda: bench.said("did not respond for"))
    await bench.until(lambda: child.process is not None and bench.sign(child.process.pid).exists())
    assert gone(first)


async def test_one_whose_beat_cannot_be_seen_is_left_alone(bench: Bench) -> None:
    child = bench.start(f"{ARRIVES} sleep 60", unresponsive_limit=0.1)
    await child.started
    assert child.process is not None
    bench.sign(child.process.pid).unlink()
    await asyncio.sleep(7)
    assert len(bench.lines) == 1


async def test_one_that_cannot_be_run_says_what_is_missing(bench: Bench) -> None:
    child = bench.start("exit 0")
    await child.stop(0)
    program = msgspec.structs.replace(child.program, command=("/nonexistent/python",))
    missing = Child(program, report=bench.lines.append, watchdog=bench.watchdog)
    bench.children.append(missing)
    with pytest.raises(StartError, match="No such file or directory"):
        await missing.started


async def test_a_row_of_failed_starts_is_told_once_and_loudly(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backoff, "LONGEST", 0.02)
    monkeypatch.setattr(Backoff, "FAILING", 0.02)
    child = bench.start(
        f"if [ ! -e begun ]; then touch begun; {ARRIVES} sleep 0.2; exit 0; fi; echo broken; exit 3"
    )
    await child.started
    await bench.until(lambda: child._backoff.failed_starts > ALERT_AFTER + 1)
    loud = [line for line in bench.lines if line.level == "error"]
    assert len(loud) == 1
    assert loud[0].text.startswith(
        f"failed to start {ALERT_AFTER} times in a row and is tried every 0.02 s: broken"
    )


async def test_stopping_waits_for_what_is_being_finished(bench: Bench) -> None:
    child = bench.start(
        f"trap 'sleep 0.2; echo done > finished; exit 0' TERM; {ARRIVES} while :; do sleep 0.02; done"
    )
    await child.started
    await child.stop(5.0)
    assert (bench.folder / "finished").exists()
    assert not bench.said("started again")


async def test_stopping_kills_what_does_not_end_and_what_it_left(bench: Bench) -> None:
    child = bench.start(f"trap '' TERM; sleep 60 & echo $! > left; {ARRIVES} while :; do sleep 0.02; done")
    await child.started
    assert child.process is not None
    left = int((bench.folder / "left").read_text())
    await child.stop(0.1)
    await bench.until(lambda: gone(child.process.pid) if child.process else True)
    await bench.until(lambda: not runs(left))


async def test_what_an_ended_process_left_is_ended(bench: Bench) -> None:
    child = bench.start(f"sleep 60 & echo $! > left; {ARRIVES} sleep 0.1; exit 0")
    await child.started
    await bench.until(lambda: bench.said("ended with exit code 0"))
    await bench.until(lambda: not runs(int((bench.folder / "left").read_text())))


async def test_the_warden_ends_what_is_enrolled_when_the_lifeline_is_cut(bench: Bench) -> None:
    (bench.folder / "office.json").write_text("{}")
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", "sleep 60", start_new_session=True)
    ended = await asyncio.create_subprocess_exec("/bin/sh", "-c", "sleep 60", start_new_session=True)
    bench.watchdog.add(process.pid, 1)
    bench.watchdog.add(ended.pid, 0)
    bench.watchdog.remove(ended.pid)
    await bench.watchdog.stop()
    assert await process.wait() == -signal.SIGTERM
    assert not (bench.folder / "office.json").exists()
    assert ended.returncode is None
    ended.kill()
    await ended.wait()


def runs(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_one_office_at_a_time_holds_the_lock(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    assert read_supervisor(tmp_path) == 0
    lock = InstanceLock.acquire(tmp_path)
    assert lock is not None
    assert InstanceLock.acquire(tmp_path) is None
    assert is_held(tmp_path)
    assert read_supervisor(tmp_path) == os.getpid()
    lock.release()
    assert not is_held(tmp_path)
    again = InstanceLock.acquire(tmp_path)
    assert again is not None
    again.release()
