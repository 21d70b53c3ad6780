"""A unified diff, read file by file: what it adds and removes where, and whether it weakens tests."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from services.critic.findings import clean
from shared.source import is_test
from shared.text.display import count

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
LONGEST = 1_000  # Characters of a line that are looked at
Line = tuple[int, str]  # Its number in the file, from 1, and its text


class FileChange(msgspec.Struct, kw_only=True):
    """What a patch does to one file; ``path`` is that after it, or the one that is deleted.

    ``before`` is the path that it had, if another, ``text`` the part of the patch. Numbers of ``removed``
    lines are those of the old file, of ``added`` ones those of the new.
    """

    path: str = ""
    before: str = ""
    text: str = ""
    new: bool = False
    deleted: bool = False
    added: list[Line] = []
    removed: list[Line] = []
    places: set[int] = set()
    """The numbers of all lines that the patch shows of the new file."""


def parse_patch(patch: str) -> list[FileChange]:
    """The changes of a unified diff, in its order; what is none of it, as a letter's head, is skipped."""
    changes: list[FileChange] = []
    lines = patch.split("\n")
    at, begun = 0, False  # ``begun``: the present file's head came from a line "diff --git"
    starts: list[int] = []
    while at < len(lines):
        line = lines[at]
        if line.startswith("diff --git "):
            changes.append(FileChange())
            starts.append(at)
            begun = True
            if named := re.fullmatch(r"diff --git a/(.+) b/\1", line):
                changes[-1].path = named[1]
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            if not begun:
                changes.append(FileChange())
                starts.append(at)
            begun = False
            _read_names(changes[-1], line, lines[at + 1])
            at += 1
        elif changes and begun and (head := re.fullmatch(r"(new|deleted) file mode .*", line)):
            changes[-1].new, changes[-1].deleted = head[1] == "new", head[1] == "deleted"
        elif changes and begun and (moved := re.fullmatch(r"rename (from|to) (.+)", line)):
            name = _plain(moved[2])
            if moved[1] == "from":
                changes[-1].before = name
            else:
                changes[-1].path = name
        elif line.startswith(("Binary files ", "GIT binary patch")):
            begun = False
        elif changes and (hunk := HUNK.match(line)):
            at = _read_hunk(changes[-1], lines, at + 1, [int(part or 1) for part in hunk.groups("1")])
            continue
        at += 1
    for change, start, end in zip(changes, starts, [*starts[1:], len(lines)], strict=False):
        change.text = "\n".join(lines[start:end]).rstrip("\n")
    return [change for change in changes if change.path]


def _read_names(change: FileChange, before: str, after: str) -> None:
    old, new = (_plain(line[4:].partition("\t")[0]) for line in (before, after))
    change.new, change.deleted = old == "/dev/null", new == "/dev/null"
    old, new = old.removeprefix("a/"), new.removeprefix("b/")
    change.path = old if change.deleted else new
    change.before = "" if change.new or old == change.path else old


def _plain(name: str) -> str:
    """A path as git writes it: in quotes, with C's escapes, if it is not plain."""
    if len(name) > 1 and name.startswith('"') and name.endswith('"'):
        text = name[1:-1].encode("latin-1", "replace").decode("unicode_escape")
        return text.encode("latin-1", "replace").decode("utf-8", "replace")
    return name


def _read_hunk(change: FileChange, lines: Sequence[str], at: int, head: Sequence[int]) -> int:
    """Read the lines of a hunk; returns the position after it. Its counts say where it ends, not its look."""
    old, old_left, new, new_left = head
    while at < len(lines) and (old_left > 0 or new_left > 0):
        mark, text = lines[at][:1], lines[at][1:LONGEST]
        if mark == "-":
            change.removed.append((old, text))
            old, old_left = old + 1, old_left - 1
        elif mark == "+":
            change.added.append((new, text))
            change.places.add(new)
            new, new_left = new + 1, new_left - 1
        elif mark in (" ", ""):
            change.places.add(new)
            old, old_left, new, new_left = old + 1, old_left - 1, new + 1, new_left - 1
        elif mark != "\\":
            break
        at += 1
    return at


# --- tests that a patch weakens ---------------------------------------------------------------------

