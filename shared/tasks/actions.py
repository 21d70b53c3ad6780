"""Actions: methods marked with @register_action, found on an object, called with checked parameters."""

import difflib
import inspect
import operator
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from shared.contracts import ResultOutcome
from shared.errors import ActionError, ConfigError
from shared.tasks.speaker import ASK_YOURSELF, current_speaker

F = TypeVar("F", bound=Callable[..., Any])


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an action: text for people, data for programs, the sources, the files it wrote.

    ``outcome`` is what it came to (default: done). A task, or a step of a plan, that names an action whose
    outcome is FAILED fails for the reason ``problem``; a model that called it goes on with the output.
    ``kinds`` are those of its text (KINDS) where they are others than the action's own.
    """

    output: str
    data: dict[str, Any] = {}
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    outcome: ResultOutcome = ResultOutcome.DONE
    problem: str = ""
    kinds: tuple[str, ...] = ()


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A method that can be called by name; ``params`` is the struct its parameters must fit.

    ``personal``: what it tells or changes is a person's, so it is done at a person's word alone. A plan may
    name it if it is ``planned``, and not personal.
    """

    name: str
    description: str
    param_infos: dict[str, str]
    params: type[msgspec.Struct]
    personal: bool = False
    planned: bool = True

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the parameters, with their descriptions."""
        _, components = msgspec.json.schema_components((self.params,))
        schema: dict[str, Any] = inline(components[self.params.__name__], components)
        for name, info in self.param_infos.items():
            schema["properties"][name]["description"] = info
        return schema

    def convert(self, value: Any) -> dict[str, Any]:
        """``value`` as its parameters; raises msgspec.ValidationError."""
        return msgspec.structs.asdict(msgspec.convert(value, self.params))

    def explain(self, params: Mapping[str, Any]) -> str:
        """What is wrong with ``params``, for people; empty if only ``convert`` can tell."""
        return _find_problem(self, params)

    async def run(self, owner: Any, params: Mapping[str, Any]) -> Any:
        """Have ``owner`` perform it, with parameters that were checked."""
        return await getattr(owner, self.name)(**params)


def inline(schema: Any, components: Mapping[str, Any]) -> Any:
    """``schema`` with what its references name in their places, without what that says to programmers."""
    if isinstance(schema, list):
        return [inline(each, components) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        named = components[schema["$ref"].rpartition("/")[2]]
        return inline({key: each for key, each in named.items() if key != "description"}, components)
    return {name: inline(each, components) for name, each in schema.items()}


KINDS_OF_ACTIONS = {
    kind: frozenset(names.split())
    for kind, names in (
        ("private", "recall ask build_context think_about"),
        ("mail", "show_calendar tell_appointments send_mail"),
        ("files", "read_file read_document read_source read_licence write_file edit_file write_code"),
        (
            "repository",
            "lint_files clone_repository show_status show_diff show_log commit_changes run_python apply_diff "
            "search_files list_files run_shell try_command undo run_script run_tests try_patch copy_project "
            "test_changes merge_changes "
            "git_status git_log read_history read_repository inspect_repository lint scan_security "
            "scan_secrets scan_dependencies check_drift",
        ),
        (
            "web",
            "find_papers fetch_page search_web tell_weather read_news research monitor_ai_news "
            "analyze_paper_relevance daily_discovery generate_research_brief",
        ),
    )
}
"""The kind of text that an action returns; what others return is of an unknown kind, as strict as any."""


def kinds_of(action: str, outcome: Outcome) -> tuple[str, ...]:
    """The kinds of the text of an outcome; empty if that is not known."""
    return outcome.kinds or tuple(kind for kind, names in KINDS_OF_ACTIONS.items() if action in names)


def register_action(
    description: str,
    param_infos: Mapping[str, str] | None = None,
    *,
    personal: bool = False,
    planned: bool = True,
) -> Callable[[F], F]:
    """Mark an async method as an action; its type hints are the schema of its parameters.

    It returns an Outcome, or a string for one that has only a text; ``personal`` and ``planned`` are as in
    Action. Raises ConfigError at definition unless ``param_infos`` describes exactly the method's parameters.
    """

    def mark(method: F) -> F:
        infos = dict(param_infos or {})
        parameters = [name for name in inspect.signature(method).parameters if name != "self"]
        if sorted(infos) != sorted(parameters):
            raise ConfigError(
                f"Action {method.__name__} has the parameters {parameters}, but describes {sorted(infos)}"
            )
        method.__action__ = (description, infos, personal, planned)  # type: ignore[attr-defined]
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
        self.add({name: Bound(owner, action) for name, action in collect_actions(owner).items()})

    def add(self, actions: Mapping[str, Bound]) -> None:
        """Add actions with their owners; raises ConfigError for a reserved name."""
        if taken := sorted(actions.keys() & self._reserved):
            raise ConfigError(
                f"The skills of {self._agent!r} have an action named {taken[0]}, which is reserved for every "
                "agent",
                "Give it another name",
            )
        self._bound = dict(sorted({**self._bound, **actions}.items()))

    def drop(self, names: Collection[str]) -> None:
        """Remove actions that are there no longer."""
        self._bound = {name: bound for name, bound in self._bound.items() if name not in names}

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

        Raises ActionError if there is no such action, with the nearest name, or the parameters are invalid.
        """
        bound = self._bound.get(name)
        if bound is None:
            near = difflib.get_close_matches(name[:60], self._bound, n=1)
            suggestion = f"Did you mean {near[0]!r}?" if near else ""
            raise ActionError(
                f"{self._agent} has no action {name[:60]!r}",
                suggestion or (f"Its actions are {', '.join(self._bound)}" if self._bound else "It has none"),
            )
        return await perform(bound.owner, bound.action, params)


