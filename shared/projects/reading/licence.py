"""The licence of a repository: what its manifests declare, and what its licence files hold."""

import re

from shared.contracts.checkup import Statement
from shared.projects.reading.manifests import Manifest, cite
from shared.source.tree import Tree, read_text

LICENCE_FILE = re.compile(r"(?:licen[cs]e|copying|unlicense)s?(?:[.-].*)?", re.IGNORECASE)
LICENCES = {
    "MIT": r"\bMIT License\b|Permission is hereby granted, free of charge",
    "Apache": r"Apache License,?\s+Version 2",
    "BSD": r"\bBSD\b|Redistribution and use in source and binary forms",
    "AGPL": r"GNU AFFERO GENERAL PUBLIC LICENSE",
    "LGPL": r"GNU LESSER GENERAL PUBLIC LICENSE",
    "GPL": r"GNU GENERAL PUBLIC LICENSE",
    "MPL": r"Mozilla Public License",
    "ISC": r"\bISC License\b|Permission to use, copy, modify, and/or distribute",
    "Unlicense": r"free and unencumbered software released into the public domain",
}
"""What the beginning of a licence's text has, by the licence's name."""
HEAD = 4_000
"""Characters of a licence file that tell which it is."""
NONE = "No licence is declared, and there is no licence file at the top of the repository"


def read_licence(tree: Tree, manifests: tuple[Manifest, ...]) -> list[Statement]:
    """What declares the licence, each with its place; one statement if nothing does."""
    found = [
        cite(f"The licence is declared as {manifest.licence.text}", *_place(manifest.licence.source))
        for manifest in manifests
        if manifest.licence and "/" not in manifest.path
    ]
    for path in licence_files(tree):
        name = licence_in(tree, path)
        what = f"the text of the {name} licence" if name else "a licence text of its own"
        found.append(cite(f"{path} has {what}", path))
    return found or [cite(NONE, ".")]


def _place(source: str) -> tuple[str, int]:
    path, _, line = source.rpartition(":")
    return (path, int(line)) if path and line.isdigit() else (source, 0)


def licence_files(tree: Tree) -> list[str]:
    """The licence files at the top of the repository, or in its folder of them."""
    return [path for path in tree.files if LICENCE_FILE.fullmatch(path.split("/")[0])]


def licence_in(tree: Tree, path: str) -> str:
    """The name of the licence that a file has the text of; empty if it is none of those known."""
    head = read_text(tree.root, path, HEAD)
    return next((name for name, pattern in LICENCES.items() if re.search(pattern, head)), "")
