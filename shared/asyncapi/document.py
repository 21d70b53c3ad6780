"""The document itself: AsyncAPI 3.0, made from the channels, the contracts and the identities' rights."""

import re
from collections.abc import Iterator, Mapping, Sequence
from inspect import cleandoc
from typing import Any, NamedTuple

import msgspec

from shared import subjects
from shared.asyncapi.channels import PARAMETERS, RECORDS, Channel, channels
from shared.bus.identity import Rights, rights_of
from shared.bus.provision import SECOND, durables, streams
from shared.trace import HEADER as TRACE_HEADER

VERSION = "3.1.0"
PEOPLE = (subjects.USER,)  # The identities beside the agents
DESCRIPTION = (
    "Agents that run as separate processes and communicate only over NATS JetStream. The broker "
    "refuses what an identity may not send. It republishes what is stored in OFFICE and MEMORY on "
    "audit.>; x-streams says how long each stream keeps its messages, x-identities what each "
    "identity may publish and read."
)
NKEY = "The NKey (Ed25519) of one identity; its seed is a file in the folder of keys."
PULL = "$JS.API.CONSUMER.MSG.NEXT."  # The beginning of the right to take the messages of a durable
SCHEMAS = "#/components/schemas/{name}"
HEADERS = {
    "type": "object",
    "properties": {
        "Nats-Msg-Id": {
            "type": "string",
            "description": "The id: of two messages with the same id within "
            f"{subjects.DUPLICATE_WINDOW:g} s the second is not stored.",
        },
        "Nats-Expected-Last-Subject-Sequence": {
            "type": "string",
            "description": "The message is refused unless the last one on its subject has this sequence.",
        },
        TRACE_HEADER: {"type": "string", "description": "The trace it belongs to: W3C Trace Context."},
    },
}
GROUPS = {
    "work": "Goals and tasks",
    "mail": "Mail, and what people are asked",
    "events": "Events, records and the audit log",
    "memory": "Memory: its log of writes, and its queries",
    "timers": "Timers, which the broker delivers later",
    "runtime": "Processes, and how they take over from each other",
}


def make_document(agents: Sequence[str], *, version: str, host: str = "127.0.0.1:4222") -> dict[str, Any]:
    """The document of an office of ``agents``, as plain JSON values; equal input gives an equal document."""
    known = channels()
    found: dict[str, Any] = {}
    for channel in known:
        found.update(zip(message_names(channel), channel.messages, strict=True))
        if channel.answer is not None:
            found[message_name(channel.answer, f"{channel.name}_answer")] = channel.answer
    kinds = {name: found[name] for name in sorted(found)}
    made, components = msgspec.json.schema_components(list(kinds.values()), ref_template=SCHEMAS)
    schemas = dict(zip(kinds, made, strict=True))
    names = (*agents, *PEOPLE)
    document = {
        "asyncapi": VERSION,
        "id": "urn:mailroom:bus",
        "info": {
            "title": "Mailroom's bus",
            "version": version,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
            "contact": {"name": "Mailroom"},
            "tags": [{"$ref": f"#/components/tags/{name}"} for name in GROUPS],
        },
        "defaultContentType": "application/json",
        "servers": {
            "office": {
                "host": host,
                "protocol": "nats",
                "description": "The office's nats-server, with an account for each identity.",
                "security": [{"$ref": "#/components/securitySchemes/nkey"}],
            }
        },
        "channels": {
            **{each.name: _channel(each) for each in known},
            **{f"{each.name}_answer": _answer_channel(each) for each in known if each.answer is not None},
        },
        "operations": make_operations(known, agents, names),
        "components": {
            "messages": {name: _message(name, kinds[name], schemas[name]) for name in kinds},
            "schemas": {"Headers": HEADERS, **{name: components[name] for name in sorted(components)}},
            "securitySchemes": {"nkey": {"type": "asymmetricEncryption", "description": NKEY}},
            "tags": {name: {"name": name, "description": text} for name, text in GROUPS.items()},
        },
        "x-streams": {config["name"]: _stream(config) for config in streams()},
        "x-identities": {name: _rights(name, agents) for name in names},
    }
    plain: dict[str, Any] = _tidy(msgspec.to_builtins(document))
    return plain


def _channel(channel: Channel) -> dict[str, Any]:
    names = list(dict.fromkeys(re.findall(r"{(\w+)}", channel.address)))
    parameters: dict[str, Any] = {name: {"description": PARAMETERS[name]} for name in names}
    if "kind" in parameters:
        parameters["kind"]["enum"] = sorted(RECORDS)
    kept = [config["name"] for config in streams() if common(config.get("subjects", ()), channel)]
    return {
        "address": channel.address,
        "title": channel.name.replace("_", " "),
        "summary": channel.summary,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in message_names(channel)},
        **({"parameters": parameters} if parameters else {}),
        "tags": [{"$ref": f"#/components/tags/{channel.group}"}],
        **({"x-streams": kept} if kept else {}),
    }


