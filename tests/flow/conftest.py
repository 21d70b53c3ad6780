"""What tests of whole processes share: an office, and a web site."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from tests.support.http import Site
from tests.support.office import Office


@pytest.fixture(scope="session", autouse=True)
def loaded_once() -> Iterator[None]:
    """The embedding model is loaded once, not for each memory in the tests' own process (0.2 s of CPU).

    A session keeps nothing from one text to the next. Memory daemons, which are processes, load their own.
    """
    load, loaded = onnxruntime.InferenceSession, dict[tuple[object, ...], Any]()

    def load_once(path: str, options: Any, providers: list[str]) -> Any:
        stat = Path(path).stat()
        key = path, stat.st_mtime_ns, stat.st_size
        if key not in loaded:
            loaded[key] = load(path, options, providers=providers)
        return loaded[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnxruntime, "InferenceSession", load_once)
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
