"""Programs that make, copy, move and delete files."""

import re

from shared.policy.call import Call, Handler
from shared.policy.paths import Place
from shared.policy.programs.code import judge_code
from shared.policy.scope import UNREAD, Stream, Word

_PROGRAM = re.compile(r"^(?:/usr)?(?:/local)?/s?bin/([^/]+)$")


def judge_rm(call: Call) -> None:
    """It deletes; with nothing named after -rf, what it deletes is missing or hidden."""
    found = call.options("interactive n s iterations size random-source")
    deep = found.has("r R recursive d dir") or call.name in {"shred", "srm", "wipe", "rimraf", "del-cli"}
    if not found.operands and found.has("r R recursive"):
        call.find("destroy.unknown")
    if found.has("no-preserve-root"):
        call.find("destroy.outside-workspace", "Everything")
    for word in found.operands:
        call.delete(word, deep)


def _targets(call: Call, valued: str = "") -> tuple[list[Word], list[Word]]:
    """Sources and targets of cp, mv, ln, install."""
    found = call.options(f"t target-directory S suffix backup {valued}")
    targets = found.of("t target-directory")
    sources = list(found.operands)
    if not targets and len(sources) > 1:
        targets = [sources.pop()]
    return sources, targets


def _arrive(call: Call, sources: list[Word], targets: list[Word]) -> None:
    for target in targets:
        call.write(target)
        for source in sources:
            path = call.path(source) or ""
            program = _PROGRAM.match(path)
            stream = Stream(program[1], source="program") if program else call.scope.files.get(path, UNREAD)
            call.scope.keep(target, stream)
            name = source.text.rstrip("/").rsplit("/", 1)[-1]
            call.write(Word(f"{target.text.rstrip('/')}/{name}", target.glob or source.glob), output=stream)


def judge_cp(call: Call) -> None:
    """It reads the sources and writes the targets."""
    sources, targets = _targets(call, "m mode o g owner group sparse preserve no-preserve reflink")
    flags = call.options("m o g t S").flags
    if call.name == "install" and flags & {"d", "directory"}:
        for word in [*sources, *targets]:
            call.write(word, create=True)
        return
    for word in sources:
        call.read(word, deep=bool(flags & {"r", "R", "a", "recursive", "archive"}))
    _arrive(call, sources, targets)


def judge_mv(call: Call) -> None:
    """It takes the sources away and writes the targets."""
    sources, targets = _targets(call)
    away = any(call.place(target) not in {Place.WORKSPACE, Place.UNKNOWN} for target in targets)
    for word in sources:
        inside = call.place(word) in {Place.WORKSPACE, Place.SCRATCH}
        if call.place(word) is Place.UNKNOWN:
            continue
        if inside:
            call.read(word)
        path = call.path(word) or ""
        if not inside or (away and path.rstrip("*/") == call.shell.workspace) or "/.git/" in f"{path}/":
            call.delete(word, deep=True)
        if targets and call.place(targets[0]) is Place.NOWHERE:
            call.find("destroy.device", "Moving to /dev/null")
    if any(word.known for word in [*sources, *targets]):
        _arrive(call, sources, targets)


def judge_ln(call: Call) -> None:
    """A link in the workspace must not lead out of it."""
    sources, targets = _targets(call)
    for word in sources:
        if call.place(word) in {Place.SYSTEM, Place.HOME, Place.KERNEL} and not _PROGRAM.match(
            call.path(word) or ""
        ):
            call.find("write.link", call.path(word) or word.text)
            call.read(word, deep=True)
    _arrive(call, sources, targets)


def judge_dd(call: Call) -> None:
    """It copies raw data."""
    words = dict(word.text.partition("=")[::2] for word in call.args)
    if source := words.get("if"):
        call.read(Word(source))
    if target := words.get("of"):
        call.write(Word(target))


def judge_mode(call: Call) -> None:
    """chmod and its like change files: outside the workspace that is a change of the system."""
    found = call.options("reference from" + (" m x" if call.name == "setfacl" else ""))
    files = found.operands if found.has("reference") else found.operands[1:]
    for word in found.operands if call.name in {"setfacl", "chattr"} else files:
        if not word.text.startswith(("+", "-", "=")):
            call.write(word, create=call.place(word) in {Place.WORKSPACE, Place.SCRATCH})


def judge_tar(call: Call) -> None:
    """It packs, or unpacks into a folder."""
    args = (
        [Word(f"-{call.args[0].text}"), *call.args[1:]]
        if call.args and call.args[0].text[:1] != "-"
        else call.args
    )
    call.args = args
    found = call.options(
        "f file C directory I use-compress-program T files-from X exclude exclude-from strip-components "
        "transform to-command checkpoint-action info-script F rsh-command owner group mode"
    )
    for word in found.of("I use-compress-program to-command checkpoint-action info-script F rsh-command"):
        call.script(word.text.removeprefix("exec="))
        if " " in word.text or "=" in word.text:
            call.find("unclear.command")
    if found.has("C directory"):
        call.scope = call.scope.branch()
    packs, unpacks = found.has("c create r append u update"), found.has("x extract get")
    for word in found.of("f file"):
        call.write(word) if packs else call.read(word)
    for word in found.of("C directory"):
        if unpacks:
            call.write(word, create=True)
        call.scope.cwd = call.path(word)
    for word in found.operands if packs else ():
        call.read(word, deep=True)
        if found.has("remove-files"):
            call.delete(word, deep=True)
    if unpacks and call.stdin.source == "network":
        call.scope.fetched.add(call.scope.cwd or "")
    if unpacks and any(
        call.scope.files.get(call.path(word) or "", UNREAD).source == "network" for word in found.of("f file")
    ):
        call.scope.fetched.add(call.scope.cwd or "")


