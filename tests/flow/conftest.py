"""What tests of whole processes share: an office, and a web site."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.http import Site
from tests.support.office import Office


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """The whole office, up and ready."""
    running = Office(tmp_path)
    try:
        await running.open()
        yield running
    finally:
        await running.close()


@pytest.fixture
def site() -> Iterator[Site]:
    """A web server whose pages the test decides."""
    with Site() as site:
        yield site
