"""The operations: what each identity may send and receive, from the rights that the broker holds it to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shared import subjects
from shared.asyncapi.channels import Channel
from shared.asyncapi.patterns import overlap, pattern_of
from shared.bus.identity import Rights, rights_of
from shared.bus.provision import durables

PULL = "$JS.API.CONSUMER.MSG.NEXT."  # The beginning of the right to take the messages of a durable


class Reach(NamedTuple):
    """The patterns that an identity may use in one way, with the durables or the queue that deliver them."""

    action: str
    patterns: Sequence[str]
    durable: str = ""
    queue: str = ""


def make_operations(
    known: Sequence[Channel], agents: Sequence[str], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """The operations of the identities ``names`` on the channels, by name."""
    delivered = _delivered(agents)
    made: dict[str, dict[str, Any]] = {}
    for name in names:
        rights = rights_of(name, agents)
        for channel in known:
            for reach in _reaches(name, rights, delivered):
                if found := _common(reach.patterns, channel):
                    # Add an operation, or to the one that there is already
                    key = f"{name}_{reach.action}_{channel.name}"
                    if key not in made:
                        made[key] = _operation(name, channel, reach)
                    operation = made[key]
                    operation["x-subjects"] = list(dict.fromkeys([*operation["x-subjects"], *found]))
                    if reach.durable:
                        operation["x-durables"] = [*operation.get("x-durables", []), reach.durable]
    return made


def _delivered(agents: Sequence[str]) -> dict[str, list[str]]:
    """The subjects of each durable, by ``stream.durable``."""
    return {
        f"{stream}.{config['name']}": config["filter_subjects"]
        for stream, config in durables(agents, ack_wait=1, max_attempts=1)
    }


def _reaches(name: str, rights: Rights, delivered: Mapping[str, list[str]]) -> Iterator[Reach]:
    positions = [subjects.position(*durable) for durable in rights.durables]
    positions += [subjects.listing(stream) for stream in rights.listed]
    peers = [subjects.peer(name, "*")]
    yield Reach(
        "send", [*rights.publish, *rights.request, *rights.signed_request, *rights.tell, *positions, *peers]
    )
    for subject in rights.publish:
        durable = subject.removeprefix(PULL)
        if durable in delivered:
            yield Reach("receive", delivered[durable], durable=durable)
    yield Reach("receive", [*rights.subscribe, *rights.hear])
    yield Reach("receive", rights.serve, queue=name)
    yield Reach("receive", peers)


def _common(patterns: Sequence[str], channel: Channel) -> list[str]:
    address = pattern_of(channel.address)
    return list(dict.fromkeys(filter(None, (overlap(pattern, address) for pattern in patterns))))


def _operation(name: str, channel: Channel, reach: Reach) -> dict[str, Any]:
    who = "People" if name == subjects.USER else name.capitalize()
    may = "may send" if reach.action == "send" else "may receive"
    operation: dict[str, Any] = {
        "action": reach.action,
        "channel": {"$ref": f"#/channels/{channel.name}"},
        "summary": f"{who} {may}: {channel.summary[0].lower()}{channel.summary[1:]}",
        "tags": [{"name": name}],
        "x-subjects": [],
    }
    if channel.answer is not None:
        operation["reply"] = {"channel": {"$ref": f"#/channels/{channel.name}_answer"}}
    if reach.queue:
        operation["bindings"] = {"nats": {"queue": reach.queue, "bindingVersion": "0.1.0"}}
    return operation
