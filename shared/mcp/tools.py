"""The tools that one agent has from MCP servers: offered as actions, asked about, journaled, and called."""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from shared import subjects
from shared.contracts import ResultOutcome
from shared.errors import ActionError, ConfigError, NotApproved, Unanswered
from shared.llm.leaving import UNKNOWN
from shared.llm.protocol import Message
from shared.log import logger
from shared.mcp.config import ServerConfig, read_servers
from shared.mcp.pins import Pin, Tool, check_params, read_pin
from shared.mcp.questions import Choice, describe, fields_of, read_answer
from shared.mcp.session import Answer, Session
from shared.messaging.approval_requests import Approvals
from shared.messaging.correspondence import RequestReply
from shared.reasoning.model import ModelSession
from shared.settings import Settings
from shared.tasks.actions import Action, ActionRegistry, Bound, Outcome
from shared.tasks.context import require_current_task
from shared.tasks.profiles import Profile
from shared.text.display import escape_invisible, excerpt

MAX_OFFERED = 300_000  # Bytes of the tools of one agent together: they are in its presence, and in prompts
MAX_DESCRIPTION = 1_000  # Characters of a tool's description that agents and models get
MAX_PARAMS = 20_000  # Characters of the parameters of a call that a person is asked about
MAX_QUESTIONS = 3  # How often a person is asked who answers with something else
HOW_TO_ANSWER = "Answer with a line for each of these, or with: yes (as proposed), no, or cancel"
LOOK_EVERY = 5.0  # Seconds between two looks for servers without a call

log = logger(__name__)


class NoParams(msgspec.Struct, frozen=True):
    """In place of parameters: those of a tool are as its server's schema has them."""


class ToolAction(Action, frozen=True, kw_only=True):
    """A tool of a server as an action; the server itself checks most of its parameters."""

    server: str
    tool: Tool

    def schema(self) -> dict[str, Any]:
        """The JSON schema of its parameters, as the server gives it."""
        return {**self.tool.schema, "properties": self.tool.properties}

    def convert(self, value: Any) -> dict[str, Any]:
        """``value`` as its parameters; raises msgspec.ValidationError."""
        if problem := check_params(self.tool.schema, value):
            raise msgspec.ValidationError(problem)
        return dict(value)

    def explain(self, params: Mapping[str, Any]) -> str:
        """What is wrong with ``params``: ``convert`` tells."""
        return ""

    async def run(self, owner: Any, params: Mapping[str, Any]) -> Outcome:
        """Have ``owner``, a ServerTools, call it."""
        outcome: Outcome = await owner.call(self, dict(params))
        return outcome


