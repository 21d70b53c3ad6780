"""Reception: who a message is for, and how it gets there."""

from collections.abc import Mapping
from typing import Any

import msgspec

from services.nexus.asking import choose_route
from services.nexus.context import cut
from services.nexus.nearest import Examples, candidates
from services.nexus.rounds import Rounds
from services.nexus.routing import UNDECIDED, route_request
from services.nexus.tools import fill_params, read_tools
from services.nexus.visit import Visit
from shared import subjects
from shared.agent.base import Outbox
from shared.bus import Bus, Entry
from shared.contracts import MAX_TEXT, Response, RoutingDecision, Task, TaskResult, TaskStatus
from shared.errors import ActionError, BusError, ModelError
from shared.settings import Settings
from shared.tasks.profile import Profile

AGENTS = {
    "cortex": "plans and carries out work: writes, changes, runs and debugs code, scripts and projects",
    "conductor": "checks up on a repository, and whatever takes several agents",
    "frontier": "finds out what is new: research, papers, trends",
}
"""Whom messages can be passed on to, and what for."""


class Reception(Rounds):
    """An agent that passes messages on: to the tools of its profile, and as goals to the office."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self.tools = read_tools(profile.options)
        self.routes = {**AGENTS, **{f"tool:{name}": tool.description for name, tool in self.tools.items()}}
        self.examples = Examples(self.context.memory, self.routes, home=profile.name)

    async def prepare_examples(self) -> None:
        """Have the examples embedded before they are needed; without memory they are when they are."""
        try:
            await self.examples.prepare()
        except BusError as error:
            self.context.log.info("examples_not_ready", reason=str(error))

    async def find_route(self, text: str, *, thinking: bool = False) -> RoutingDecision:
        """By the rules; where they leave it open by the nearest example; and by the model if ``thinking``."""
        personal = {name for name, tool in self.tools.items() if tool.personal}
        keywords = {name: tool.keywords for name, tool in self.tools.items()}
        decision = route_request(text, keywords, personal)
        if decision.route != self.context.profile.name or not text.strip():
            return decision
        try:
            near = candidates(text, self.routes, {f"tool:{name}" for name in personal})
            nearest = await self.examples.decide(text, near)
        except BusError as error:
            self.context.log.warning("examples_unknown", reason=str(error))
            nearest = None
        if (
            nearest is not None
            or not thinking
            or decision.rationale != UNDECIDED
            or not self.context.models.model.available
        ):
            return nearest or decision
        try:
            return await choose_route(
                self.context.models, text, {**self.routes, self.context.profile.name: "answers from memory"}
            )
        except ModelError as error:
            self.context.log.warning("route_unthought", reason=str(error))
            return decision

    async def use_tool(self, visit: Visit, decision: RoutingDecision) -> Outbox:
        """The task of a tool, or the answer that it needs to be told more."""
        tool = self.tools[decision.tool_name]
        params = fill_params(visit.text, tool)
        if params is None:
            text = f"I can ask {tool.assignee} for that, but not about what. Name the {tool.subject}."
            return [visit.reply(Response(text=text, route_used=decision.route))]
        return await self.hand_out(visit, decision.route, tool.assignee, tool.action, params)

    async def hand_out(
        self, visit: Visit, route: str, assignee: str, action: str, params: Mapping[str, Any]
    ) -> Outbox:
        """The task that does it, once for each message; its result comes to ``on_result``."""
        task = Task(
            task_id=f"ask_{self.context.bus.derive_id('ask', visit.asker, visit.letter_id, action)}",
            cause=visit.letter_id,
            text=visit.text,
            assignee=assignee,
            requester=self.context.profile.name,
            context={"action": action, "params": dict(params), "route": route, "visit": visit.to_dict()},
        )
        record = subjects.state(task.assignee, task.requester, task.task_id)
        return () if await self.context.bus.last(subjects.OFFICE, record) else [task]

    def open_goal(self, visit: Visit, decision: RoutingDecision) -> tuple[Entry, Response]:
        """A goal that does what a message asks for, the same each time, and the answer that names it."""
        goal_id = f"goal_{self.context.bus.derive_id('goal', visit.asker, visit.letter_id)}"
        goal = {
            "text": visit.text,
            "goal_id": goal_id,
            "requester": visit.asker,
            "context": {"route": decision.route, "letter_id": visit.letter_id},
        }
        asked = cut(" ".join(visit.text.split()), 200)
        text = (
            f"That is work for the office, so I started goal {goal_id}: {asked}\n"
            f"The conductor plans it, and its report comes by mail. Follow it with: mailroom show {goal_id}"
        )
        response = Response(text=text, route_used=decision.route, goal_id=goal_id, confidence=1.0)
        return Entry(subjects.SUBMIT, msgspec.json.encode(goal), goal_id), response

    async def do_at_once(self, visit: Visit, decision: RoutingDecision) -> Response:
        """Within a job: what a tool brings, or the goal that was started, as the answer to ``visit``."""
        if not decision.tool_name:
            entry, response = self.open_goal(visit, decision)
            await self.context.bus.store(entry.subject, entry.payload, headers={"Nats-Msg-Id": entry.id})
            return response
        tool = self.tools[decision.tool_name]
        params = fill_params(visit.text, tool)
        if params is None:
            raise ActionError(
                f"I can ask {tool.assignee} for that, but not about what", f"Name the {tool.subject}"
            )
        result = await self.context.delegation.run(tool.assignee, visit.text, tool.action, params, key="tool")
        return tell_result(result, decision.route)


def tell_result(result: TaskResult, route: str) -> Response:
    """What a tool brought, as the answer to whoever asked for it."""
    done = result.status is TaskStatus.COMPLETED
    text = (result.output if done else result.error_message).strip() or "There is no result."
    return Response(
        text=cut(text, MAX_TEXT),
        citations=result.evidence_refs,
        route_used=route,
        confidence=1.0 if done else 0.0,
    )