DEFINES = re.compile(
    r"\s*(?:async\s+)?def\s+(?P<py>test\w*)\s*\("
    r"|\s*(?:it|test|specify|scenario|Deno\.test)(?:\.\w+)*\s*\(\s*(?P<q>['\"`])(?P<js>.+?)(?P=q)"
    r"|\s*func\s+(?P<go>(?:Test|Fuzz|Benchmark)\w+)\s*\("
    r"|\s*(?:public\s+|internal\s+|private\s+)*(?:async\s+)?(?:void|fun|Task|function|func|fn)\s+(?P<c>\w*[Tt]est\w*|should\w+)\s*\("
    r"|\s*(?:it|test|scenario)\s+(?P<r>['\"])(?P<rb>.+?)(?P=r)\s+do\b"
    r"|\s*(?:TEST(?:_F|_P)?|TEST_CASE)\s*\((?P<cc>[^)]+)\)"
    r"|\s*@test\s+(?P<b>['\"])(?P<bats>.+?)(?P=b)"
)
"""The beginning of a test, by the way that languages have to define one."""
SKIPS = re.compile(
    r"@\s*(?:pytest\.mark\.(?:skip(?:if)?|xfail)|unittest\.(?:skip\w*|expectedFailure)|skip(?:If|Unless)?\b"
    r"|expectedFailure|Disabled\b|Ignore\b)"
    r"|\bpytest\.(?:skip|xfail|importorskip)\s*\(|\bself\.skipTest\s*\(|\braise\s+(?:unittest\.)?SkipTest\b"
    r"|\b(?:it|test|describe|context|suite)\.(?:skip|todo|only|failing|fixme)\b"
    r"|^\s*(?:x(?:it|test|describe|context|specify)|f(?:it|describe))\s*[(\s]['\"`]"
    r"|\b(?:t|b|tb)\.Skip(?:f|Now)?\s*\(|#\[\s*ignore\b|\bGTEST_SKIP\s*\(|\[\s*(?:Ignore|Explicit)\b"
    r"|\bFact\s*\(\s*Skip\b|\bmarkTest(?:Skipped|Incomplete)\s*\(|^\s*skip\s+['\"]|^\s*pending\b"
    r"|__test__\s*=\s*False"
)
"""What has a test left out, or only some of them run."""
UNDER_CONDITION = re.compile(r"skipif|skipunless|importorskip", re.IGNORECASE)
MARKS = re.compile(
    r"\s*(?:#\[\s*(?:\w+::)?test\b|@(?:Parameterized)?Test\b|\[(?:Fact|Theory|Test|TestMethod)\b)"
)
"""What stands before a test whose name does not tell."""
ASSERTS = re.compile(
    r"\bassert\w*\b|\b(?:self|cls)\.(?:assert|fail)\w*\s*\(|\bpytest\.raises\b|\bexpect\w*\s*[({]|\bshould\b"
    r"|\b[tb]\.(?:Error|Fatal)f?\s*\(|\b(?:require|assert)\.\w+\s*\(|\b(?:EXPECT|ASSERT|CHECK|REQUIRE)(?:_\w+)?\s*\("
    r"|\bAssert\.\w+\s*\(|\bXCTAssert\w*\s*\(|\bt\.(?:is|ok|equal|deepEqual|throws)\s*\(",
)
EMPTY = re.compile(
    r"^\s*(?:assert\s*\(?\s*(?:True|1|not False)\s*\)?\s*(?:,.*)?(?:#.*)?"
    r"|self\.assert(?:True\(\s*True|False\(\s*False|Equals?\(\s*(?P<v>[\w.'\"]+)\s*,\s*(?P=v))\s*[,)].*"
    r"|expect\(\s*(?P<e>true|1|[\w'\"]+)\s*\)\.(?:toBe|toEqual|toStrictEqual|to\.equal)\(\s*(?P=e)\s*\);?"
    r"|(?:assert|assert\.ok|t\.ok)\(\s*true\b.*|assert!\(\s*true\s*\);?|.*\bAssert\.(?:True|IsTrue)\(\s*true\s*\).*)\s*$"
)
"""An assertion that holds whatever the code does."""
CONFIGURES = re.compile(
    r"(?:.*/)?(?:pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml|conftest\.py|noxfile\.py|package\.json|Makefile"
    r"|(?:jest|vitest|karma|playwright|cypress)\.config\.\w+|\.mocharc\.\w+|\.rspec|\.github/workflows/.+)"
)
LEAVES_OUT = re.compile(
    r"--(?:ignore|deselect|exclude|testPathIgnorePatterns|skip)\b|\bcollect_ignore\w*\b|\btestPathIgnorePatterns\b"
    r"|(?:pytest|addopts).*\s-k\b|\bcontinue-on-error:\s*true|\b(?:pytest|test|jest|mocha|vitest)\b.*\|\|\s*(?:true|:)"
    r"|--passWithNoTests\b"
)
"""What leaves tests out of a run, or its failures unseen, in a file that CONFIGURES it."""


