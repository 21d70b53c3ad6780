"""A small storm; ``python -m tests.storm`` is a large one."""

from pathlib import Path

import msgspec
import pytest

from tests.storm import Plan, run_storm

SOON = 30.0
"""The longest an interrupted task may wait on a slow machine that runs other tests. A quiet one needs 1 s
after a process was killed and 3 s after the supervisor was."""


@pytest.mark.timeout(300)
async def test_every_goal_ends_once_whatever_is_killed(tmp_path: Path) -> None:
    outcome = await run_storm(Plan(goals=60, kills=1, stops=1, server_kills=1), tmp_path)
    told = msgspec.json.encode(outcome).decode()
    print(told)
    assert outcome.survived, told
    assert outcome.takeovers, told
    assert outcome.longest_takeover < SOON, told
