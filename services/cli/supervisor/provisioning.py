"""Provisioning of a nats-server: keys, accounts, streams; and what people ordered to be forgotten."""

import asyncio
import contextlib
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from services.cli.supervisor.cluster import folders, format_encryption
from services.cli.supervisor.logs import LogLine
from shared import subjects
from shared.access.credentials import TOKEN_FILE, keep_command_token
from shared.bus import Bus
from shared.bus.accounts import OFFICE_ACCOUNT, Tenant, write_server_config
from shared.bus.connecting import ensure_keys
from shared.bus.hosts import Hosts, make_seed, read_hosts
from shared.bus.joining import is_key, know
from shared.bus.provision import provision
from shared.bus.stores import buckets_of
from shared.errors import BusUnavailable, Denied, MailroomError, StartError
from shared.files import write_atomically
from shared.log import logger
from shared.operations.erasure.orders import carry_out_archives, carry_out_orders, has_work
from shared.operations.erasure.retention import count_in_hand
from shared.operations.recovery import deliver_lost_again
from shared.settings import Settings, load
from shared.text.display import count

NAMED_WAIT = 3.0  # Seconds until the server that NATS_URL names must answer
TEMPLATES = Path(__file__).resolve().parents[3] / "deploy" / "nats"
PUBLIC_KEYS = "public.json"
"""The file beside the seeds with all public keys by name, for who provisions with the admin's seed alone."""
MIN_STORE = 64 * 1024 * 1024  # The least bytes of storage that JetStream works with
SLACK = 1024 * 1024  # Bytes that are not set aside: the server counts one more for an account without a limit
OFFICES = "offices"  # The folder of the offices that are tenants of this one's server

log = logger(__name__)


def write_config(
    settings: Settings,
    agents: Sequence[str],
    *,
    folder: Path | None = None,
    store: str = "",
    encryption: str = "",
) -> bool:
    """Create missing keys and the commands' token, and write the server's configuration, if it changes.

    Returns whether it did.

    ``folder`` gets the configuration (default ``<state_dir>/nats``), ``store`` is the folder of JetStream's
    files as the server sees it, ``encryption`` what it says of TLS with clients. Raises StartError if the
    disk is full or not writable.
    """
    folder = folder or settings.state_dir / "nats"
    people = list_people(settings) if subjects.GATEWAY in agents else []
    keys = ensure_keys(settings.keys, [*agents, subjects.USER, subjects.ADMIN, subjects.ERASER, *people])
    keep_command_token(settings)
    try:
        write_atomically(settings.keys / PUBLIC_KEYS, json.dumps(keys).encode(), mode=0o600)
        folder.mkdir(parents=True, exist_ok=True)
        limit = settings.nats_max_store or store_limit(folder)
        changed = write_server_config(
            folder / "office.conf",
            settings,
            agents,
            keys,
            store=store or str(folder / "store"),
            max_store=limit,
            encryption=encryption,
            tenants=list(_admissible(settings, limit, set(keys.values()))),
        )
        for template in TEMPLATES.glob("*.conf"):
            shutil.copyfile(template, folder / template.name)
    except OSError as error:
        raise StartError(
            f"The folder {folder} cannot be written: {error.strerror}",
            "Free disk space or make it writable, or set MAILROOM_STATE_DIR to another folder",
        ) from None
    return changed


def list_people(settings: Settings) -> list[str]:
    """The identities of the people who have a key of their own (``mailroom people key``)."""
    return sorted(path.stem for path in settings.keys.glob(f"{subjects.PERSON}*.nk"))


def write_servers(settings: Settings, agents: Sequence[str]) -> bool:
    """The same for each server that the office runs itself."""
    places, encryption = folders(settings, settings.nats_replicas), format_encryption(settings)
    changed = [write_config(settings, agents, folder=each, encryption=encryption) for each in places]
    return any(changed)


def read_tenants(settings: Settings) -> list[Settings]:
    """The settings of the offices on the server of this one; one that cannot be read is left out."""
    found = []
    for path in sorted((settings.state_dir / OFFICES).glob("*/mailroom.toml")):
        try:
            tenant = load({"MAILROOM_STATE_DIR": str(path.parent)})
            if tenant.nats_tenant == path.parent.name:
                found.append(tenant)
        except MailroomError as error:
            log.warning("an office on this server is left out", office=path.parent.name, reason=str(error))
    return found


def _admissible(settings: Settings, limit: int, taken: set[str]) -> Iterator[Tenant]:
    """The tenants that the server can take: it would refuse its whole configuration for a key that is none,
    or that another account has, and for more bytes than it may store.
    """
    left = limit // 2 - SLACK
    for each in read_tenants(settings):
        keys = _keys_of_tenant(each)
        left -= each.nats_max_store
        needed = {subjects.USER, subjects.ADMIN, subjects.ERASER}
        whole = needed <= keys.keys() and all(map(is_key, keys.values())) and each.nats_max_store >= MIN_STORE
        named = all(re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name) for name in keys)
        if whole and named and left >= 0 and len({*keys.values()} - taken) == len(keys):
            taken.update(keys.values())
            yield Tenant(name=each.nats_tenant, keys=keys, max_store=each.nats_max_store)
        else:
            left += each.nats_max_store
            log.warning(
                "an office on this server is left out", office=each.nats_tenant, reason="keys or size"
            )


