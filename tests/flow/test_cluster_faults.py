"""Goals of an office on three servers all end once, whatever happens to the servers."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.bench import cluster
from tests.bench.cluster import FAULTS, opened, run_fault
from tests.support.cluster import LEAVES_OPEN, Cluster
from tests.support.office import Office

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240), LEAVES_OPEN]
GOALS = 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Office, Cluster]]:
    async with opened(tmp_path_factory.mktemp("office")) as office:
        yield office


@pytest.mark.parametrize("fault", FAULTS)
async def test_all_goals_end_once_and_nothing_is_lost(
    running: tuple[Office, Cluster], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CUT", 20.0)
    outcome = await run_fault(*running, fault, GOALS)
    print(outcome)
    assert outcome.survived, outcome
