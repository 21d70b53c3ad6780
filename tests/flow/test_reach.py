"""Reach: what a person grants or allows beforehand opens the gate that far and no further."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shared import policy, subjects
from shared.agent.base import Agent
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import submission_entry
from shared.contracts import (
    ApprovalAnswer,
    CommandConnected,
    CommandVerdict,
    Task,
    TaskResult,
    generate_task_id,
)
from shared.errors import BusError, MailroomError
from shared.operations.approvals import answer_request, read_approvals
from shared.policy import Ruling
from shared.queries.summaries import summarize
from shared.tasks.profiles import Profile
from shared.views.approval import Approval
from tests.flow.gates import Canary
from tests.support.team import Team, open_team

NEED = re.compile(r"# needs (\S+)")


def judge(command: str, *, workspace: str = "", granted: Any = ()) -> Ruling:
    """Ask about a command whose comment says that it reaches what is not granted."""
    reach = tuple(NEED.findall(command))
    asks = not set(reach) <= set(granted)
    verdict = CommandVerdict.ASK if asks else CommandVerdict.ALLOW
    return Ruling(command=command, verdict=verdict, rule="reach", why="It needs a network.", reach=reach)


@pytest.fixture
def canary() -> Iterator[Canary]:
    canary = Canary()
    yield canary
    canary.close()


@asynccontextmanager
async def office(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch | None, reach: Sequence[str] = (), **environment: str
) -> AsyncIterator[Team]:
    if monkeypatch:
        monkeypatch.setattr(policy, "judge", judge)
    async with open_team(tmp_path, ["engineer", "other"], **environment) as team:
        skills = ("shared.skills.shell.ShellSkill",)
        options = {"reach": list(reach)}
        profile = Profile(name="engineer", description="Runs commands.", skills=skills, options=options)
        await team.join(Agent, profile)
        yield team


def connect(host: str, entry: str = "", *, note: str = "") -> str:
    """A command that asks the gate for ``host`` and prints the first line of the answer."""
    return (
        f"exec 3<>/dev/tcp/127.0.0.1/61128; printf 'CONNECT {host} HTTP/1.1\\r\\n\\r\\n' >&3; "
        f"head -1 <&3 # needs {entry or f'host:{host}'} {note}"
    )


class Run:
    """A command that runs as a task of a person."""

    def __init__(self, team: Team, command: str, goal_id: str = "goal_1", task_id: str = "") -> None:
        self.team = team
        self.task = Task(
            task_id=task_id or generate_task_id(),
            goal_id=goal_id,
            text="run",
            assignee="engineer",
            requester=subjects.USER,
            context={"action": "run_shell", "params": {"command": command}},
        )
        self.command = command

    async def start(self) -> "Run":
        await self.team.user.commit([submission_entry(self.task)])
        return self

    async def result(self) -> TaskResult:
        async with asyncio.timeout(60):
            return await self.team.result("engineer", subjects.USER, self.task.task_id)

    async def asked(self) -> Approval:
        """The request for it, once there is one."""
        async with asyncio.timeout(30):
            while True:
                for each in (await read_approvals(self.team.user)).approvals:
                    if each.request.task_id == self.task.task_id and self.command in each.request.what:
                        return each
                await asyncio.sleep(0.05)


async def run(team: Team, command: str, goal_id: str = "goal_1") -> TaskResult:
    return await (await Run(team, command, goal_id).start()).result()


async def granted_run(team: Team, command: str, goal_id: str = "goal_1", **options: Any) -> TaskResult:
    started = await Run(team, command, goal_id).start()
    asked = await started.asked()
    await answer_request(team.user, asked.request.approval_id, True, "", **options)
    return await started.result()


async def is_asked(team: Team, command: str, goal_id: str = "goal_1") -> bool:
    """Whether the command asks a person, who then refuses it."""
    started = await Run(team, command, goal_id).start()
    asking, ending = asyncio.ensure_future(started.asked()), asyncio.ensure_future(started.result())
    await asyncio.wait((asking, ending), return_when=asyncio.FIRST_COMPLETED)
    if asking.done():
        await answer_request(team.user, asking.result().request.approval_id, False, "")
        assert "refused" in (await ending).error_message
        return True
    asking.cancel()
    return False


def opened(result: TaskResult) -> bool:
    """Whether the gate took the host for granted: it then refuses it as private, which no grant changes."""
    assert ("is not a public address" in result.output) != ("not among the hosts" in result.output), result
    return "is not a public address" in result.output


async def test_a_grant_for_the_goal_holds_for_its_later_commands_and_no_other_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canary: Canary
) -> None:
    host = f"localhost:{canary.port}"
    async with office(tmp_path, monkeypatch) as team:
        assert opened(await granted_run(team, connect(host), scope="goal"))
        assert opened(await run(team, connect(host, note="again")))
        assert await is_asked(team, connect(host, note="elsewhere"), "goal_2")
        assert await is_asked(team, connect("example.org:80"))
    assert canary.visits == 0


async def test_the_policy_asks_once_for_a_registry_that_is_granted_for_the_goal(tmp_path: Path) -> None:
    async with office(tmp_path, None) as team:
        started = await Run(team, "python3 -m pip install ./nothing-there").start()
        request = (await started.asked()).request
        assert (request.reach, request.rule) == (("python",), "reach.python")
        assert "mailroom approvals grant ID --for goal" in request.why
        await answer_request(team.user, request.approval_id, True, "", "goal")
        assert "nothing-there" in (await started.result()).output
        assert not await is_asked(team, "pip3 install ./neither-there")
        assert await is_asked(team, "npm install neither-there")


@pytest.mark.parametrize("scope", ["command", "task"])
async def test_a_narrower_grant_holds_for_no_other_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canary: Canary, scope: str
) -> None:
    host = f"localhost:{canary.port}"
    async with office(tmp_path, monkeypatch) as team:
        assert opened(await granted_run(team, connect(host), scope=scope))
        assert await is_asked(team, connect(host, note="again"))


async def test_a_grant_opens_no_more_than_was_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canary: Canary
) -> None:
    async with office(tmp_path, monkeypatch) as team:
        result = await granted_run(
            team, connect(f"localhost:{canary.port}", "host:example.org"), scope="goal"
        )
        assert not opened(result)


async def test_a_person_names_the_hosts_of_a_command_that_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canary: Canary
) -> None:
    host = f"localhost:{canary.port}"
    async with office(tmp_path, monkeypatch) as team:
        started = await Run(team, connect(host, "network")).start()
        asked = (await started.asked()).request.approval_id
        with pytest.raises(MailroomError, match="is not known beforehand"):
            await answer_request(team.user, asked, True, "", "goal")
        with pytest.raises(MailroomError, match="is not a host"):
            await answer_request(team.user, asked, True, "", "goal", ("http://x",))
        await answer_request(team.user, asked, True, "", "goal", (host,))
        assert opened(await started.result())
        assert opened(await run(team, connect(host, "network", note="again")))
        assert not opened(await run(team, connect("localhost:1", "network")))
        # What a person named is granted; a host that only the command names is not.
        assert await is_asked(team, connect("example.org:80"))


async def test_only_a_person_can_grant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with office(tmp_path, monkeypatch, MAILROOM_APPROVAL_TIMEOUT="3") as team:
        started = await Run(team, connect("example.org:80")).start()
        request = (await started.asked()).request
        for name in ("engineer", "other"):
            bus = await team.connect(name)
            for claimed in (subjects.USER, name):
                assert not await forge(bus, claimed, request.approval_id), name
        result = await started.result()
        assert "Nobody approved it in time" in result.error_message
        assert await is_asked(team, connect("example.org:80", note="again"))


async def forge(bus: Bus, sender: str, approval_id: str) -> bool:
    """Whether an answer that an agent writes is stored."""
    answer = ApprovalAnswer(
        sender=sender, recipient="engineer", approval_id=approval_id, granted=True, scope="goal"
    )
    try:
        async with asyncio.timeout(2):
            await bus.commit([seal(subjects.approval_answered("engineer", approval_id), answer)])
    except (BusError, TimeoutError):
        return False
    return True


async def test_what_the_settings_allow_is_not_asked_about_and_may_be_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canary: Canary
) -> None:
    host = f"localhost:{canary.port}"
    async with office(tmp_path, monkeypatch, MAILROOM_REACH=f"{host},example.org:80") as team:
        result = await run(team, connect(host))
        assert "200 Connection established" in result.output
    assert canary.visits == 1


async def test_what_the_profile_allows_is_not_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canary: Canary
) -> None:
    host = f"localhost:{canary.port}"
    async with office(tmp_path, monkeypatch, [host]) as team:
        assert "200 Connection established" in (await run(team, connect(host))).output


async def test_connections_are_in_the_trail_with_their_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canary: Canary
) -> None:
    host = f"localhost:{canary.port}"
    async with office(tmp_path, monkeypatch, MAILROOM_REACH=host) as team:
        started = await Run(team, connect(host) + f"\n{connect('evil.example:443', f'host:{host}')}").start()
        result = await started.result()
        subject = subjects.event("engineer", "command_connected")
        stored = await team.user.last(subjects.OFFICE, subject)
    assert "the gate: evil.example:443 is not among the hosts this command may reach" in result.output
    assert stored is not None
    event = CommandConnected.from_json(stored.data)
    assert (event.task_id, event.goal_id) == (started.task.task_id, "goal_1")
    assert [(each.host, each.allowed) for each in event.connections] == [
        ("localhost", True),
        ("evil.example", False),
    ]
    assert "evil.example:443 refused" in summarize(subject, stored.data).text
