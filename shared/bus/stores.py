"""The stores of objects: a bucket of JetStream's object store for each agent and host, and who may use it.

Objects are replaced by rollups and removed by purges, which name no writer: so nobody fills or empties the
store of another. They are there once a host has joined; that of the gateway, for what people send, always.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from shared import subjects
from shared.bus.hosts import Hosts

CHUNK = 1 << 20  # Bytes of one message
MAX_MESSAGES = 2_048
"""The most messages of one store, 2 GiB: a bound in bytes would be taken from the office's disk at once."""
MAX_OBJECT = 512 << 20  # The most bytes of one object
TTL = 7 * 86_400.0  # Seconds until an object expires that nobody removed: as long as workspaces are kept
EXPORTS = ("$O.>", "$JS.API.STREAM.PURGE.*")  # Of which each account imports what is its own
ALWAYS = (subjects.GATEWAY,)
R = TypeVar("R", bound=msgspec.Struct)


def bucket_of(agent: str, host: str) -> str:
    """The store of an agent's processes on a host; no host's name has ``_`` in it."""
    return f"{agent}_{host}"


def buckets_of(hosts: Hosts) -> list[str]:
    """Every store of an office: agents that work on joined hosts have one for the office's processes too."""
    roles = sorted({role for each in hosts.joined.values() for role in each.roles})
    return [
        *ALWAYS,
        *(bucket_of(role, host) for role in roles for host in (subjects.OFFICE_HOST, *hosts.keys_of(role))),
    ]


def config_of(bucket: str) -> dict[str, Any]:
    """The configuration of the stream behind a store, beside what all streams have."""
    return {
        "subjects": [chunks(bucket, "*"), meta(bucket, "*")],
        "allow_rollup_hdrs": True,
        "max_msgs": MAX_MESSAGES,
        "max_msg_size": CHUNK + 4_096,
        "max_age": int(TTL * 1e9),
    }


def with_stores(rights: R, agent: str, host: str, hosts: Hosts) -> R:
    """The rights of an agent's processes on ``host``, with those that come with stores of objects."""
    own = subjects.GATEWAY if agent == subjects.GATEWAY else bucket_of(agent, host)
    buckets = buckets_of(hosts)
    publish = list(rights.publish)  # type: ignore[attr-defined]
    if own in buckets:
        publish += [*fills(own), f"$JS.API.DIRECT.GET.{subjects.OFFICE}.{subjects.OFFICE_STATE}"]
    roles = {bucket.rpartition("_")[0] for bucket in buckets if bucket not in ALWAYS}
    if agent in {*subjects.OPENING, subjects.GATEWAY, *roles}:
        publish += [each for bucket in buckets for each in opens(bucket)]
    if agent in {*subjects.OPENING, *roles}:  # as an agent reads its own records, and the gateway all
        writers = {subjects.GATEWAY, *(roles and {*subjects.OPENING, *roles} - {agent})}
        known = f"$JS.API.DIRECT.GET.{subjects.OFFICE}."
        publish += [known + subjects.record(each, subjects.PARCELS, "*") for each in sorted(writers)]
    return msgspec.structs.replace(rights, publish=tuple(dict.fromkeys(publish)))


def fills(bucket: str) -> list[str]:
    """What the owner of a store publishes, and its requests to read it."""
    return [chunks(bucket, "*"), meta(bucket, "*"), *opens(bucket)]


def opens(bucket: str) -> list[str]:
    """The requests of those who read the objects of a store."""
    return [f"$JS.API.DIRECT.GET.{stream_of(bucket)}", f"$JS.API.DIRECT.GET.{stream_of(bucket)}.>"]


def renamed(publish: Iterable[str]) -> list[tuple[str, str]]:
    """The requests of who may ``publish`` to a store, named as the server answers them in any account."""
    owned = [each.split(".")[1] for each in publish if each.startswith("$O.") and ".C." in each]
    return [
        (f"$JS.API.STREAM.{verb}.{stream_of(bucket)}", name(bucket))
        for bucket in owned
        for verb, name in (("INFO", info), ("PURGE", purge))
    ]


# --- subjects, those of NATS's own clients ------------------------------------------------------------


def stream_of(bucket: str) -> str:
    """The stream behind a store."""
    return f"OBJ_{bucket}"


def chunks(bucket: str, key: str) -> str:
    """The chunks of an object."""
    return f"$O.{bucket}.C.{key}"


def meta(bucket: str, name: str) -> str:
    """What an object is; its ``name`` is in base 64."""
    return f"$O.{bucket}.M.{name}"


def info(bucket: str) -> str:
    """What a store of one's own holds; the answer is the server's STREAM.INFO."""
    return f"objects.info.{bucket}"


def purge(bucket: str) -> str:
    """Remove objects from a store of one's own; the answer is the server's STREAM.PURGE."""
    return f"objects.purge.{bucket}"
