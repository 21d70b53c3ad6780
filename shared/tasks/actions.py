"""What agents can do: methods marked as actions, found on an object, called with checked parameters."""

import difflib
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from shared.errors import ActionError, ConfigError

F = TypeVar("F", bound=Callable[..., Any])


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What an action achieved: text for people, data for programs, and where it all comes from."""

    output: str
    data: dict[str, Any] = {}
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A method that can be called by name; ``params`` is the struct its parameters must fit."""

    name: str
    description: str
    param_infos: dict[str, str]
    params: type[msgspec.Struct]

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the parameters, with their descriptions."""
        _, components = msgspec.json.schema_components((self.params,))
        schema: dict[str, Any] = components[self.params.__name__]
        for name, info in self.param_infos.items():
            schema["properties"][name]["description"] = info
        return schema


def register_action(description: str, param_infos: Mapping[str, str] | None = None) -> Callable[[F], F]:
    """Mark an async method as an action; its type hints are the schema of its parameters.

    It returns an Outcome, or a string where there is nothing more to tell. Raises ConfigError at
    definition where ``param_infos`` describes a parameter the method does not have, or misses one.
    """

    def mark(method: F) -> F:
        infos = dict(param_infos or {})
        parameters = [name for name in inspect.signature(method).parameters if name != "self"]
        if sorted(infos) != sorted(parameters):
            raise ConfigError(
                f"Action {method.__name__} has the parameters {parameters}, but describes {sorted(infos)}"
            )
        method.__action__ = (description, infos)  # type: ignore[attr-defined]
        return method

    return mark


class Bound(NamedTuple):
    """An action and the object that performs it."""

    owner: object
    action: Action


class ActionRegistry:
    """The actions of an agent that can be called by name, its skills' included."""

    def __init__(self, agent: str, reserved: Collection[str] = ()) -> None:
        self._agent = agent
        self._reserved = reserved
        self._bound: dict[str, Bound] = {}

    def register(self, owner: object) -> None:
        """Add the actions of ``owner``; one of the same name replaces the earlier one.

        Raises ConfigError for a reserved name.
        """
        found = collect_actions(owner)
        if taken := sorted(found.keys() & self._reserved):
            raise ConfigError(
                f"The skills of {self._agent!r} have an action named {taken[0]}, which means something else "
                "to every agent that thinks",
                "Give it another name",
            )
        bound = self._bound | {name: Bound(owner, action) for name, action in found.items()}
        self._bound = dict(sorted(bound.items()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._bound)

    def items(self) -> list[tuple[str, Action]]:
        """Names and actions, by name."""
        return [(name, bound.action) for name, bound in self._bound.items()]

    def get(self, name: str) -> Action | None:
        """The action of this name, None if there is none."""
        bound = self._bound.get(name)
        return bound.action if bound else None

    def select(self, names: Collection[str] | None = None) -> dict[str, Bound]:
        """The actions named, those of them that exist; all if ``names`` is None."""
        return {name: bound for name, bound in self._bound.items() if names is None or name in names}

    async def perform(self, name: str, params: Mapping[str, Any]) -> Outcome:
        """Call an action with checked parameters.

        Raises ActionError with the nearest name if there is no such action, and if the parameters do not fit.
        """
        bound = self._bound.get(name)
        if bound is None:
            near = difflib.get_close_matches(name[:60], self._bound, n=1)
            suggestion = f"Did you mean {near[0]!r}?" if near else ""
            raise ActionError(
                f"{self._agent} has no action {name[:60]!r}",
                suggestion or f"Its actions are {', '.join(self._bound) or 'none'}",
            )
        return await perform(bound.owner, bound.action, params)


def collect_actions(owner: object) -> dict[str, Action]:
    """The actions of an object by name, those of base classes included."""
    actions = {}
    for name in dir(type(owner)):
        marked = getattr(getattr(type(owner), name), "__action__", None)
        if marked is not None:
            description, infos = marked
            params = _params_struct(name, getattr(type(owner), name))
            actions[name] = Action(name=name, description=description, param_infos=infos, params=params)
    return actions


def _params_struct(name: str, method: Callable[..., Any]) -> type[msgspec.Struct]:
    hints = typing.get_type_hints(method)
    fields: list[Any] = []
    for parameter in inspect.signature(method).parameters.values():
        if parameter.name == "self":
            continue
        hint = hints.get(parameter.name, Any)
        required = parameter.default is inspect.Parameter.empty
        fields.append((parameter.name, hint) if required else (parameter.name, hint, parameter.default))
    return msgspec.defstruct(name, fields, frozen=True, kw_only=True, forbid_unknown_fields=True)


async def perform(owner: object, action: Action, params: Mapping[str, Any]) -> Outcome:
    """Call the action of ``owner`` with checked parameters; raises ActionError where they do not fit."""
    try:
        checked = msgspec.convert(dict(params), action.params)
    except msgspec.ValidationError as error:
        wanted = ", ".join(action.param_infos) or "none"
        told = f"{action.name}: {_misfit(action, params, error)}"
        raise ActionError(told, f"Its parameters are: {wanted}") from None
    result = await getattr(owner, action.name)(**msgspec.structs.asdict(checked))
    return result if isinstance(result, Outcome) else Outcome(output=str(result))


_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}
"""What msgspec calls the kinds of values, in words."""
MOST_NAMED = 5
"""How many names that no parameter has are told."""
_OTHERS = {
    "^Object missing required field `(.+)`": r"lacks \1",
    "^Object contains unknown field `(.+)`": r"has no \1",
    "^Invalid enum value (.+)": r"cannot be \1",
    "^([A-Z].+)": r"is wrong: \1",
}
_FAULT = re.compile(
    r"(?:Expected `(?P<wanted>[^`]+)`(?P<bound>[^,]*?)(?:, got `(?P<got>\w+)`)?|(?P<other>.+?))"
    r" - at `\$\.(?P<place>.+)`"
)


def _misfit(action: Action, params: Mapping[str, Any], error: msgspec.ValidationError) -> str:
    """In plain words which of ``params`` ``action`` lacks, does not know, or cannot take."""
    fields = msgspec.structs.fields(action.params)
    missing = [field.name for field in fields if field.required and field.name not in params]
    unknown = [str(name)[:60] for name in params if name not in action.param_infos][:MOST_NAMED]
    faults = [f"its parameter {name} is missing" for name in missing]
    faults += [f"it has no parameter {name!r}" for name in unknown]
    return ", and ".join(faults) or _explain(action, str(error))


def _explain(action: Action, said: str) -> str:
    found = _FAULT.fullmatch(said)
    if found is None:
        return said
    where = f"its parameter {found['place']}"
    if other := found["other"]:
        for pattern, words in _OTHERS.items():
            other = re.sub(pattern, words, other)
        allowed = action.schema()["properties"].get(found["place"], {}).get("enum")
        choice = f" (it may be {', '.join(map(str, allowed))})" if allowed else ""
        return f"{where} {other}{choice}"
    wanted = " or ".join(_KINDS.get(kind, kind) for kind in found["wanted"].split(" | "))
    got = f", not {_KINDS.get(found['got'], found['got'])}" if found["got"] else ""
    return f"{where} must be {wanted}{found['bound']}{got}"