def collect_actions(owner: object) -> dict[str, Action]:
    """The actions of an object by name, those of base classes included."""
    actions = {}
    for name in dir(type(owner)):
        marked = getattr(getattr(type(owner), name), "__action__", None)
        if marked is not None:
            description, infos, personal, planned = marked
            describe = getattr(owner, "describe_action", None)  # of a Skill
            description = describe(name, description) if describe else description
            method = getattr(type(owner), name)
            hints = typing.get_type_hints(method, include_extras=True)
            fields: list[Any] = []
            for parameter in inspect.signature(method).parameters.values():
                if parameter.name == "self":
                    continue
                hint = hints.get(parameter.name, Any)
                required = parameter.default is inspect.Parameter.empty
                fields.append(
                    (parameter.name, hint) if required else (parameter.name, hint, parameter.default)
                )
            params = msgspec.defstruct(name, fields, frozen=True, kw_only=True, forbid_unknown_fields=True)
            actions[name] = Action(
                name=name,
                description=description,
                param_infos=infos,
                params=params,
                personal=personal,
                planned=planned,
            )
    return actions


def unplanned_of(actions: Mapping[str, Action]) -> tuple[str, ...]:
    """The names of those that a plan may not name."""
    return tuple(name for name, action in actions.items() if action.personal or not action.planned)


async def perform(owner: object, action: Action, params: Mapping[str, Any]) -> Outcome:
    """Call the action of ``owner`` with checked parameters.

    Raises ActionError if they are invalid, or if an agent wants what is a person's.
    """
    speaker = current_speaker.get()
    if speaker is not None and not speaker.may(personal=action.personal):
        raise ActionError(speaker.refuse(action.name), ASK_YOURSELF)
    try:
        checked = action.convert(dict(params))
    except msgspec.ValidationError as error:
        names = ", ".join(action.param_infos) or "none"
        problem = action.explain(params) or str(error)
        raise ActionError(f"{action.name}: {problem}", f"Its parameters are: {names}") from None
    result = await action.run(owner, checked)
    return result if isinstance(result, Outcome) else Outcome(output=str(result))


MAX_UNKNOWN = 5  # The most unknown parameters that an error names
_TYPES: dict[str, tuple[str, Any]] = {
    "boolean": ("true or false", bool),
    "integer": ("a whole number", int),
    "number": ("a number", float),
    "string": ("text", str),
    "array": ("a list", list | tuple),
    "object": ("an object", Mapping),
    "null": ("nothing", type(None)),
}
"""The types of JSON schema: their names for people, and the values of each; bool comes before int."""


def _find_problem(action: Action, params: Mapping[str, Any]) -> str:
    """What is wrong with ``params``, for people; empty if only msgspec's own sentence can tell."""
    fields = msgspec.structs.fields(action.params)
    missing = [field.name for field in fields if field.required and field.name not in params]
    unknown = [str(name)[:60] for name in params if name not in action.param_infos][:MAX_UNKNOWN]
    problems = [f"its parameter {name} is missing" for name in missing]
    problems += [f"it has no parameter {name!r}" for name in unknown]
    if problems:
        return ", and ".join(problems)
    _, schemas = msgspec.json.schema_components((action.params,))
    properties = schemas[action.params.__name__]["properties"]
    found = (_misfit(value, properties[name], schemas, name) for name, value in params.items())
    return next((f"its parameter {problem}" for problem in found if problem), "")


def _misfit(value: Any, schema: Mapping[str, Any], schemas: Mapping[str, Any], place: str) -> str:
    """Where and why ``value``, which is at ``place``, does not fit ``schema``; empty if it seems to fit."""
    kind = next((name for name, (_, types) in _TYPES.items() if isinstance(value, types)), "")
    kinds = (kind, "number") if kind == "integer" else (kind,)
    options = [
        schemas[option["$ref"].rpartition("/")[2]] if "$ref" in option else option
        for option in schema.get("anyOf", [schema])
    ]
    fitting = [option for option in options if option.get("type", kind) in kinds]
    if not fitting:
        wanted = " or ".join(_TYPES[option["type"]][0] for option in options if "type" in option)
        limits = "".join(f" >= {option['minimum']}" for option in options if "minimum" in option)
        return f"{place} must be {wanted}{limits}, not {_TYPES[kind][0]}" if wanted and kind else ""
    schema = fitting[0]
    if value not in schema.get("enum", [value]):
        return f"{place} cannot be {value!r} (it may be {', '.join(map(str, schema['enum']))})"
    for limit, sign, broken in (("minimum", ">=", operator.lt), ("maximum", "<=", operator.gt)):
        if limit in schema and broken(value, schema[limit]):
            return f"{place} must be {_TYPES[schema['type']][0]} {sign} {schema[limit]}"
    inner: Iterable[str] = ()
    if kind == "object" and "properties" in schema:
        if missing := [name for name in schema.get("required", ()) if name not in value]:
            return f"{place} lacks {missing[0]}"
        known = schema["properties"]
        if schema.get("additionalProperties") is False and (unknown := [n for n in value if n not in known]):
            return f"{place} has no {unknown[0]}"
        inner = (_misfit(value[n], known[n], schemas, f"{place}.{n}") for n in value if n in known)
    elif kind == "array" and "items" in schema:
        inner = (_misfit(v, schema["items"], schemas, f"{place}[{i}]") for i, v in enumerate(value))
    return next(filter(None, inner), "")
