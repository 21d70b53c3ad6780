"""The tools that a model has for one message: the desk's own, ``recall``, and those of MCP servers."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from services.nexus.desk import Desk
from services.nexus.routing.decision import Decision
from services.nexus.routing.guard import OTHERS, Guard
from services.nexus.routing.request import GOAL, Request
from services.nexus.servers.serving import MCP, Served, tell
from services.nexus.tools.tool import Answer, Call, Effect, Tool, Words, command
from shared.contracts import AskedBack, Choice, ContextPacket, ResultOutcome
from shared.errors import ActionError
from shared.language.utterance import Act
from shared.llm.leaving import TASK
from shared.llm.protocol import Message
from shared.llm.protocol import Tool as Offer
from shared.reasoning.tools import Toolbox, detect_action
from shared.tasks.actions import Action, Bound, Outcome
from shared.tasks.speaker import Speaker
from shared.text.display import flatten

RECALL = "recall"
PRIVATE = ("private",)  # The kind of text of reminders, memories and all that is not listed
KINDS = {
    **dict.fromkeys(("mail", "calendar", "send_mail"), ("mail",)),
    **dict.fromkeys(("web", "news", "papers", "weather"), ("web",)),
    **dict.fromkeys(("goals", "project", "brief", "waiting"), ("private", "repository")),
    **dict.fromkeys(("clock", "arithmetic", "capabilities", "spending"), (TASK,)),
}
"""The kinds of text that the tools tell (shared/llm/leaving.py)."""
_RESULT = re.compile(r"<data[^>]*>\n(.*)\n</data>", re.DOTALL)  # What a tool answered, as the loop quotes it


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a tool that reads a whole request."""

    text: str