def _keys_of_tenant(tenant: Settings) -> dict[str, str]:
    """Its public keys; people's by their seeds, so that a key which is gone counts no longer at once."""
    known = read_public_keys(tenant)
    keys = {name: key for name, key in known.items() if not name.startswith(subjects.PERSON)}
    with suppress(MailroomError):
        if subjects.GATEWAY in keys:
            keys |= ensure_keys(tenant.keys, list_people(tenant))
    return keys


def store_limit(folder: Path) -> int:
    """Half of the free space, so that the server rejects messages before the disk is full.

    It is computed once and kept: the store itself uses up free space.
    """
    remembered = folder / "max_store"
    with contextlib.suppress(OSError, ValueError):
        return int(remembered.read_text())
    free = shutil.disk_usage(folder).free
    limit = min(10 * 1024**3, free // 2)
    if limit < MIN_STORE:
        raise StartError(f"Only {free // 1024**2} MB are free in {folder}", "Free at least 128 MB")
    write_atomically(remembered, str(limit))
    return limit


def deal_keys(settings: Settings, names: Sequence[str], folder: Path) -> None:
    """Copy the key of each identity to ``<folder>/<name>``, a folder of its own for a container to mount.

    The admin's gets the public keys of all too, the gateway's and the user's the token of the commands.
    Raises StartError if it cannot be written.
    """
    shared = [(name, TOKEN_FILE) for name in (subjects.GATEWAY, subjects.USER)]
    for name, file in (*((name, f"{name}.nk") for name in names), (subjects.ADMIN, PUBLIC_KEYS), *shared):
        target = folder / name / file
        key = (settings.keys / file).read_bytes()
        try:
            if target.exists() and target.read_bytes() == key:
                continue
            write_atomically(target, key, mode=0o600)
        except OSError as error:
            raise StartError(
                f"The key {target} cannot be written: {error.strerror}", "Make its folder writable"
            ) from None


async def provision_streams(settings: Settings, url: str, agents: Sequence[str]) -> list[str]:
    """Create or update streams, buckets and consumers as the admin; returns what changed."""
    keys, hosts = _public_keys(settings, agents), read_hosts(settings.keys)
    bus = await Bus.connect(subjects.ADMIN, url, settings.keys / f"{subjects.ADMIN}.nk")
    try:
        return await provision(
            bus,
            {name: (key, *hosts.keys_of(name).values()) for name, key in keys.items()},
            ack_wait=settings.task_ack_wait,
            max_attempts=settings.max_attempts,
            replicas=settings.nats_replicas,
            buckets=buckets_of(read_hosts(settings.keys)),
        )
    finally:
        await bus.close()


def _public_keys(settings: Settings, agents: Sequence[str]) -> dict[str, str]:
    known = read_public_keys(settings)
    if known.keys() >= set(agents):
        return {name: known[name] for name in agents}
    return ensure_keys(settings.keys, agents)


def read_public_keys(settings: Settings) -> dict[str, str]:
    """The public keys of all identities by name; none if the file is not there."""
    with contextlib.suppress(OSError, ValueError):
        return msgspec.json.decode((settings.keys / PUBLIC_KEYS).read_bytes(), type=dict[str, str])
    return {}


async def provision_named(settings: Settings, agents: Sequence[str]) -> list[str]:
    """The same on the server that NATS_URL names; raises StartError if that server cannot be used."""
    try:
        if not await _enforces_rights(settings):
            raise Denied("It accepts any client")
        return await provision_streams(settings, settings.nats_url, agents)
    except Denied:
        if settings.nats_tenant:
            raise StartError(
                f"The server at {settings.nats_url} does not know the keys of {settings.nats_tenant}",
                f"Repeat 'mailroom office add {settings.nats_tenant}' in the office whose server it is",
            ) from None
        include = settings.state_dir / "nats" / "office.conf"
        raise StartError(
            f"The server at {settings.nats_url} does not know the office's keys",
            f"Add the line 'include {include}' to its configuration and reload it",
        ) from None
    except BusUnavailable as error:
        raise StartError(
            f"NATS_URL names a server that cannot be used: {error.cause}",
            "Start that server, correct NATS_URL, or unset it to have the office start a server of its own",
        ) from None


async def recover(settings: Settings, url: str) -> list[str]:
    """Have delivered again what a power loss cut off, before the agents start; returns what begins again.

    That is looked for if the machine was restarted since the office opened last, or if the state folder
    is a copy.
    """
    mark, place = settings.state_dir / "run" / "place", _place_of(settings.state_dir)
    known = mark.read_text() if mark.exists() else place
    if known == place:
        changes = []
    else:
        bus = await Bus.connect(subjects.ADMIN, url, settings.keys / f"{subjects.ADMIN}.nk")
        try:
            changes = await deliver_lost_again(bus, settings.goal_timeout)
        finally:
            await bus.close()
    mark.write_text(place)
    return changes


def _place_of(folder: Path) -> str:
    """The present run of the machine and the folder on its disk."""
    found = folder.stat()
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{boot.read_text().strip() if boot.exists() else ''} {found.st_dev} {found.st_ino}"


async def read_in_hand(settings: Settings, url: str) -> Counter[str]:
    """How many messages each agent had in hand when it ended: what an office that was killed left."""
    bus = await Bus.connect(subjects.ADMIN, url, settings.keys / f"{subjects.ADMIN}.nk")
    try:
        return await count_in_hand(bus)
    finally:
        await bus.close()


async def carry_out_left(settings: Settings) -> int:
    """Erase what people had forgotten, on the server of NATS_URL; returns how many orders were done.

    Without the eraser's key it is left to the process that has it.
    """
    if not (settings.keys / f"{subjects.ERASER}.nk").exists():
        return 0
    bus = await Bus.connect(subjects.ERASER, settings.nats_url, settings.keys / f"{subjects.ERASER}.nk")
    try:
        done = len(await carry_out_orders(bus, settings)) if await has_work(bus) else 0
        while (await carry_out_archives(bus)).done:
            pass
        return done
    finally:
        await bus.close()


async def _enforces_rights(settings: Settings) -> bool:
    """Whether the server has our accounts; a server without accounts lets every client do anything."""
    key = settings.keys / f"{subjects.ADMIN}.nk"
    if settings.nats_tenant:  # nats-server 2.15.1 tells accounts of a reload nothing about themselves
        return not await know(settings.nats_url, Hosts(probe=make_seed()))
    bus = await Bus.connect(subjects.ADMIN, settings.nats_url, key, wait=NAMED_WAIT)
    try:
        answer = json.loads(await bus.request("$SYS.REQ.USER.INFO"))
        return bool(answer["data"]["account"] == OFFICE_ACCOUNT)
    finally:
        await bus.close()


INTERVAL = 1.0  # Seconds between two looks for orders while there are some
AFTERWARDS = 5.0
"""Seconds for which that goes on after an order was heard of: it is heard before it is stored."""
LOOK = 15.0  # Seconds between two looks while nothing is heard: a message may be lost with the connection
AGAIN, LATEST = 15.0, 600.0
"""Seconds until an order is tried again that could not be carried out wholly: twice as many each time, at
most."""


async def carry_out_without_end(config: Settings, url: str, report: Callable[[LogLine], None]) -> None:
    """Carry out orders until cancelled, also those that were left when the office stopped."""
    told, pause = "", AGAIN
    while True:
        try:
            bus = await Bus.connect(subjects.ERASER, url, config.keys / f"{subjects.ERASER}.nk")
            try:
                heard, soon = await _listen(bus), 0.0
                while True:
                    has_some = await has_work(bus)
                    left = await carry_out(bus, config, report) if has_some else 0
                    if heard.is_set():
                        heard.clear()
                        soon = time.monotonic() + AFTERWARDS
                    if left or has_some or time.monotonic() < soon:
                        await asyncio.sleep(pause if left else INTERVAL)
                    else:
                        with suppress(TimeoutError):
                            async with asyncio.timeout(LOOK):
                                await heard.wait()
                    pause = min(2 * pause, LATEST) if left else AGAIN
            finally:
                await bus.close()
        except (MailroomError, OSError) as error:
            if str(error) != told:
                report(LogLine("office", "warning", f"what is to be forgotten is not erased yet: {error}"))
            told = str(error)
            await asyncio.sleep(AGAIN)


async def _listen(bus: Bus) -> asyncio.Event:
    """Set, from now on, when there is a message that leads to something to erase or to delete."""
    heard = asyncio.Event()

    async def hear(*_: object) -> None:
        heard.set()

    for subject in subjects.ORDERS_OF_ERASURE:
        await bus.subscribe(subject, hear)
    return heard


async def carry_out(bus: Bus, config: Settings, report: Callable[[LogLine], None]) -> int:
    """Carry out the orders that there are; returns how many messages, and bundles, are left for later."""
    done = await carry_out_orders(bus, config)
    left = sum(carried.busy + len(carried.waiting) for carried in done.values())
    for order, carried in done.items():
        waits = f"; {count(carried.busy, 'message')} in work is left until later" if carried.busy else ""
        report(LogLine("office", "info", f"erased what quoted a forgotten memory (order {order}){waits}"))
        for reason in carried.waiting:
            report(LogLine("office", "warning", f"order {order} waits: {reason}"))
    archived = await carry_out_archives(bus)
    if archived.deleted:
        what = f"{count(archived.deleted, 'archived message')} deleted on the server"
        report(LogLine("office", "info", what))
    for reason in archived.waiting:
        report(LogLine("office", "warning", f"archived messages stay on the server: {reason}"))
    return left + len(archived.waiting)
