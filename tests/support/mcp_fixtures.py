"""A gateway whose MCP server offers, beside its own, the fixtures that the conformance suite asks for.

Run as ``python -m tests.support.mcp_fixtures``. They are handled by the same server, behind the same door;
what they do with questions, images and logs the office itself does not offer. The suite cannot send a token:
requests without one get that of the variable TOKEN, before the guard sees them.
"""

import asyncio
import hashlib
import hmac
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from services.gateway.mcp import server as product
from services.gateway.mcp.tasks import begun, declares, lacking, serve_tasks

Context = Any
Answer = dict[str, Any]
Work = Callable[[str], Awaitable[Answer]]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
KEY = b"tests only"


def text(words: str) -> Answer:
    return {"type": "text", "text": words}


def embedded(uri: str, words: str, kind: str = "text/plain") -> Answer:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": words}}


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
CONTENTS: dict[str, list[Answer]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [embedded("test://embedded-resource", "An embedded resource.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json"),
    ],
}


def elicit(message: str, **properties: Answer) -> Answer:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sample(words: str) -> Answer:
    messages = [{"role": "user", "content": text(words)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}}


STRING = {"type": "string"}
NAME = elicit("What is your name?", name=STRING)
ROOTS: Answer = {"method": "roots/list", "params": {}}
CONFIRM = elicit("Please confirm", ok={"type": "boolean"})
PREFIX = "test_input_required_result_"
ROUNDS: dict[str, tuple[bool, list[dict[str, Answer]]]] = {
    f"{PREFIX}elicitation": (False, [{"user_name": NAME}]),
    f"{PREFIX}sampling": (False, [{"capital_question": sample("What is the capital of France?")}]),
    f"{PREFIX}list_roots": (False, [{"client_roots": ROOTS}]),
    f"{PREFIX}request_state": (True, [{"confirm": CONFIRM}]),
    f"{PREFIX}tampered_state": (True, [{"confirm": CONFIRM}]),
    f"{PREFIX}multiple_inputs": (
        True,
        [{"user_name": NAME, "greeting": sample("Generate a greeting"), "client_roots": ROOTS}],
    ),
    f"{PREFIX}multi_round": (
        True,
        [
            {"step1": elicit("Step 1: What is your name?", name=STRING)},
            {"step2": elicit("Step 2: What is your favorite color?", color=STRING)},
        ],
    ),
    f"{PREFIX}capabilities": (False, [{"name": NAME, "greeting": sample("Hello"), "roots": ROOTS}]),
    f"{PREFIX}prompt": (
        False,
        [{"user_context": elicit("What context should the prompt use?", context=STRING)}],
    ),
    "test_tool_with_task": (False, [{"user_name": NAME}]),
}
NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


def sign(round_number: int) -> str:
    digest = hmac.new(KEY, str(round_number).encode(), hashlib.sha256).hexdigest()
    return f"{round_number}.{digest}"


def is_answer(value: object) -> bool:
    return isinstance(value, dict) and bool(value)


def gather(ctx: Context, params: Any, name: str) -> Answer | None:
    """What is to be asked next; None when all rounds are answered."""
    has_state, rounds = ROUNDS[name]
    state = params.request_state
    number = int(state.partition(".")[0]) if state and state[0].isdigit() else 0
    if state is not None and state != sign(number):
        raise MCPError(types.INVALID_PARAMS, "requestState was tampered with")
    known = ctx.session.client_capabilities
    asked = {
        key: each
        for key, each in rounds[number].items()
        if known is not None and getattr(known, NEEDS[each["method"]]) is not None
    }
    raw = (ctx.params or {}).get("inputResponses") or {}
    if asked and isinstance(raw, dict) and all(is_answer(raw.get(key)) for key in asked):
        number += 1
        if number == len(rounds):
            return None
        asked = rounds[number]
    more = {"requestState": sign(number)} if has_state else {}
    return {"resultType": "input_required", "inputRequests": asked, **more}


