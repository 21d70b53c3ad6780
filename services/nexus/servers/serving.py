"""What the desk does with the tools of servers: which there are, which is meant, and the call."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from services.nexus.routing.decision import NEARLY_SAME, Decision
from services.nexus.routing.request import Request
from services.nexus.servers.choosing import Choice, Chooser, Offered, choose
from services.nexus.servers.reading import Known, Said, read_known, read_tokens
from services.nexus.tools.tool import Answer, Call, Effect, Tool, ToolContext, Words, ask_back, command
from shared import contracts, subjects
from shared.agent.context import AgentContext
from shared.contracts import ResultOutcome, TaskStatus
from shared.contracts.emails import SLOT
from shared.errors import ActionError, BusError
from shared.language.sayings import read_sayings
from shared.language.utterance import Act
from shared.mcp import pins
from shared.mcp.config import read_servers
from shared.mcp.tools import ToolAction, as_action
from shared.tasks.actions import Action, Outcome
from shared.text.display import escape_invisible

WAYS = read_sayings(__file__, "serving")

MCP = "mcp"
USE = "use_server"  # The action of nexus in which a server is asked what there is, and called
GENERAL = frozenset({"work", "memory", "unclear", "statement", "small_talk", "web"})
"""What the desk does with anything that could be asked for or told."""
MOST = 3  # Tools of which it is asked which is meant
MAX_TOLD = 20_000  # Characters of a server's answer that the desk passes on
NONE = (
    "No tool here does that: it takes an MCP server, such as Home Assistant's for what is at home. Add one "
    "with 'mailroom mcp add home --for nexus URL' (see docs/mcp.md), and say it again. Nothing was done."
)
NOT_SO = (
    "no tool of these MCP servers does that as it is said. Say one thing at a time, to be done now, of "
    "things by their names. Nothing was done."
)


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A tool for a model, and whether it only tells; any other may change something."""

    offered: Offered
    tells: bool

    @property
    def action(self) -> Action:
        """It as an action; whoever runs it is the agent that has it."""
        return as_action(self.offered.action, self.offered.server, self.offered.tool)


