"""Playbooks: plans in YAML files, chosen by example, with the parameters that a text gives them."""

import contextlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import yaml

from services.conductor.coverage import read_vocabulary
from services.conductor.periods import read_period
from services.conductor.state_machine import REVIEW
from shared.contracts import Goal, GoalTask, ResultOutcome, TaskStatus, generate_iso_timestamp
from shared.contracts.base import require_name, require_text, require_token
from shared.errors import ActionError, ConfigError
from shared.language.sayings import read_sayings
from shared.text.prose import PATH_IN_TEXT, URL_IN_TEXT

T = TypeVar("T")

ENDS = read_sayings(__file__, "requests").expand("ends")
FOLDER = Path(__file__).resolve().parent / "playbooks"


class Parameter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parameter: a folder, a URL, or text that ``pattern`` captures in its group ``value``.

    ``{ends}`` in a pattern stands for what ends a topic, such as "since" or "and send".
    ``since`` and ``until`` are the first and last day that the text names, empty if it names none; an
    ``optional`` text is empty too then.
    """

    kind: Literal["folder", "url", "text", "since", "until"]
    description: str
    pattern: str = ""
    optional: bool = False

    def __post_init__(self) -> None:
        try:
            groups = self.regex.groupindex
        except re.error as error:
            raise ValueError(f"pattern is no regular expression: {error}") from None
        if self.kind == "text" and "value" not in groups:
            raise ValueError("pattern must have a group named 'value'")

    @property
    def regex(self) -> re.Pattern[str]:
        """The pattern, which re keeps compiled."""
        return re.compile(self.pattern.replace("{ends}", ENDS), re.IGNORECASE)


class PlaybookStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task of a playbook; ``{parameter}`` in text and params is filled in."""

    name: str
    assignee: str
    action: str
    text: str
    params: dict[str, Any] = {}
    depends_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_token("name", self.name)
        require_name("assignee", self.assignee)
        require_text("text", self.text)
        if self.name == REVIEW:
            raise ValueError(f"name must not be {REVIEW!r}: the critic's review is called that")


class Playbook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan and example requests for it; PATH, URL and TOPIC are placeholders in the examples.

    A request for it says nothing but its parameters, words of its examples and description, and ``words``.
    """

    name: str
    description: str
    examples: tuple[str, ...]
    tasks: tuple[PlaybookStep, ...]
    parameters: dict[str, Parameter] = {}
    report: Literal["plain", "checkup"] = "plain"
    words: str = ""

    def __post_init__(self) -> None:
        names = [step.name for step in self.tasks]
        if not names or not self.examples:
            raise ValueError("a playbook needs examples and tasks")
        for position, step in enumerate(self.tasks):
            if step.name in names[:position]:
                raise ValueError(f"name of two tasks is {step.name!r}")
            if late := [name for name in step.depends_on if name not in names[:position]]:
                raise ValueError(f"depends_on of {step.name!r}: {late[0]!r} is no earlier task")

    @property
    def vocabulary(self) -> frozenset[str]:
        """The words with which it is asked for, and their stems."""
        return read_vocabulary((self.name, self.description, self.words, *self.examples))

    @property
    def signature(self) -> str:
        """What it does with which parameters, on a line."""
        return f"{self.name}({', '.join(self.parameters)}): {self.description}"


class MissingParameter(ActionError):
    """A request for a playbook does not say one of its parameters."""


class Counterexamples(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests that read like a playbook's but are not: the front ``desk`` (nexus) does them, or nobody.

    ``changes`` are the verbs, separated by spaces, of requests to change something.
    """

    changes: str
    desk: tuple[str, ...]
    nobody: tuple[str, ...]

    def ask_for_change(self, text: str) -> bool:
        """Whether ``text`` orders a change: with its first verb, or with a later one if it names a path."""
        verbs = rf"{_POLITE}(?:{'|'.join(self.changes.split())})\b{_NO_ORDER}"
        start = r"(?:^|[.!?;\n]|\s(?:and|then)\s)" if PATH_IN_TEXT.search(text) else "^"
        return bool(re.search(rf"{start}\s*{verbs}", text, re.IGNORECASE))


_POLITE = (
    r"(?:(?:please|kindly|just|also|then|go|let's|(?:can|could|would|will) you"
    r"|(?:i (?:want|need|would like)|i'd like) you to)\s+)*"
)
"""What may stand before the verb of an order."""
_NO_ORDER = r"(?!\s+(?:me\s+on|history|logs?|messages?|notes|conflicts?|checks?|levels?|requests?)\b)"
"""What follows such a word if it is no verb, or none that changes: "update me on", "commit history"."""


def load_playbooks(folder: Path = FOLDER) -> dict[str, Playbook]:
    """The playbooks of a folder by name; raises ConfigError that names the file and the mistake."""
    playbooks = {}
    for path in sorted(folder.glob("*.yaml")):
        playbook = _load(path, Playbook, "The playbook {} is wrong")
        if playbook.name in playbooks:
            raise ConfigError(f"The playbook {path} is wrong: another one is named {playbook.name!r} too")
        playbooks[playbook.name] = playbook
    return playbooks