class Jobs:
    """Tasks that only the suite begins; others are the office's."""

    def __init__(self, office: Any) -> None:
        self._office, self._numbers = office, itertools.count(1)
        self._jobs: dict[str, Answer] = {}
        self._waiting: dict[str, asyncio.Event] = {}
        self._answers: dict[str, dict[str, Any]] = {}

    def begin(
        self, work: Callable[[str], Awaitable[Answer]], asks: dict[str, Answer] | None = None
    ) -> Answer:
        job_id = f"job-{next(self._numbers)}"
        moment = "2026-11-30T06:00:00Z"
        job: Answer = {
            "taskId": job_id,
            "status": "input_required" if asks else "working",
            "createdAt": moment,
            "lastUpdatedAt": moment,
            "ttlMs": 60_000,
            "pollIntervalMs": 100,
        }
        if asks:
            job["inputRequests"] = dict(asks)
        self._jobs[job_id], self._waiting[job_id], self._answers[job_id] = job, asyncio.Event(), {}
        task = asyncio.create_task(self._run(job_id, work))
        self._waiting[job_id].task = task  # type: ignore[attr-defined]
        return begun(job)

    async def _run(self, job_id: str, work: Work) -> None:
        job = self._jobs[job_id]
        if "inputRequests" in job:
            await self._waiting[job_id].wait()
        try:
            result = await work(job_id)
        except MCPError as error:
            change = {"status": "failed", "error": {"code": error.code, "message": error.message}}
        else:
            change = {"status": "completed", "result": result}
        if job["status"] in ("working", "input_required"):
            job.update(change)

    def answers(self, job_id: str) -> dict[str, Any]:
        return self._answers[job_id]

    async def read(self, ctx: Context, task_id: str) -> Answer | None:
        if task_id in self._jobs:
            return dict(self._jobs[task_id])
        found: Answer | None = await self._office.read(ctx, task_id)
        return found

    async def update(self, ctx: Context, task_id: str, answers: dict[str, Any]) -> None:
        job = self._jobs.get(task_id)
        if job is None or "inputRequests" not in job:
            return
        for key in answers.keys() & job["inputRequests"].keys():
            self._answers[task_id][key] = answers[key]
            del job["inputRequests"][key]
        if not job["inputRequests"]:
            del job["inputRequests"]
            job["status"] = "working"
            self._waiting[task_id].set()

    async def cancel(self, ctx: Context, task_id: str) -> None:
        if task_id not in self._jobs:
            await self._office.cancel(ctx, task_id)
        elif self._jobs[task_id]["status"] in ("working", "input_required"):
            self._jobs[task_id].pop("inputRequests", None)
            self._jobs[task_id]["status"] = "cancelled"


def done(words: str, **more: Any) -> Answer:
    return {"content": [text(words)], **more}