class DeskToolbox(Toolbox):
    """The desk's tools for one message; what they did is in ``answers``, in the order of the calls."""

    def __init__(self, desk: Desk, request: Request, served: Mapping[str, Served]) -> None:
        self._desk, self._request, self._served = desk, request, served
        speaker = Speaker(name=request.asker)
        self._tools = {
            name: tool
            for name, tool in desk.tools.items()
            if not tool.hidden
            and name != "memory"
            and speaker.may(personal=tool.personal, writes=tool.effect is Effect.WRITES)
        }
        actions = {name: _as_action(tool) for name, tool in self._tools.items()}
        actions[RECALL] = Action(
            name=RECALL,
            description="searches memory for statements, with their ids",
            param_infos={"text": "What to look for"},
            params=Query,
        )
        actions |= {name: each.action for name, each in served.items()}
        super().__init__({name: Bound(self, actions[name]) for name in sorted(actions)})
        self.guard = Guard(request, self._find_likely)
        self._heard = {"talk"} if self.guard.has_read else set()  # Who told what others wrote
        self.answers: list[tuple[Answer, str]] = []
        self.told: list[str] = []  # What tools told, and memory
        self.packet = ContextPacket(query=request.text)
        self.offer: tuple[str, AskedBack] | None = None  # what is asked whether it shall be done
        self._acted = self._is_open = self._has_looked = False
        self._called: dict[str, str] = {}

    def find_form(self, text: str) -> str:
        """A text is the answer, whatever it announces, unless it calls a tool by a name that is no word."""
        calls = detect_action(text, (name for name in self._bound if "_" in name))
        return "" if calls or not text.strip() else msgspec.json.encode({"result": text}).decode()

    def offers(self) -> list[Offer]:
        """The tools for a model, which ends its turn with a text."""
        if not self._offers:
            self._offers = [
                Offer(
                    name=name,
                    description=bound.action.description,
                    schema=_shorten(schema) if name not in self._served else schema,
                )
                for name, bound in self._bound.items()
                for schema in (bound.action.schema(),)
            ]
        return self._offers

    def concluded(self) -> bool:
        """Whether all calls of this turn did something: the person gets their answers."""
        ended, self._acted, self._is_open = self._acted and not self._is_open, False, False
        return ended

    def check(self, name: str, arguments: str) -> dict[str, Any]:
        """As Toolbox; a call that is not run keeps the turn from ending the loop."""
        try:
            return super().check(name, arguments)
        except ActionError:
            self._is_open = True
            raise

    async def perform(self, name: str, params: Mapping[str, Any]) -> Outcome:
        """Run a tool; raises ActionError with what the model is to know if it was refused or failed."""
        try:
            if name in self._served:
                return await self._call_server(self._served[name], params)
            return await (self._recall(params["text"]) if name == RECALL else self._call(name, params))
        except BaseException:
            self._is_open = True
            raise

    async def _call(self, name: str, params: Mapping[str, Any]) -> Outcome:
        tool = self._tools[name]
        text = " ".join(filter(None, map(str, params.values())))
        if refusal := await self.guard.judge(tool, text):
            if refusal.offers and self.offer is None and not self._has_looked:
                shown = flatten(_as_order(tool, params), 3_000)
                self.offer = (
                    shown,
                    AskedBack(choices=(Choice(label="Yes", text=command(name, shown)), Choice(label="No"))),
                )
            raise ActionError(f"Refused: {refusal.why}")
        answer = await self._run(tool, params)
        if tool.effect is Effect.READS:
            self._hear(name, answer.text)
        elif answer.outcome is ResultOutcome.FAILED and answer.asks is None:
            raise ActionError(answer.text)
        else:
            if answer.asks is None:
                self.guard.note(tool)
            self.offer, self._acted = None, True
            self.answers.append((answer, tool.used))
        return Outcome(output=answer.text, evidence_refs=answer.citations, kinds=KINDS.get(name, PRIVATE))

    async def _call_server(self, served: Served, params: Mapping[str, Any]) -> Outcome:
        """Call a tool of a server: what may change something waits for a person's approval, or is for a
        message that orders it, and of which nobody else has told meanwhile.
        """
        each = served.offered
        if not served.tells and not each.asks:
            if self._request.utterance.act is not Act.REQUEST:
                raise ActionError("Refused: the message asks for nothing to be done")
            if self._heard - {each.server}:
                raise ActionError("Refused: what others wrote was read, and it is called without asking")
        outcome = await self._desk.servers.call(each, params, self._request.text)
        if served.tells:
            self._hear(each.action, outcome.output)
        else:
            self._note_served(outcome.output)
        return outcome

    def _note_served(self, text: str) -> None:
        self.offer, self._acted = None, True
        self.answers.append((Answer(text=tell(text)), self._desk.tools[MCP].used))

    def _hear(self, name: str, text: str) -> None:
        """Note what a tool told, or memory: the model is to go on."""
        self._is_open = True
        if name in OTHERS or name in self._served:
            self.guard.has_read = True
            self._heard.add(self._served[name].offered.server if name in self._served else name)
            self._has_looked |= name != RECALL  # what a mail asks for is not even offered
        self.told.append(text)

    async def _find_likely(self) -> Collection[str]:
        """The tools that the message is for without a model, the likeliest and the next ones; all of them
        while memory, which tells that, is away.
        """
        decision = await self._desk.decider.decide_in(self._request)
        if decision.is_without_memory:
            return self._tools
        return (decision.tool, *decision.others)

    async def _run(self, tool: Tool, params: Mapping[str, Any]) -> Answer:
        """What the tool answers; the action that it leads to is done within this task."""
        given = None if "text" in params else msgspec.convert(params, tool.parameters)
        text = str(params.get("text", "")) or self._request.text
        part = self._desk.context.bus.derive_id("part", tool.name, *map(str, params.values()))[:8]
        request = msgspec.structs.replace(self._request, text=text, understood="", part=part)
        result = await self._desk.run(request, Decision(tool=tool.name, why="the model called it"), given)
        if not isinstance(result, Call):
            for entry in result.entries:
                await self._desk.context.bus.store(
                    entry.subject, entry.payload, headers={"Nats-Msg-Id": entry.id}
                )
            return result
        if absent := await self._desk.find_absent(result):
            return absent
        return await self._desk.perform(request, result)

    async def _recall(self, text: str) -> Outcome:
        """What memory holds about ``text``."""
        packet, _ = await self._desk.answerer.search(text)
        self._hear(RECALL, "")
        self.know(packet)
        lines = [f"[{item.evidence_id}] {flatten(item.text, 1_000)}" for item in packet.bullets]
        return Outcome(output="\n".join(lines) or "Memory holds nothing about that.")

    def restore(self, messages: Sequence[Message]) -> None:
        """Take over what calls of an earlier attempt came to."""
        for message in messages:
            self._called |= {call.id: call.name for call in message.tool_calls}
            name, told = self._called.get(message.tool_call_id, ""), _RESULT.search(message.text)
            if told is None or name not in self._bound:
                continue
            self._hear(name, told[1])
            if name in self._served and not self._served[name].tells:
                self._note_served(told[1].replace("&lt;", "<"))
            tool = self._tools.get(name)
            if tool and tool.effect is not Effect.READS:
                goal = GOAL.search(told[1])
                self.guard.note(tool)
                self.answers.append(
                    (Answer(text=told[1].replace("&lt;", "<"), goal_id=goal["id"] if goal else ""), tool.used)
                )

    def know(self, packet: ContextPacket) -> None:
        """Add what memory holds to what an answer may cite."""
        known = {item.evidence_id: item for item in (*self.packet.bullets, *packet.bullets)}
        self.packet = msgspec.structs.replace(packet, query=self.packet.query, bullets=tuple(known.values()))
        self.told += [item.text for item in packet.bullets]


def _as_action(tool: Tool) -> Action:
    """A tool as an action: it reads a whole request, unless it needs the parts of one."""
    typed = tool.takes_parts and tool.parameters is not Words
    infos = dict.fromkeys(tool.parameters.__struct_fields__, "") if typed else {"text": ""}
    return Action(
        name=tool.name,
        description=tool.description,
        param_infos=infos,
        params=tool.parameters if typed else Query,
    )


def _as_order(tool: Tool, params: Mapping[str, Any]) -> str:
    """The message that asks for the same."""
    if "text" in params:
        return str(params["text"])
    return f"to {params['recipient']}: {params['body']}"


def _shorten(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with what a model needs of it."""
    properties = {name: {"type": each["type"]} for name, each in schema["properties"].items()}
    return {"type": "object", "properties": properties, "required": sorted(properties)}
