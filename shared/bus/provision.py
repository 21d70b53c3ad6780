"""Creates and updates the streams, buckets and durables of the office."""

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from shared import subjects
from shared.bus import stores
from shared.bus.client import ELECTING
from shared.bus.commit import ELECTION_WAIT
from shared.bus.connection import Bus
from shared.errors import BusError, BusUnavailable
from shared.log import logger

SECOND = 1_000_000_000
STREAM_NOT_FOUND = 10059
READS = ("INFO.", "NAMES")  # What is asked that changes nothing
ASKED_AGAIN = 2.0  # Seconds after which servers that had no leader are asked again
AT_ONCE = 8  # Durables made at a time: on three servers each takes a group of its own 0.15 s to form
NO_PEERS = 10005
"""The code of a cluster that knows of too few servers for a stream."""
CONSUMER_NOT_FOUND = 10014
_LOGGED = {
    "allow_atomic": True,
    "deny_purge": True,
    "republish": {"src": ">", "dest": subjects.AUDIT_ALL},
}

log = logger(__name__)


async def provision(
    bus: Bus,
    keys: Mapping[str, Sequence[str]],
    *,
    ack_wait: float,
    max_attempts: int,
    replicas: int = 1,
    buckets: Sequence[str] = stores.ALWAYS,
) -> list[str]:
    """Create missing streams and durables, and update those that differ; returns a line for each change.

    ``keys`` are the public keys of the office's agents, by name, those of hosts among them; ``replicas`` is
    on how many servers each stream lies, which never becomes fewer; ``buckets`` are the stores of objects.
    Safe to run at any time and any number of times, as the admin. Raises BusError if the server refuses a
    change.
    """
    agents = tuple(keys)
    changes = []
    for config in streams(replicas, buckets):
        changes += await _ensure_stream(bus, config)
    for name, each in keys.items():  # before the durables: who receives a task can check its signature
        changes += await _publish_keys(bus, name, each)
    slots = asyncio.Semaphore(AT_ONCE)

    async def ensure(stream: str, config: dict[str, Any]) -> list[str]:
        async with slots:
            return await _ensure_durable(bus, stream, config)

    wanted = durables(agents, ack_wait, max_attempts)
    changes += [
        change for each in await asyncio.gather(*(ensure(*each) for each in wanted)) for change in each
    ]
    for change in changes:
        log.info("provisioned", change=change)
    return changes


async def _info(bus: Bus, stream: str) -> dict[str, Any]:
    return await ask(bus, f"STREAM.INFO.{stream}", allow=STREAM_NOT_FOUND)


def streams(replicas: int = 1, buckets: Sequence[str] = stores.ALWAYS) -> list[dict[str, Any]]:
    """The configuration of every stream and bucket, and of the stores of objects."""
    return [{**config, "num_replicas": replicas} for config in _streams(buckets)]


def _streams(buckets: Sequence[str]) -> list[dict[str, Any]]:
    window = int(subjects.DUPLICATE_WINDOW * SECOND)
    advisories = subjects.max_deliveries(subjects.OFFICE, "*")
    return [
        _stream(
            subjects.OFFICE,
            [*subjects.OFFICE_SUBJECTS, subjects.seal("*"), subjects.archive(subjects.OFFICE), advisories],
            duplicate_window=window,
            **_LOGGED,
        ),
        _stream(subjects.MEMORY, subjects.MEMORY_SUBJECTS, duplicate_window=window, **_LOGGED),
        _stream(subjects.FORGETTING, [subjects.forgetting("*")], duplicate_window=window),
        *(_timers(agent) for agent in subjects.TIMED),
        _bucket(subjects.AGENTS_BUCKET, ttl=subjects.PRESENCE_TTL),
        _bucket(subjects.LEASES_BUCKET, ttl=subjects.LEASE_TTL),
        _bucket(subjects.TURNS_BUCKET, ttl=subjects.TURN_TTL),
        _bucket(subjects.BUDGETS_BUCKET, ttl=subjects.BUDGET_TTL),
        _bucket(subjects.IDENTITIES_BUCKET),
        *(_stream(stores.stream_of(each), **stores.config_of(each)) for each in buckets),
        {**_bucket(subjects.GATEWAY_BUCKET), "allow_msg_ttl": True},
    ]


def _stream(name: str, patterns: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        **({"subjects": list(patterns)} if patterns else {}),
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "allow_direct": True,
        **more,
    }


def _timers(agent: str) -> dict[str, Any]:
    # The server turns rollups on with schedules: an agent can remove its own timers, which is its right.
    return _stream(
        subjects.timers_stream(agent),
        subjects.timer_subjects(agent),
        allow_msg_schedules=True,
        allow_rollup_hdrs=True,
        max_age=90 * 86_400 * SECOND,
        discard="old",
    )


