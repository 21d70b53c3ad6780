"""Programs that edit, rename, compress and mirror files."""

import re

from shared.policy.call import Call
from shared.policy.expansion import UNKNOWN
from shared.policy.paths import Place
from shared.policy.scope import Stream
from shared.policy.words import Word

_SED_RUN = re.compile(r"(?:^|[;\n{}]|[\d$]\s*|/[IM]*\s*)\s*e(\s+\S|\s*$|;)")
_EMPTIES = re.compile(r"(1,\$|/\.?\*?/)?d|s(.)\^?\.\*\$?\2\2g?").fullmatch
"""What leaves a file without its lines, or its lines without their text."""
_SED_SUBSTITUTE = re.compile(
    r"s(?P<d>[/|#,@:!%_])(?:\\.|(?!(?P=d)).)*(?P=d)(?:\\.|(?!(?P=d)).)*(?P=d)(?P<flags>[\w]*)", re.DOTALL
)


def judge_sed(call: Call) -> Stream | None:
    """sed prints what it edits, or writes it; its own language can write files and run commands."""
    found = call.options("e f l expression file line-length i0")
    scripts = [word.text for word in found.of("e expression")]
    for word in found.of("f file"):
        given = (
            call.stdin if word.text in {"-", "/dev/stdin"} else call.scope.files.get(call.path(word) or "")
        )
        if given is not None:
            scripts.append(given.text if given.text is not None else UNKNOWN)
            continue
        if call.place(word) is not Place.WORKSPACE:
            call.find("run.outside", word.text)
        call.read(word)
    files = found.operands
    if not scripts and not found.of("f file"):
        scripts, files = [word.text for word in files[:1]], files[1:]
    inplace = found.has("i in-place") or any(
        flag.startswith(("i", "ni", "Ei", "ri")) and flag != "i" for flag in found.flags
    )
    for script in scripts:
        _judge_sed_script(call, script)
        if inplace and _EMPTIES(script.replace(" ", "")):
            for word in files:
                call.delete(word, deep=True, force=True)
    for word in files:
        if inplace:
            call.write(word)
        else:
            call.query(word)
    quits = any(re.search(r"\d\s*[qQ]|[;{]\s*[qQ]", script) for script in scripts)
    return Stream(None, None, "made", call.stdin.endless and not files and not quits)


def _judge_sed_script(call: Call, script: str) -> None:
    if UNKNOWN in script and len(script) == 1:
        call.find("unclear.code", "sed")
        return
    for match in _SED_SUBSTITUTE.finditer(script):
        if "e" in match["flags"]:
            call.find("unclear.command")
        if match["flags"].endswith("w"):
            target = script[match.end() :].strip().split("\n")[0]
            call.write(Word(target.split(";")[0].strip() or UNKNOWN))
    rest = _SED_SUBSTITUTE.sub(";", script)
    rest = re.sub(r"/(?:\\.|[^/\n])*/", "/", rest)
    rest = re.sub(r"(?:^|[;\n{}\d$/])\s*[aic]\s*(\\|\s).*", "", rest)
    if _SED_RUN.search(rest):
        call.find("unclear.command")
    for match in re.finditer(r"(?:^|[;\n{}\d$/])\s*([wWrR])\s*([^\s;}]+)", rest):
        if match[1] in "wW":
            call.write(Word(match[2]))
        else:
            call.read(Word(match[2]))


def judge_rename(call: Call) -> None:
    """rename moves many files by a pattern, which is Perl in one of its kinds."""
    found = call.options("e")
    if any(
        re.search(r"system|exec|`|qx|unlink|/e", word.text) for word in [*found.operands[:1], *found.of("e")]
    ):
        call.find("unclear.code", "rename")
    for word in found.operands[1:]:
        if call.place(word) is not Place.UNKNOWN:
            call.write(word)


def judge_compressor(call: Call) -> Stream | None:
    """gzip and its like put a file in the place of another, or print with -c."""
    found = call.options("S T M b o D suffix threads memlimit output-dir-flat")
    for word in found.operands:
        call.read(word)
        if call.is_endless(word):
            call.find("exhaust.endless")
        if not found.has("c stdout l list t test k keep dc cd to-stdout"):
            call.write(word)
    call.apply(found, "write o")
    return Stream(None, None, call.stdin.source or "made", call.stdin.endless and not found.operands)


def judge_rsync(call: Call) -> None:
    """It copies whole folders, to another machine too, and can delete what is not in the source."""
    found = call.options(
        "e rsh rsync-path f filter exclude include exclude-from include-from files-from T temp-dir "
        "backup-dir log-file password-file port bwlimit max-size min-size info out-format compare-dest "
        "copy-dest link-dest B chmod chown"
    )
    for word in found.of("e rsh rsync-path"):
        if word.text.rsplit("/", 1)[-1].split()[:1] != ["ssh"]:
            call.find("unclear.command")
        call.script(word.text)
    call.apply(found, "write log-file")
    operands = found.operands
    remote = [word for word in operands if re.match(r"([\w.@-]+:|rsync://)", word.text)]
    dry = found.has("n dry-run list-only")
    if remote and not dry:
        call.find("network.send" if operands and operands[-1] in remote else "network.fetch")
    for word in operands[:-1]:
        if word not in remote:
            call.read(word, deep=True)
    if operands[1:] and operands[-1] not in remote and not dry:
        call.write(operands[-1])
        if any(flag.startswith("del") for flag in found.flags) or found.has("remove-source-files"):
            call.delete(operands[-1], deep=True, force=True)
    if found.has("remove-source-files") and not dry:
        for word in operands[:-1]:
            call.delete(word, deep=True, force=True)
