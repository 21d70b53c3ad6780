"""Programs that make, copy, move and delete files, and change who may do what with them."""

import re

from shared.policy import effects, secrets
from shared.policy.call import Call, Handler
from shared.policy.paths import Place
from shared.policy.programs.rows import Step, row
from shared.policy.programs.text import is_large
from shared.policy.scope import UNREAD, Stream
from shared.policy.words import Word

_VERSION = re.compile(r"-?\d[\d.]*$")
_PROGRAM_FOLDER = re.compile(r"^(/usr)?(/local)?/s?bin/([^/]+)$|^/bin/([^/]+)$")


def judge_rm(call: Call) -> None:
    """It deletes; with nothing named after -rf, what it deletes is missing or hidden."""
    found = call.options("interactive")
    deep = found.has("r R recursive d dir")
    force = found.has("f force")
    if not found.operands and deep:
        call.find("destroy.unknown")
    if found.has("no-preserve-root"):
        call.find("destroy.outside-workspace", "Everything")
    for word in found.operands:
        call.delete(word, deep, force)


def judge_shred(call: Call) -> None:
    """It overwrites files beyond recovery."""
    for word in call.options("n s iterations size random-source").operands:
        if call.place(word) is Place.DEVICE:
            call.find("destroy.device")
        call.delete(word, deep=True, force=True)
    call.find("destroy.workspace")


def _target(call: Call, valued: str) -> tuple[list[Word], list[Word], frozenset[str]]:
    """Sources and targets of cp, mv, ln, install."""
    found = call.options(f"t target-directory S suffix {valued}")
    targets = found.of("t target-directory")
    sources = list(found.operands)
    if not targets and len(sources) > 1:
        targets = [sources.pop()]
    return sources, targets, frozenset(found.flags)


def _inside(target: Word, source: Word) -> Word:
    """The file that a copy becomes in a folder."""
    return Word(
        f"{target.text.rstrip('/')}/{source.text.rstrip('/').rsplit('/', 1)[-1]}", target.glob or source.glob
    )


def _arrive(call: Call, sources: list[Word], targets: list[Word]) -> None:
    for target in targets:
        if any(source.text == "/dev/null" for source in sources):
            effects.empty(call.shell, call.path(target) or "")
        call.write(target)
        for source in sources:
            path = call.path(source)
            stream = call.scope.files.get(path or "", Stream())
            match = _PROGRAM_FOLDER.match(path or "")
            if match:
                stream = Stream(match[3] or match[4], source="program")
            call.shell.written(target, call.scope, stream)
            inner = _inside(target, source)
            call.write(inner, output=stream)


def judge_cp(call: Call) -> None:
    """It reads the sources and writes the targets."""
    sources, targets, flags = _target(
        call, "m mode o g owner group sparse backup preserve no-preserve reflink"
    )
    deep = bool(flags & {"r", "R", "a", "recursive", "archive"})
    if call.name == "install" and any(
        re.fullmatch(r"0?[2467]\d{3}|.*[+=]\w*s\w*", word.text)
        for word in call.options("m mode o g owner group t S").of("m mode")
    ):
        call.find("privilege.raise")
    if call.name == "install" and flags & {"d", "directory"}:
        for word in [*sources, *targets]:
            call.write(word, create=True)
        return
    for word in sources:
        if call.is_endless(word):
            call.find("exhaust.endless")
        elif _PROGRAM_FOLDER.match(call.path(word) or ""):
            call.find("run.renamed")
        else:
            call.read(word, deep)
    _arrive(call, sources, targets)


def judge_mv(call: Call) -> None:
    """It takes the sources away and writes the targets."""
    sources, targets, _ = _target(call, "backup")
    for word in sources:
        if call.place(word) is Place.WORKSPACE and not (targets and call.place(targets[0]) is Place.NOWHERE):
            call.read(word)
            path = call.path(word) or ""
            away = any(call.place(target) not in {Place.WORKSPACE, Place.UNKNOWN} for target in targets)
            if away and (word.glob or "." not in path.rsplit("/", 1)[-1]):
                call.delete(word, deep=True, force=True)
            inner = path[len(call.shell.workspace) :]
            kept = secrets.is_repository(path) or call.shell.is_guarded(path) or secrets.may_guard(inner)
            if kept or path == call.shell.workspace:
                call.delete(word, deep=True, force=True)
        elif call.place(word) is Place.UNKNOWN:
            continue
        else:
            call.delete(word, deep=True, force=True)
    if not any(word.known for word in sources) and not any(word.known for word in targets):
        return
    _arrive(call, sources, targets)


def _is_same_program(path: str, link: str) -> bool:
    """Whether a link is called as the program is, but for its version: ``python`` for ``python3``."""
    names = (_VERSION.sub("", text.rstrip("/").rsplit("/", 1)[-1]) for text in (path, link))
    return len(set(names)) == 1