class Weakening(msgspec.Struct, frozen=True, kw_only=True):
    """A test that a patch weakens: where, and how. It is ``certain``, or else only looks so."""

    place: str
    how: str
    certain: bool = True


def find_weakened(changes: Sequence[FileChange]) -> list[Weakening]:
    """The tests that a patch weakens: removed, skipped, or with assertions that are gone or say nothing.

    A test or an assertion that the patch adds again elsewhere was moved. Fewer assertions than before are
    not ``certain``: one may do the work of three.
    """
    added_tests = Counter(name for change in changes for _, line in change.added if (name := _test_in(line)))
    added_lines = Counter(line.strip() for change in changes for _, line in change.added)
    found: list[Weakening] = []
    for change in changes:
        path = change.before or change.path
        if is_test(path) or path.endswith(".rs"):  # Rust has them beside the code
            found += _weakened_file(change, added_tests, added_lines)
        if CONFIGURES.fullmatch(change.path):
            gone = {line.strip() for _, line in change.removed}
            found += [
                Weakening(place=f"{change.path}:{number}", how=f"tests are left out: {clean(line, 120)}")
                for number, line in change.added
                if LEAVES_OUT.search(line) and line.strip() not in gone
            ]
    return found


ASKS = re.compile(
    r"\b(?:remov|delet|drop|retir|replac|skip|disabl|deprecat|obsolet|rewrit|clean|mov(?:e|ing)|port|migrat|merg|simplif"
    r"|renam|convert|split|flaky|unneeded|redundan|duplicat|quarantin|outdated|stale|unused)\w*\b",
    re.IGNORECASE,
)
"""Words of a request that may well need tests to go, or to be left out."""
FORBIDS = re.compile(r"\b(?:no|not|never|none|nothing|without|nor)\b|n't\b", re.IGNORECASE)


def is_asked_for(words: str) -> bool:
    """Whether a request may ask for tests to be removed or left out; what it forbids does not count."""
    return any(ASKS.search(each) and not FORBIDS.search(each) for each in re.split(r"[.;!?\n]+", words))


def _weakened_file(
    change: FileChange, added_tests: Counter[str], added_lines: Counter[str]
) -> Iterator[Weakening]:
    before = change.before or change.path
    names = [(number, name) for number, line in change.removed if (name := _test_in(line))]
    known_names = {name for _, name in names}
    begun = {number for number, line in change.added if _test_in(line) not in {"", *known_names}}
    for number, name in names:
        if added_tests[name]:
            added_tests[name] -= 1
            continue
        # One in its place, under another name, is more likely a test renamed than one removed.
        renamed = len(names) <= len(begun)
        how = f"the test {clean(name, 80)!r} is {'renamed or replaced' if renamed else 'removed'}"
        yield Weakening(place=f"{before}:{number}", how=how, certain=not renamed)
    marks = [number for number, line in change.removed if MARKS.match(line)]
    lost = len(marks) - sum(bool(MARKS.match(line)) for _, line in change.added)
    if lost > 0 and not names:
        yield Weakening(place=f"{before}:{marks[0]}", how=f"{count(lost, 'test')} removed")
    elif change.deleted and not names and is_test(before):
        yield Weakening(place=before, how="a file of the tests is deleted")
    if change.deleted:
        return
    known = Counter(line.strip() for _, line in change.removed if SKIPS.search(line))
    gone = any(_asserts(line) for _, line in change.removed)
    for number, line in change.added:
        if SKIPS.search(line) and not known[line.strip()]:
            added = change.new or any(number <= start <= number + 3 for start in begun)
            certain = not added and not UNDER_CONDITION.search(line)
            how = f"a test is left out: {clean(line, 120)}"
            yield Weakening(place=f"{change.path}:{number}", how=how, certain=certain)
        elif EMPTY.match(line) and is_test(change.path):
            how = f"an assertion holds whatever the code does: {clean(line, 120)}"
            yield Weakening(place=f"{change.path}:{number}", how=how, certain=gone)
    if is_test(before):
        yield from _fewer_assertions(change, added_lines)


