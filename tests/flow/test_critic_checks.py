"""Linting and scanning: what is found, what is left out, and that nothing is written or shown."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from services.critic.drift import NO_RULES
from services.critic.file_tools import Sources, sort_files
from services.critic.findings import make_finding, rank
from services.critic.inspection import format_gap, format_inspection, inspect_repository, judge, list_sources
from services.critic.scans import lint, scan_secrets, scan_security
from shared.contracts import Finding, Inspection, ResultOutcome
from shared.errors import ActionError
from shared.source import read_tree
from tests.unit.test_source_tree import plant

# Put together here, so that no scanner takes this file for a leak.
AWS = "AKIA" + "Q3EGRZ7PLM2XHVKD"
GITHUB = "ghp_" + "R4tK9mZx2QpLw8VbNc5YdHs7JfGa3UeT6oiB"
RANDOM = "q8Zr2" + "Lw9Xk4Tn7Vb3Mp6Hd"
KEY = (
    "-----BEGIN "
    + "RSA PRIVATE KEY-----\n"
    + "MIIEowIBAAKCAQEA7bq0W4zPvUe1x9hK3nXo5tG8yRjLmQc2sVfD6aTi\n" * 3
)

BUGGY = """import os
import subprocess


def add(item, items=[]):
    items.append(item)
    return undefined_name


def shell(command):
    assert command
    subprocess.call(command, shell=True)
"""


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder beneath ``root`` with its size and time of change."""
    return {
        f"{folder}/{name}": (status.st_size, status.st_mtime_ns)
        for folder, folders, files in os.walk(root)
        for name in (".", *folders, *files)
        for status in [os.lstat(f"{folder}/{name}")]
    }


def told(findings: Iterable[Finding]) -> set[tuple[str, str, str]]:
    return {(finding.severity, finding.rule.split(" ")[0], finding.source) for finding in findings}


def tree(root: Path, files: dict[str, str | bytes]) -> Sources:
    return sort_files(read_tree(plant(root, files)))


async def test_ruff_finds_likely_bugs_where_a_project_has_no_rules(tmp_path: Path) -> None:
    files = {
        "a.py": BUGGY,
        "tests/test_a.py": "import os\nprint(nothing)\n",
        "broken.py": "def (:\n",
        "tests/data/broken.py": "def (:\n",
        "vendor/x.py": "import os\n",
        "pkg/__init__.py": "from os import path\n",
        ".gitignore": "out.py\n",
        "out.py": "import os\n",
        "long.py": f"x = '{'y' * 200}'\n",
    }
    check = await lint(tree(tmp_path, files), timeout=60)
    assert check.tool.version.endswith("Mailroom's selection of likely bugs")
    assert {
        ("high", "F821", "a.py:7"),
        ("medium", "B006", "a.py:5"),
        ("low", "F401", "a.py:1"),
        ("medium", "F821", "tests/test_a.py:2"),
        ("high", "invalid-syntax", "broken.py:1"),
        ("low", "invalid-syntax", "tests/data/broken.py:1"),
    } <= told(check.findings)
    assert {finding.file for finding in check.findings} == {
        "a.py",
        "tests/test_a.py",
        "broken.py",
        "tests/data/broken.py",
    }
    assert check.tool.findings == len(check.findings)


async def test_a_projects_own_rules_hold(tmp_path: Path) -> None:
    files = {
        "a.py": BUGGY,
        "ruff.toml": "fix = true\nfix-only = true\nunsafe-fixes = true\n"
        'cache-dir = "cache"\n[lint]\nselect = ["D100"]\n',
    }
    listed = tree(tmp_path, files)
    before = snapshot(tmp_path)
    check = await lint(listed, timeout=60)
    assert told(check.findings) == {("low", "D100", "a.py:1")}
    assert "as ruff.toml says" in check.tool.version
    assert snapshot(tmp_path) == before


