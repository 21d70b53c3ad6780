"""Which versions of a language a project supports: what it declares, and what its CI runs."""

import re
from collections.abc import Iterator

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from shared.contracts.checkup import Statement
from shared.projects.javascript import fits_engines
from shared.projects.reading import Project
from shared.projects.reading.ci import list_versions
from shared.projects.reading.manifests import cite
from shared.text.display import format_list

LANGUAGES = {"node": "Node", "go": "Go", "rust": "Rust", "python": "Python"}
FILES = {
    "Node": ("package.json", r'"node"\s*:\s*"([^"]+)"'),
    "Go": ("go.mod", r"^go\s+(\S+)"),
    "Rust": ("Cargo.toml", r'^rust-version\s*=\s*"([^"]+)"'),
}
"""Where a language's versions are declared, but for Python's, and the pattern of what is."""
CLASSIFIER = re.compile(r"Programming Language :: Python :: (\d+\.\d+)\b")


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """The ``answer``, and what it rests on: ``declared`` ranges and versions that are ``tested``."""

    answer: str
    declared: tuple[Statement, ...] = ()
    tested: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def read_support(project: Project, wanted: str) -> Support:
    """Whether ``project`` supports ``wanted``, such as ``Python 3.9``, or which versions of ``Python``."""
    language = next(name for start, name in LANGUAGES.items() if wanted.lower().startswith(start))
    found = re.search(r"\d+(?:\.\d+)*", wanted)
    version = found[0] if found else ""
    declared = tuple(_list_declared(project, language))
    tested, sources = list_versions(project.files, language.lower())
    places = tuple(dict.fromkeys((*(each.source for each in declared), *sources)))
    by = format_list([f"{each.text} ({each.source})" for each in declared], 3)
    runs = f"CI runs {format_list(tested, 12)}" if tested else "no version is named in its CI"
    if not version:
        needs = f"{language} {by} is declared" if declared else f"No version of {language} is declared"
        answer = f"{needs}; {runs}."
    elif any(not _fits(language, version, each.text) for each in declared):
        answer = f"No: {language} {version} is outside of what is declared, {by}; {runs}."
    elif version in tested:
        allowed = f", and {by} allows it" if declared else ""
        answer = f"Yes: CI runs {language} {version}{allowed}."
    elif declared:
        answer = f"It is allowed, by {by}, and not tested: {runs}."
    else:
        answer = f"Not known: no version of {language} is declared; {runs}."
    return Support(answer=answer, declared=declared, tested=tested, sources=places)


def _list_declared(project: Project, language: str) -> Iterator[Statement]:
    if language == "Python":
        yield from (each.python for each in project.manifests if each.python)
        return
    name, pattern = FILES[language]
    text = project.files.text(name)
    if found := re.search(pattern, text, re.MULTILINE):
        range_ = f">={found[1]}" if language in ("Go", "Rust") else found[1]
        yield cite(range_, name, text.count("\n", 0, found.start(1)) + 1)


def _fits(language: str, version: str, declared: str) -> bool:
    """Whether a version, or a release of it, is in a declared range; one that nobody reads allows all."""
    if language == "Node":
        return fits_engines(version, declared)
    form = re.sub(r"\^(\d+)(\.\d+)*", lambda each: f"{each[0][1:]},<{int(each[1]) + 1}", declared)
    form = form if form == declared else f">={form}"
    try:
        allowed = SpecifierSet(form)
    except InvalidSpecifier:
        return True
    return any(allowed.contains(f"{version}{more}", prereleases=True) for more in ("", ".99", ".0"))