def _answer_channel(channel: Channel) -> dict[str, Any]:
    name = message_name(channel.answer, f"{channel.name}_answer")
    return {
        "address": None,
        "title": f"{channel.name.replace('_', ' ')} answer",
        "summary": f"The answer, on the inbox that the request names: {channel.summary.lower()}",
        "messages": {name: {"$ref": f"#/components/messages/{name}"}},
        "tags": [{"$ref": f"#/components/tags/{channel.group}"}],
    }


# --- messages -----------------------------------------------------------------------------------


def message_name(kind: Any, otherwise: str) -> str:
    """The tag of an envelope, the name of another struct, ``otherwise`` for any other type."""
    config = getattr(kind, "__struct_config__", None)
    return str(config.tag or kind.__name__) if config else otherwise


def message_names(channel: Channel) -> list[str]:
    """The names of what is sent on a channel."""
    return [
        message_name(kind, f"{channel.name.removesuffix('_signed')}_request") for kind in channel.messages
    ]


def _message(name: str, kind: Any, schema: dict[str, Any]) -> dict[str, Any]:
    is_struct = hasattr(kind, "__struct_config__")
    text = cleandoc(kind.__doc__ or "") if is_struct else ""
    return {
        "name": name,
        "title": kind.__name__ if is_struct else name.replace("_", " "),
        "contentType": "application/json",
        **({"summary": text.partition("\n\n")[0].replace("\n", " ")} if text else {}),
        "headers": {"$ref": "#/components/schemas/Headers"},
        "payload": schema,
    }


# --- streams and identities ---------------------------------------------------------------------


def _stream(config: dict[str, Any]) -> dict[str, Any]:
    age = config.get("max_age", 0)
    return {
        "subjects": config.get("subjects", []),
        "retention": config["retention"],
        "discard": config["discard"],
        "max_age_seconds": age / SECOND if age else None,
        "kept": f"for {age / SECOND:g} seconds" if age else "for ever",
        "messages_per_subject": config.get("max_msgs_per_subject"),
        "purge_denied": bool(config.get("deny_purge")),
        "republished_on": config.get("republish", {}).get("dest", ""),
    }


def _rights(name: str, agents: Sequence[str]) -> dict[str, Any]:
    rights = rights_of(name, agents)
    return {
        "publish": [each for each in rights.publish if not each.startswith(("$JS.", "$KV."))],
        "subscribe": list(rights.subscribe),
        "request": [*rights.request, *rights.signed_request],
        "serve": list(rights.serve),
    }


def _tidy(value: Any) -> Any:
    """``value`` with its descriptions, which are docstrings, freed of their indentation."""
    if isinstance(value, dict):
        return {
            key: cleandoc(each) if key == "description" and isinstance(each, str) else _tidy(each)
            for key, each in value.items()
        }
    return [_tidy(each) for each in value] if isinstance(value, list | tuple) else value


# --- operations ---------------------------------------------------------------------------------


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
    delivered = {
        f"{stream}.{config['name']}": config["filter_subjects"]
        for stream, config in durables(agents, ack_wait=1, max_attempts=1)
    }
    made: dict[str, dict[str, Any]] = {}
    for name in names:
        rights = rights_of(name, agents)
        for channel in known:
            for reach in _reaches(name, rights, delivered):
                if found := common(reach.patterns, channel):
                    # Add an operation, or to the one that there is already
                    key = f"{name}_{reach.action}_{channel.name}"
                    if key not in made:
                        made[key] = _operation(name, channel, reach)
                    operation = made[key]
                    operation["x-subjects"] = list(dict.fromkeys([*operation["x-subjects"], *found]))
                    if reach.durable:
                        operation["x-durables"] = [*operation.get("x-durables", []), reach.durable]
    return made


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


# --- patterns of subjects -----------------------------------------------------------------------


def pattern_of(address: str) -> str:
    """The pattern that matches what an address stands for: a whole subject takes the rest."""
    return re.sub(r"{\w+}", "*", address.replace("{subject}", ">"))


def overlap(one: str, other: str) -> str:
    """The pattern of the subjects that match both; empty if there are none."""
    left, right = one.split("."), other.split(".")
    both: list[str] = []
    for place in range(max(len(left), len(right))):
        a = left[place] if place < len(left) else ""
        b = right[place] if place < len(right) else ""
        if ">" in (a, b):
            rest = right[place:] if a == ">" else left[place:]
            return ".".join([*both, *rest]) if rest else ""
        if not a or not b or (a != b and "*" not in (a, b)):
            return ""
        both.append(b if a == "*" else a)
    return ".".join(both)


def common(patterns: Sequence[str], channel: Channel) -> list[str]:
    """What ``patterns`` have in common with the subjects of a channel."""
    address = pattern_of(channel.address)
    return list(dict.fromkeys(filter(None, (overlap(pattern, address) for pattern in patterns))))
