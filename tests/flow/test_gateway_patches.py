"""The patches of a goal over HTTP: how they fit now, applying them, and who did."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.access.scopes import Scope
from tests.flow.test_cli_patches import LINES, changed, delivered, git, make_repository, undo
from tests.support.gateway import RunningGateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(tmp_path)
    try:
        await running.open()
        running.office.server.announce()
        yield running
    finally:
        await running.close()


async def test_a_patch_is_shown_applied_once_and_taken_out_again(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    project, stale = make_repository(tmp_path / "project"), make_repository(tmp_path / "stale")
    (project / "a.txt").write_text(LINES.replace("line 20\n", "changed\n"))
    (project / "new ü.txt").write_bytes(b"new\x00\n")
    git(project, "add", "-A")
    patches = [tmp_path / "project.patch", tmp_path / "stale.patch"]
    for each in patches:
        each.write_text(git(project, "diff", "--cached", "--binary"))
    git(project, "reset", "-q", "--hard")
    (stale / "a.txt").write_text("something else\n")
    async with (
        delivered(gateway.office.server, (patches[0], project), (patches[1], stale)) as goal_id,
        gateway.client(Scope.APPROVE, name="ada") as ada,
        gateway.client(Scope.SUBMIT, name="bob") as bob,
    ):
        path = f"/api/v1/goals/{goal_id}"
        shown = (await bob.get(f"{path}/diff")).json()["patches"]
        assert [each["fit"] for each in shown] == ["fits", "refused"]
        assert shown[0]["diff"] == patches[0].read_text()
        assert "mailroom retry" in shown[1]["cure"]
        assert (await bob.post(f"{path}/apply", json={})).status_code == 403
        assert (await ada.post(f"{path}/apply", json={"projects": ["nothing"]})).status_code == 404
        done = [(await ada.post(f"{path}/apply", json={})).json()["patches"] for _ in range(2)]
        assert [each["done"] for each in done[0]] == ["applied", "refused"]
        assert [each["done"] for each in done[1]] == ["already applied", "refused"]
        assert changed(project)
        assert (stale / "a.txt").read_text() == "something else\n"
        fits = (await bob.get(f"{path}/diff")).json()["patches"]
        assert fits[0]["fit"] == "applied"
        undo(done[0][0]["undo"])
        assert not changed(project)
        (record,) = await gateway.office.stored("mail.user.user")
        assert b'"person":"ada"' in record[2]
