"""What kind of place a path is: tests, documents, other people's code."""

import re

TEST_FOLDERS = frozenset("test tests __tests__ spec specs e2e testdata fixtures".split())
TEST_FILE = re.compile(
    r"test_.+\.py|.+_test\.(?:py|go|exs?|rb|dart|c|cc|cpp)|conftest\.py|tests?\.(?:py|rs)"
    r"|.+\.(?:test|spec)\.[cm]?[jt]sx?|.+(?:Test|Tests|Spec)\.(?:java|kt|scala|cs|swift|php)|.+_spec\.rb|.+\.t|.+\.bats"
)


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests, by its folder or its name."""
    *folders, name = path.split("/")
    return any(folder.lower() in TEST_FOLDERS for folder in folders) or bool(TEST_FILE.fullmatch(name))
