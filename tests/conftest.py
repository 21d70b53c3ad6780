"""The servers that tests of several folders share, and which tests stay together in one process."""

import gc
import signal
import subprocess
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

from shared import trace
from tests.support.once import share_certificates
from tests.support.server import Server, serve
from tests.support.stalls import RunAgain
from tests.support.sweeper import leave_no_process

TOGETHER = ("tests/browser/", "tests/flow/test_brain_")
"""Tests that share what is slow to make: an office and a browser; the clients of models' providers (3 s)."""
LONG = (
    "tests/browser/",
    "tests/flow/test_cluster_",
    "tests/flow/test_gateway_fuzz.py",
    "tests/flow/test_heartbeat.py",
    "tests/flow/test_mcp_conformance.py",
)
"""Tests that take longer than their size tells."""


def pytest_configure(config: pytest.Config) -> None:
    """Run tests again that fail while the machine stands still, and let Ctrl-C reach what tests start.

    What a shell starts in the background ignores Ctrl-C, and so would all that the tests start.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(RunAgain(), "run-again-after-a-stall")
    share_certificates()
    gc.disable()  # nothing that collection makes is garbage


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In one of several processes, begin with what takes longest, so that no long file is left at the end.

    How long a file takes is guessed from its size. That also mixes tests that wait with tests that compute.
    """
    if hasattr(config, "workerinput"):
        sizes = {path: path.stat().st_size for path in {item.path for item in items}}
        items.sort(key=lambda item: -inf if item.nodeid.startswith(LONG) else -sizes[item.path])


def pytest_collection_finish() -> None:
    """Leave what was collected out of the search for garbage: a fifth of the time of quick tests was that."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file goes to one process (``--dist loadfile``), and so does what is kept TOGETHER."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            together = (name for name in TOGETHER if nodeid.startswith(name))
            return next(together, super()._split_scope(nodeid))

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def nothing_left(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No process of a test is left, also if the tests themselves are killed."""
    leave_no_process(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def no_trace() -> None:
    """No test goes on in the trace that an earlier one began in this process."""
    trace._current.set(None)


@pytest.fixture(scope="module")
def office_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of a module: they share its streams, so each uses ids of its own."""
    with serve(tmp_path_factory.mktemp("office")) as server:
        yield server


@pytest.fixture(scope="module")
def office_gateway(office_server: Server) -> Server:
    """The same with its gateway, which most commands ask."""
    office_server.start_gateway()
    return office_server


@pytest.fixture
def fresh_office_server(tmp_path: Path) -> Iterator[Server]:
    """A server for one test, which may break it."""
    with serve(tmp_path / "office") as server:
        yield server


@pytest.fixture
def mailroom(office_server: Server) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command against ``office_server``."""
    return office_server.mailroom
