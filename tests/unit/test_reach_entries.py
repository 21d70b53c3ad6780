"""The reach that a command needs, against what was granted."""

from collections.abc import Collection

import pytest

from shared.agent.context import covering, is_granted, reach_entries, select_reach


def test_words_of_the_settings_become_entries() -> None:
    assert reach_entries(("python", "a.example", "host:b.example", "a.example")) == (
        "python",
        "host:a.example",
        "host:b.example",
    )


@pytest.mark.parametrize(
    ("entry", "granted", "expected"),
    [
        ("python", {"python"}, True),
        ("python", {"javascript", "network"}, False),
        ("host:a.example", {"host:a.example"}, True),
        ("host:a.example", {"host:A.example."}, True),
        ("host:www.a.example", {"host:*.a.example"}, True),
        ("host:a.example", {"host:*.a.example"}, False),
        ("host:a.example:8080", {"host:a.example"}, False),
        ("host:a.example:8080", {"host:a.example:8080"}, True),
        ("host:a.example:443", {"host:a.example"}, True),
        ("host:a.example", {"host:a.example:443"}, False),
        ("host:a.example", {"host:a.example:443", "host:a.example:80"}, True),
        ("host:a.example", {"network"}, False),
        ("network", {"network"}, True),
    ],
)
def test_an_entry_is_granted_by_itself_or_a_pattern(entry: str, granted: set[str], expected: bool) -> None:
    assert is_granted(entry, granted) is expected


@pytest.mark.parametrize(
    ("needed", "granted", "covered", "opened"),
    [
        (("python",), {"python", "rust", "host:a.example"}, ("python",), ("python",)),
        (("python", "rust"), {"python"}, ("python",), ("python",)),
        (("network",), {"network", "host:a.example"}, ("network",), ("host:a.example", "network")),
        (("host:b.example", "network"), {"network", "host:a.example"}, (), ("host:a.example", "network")),
        (("host:b.example",), {"network", "host:a.example"}, (), ()),
    ],
)
def test_a_command_gets_what_it_needs_of_what_was_granted(
    needed: Collection[str], granted: set[str], covered: tuple[str, ...], opened: tuple[str, ...]
) -> None:
    assert covering(needed, granted) == covered
    assert select_reach(needed, granted) == opened
