"""Programs on texts that do more than read and print: cat, tee, grep, head, sort, split, pagers."""

import re

from shared.policy import secrets
from shared.policy.call import Call, Handler
from shared.policy.paths import is_table
from shared.policy.programs.readers import LS
from shared.policy.scope import NOTHING, Stream


def judge_cat(call: Call) -> Stream | None:
    """What it is fed, or a file the script itself wrote, goes on as it is."""
    found = call.options()
    streams = []
    for word in found.operands:
        if word.text in {"-", "/dev/stdin"}:
            streams.append(call.stdin)
        elif is_table(call.path(word) or "") and call.query(word):
            streams.append(Stream(source=call.path(word) or ""))
        else:
            streams.append(call.shell.reads(word, call.scope))
    if not found.operands:
        return call.stdin
    if len(streams) == 1:
        return streams[0]
    texts = [stream.text for stream in streams]
    source = next((stream.source for stream in streams if stream.source), "")
    text = "".join(text or "" for text in texts) if None not in texts else None
    return Stream(text, None, source, any(stream.endless for stream in streams))


def judge_tee(call: Call) -> Stream | None:
    """It writes files and passes on what it is fed."""
    for word in call.options("output-error").operands:
        call.write(word, output=call.stdin)
    return call.stdin


def judge_grep(call: Call) -> Stream | None:
    """It reads files, all of a folder with -r; what it looks for may be credentials."""
    found = call.options(
        "e f m A B C D d color colour include exclude exclude-dir exclude-from regexp file max-count "
        "after-context before-context context binary-files label g glob t type T type-not iglob M "
        "max-columns pre pre-glob j threads"
    )
    if found.has("pre"):
        call.find("unclear.command")
    call.apply(found, "read f file exclude-from")
    patterns = found.of("e regexp")
    operands = found.operands
    if not patterns and not found.has("f file files"):
        patterns, operands = operands[:1], operands[1:]
    deep = call.name in {"rgrep", "rg", "ag", "ack"} or found.has("r R recursive dereference-recursive")
    outside = False
    for word in operands:
        if deep:
            call.read(word, deep)
        else:
            call.query(word)
        outside |= call.place(word).name in {"HOME", "SYSTEM", "KERNEL", "ELSEWHERE"} and deep
        if call.is_endless(word):
            call.find("exhaust.endless")
    if outside and any(secrets.is_sought(word.text) for word in patterns):
        call.find("secret.search")
    listed = any("l" in flag and "-" not in flag for flag in found.flags) or found.has("files-with-matches")
    paths = (
        tuple(f"{word.text.rstrip('/')}/found*" if deep else word.text for word in operands)
        if listed
        else None
    )
    return Stream(None, paths or None, "computed", call.stdin.endless and not operands)


def judge_head(call: Call) -> Stream | None:
    """It ends what is endless; much of it still fills a disk."""
    found = call.options("n c lines bytes")
    for word in found.of("c bytes"):
        if is_large(word.text):
            call.find("exhaust.large")
    for word in found.operands:
        call.query(word)
        if call.is_endless(word) and not found.has("c bytes n lines"):
            call.find("exhaust.endless")
    text = (
        call.stdin.text
        if not found.operands and call.stdin.text and "\n" not in call.stdin.text.strip("\n")
        else None
    )
    return Stream(
        text if not found.has("c bytes") else None, call.stdin.paths, call.stdin.source or "computed"
    )


def is_large(size: str) -> bool:
    """Whether a size such as ``10G`` is beyond 2 GB, more than the everyday."""
    digits = size.strip("+-=").rstrip("iBbytes ")
    unit = digits[-1:].upper()
    factor = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}.get(unit, 0)
    try:
        return float(digits[:-1] if factor else digits) * float(1024**factor) > 2 * 1024**3
    except ValueError:
        return False


def judge_decoder(call: Call) -> Stream | None:
    """base64, xxd and the like: what comes out was not readable before."""
    found = call.options("w wrap i o c l s g cols len seek input output")
    call.apply(found, "read :1")
    if call.name in {"xxd", "uuencode", "uudecode"}:
        call.apply(found, "write 1:")
    call.apply(found, "write o output")
    source = "network" if call.stdin.source == "network" else "computed"
    return Stream(None, None, source, call.stdin.endless and not found.operands)


def judge_sort(call: Call) -> Stream | None:
    """sort reads and writes files, and runs what compresses its temporary ones."""
    found = call.options(
        "k t S T o output key field-separator buffer-size temporary-directory compress-program parallel "
        "batch-size files0-from random-source sort"
    )
    if call.stdin.endless and not found.operands:
        call.find("exhaust.endless")
    for word in found.of("compress-program"):
        call.find("unclear.command")
        call.run([word])
    call.apply(found, "write o output")
    for word in [*found.operands, *found.of("files0-from random-source")]:
        call.query(word)
        if call.is_endless(word):
            call.find("exhaust.endless")
    return Stream(None, None, "computed")


def judge_split(call: Call) -> None:
    """split writes pieces; ``--filter`` runs a command for each."""
    found = call.options(
        "a b C l n t filter additional-suffix suffix-length bytes lines line-bytes number separator f prefix"
    )
    for word in found.of("filter"):
        if re.match(r"\s*(\S*/)?(ba|da|z|k|a)?sh\b", word.text):
            call.find("unclear.command")
        call.script(word.text)
    call.apply(found, "read :1")
    for word in [*(found.operands[1:2] if call.name == "split" else ()), *found.of("f prefix")]:
        call.write(word)


def judge_pager(call: Call) -> Stream | None:
    """A pager: it runs other programs when it is told to."""
    found = call.options("o O k T p x y z P t b h j log-file LOG-FILE tag pattern prompt")
    for word in [*found.of("o O log-file LOG-FILE")]:
        call.write(word)
    for word in found.operands:
        if word.text.startswith("+!") or word.text.startswith("+|"):
            call.run_hidden(word.text[2:])
        elif not word.text.startswith("+"):
            call.read(word)
    return call.stdin if not found.operands else None


def judge_ls(call: Call) -> Stream | None:
    """It lists names: those asked for, or those of the folder it is in."""
    found = call.options(LS.options)
    call.apply(found, "stat 0:")
    names = [word.text for word in found.operands if word.glob]
    return Stream(None, tuple(names) or ("*",))


def judge_nothing(call: Call) -> Stream | None:
    """It does nothing, and prints nothing."""
    return NOTHING


PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys([":", "true", "false"], judge_nothing),
    **dict.fromkeys(["ls", "gls"], judge_ls),
    "cat": judge_cat,
    "tee": judge_tee,
    **dict.fromkeys(
        "grep ggrep egrep fgrep rgrep rg ag ack zgrep bzgrep xzgrep zegrep zfgrep pcregrep".split(),
        judge_grep,
    ),
    "head": judge_head,
    **dict.fromkeys("base64 base32 basenc xxd uuencode uudecode base58 basez".split(), judge_decoder),
    **dict.fromkeys(["sort", "gsort"], judge_sort),
    "split": judge_split,
    "csplit": judge_split,
    **dict.fromkeys("less more most pg".split(), judge_pager),
}
