"""The office that tests of whole processes share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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
