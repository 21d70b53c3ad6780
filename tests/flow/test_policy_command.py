"""``mailroom policy check`` as people and other programs call it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def run(*arguments: str, text: bytes = b"", folder: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "services.cli", "policy", "check", *arguments],
        input=text,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "MAILROOM_STATE_DIR": str(folder or "/nonexistent")},
    )


def rulings(result: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    assert result.stderr == b""
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_reads_commands_a_line_each_and_needs_no_office() -> None:
    lines = ["ls -la", "", "  git reset --hard  ", 'file=/etc/x␤rm "$file"', "\t", "echo 'a\"b'"]
    result = run("-", text="\n".join(lines).encode())
    assert result.returncode == 0
    answers = rulings(result)
    assert [answer["command"] for answer in answers] == [line for line in lines if line.strip()]
    assert [answer["verdict"] for answer in answers] == ["allow", "ask", "deny", "allow"]
    assert all(set(answer) == {"command", "verdict", "reach", "rule", "why"} for answer in answers)
    assert answers[2]["rule"] == "destroy.outside-workspace"


def test_reads_a_file_whatever_bytes_are_in_it(tmp_path: Path) -> None:
    file = tmp_path / "commands"
    file.write_bytes(b"ls\r\nrm -rf /\xff/\xfe\r\n\x00\ncat /etc/shadow # \xe2\x90\xa4 \xed\xa0\x80")
    result = run(str(file))
    assert result.returncode == 0
    answers = rulings(result)
    assert [answer["verdict"] for answer in answers] == ["allow", "deny", "ask", "deny"]


def test_a_line_without_an_end_is_not_allowed_and_the_next_is_still_read() -> None:
    result = run("-", text=b"a" * (3 << 20) + b"\nls\n" + b"(" * 100_000 + b"\nls")
    assert [answer["verdict"] for answer in rulings(result)] == ["ask", "allow", "ask", "allow"]


def test_one_command_tells_its_verdict_by_the_exit_code() -> None:
    assert [run("-c", text).returncode for text in ("ls", "git push --force", "sudo ls")] == [0, 3, 4]


def test_what_has_to_be_reached_is_said_with_the_grant_that_helps() -> None:
    [answer] = rulings(run("-c", "pip install x && curl https://example.org/a"))
    assert (answer["verdict"], answer["rule"]) == ("ask", "reach.python")
    assert answer["reach"] == ["python", "host:example.org"]
    assert "mailroom approvals grant" in answer["why"]


def test_the_rules_are_checked_by_their_examples() -> None:
    result = run("--self-test")
    assert result.returncode == 0
    assert b"Every rule agrees" in result.stdout


def test_the_workspace_can_be_named(tmp_path: Path) -> None:
    command = f"rm -f {tmp_path}/work/a.txt"
    assert rulings(run("-c", command, "-w", str(tmp_path / "work")))[0]["verdict"] == "allow"
    assert rulings(run("-c", "rm -f /srv/work/x", "-w", str(tmp_path)))[0]["verdict"] == "deny"


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    for arguments, code in (
        ((str(tmp_path / "none"),), 1),
        ((str(tmp_path),), 1),
        ((), 2),
        (("-", "-c", "x"), 2),
    ):
        result = run(*arguments)
        assert result.returncode == code, arguments
        assert b"Traceback" not in result.stderr
        assert result.stdout == b""


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen(
        f"{sys.executable} -m services.cli policy check - | head -1",
        shell=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = process.communicate(b"ls\n" * 20_000, timeout=60)
    assert len(out.splitlines()) == 1
    assert b"Traceback" not in err
