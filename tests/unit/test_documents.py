"""Documents: every link leads somewhere, the index has them all, and what is made from code is current."""

import json
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from shared.llm.config import configured_models, settings_of
from shared.llm.leaving import rule_for
from shared.setting_values import KINDS
from shared.settings import load
from tests.settings_page import GROUPS, PAGE, described, make_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^()\s]+)\)|(?:href|src|srcset)=\"([^\"]+)\"")
LONGEST = {"ARCHITECTURE.md": 250, "README.md": 180}
"""Lines: who reads more than that looks for one thing, which is in a document of its own."""

SHORT = re.compile(r"`([a-z_]+(?:/[a-z_]+)+(?:\.[a-z]+)?)/?`")
"""A path as documents shorten it: the end of one in the repository."""
NO_MODULES = ("mailroom", "run_command", "read_project")
"""What the table of modules names besides: programs and functions."""
OF_THE_OFFICE = ("gateway/", "keys/", "specialists/", "job_queue/", "souls/", "folder/")
"""Beginnings of paths in the state folder, or in one of a reader."""


@cache
def listed(*patterns: str) -> tuple[str, ...]:
    """The files of the repository, those that are not committed yet too."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(name for name in done.stdout.splitlines() if (ROOT / name).is_file())


@cache
def documents() -> tuple[Path, ...]:
    return tuple(ROOT / name for name in listed("*.md") if not name.startswith("tests/"))


@cache
def prose(path: Path) -> str:
    """A document without its code."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda span: re.sub(r"[\[\]()]", "", span[0]), text)


def anchors(path: Path) -> set[str]:
    """The names of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def fault_of(path: Path, link: str) -> str:
    """What is wrong with a link; empty if nothing is."""
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    if re.match(r"[a-z]+:", link):
        return ""
    if not target.exists():
        return "there is no such file"
    if anchor and anchor not in anchors(target):
        return f"there is no heading {anchor!r}"
    return ""


def test_every_link_leads_somewhere() -> None:
    links = [(path, one or other) for path in documents() for one, other in LINK.findall(prose(path))]
    assert len(links) > 200
    wrong = [
        f"{path.relative_to(ROOT)}: {link}: {fault}"
        for path, link in links
        if (fault := fault_of(path, link))
    ]
    assert wrong == []


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    assert fault_of(DOCS / "start.md", "nothing.md") == "there is no such file"
    assert fault_of(DOCS / "start.md", "operate.md#nothing") == "there is no heading 'nothing'"
    assert fault_of(DOCS / "start.md", "operate.md#back-up") == ""


def test_every_module_that_is_named_by_the_end_of_its_path_exists() -> None:
    files = set(listed()) | {str(folder) for name in listed() for folder in Path(name).parents}
    ends = {"/".join(parts[at:]) for parts in (name.split("/") for name in files) for at in range(len(parts))}
    wrong = [
        f"{path.name}: {name}"
        for path in documents()
        if path.name != "CHANGELOG.md" and path.parent.name != "decisions"
        for name in SHORT.findall(path.read_text("utf-8"))
        if not ends & {name, f"{name}.py"} and not name.startswith(OF_THE_OFFICE)
    ]
    assert wrong == []


def test_every_package_is_in_architecture_with_modules_that_exist() -> None:
    files = set(listed()) | {str(folder) for name in listed() for folder in Path(name).parents}
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rows = re.findall(r"^\| `((?:services|shared)/[\w/.]+)` \| (.*) \|$", text, re.MULTILINE)
    packages = {name for name in files if re.fullmatch(r"(services|shared)/[a-z_]+", name)}
    assert packages - {name for name, _ in rows} == set()
    wrong = [
        f"{package}: {module}"
        for package, said in rows
        for module in ("", *re.findall(r"`([a-z]+(?:_[a-z]+)?)`", said))
        if module not in NO_MODULES
        and not files & {f"{package}/{module}".rstrip("/"), f"{package}/{module}.py"}
    ]
    assert wrong == []


def test_the_index_has_every_document() -> None:
    linked = {found[0] or found[1] for found in LINK.findall((DOCS / "README.md").read_text("utf-8"))}
    there = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert there - linked == set()


def test_the_index_of_decisions_has_every_decision() -> None:
    index = (DOCS / "decisions" / "README.md").read_text("utf-8")
    there = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    assert [path.name for path in there if path.name not in index] == []
    numbers = [path.name[:4] for path in there]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize(("name", "most"), LONGEST.items())
def test_what_is_read_first_is_short(name: str, most: int) -> None:
    assert len((ROOT / name).read_text("utf-8").splitlines()) <= most


def test_the_page_of_settings_is_current() -> None:
    assert PAGE.read_text("utf-8") == make_page(), "Run 'python -m tests.settings_page'"
    assert GROUPS.keys() <= described().keys()


def test_what_the_document_of_models_writes_into_mailroom_toml_is_read(tmp_path: Path) -> None:
    text = (DOCS / "models.md").read_text()
    (table,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "mailroom.toml").write_text(table)
    office = load({"MAILROOM_STATE_DIR": str(tmp_path)})
    assert rule_for(office, "https://api.openai.com/v1").kinds == ("memory", "web")
    assert rule_for(settings_of(office, "scout"), "https://api.openai.com/v1").kinds == ()
    assert configured_models(settings_of(office, "nexus"))
    for kind in KINDS:
        assert f"| `{kind}` |" in text


def test_the_registry_of_mcp_is_told_one_name_and_version() -> None:
    told = json.loads((ROOT / "server.json").read_text())
    name = re.search(r"<!-- mcp-name: (\S+) -->", (ROOT / "README.md").read_text())
    assert name
    assert name[1] == told["name"]
    assert name[1] in (ROOT / "CONTRIBUTING.md").read_text()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {told["version"], *(each["version"] for each in told["packages"])} == {version}
