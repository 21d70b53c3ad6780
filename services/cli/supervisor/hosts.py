"""What the supervisor of an office does for other hosts: they join and leave, and the servers learn of it.

The list of hosts lies beside the seeds; commands change it, and so does this when a host joins or leaves.
Whatever changed it, the difference to what was in force before is loaded into the servers and recorded in the
log, also if it was made while the office was closed.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from services.cli.supervisor.logs import LogLine
from services.cli.supervisor.provisioning import provision_streams, read_public_keys, write_servers
from shared import subjects
from shared.bus import Bus
from shared.bus.connecting import read_seed, secret_of_ids
from shared.bus.entry import seal
from shared.bus.hosts import HOSTS, Host, Hosts, Membership, changing_hosts, read_hosts
from shared.bus.joining import JoinRequest, know, open_request, write_answer
from shared.bus.records import read_presences
from shared.contracts import AccessAct, AccessChanged, generate_iso_timestamp
from shared.errors import MailroomError, Refused, StartError
from shared.files import write_atomically
from shared.settings import Settings
from shared.text.display import shorten

POLL = 0.5  # Seconds between two looks at the list
SEEN_EVERY = 10.0  # Seconds between two looks at which hosts have processes at work
RELOADS, RELOAD_INTERVAL = 2, 0.2
"""How often the servers read their configuration: nats-server 2.15.1 connects imports the second time."""


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that the servers know, by the list as it was ``at`` its time of modification.

    ``seen`` is the second since 1970 at which each had a process at work last.
    """

    at: int = 0
    hosts: Hosts = Hosts()
    seen: dict[str, float] = {}


