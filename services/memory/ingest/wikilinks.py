"""Links from note to note: ``[[Note]]``, ``[[folder/Note#Heading|shown]]``, ``![[embedded]]``,
``[shown](note.md)``.
"""

import re
import unicodedata
import uuid
from collections.abc import Iterable
from urllib.parse import unquote

from services.memory.ingest.piece import Link

NAMESPACE = uuid.UUID("6f0b6a0e-6c44-5d0e-9a55-6d61696c726d")
"""Of all ids made here; another one would make every known file a new one."""

MAX_LINKS = 200
"""The most links of one note that are followed."""

WIKI = re.compile(r"!?\[\[([^\[\]\n|]{1,300})(?:\|[^\[\]\n]*)?\]\]")
INLINE = re.compile(
    r"!?\[[^\[\]\n]{0,300}\]\(<?([^()\n<>]{1,300}?\.(?:md|markdown)(?:#[^()\n<>\s]*)?)>?(?:\s+\"[^\"\n]*\")?\)"
)
CODE = re.compile(r"(`{1,3})(?!`)[^\n]{1,500}?(?<!`)\1(?!`)")
ATTACHMENT = re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|bmp|avif|pdf|mp[34]|m4a|wav|ogg|flac|webm|mov|mkv|canvas|base|zip|csv|xlsx?|docx?|pptx?|html?)$",
    re.IGNORECASE,
)
"""The endings of what notes embed and is no note: ``![[picture.png]]``."""


def find_links(prose: str) -> tuple[Link, ...]:
    """The links to other notes in a text without code, each once, in their order."""
    text = CODE.sub(" ", prose)
    found = [match[1] for match in WIKI.finditer(text)]
    found += [unquote(match[1]) for match in INLINE.finditer(text) if "://" not in match[1]]
    links = (_parse(target) for target in found)
    return tuple(dict.fromkeys(link for link in links if link))[:MAX_LINKS]


def _parse(target: str) -> Link | None:
    name, _, heading = target.strip().partition("#")
    name = name.strip().removesuffix("\\").strip()  # "\|" stands in tables
    if not name or ATTACHMENT.search(name):
        return None
    heading = heading.rpartition("#")[2].strip()
    return Link(strip_ending(name).strip("/"), "" if heading.startswith("^") else heading)


def strip_ending(path: str) -> str:
    """A note's path as links name it."""
    return re.sub(r"\.(md|markdown)$", "", path, flags=re.IGNORECASE)


def fold(name: str) -> str:
    """A name as it is compared: without regard to case, to how accents are encoded, and to backslashes."""
    return unicodedata.normalize("NFC", name.replace("\\", "/")).casefold().strip()


def fold_heading(heading: str) -> str:
    """A heading as links name it: letters and digits alone count."""
    return " ".join(re.findall(r"\w+", fold(heading)))


def name_id(name: str) -> str:
    """The id of the note that is called ``name``, wherever it lies."""
    return str(uuid.uuid5(NAMESPACE, "note\0" + fold(name).rpartition("/")[2]))


def path_id(path: str) -> str:
    """The id of the note at ``path``, where another one has the name already."""
    return str(uuid.uuid5(NAMESPACE, "path\0" + fold(strip_ending(path))))


def key_id(owner: str, key: str) -> str:
    """The id of a piece of a note, or (``owner`` is "") of a text wherever it lies."""
    return str(uuid.uuid5(NAMESPACE, f"{owner or 'text'}\0{key}"))


def candidate_ids(link: Link, source: str) -> list[str]:
    """The ids that the note a link means can have, the nearest first; ``source`` is the file it stands in.

    A link names a path from the folder of its note or from one above it, or a name that stands once.
    """
    folders = source.split("/")[:-1]
    target = _resolve_dots(link.target, folders)
    paths = ["/".join([*folders[:depth], target]) for depth in range(len(folders), -1, -1)]
    return list(dict.fromkeys([*map(path_id, paths), name_id(target)]))


def is_meant(link: Link, file: str) -> bool:
    """Whether a note at ``file`` can be what ``link`` means: its path ends as the link's does."""
    wanted = fold(link.target.lstrip("./")).split("/")
    return fold(strip_ending(file)).split("/")[-len(wanted) :] == wanted


def _resolve_dots(target: str, folders: Iterable[str]) -> str:
    parts: list[str] = list(folders) if target.startswith(("./", "../")) else []
    for part in target.replace("\\", "/").split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)