def judge_ln(call: Call) -> None:
    """A link in the workspace must not lead out of it."""
    sources, targets, _flags = _target(call, "backup")
    for word in sources:
        path = call.path(word)
        if _PROGRAM_FOLDER.match(path or ""):
            if not all(_is_same_program(path or "", target.text) for target in targets):
                call.find("run.renamed")
        elif call.place(word) in {Place.SYSTEM, Place.HOME, Place.KERNEL, Place.DEVICE}:
            call.find("write.link", path or word.text)
            call.read(word, deep=True)
    _arrive(call, sources, targets)


def judge_truncate(call: Call) -> None:
    """It cuts or grows files."""
    found = call.options("s r size reference l length o offset")
    if any(is_large(word.text) for word in found.of("s size l length o offset")):
        call.find("exhaust.large")
    for word in found.operands:
        call.write(word, output=Stream("") if "0" in [size.text for size in found.of("s size")] else UNREAD)


def judge_dd(call: Call) -> Stream | None:
    """It copies raw data, if need be onto a disk or without an end."""
    words = dict(word.text.partition("=")[::2] for word in call.args)
    source, target = words.get("if"), words.get("of")
    if source and not call.is_endless(Word(source)):
        call.read(Word(source))
    endless = call.stdin.endless or bool(source and call.is_endless(Word(source)))
    if endless and "count" not in words:
        if target:
            call.find("exhaust.endless")
        return Stream(endless=True)
    count, size = words.get("count", "0"), words.get("bs", words.get("ibs", "512"))
    if endless and is_large(str(_amount(count) * _amount(size))):
        call.find("exhaust.large")
    if target:
        call.write(Word(target), output=Stream("") if source == "/dev/null" else UNREAD)
    return Stream(source="computed")


def _amount(text: str) -> int:
    match = re.match(r"(\d+)([kKMGT]?)", text)
    return int(match[1][:12]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else 0


_OWN = re.compile(r"(?!root\b|0\b)[a-z_][\w-]*(:(?!root\b|0\b)[\w-]*)?$|:[a-z_][\w-]*$")
"""A user other than root: a user who is not root can give a file only to himself."""


def judge_chmod(call: Call) -> None:
    """Rights of files: everybody's, nobody's, or those of another user."""
    found = call.options("reference")
    operands = found.operands
    first = next((word.text for word in call.args if re.fullmatch(r"-[rwxXst]+", word.text)), "")
    mode = first or (operands[0].text if operands else "")
    files = operands if first and not found.has("reference") else operands[1:]
    deep = found.has("R recursive")
    if re.search(r"[ugoa]*[+=][rwxX]*s", mode) or re.fullmatch(r"0?[2467]\d{3}", mode):
        call.find("privilege.raise")
    if re.fullmatch(r"0?\d?\d\d[2367]|0?0{1,3}", mode) or re.search(
        r"(^|,)[ugo]*[oa][ugo]*[+=]\w*w|(^|,)[+]\w*w", mode
    ):
        call.find("write.permissions")
    if deep and re.match(r"(a|ugo)?-|0?0\d\d$", mode):
        call.find("write.permissions")
    for word in files:
        _judge_changed(call, word, deep)


def _judge_changed(call: Call, word: Word, deep: bool) -> None:
    where, path = call.place(word), call.path(word) or ""
    if where is Place.ELSEWHERE:
        call.find("write.outside-workspace", path)
    elif where in {Place.SYSTEM, Place.HOME, Place.DEVICE, Place.KERNEL}:
        call.find("write.system", path)
    elif where is Place.UNKNOWN and deep:
        call.find("write.unknown", word.text)
    elif where is Place.WORKSPACE:
        if secrets.is_repository(path) or call.shell.is_guarded(path):
            call.find("guard.tamper", path)
        elif secrets.may_guard(path):
            call.find("guard.file", path)


def judge_chown(call: Call) -> None:
    """Whose a file is."""
    found = call.options("from reference")
    own = found.operands[:1] and _OWN.match(found.operands[0].text) is not None
    if call.name not in {"chown", "chgrp"} or found.has("R recursive") or not own:
        call.find("write.permissions")
    for word in found.operands[1:]:
        _judge_changed(call, word, found.has("R recursive"))
    if any(call.place(word) in {Place.SYSTEM, Place.HOME} for word in found.operands[1:]):
        call.find("privilege.account")


_MADE = row("m mode d t r date reference time Z context", Step(does="create 0:; stat r reference"))
PROGRAMS: dict[str, Handler] = {
    "rm grm": judge_rm,
    "unlink rmdir": row("", Step(does="delete 0:")),
    "shred srm wipe scrub sfill sswap smem": judge_shred,
    "trash trash-put gio-trash rimraf del-cli": judge_rm,
    "cp gcp install pcp ditto": judge_cp,
    "mv gmv": judge_mv,
    "ln link gln symlink": judge_ln,
    "mkdir touch mkfifo gmkdir gtouch": _MADE,
    "truncate fallocate": judge_truncate,
    "dd": judge_dd,
    "chmod": judge_chmod,
    "chown chgrp setfacl chattr chflags": judge_chown,
}