def _bucket(name: str, *, ttl: float = 0.0) -> dict[str, Any]:
    """A bucket whose entries expire after ``ttl`` seconds; 0: never."""
    # On disk, although entries may be short-lived: a stream in memory is lost with the server, for good.
    return _stream(
        subjects.bucket_stream(name),
        [f"$KV.{name}.>"],
        max_msgs_per_subject=1,
        max_age=int(ttl * SECOND),
        deny_delete=True,
        # An agent may write its own entries; with a rollup it could remove those of all.
        allow_rollup_hdrs=False,
        duplicate_window=int(min(ttl or subjects.DUPLICATE_WINDOW, subjects.DUPLICATE_WINDOW) * SECOND),
    )


def durables(agents: Sequence[str], ack_wait: float, max_attempts: int) -> list[tuple[str, dict[str, Any]]]:
    """The stream and configuration of every durable."""

    def durable(name: str, filters: Sequence[str]) -> dict[str, Any]:
        return {
            "durable_name": name,
            "name": name,
            "filter_subjects": list(filters),
            "ack_policy": "explicit",
            "deliver_policy": "all",
            "ack_wait": int(ack_wait * SECOND),
            "max_deliver": 3 * max_attempts,
            "max_ack_pending": subjects.MAX_ACK_PENDING,
        }

    result = [
        (subjects.OFFICE, durable(name, filters))
        for agent in (*agents, subjects.USER)
        for name, filters in subjects.mailboxes(agent).items()
    ]
    for name in set(subjects.TIMED).intersection(agents):
        timers = durable(subjects.timers_durable(name), [subjects.timer_due(name)])
        result.append((subjects.timers_stream(name), timers))
    if subjects.MEMORY_DAEMON in agents:
        # The daemon has a batch of writes in progress at once, and none may be given up.
        writes = durable(subjects.MEMORY_DAEMON, subjects.MEMORY_SUBJECTS)
        result.append((subjects.MEMORY, {**writes, "max_ack_pending": 20_000, "max_deliver": -1}))
    return result


async def _ensure_stream(bus: Bus, config: dict[str, Any]) -> list[str]:
    name = config["name"]
    info = await _info(bus, name)
    if "config" not in info:
        await ask(bus, f"STREAM.CREATE.{name}", config)
        return [f"created stream {name}"]
    if config["num_replicas"] < (has := info["config"].get("num_replicas", 1)):
        raise BusError(
            f"The stream {name} lies on {has} servers, and the settings name {config['num_replicas']}",
            f"Write 'replicas = {has}' below '[nats]' of mailroom.toml",
        )
    differs = _differences(config, info["config"])
    if differs:
        await ask(bus, f"STREAM.UPDATE.{name}", {**info["config"], **config})
        return [f"updated stream {name}: {', '.join(differs)}"]
    return []


async def _publish_keys(bus: Bus, name: str, public: Sequence[str]) -> list[str]:
    """Make the public keys of an identity known to all agents, which check signatures by it."""
    stored = await bus.last(subjects.bucket_stream(subjects.IDENTITIES_BUCKET), subjects.identity(name))
    keys = json.dumps(public).encode()
    if stored is not None and stored.data == keys:
        return []
    await bus.store(subjects.identity(name), keys)
    return [f"{'key' if len(public) == 1 else 'keys'} of {name}"]


async def _ensure_durable(bus: Bus, stream: str, config: dict[str, Any]) -> list[str]:
    name = config["name"]
    info = await ask(bus, f"CONSUMER.INFO.{stream}.{name}", allow=CONSUMER_NOT_FOUND)
    differs = _differences(config, info["config"]) if "config" in info else ["created"]
    if not differs:
        return []
    # Action "" creates or updates; updating keeps the position and unacknowledged messages.
    await ask(bus, f"CONSUMER.DURABLE.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})
    return [f"durable {name} of {stream}: {', '.join(differs)}"]


def _differences(wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    return [key for key, value in sorted(wanted.items()) if _shape(value) != _shape(actual.get(key))]


def _shape(value: Any) -> Any:
    """A value for comparison: fields the server omits are falsy, and lists are in any order."""
    if isinstance(value, list):
        return sorted(value)
    return value or None


async def ask(bus: Bus, verb: str, body: Any = None, *, allow: int = 0) -> dict[str, Any]:
    """The answer of the server's API, asked again while a cluster chooses who leads; raises BusError if it
    refuses, except with the code ``allow``.
    """
    until = time.monotonic() + ELECTION_WAIT
    while True:
        try:
            patience = ASKED_AGAIN if bus.clustered and verb.partition(".")[2].startswith(READS) else 10.0
            result = await bus.call(verb, body, timeout=patience)
        except BusUnavailable:
            if not bus.clustered or time.monotonic() > until:
                raise
            continue
        error = result.get("error")
        # Servers that have just started choose a leader first, and learn of each other.
        if not error or error.get("err_code") not in (*ELECTING, NO_PEERS) or time.monotonic() > until:
            break
        await asyncio.sleep(random.uniform(0.05, 0.25))  # noqa: S311  # spreads load, keeps no secret
    if error and error.get("err_code") != allow:
        if error.get("code") == 503:
            raise BusUnavailable(f"The server has no JetStream for this: {error['description']}")
        raise BusError(f"The server refused {verb}: {error['description']} ({error.get('err_code')})")
    return result