async def test_a_project_that_only_sets_a_line_length_selects_no_rules(tmp_path: Path) -> None:
    files = {
        "a.py": BUGGY + "x = dict()\n",
        "pyproject.toml": "[tool.ruff]\nline-length = 40\n"
        '[tool.ruff.lint]\nextend-select = ["E501", "oops;"]\n',
    }
    check = await lint(tree(tmp_path, files), timeout=60)
    rules = {finding.rule for finding in check.findings}
    assert {"F821", "B006"} <= rules
    assert "C408" not in rules


async def test_rules_that_cannot_be_used_are_told_and_replaced(tmp_path: Path) -> None:
    files = {"a.py": BUGGY, "ruff.toml": 'required-version = "==0.0.1"\n[lint]\nselect = ["E"]\n'}
    check = await lint(tree(tmp_path, files), timeout=60)
    assert "what ruff.toml says cannot be used" in check.tool.problem
    assert ("high", "F821", "a.py:7") in told(check.findings)


async def test_a_lint_that_takes_too_long_is_told(tmp_path: Path) -> None:
    check = await lint(tree(tmp_path, {"a.py": BUGGY}), timeout=0.001)
    assert (check.tool.problem, check.findings) == ("it did not finish: it took longer than 0.001 s", ())


async def test_bandit_findings_are_weighed(tmp_path: Path) -> None:
    password = "hunter" + "2hunter2"
    files = {
        "a.py": BUGGY,
        "b.py": f"import pickle\nimport xml.etree.ElementTree\n\npassword = '{password}'\n",
        "tests/test_a.py": BUGGY,
        ".bandit": f"[bandit]\noutput = {tmp_path / 'written'}\nskips = B602\n",
    }
    listed = tree(tmp_path, files)
    before = snapshot(tmp_path)
    check = await scan_security(listed, timeout=60)
    assert told(check.findings) == {
        ("high", "B602", "a.py:12"),
        ("low", "B101", "a.py:11"),
        ("low", "B105", "b.py:4"),
        ("medium", "B602", "tests/test_a.py:12"),
    }
    assert password not in str(check)
    assert snapshot(tmp_path) == before


async def test_a_projects_own_skips_hold(tmp_path: Path) -> None:
    files = {"a.py": BUGGY, "pyproject.toml": '[tool.bandit]\nskips = ["B602", "B9999", 5]\n'}
    assert told((await scan_security(tree(tmp_path, files), timeout=60)).findings) == {
        ("low", "B101", "a.py:11")
    }


async def test_bandit_reads_more_files_than_fit_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.critic.scans.BATCH", 2)
    check = await scan_security(
        tree(tmp_path, {f"{name}.py": "eval(input())\n" for name in "abc"} | {"-x.py": "eval(input())\n"}),
        timeout=60,
    )
    assert {finding.file for finding in check.findings} == {"a.py", "b.py", "c.py", "-x.py"}


SECRET_FILES = {
    "settings.py": f"AWS_KEY = '{AWS}'\n\npassword = '{RANDOM}'\n",
    "deploy.yml": f"env:\n  GITHUB_TOKEN: {GITHUB}\n",
    "id_rsa": KEY,
    "inline.py": f'KEY = """{KEY}"""\n',
    "joined.py": "KEY = (\n" + "".join(f'    "{row}\\n"\n' for row in KEY.splitlines()) + ")\n",
    "tests/certs/key.pem": KEY,
    "tests/test_x.py": f"TOKEN = '{GITHUB}'\n",
    "README.md": f"export AWS_KEY={AWS}\n",
    "db.py": f"URL = 'postgres://app:{RANDOM}@db.example.com/app'\n",
}


async def test_secrets_are_found_and_never_shown(tmp_path: Path) -> None:
    check = await scan_secrets(tree(tmp_path, SECRET_FILES), timeout=60)
    assert {(finding.severity, finding.source) for finding in check.findings} == {
        ("high", "settings.py:1"),
        ("medium", "settings.py:3"),
        ("high", "deploy.yml:2"),
        ("high", "id_rsa:1"),
        ("high", "inline.py:1"),
        ("high", "joined.py:2"),
        ("medium", "tests/test_x.py:1"),
        ("low", "tests/certs/key.pem:1"),
        ("medium", "README.md:1"),
        ("medium", "db.py:1"),
    }
    shown = str(check)
    for secret in (AWS, GITHUB, RANDOM, KEY.splitlines()[1]):
        assert secret[5:] not in shown
    assert "20 characters, not shown" in shown