def load_counterexamples(path: Path = FOLDER.parent / "counterexamples.yaml") -> Counterexamples:
    """The counterexamples in a file; raises ConfigError."""
    return _load(path, Counterexamples, "The counterexamples in {} are wrong")


def _load(path: Path, kind: type[T], fault: str) -> T:
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as quick, where PyYAML has it
        return msgspec.convert(yaml.load(path.read_text("utf-8"), Loader=loader), kind)  # noqa: S506 - safe ones
    except (msgspec.ValidationError, yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{fault.format(path)}: {' '.join(str(error).split())}") from None


def apply_playbook(playbook: Playbook, goal: Goal) -> Goal:
    """``goal`` with the playbook's tasks, for each folder or address that it names.

    Raises ActionError if a parameter is missing, or none of the folders can be used.
    """
    kinds = {each.kind: name for name, each in reversed(playbook.parameters.items()) if each.kind in SEVERAL}
    several = kinds.get("folder") or kinds.get("url") or ""
    given = listed(goal.context.get(several)) if several else []
    if not kinds.get("folder"):
        named = [Named(url) for url in given or find_urls(goal.text)]
    else:
        named = find_folders("\n".join(f'"{path}"' for path in given) if given else goal.text)
    if not several or len(named) < 2 or len(given) == 1:
        values = fill_parameters(playbook, goal.text, goal.context)
        tasks = tasks_of(playbook, goal.goal_id, values)
        return msgspec.structs.replace(goal, playbook=playbook.name, parameters=dict(values), tasks=tasks)
    if all(each.problem for each in named):
        raise ActionError("; ".join(each.problem for each in named))
    every: list[GoalTask] = []
    for name, each in name_folders(named).items():
        usable = each.path if not each.problem else "/"
        values = fill_parameters(playbook, goal.text, {**goal.context, several: usable})
        for task in tasks_of(playbook, goal.goal_id, {**values, several: each.path}):
            own = msgspec.structs.replace(
                task,
                name=f"{task.name}-{name}",
                task_id=f"{goal.goal_id}-{task.name}-{name}-1",
                depends_on=tuple(f"{needed}-{name}" for needed in task.depends_on),
            )
            if each.problem:  # it ended before it began
                failed, now = TaskStatus.FAILED, generate_iso_timestamp()
                own = msgspec.structs.replace(own, status=failed, outcome=ResultOutcome.FAILED, ended_at=now)
                own = msgspec.structs.replace(own, summary=each.problem[:200])
            every.append(own)
    folders = {name: each.path for name, each in name_folders(named).items()}
    return msgspec.structs.replace(
        goal, playbook=playbook.name, parameters={"folders": folders}, tasks=tuple(every)
    )


def fill_parameters(playbook: Playbook, text: str, context: Mapping[str, Any]) -> dict[str, str]:
    """The parameters from the context, else from the text; raises ActionError if one is missing."""
    values = {}
    for name, parameter in playbook.parameters.items():
        if parameter.kind in ("since", "until"):
            days = read_period(text, datetime.now(UTC).date())
            values[name] = str(context.get(name) or days[parameter.kind == "until"])
            continue
        value = str(context[name]) if context.get(name) else _find(parameter, text)
        if parameter.kind == "folder":  # else that from which it was submitted
            value = value or str(context.get("folder") or "")
        if not value and not parameter.optional:
            raise MissingParameter(
                f"The goal does not say {parameter.description}",
                f"Name it in the text{_FORMS.get(parameter.kind, '')}, or give it as context {name}=...",
            )
        values[name] = require_folder(value) if parameter.kind == "folder" else value
    return values


_FORMS = {"folder": " by its absolute path, such as /home/me/project", "url": " by its http or https address"}


def _find(parameter: Parameter, text: str) -> str:
    if parameter.kind == "url":
        return next(iter(find_urls(text)), "")
    if parameter.kind == "folder":
        return next(iter(_paths(text)), "")
    found = parameter.regex.search(text)
    return found["value"].strip() if found else ""


def tasks_of(playbook: Playbook, goal_id: str, values: Mapping[str, str]) -> tuple[GoalTask, ...]:
    """The playbook's tasks with the parameters filled in."""
    return tuple(
        GoalTask(
            name=step.name,
            task_id=f"{goal_id}-{step.name}-1",
            text=_fill(step.text, values),
            assignee=step.assignee,
            action=step.action,
            params={key: _fill(value, values) for key, value in step.params.items()},
            depends_on=step.depends_on,
        )
        for step in playbook.tasks
    )


def _fill(template: Any, values: Mapping[str, str]) -> Any:
    if not isinstance(template, str):
        return template
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


# --- the folders that a request names ---------------------------------------------------------------

MAX_PATH_CHARACTERS = 1_000
MAX_PATH_WORDS = 20  # How much of a text may be one path with spaces in it, in characters and in words
MAX_FOLDERS = 20  # The most folders of one request: each has tasks of its own
TRAILING = ".,;:!?*…。，、！？；："
BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}
EXCEPT = re.compile(r"\b(?:not|except|without|excluding|ignor(?:e|ing)|other than)\W{1,4}$", re.IGNORECASE)
"""Words after which a path is not meant."""


