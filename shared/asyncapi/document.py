"""The document itself: AsyncAPI 3.0, made from the channels, the contracts and the identities' rights."""

import re
from collections.abc import Sequence
from inspect import cleandoc
from typing import Any

import msgspec

from shared import subjects
from shared.asyncapi.channels import PARAMETERS, RECORDS, Channel, channels
from shared.asyncapi.operations import make_operations
from shared.asyncapi.patterns import overlap, pattern_of
from shared.bus.identity import rights_of
from shared.bus.provision import SECOND, streams
from shared.trace import HEADER as TRACE_HEADER

VERSION = "3.1.0"
PEOPLE = (subjects.USER,)  # The identities beside the agents
SCHEMAS = "#/components/schemas/{name}"
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
    kinds = _kinds(known)
    made, components = msgspec.json.schema_components(list(kinds.values()), ref_template=SCHEMAS)
    schemas = dict(zip(kinds, made, strict=True))
    names = (*agents, *PEOPLE)
    document = {
        "asyncapi": VERSION,
        "id": "urn:mailroom:bus",
        "info": _info(version),
        "defaultContentType": "application/json",
        "servers": {"office": _server(host)},
        "channels": {
            **{each.name: _channel(each) for each in known},
            **{f"{each.name}_answer": _answer_channel(each) for each in known if each.answer is not None},
        },
        "operations": make_operations(known, agents, names),
        "components": {
            "messages": {name: _message(name, kinds[name], schemas[name]) for name in kinds},
            "schemas": {"Headers": _headers(), **{name: components[name] for name in sorted(components)}},
            "securitySchemes": {"nkey": _nkey()},
            "tags": {name: {"name": name, "description": text} for name, text in GROUPS.items()},
        },
        "x-streams": {config["name"]: _stream(config) for config in streams()},
        "x-identities": {name: _rights(name, agents) for name in names},
    }
    plain: dict[str, Any] = _tidy(msgspec.to_builtins(document))
    return plain


def _info(version: str) -> dict[str, Any]:
    return {
        "title": "Mailroom's bus",
        "version": version,
        "description": (
            "Agents that run as separate processes and communicate only over NATS JetStream. The broker "
            "refuses what an identity may not send. It republishes what is stored in OFFICE and MEMORY on "
            "audit.>; x-streams says how long each stream keeps its messages, x-identities what each "
            "identity may publish and read."
        ),
        "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        "contact": {"name": "Mailroom"},
        "tags": [{"$ref": f"#/components/tags/{name}"} for name in GROUPS],
    }


def _server(host: str) -> dict[str, Any]:
    return {
        "host": host,
        "protocol": "nats",
        "description": "The office's nats-server, with an account for each identity.",
        "security": [{"$ref": "#/components/securitySchemes/nkey"}],
    }


def _nkey() -> dict[str, str]:
    return {
        "type": "asymmetricEncryption",
        "description": "The NKey (Ed25519) of one identity; its seed is a file in the folder of keys.",
    }


def _channel(channel: Channel) -> dict[str, Any]:
    names = list(dict.fromkeys(re.findall(r"{(\w+)}", channel.address)))
    kept = [config["name"] for config in streams() if _stores(config, channel.address)]
    return {
        "address": channel.address,
        "title": channel.name.replace("_", " "),
        "summary": channel.summary,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in message_names(channel)},
        **({"parameters": {name: _parameter(name) for name in names}} if names else {}),
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


def _parameter(name: str) -> dict[str, Any]:
    listed = {"enum": sorted(RECORDS)} if name == "kind" else {}
    return {"description": PARAMETERS[name], **listed}


def _stores(config: dict[str, Any], address: str) -> bool:
    return any(overlap(pattern, pattern_of(address)) for pattern in config.get("subjects", ()))


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


def _kinds(known: Sequence[Channel]) -> dict[str, Any]:
    """Every message by its name."""
    found: dict[str, Any] = {}
    for channel in known:
        found.update(zip(message_names(channel), channel.messages, strict=True))
        if channel.answer is not None:
            found[message_name(channel.answer, f"{channel.name}_answer")] = channel.answer
    return {name: found[name] for name in sorted(found)}


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


def _headers() -> dict[str, Any]:
    return {
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
