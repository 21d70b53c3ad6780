"""Three nats-servers for tests that keep one log: killed, frozen and started again one by one."""

import asyncio
import gc
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from services.cli.supervisor.cluster import (
    ServerPlace,
    format_cluster,
    make_certificates,
    plan_servers,
    urls,
    write_cluster,
)
from services.cli.supervisor.programs import find_server, is_listening, server_command
from services.cli.supervisor.provisioning import provision_streams, write_servers
from shared import subjects
from shared.bus import Bus
from shared.queries.records import call_server
from tests.support.server import Server
from tests.support.waiting import eventually

LEAVES_OPEN = pytest.mark.filterwarnings("ignore:unclosed <StreamWriter:ResourceWarning")
"""For tests that freeze a server: nats-py leaves open a connection that a server took and never answered."""


class Cluster(Server):
    """The same on three servers; those of a folder that has them are started again."""

    def __init__(self, folder: Path, agents: Sequence[str] = (), **more: str) -> None:
        super().__init__(folder, agents, **{"MAILROOM_NATS_REPLICAS": "3", **more})
        self.places: list[ServerPlace] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return urls(self.places)

    async def start(self) -> None:
        self.places = plan_servers(self.config)
        write_servers(self.config, self.agents)
        self._configure()
        self.processes = [self._launch(at) for at in range(len(self.places))]
        await asyncio.gather(*(self._listens(at) for at in range(len(self.places))))
        await provision_streams(self.config, self.url, self.agents)

    def _configure(self) -> None:
        write_cluster(self.config, self.places)

    def _command(self, at: int) -> list[str]:
        place = self.places[at]
        return server_command(self.config, find_server(self.config), place.port, place.config)

    def _launch(self, at: int) -> "subprocess.Popen[bytes]":
        place, command = self.places[at], self._command(at)
        log = self.config.logs / f"{place.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    async def _listens(self, at: int) -> None:
        await eventually(lambda: self._is_listening(at), 15)

    def _is_listening(self, at: int) -> bool:
        return is_listening(self.places[at].port)

    def kill_one(self, at: int) -> None:
        self.processes[at].kill()
        self.processes[at].wait()

    def signal(self, at: int, number: int) -> None:
        self.processes[at].send_signal(number)

    async def start_one(self, at: int) -> None:
        """Start one that was killed."""
        self.processes[at] = self._launch(at)
        await self._listens(at)

    async def leader(self, bus: Bus, stream: str = subjects.OFFICE) -> int:
        """Which server leads a stream."""
        names = [place.name for place in self.places]

        async def find() -> int | None:
            info = await call_server(bus, f"STREAM.INFO.{stream}")
            name = info["cluster"].get("leader", "")  # type: ignore[attr-defined]
            return names.index(name) + 1 if name in names else None

        return await eventually(find, 20) - 1

    def kill(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def end(self) -> None:
        self.kill_gateway()
        self.kill()
        gc.collect()  # what LEAVES_OPEN is for is found here, not in a test of another module


class Divisible(Cluster):
    """Three servers in network namespaces of their own, which can be cut off from each other. As root.

    The third has a small disk.
    """

    DISK = 96 << 20

    def __init__(self, folder: Path, agents: Sequence[str] = (), **more: str) -> None:
        super().__init__(folder, agents, **more)
        self._name = f"mr{os.getpid() % 10_000}"
        self._net = f"10.213.{os.getpid() % 250}"

    def address(self, at: int) -> str:
        return f"{self._net}.{at + 1}"

    @property
    def url(self) -> str:
        return ",".join(f"nats://{self.address(at)}:4222" for at in range(3))

    async def start(self) -> None:
        # The bridge is in a namespace too: rules of this machine for what is forwarded do not count there.
        hub = f"{self._name}-hub"
        run("netns", "add", hub)
        run("-n", hub, "link", "add", "hub", "type", "bridge")
        run("-n", hub, "link", "set", "hub", "up")
        for at in range(4):
            space, cable = f"{self._name}-{at}", f"port{at}"
            if at == 3:  # this machine
                run("link", "add", self._name, "type", "veth", "peer", "name", cable, "netns", hub)
                run("addr", "add", f"{self._net}.254/24", "dev", self._name)
                run("link", "set", self._name, "up")
            else:
                run("netns", "add", space)
                run("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", cable, "netns", hub)
                run("-n", space, "addr", "add", f"{self.address(at)}/24", "dev", "eth0")
                for each in ("lo", "eth0"):
                    run("-n", space, "link", "set", each, "up")
            run("-n", hub, "link", "set", cable, "master", "hub", "up")
        store = self.config.state_dir / "nats-3" / "store"
        store.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self.DISK}", "tmpfs", store]
        await asyncio.to_thread(subprocess.run, mount, check=True)
        await super().start()

    def _configure(self) -> None:
        certificates = self.config.state_dir / "nats" / "certificates"
        make_certificates(certificates, more=[self.address(at) for at in range(3)])
        routes = [f"nats-route://{self.address(at)}:6222" for at in range(3)]
        for at, place in enumerate(self.places):
            text = format_cluster(place.name, f"{self.address(at)}:6222", routes, certificates)
            place.config.write_text(text)

    def _command(self, at: int) -> list[str]:
        files = ["--config", str(self.places[at].config), "--addr", self.address(at), "--port", "4222"]
        space = ["ip", "netns", "exec", f"{self._name}-{at}"]
        return [*space, str(find_server(self.config)), *files]

    def _is_listening(self, at: int) -> bool:
        with socket.socket() as probe:
            probe.settimeout(0.2)
            return probe.connect_ex((self.address(at), 4222)) == 0

    def cut(self, at: int, *, whole: bool = False) -> None:
        """Have a server send nothing to the others, or again (``whole``); clients still reach it."""
        for other in {0, 1, 2} - {at}:
            verb = "del" if whole else "add"
            run("-n", f"{self._name}-{at}", "route", verb, "blackhole", f"{self.address(other)}/32")

    def end(self) -> None:
        super().end()
        run("link", "del", self._name, check=False)
        for each in (0, 1, 2, "hub"):
            run("netns", "del", f"{self._name}-{each}", check=False)
        store = self.config.state_dir / "nats-3" / "store"
        subprocess.run(["umount", "--lazy", store], check=False, capture_output=True)


def run(*arguments: str, check: bool = True) -> None:
    """Run ``ip``."""
    subprocess.run(["ip", *arguments], check=check, capture_output=True)


def may_divide() -> bool:
    """Whether network namespaces can be made here."""
    if os.geteuid() or not shutil.which("ip"):
        return False
    name = f"mrtry{os.getpid() % 10_000}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    if made:
        run("netns", "del", name, check=False)
    return made
