"""How a command failed, in words: by its exit code, a signal, its time, the jail or the gate."""

from pathlib import Path
from typing import Any

import pytest

from shared.contracts import Connection
from shared.sandbox import CommandResult
from shared.skills.workspace import explain_failure

REFUSED = Connection(
    host="a.example",
    port=443,
    allowed=False,
    why="a.example:443 is not among the hosts this command may reach",
)


def result(exit_code: int = 0, **more: Any) -> CommandResult:
    return CommandResult(**{"argv": ("x",), "exit_code": exit_code, "output": "", "seconds": 2.0, **more})


@pytest.mark.parametrize(
    ("ended", "ok_codes", "failure"),
    [
        (result(), (0,), ""),
        (result(3), (0,), "ended with exit code 3"),
        (result(3), (0, 3), ""),
        (result(0), (1,), "ended with exit code 0"),
        (result(-9), (0,), "was ended by signal 9 (SIGKILL)"),
        (result(-9), (0, 137), ""),
        (result(-40), (0,), "was ended by signal 40"),
        (result(-15, timed_out=True), (0, 143), "was stopped after 2 s, because its time was up"),
        (result(0, problem="it used too much memory"), (0,), "was stopped, because it used too much memory"),
        (result(0, connections=(REFUSED,)), (0,), f"was refused a connection by the gate: {REFUSED.why}"),
        (result(0, connections=(Connection(host="a", port=1, allowed=True),)), (0,), ""),
    ],
)
def test_how_a_command_failed(ended: CommandResult, ok_codes: tuple[int, ...], failure: str) -> None:
    assert ended.find_failure(ok_codes) == failure


def test_the_reason_names_the_command_its_last_words_and_a_cure() -> None:
    log = Path("/out/x.log")
    assert explain_failure("`x`", result(), log) == ""
    failed = result(2, output="begin\nx: no such file\n\n")
    assert explain_failure("`x`", failed, log) == (
        "`x` ended with exit code 2: x: no such file. Its output is in /out/x.log"
    )
    assert "command_timeout" in explain_failure("x", result(-15, timed_out=True), log)
    assert "grant ID --host" in explain_failure("x", result(0, connections=(REFUSED,)), log)
