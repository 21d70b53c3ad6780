"""What tests of whole processes share: an office, and a web site."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import onnxruntime
import pytest

from tests.support.http import Site
from tests.support.office import Office
from tests.support.once import load_model


@pytest.fixture(scope="session", autouse=True)
def loaded_once() -> Iterator[None]:
    """The embedding model is loaded once, not for each memory in the tests' own process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnxruntime, "InferenceSession", load_model)
        yield


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
