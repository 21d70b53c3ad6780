"""The kind of a file by its path: a test, documentation or an example, vendored code."""

import re

TEST_FOLDERS = frozenset("test tests __tests__ spec specs e2e testdata fixtures".split())
TEST_FILE = re.compile(
    r"test_.+\.(?:py|sh|c|cc|cpp)|.+_test\.(?:py|go|exs?|rb|dart|c|cc|cpp|sh)|conftest\.py"
    r"|tests?\.(?:py|rs|[cm]?[jt]sx?|rb|php|sh|c|cc|cpp)|test-.+\.(?:[cm]?[jt]sx?|sh)|.+-tests?\.(?:[cm]?[jt]sx?|sh)"
    r"|.+\.(?:test|spec)(?:-d)?\.[cm]?[jt]sx?|.+(?:Test|Tests|Spec)\.(?:java|kt|scala|cs|swift|php)|.+_spec\.rb|.+\.t|.+\.bats"
)
SHOWN_FOLDERS = frozenset("docs doc examples example samples sample demo demos tutorial tutorials".split())
SHOWN_FILE = re.compile(
    r".+\.(?:md|markdown|rst|txt|adoc|html)|.*(?:example|sample|template|dist)(?:\..*)?", re.IGNORECASE
)
VENDORED = frozenset("vendor _vendor vendored third_party thirdparty extern externals".split())


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests, by its folder or its name."""
    *folders, name = path.split("/")
    return any(folder.lower() in TEST_FOLDERS for folder in folders) or bool(TEST_FILE.fullmatch(name))


def is_shown(path: str) -> bool:
    """Whether a file shows how something is done: documents, examples, templates."""
    *folders, name = path.split("/")
    return any(folder.lower() in SHOWN_FOLDERS for folder in folders) or bool(SHOWN_FILE.fullmatch(name))


def is_vendored(path: str) -> bool:
    """Whether a file is vendored third-party code."""
    *folders, name = path.split("/")
    return any(folder.lower() in VENDORED for folder in folders) or ".min." in name
