"""What answers, errors, documents and pages name exists: commands, options, settings, paths, files."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from services.cli.command import cli
from services.gateway.api import TABLE
from services.gateway.app import PAGES
from services.nexus.briefings.lines import Source
from shared.settings import NOT_SETTINGS, PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
SAYING = (".py", ".md", ".js", ".html", ".yaml", ".toml", "")
HOLE = "\0"
"""Stands for what a string is filled in with."""
COMMAND = re.compile(r"(?P<quote>['\"`]?)(?<![\w./-])mailroom(?P<rest>(?: +[^\s'\"`]+)+)")
END = re.compile(r"[.;:,)\]]+(?=$)|[|&]{1,2}$|^#|^[(]")
"""What ends a command within a sentence."""
NOT_COMMANDS = {"command", "with", "said", "hash", "#"}
"""What follows the word mailroom where it is no command: the package, a signature, a list of programs."""
VARIABLE = re.compile(rf"\b{PREFIX}[A-Z][A-Z0-9_]*")
API_PATH = re.compile(r"/api/v1(/[\w/{}$().\0<>-]*)?")
ASKED = re.compile(r"\b(get|post|remove)\((?:at)?(?:\"(/[^\"]*)\"|`(/[^`]*)`)")
LINKED = re.compile(r"(?:href=|navigate\()(?:\$\{)?(?:at)?[\"`](/[^\"`]*)")
FILE = re.compile(r"(?<![\w/.~-])(?:services|shared|tests|docs|deploy)/[\w/.-]*\w")
EXAMPLES = ("services/translator", "docs/plan.md")
"""Beginnings of paths that stand for others' files."""


