"""The tools that a host of MCP calls: each a few lines over a handler of the API."""

import inspect
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from services.gateway.call import Call
from services.gateway.mcp import knowledge, work
from services.gateway.problems import Failure
from shared.access.scopes import Scope
from shared.queries.results import expand_goal_id
from shared.tasks.actions import inline

PATH = ("goal_id", "approval_id", "id")
"""The arguments that are parts of paths in the API."""
_TEXTS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("tools.toml").read_text())


class Tool(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A tool: ``handler(call, given)``, and ``report`` if it names that, answers with a Struct.

    What a model reads of it is in tools.toml. Who has no ``scope`` neither sees nor calls it. It ``destroys``
    what is there; if it ``repeats``, the same again changes nothing further.
    """

    handler: Callable[..., Awaitable[Any]]
    scope: Scope = Scope.READ
    destroys: bool = False
    repeats: bool = False

    @property
    def name(self) -> str:
        """What it is called by."""
        return self.handler.__name__

    @property
    def text(self) -> str:
        """What it is for."""
        return str(_TEXTS[self.name]["text"])

    @cached_property
    def types(self) -> dict[str, Any]:
        """The types of the handler's parameters, and of its answer under ``return``."""
        return get_type_hints(self.handler, include_extras=True)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        schema = schema_of(self.types["given"])
        for name, hint in (_TEXTS["every"] | _TEXTS[self.name].get("hints", {})).items():
            if name in schema["properties"]:
                schema["properties"][name]["description"] = hint
        return schema

    async def run(self, call: Call, arguments: Mapping[str, Any], report: work.Report) -> msgspec.Struct:
        """The answer; raises MailroomError, and ValueError for arguments that do not fit."""
        if call.person.scope < self.scope:
            raise Failure(
                403,
                f"{self.name} needs the scope {self.scope.name.lower()}, which this program was not given",
                "A person can do it in the office itself",
            )
        given = msgspec.convert(arguments, self.types["given"])
        await call.gateway.index.wait_until_complete()
        path = {name: str(getattr(given, name)) for name in PATH if hasattr(given, name)}
        if "goal_id" in path:
            path["goal_id"] = await expand_goal_id(call.gateway.bus, path["goal_id"])
        takes_report = "report" in inspect.signature(self.handler).parameters
        more = (report,) if takes_report else ()
        answer: msgspec.Struct = await self.handler(call._replace(path=path), given, *more)
        return answer


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a Struct, without references, which some hosts cannot read."""
    _, components = msgspec.json.schema_components((kind,))
    schema: dict[str, Any] = inline(components[kind.__name__], components)
    return {key: each for key, each in schema.items() if key not in ("title", "description")}


TOOLS = (
    Tool(handler=work.submit_goal, scope=Scope.SUBMIT),
    Tool(handler=work.goal),
    Tool(handler=work.wait_for_goal),
    Tool(handler=work.goals),
    Tool(handler=work.steer_goal, scope=Scope.SUBMIT),
    Tool(handler=work.cancel_goal, scope=Scope.SUBMIT, destroys=True, repeats=True),
    Tool(handler=work.apply_diff, scope=Scope.APPROVE, destroys=True, repeats=True),
    Tool(handler=work.ask, scope=Scope.SUBMIT),
    Tool(handler=knowledge.search_memory),
    Tool(handler=knowledge.read_memory),
    Tool(handler=knowledge.remember, scope=Scope.SUBMIT),
    Tool(handler=knowledge.brief),
    Tool(handler=knowledge.agents),
    Tool(handler=knowledge.approvals),
    Tool(handler=knowledge.answer_approval, scope=Scope.APPROVE, destroys=True),
    Tool(handler=knowledge.reminders),
    Tool(handler=knowledge.tail),
)
"""Every tool, in the order in which they are listed."""
