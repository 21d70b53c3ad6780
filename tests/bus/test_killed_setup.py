"""kill -9 while an office is set up: the next start makes what is missing, whatever step was the last."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.supervisor.provisioning import provision_streams, write_config
from shared import settings, subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import Email
from tests.bus.conftest import AGENTS
from tests.support.nats_server import NatsServer
from tests.support.server import ROOT, environment

FILES = """
import os, resource, signal, sys
from pathlib import Path
from services.cli.supervisor.provisioning import write_config
from shared import settings

AGENTS = sys.argv[2:]
STEPS = ("os.rename", "os.link", "os.remove", "os.chmod", "os.mkdir")

def write(folder):
    folder.mkdir(exist_ok=True)
    write_config(settings.load({"MAILROOM_STATE_DIR": str(folder)}), AGENTS)

def kill_at_step(number):
    left = [number]
    def count(event, arguments):
        is_writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if event in STEPS or is_writing:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
    sys.addaudithook(count)

def kill_at_byte(number):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))

def is_killed(name, prepare, number):
    folder = Path(sys.argv[1], f"{name}-{number}")
    pid = os.fork()
    if pid == 0:
        prepare(number)
        write(folder)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    write(folder)
    return killed

number = 0
while is_killed("step", kill_at_step, number):
    number += 1
print(number, sum(is_killed("byte", kill_at_byte, size) for size in (0, 1, 30, 57, 100, 1000)))
"""
STREAMS = """
import asyncio, os, signal, sys
from services.cli.supervisor.provisioning import provision_streams
from shared import settings
from shared.bus import Bus

left = int(sys.argv[2])

def counted(method):
    async def call(*arguments, **more):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return await method(*arguments, **more)
    return call

for name in ("request", "store", "last"):
    setattr(Bus, name, counted(getattr(Bus, name)))
asyncio.run(provision_streams(settings.load(), sys.argv[1], sys.argv[3:]))
"""


def test_keys_and_configuration_are_whole_after_a_kill_at_any_step(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FILES, str(tmp_path), *AGENTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    steps, cut = map(int, done.stdout.split())
    assert steps > 40
    assert cut == 6
    config = settings.load(environment(tmp_path / "step-0", MAILROOM_NATS_MAX_STORE="0"))
    (config.state_dir / "nats" / "max_store").write_text("")  # as a full disk left it
    write_config(config, AGENTS)
    assert int((config.state_dir / "nats" / "max_store").read_text()) > 0


@pytest.mark.parametrize("number", [0, 1, 4, 5, 12, 25, 40])
async def test_streams_are_whole_after_a_kill_between_any_two_requests(tmp_path: Path, number: int) -> None:
    variables = environment(tmp_path)
    config = settings.load(variables)
    write_config(config, AGENTS)
    server = await NatsServer.start(config, log=config.logs / "nats.log")
    try:
        command = [sys.executable, "-c", STREAMS, server.url, str(number), *AGENTS]
        killed = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=variables)
        assert await killed.wait() == -9
        assert await provision_streams(config, server.url, AGENTS)
        assert await provision_streams(config, server.url, AGENTS) == []
        engineer = await Bus.connect("engineer", server.url, config.keys / "engineer.nk")
        letter = Email(sender="engineer", recipient="critic", body="It works")
        assert await engineer.commit([seal(subjects.mail("critic", "engineer"), letter)]) == (1,)
        await engineer.close()
    finally:
        server.process.kill()
        server.process.wait()
