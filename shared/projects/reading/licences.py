"""Under which licence a project is: what declares it, and which texts its licence files hold, by SPDX."""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from shared.contracts.checkup import Statement
from shared.projects.reading.manifests import Manifest, cite
from shared.source import Tree, read_text
from shared.text.display import format_list
from shared.web.quoting import clean

LICENCE_FILE = re.compile(r"(?:licen[cs]e|copying|unlicense)s?(?:[.-].*)?", re.IGNORECASE)
LONGEST = 200_000  # Characters of a licence file that are compared
RUN = 3  # Words that stand together in both texts
ENOUGH = 0.85
"""The part of a licence's runs of words that a file must have: people change names, years and lists."""
COPYRIGHT = re.compile(r"(?im)^\W*(?:copyright\b|\(c\)|©|all rights reserved|portions).*$")
IDENTIFIER = re.compile(r"(?m)SPDX-License-Identifier: *([\w.+ ()-]+?)\s*$")
FAMILY = re.compile(r"[A-Za-z]+")
"""What the names of a licence's versions and variants begin with."""
NONE = "No licence is declared, and there is no licence file at the top of the repository"


def read_licence(tree: Tree, manifests: tuple[Manifest, ...]) -> list[Statement]:
    """What declares the licence, each with its place; one statement if nothing does."""
    declared = [each.licence for each in manifests if each.licence and "/" not in each.path]
    found = [
        Statement(text=clean(f"The licence is declared as {each.text}"), source=each.source)
        for each in declared
    ]
    for path in licence_files(tree):
        names, is_text = licences_in(tree, path)
        what = f"the text{'s' * (len(names) > 1)} of the {format_list(names)} licence{'s' * (len(names) > 1)}"
        if not is_text:
            what = f"the name of the {names[0]} licence, and not its text" if names else "a text of its own"
        found.append(cite(f"{path} has {what}", path))
    return found or [cite(NONE, ".")]


def licence_files(tree: Tree) -> list[str]:
    """The licence files at the top of the repository, or in its folder of them."""
    return [path for path in tree.files if LICENCE_FILE.fullmatch(path.split("/")[0])]


def licences_in(tree: Tree, path: str) -> tuple[tuple[str, ...], bool]:
    """The SPDX identifiers of the licences in a file, and whether it has their texts, not only a name."""
    text = read_text(tree.root, path, LONGEST)
    if found := tuple(match_texts(text)):
        return found, True
    if named := IDENTIFIER.findall(text):
        return (named[0],), False
    lines = [" ".join(re.findall(r"\w+", line)).lower() for line in text.splitlines()[:20]]
    titles = ((name, title) for name, title, _ in _list_texts() for line in lines if title and title in line)
    return tuple(name for name, _ in sorted(titles, key=lambda each: -len(each[1]))[:1]), False


def match_texts(text: str) -> Iterator[str]:
    """The identifiers of the licences that ``text`` holds, those first of which most is there.

    A licence whose text is a part of another one counts only if it is there beside it.
    """
    left = _list_runs(text)

    def excess(runs: frozenset[tuple[str, ...]]) -> int:
        return len(runs & left) - len(runs - left)

    there = {name: runs for name, _, runs in _list_texts() if len(runs & left) >= ENOUGH * len(runs)}
    while there:
        name = max(there, key=lambda each: excess(there[each]))
        yield name
        left -= there[name]
        there = {name: runs for name, runs in there.items() if len(runs & left) >= ENOUGH * len(runs)}


def differs(declared: str, names: Iterable[str]) -> bool:
    """Whether the one licence that a manifest declares is none of those ``names``.

    Where it names several, or none that is known, nobody can say.
    """
    known = {name for name, _, _ in _list_texts()}
    families = {match[0].lower() for name in known if (match := FAMILY.match(name))}
    named = [word for word in re.findall(r"[A-Za-z]+", declared.lower()) if word in families]
    have = {match[0].lower() for name in names if (match := FAMILY.match(name))}
    return len(set(named)) == 1 and bool(have) and named[0] not in have


@cache
def _list_texts() -> tuple[tuple[str, str, frozenset[tuple[str, ...]]], ...]:
    """The licences that are known: identifier, title in lower case, and runs of words."""
    from identify.vendor.licenses import LICENSES

    found = []
    for name, text in LICENSES:
        title = " ".join(re.findall(r"\w+", next(filter(str.strip, text.splitlines())))).lower()
        is_title = len(title.split()) < 9 and not COPYRIGHT.match(title)
        found.append((name, title if is_title else "", _list_runs(text)))
    return tuple(found)


def _list_runs(text: str) -> frozenset[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9]+", COPYRIGHT.sub(" ", text).lower())
    return frozenset(zip(*(words[at:] for at in range(RUN)), strict=False))
