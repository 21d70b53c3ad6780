"""The gate as a process: it ends with its parent, and commands end in their time whatever becomes of it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from shared.sandbox.gate_client import gate
from tests.flow.gates import ASK, Canary, reach_of, serve_mirror
from tests.flow.jailing import ROOT, python, shell
from tests.support.http import HttpServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")


@pytest.fixture
def mirror() -> Iterator[HttpServer]:
    canary = Canary()
    with serve_mirror(canary.port) as server:
        yield server
    canary.close()


def gate_process() -> psutil.Process:
    assert gate.process is not None
    return psutil.Process(gate.process.pid)


async def test_one_gate_serves_all_commands_of_a_process(tmp_path: Path) -> None:
    await shell("true", tmp_path, reach=reach_of("example.org"))
    first = gate_process().pid
    await shell("true", tmp_path, reach=reach_of("example.org"))
    assert gate_process().pid == first
    assert list(gate.folder.iterdir()) == []
    assert gate.folder.stat().st_mode & 0o077 == 0


async def test_a_killed_gate_is_replaced_for_the_next_command(tmp_path: Path, mirror: HttpServer) -> None:
    reach = reach_of(f"127.0.0.1:{mirror.port}")
    code = f"{ASK}\nprint(ask(b'GET http://127.0.0.1:{mirror.port}/ HTTP/1.0\\r\\n\\r\\n'))"
    await python(code, tmp_path, reach=reach)
    gate_process().kill()
    result = await python(code, tmp_path, reach=reach)
    assert "200 OK" in result.output


async def test_a_gate_killed_in_the_middle_closes_the_way_and_the_command_goes_on(
    tmp_path: Path, mirror: HttpServer
) -> None:
    await shell("true", tmp_path, reach=reach_of("example.org"))
    code = f"""{ASK}
import pathlib, time
tunnel = socket.create_connection(("127.0.0.1", 61128))
tunnel.sendall(b"CONNECT 127.0.0.1:{mirror.port} HTTP/1.1\\r\\n\\r\\n")
print(tunnel.recv(100))
pathlib.Path("ready").touch()
try:
    print("ended", tunnel.recv(100))
except OSError as error:
    print("ended", type(error).__name__)
try:
    print(connect("example.org:443"))
except OSError as error:
    print(type(error).__name__)
"""
    running = asyncio.ensure_future(
        python(code, tmp_path, reach=reach_of(f"127.0.0.1:{mirror.port}"), seconds=30.0)
    )
    await eventually((tmp_path / "ready").exists)
    gate_process().kill()
    result = await running
    assert "ended" in result.output
    # Of a gate that is dying the way is closed at the connection, or at the first words over it.
    assert result.output.splitlines()[-1].strip("[]") in ("ConnectionRefusedError", "ConnectionResetError")
    assert result.exit_code == 0
    assert result.seconds < 10


async def test_a_frozen_gate_delays_no_end_beyond_its_time(tmp_path: Path) -> None:
    await shell("true", tmp_path, reach=reach_of("example.org"))
    frozen = gate_process()
    frozen.suspend()
    started = time.monotonic()
    quick = await shell("echo done", tmp_path, reach=reach_of("example.org"))
    assert (quick.exit_code, quick.output) == (0, "done\n")
    assert quick.connections == ()
    stuck = f"{ASK}\nprint(connect('example.org:443'))"
    after = await python(stuck, tmp_path, 3.0, reach=reach_of("other.example"))
    assert time.monotonic() - started < 20
    assert not frozen.is_running()
    assert "403" in after.output


async def test_a_gate_frozen_in_the_middle_leaves_the_command_its_timeout(tmp_path: Path) -> None:
    await shell("true", tmp_path, reach=reach_of("example.org"))
    code = f"{ASK}\nimport pathlib, time\npathlib.Path('ready').touch(); time.sleep(1); connect('a.b:443')"
    running = asyncio.ensure_future(python(code, tmp_path, 4.0, reach=reach_of("other.example")))
    await eventually((tmp_path / "ready").exists)
    gate_process().suspend()
    started = time.monotonic()
    result = await running
    assert result.timed_out
    assert time.monotonic() - started < 12


async def test_cancelling_the_caller_closes_the_way(tmp_path: Path, mirror: HttpServer) -> None:
    code = f"""{ASK}
import pathlib, time
tunnel = socket.create_connection(("127.0.0.1", 61128))
tunnel.sendall(b"CONNECT 127.0.0.1:{mirror.port} HTTP/1.1\\r\\n\\r\\n")
tunnel.recv(100)
pathlib.Path("ready").touch()
time.sleep(60)
"""
    running = asyncio.ensure_future(python(code, tmp_path, 60.0, reach=reach_of(f"127.0.0.1:{mirror.port}")))
    await eventually((tmp_path / "ready").exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    def is_closed() -> bool:
        return not [each for each in gate_process().net_connections() if each.status == "ESTABLISHED"]

    await eventually(is_closed)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_gate_ends_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    code = f"""
import asyncio, time
from pathlib import Path
from shared.sandbox import Reach, run_command
from shared.sandbox.gate_client import gate
reach = Reach(hosts=("example.org",))
asyncio.run(run_command(["true"], cwd=Path({str(tmp_path)!r}), timeout=20, reach=reach))
print(gate.process.pid, gate.folder, flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        os.kill(parent.pid, number)
    until = time.monotonic() + 10
    while (psutil.pid_exists(int(pid)) or Path(folder).exists()) and time.monotonic() < until:
        time.sleep(0.05)
    assert not psutil.pid_exists(int(pid))
    assert not Path(folder).exists()