@cache
def tracked() -> tuple[Path, ...]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file())


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Where something is said, and what: literals of Python, code in documents, pages and what deploys it."""
    found = []
    for path in (each for each in tracked() if each.suffix in SAYING):
        name = str(path.relative_to(ROOT))
        if path.suffix == ".py" and name.startswith(("services/", "shared/")):
            found += [(f"{name}:{line}", text) for line, text in literals(path)]
        elif path.suffix == ".md" and name != "CHANGELOG.md":
            found += [(f"{name}:{line}", text) for line, text in code_of(path.read_text())]
        elif name.startswith("services/") or name in ("Makefile", "compose.yaml"):
            found += [(f"{name}:{at}", line) for at, line in enumerate(path.read_text().splitlines(), 1)]
    return tuple(found)


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module; what an f-string is filled in with is a HOLE."""
    tree = ast.parse(path.read_text())
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def code_of(text: str) -> Iterator[tuple[int, str]]:
    """The code of a document in Markdown: lines of blocks, fenced or indented, and spans."""
    block = False
    for at, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            block = not block
        elif block or line.startswith("    "):
            yield at, line
        else:
            yield from ((at, f"`{span}`") for span in re.findall(r"`([^`]+)`", line))


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command that is named: where, and the words after ``mailroom``."""
    for place, text in texts():
        for line in text.splitlines():
            for found in COMMAND.finditer(re.sub(r"<[/a-z]+[^>]*>", " # ", line)):
                words = []
                for word in found["rest"].partition("mailroom")[0].split():
                    end = END.search(word)
                    words += [word[: end.start()]] if end and word[: end.start()] else [] if end else [word]
                    if end:
                        break
                # After the user 'mailroom' follow the variables of a command.
                if words and words[0] not in NOT_COMMANDS and "=" not in words[0]:
                    yield place, words


def fault_of(words: list[str]) -> str:
    """What is wrong with a command line: a command or an option that there is not; empty if nothing is."""
    command: click.Command = cli
    context = click.Context(cli)
    left = list(words)
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        names = re.split(r"[|/]", left[0])
        if HOLE in left[0] or left[0].isupper() or left[0].startswith(("<", "[", "{", "$", "…", "...")):
            return ""
        known = [command.get_command(context, name) for name in names]
        if None in known:
            if command.invoke_without_command:  # as 'mailroom agents NAME'
                return ""
            return f"there is no command {left[0]!r}"
        assert known[0] is not None
        command = known[0]
        left = left[1:]
    options = {name for each in (*command.params, *cli.params) for name in (*each.opts, *each.secondary_opts)}
    options |= {"-h", "--help"}
    for word in left[: left.index("--")] if "--" in left else left:  # what follows is another program's
        given = re.split(r"[=\[\]|]", word.lstrip("["))[0]
        if re.fullmatch(r"--?[a-z][a-z-]*", given) and given not in options:
            return f"{command.name} has no option {given}"
    return ""


def test_every_command_that_is_named_exists() -> None:
    named = list(commands())
    assert len(named) > 300
    wrong = [
        f"{place}: mailroom {' '.join(words)}: {fault}"
        for place, words in named
        if (fault := fault_of(words))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("mail read 7", "there is no command 'read'"),
        ("mail show|reply 7", ""),
        ("submit --wait-for x", "submit has no option --wait-for"),
        ("agents scout", ""),
        ("frobnicate", "there is no command 'frobnicate'"),
    ],
)
def test_a_wrong_command_is_noticed(line: str, fault: str) -> None:
    assert fault_of(line.split()) == fault


def test_every_setting_that_is_named_exists() -> None:
    fields = {f"{PREFIX}{name.upper()}" for name in Settings.__struct_fields__}
    known = {*fields, *(f"{name}_FILE" for name in fields), *NOT_SETTINGS}
    ours = "\n".join(path.read_text() for path in tracked() if path.suffix == ".py" and "tests" in path.parts)
    compose = (ROOT / "compose.yaml").read_text()
    wrong = []
    for place, text in texts():
        for name in VARIABLE.findall(text):
            beginning = name.endswith("_") or name.startswith(f"{PREFIX}DELIVER_")
            used = f'"{name}"' in ours or f"${{{name}" in compose
            if name not in known and not beginning and not used:
                wrong.append(f"{place}: {name}")
    assert wrong == []


def test_every_key_of_mailroom_toml_that_is_named_exists() -> None:
    wrong = []
    for path in (each for each in tracked() if each.suffix == ".md"):
        for block in re.findall(r"```toml\n(.*?)```", path.read_text(), re.DOTALL):
            if "mailroom.toml" in block:
                keys = {key.removesuffix("_file") for key in tomllib.loads(block)}
                wrong += [f"{path.name}: {key}" for key in keys - set(Settings.__struct_fields__)]
    assert wrong == []


def test_every_path_of_the_api_that_is_named_exists() -> None:
    routes = [each.path.split("/") for each in TABLE]
    asked: list[tuple[str, str]] = []
    for place, text in texts():
        asked += [(place, found[0]) for found in API_PATH.finditer(text) if found[1]]
        if place.partition(":")[0].endswith(".js"):
            asked += [(place, f"/api/v1{one or other}") for _, one, other in ASKED.findall(text)]
    assert len(asked) > 60
    assert not any(leads_to("/api/v1/goals/x/frobnicate".split("/"), route) for route in routes)
    wrong = []
    for place, path in asked:
        words = re.sub(r"\$?\{[^}]*\}+|\0|<[^>]*>|\b[A-Z]+\b", HOLE, path).rstrip("/.)}").split("/")
        theirs = path.startswith("/api/v1/prompts")  # of PromptForge, where prompts come from
        if not theirs and not any(leads_to(words, route) for route in routes):
            wrong.append(f"{place}: {path}")
    assert wrong == []


def leads_to(words: list[str], route: list[str]) -> bool:
    """Whether a path is a route, or the beginning of one; what is filled in may be anything."""
    pairs = zip(words, route, strict=False)
    return len(words) <= len(route) and all(
        HOLE in word or part.startswith("{") or word == part for word, part in pairs
    )


def test_every_page_that_is_linked_exists() -> None:
    pages = [re.sub(r"\{[^}]*\}", HOLE, path).split("/") for path in PAGES]
    linked = [(place, path) for place, text in texts() if "/web/" in place for path in LINKED.findall(text)]
    said = re.compile(HOLE + r"(/[^/].*|/)")
    for place, text in texts():
        if ("gateway/delivery/" in place or "gateway/hooks/" in place) and (found := said.fullmatch(text)):
            linked.append((place, found[1]))
    kinds = ("goal", "approval", "mail", "dead", "reminder", "calendar", "job", "memory", "spending")
    linked += [("a briefing", Source(kind=kind, id="x").link) for kind in kinds]
    assert len(linked) > 40
    wrong = []
    for place, path in linked:
        words = re.sub(r"\$?\{.*", HOLE, path).partition("?")[0].split("/")
        served = path.startswith(("/web/", "/api/", "/login", "/openapi", "/hooks", "/metrics"))
        if not served and not any(len(words) == len(page) and fits(words, page) for page in pages):
            wrong.append(f"{place}: {path}")
    assert wrong == []


def fits(words: list[str], page: list[str]) -> bool:
    return all(HOLE in (word, part) or word == part for word, part in zip(words, page, strict=True))


def test_every_file_that_documents_name_exists() -> None:
    wrong = []
    for path in (each for each in tracked() if each.suffix == ".md" and each.name != "CHANGELOG.md"):
        for at, text in code_of(path.read_text()):
            for name in FILE.findall(text):
                there = any((ROOT / f"{name}{end}").exists() for end in ("", ".py", ".md"))
                if not there and not name.startswith(EXAMPLES):
                    wrong.append(f"{path.name}:{at}: {name}")
    assert wrong == []
