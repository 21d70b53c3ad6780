"""The engineer removes what goals left on disk, while the office runs."""

import os
import time
from pathlib import Path

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import OfficeState, StateChanged
from tests.support.office import Office
from tests.support.waiting import eventually


async def test_old_workspaces_and_outputs_go_and_those_of_open_goals_stay(tmp_path: Path) -> None:
    office = Office(tmp_path)
    places = [office.config.workspaces, office.config.snapshots, office.config.outputs]
    long_ago = time.time() - 100 * 86_400
    for place in places:
        for name in ("goal_old", "goal_open"):
            (place / name).mkdir(parents=True)
            os.utime(place / name, (long_ago, long_ago))
    try:
        await office.open([])
        open_goals = {"goal_open": OfficeState.EXECUTING}
        state = StateChanged(sender="conductor", state=OfficeState.EXECUTING, active=open_goals)
        await (await office.connect("conductor")).commit([seal(subjects.OFFICE_STATE, state)])
        office.start("engineer")
        await office.ready("engineer")
        await eventually(lambda: not any((place / "goal_old").exists() for place in places))
        assert all((place / "goal_open").exists() for place in places)
    finally:
        await office.close()
