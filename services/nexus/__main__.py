"""Nexus: the front desk, which answers from memory and passes on what has to be done."""

from collections.abc import Mapping
from typing import Any

import msgspec

from services.nexus.answer import answer
from services.nexus.context import build_context, cut
from services.nexus.routing import route_request
from services.nexus.tools import Tool, find_subject, read_tools
from services.nexus.visit import Visit
from shared import subjects
from shared.actions import Outcome, register_action
from shared.agent import BaseAgent, Replies
from shared.bus import Bus, Entry
from shared.contracts import (
    MAX_TEXT,
    Email,
    Envelope,
    Question,
    Response,
    RoutingDecision,
    Task,
    TaskChanged,
    TaskResult,
    TaskStatus,
)
from shared.errors import ActionError, BusError
from shared.process import run
from shared.profile import Profile
from shared.settings import Settings

MEMORIES = 8
"""How many remembered things a context packet holds at most."""


class Nexus(BaseAgent):
    """The front desk: answers from memory with citations, and passes on what has to be done."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self.tools = read_tools(profile.options)

    @register_action("Answer a question from memory", {"text": "The question"})
    async def ask(self, text: str) -> Outcome:
        """The answer with its citations; the whole Response in data key ``response``."""
        if not text.strip():
            raise ActionError("The question is empty", "Ask something")
        response = await self._recall(text)
        return Outcome(
            output=response.text, data={"response": response.to_dict()}, evidence_refs=response.citations
        )

    @register_action("Say who a message is for, and by which rule", {"text": "The message"})
    async def route(self, text: str) -> Outcome:
        """The RoutingDecision in data key ``decision``; nothing is passed on."""
        decision = self._route(text)
        return Outcome(
            output=f"{decision.route}: {decision.rationale}", data={"decision": decision.to_dict()}
        )

    async def on_question(self, question: Question) -> Replies:
        """Answer, or pass on what the question asks to be done and say where it went."""
        return await self._receive(Visit.of_question(question))

    async def on_email(self, email: Email) -> Replies:
        """The same for a letter; an agent's answer to a letter is only filed, or two might never end."""
        if email.in_reply_to and email.sender != subjects.USER:
            return ()
        return await self._receive(Visit.of_email(email))

    async def on_result(self, result: TaskResult) -> Replies:
        """Hand what a tool brought to whoever asked for it."""
        stored = await self.bus.last(
            subjects.OFFICE, subjects.state(result.agent, self.profile.name, result.task_id)
        )
        context = TaskChanged.from_json(stored.data).task.context if stored else {}
        if "visit" not in context:
            return ()
        visit = Visit.from_dict(context["visit"])
        done = result.status is TaskStatus.COMPLETED
        text = (result.output if done else result.error_message).strip() or "There is no result."
        response = Response(
            text=cut(text, MAX_TEXT),
            citations=result.evidence_refs,
            route_used=context["route"],
            confidence=1.0 if done else 0.0,
        )
        return [visit.reply(response)]

    async def _receive(self, visit: Visit) -> Replies:
        decision = self._route(visit.text)
        if decision.tool_name:
            return await self._use_tool(visit, decision)
        if decision.route != self.profile.name:
            return self._pass_on(visit, decision)
        if not visit.text.strip():
            text = "The letter is empty. Ask a question, or say what is to be done."
            return [visit.reply(Response(text=text))]
        return [visit.reply(await self._recall(visit.text))]

    def _route(self, text: str) -> RoutingDecision:
        return route_request(text, {name: tool.keywords for name, tool in self.tools.items()})

    async def _recall(self, text: str) -> Response:
        try:
            hits = await self.memory.search(text, limit=MEMORIES)
        except BusError as error:
            return Response(text=f"I cannot look into memory just now. {error}")
        return answer(text, build_context(text, hits, limit=MEMORIES), hits)

    async def _use_tool(self, visit: Visit, decision: RoutingDecision) -> Replies:
        tool = self.tools[decision.tool_name]
        subject = find_subject(visit.text, tool)
        if tool.subject and not subject:
            text = f"I can ask {tool.assignee} for that, but not about what. Name the {tool.subject}."
            return [visit.reply(Response(text=text, route_used=decision.route))]
        task = self._tool_task(visit, decision, tool, {tool.subject: subject} if tool.subject else {})
        record = subjects.state(task.assignee, task.requester, task.task_id)
        handed_out = await self.bus.last(subjects.OFFICE, record)
        return () if handed_out else [task]

    def _tool_task(
        self, visit: Visit, decision: RoutingDecision, tool: Tool, params: Mapping[str, Any]
    ) -> Task:
        return Task(
            task_id=f"ask_{self.bus.derive_id('ask', visit.asker, visit.letter_id)}",
            cause=visit.letter_id,
            text=visit.text,
            assignee=tool.assignee,
            requester=self.profile.name,
            context={
                "action": tool.action,
                "params": dict(params),
                "route": decision.route,
                "visit": visit.to_dict(),
            },
        )

    def _pass_on(self, visit: Visit, decision: RoutingDecision) -> list[Envelope | Entry]:
        """A goal, and the answer that names it, stored together or not at all."""
        goal_id = f"goal_{self.bus.derive_id('goal', visit.asker, visit.letter_id)}"
        goal = {
            "text": visit.text,
            "goal_id": goal_id,
            "requester": visit.asker,
            "context": {"route": decision.route, "letter_id": visit.letter_id},
        }
        text = (
            f"That is to be done, not answered: {decision.rationale}. I started goal {goal_id}; its report "
            f"comes by mail.\nFollow it with: mailroom show {goal_id}"
        )
        response = Response(text=text, route_used=decision.route, goal_id=goal_id, confidence=1.0)
        return [Entry(subjects.SUBMIT, msgspec.json.encode(goal), goal_id), visit.reply(response)]


if __name__ == "__main__":
    run(Nexus, __file__)
