"""Archives: packing reads, unpacking writes, and some options run commands."""

import re

from shared.policy.call import Call, Handler
from shared.policy.options import Options, parse_options
from shared.policy.paths import Place, resolve
from shared.policy.programs.rows import Step, row
from shared.policy.scope import Scope, Stream
from shared.policy.words import Word

_TAR = (
    "f C b X T K I F H L N V g file directory exclude exclude-from files-from to-command checkpoint-action "
    "use-compress-program info-script new-volume-script rsh-command rmt-command transform xform owner group "
    "mode mtime newer index-file listed-incremental strip-components checkpoint level suffix one-top-level"
)
_COMPRESSORS = frozenset("gzip bzip2 xz zstd pigz pbzip2 lz4 lzma lzip lzop pixz zstdmt compress".split())


def judge_tar(call: Call) -> Stream | None:
    """tar lists, packs or unpacks."""
    args = list(call.args)
    if args and re.fullmatch(r"[A-Za-z]+", args[0].text):
        found = _old_style(args)
    else:
        found = parse_options(args, _TAR)
    _judge_runs(call, found)
    call.apply(found, "write g listed-incremental index-file")
    if found.has("P absolute-names"):
        call.find("write.unpack")
    letters = "".join(flag for flag in found.flags if len(flag) <= 1)
    archives = found.of("f file")
    scope = call.scope
    for word in found.of("C directory"):
        call.scope = scope.branch()
        call.scope.cwd = call.path(word)
    if "x" in letters or found.has("extract get"):
        for word in archives:
            if word.text != "-":
                call.read(word)
        call.write(Word("."), create=True)
        if call.place(Word(".")) is Place.SYSTEM:
            call.find("write.system")
        if _is_fetched(call, archives, scope):
            call.scope.fetched.add(call.path(Word(".")) or "")
    elif "t" not in letters and not found.has("list"):
        _judge_packed(call, found, archives, scope)
    return Stream(None, None, "computed")


def _is_fetched(call: Call, archives: list[Word], scope: Scope) -> bool:
    """Whether an archive came from the network in this very script."""
    if not archives:
        return call.stdin.source == "network"
    paths = [resolve(word.text, scope.cwd) or "" for word in archives]
    return any(path in scope.files and scope.files[path].source == "network" for path in paths)


def _judge_packed(call: Call, found: Options, archives: list[Word], scope: Scope) -> None:
    for word in [*found.operands, *found.of("T files-from")]:
        call.read(word, deep=True)
    if found.has("remove-files"):
        call.apply(found, "wipe 0:")
    call.scope = scope
    for word in archives:
        if word.text != "-" and not re.match(r"[\w.@-]+:", word.text):
            call.write(word)
        elif word.text != "-":
            call.find("network.send")


def _judge_runs(call: Call, found: Options) -> None:
    for word in found.of("I use-compress-program"):
        if word.text.split(" ", 1)[0].rsplit("/", 1)[-1] not in _COMPRESSORS:
            call.run_hidden(word.text)
    call.apply(found, "runs to-command F info-script new-volume-script rsh-command rmt-command")
    for word in found.of("checkpoint-action"):
        if word.text.startswith("exec"):
            call.run_hidden(word.text.partition("=")[2])


def _old_style(args: list[Word]) -> Options:
    """``tar czf x.tar dir``: the letters take their values in order."""
    found, rest = Options(set(), {}, []), args[1:]
    for letter in args[0].text:
        if letter in "fCbXTKIFHLNVg" and rest:
            found.values.setdefault(letter, []).append(rest.pop(0))
        else:
            found.flags.add(letter)
    later = parse_options(rest, _TAR)
    found.flags |= later.flags
    for name, words in later.values.items():
        found.values.setdefault(name, []).extend(words)
    found.operands.extend(later.operands)
    return found


def judge_unzip(call: Call) -> Stream | None:
    """It unpacks into the folder it is in, or that after -d."""
    found = call.options("d x P O p0 o0")
    call.apply(found, "read :1")
    if not found.has("l t p v Z z c"):
        for word in found.of("d") or [Word(".")]:
            call.write(word, create=True)
            if _is_fetched(call, found.operands[:1], call.scope):
                call.scope.fetched.add(call.path(word) or "")
    if found.has(":"):
        call.find("write.unpack")
    return Stream(None, None, "computed")


def judge_archiver(call: Call) -> Stream | None:  # noqa: PLR0912 - one branch a kind
    """7z, rar, ar, cpio: reading, writing, in the folder they are in."""
    found = call.options("F I O D E H R") if call.name in {"cpio", "pax"} else call.options("")
    if call.name == "cpio":
        if found.has("rsh-command"):
            call.find("unclear.command")
        call.apply(found, "read F I; write O")
        letters = "".join(flag for flag in found.flags if len(flag) < 8)
        if found.has("extract") or ("i" in letters and "t" not in letters):
            call.find("write.unpack")
        if found.has("p pass-through"):
            call.apply(found, "write 0:")
        if call.stdin.paths:
            for path in call.stdin.paths:
                call.read(Word(path), deep=True)
        return Stream(None, None, "computed")
    words = found.operands
    if call.name in {"7z", "7za", "7zr", "7zz", "rar", "unrar"} and words:
        action = words[0].text
        for word in words[1:2]:
            call.read(word) if action in {"l", "t", "x", "e", "lb", "v"} else call.write(word)
        for word in words[2:]:
            call.read(word, deep=True)
        for word in call.args:
            if word.text.startswith("-o") and len(word.text) > 2:
                call.write(Word(word.text[2:]), create=True)
            elif word.text in {"-sdel", "-df", "-dw"}:
                call.find("destroy.workspace")
        return None
    for word in words:
        call.read(word)
        call.write(word) if word.text.endswith((".a", ".iso", ".tar", ".sqsh", ".img")) else None
    return None


_ZIP = row(
    "TT unzip-command b t tt n i x P password O out temp-path suffixes include exclude",
    Step(does="runs TT unzip-command"),
    Step(words="(?!- ).*", does="write :1"),
    Step(lacks="m move", does="read-deep 1:"),
    Step(has="m move", does="read-deep+wipe 1:"),
    Step(does="write O out"),
)


def _passed(call: Call, found: Options) -> Stream:
    return Stream(None, None, call.stdin.source or "computed", call.stdin.endless and not found.operands)


_KEEPS = "c stdout l list t test k keep dc cd to-stdout"
_COMPRESSOR = row(
    "S T M b o D suffix threads memlimit output-dir-flat",
    Step(has=_KEEPS, does="read+ends 0:"),
    Step(lacks=_KEEPS, does="read+ends+write 0:"),
    Step(does="write o"),
    output=_passed,
)
"""gzip and its like put a file in the place of another, or print with -c."""
PROGRAMS: dict[str, Handler] = {
    "tar gtar bsdtar star": judge_tar,
    "zip": _ZIP,
    "unzip": judge_unzip,
    "7z 7za 7zr 7zz rar unrar ar cpio pax mksquashfs unsquashfs genisoimage mkisofs": judge_archiver,
    "gzip gunzip bzip2 bunzip2 pbzip2 pigz unpigz xz unxz lzma unlzma zstd unzstd lz4 compress uncompress "
    "lzip lzop brotli": _COMPRESSOR,
}
