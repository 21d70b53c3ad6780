"""The servers that tests of several folders share."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared import trace
from tests.support.server import Server, serve


@pytest.fixture(autouse=True)
def no_trace() -> None:
    """No test goes on in the trace that an earlier one began in this process."""
    trace._current.set(None)


@pytest.fixture(scope="module")
def office_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of a module: they share its streams, so each uses ids of its own."""
    with serve(tmp_path_factory.mktemp("office")) as server:
        yield server


@pytest.fixture
def fresh_office_server(tmp_path: Path) -> Iterator[Server]:
    """A server for one test, which may break it."""
    with serve(tmp_path / "office") as server:
        yield server


@pytest.fixture
def mailroom(office_server: Server) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command against ``office_server``."""
    return office_server.mailroom
