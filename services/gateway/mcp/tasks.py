"""The extension ``io.modelcontextprotocol/tasks`` (SEP-2663): a goal is a task, which the log keeps."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import decode_header_value
from mcp_types import RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from shared.contracts import TaskStatus
from shared.errors import MailroomError, TooLate

EXTENSION = "io.modelcontextprotocol/tasks"
POLL = 2_000  # Milliseconds after which a host asks again
Context = ServerRequestContext[Any, Request]
Run = Callable[[Context, str, dict[str, Any]], Awaitable[Any]]
"""Calls a tool by its name."""


class TaskId(RequestParams):
    """Which task."""

    task_id: str


class Answers(TaskId):
    """What a task asked for, by the keys of its questions."""

    input_responses: dict[str, Any] = {}


class Work(Protocol):
    """What runs as tasks: each is described as SEP-2663 has it, and None if there is none of that id."""

    async def read(self, ctx: Context, task_id: str) -> dict[str, Any] | None:
        """A task as it is now."""

    async def update(self, ctx: Context, task_id: str, answers: dict[str, Any]) -> None:
        """Take answers to what a task asked for."""

    async def cancel(self, ctx: Context, task_id: str) -> None:
        """Stop a task; nothing happens to one that has ended."""


def declares(ctx: Context) -> bool:
    """Whether a host knows the extension: then a call may begin a task."""
    known = ctx.session.client_capabilities
    is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern and known is not None and EXTENSION in (known.extensions or {})


def lacking() -> MCPError:
    """The error for a host that does not know the extension."""
    needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    text = f"This needs the extension {EXTENSION}"
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, text, needed)


def begun(task: dict[str, Any]) -> dict[str, Any]:
    """What a call answers that began a task."""
    kept = {name: value for name, value in task.items() if name not in ("result", "error", "inputRequests")}
    return {**kept, "resultType": "task"}


def serve_tasks(server: Server[Any], work: Work) -> None:
    """Have ``server`` offer the extension."""
    server.extensions[EXTENSION] = {}

    async def find(ctx: Context, params: TaskId) -> dict[str, Any]:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        if not declares(ctx):
            raise lacking()
        named = ctx.request.headers.get("mcp-name") if ctx.request else None
        if decode_header_value(named) != params.task_id:
            raise MCPError(types.HEADER_MISMATCH, "Mcp-Name is not the taskId of the body")
        task = await work.read(ctx, params.task_id)
        if task is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no task {params.task_id[:80]!r}")
        return task

    async def get(ctx: Context, params: TaskId) -> dict[str, Any]:
        return await find(ctx, params)

    async def update(ctx: Context, params: Answers) -> dict[str, Any]:
        await find(ctx, params)
        await work.update(ctx, params.task_id, params.input_responses)
        return {}

    async def cancel(ctx: Context, params: TaskId) -> dict[str, Any]:
        await find(ctx, params)
        await work.cancel(ctx, params.task_id)
        return {}

    server.add_request_handler("tasks/get", TaskId, get)
    server.add_request_handler("tasks/update", Answers, update)
    server.add_request_handler("tasks/cancel", TaskId, cancel)


class Goals:
    """Goals as tasks: ``run`` calls the tools of goals in the name of the person who asks."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def read(self, ctx: Context, task_id: str) -> dict[str, Any] | None:
        """A goal as it is now; one that failed is a result that says so, for a task fails by the protocol."""
        try:
            state = await self._run(ctx, "goal", {"goal_id": task_id})
        except (MailroomError, ValueError):
            return None
        goal = state.goal
        if goal.goal_id != task_id:
            return None
        task: dict[str, Any] = {
            "taskId": goal.goal_id,
            "status": "working",
            "createdAt": goal.submitted_at,
            "lastUpdatedAt": state.changed_at,
            "ttlMs": None,
            "pollIntervalMs": POLL,
        }
        if message := state.reason or goal.summary or goal.state:
            task["statusMessage"] = message
        if goal.status == TaskStatus.CANCELLED:
            return {**task, "status": "cancelled"}
        if not state.ended:
            return task
        text = state.report or state.answer or state.reason or goal.state
        result = types.CallToolResult(
            content=[types.TextContent(text=text)],
            structured_content={"goal_id": goal.goal_id, "status": goal.status, "seq": 0},
            is_error=goal.status != TaskStatus.COMPLETED,
        )
        shown = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {**task, "status": "completed", "result": shown}

    async def update(self, ctx: Context, task_id: str, answers: dict[str, Any]) -> None:
        """A goal asks nothing of a host: what it asks waits for a person in the office."""

    async def cancel(self, ctx: Context, task_id: str) -> None:
        """Stop a goal."""
        try:
            await self._run(ctx, "cancel_goal", {"goal_id": task_id})
        except TooLate:
            return
        except MailroomError as error:
            raise MCPError(types.INVALID_REQUEST, str(error)) from None