class Fixtures:
    """Handlers in front of those of the product."""

    def __init__(self, server: Server[Any], jobs: Jobs) -> None:
        self._inner = {
            method: server.get_request_handler(method).handler  # type: ignore[union-attr]
            for method in (
                "tools/call", "tools/list", "prompts/get", "prompts/list", "resources/list", "resources/read",
                "resources/templates/list",
            )
        }  # fmt: skip
        self._jobs = jobs

    async def list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        found = await self._inner["tools/list"](ctx, params)
        names = [*CONTENTS, *ROUNDS, *(name for name in dir(self) if name.startswith("tool_"))]
        fixtures = [
            types.Tool(
                name=name.removeprefix("tool_"), description="A fixture", input_schema=self.schema(name)
            )
            for name in names
            if not name.endswith("_prompt")
        ]
        return types.ListToolsResult(tools=[*found.tools, *fixtures])

    def schema(self, name: str) -> Answer:
        if name == "tool_test_header":
            region = {"type": "string", "x-mcp-header": "Region"}
            return {"type": "object", "properties": {"region": region}}
        if name != "tool_json_schema_2020_12_tool":
            return {"type": "object"}
        address = {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": STRING, "city": STRING},
        }
        method = {"type": "string", "enum": ["phone", "email"], "default": "email"}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": address},
            "properties": {
                "name": STRING,
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": method,
                "phone": STRING,
                "email": STRING,
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        }

    async def call_tool(self, ctx: Context, params: Any) -> Any:
        answer = await self._call(ctx, params)
        if isinstance(answer, dict) and "resultType" not in answer:
            return types.CallToolResult.model_validate(answer)
        return answer

    async def _call(self, ctx: Context, params: Any) -> Any:
        name = params.name
        if name in CONTENTS:
            return {"content": CONTENTS[name]}
        if name in ROUNDS:
            asked = gather(ctx, params, name)
            if asked is not None:
                return asked
            answers = json.dumps((ctx.params or {}).get("inputResponses"))
            if name == "test_tool_with_task":
                return self._jobs.begin(lambda _: self._told(answers))
            return done(f"state-ok {answers}")
        handler = getattr(self, f"tool_{name}", None)
        if handler is None:
            return await self._inner["tools/call"](ctx, params)
        return await handler(ctx, params.arguments or {})

    async def _told(self, words: str) -> Answer:
        return done(words)

    # --- of 2025-11-25 ------------------------------------------------------------------------------

    async def tool_test_error_handling(self, ctx: Context, given: Answer) -> Answer:
        return done("This tool intentionally returns an error for testing", isError=True)

    async def tool_test_tool_with_progress(self, ctx: Context, given: Answer) -> Answer:
        for number in (0, 50, 100):
            await ctx.session.report_progress(number, 100, f"Completed step {number} of 100")
            await asyncio.sleep(0.05)
        return done("done")

    async def tool_test_tool_with_logging(self, ctx: Context, given: Answer) -> Answer:
        for step in ("started", "processing data", "completed"):
            params = types.LoggingMessageNotificationParams(level="info", data=f"Tool execution {step}")
            note = types.LoggingMessageNotification(params=params)
            await ctx.session.send_notification(note, related_request_id=ctx.request_id)
            await asyncio.sleep(0.05)
        return done("done")

    async def tool_test_missing_capability(self, ctx: Context, given: Answer) -> Answer:
        known = ctx.session.client_capabilities
        if known is None or known.sampling is None:
            needed = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs sampling", needed)
        return done("done")

    async def tool_test_streaming_elicitation(self, ctx: Context, given: Answer) -> Answer:
        return {"resultType": "input_required", "inputRequests": {"user_name": NAME}}

    async def tool_test_logging_tool(self, ctx: Context, given: Answer) -> Answer:
        return done("done")

    async def _ask(self, ctx: Context, request: Answer) -> Any:
        return await ctx.session._request_outbound.send_raw_request(
            request["method"], request["params"], None
        )

    async def tool_test_sampling(self, ctx: Context, given: Answer) -> Answer:
        found = await self._ask(ctx, sample(given.get("prompt", "")))
        return done(f"LLM response: {found['content']['text']}")

    async def tool_test_elicitation(self, ctx: Context, given: Answer) -> Answer:
        request = elicit(given.get("message", ""), response=STRING)
        found = await self._ask(ctx, request)
        return done(f"User response: action={found['action']}, content={found.get('content')}")

    async def tool_test_elicitation_sep1034_defaults(self, ctx: Context, given: Answer) -> Answer:
        properties: dict[str, Answer] = {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        }
        found = await self._ask(ctx, elicit("Please provide user information", **properties))
        return done(f"Elicitation completed: action={found['action']}, content={found.get('content')}")

    async def tool_test_elicitation_sep1330_enums(self, ctx: Context, given: Answer) -> Answer:
        titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
        plain = ["option1", "option2", "option3"]
        properties: dict[str, Answer] = {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", "enum": plain, "enumNames": ["One", "Two", "Three"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        }
        found = await self._ask(ctx, elicit("Please select values", **properties))
        return done(f"Elicitation completed: action={found['action']}, content={found.get('content')}")

    async def tool_test_header(self, ctx: Context, given: Answer) -> Answer:
        return done("done")

    async def tool_json_schema_2020_12_tool(self, ctx: Context, given: Answer) -> Answer:
        return done("done")

    # --- tasks --------------------------------------------------------------------------------------

    async def tool_greet(self, ctx: Context, given: Answer) -> Answer:
        return done(f"Hello, {given.get('name')}!")

    async def tool_slow_compute(self, ctx: Context, given: Answer) -> Answer:
        async def work(_: str) -> Answer:
            await asyncio.sleep(min(given.get("seconds", 0), 20))
            return done("computed")

        return self._jobs.begin(work) if declares(ctx) else await work("")

    async def tool_failing_job(self, ctx: Context, given: Answer) -> Answer:
        async def work(_: str) -> Answer:
            await asyncio.sleep(0.5)
            return done("it failed", isError=True)

        if not declares(ctx):
            raise lacking()
        return self._jobs.begin(work)

    async def tool_protocol_error_job(self, ctx: Context, given: Answer) -> Answer:
        async def work(_: str) -> Answer:
            raise MCPError(types.INTERNAL_ERROR, "it broke")

        return self._jobs.begin(work)

    async def tool_confirm_delete(self, ctx: Context, given: Answer) -> Answer:
        async def work(job_id: str) -> Answer:
            return done(json.dumps(self._jobs.answers(job_id)))

        return self._jobs.begin(work, {"confirm": CONFIRM})

    async def tool_multi_input(self, ctx: Context, given: Answer) -> Answer:
        async def work(job_id: str) -> Answer:
            return done(json.dumps(self._jobs.answers(job_id)))

        return self._jobs.begin(work, {"name": NAME, "confirm": CONFIRM})

    # --- resources and prompts ----------------------------------------------------------------------

    async def list_resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        found = await self._inner["resources/list"](ctx, params)
        names = ("static-text", "static-binary", "watched-resource")
        fixtures = [types.Resource(uri=f"test://{name}", name=name, mime_type="text/plain") for name in names]
        return types.ListResourcesResult(resources=[*fixtures, *found.resources])

    async def list_templates(self, ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        found = await self._inner["resources/templates/list"](ctx, params)
        fixture = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template")
        return types.ListResourceTemplatesResult(resource_templates=[fixture, *found.resource_templates])

    async def read_resource(self, ctx: Context, params: Any) -> Any:
        uri = str(params.uri)
        if uri == "test://static-binary":
            content: Answer = {"uri": uri, "mimeType": "image/png", "blob": PNG}
        elif uri.startswith("test://template/"):
            data = {
                "id": uri.split("/")[3],
                "templateTest": True,
                "data": f"Data for ID: {uri.split('/')[3]}",
            }
            content = {"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}
        elif uri in ("test://static-text", "test://watched-resource"):
            content = {
                "uri": uri,
                "mimeType": "text/plain",
                "text": "This is the content of the static text.",
            }
        else:
            return await self._inner["resources/read"](ctx, params)
        return types.ReadResourceResult.model_validate({"contents": [content]})

    async def list_prompts(self, ctx: Context, params: Any) -> types.ListPromptsResult:
        found = await self._inner["prompts/list"](ctx, params)
        arguments: dict[str, tuple[str, ...]] = {
            "test_prompt_with_arguments": ("arg1", "arg2"),
            "test_prompt_with_embedded_resource": ("resourceUri",),
        }
        names = ("test_simple_prompt", *arguments, "test_prompt_with_image", f"{PREFIX}prompt")
        fixtures = [
            types.Prompt(
                name=name,
                description="A fixture",
                arguments=[
                    types.PromptArgument(name=each, description="One", required=True)
                    for each in arguments.get(name, ())
                ],
            )
            for name in names
        ]
        return types.ListPromptsResult(prompts=[*fixtures, *found.prompts])

    async def get_prompt(self, ctx: Context, params: Any) -> Any:
        given = params.arguments or {}
        match params.name:
            case "test_simple_prompt":
                contents = [text("This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                contents = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
            case "test_prompt_with_embedded_resource":
                contents = [embedded(given["resourceUri"], "Embedded."), text("Please process it.")]
            case "test_prompt_with_image":
                contents = [IMAGE, text("Please analyze the image above.")]
            case name if name == f"{PREFIX}prompt":
                asked = gather(ctx, params, name)
                if asked is not None:
                    return asked
                contents = [text("With context")]
            case _:
                return await self._inner["prompts/get"](ctx, params)
        messages = [{"role": "user", "content": each} for each in contents]
        return types.GetPromptResult.model_validate({"messages": messages})

    async def complete(self, ctx: Context, params: Any) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))

    async def set_level(self, ctx: Context, params: Any) -> types.EmptyResult:
        return types.EmptyResult()


def build_server(gateway: Any, build: Any = product.build_server) -> Server[Any]:
    server: Server[Any] = build(gateway)
    offer = server.get_request_handler("tools/call").handler.__self__  # type: ignore[union-attr]
    jobs = Jobs(offer.goals)
    fixtures = Fixtures(server, jobs)
    serve_tasks(server, jobs)
    for method, params, handler in (
        ("tools/call", types.CallToolRequestParams, fixtures.call_tool),
        ("tools/list", types.PaginatedRequestParams, fixtures.list_tools),
        ("resources/list", types.PaginatedRequestParams, fixtures.list_resources),
        ("resources/templates/list", types.PaginatedRequestParams, fixtures.list_templates),
        ("resources/read", types.ReadResourceRequestParams, fixtures.read_resource),
        ("prompts/list", types.PaginatedRequestParams, fixtures.list_prompts),
        ("prompts/get", types.GetPromptRequestParams, fixtures.get_prompt),
        ("completion/complete", types.CompleteRequestParams, fixtures.complete),
        ("logging/setLevel", types.SetLevelRequestParams, fixtures.set_level),
    ):
        server.add_request_handler(method, params, handler)
    return server


if __name__ == "__main__":
    from services.gateway import __main__ as gateway_main
    from shared import settings
    from shared.access.credentials import keep_command_token, read_command_token

    def build_app(gateway: Any) -> Any:
        app = build_product(gateway)

        async def add_token(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and not any(name == b"authorization" for name, _ in scope["headers"]):
                scope["headers"] = [*scope["headers"], (b"authorization", b"Bearer " + token)]
            await app(scope, receive, send)

        return add_token

    config = settings.load()
    keep_command_token(config)  # as a host of MCP it may submit, and no more
    token = read_command_token(config).encode()
    build_product, gateway_main.build_app = gateway_main.build_app, build_app
    product.build_server = build_server  # type: ignore[assignment]
    gateway_main.main()
