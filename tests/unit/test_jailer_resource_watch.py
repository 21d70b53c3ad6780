"""What a command must leave to the machine, with disks and memory of our own making."""

import pytest

from shared.jailer import supervisor
from shared.jailer.supervisor import (
    LEAST_BYTES,
    LEAST_FILES,
    LEAST_MEMORY,
    LONGEST,
    SHORTEST,
    ResourceWatch,
)


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    """What is left of each, to be changed at will."""
    stock: dict[str, int | None] = {"disk": 500 << 30, "files": 50_000_000, "memory": 16 << 30}
    monkeypatch.setattr(supervisor, "_bytes", lambda place: stock["disk"])
    monkeypatch.setattr(supervisor, "_files", lambda place: stock["files"])
    monkeypatch.setattr(supervisor, "_memory", lambda: stock["memory"])
    return stock


def test_plenty_is_looked_at_now_and_then(left):
    assert ResourceWatch(["/a", "/a"]).check() == ("", LONGEST)


@pytest.mark.parametrize(
    ("kind", "least", "name"),
    [
        ("disk", LEAST_BYTES, "the disk"),
        ("files", LEAST_FILES, "the disk"),
        ("memory", LEAST_MEMORY, "the machine's memory"),
    ],
)
def test_what_has_to_stay_stays(left, kind, least, name):
    watched = ResourceWatch(["/a"])
    left[kind] = least
    assert watched.check() == ("", SHORTEST)
    left[kind] = least - 1
    assert watched.check()[0] == name


def test_the_less_is_left_the_sooner_it_is_looked_at_again(left):
    watched = ResourceWatch(["/a"])
    left["disk"] = LEAST_BYTES + (1 << 30)
    soon = watched.check()[1]
    left["disk"] = LEAST_BYTES + (1 << 28)
    assert SHORTEST < watched.check()[1] < soon < LONGEST


def test_of_what_is_short_already_half_has_to_stay(left):
    left["memory"] = LEAST_MEMORY // 4
    watched = ResourceWatch(["/a"])
    assert watched.check()[0] == ""
    left["memory"] = LEAST_MEMORY // 8 - 1
    assert watched.check()[0] == "the machine's memory"


def test_what_cannot_be_measured_is_not_watched(left):
    left.update(disk=None, files=None)
    watched = ResourceWatch(["/a"])
    left["memory"] = None
    assert watched.check() == ("", LONGEST)