class Servers:
    """The MCP servers that agents of this office have; nothing is read where the settings name none."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._servers = read_servers(context.settings)
        self._known: dict[str, Known] = {}
        self._chooser = Chooser(())
        self._key: dict[str, tuple[str, str, str]] = {}

    async def decide(self, request: Request, decision: Decision) -> Decision | None:
        """That a person's message is for a tool of a server; None if it is for the desk itself.

        Until the servers have told what there is, whatever asks or orders is: they may know what it names.
        """
        by_rule = decision.sure == 1.0
        if request.asker != subjects.USER or by_rule or request.joined or decision.is_without_memory:
            return None
        found = Decision(tool=MCP, why="it is for a tool of a server", sure=NEARLY_SAME)
        if self._servers:
            if await self._find(request, decision):
                return found
            can_be = request.utterance.act in (Act.REQUEST, Act.QUESTION)
            if can_be and any(each.server not in self._known for each in self._looks()):
                return msgspec.structs.replace(found, why="the servers are first asked what there is")
        return found if _lacks(request) else None

    async def use(self, request: Request, decision: Decision) -> Answer | Call | None:
        """Within a task: the call that a message means, what it asks back, or None if it is for the desk."""
        if self._servers:
            await self._look()
        name, _, rest = request.text.partition(" ")
        if any(each.action == name for each in self._chooser.offered):  # a person chose it
            request = msgspec.structs.replace(request, text=rest)
            ranked = self._chooser.rank(self._said(request), self._known)
            found = [each for each in ranked if each.offered.action == name]
        else:
            found = await self._find(request, decision)
        if not found:
            there = sorted({each.server for each in self._chooser.offered})
            text = f"{', '.join(there)}: {NOT_SO}" if there else NONE
            none = Answer(text=text, outcome=ResultOutcome.FAILED, confidence=0.0)
            return none if _lacks(request) else None
        if len(found) > 1:
            return _ask_which(request, found)
        action, filled = found[0].offered.action, found[0].filled
        if filled.missing:
            wanted = " and the ".join(each.replace("_", " ") for each in filled.missing)
            whole = command(MCP, f"{action} {request.text.rstrip(' .?!')} {SLOT}")
            return ask_back(f"{action} would do that, and needs the {wanted}. Which?", whole)
        return Call(assignee=found[0].offered.assignee, action=action, params=filled.params)

    async def _find(self, request: Request, decision: Decision) -> list[Choice]:
        await self._read()
        said = self._said(request)
        # What says that something is turned on is like an order of the desk only by its verb
        sure = 0.0 if decision.is_joined else decision.sure
        ranked = self._chooser.rank(said, self._known)
        return choose(ranked, said, sure=sure, is_general=decision.tool in GENERAL)

    def _said(self, request: Request) -> Said:
        text, zone = request.text, self._context.settings.time_zone
        return Said(text, read_tokens(text), request.utterance.act, zone)

    async def _read(self) -> None:
        """Read the tools as people approved them: those of the desk itself, and of the agents at work."""
        offered = {}
        for name, action in self._context.actions.items():
            if isinstance(action, ToolAction) and action.server in self._servers:
                offered[name] = (action.server, action.tool, self._context.profile.name)
        own = {server for server, _, _ in offered.values()}
        try:
            present = await self._context.directory.read() if self._servers.keys() - own else {}
        except BusError:
            present = {}
        for server in self._servers.keys() - own:
            pin = pins.read_pin(self._context.settings, server)
            for name, tool in pin.actions().items() if pin else ():
                agent = min((each for each in present if name in present[each].actions), default="")
                offered |= {name: (server, tool, agent)} if agent else {}
        key = {name: (tool.digest, agent, server) for name, (server, tool, agent) in offered.items()}
        if key == self._key:
            return
        programs = {name: pins.read_pin(self._context.settings, name) for name in self._servers}
        self._key, self._known = key, {}
        self._chooser = Chooser(
            [
                Offered(
                    action=name,
                    server=server,
                    tool=tool,
                    assignee=agent,
                    asks=verdict == "ask",
                    program=pin.program if (pin := programs[server]) else "",
                )
                for name, (server, tool, agent) in offered.items()
                if (verdict := self._servers[server].judge(tool)) != "deny"
            ]
        )

    def _looks(self) -> list[Offered]:
        return [each for each in self._chooser.offered if self._is_look(each)]

    def _is_look(self, each: Offered) -> bool:
        """Whether it tells what there is: a person allows it by name, it is named so, and needs nothing."""
        schema, is_allowed = each.tool.schema, self._servers[each.server].allows(each.tool)
        is_one = is_allowed and each.is_named_reading
        return is_one and bool(schema.get("properties")) and not schema.get("required")

    async def offer(self, asker: str) -> dict[str, Served]:
        """The tools for a model that works on a person's message, by the names of their actions."""
        if asker != subjects.USER or not self._servers:
            return {}
        await self._read()
        return {
            each.action: Served(offered=each, tells=each.tool.is_read_only or self._is_look(each))
            for each in self._chooser.offered
        }

    async def call(self, each: Offered, params: Mapping[str, Any], why: str) -> Outcome:
        """Within a task: have the agent that has it call a tool; raises ActionError if it failed."""
        context = self._context
        if each.assignee == context.profile.name:
            outcome = await context.actions.perform(each.action, params)
            if outcome.outcome is ResultOutcome.FAILED:
                raise ActionError(outcome.problem or outcome.output)
            return outcome
        key = context.bus.derive_id("served", each.action, json.dumps(params, sort_keys=True))
        result = await context.delegation.run(each.assignee, why, each.action, params, key=key)
        if result.status is not TaskStatus.COMPLETED:
            raise ActionError(result.error_message)
        return Outcome(output=result.output, evidence_refs=result.evidence_refs)

    async def _look(self) -> None:
        """Ask the servers what there is; a second attempt at the task has the answers of the first."""
        await self._read()
        told: dict[str, Known] = {}
        for each in self._looks():
            result = await self._context.delegation.run(
                each.assignee, "What there is, for the desk", each.action, {}, key=f"look-{each.action}"
            )
            done = result.status is TaskStatus.COMPLETED
            told[each.server] = (*told.get(each.server, ()), *(read_known(result.output) if done else ()))
        self._known = told


def _ask_which(request: Request, found: Sequence[Choice]) -> Answer:
    """Which of the tools is meant."""
    choices = [
        contracts.Choice(
            label=_describe(each.offered.action, each.filled.params),
            text=command(MCP, f"{each.offered.action} {request.text}"),
        )
        for each in found[:MOST]
    ]
    return ask_back("Which of these is meant? Answer with its number.", choices=choices)


def tell(text: str) -> str:
    """What a server answered, for a person: a line for each thing that it tells of; other JSON as YAML."""
    things = [[value for values in each.values() for value in values] for each in read_known(text)]
    if things and all(len(each) > 1 for each in things):
        return "\n".join(f"- {each[0]}: {', '.join(each[1:])}" for each in things)[:MAX_TOLD]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text[:MAX_TOLD]
    if not isinstance(value, dict | list):
        return text[:MAX_TOLD]
    import yaml

    return str(yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=10**6))[:MAX_TOLD].rstrip()


def _lacks(request: Request) -> bool:
    """Whether it asks for what no office can without a server."""
    return bool(WAYS["lacking"].fullmatch(request.text.strip()))


def _describe(action: str, params: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in params.items())
    return escape_invisible(f"{action}: {given}" if given else action)


async def call_server(context: ToolContext, request: Request, _: Words) -> Call:
    """The desk's own task in which the server is asked and called."""
    return Call(assignee=context.agent.profile.name, action=USE, params={"text": request.text})


TOOL = Tool(
    name=MCP,
    description="has a tool of an MCP server do it",
    run=call_server,
    effect=Effect.STARTS,
    hidden=True,
    personal=True,
)
"""It is no tool of the classifier's: its words are those of the servers' tools."""
