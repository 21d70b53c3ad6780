"""Test runners: which there are, what starts them, who reads their output; and the command that runs one."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from services.engineer import console_results as console
from services.engineer.results import Results


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of test runner.

    ``parsers`` read what it prints; the first that finds results counts. ``ecosystem`` is that of the
    environment its tests need (as in Preparation).
    """

    parsers: tuple[Callable[[str, Path], Results | None], ...]
    ecosystem: str = ""


JAVASCRIPT = (
    console.parse_jest,
    console.parse_vitest,
    console.parse_tap,
    console.parse_mocha,
    console.parse_ava,
)
PYTHON = (console.parse_unittest, console.parse_pytest)
RUNNERS = {
    "pytest": Runner(parsers=(console.parse_pytest,), ecosystem="python"),
    "unittest": Runner(parsers=(console.parse_unittest,), ecosystem="python"),
    "django": Runner(parsers=PYTHON, ecosystem="python"),
    "node": Runner(parsers=(*JAVASCRIPT, console.parse_plain), ecosystem="javascript"),
    "cargo": Runner(parsers=(console.parse_cargo,), ecosystem="rust"),
    "go": Runner(parsers=(console.parse_go,), ecosystem="go"),
    "ctest": Runner(parsers=(console.parse_ctest,), ecosystem="c"),
    "java": Runner(parsers=(console.parse_maven, console.parse_gradle), ecosystem="java"),
    "any": Runner(  # make, a script and the like: what they start in turn is not known
        parsers=(
            *(console.parse_cargo, console.parse_go, console.parse_ctest, console.parse_maven),
            *(console.parse_gradle, *JAVASCRIPT, *PYTHON, console.parse_plain),
        )
    ),
}


class TestCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How to run tests of a project.

    ``runner`` is a key of RUNNERS, ``found`` where the command was found (``package.json:7 (...)``),
    ``folder`` where to run it, relative to the project; ``before`` are scripts that build what it needs,
    ``env`` the variables its source sets. ``names`` are the tests it names (empty: all), ``starts`` the words
    of the JavaScript runner that a script ends in, ``services`` what CI starts beside it. A leading
    ``python`` stands for the interpreter of the project's environment.
    """

    __test__ = False

    runner: str
    argv: tuple[str, ...]
    found: str
    folder: str = "."
    before: tuple[str, ...] = ()
    env: dict[str, str] = {}
    names: frozenset[str] = frozenset()
    starts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