HARMLESS = [
    "AWS_KEY = 'AKIAIOSFODNN7EXAMPLE'",
    "password = 'password'",
    "password = os.environ['DB_PASSWORD_1234']",
    "password = get_password(user1, vault2)",
    "api_key: ${API_KEY_PRODUCTION_1}",
    "api_key: <your-api-key-12345>",
    "secret = 'kubernetes.io/service-account-token1'",
    "SECRET_NAME = 'my-application-secret-name-v2'",
    "token_url = 'https://auth.example.org/oauth2/token'",
    "password: changeme1234567890",
    "key = 'a1b2c3d4-e5f6-4a7b-8c9d-0e1f2a3b4c5d'",
    "url = 'https://user:password@host/'",
    "url = 'https://user:${PASSWORD}@host/'",
    "if '-----BEGIN PRIVATE KEY-----' in text:",
    "sha256 = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'",
    f"AWS_KEY = '{AWS}'  # pragma: allowlist secret",
    "password_hash_rounds = 120000000000",
    "PASSWORD_FIELD_1 = 'login_form_password_field_1'",
]


async def test_what_only_looks_like_a_secret_is_left_out(tmp_path: Path) -> None:
    text = "\n".join(HARMLESS)
    check = await scan_secrets(tree(tmp_path, {"a.py": text, "a.yml": text}), timeout=60)
    assert check.findings == ()
    assert check.tool.problem == ""


async def test_secrets_of_a_hostile_folder(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "json.py": "raise SystemExit('imported')",
        "detect_secrets/__init__.py": "raise SystemExit('imported')",
        "binary": bytes(range(256)) * 100,
        "long.js": "key=" + "a1" * 400_000,
        "package-lock.json": f'"integrity": "{GITHUB}"',
        "settings.py": f"K = '{AWS}'\n",
    }
    check = await scan_secrets(tree(tmp_path, files), timeout=60)
    assert {finding.source for finding in check.findings} == {"settings.py:1"}
    assert check.tool.problem == ""


async def test_a_whole_inspection(tmp_path: Path) -> None:
    files = {
        **SECRET_FILES,
        "app/__init__.py": "",
        "app/web.py": BUGGY,
        "app/db.py": "import app.web\n",
        "index.js": "eval(x)\n",
        "ARCHITECTURE.md": "# A\n\n`app/db` must not import `app/web`.\n",
    }
    plant(tmp_path, files)
    before = snapshot(tmp_path)
    found = await inspect_repository(tmp_path, timeout=60)
    assert snapshot(tmp_path) == before
    assert found.findings[0].tool == "secrets"
    assert [finding.severity for finding in found.findings] == sorted(
        (finding.severity for finding in found.findings), key=["high", "medium", "low"].index
    )
    assert ("high", "F821", "app/web.py:7") in told(found.findings)
    assert ("high", "B602", "app/web.py:12") in told(found.findings)
    assert found.total == len(found.findings) == len({(f.tool, f.rule, f.source) for f in found.findings})
    assert not [f for f in found.findings if f.rule.startswith("B105") and f.source == "settings.py:3"]
    assert {tool.name: bool(tool.problem) for tool in found.tools} == {
        "ruff": False,
        "bandit": False,
        "secret scan": False,
        "oxlint": False,
        "documents": False,
    }
    assert [(rule.source, [v.source for v in rule.violations]) for rule in found.drift] == [
        ("ARCHITECTURE.md:3", ["app/db.py:1"])
    ]
    assert Inspection.from_json(found.to_json()) == found
    text = format_inspection(found)
    assert GITHUB not in text
    assert (
        " in 8 Python files, 1 JavaScript file, 2 documents and 14 files searched for secrets, not their"
        " history; 1 of 1 stated rule" in text
    )
    assert found.not_checked == ()
    assert {"app/web.py:7", "app/db.py:1", "ARCHITECTURE.md:3"} <= set(
        list_sources(found.findings, found.drift)
    )