class ServerTools:
    """The tools of the servers that the settings or its profile give to an agent; one process a server.

    ``follow`` keeps its actions as people approved them, and stops servers that nobody calls.
    """

    def __init__(
        self,
        profile: Profile,
        settings: Settings,
        actions: ActionRegistry,
        *,
        approvals: Approvals,
        requests: RequestReply,
        models: ModelSession,
    ) -> None:
        self._settings, self._actions = settings, actions
        self._approvals, self._requests, self._models = approvals, requests, models
        self._servers = {n: each for n, each in read_servers(settings).items() if each.is_for(n, profile)}
        if unknown := sorted(set(profile.mcp) - self._servers.keys()):
            raise ConfigError(
                f"The profile of {profile.name!r} names the MCP server {unknown[0]!r}, which there is not",
                f"Add it by 'mailroom mcp add {unknown[0]}', or take it out of the profile",
            )
        self._pins: dict[str, Pin | None] = {}
        self._sessions: dict[str, Session] = {}
        self._starting = asyncio.Lock()
        self.refresh()

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the servers that run now."""
        return tuple(name for name, session in self._sessions.items() if session.running)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its actions."""
        return tuple(name for name, action in self._actions.items() if isinstance(action, ToolAction))

    def refresh(self) -> None:
        """Offer what people approved by now as actions, and nothing else."""
        pins = {name: read_pin(self._settings, name) for name in self._servers}
        if pins == self._pins:
            return
        self._pins = pins
        offered: dict[str, Bound] = {}
        left = MAX_OFFERED
        for pin in filter(None, pins.values()):
            for name, tool in pin.actions().items():
                left -= len(json.dumps(tool.schema)) + len(tool.description)
                if left < 0:
                    log.warning("tools_left_out", server=pin.server, reason="they are too many to offer")
                    break
                offered[name] = Bound(self, as_action(name, pin.server, tool))
        self._actions.drop(self.names)
        self._actions.add(offered)

    async def follow(self) -> None:
        """Refresh the actions, and stop servers that are idle for as long as they may; until cancelled."""
        while self._servers:
            await asyncio.sleep(LOOK_EVERY)
            self.refresh()
            for name, session in list(self._sessions.items()):
                late = time.monotonic() - session.used_at > session.server.idle
                if not session.running or (late and not session.busy):
                    self._sessions.pop(name)
                    await session.close()

    async def close(self) -> None:
        """End every server; returns when none of their processes is left."""
        sessions, self._sessions = self._sessions, {}
        await asyncio.gather(*(session.close() for session in sessions.values()))

    # --- calls -----------------------------------------------------------------------------------

    async def call(self, action: ToolAction, params: dict[str, Any]) -> Outcome:
        """Call a tool, once people granted it where that is needed.

        Raises NotApproved if it is off, denied or refused, and ActionError if the server does not answer.
        """
        name, tool = action.server, action.tool
        server, session = self._servers[name], await self._session(name)
        now = await session.list_tools()
        self._require_approved(name, tool, now)
        program = " ".join(filter(None, (now.program or name, now.version)))
        written = escape_invisible(json.dumps(params, ensure_ascii=False, sort_keys=True))
        await self._require_allowed(server, action, program, written)
        what = f"{action.name} of the MCP server {name} ({program}, {tool.digest[:12]})"
        whole = f"{what}: {excerpt(written, 2_000)}"
        async with require_current_task().effect(whole, repeatable=tool.is_read_only):
            answer = await session.call(tool, params)
        return _conclude(
            answer, {"server": name, "program": program, "tool": tool.name, "digest": tool.digest}
        )

    async def _session(self, name: str) -> Session:
        """The server, which is started at its first call."""
        async with self._starting:
            session = self._sessions.get(name)
            if session is None or not session.running:
                server = self._servers[name]
                session = Session(
                    name,
                    server,
                    ask=self._ask(name),
                    sample=self._sample if server.sampling else None,
                    settings=self._settings,
                )
                await session.start()
                self._sessions[name] = session
            return session

    def _require_approved(self, name: str, tool: Tool, now: Pin) -> None:
        """Raise NotApproved unless a person approved the tool as the server has it now."""
        pin, present = read_pin(self._settings, name), now.find(tool)
        known = pin.find(tool) if pin else None
        if known is None or known.digest != tool.digest:
            problem = "a person has not approved it as it was offered"
        elif present is None:
            problem = "the server has it no longer"
        elif present.digest != known.digest:
            problem = "the server has changed it since a person approved it"
        else:
            return
        raise NotApproved(
            f"The tool {escape_invisible(tool.name)} of the MCP server {name} is off: {problem}",
            f"A person can look at it, and approve it: mailroom mcp pin {name}",
        )

    async def _require_allowed(
        self, server: ServerConfig, action: ToolAction, program: str, written: str
    ) -> None:
        """Raise NotApproved unless the settings or, where they ask, a person allows the call."""
        tool = action.tool
        verdict = server.judge(tool)
        if verdict == "deny":
            raise NotApproved(f"The settings deny {action.name}", f"See 'deny' in [mcp.{action.server}]")
        if verdict == "allow":
            return
        if len(written) > MAX_PARAMS:
            raise ActionError(f"{action.name} has more parameters than a person can read", "Give it less")
        what = f"call {action.name} of the MCP server {action.server} ({program}) with {written}"
        why = "it does not say that it is harmless" if tool.asks else "the settings ask"
        destroys = tool.annotations.get("destructiveHint") is True
        await self._approvals.require(what, rule="mcp.destructive" if destroys else "mcp.call", why=why)

    # --- what servers ask ------------------------------------------------------------------------

    def _ask(self, name: str) -> Any:
        async def ask(message: str, url: str, schema: dict[str, Any]) -> tuple[Choice, dict[str, Any]]:
            said = f"the MCP server {name} asks: {escape_invisible(message[:4_000])}"
            if url or not fields_of(schema):
                what = f"{said}\nIt wants you to open {escape_invisible(url)}" if url else said
                try:
                    await self._approvals.require(what, rule="mcp.question", why="a server asks for it")
                except Unanswered:
                    return "cancel", {}
                except NotApproved:
                    return "decline", {}
                return "accept", {}
            problem = ""
            for _ in range(MAX_QUESTIONS):
                lines = (problem, f"T{said[1:]}", "", HOW_TO_ANSWER, describe(schema))
                body = escape_invisible("\n".join(lines).lstrip())
                answer = await self._requests.send(subjects.USER, f"A question of {name}", body)
                try:
                    return read_answer(answer.body, schema)
                except ValueError as error:
                    problem = f"Your answer cannot be passed on: {error}.\n"
            return "cancel", {}

        return ask

    async def _sample(self, params: Any) -> Any:
        """Have the agent's model answer a server, within the budget of the task."""
        from mcp_types import CreateMessageResult, TextContent

        messages = [
            Message(role=each.role, text=str(getattr(each.content, "text", "")), kinds=(UNKNOWN,))
            for each in params.messages
        ]
        thought = await self._models.ask_model(messages, (), persona=(params.system_prompt or "")[:4_000])
        content = TextContent(type="text", text=thought.text)
        return CreateMessageResult(role="assistant", content=content, model="mailroom")


def as_action(name: str, server: str, tool: Tool) -> ToolAction:
    """A tool of ``server`` as an action, with what is not seen in its words as code points."""
    infos = {
        key: excerpt(escape_invisible(str(each.get("description", ""))), 200)
        if isinstance(each, dict)
        else ""
        for key, each in tool.properties.items()
    }
    return ToolAction(
        name=name,
        description=excerpt(escape_invisible(tool.description or tool.name), MAX_DESCRIPTION),
        param_infos=infos,
        params=NoParams,
        server=server,
        tool=tool,
    )


def _conclude(answer: Answer, source: dict[str, str]) -> Outcome:
    told, data = answer.text or "(no text)", {"mcp": source}
    if not answer.failed:
        return Outcome(output=told, data=data)
    problem = f"{source['server']} says: {excerpt(told, 1_000)}"
    return Outcome(output=told, data=data, outcome=ResultOutcome.FAILED, problem=problem)
