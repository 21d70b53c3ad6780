"""What a process id tells about a process: running, ended, or nothing."""

import os
import subprocess
import sys
import time

import msgspec

from shared.bus.peers import Holder

HERE = Holder.this("me")


def test_a_process_that_runs() -> None:
    assert msgspec.structs.replace(HERE, instance="parent", pid=os.getppid()).is_running(HERE) is True


def test_a_process_that_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert msgspec.structs.replace(HERE, instance="child", pid=process.pid).is_running(HERE) is False


def test_a_process_that_has_ended_and_is_not_yet_waited_for() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    child = msgspec.structs.replace(HERE, instance="child", pid=process.pid)
    deadline = time.monotonic() + 10
    while sys.platform == "linux" and child.is_running(HERE) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert child.is_running(HERE) is (sys.platform != "linux")
    process.wait()


def test_an_earlier_process_that_had_our_id() -> None:
    assert msgspec.structs.replace(HERE, instance="earlier").is_running(HERE) is False


def test_of_another_host_or_container_nothing_is_known() -> None:
    assert msgspec.structs.replace(HERE, instance="x", host="elsewhere").is_running(HERE) is None
    assert msgspec.structs.replace(HERE, instance="x", space="pid:[1]").is_running(HERE) is None
