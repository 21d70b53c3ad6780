"""Three nats-servers for tests that keep one log: killed, frozen and started again one by one."""

import asyncio
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from services.cli.supervisor.cluster import ServerPlace, plan_servers, urls, write_cluster
from services.cli.supervisor.programs import find_server, is_listening, server_command
from services.cli.supervisor.provisioning import provision_streams, write_servers
from shared import subjects
from shared.bus import Bus
from shared.queries.records import call_server
from tests.support.server import Server
from tests.support.waiting import eventually


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
        write_cluster(self.config, self.places)
        self.processes = [self._launch(at) for at in range(len(self.places))]
        await asyncio.gather(*(self._listens(at) for at in range(len(self.places))))
        await provision_streams(self.config, self.url, self.agents)

    def _launch(self, at: int) -> "subprocess.Popen[bytes]":
        place = self.places[at]
        command = server_command(self.config, find_server(self.config), place.port, place.config)
        log = self.config.logs / f"{place.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    async def _listens(self, at: int) -> None:
        await eventually(lambda: is_listening(self.places[at].port), 15)

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
