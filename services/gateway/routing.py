"""The table of routes: each row names method, path, handler and scope; types come from the handler.

A handler is ``async def handler(call, query, body) -> Answer``: it takes those of the three that it names.
``query`` and ``body`` are Structs, decoded from the query string and from JSON; it returns a Struct (JSON),
None (204), or a Starlette Response.
"""

import difflib
import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from types import NoneType
from typing import Any, get_type_hints

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from services.gateway.call import Call, Gateway
from services.gateway.metrics.exposition import ROUTE
from services.gateway.problems import Failure, Problem, not_found, status_of, to_response
from services.gateway.security.authentication import COOKIE
from services.gateway.seen import see_as
from shared.access.scopes import Person, Scope
from shared.errors import MailroomError
from shared.log import logger

API = "/api/v1"
JSON = "application/json"
FRESH = "mailroom-fresh"
"""The header of a request whose answer has to count all that the log holds by then, as commands want it."""
_NO_ID = re.compile(r"[\s\x00*>]|^\.|\.$|\.\.")
"""What no id has, and what would make another subject of the bus of that which an id is part of."""
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
"""What msgspec says of a field that the body itself does not have."""
log = logger(__name__)


class Endpoint:
    """A row of the table: what ``method`` on ``path`` does, and the scope it needs.

    ``status`` is that of an answer that is a Struct. ``tag`` groups the rows of the API's description, whose
    sentences are the handler's docstring. For a handler that returns a Response, ``contracts`` are what its
    body holds one of, and ``may_wait`` says that it is 202 with a Location if the answer is not there yet.
    ``location`` is the Location of what the request began, with names of the answer's fields in braces.
    """

    def __init__(
        self,
        method: str,
        path: str,
        handler: Callable[..., Awaitable[Any]],
        *,
        scope: Scope,
        tag: str,
        status: int = 200,
        contracts: Sequence[type[msgspec.Struct]] = (),
        may_wait: bool = False,
        location: str = "",
    ) -> None:
        self.method, self.path, self.handler = method, path, handler
        self.scope, self.tag, self.status, self.location = scope, tag, status, location
        self.contracts, self.may_wait = tuple(contracts), may_wait

    @cached_property
    def types(self) -> dict[str, Any]:
        """The types of the handler's parameters, and of its answer under ``return``."""
        return get_type_hints(self.handler, include_extras=True)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the handler's parameters."""
        return tuple(inspect.signature(self.handler).parameters)

    async def answer(self, gateway: Gateway, request: Request) -> Response:
        """Answer a request; errors become problem details."""
        request.scope[ROUTE] = self.path
        try:
            person = require_scope(request, self.scope)
            if FRESH in request.headers:
                await gateway.index.wait_until_complete()
            arguments: dict[str, Any] = {}
            for name, value in request.path_params.items():
                if _NO_ID.search(value) and f"{{{name}:path}}" not in self.path:
                    raise not_found(f"{name.removesuffix('_id')} {value[:40]!r}")
            if "call" in self.parameters:
                key = request.headers.get("idempotency-key", "")
                seen = see_as(gateway, person.audience)
                arguments["call"] = Call(seen, person, dict(request.path_params), key, request)
            if "query" in self.parameters:
                arguments["query"] = decode_query(request, self.types["query"])
            if "body" in self.parameters:
                arguments["body"] = await decode_body(request, self.types["body"])
            return self._response(await self.handler(**arguments))
        except msgspec.ValidationError as error:
            return to_response(422, str(error))
        except ClientDisconnect:
            return to_response(400, "The connection was closed before the request was complete")
        except MailroomError as error:
            return to_response(status_of(error), error.cause, error.cure)
        except ValueError as error:
            return to_response(422, str(error))

    def _response(self, answer: Any) -> Response:
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=204)
        headers = {}
        if self.location:
            headers["Location"] = self.location.format_map(msgspec.structs.asdict(answer))
        return Response(msgspec.json.encode(answer), self.status, headers, JSON)


def require_scope(request: Request, scope: Scope) -> Person:
    """The person who makes the request; raises Failure without one, and without the scope."""
    person = request.scope.get("state", {}).get("person")
    if not isinstance(person, Person):
        raise Failure(401, "This needs a session or a token", "'mailroom web' prints a link to sign in with")
    if person.scope < scope:
        raise Failure(
            403,
            f"{person.name!r} may {person.scope.name.lower()}, and this needs the scope {scope.name.lower()}",
            "Use a token or a person with that scope",
        )
    return person


_read_fields = functools.cache(msgspec.structs.fields)  # of a kind, whose type hints take long to resolve


def decode_query(request: Request, kind: Any) -> Any:
    """The query string as a Struct; a parameter that occurs several times becomes a list.

    Raises ValidationError, and Failure for an unknown parameter.
    """
    fields = _read_fields(kind)
    multiple = {each.name for each in fields if getattr(each.type, "__origin__", None) in (tuple, list)}
    values: dict[str, Any] = {}
    for name in request.query_params:
        given = request.query_params.getlist(name)
        values[name] = given if name in multiple else given[-1]
    known = {field.encode_name for field in fields}
    if unknown := sorted(values.keys() - known):
        raise Failure(422, f"There is no parameter {unknown[0][:60]!r}", _suggest(unknown[0], sorted(known)))
    return msgspec.convert(values, kind, strict=False)


async def decode_body(request: Request, kind: Any) -> Any:
    """The body as ``kind``.

    Raises ValidationError, and Failure for an unknown field and if it is not JSON.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    data = await request.body()
    if content_type != JSON and data:
        raise Failure(415, f"The body is {content_type[:60] or 'of no type'}", f"Send it as {JSON}")
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.ValidationError as error:
        if unknown := _UNKNOWN.fullmatch(str(error)):
            names = [field.encode_name for field in msgspec.structs.fields(kind)]
            raise Failure(
                422, f"There is no field {unknown[1][:60]!r}", _suggest(unknown[1], names)
            ) from None
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Failure(400, f"The body is not JSON: {error}") from None


def _suggest(name: str, names: Sequence[str]) -> str:
    """The nearest of ``names``, and all of them."""
    nearest = difflib.get_close_matches(name[:60], names, 1, 0.7)
    meant = f"Did you mean {nearest[0]!r}? " if nearest else ""
    return f"{meant}There are: {', '.join(names)}" if names else "Leave it out: there are none"


def make_routes(gateway: Gateway, table: Sequence[Endpoint]) -> list[Route]:
    """Starlette's routes for a table; those of one path share a route, so that 405 names the methods."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in table:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint

    def make_route(path: str, endpoints: dict[str, Endpoint]) -> Route:
        async def answer(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            return await endpoints[method].answer(gateway, request)

        return Route(path, answer, methods=list(endpoints))

    return [make_route(path, endpoints) for path, endpoints in by_path.items()]


REFERENCE = "#/components/schemas/{name}"


def describe(table: Sequence[Endpoint]) -> bytes:
    """The document as JSON."""
    kinds: list[Any] = []
    for endpoint in table:
        kinds += [endpoint.types[name] for name in ("query", "body") if name in endpoint.parameters]
        kinds += endpoint.contracts
        if _is_json(answer := endpoint.types.get("return")):
            kinds.append(answer)
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
        (schema,), components = msgspec.json.schema_components(
            [endpoint.types["query"]], ref_template=REFERENCE
        )
        body = components[schema["$ref"].rpartition("/")[2]]
        parameters += [
            {"name": name, "in": "query", "required": name in body.get("required", ()), "schema": each}
            for name, each in body["properties"].items()
        ]
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
