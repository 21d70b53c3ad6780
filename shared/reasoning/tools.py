"""The actions a model may call in an agent loop, offered as tools and called with checked parameters."""

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.errors import ActionError
from shared.llm.protocol import Tool
from shared.tasks.actions import Action, Bound, Outcome, perform

FINISH = "finish_task"
REST = "rest_n_wait"
MAX_ARGUMENTS = 200_000
"""The longest parameters of a call, in characters; larger content belongs in files, written in pieces."""


def _ending(name: str, description: str, infos: dict[str, str]) -> Action:
    params = msgspec.defstruct(
        name, [(key, str) for key in infos], frozen=True, kw_only=True, forbid_unknown_fields=True
    )
    return Action(name=name, description=description, param_infos=infos, params=params)


_FINISH_ACTION = _ending(
    FINISH,
    "Say that the task is done, and with what result; call it once everything is done",
    {"result": "The result, as the requester is to read it"},
)
_REST_ACTION = _ending(
    REST, "End your turn without finishing: nothing is to be done until someone writes", {}
)


class Toolbox:
    """The actions a model may call; ``finish_task`` and, if ``may_rest``, ``rest_n_wait`` end its loop."""

    def __init__(self, bound: Mapping[str, Bound], *, may_rest: bool = False) -> None:
        self._end = {FINISH: _FINISH_ACTION} | ({REST: _REST_ACTION} if may_rest else {})
        # An agent's own action cannot replace one that ends the loop.
        self._bound = {name: each for name, each in bound.items() if name not in (FINISH, REST)}
        self._offers: list[Tool] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The names of everything that can be called."""
        return (*self._bound, *self._end)

    def action(self, name: str) -> Action:
        """The action of this name; raises ActionError that lists the names if there is none."""
        action = self._bound[name].action if name in self._bound else self._end.get(name)
        if action is None:
            raise ActionError(
                f"There is no action {name[:80]!r}", f"The actions are: {', '.join(sorted(self.names))}"
            )
        return action

    def offers(self) -> list[Tool]:
        """The actions as tools for a model."""
        if not self._offers:
            self._offers = [
                Tool(name=name, description=action.description, schema=action.schema())
                for name in self.names
                for action in (self.action(name),)
            ]
        return self._offers

    def check(self, name: str, arguments: str) -> dict[str, Any]:
        """The parameters in the JSON text ``arguments``, checked; raises ActionError with what is wrong."""
        action = self.action(name)
        if len(arguments) > MAX_ARGUMENTS:
            raise ActionError(
                f"The parameters of {name} have {len(arguments):,} of {MAX_ARGUMENTS:,} characters",
                "Do it in smaller pieces",
            )
        try:
            params = msgspec.convert(msgspec.json.decode(arguments or "{}"), action.params)
        except (msgspec.MsgspecError, RecursionError) as error:
            wanted = "; ".join(f"{key}: {info}" for key, info in action.param_infos.items()) or "none"
            raise ActionError(
                f"The parameters of {name} are wrong: {str(error)[:500]}", f"They are: {wanted}"
            ) from None
        return msgspec.structs.asdict(params)

    async def perform(self, name: str, params: Mapping[str, Any]) -> Outcome:
        """Call an action that does not end the loop."""
        bound = self._bound[name]
        return await perform(bound.owner, bound.action, params)

    def is_end(self, name: str) -> bool:
        """Whether calling it ends the loop."""
        return name in self._end
