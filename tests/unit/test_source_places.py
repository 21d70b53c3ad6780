"""The kind of a file by its path."""

import pytest

from shared.source import is_test


@pytest.mark.parametrize(
    "path",
    [
        "test.js",
        "test.mjs",
        "tests.py",
        "index.test-d.ts",
        "src/parser-test.ts",
        "test-parser.js",
        "run-tests.sh",
        "src/a.spec.tsx",
        "test/a.txt",
        "pkg/a_test.go",
    ],
)
def test_what_belongs_to_the_tests_is_known_by_its_name(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize("path", ["latest.js", "contest.py", "src/testing.ts", "attest-d.ts", "protest.sh"])
def test_what_only_sounds_like_a_test_is_none(path: str) -> None:
    assert not is_test(path)