def judge_unpack(call: Call) -> None:
    """zip, unzip, 7z and their like."""
    found = call.options("d x O b TT unzip-command P i n")
    call.apply(found, "create d")
    for word in found.of("TT unzip-command"):
        call.find("unclear.command")
        call.script(word.text)
    for word in found.operands:
        call.read(word, deep=True)
    if call.name == "zip" and found.operands:
        call.write(found.operands[0])
    for word in call.args:
        if call.name.startswith("7z") and word.text.startswith("-o"):
            call.write(Word(word.text[2:]), create=True)


def judge_tee(call: Call) -> Stream:
    """It writes files and passes on what it is fed."""
    for word in call.options("output-error").operands:
        call.write(word, output=call.stdin)
    return call.stdin


_SUBSTITUTION = re.compile(
    r"(?<![\w\\])[sy]([/|#,@!%:;+])(?:\\.|(?!\1).)*\1(?:\\.|(?!\1).)*\1([gipmIM\d]*)(e?)", re.DOTALL
)
_SED_COMMAND = re.compile(r"(?:^|[;{\n\d$/])\s*([ewWrR])\s+(\S[^;}\n]*)")


def judge_sed(call: Call) -> Stream:
    """It edits text; its scripts may run commands, read and write files."""
    found = call.options("e f l expression file line-length")
    scripts, files = found.of("e expression"), found.operands
    if not scripts and not found.has("f file"):
        scripts, files = files[:1], files[1:]
    for word in scripts:
        if any(match[3] for match in _SUBSTITUTION.finditer(word.text)):
            call.find("unclear.command")
        for match in _SED_COMMAND.finditer(_SUBSTITUTION.sub("", word.text)):
            target = Word(match[2].strip())
            if match[1] == "e":
                call.find("unclear.command")
                call.script(target.text)
            else:
                call.write(target) if match[1] in "wW" else call.read(target)
    inplace = found.has("i in-place") or any(flag.startswith(("i", "ni", "Ei", "ri")) for flag in found.flags)
    for word in files:
        call.read(word)
        if inplace:
            call.write(word)
    return Stream(None, None, call.stdin.source or "computed")


_ESCAPES = re.compile(
    r"(?:^|[|:+])\s*(?:%|silent )?[:\s]*(?:r )?!(.*)|(?:system|shell-command|execute)\W+([^'\")]+)"
    r"|()(?:set\s+shell|shell=)"
)
"""Commands of editors that run one of the shell, or change which shell that is."""


def judge_editor(call: Call) -> None:
    """Editors run what their scripts say, and write the files they open."""
    plain = call.name in {"ed", "red", "ex"}
    found = call.options("" if plain else "c S s u cmd e eval l")
    for word in found.of("eval e"):
        judge_code(call, word.text)
    added = [word.text for word in call.args if word.text.startswith("+")]
    lines = [
        *(word.text for word in found.of("c S cmd e eval")),
        *added,
        *(call.stdin.text or "").splitlines(),
    ]
    for match in filter(None, map(_ESCAPES.search, lines)):
        call.find("unclear.command")
        call.script(match[1] or match[2] or "")
    scripted = plain or bool(found.values or call.stdin.text) or found.has("es s E")
    for word in found.operands:
        call.read(word)
        if scripted and call.place(word) not in {Place.WORKSPACE, Place.SCRATCH}:
            call.write(word)


_EFFECTS = {
    "touch": ("d t r date reference time", "create :"),
    "mkdir mkfifo": ("m mode", "create :"),
    "mknod": ("m mode", "create 0:1"),
    "truncate fallocate": ("s r size reference l length o offset", "write :"),
    "sort gsort": ("k t o T S output key field-separator", "read :; write o output"),
    "uniq": ("f s w", "read 0:1; write 1:2"),
    "ls dir vdir exa eza lsd stat file du df tree realpath readlink test [ [[": ("", "stat :"),
    "gzip gunzip bzip2 xz zstd bunzip2 unxz": ("o S", "read :"),
    "split csplit": ("b l n a C filter", "read 0:1; script filter"),
    "ssh-keygen": ("t f N C b y e", "stat f"),
    "docker podman": ("f t v e p name", "read f"),
    "less more most": ("", "read :"),
}


def _of(valued: str, does: str) -> Handler:
    def judge(call: Call) -> None:
        call.apply(call.options(valued), does)
        call.judge_outputs()

    return judge


def judge_compiler(call: Call) -> None:
    """It makes a program of the workspace's sources."""
    found = call.options("o I L D l x std")
    call.apply(found, "read :")
    for word in found.of("o"):
        call.write(word, output=Stream(source="built"))


def judge_less(call: Call) -> None:
    """It shows files; a command may follow ``+!``."""
    call.apply(call.options("P pager"), "script P pager")
    for word in call.args:
        if word.text.startswith("+!"):
            call.find("unclear.command")
        call.read(word)


PROGRAMS: dict[str, Handler] = {
    **{names: _of(*spec) for names, spec in _EFFECTS.items()},
    "rm rmdir unlink shred srm wipe grm trash rimraf del-cli": judge_rm,
    "cp gcp install": judge_cp,
    "mv gmv": judge_mv,
    "ln gln": judge_ln,
    "dd": judge_dd,
    "chmod chown chgrp chattr setfacl": judge_mode,
    "tar gtar bsdtar": judge_tar,
    "zip unzip 7z 7za 7zz unrar": judge_unpack,
    "tee sponge": judge_tee,
    "sed gsed": judge_sed,
    "vi vim nvim ex ed red view emacs nano": judge_editor,
    "less more man": judge_less,
    "gcc cc g++ clang clang++ c++ rustc": judge_compiler,
}