def read_in_force(config: Settings) -> InForce:
    """What the servers know; nothing if that was never stored, or cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return msgspec.json.decode(_in_force(config).read_bytes(), type=InForce)
    return InForce()


def is_in_force(config: Settings) -> bool:
    """Whether the servers know the hosts as they are listed."""
    return (config.keys / HOSTS).stat().st_mtime_ns == read_in_force(config).at


def _in_force(config: Settings) -> Path:
    return config.state_dir / "run" / HOSTS


class HostDesk:
    """Answers hosts, and keeps the servers in line with their list.

    ``agents`` says whose accounts there are, ``reload`` has the office's servers read their configuration.
    """

    def __init__(
        self,
        config: Settings,
        url: str,
        agents: Callable[[], Sequence[str]],
        reload: Callable[[], None],
        report: Callable[[LogLine], None],
    ) -> None:
        self._config, self._url = config, url
        self._agents, self._reload, self._on_event = agents, reload, report
        self._loading = asyncio.Lock()
        self._leaving: set[str] = set()
        self._bus: Bus | None = None
        self._looked_at = float("-inf")

    async def run(self) -> None:
        """Do so until cancelled. An office without hosts looks for its list twice a second, and no more."""
        told = ""
        try:
            while True:
                try:
                    await self._look()
                    told = ""
                except (MailroomError, OSError, TimeoutError) as error:
                    if str(error) != told:
                        self._report("warning", f"hosts: {error}")
                    told = str(error)
                await asyncio.sleep(POLL)
        finally:
            if self._bus is not None:
                await self._bus.close()

    async def _look(self) -> None:
        if not (self._config.keys / HOSTS).exists():
            return
        if not is_in_force(self._config):
            await self._load()
        hosts = read_hosts(self._config.keys)
        if any(each.until < time.time() for each in hosts.invited.values()):
            with changing_hosts(self._config.keys) as hosts:
                for name in [name for name, each in hosts.invited.items() if each.until < time.time()]:
                    del hosts.invited[name]
        if (hosts.joined or hosts.invited) and self._bus is None:
            self._bus = await self._connect()
        if hosts.joined and time.monotonic() > self._looked_at + SEEN_EVERY and self._bus is not None:
            self._looked_at = time.monotonic()
            await self._note_seen(self._bus, hosts)

    async def _connect(self) -> Bus:
        seed = self._config.keys / f"{subjects.ADMIN}.nk"
        bus = await Bus.connect(subjects.ADMIN, self._url, seed)
        await bus.answer(subjects.joining("*"), self._answer_join)
        await bus.answer(subjects.asking("*"), self._answer_leave)
        return bus

    async def _note_seen(self, bus: Bus, hosts: Hosts) -> None:
        at_work = {subjects.host_of(each.instance) for each in await read_presences(bus)}
        now = {name: time.time() for name in at_work & hosts.joined.keys()}
        known = read_in_force(self._config)
        self._store(msgspec.structs.replace(known, seen=known.seen | now))

    # --- what hosts ask --------------------------------------------------------------------------

    async def _answer_join(self, subject: str, data: bytes) -> bytes:
        name = subject.rpartition(".")[2]
        try:
            request = await asyncio.to_thread(self._admit, name, data)
            await self._load()
            return write_answer(self._membership(request), key=request.key)
        except Refused as error:
            event = _event(AccessAct.HOST_REFUSED, name, error.cause)
            await self._record([event])
            self._report("warning", f"host {name} was refused: {error.cause}")
            return write_answer(refused=error.cause)
        except (MailroomError, OSError, TimeoutError) as error:
            self._report("error", f"host {name} could not join: {error}")
            return write_answer(refused="The office could not let it join; its log says why. Try again")

    def _admit(self, name: str, data: bytes) -> JoinRequest:
        """Enter a host that asks with a token that counts; raises Refused."""
        with changing_hosts(self._config.keys) as hosts:
            invitation = hosts.invited.get(name)
            if invitation is None or invitation.until < time.time():
                raise Refused("The token has expired or was revoked")
            request = open_request(data, invitation)
            if invitation.used_by and invitation.used_by != request.key:
                raise Refused("The token was used already, by another host")
            if more := sorted(request.roles.keys() - set(invitation.roles)):
                raise Refused(f"The token is for {', '.join(invitation.roles)}, not for {', '.join(more)}")
            taken = {*read_public_keys(self._config).values(), *_keys_of(hosts, but=name)}
            mine = [request.key, *request.roles.values()]
            if request.host != name or not request.roles or len({*mine}) < len(mine) or taken & {*mine}:
                raise Refused("Its keys or its name are those of another")
            known = hosts.joined.get(name)
            if known is None or (known.key, known.roles) != (request.key, request.roles):
                hosts.joined[name] = Host(
                    key=request.key, roles=request.roles, joined_at=generate_iso_timestamp()
                )
            hosts.invited[name] = msgspec.structs.replace(invitation, used_by=request.key)
        return request

    def _membership(self, request: JoinRequest) -> Membership:
        config = self._config
        seeds = {role: read_seed(role, config.keys / f"{role}.nk") for role in request.roles}
        shared = ("nats_sync", "task_ack_wait", "max_attempts")
        return Membership(
            host=request.host,
            servers="",
            roles=tuple(request.roles),
            ids={role: secret_of_ids(seed).hex() for role, seed in seeds.items()},
            settings={name: getattr(config, name) for name in shared},
        )

    async def _answer_leave(self, subject: str, _: bytes) -> bytes:
        name = subject.rpartition(".")[2]
        self._leaving.add(name)

        def remove() -> None:
            with changing_hosts(self._config.keys) as hosts:
                hosts.joined.pop(name, None)
                hosts.invited.pop(name, None)

        try:
            await asyncio.to_thread(remove)
        except (MailroomError, OSError, TimeoutError) as error:
            return write_answer(refused=str(error))
        return write_answer()  # its key is gone as soon as the servers are told

    # --- what follows ----------------------------------------------------------------------------

    async def _load(self) -> None:
        """Have the servers know the hosts as they are listed, and record what changed."""
        async with self._loading:
            config = self._config
            at, hosts = (config.keys / HOSTS).stat().st_mtime_ns, read_hosts(config.keys)
            before = read_in_force(config)
            if at == before.at:
                return
            agents = await asyncio.to_thread(self._agents)
            await asyncio.to_thread(write_servers, config, agents)
            for _ in range(RELOADS):
                self._reload()
                await asyncio.sleep(RELOAD_INTERVAL)
            if not await know(self._url, hosts):
                raise StartError("the servers have not read their list yet", "See logs/nats.log")
            await provision_streams(config, self._url, agents)
            events = list(_differences(before.hosts, hosts, self._leaving))
            await self._record(events)
            for event in events:
                self._report("info", f"{event.act.value.replace('_', ' ')}: {event.about} ({event.reason})")
            self._leaving -= before.hosts.joined.keys()
            kept = {name: moment for name, moment in before.seen.items() if name in hosts.joined}
            self._store(InForce(at=at, hosts=hosts, seen=kept))

    def _store(self, known: InForce) -> None:
        write_atomically(_in_force(self._config), msgspec.json.encode(known))

    async def _record(self, events: Sequence[AccessChanged]) -> None:
        if not events:
            return
        bus = self._bus or await self._connect()
        self._bus = bus
        await bus.commit([seal(subjects.event(subjects.ADMIN, each.act.value), each) for each in events])

    def _report(self, level: str, text: str) -> None:
        self._on_event(LogLine("office", level, text))


def _keys_of(hosts: Hosts, *, but: str) -> Iterator[str]:
    """The public keys of all invitations, and of all hosts but one."""
    yield from (each.key for each in hosts.invited.values())
    for name, host in hosts.joined.items():
        if name != but:
            yield from (host.key, *host.roles.values())


def _differences(before: Hosts, now: Hosts, leaving: set[str]) -> Iterator[AccessChanged]:
    """What was done to get from one list to another."""
    for name, invitation in now.invited.items():
        if (known := before.invited.get(name)) is None or known.key != invitation.key:
            yield _event(AccessAct.HOST_INVITED, name, f"as {', '.join(invitation.roles)}")
    for name, host in now.joined.items():
        if before.joined.get(name) != host:
            keys = ", ".join(f"{role} {key}" for role, key in host.roles.items())
            yield _event(AccessAct.HOST_JOINED, name, keys)
    for name, host in before.joined.items():
        if name not in now.joined:
            act = AccessAct.HOST_LEFT if name in leaving else AccessAct.HOST_REVOKED
            yield _event(act, name, ", ".join(host.roles))
    for name in before.invited.keys() - now.invited.keys() - now.joined.keys() - before.joined.keys():
        yield _event(AccessAct.HOST_REVOKED, name, "its token counts no longer")


def _event(act: AccessAct, host: str, reason: str) -> AccessChanged:
    return AccessChanged(sender=subjects.ADMIN, act=act, about=host, reason=shorten(reason, 500))