SEVERAL = ("folder", "url")  # Kinds of which a request may name several
UNNAMED = re.compile(r"[^A-Za-z0-9_-]+")  # What the name of a task cannot have


class Named(NamedTuple):
    """A folder that a request names: its path, or as it was named and why it cannot be used."""

    path: str
    problem: str = ""


def find_folders(text: str) -> list[Named]:
    """Every folder that ``text`` names, once; a file counts as named only if nothing else is."""
    named: dict[str, Named] = {}
    for path in _paths(text):
        try:
            folder = require_folder(path)
            named.setdefault(folder, Named(folder))
        except ActionError as error:
            named.setdefault(path, Named(path, str(error)))
    found = list(named.values())[:MAX_FOLDERS]
    if any(not each.problem for each in found):
        for each in list(found):
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                if each.problem and Path(each.path).expanduser().is_file():
                    found.remove(each)
    return found


class _Path(NamedTuple):
    path: str
    place: tuple[int, int]
    is_meant: bool = True


def find_urls(text: str) -> list[str]:
    """Every address that ``text`` names, once."""
    return list(dict.fromkeys(trim(found[0]) for found in URL_IN_TEXT.finditer(text)))[:MAX_FOLDERS]


def _paths(text: str) -> Iterable[str]:
    return (each.path for each in _find_paths(text) if each.is_meant)


def _find_paths(text: str) -> Iterable[_Path]:
    """The paths of ``text`` with their places; one that is not meant with the word that says so."""
    position = 0
    while found := PATH_IN_TEXT.search(text, position):
        start = found.start("bare") if found["bare"] else found.start()
        path = found["quoted"] or _longest_folder(text[start:]) or trim(found["bare"])
        position = found.end() if found["quoted"] else max(start + len(path), start + 1)
        but = EXCEPT.search(text[: found.start()])
        yield _Path(path, (but.start() if but else found.start(), position), not but)


def find_places(playbook: Playbook, text: str) -> list[tuple[int, int]]:
    """Where ``text`` says the parameters of ``playbook``.

    A path that is excepted counts only if it does not lie in one that is meant: that would be done with it.
    """
    places: list[tuple[int, int]] = []
    for parameter in playbook.parameters.values():
        if parameter.kind == "folder":
            paths = list(_find_paths(text))
            meant = [f"{each.path.rstrip('/')}/" for each in paths if each.is_meant]
            places += [
                each.place for each in paths if each.is_meant or not each.path.startswith(tuple(meant))
            ]
        elif parameter.kind == "url":
            places += [found.span() for found in URL_IN_TEXT.finditer(text)]
        elif parameter.kind == "text":
            found = parameter.regex.search(text)
            places += [found.span("value")] if found else []
        else:
            places += read_period(text, datetime.now(UTC).date()).places
    return places


def _longest_folder(text: str) -> str:
    """The longest path of a folder that ``text`` begins with, spaces included; empty for none."""
    words = re.split(r"(\s+)", text[:MAX_PATH_CHARACTERS], maxsplit=2 * MAX_PATH_WORDS)
    for count in range(len(words), 0, -2):
        path = trim("".join(words[:count]))
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            if Path(path).expanduser().is_dir():
                return path
    return ""


def trim(found: str) -> str:
    """``found`` without the punctuation that ends the sentence; brackets that it opened itself stay."""
    while found and (
        found[-1] in TRAILING
        or (found[-1] in BRACKETS and found.count(found[-1]) > found.count(BRACKETS[found[-1]]))
    ):
        found = found[:-1]
    return found


def require_folder(value: str) -> str:
    """The folder, resolved; raises ActionError with the reason and the cure if it cannot be used."""
    try:
        path = Path(value).expanduser()
        if not path.is_absolute():
            raise ActionError(f"{value[:200]!r} is not an absolute path", "Give the whole path, from /")
        if not path.is_dir():
            raise ActionError(
                f"There is no folder {value[:200]}", "Correct the path; in containers it must be mounted"
            )
        return str(path.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise ActionError(f"The folder {value[:200]} cannot be opened: {reason}") from None


def name_folders(folders: Iterable[Named]) -> dict[str, Named]:
    """The folders by names that tasks can have: the last part of the path, with a number if it is taken."""
    names: dict[str, Named] = {}
    for folder in folders:
        own = UNNAMED.sub("-", Path(folder.path).name).strip("-")[:40] or "folder"
        name, number = own, 2
        while name in names:
            name, number = f"{own}-{number}", number + 1
        names[name] = folder
    return names


def listed(value: Any) -> list[str]:
    """The folders that a value of the context names: one, or a list."""
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)] if value else []
