"""The API's description in OpenAPI 3.1, from the table of routes."""

import re
from collections.abc import Sequence
from types import NoneType
from typing import Any

import msgspec

from services.gateway.problems import Problem
from services.gateway.routing import JSON, Endpoint
from services.gateway.security.authentication import COOKIE
from shared.access.scopes import Scope

REFERENCE = "#/components/schemas/{name}"


def describe(table: Sequence[Endpoint]) -> bytes:
    """The document as JSON."""
    kinds = [kind for endpoint in table for kind in _kinds(endpoint)]
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template=REFERENCE)
    by_kind = dict(zip(map(repr, [*kinds, Problem]), schemas, strict=True))
    for endpoint in table:
        if "query" in endpoint.parameters:  # its fields are parameters, not a schema
            components.pop(endpoint.types["query"].__name__, None)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        path = endpoint.path.replace(":path}", "}")
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, by_kind)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Mailroom", "version": "1", "description": "The office over HTTP."},
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer"},
                    "session": {
                        "type": "apiKey",
                        "in": "cookie",
                        "name": COOKIE,
                        "description": "Followed by _ and the port, if the address has one.",
                    },
                },
            },
            "security": [{"token": []}, {"session": []}],
        },
        order="sorted",
    )


def _kinds(endpoint: Endpoint) -> list[Any]:
    answer = endpoint.types.get("return")
    named = [endpoint.types[name] for name in ("query", "body") if name in endpoint.parameters]
    return [*named, *endpoint.contracts, *([answer] if _is_json(answer) else [])]


def _is_json(answer: Any) -> bool:
    return (isinstance(answer, type) and issubclass(answer, msgspec.Struct)) or bool(
        getattr(answer, "__origin__", None)
    )


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    summary, _, description = (endpoint.handler.__doc__ or "").partition("\n\n")
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)", endpoint.path)
    ]
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": " ".join(summary.split()).rstrip("."),
        "tags": [endpoint.tag],
        "x-scope": endpoint.scope.name.lower(),
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.scope is Scope.NONE:
        operation["security"] = []
    if description:
        operation["description"] = " ".join(description.split())
    if "query" in endpoint.parameters:
        parameters += _query_parameters(endpoint.types["query"])
    if parameters:
        operation["parameters"] = parameters
    if "body" in endpoint.parameters:
        content = {JSON: {"schema": schemas[repr(endpoint.types["body"])]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _responses(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    responses = {"default": _response("A problem", "application/problem+json", schemas[repr(Problem)])}
    answer = endpoint.types.get("return")
    kinds = endpoint.contracts or ((answer,) if _is_json(answer) else ())
    if endpoint.status == 204 or answer in (None, NoneType):
        responses["204"] = {"description": "Done"}
    elif kinds:
        one_of = [schemas[repr(kind)] for kind in kinds]
        schema = one_of[0] if len(one_of) == 1 else {"anyOf": one_of}
        responses[str(endpoint.status)] = _response("The answer", JSON, schema)
        if endpoint.location:
            responses[str(endpoint.status)]["headers"] = _location("What the request began")
    else:
        responses[str(endpoint.status)] = _response("The answer", "*/*", {})
    if endpoint.may_wait:
        waits = _response("There is no answer yet", JSON, {"type": "object"})
        responses["202"] = {**waits, "headers": _location("Where the answer will be")}
    return responses


def _location(description: str) -> dict[str, Any]:
    return {"Location": {"schema": {"type": "string"}, "description": description}}


def _response(description: str, media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {media_type: {"schema": schema} if schema else {}}}


def _query_parameters(kind: Any) -> list[dict[str, Any]]:
    (schema,), components = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    body = components[schema["$ref"].rpartition("/")[2]]
    required = body.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in body["properties"].items()
    ]