async def test_what_no_checker_looks_at_is_named(tmp_path: Path) -> None:
    files = {"a.java": "x", "b.java": "y", "c.kt": "z", "vendor/d.rb": "z"}
    found = await inspect_repository(plant(tmp_path / "jvm", files), timeout=60)
    gap = "2 Java files and 1 Kotlin file: Mailroom has no checker for them"
    assert [format_gap(each) for each in found.not_checked] == [gap]
    assert format_inspection(found).startswith(
        f"0 findings in 3 files searched for secrets, not their history. Not checked: {gap}."
    )
    assert judge(found) is ResultOutcome.DONE
    secrets = await inspect_repository(tmp_path / "jvm", timeout=60, topics=["secrets"], drift=False)
    assert format_inspection(secrets).startswith(
        "0 findings in 3 files searched for secrets, not their history.\n"
    )
    assert (secrets.not_checked, secrets.drift_note) == ((), "")


async def test_an_empty_folder_is_not_checked(tmp_path: Path) -> None:
    empty = await inspect_repository(tmp_path, timeout=60)
    assert (empty.total, empty.findings, empty.tools, empty.checked) == (0, (), (), ())
    assert judge(empty) is ResultOutcome.NOT_CHECKED
    assert format_inspection(empty).startswith("There are no files that a checker could look at.")
    assert empty.drift_note == NO_RULES


async def test_findings_are_capped_and_counted(tmp_path: Path) -> None:
    found = await inspect_repository(plant(tmp_path, {"a.py": "import os\n" * 250}), timeout=60)
    assert len(found.findings) == 100
    assert found.total > 240


async def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ActionError, match="is not a folder"):
        await inspect_repository(tmp_path / "none", timeout=1)


def test_the_same_thing_said_by_two_tools_is_told_once() -> None:
    said = [
        make_finding("ruff", "S602", "medium", "a.py", 3, "x"),
        make_finding("bandit", "B602 subprocess", "high", "a.py", 3, "x"),
        make_finding("ruff", "B602", "medium", "a.py", 3, "a rule of bugbear, not of bandit"),
        make_finding("bandit", "B105 hardcoded", "low", "a.py", 9, "x"),
        make_finding("secrets", "AWS", "high", "a.py", 9, "x"),
        make_finding("ruff", "F401", "low", "a.py", 1, "x"),
        make_finding("ruff", "F401", "low", "a.py", 1, "x"),
    ]
    assert [(finding.tool, finding.rule) for finding in rank(said)] == [
        ("secrets", "AWS"),
        ("bandit", "B602 subprocess"),
        ("ruff", "B602"),
        ("ruff", "F401"),
    ]


def test_habits_come_after_what_is_rare() -> None:
    habit = [make_finding("bandit", "B101 assert", "low", "a.py", line, "x") for line in range(1, 20)]
    rare = make_finding("ruff", "F841", "low", "z.py", 1, "x")
    assert rank([*habit, rare])[0] == rare


def test_a_message_is_made_safe() -> None:
    finding = make_finding("t", "r", "low", "a.py", -1, "a\x1b[31m\n\nb\ud800 " + "x" * 1_000)
    assert finding.line == 0
    assert finding.message.startswith("a [31m b")
    assert len(finding.message) <= 300
    finding.to_json()


async def test_a_scan_whose_time_is_up_says_what_is_missing(tmp_path: Path) -> None:
    listed = tree(tmp_path, {"a.py": BUGGY})
    assert "1 files were not scanned" in (await scan_security(listed, timeout=0.001)).tool.problem
    assert "not every file was scanned" in (await scan_secrets(listed, timeout=0.001)).tool.problem
