"""The statements of an answer, checked against the sources that were read."""

import re
from collections.abc import Collection
from urllib.parse import urldefrag

import msgspec

BRACKETED = re.compile(r"\[([^\[\]\n]+)\]")
LINKED = re.compile(r"\[([^\[\]\n]+)\]\((https?://[^\s()]+)\)")
BARE = re.compile(r"https?://[^\s\[\]<>()\"'`]+")
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S", re.IGNORECASE)
LINE = re.compile(r":\d+(-\d+)?$")
PLACE = re.compile(r"(?=\S*[A-Za-z/])[^\s:]+:\d+(-\d+)?")
"""A file and a line, as evidence names them."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an answer; ``sources`` were read, ``unread`` were cited all the same."""

    text: str
    sources: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


class CheckedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer sorted by its sources.

    ``kept`` have a source that was read, ``dropped`` only sources that were not, ``unsourced`` none at all.
    """

    kept: tuple[Statement, ...] = ()
    dropped: tuple[Statement, ...] = ()
    unsourced: tuple[Statement, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """What the kept statements come from, each once."""
        return tuple(dict.fromkeys(source for statement in self.kept for source in statement.sources))

    def describe(self) -> str:
        """The answer as it can be handed on: what was dropped, and what has no source, is said."""
        parts = [_list("", self.kept)]
        if self.unsourced:
            parts.append(_list("Said without a source:", self.unsourced))
        unread = tuple(dict.fromkeys(url for s in (*self.dropped, *self.kept) for url in s.unread))
        if self.dropped:
            count = len(self.dropped)
            parts.append(
                f"Dropped: {count} statement{'s' * (count != 1)} whose source was not read in this task."
            )
        if unread:
            parts.append("Cited, but not read in this task:\n" + "\n".join(f"- {url}" for url in unread))
        return "\n\n".join(part for part in parts if part)


def check_citations(answer: str, read: Collection[str]) -> CheckedAnswer:
    """Sort the lines of ``answer`` by whether what they cite is among ``read``.

    A line cites an address, or a path (with a line or without), in square brackets, as a Markdown link or
    plainly. Headings and empty lines say nothing and are left out.
    """
    known = {_plain(source): source for source in read}
    known |= {LINE.sub("", source): LINE.sub("", source) for source in read if "://" not in source}
    sorted_lines: dict[str, list[Statement]] = {"kept": [], "dropped": [], "unsourced": []}
    for line in answer.splitlines():
        statement = _read_line(line, known)
        if statement is None:
            continue
        kind = "kept" if statement.sources else "dropped" if statement.unread else "unsourced"
        sorted_lines[kind].append(statement)
    return CheckedAnswer(**{kind: tuple(found) for kind, found in sorted_lines.items()})


def _read_line(line: str, known: dict[str, str]) -> Statement | None:
    text = re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip()
    cited = _cited(text, known)
    if not re.search(r"\w", text) or text.startswith("#") or (text.endswith(":") and not cited):
        return None
    sources, unread = [], []
    for source in cited:
        found = known.get(_plain(source)) or known.get(LINE.sub("", source))
        if found is None:
            unread.append(source)
            text = text.replace(f"[{source}]", "").replace(source, "(not read)")
        else:
            sources.append(found if "://" in found else source)
    return Statement(text=" ".join(text.split()), sources=tuple(sources), unread=tuple(unread))


def _cited(text: str, known: dict[str, str]) -> list[str]:
    found = [url for _, url in LINKED.findall(text)]
    rest = LINKED.sub(" ", text)
    for group in BRACKETED.findall(rest):
        tokens = [token.strip() for token in re.split(r"[,;]\s+", group)]
        cited = [one for one in tokens if ADDRESS.match(one) or PLACE.fullmatch(one) or _plain(one) in known]
        if cited:
            rest = rest.replace(f"[{group}]", " ")
            found += cited
    found += [url.rstrip(".,;:!?") for url in BARE.findall(rest)]
    return list(dict.fromkeys(found))


def _plain(source: str) -> str:
    """An address without its fragment and trailing slash."""
    return urldefrag(source)[0].rstrip("/") if "://" in source else source


def _list(title: str, statements: tuple[Statement, ...]) -> str:
    rows = [f"- {statement.text}" for statement in statements]
    return "\n".join([title, *rows] if title else rows)