def _fewer_assertions(change: FileChange, added_lines: Counter[str]) -> Iterator[Weakening]:
    gone: list[Line] = []
    for number, line in change.removed:
        if not _asserts(line):
            continue
        if added_lines[line.strip()]:
            added_lines[line.strip()] -= 1
        else:
            gone.append((number, line))
    new = [line for _, line in change.added if _asserts(line)]
    if not gone:
        return
    place = f"{change.before or change.path}:{gone[0][0]}"
    if not new:
        what = "an assertion is" if len(gone) == 1 else f"{len(gone)} assertions are"
        yield Weakening(place=place, how=f"{what} removed, first: {clean(gone[0][1], 120)}")
    else:
        how = f"{len(gone)} assertions are replaced by {len(new)}, first: {clean(gone[0][1], 120)}"
        yield Weakening(place=place, how=how, certain=False)


def _test_in(line: str) -> str:
    """The name of the test that begins in ``line``; empty if none does."""
    found = DEFINES.match(line)
    if not found:
        return ""
    names = (found[group] for group in ("py", "js", "go", "c", "rb", "cc", "bats"))
    return next(filter(None, names), "")


def _asserts(line: str) -> bool:
    return bool(ASSERTS.search(line)) and not re.match(r"\s*(?:#|//|\*|import\b|from\b)", line)


# --- a patch as a reviewer reads it -----------------------------------------------------------------

LEAST = 2_000  # Characters that the part of a file has, while there are any
MAX_NAMED = 60  # Files that are named only; the others are counted
LONGEST_LINE = 400  # Characters of a line of a patch that are shown: a longer one was not written by hand
MADE = re.compile(
    r"(?:.*/)?(?:[\w.-]*lock(?:\.json|\.yaml|b)?|go\.sum|[\w.-]+\.(?:min\.\w+|map|svg|snap|ipynb|pb\.go|csv))"
)
"""Files that programs write: shown last, and left out first."""


def format_changes(changes: Sequence[FileChange], limit: int, shown: Iterable[str] = ()) -> str:
    """The patch in at most about ``limit`` characters; what is cut of it is named, with its size.

    Tests come first, then code, then what programs make. A part whose text is among ``shown`` already is
    named only.
    """
    known = set(shown)
    order = sorted(changes, key=lambda each: (bool(MADE.fullmatch(each.path)), not is_test(each.path)))
    parts: list[str] = []
    named: list[str] = []
    left = limit
    for position, change in enumerate(order):
        size = f"{clean(change.path, 200)} (+{len(change.added)} -{len(change.removed)} lines)"
        # A short patch leaves more room for the others.
        share = max(left // (len(order) - position), min(left, LEAST))
        if change.text in known:
            named.append(f"{size}: the same as above")
        elif share < LEAST // 4 and len(change.text) > share:
            named.append(f"{size}: not shown")
        else:
            lines = (line for line in change.text.split("\n") if not line.startswith("index "))
            text = "\n".join(map(_shorten, lines))
            if len(text) > share:
                kept = text[:share].rpartition("\n")[0]
                more = text.count("\n") - kept.count("\n")
                text = f"{kept}\n[{size}: {more} more lines of this part are not shown]"
            parts.append(text)
            left -= min(len(text), share)
    rest = [f"and {len(named) - MAX_NAMED:,} more files"] if len(named) > MAX_NAMED else []
    return "\n".join([*parts, *(f"[{each}]" for each in (*named[:MAX_NAMED], *rest))])


def _shorten(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}[... {len(line)} characters]"
