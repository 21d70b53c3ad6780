"""A repository read for a newcomer: its purpose, how it is built and laid out, and open questions."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from services.scout.build_instructions import (
    all_commands,
    make_targets,
    read_building,
    read_commands,
)
from services.scout.documents import Document, Paragraph, parse
from services.scout.layout import CodeSurvey, read_layout, survey_code
from shared.contracts.checkup import RepositoryReading, Statement
from shared.projects.reading import Project, read_project
from shared.projects.reading.licences import differs, licence_files, licences_in
from shared.projects.reading.manifests import (
    Manifest,
    cite,
    format_code,
)
from shared.projects.reading.project_files import ProjectFiles, ci_files
from shared.source import Limits, Tree, is_test, read_text
from shared.text.display import format_list
from shared.web.quoting import clean

ELSEWHERE = re.compile(
    r"(?i)\b(install|usage|licen[cs]e|contribut|changelog|table of contents|contents|toc|badges?|sponsor"
    r"|support|backers|acknowledge?ments|authors?|credits|status|news|translations?|links?|documentation|docs)"
)
ADDRESS = re.compile(r"https?://|[^@]@[^@]")
MAX_SOURCES = 50


def read_purpose(readmes: list[Document], manifests: tuple[Manifest, ...]) -> list[Statement]:
    """At most two paragraphs of the README, then the manifests' descriptions that differ."""
    statements = [
        cite(paragraph.text, readme.path, paragraph.line)
        for readme in readmes[:1]
        for paragraph in _prose(readme)
    ]
    said = " ".join(statement.text.casefold() for statement in statements)
    for manifest in manifests:
        description = manifest.description
        if description and description.text.casefold().rstrip(".") not in said:
            statements.append(description)
            said += description.text.casefold()
    return statements[:4]


def _prose(readme: Document) -> list[Paragraph]:
    found: list[Paragraph] = []
    name = next((section.title for section in readme.sections if section.titles), "")
    for section, paragraph in readme.paragraphs():
        below = [title for title in section.titles if title != name]
        if any(ELSEWHERE.match(title) for title in below) or (found and below):
            continue
        # It reads as a sentence: five words beside addresses, and is no mere list of links.
        text = paragraph.text
        words = [word for word in text.split() if any(map(str.isalpha, word)) and not ADDRESS.search(word)]
        marks = text.count("|") + text.count("•") + text.count("·")
        if len(words) >= 5 and marks <= 1 and not text.rstrip().endswith(":"):
            found.append(paragraph)
        if len(found) == 2:
            break
    return found


def read_repository(root: Path, limits: Limits | None = None) -> RepositoryReading:
    """Read the folder ``root``, within ``limits``; nothing in it is run or changed.

    Raises ActionError unless ``root`` is the absolute path of a readable folder.
    """
    project = read_project(root, limits)
    tree, manifests = project.tree, project.manifests
    documents = ((name, project.files.text(name)) for name in project.docs)
    readmes = [parse(name, text) for name, text in documents if text.strip()]
    found = survey_code(tree)
    build = [statement for readme in readmes[:1] for statement in read_commands(readme)]
    build += [statement for manifest in manifests for statement in manifest.build]
    build += read_building(tree, project.files)
    entries = [statement for manifest in manifests for statement in manifest.entries]
    return RepositoryReading(
        name=next((m.name for m in manifests if m.name and "/" not in m.path), "") or tree.root.name,
        purpose=_unique(read_purpose(readmes, manifests)),
        build=_unique(build),
        licence=_unique(project.licence),
        layout=_unique([*read_layout(tree), *entries]),
        questions=_unique(read_questions(project, readmes, found)),
        languages=found.lines,
        files=len(tree.files),
    )


def format_reading(reading: RepositoryReading) -> str:
    """The reading as plain text: what people see as the result of the task."""
    languages = ", ".join(f"{name} {lines:,}" for name, lines in list(reading.languages.items())[:5])
    files = f"{reading.files:,} file{'' if reading.files == 1 else 's'}"
    counts = f"{files}; lines of {languages or 'no known language'}"
    first = reading.purpose[0].text if reading.purpose else counts
    rows = [f"{reading.name}: {first}", *([f"({counts})"] if reading.purpose else [])]
    parts = {
        "What it is": (*reading.purpose, *reading.licence),
        "How it is built": reading.build,
        "How it is laid out": reading.layout,
        "Open questions": reading.questions,
    }
    for title, statements in parts.items():
        rows += ["", f"{title}:"] if statements else []
        rows += [f"- {statement.text} [{statement.source}]" for statement in statements]
    return "\n".join(rows)


def sources_of(reading: RepositoryReading) -> tuple[str, ...]:
    """Where the reading comes from: each source once, at most MAX_SOURCES."""
    said = (*reading.purpose, *reading.licence, *reading.build, *reading.layout, *reading.questions)
    return tuple(dict.fromkeys(statement.source for statement in said))[:MAX_SOURCES]


def _unique(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    return tuple({statement.text: statement for statement in statements}.values())


# --- what it leaves open, or contradicts ------------------------------------------------------------

NAMED_FILE = re.compile(r"[\w.-]+(?:/[\w.-]+)+\.[A-Za-z0-9]{1,6}")


def read_questions(project: Project, readmes: list[Document], found: CodeSurvey) -> list[Statement]:
    """The open questions: what is missing, then contradictions, then the authors' own notes."""
    tree, manifests = project.tree, project.manifests
    return [
        *_missing(project, readmes, found),
        *(cite(manifest.problem, manifest.path) for manifest in manifests if manifest.problem),
        *_versions(tree, manifests),
        *_licences(tree, manifests),
        *_pythons(readmes, manifests),
        *(each for readme in readmes[:1] for each in _broken_references(tree, project.files, readme)),
        *_notes(found),
        *(cite(f"The reading is not complete: {cut}", ".") for cut in (tree.cut, found.cut) if cut),
    ]


def _missing(project: Project, readmes: list[Document], found: CodeSurvey) -> list[Statement]:
    tree = project.tree
    if not tree.files:
        return [cite("The folder holds no files that can be read: what is meant to be here?", ".")]
    has_licence = bool(licence_files(tree)) or any(manifest.licence for manifest in project.manifests)
    gaps = {
        "There is no README: what is this for, and how is it used?": not readmes,
        "No licence is declared: may others use this, and how?": not has_licence,
        "No tests were found: how is a change known to be right?": not any(map(is_test, tree.files)),
        "No continuous integration is configured: who runs the checks?": not ci_files(tree.files),
    }
    checked = list(gaps.items())[: None if found.code else 2]
    return [cite(gap, ".") for gap, is_missing in checked if is_missing]


def _versions(tree: Tree, manifests: tuple[Manifest, ...]) -> list[Statement]:
    declared = [
        m.version
        for m in manifests
        if m.version and "/" not in m.path and m.version.text not in ("0.0.0", "*")
    ]
    # a manifest that names no version reads it from the package, and there is nothing to compare
    declared += _package_versions(tree, manifests) if declared else []
    if len({re.sub(r"^v|[^0-9a-z.]", "", version.text.lower()) for version in declared}) < 2:
        return []
    shown = format_list([f"{version.text} ({version.source})" for version in declared], 6)
    question = clean(f"Which version is this? The files disagree: {shown}")
    return [Statement(text=question, source=declared[0].source)]


def _package_versions(tree: Tree, manifests: tuple[Manifest, ...]) -> list[Statement]:
    names = {manifest.name.replace("-", "_").lower() for manifest in manifests if manifest.name}
    versions = []
    for path in tree.files:
        *folders, file = path.split("/")
        if file not in ("__init__.py", "_version.py", "__about__.py", "version.py") or not folders:
            continue
        if folders[-1].lower() in names and folders[:-1] in ([], ["src"]):
            text = read_text(tree.root, path)
            match = re.search(r"""^__version__(?:\s*:\s*\w+)?\s*=\s*["']([^"']+)["']""", text, re.MULTILINE)
            if match:
                versions.append(cite(match[1], path, text.count("\n", 0, match.start()) + 1))
    return versions


def _licences(tree: Tree, manifests: tuple[Manifest, ...]) -> list[Statement]:
    files = licence_files(tree)
    if len(files) != 1:
        return []
    holds, _ = licences_in(tree, files[0])
    for declared in (manifest.licence for manifest in manifests):
        if declared and len(declared.text) < 60 and differs(declared.text, holds):
            has = f"{files[0]} is {format_list(holds)}"
            text = f"Which licence holds? {declared.source} declares {declared.text}, {has}"
            return [Statement(text=clean(text), source=declared.source)]
    return []


def _pythons(readmes: list[Document], manifests: tuple[Manifest, ...]) -> list[Statement]:
    wanted = next((manifest.python for manifest in manifests if manifest.python), None)
    # The lowest version that ``>=3.11`` or ``^3.11`` allows
    bound = re.search(r"(?:>=|\^|~=?|==)\s*(\d+)\.(\d+)", wanted.text) if wanted else None
    if not wanted or not bound:
        return []
    for readme in readmes[:1]:
        for number, row in enumerate(readme.text.splitlines(), start=1):
            match = re.search(r"Python\s*(?:>=\s*)?(\d)\.(\d+)\s*(?:\+|or (?:newer|later|above|higher))", row)
            if match and match.groups() != bound.groups():
                differ = f"The README says {match[0]}, {wanted.source} says {wanted.text}"
                return [cite(f"Which Python is needed? {differ}", readme.path, number)]
    return []


def _broken_references(tree: Tree, files: ProjectFiles, readme: Document) -> list[Statement]:
    missing: dict[str, int] = {}
    places = {*tree.files, *(str(parent) for path in tree.files for parent in PurePosixPath(path).parents)}
    tops = {path.split("/")[0] for path in tree.files if "/" in path}
    for reference in readme.references:
        path = _local_path(reference.target) if reference.link else reference.target
        is_named = NAMED_FILE.fullmatch(path) and path.split("/")[0] in tops and ".." not in path
        if not (reference.link or is_named):
            continue
        # what the reading left out (ignored, a link, beyond a cut) may still be there
        if path and path not in places and not (tree.root / path).exists():
            missing.setdefault(path, reference.line)
    statements = [
        cite(f"The README names {format_code(path)}, which does not exist", readme.path, line)
        for path, line in list(missing.items())[:8]
    ]
    known = make_targets(tree, files)
    for line, words in all_commands(readme) if known is not None else ():
        match = re.match(r"make\s+([a-z][\w-]*)\b(?![=/])", words)
        if match and known is not None and match[1] not in known:
            text = f"The README says {format_code(match[0])}, which the Makefile does not know"
            return [*statements, cite(text, readme.path, line)]
    return statements


def _local_path(target: str) -> str:
    try:
        parts = urlsplit(target)
    except ValueError:
        return ""
    path = unquote(parts.path)
    is_elsewhere = parts.scheme or parts.netloc or path.startswith(("/", "mailto:")) or ".." in path
    if is_elsewhere or not path.isprintable():
        return ""
    path = str(PurePosixPath(path)) if path else ""
    # an extension or a folder: anything else is an anchor or a page of a wiki
    return path if "." in path or target.endswith("/") else ""


def _notes(found: CodeSurvey) -> list[Statement]:
    if not found.notes:
        return []
    kinds = Counter(note.kind for note in found.notes)
    counted = format_list([f"{number:,} {kind}" for kind, number in kinds.most_common()])
    said = (f" ({clean(note.text, 60)})" if note.text else "" for note in found.notes)
    first = [f"{note.file}:{note.line}{text}" for note, text in zip(found.notes[:3], said, strict=False)]
    text = f"The authors left {counted} in the code: {format_list(first, 3)}"
    return [cite(text, found.notes[0].file, found.notes[0].line)]
