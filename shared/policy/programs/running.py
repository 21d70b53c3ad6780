"""Programs that run another command, given or fed to them: it is judged in their place."""

import re
import shlex

from shared.policy.call import Call, Handler, judge_variable
from shared.policy.expansion import UNKNOWN
from shared.policy.scope import NOTHING, Stream, Word

_VALUED = {
    "nice": "n adjustment", "ionice": "c n p t class classdata", "stdbuf": "i o e input output error",
    "timeout gtimeout": "s k signal kill-after", "time gtime": "f o format output", "watch": "n interval d",
    "hyperfine": "r w m n p c", "strace ltrace": "e o p s a E u P O S b I", "numactl": "m N C",
    "cpulimit": "l p e",
    "flock": "w E timeout conflict-exit-code c command", "sudo": "u g h p C r t U user group", "doas": "u C",
    "runuser": "u g c", "su": "c s command shell", "script": "c T t O I B command", "exec": "a",
    "chroot": "userspec groups",
    "nsenter": "t target S G", "xvfb-run": "n s e a", "perf": "e F o i c r p t C g",
    "ssh": "p i l o F J L R D b c E e m O Q S W w",
}  # fmt: skip
_OPTIONS = {name: valued for names, valued in _VALUED.items() for name in names.split()}
"""Options of wrappers that take a value; the others have none."""
_SKIPS = {
    "timeout": 1,
    "gtimeout": 1,
    "taskset": 1,
    "chrt": 1,
    "faketime": 1,
    "flock": 1,
    "chroot": 1,
    "perf": 1,
    "ssh": 1,
}
"""How many operands are the wrapper's own: a time, a file, a root, a host."""
_TEXTS = {"watch", "hyperfine", "ssh", "script"}  # Wrappers that take the command as one text


def judge_wrapped(call: Call) -> Stream | None:
    """The command behind the wrapper's own options."""
    found = call.options(_OPTIONS.get(call.name, ""), permute=False)
    for word in found.of("c command") if call.name in {"su", "script", "flock", "runuser"} else ():
        call.script(word.text)
    call.apply(found, "write o output")
    if call.name == "ssh" and call.stdin is not NOTHING:
        call.find("network.send")
    words = found.operands[_SKIPS.get(call.name, 0) :]
    if call.name == "flock" and words and words[0].text == "-c":
        words = words[1:2]
    if words and (call.name in _TEXTS or (call.name == "flock" and " " in words[0].text)):
        return call.script(" ".join(word.text for word in words))
    return call.run(words) if words and call.name != "su" else None


def judge_command(call: Call) -> Stream | None:
    """command, builtin: the rest is a command."""
    found = call.options("", permute=False)
    return None if found.has("v V") else call.run(found.operands)


def judge_cmake(call: Call) -> Stream | None:
    """cmake -E is a set of small programs."""
    words = list(call.args)
    if words and words[0].text == "-E":
        if len(words) > 3 and words[1].text == "chdir":
            call.scope = call.scope.branch()
            call.scope.cwd, words = call.path(words[2]), words[2:]
        return call.run(words[1:])
    for word in words:
        call.read(word)
    return None


def judge_env(call: Call) -> Stream | None:
    """env sets variables and runs the rest."""
    found = call.options("u S C unset split-string chdir a argv0", permute=False)
    words = list(found.operands)
    for word in found.of("S split-string"):
        try:
            words = [Word(part) for part in shlex.split(word.text)] + words
        except ValueError:
            call.find("unclear.command")
    scope = call.scope = call.scope.branch()
    for word in found.of("C chdir"):
        scope.cwd = call.path(word)
    while words and re.match(r"[A-Za-z_]\w*=", words[0].text):
        name, _, value = words.pop(0).text.partition("=")
        judge_variable(call, name, value)
        scope.assign(name, value)
    return call.run(words)


_RUNNERS = frozenset("sh bash dash zsh ksh eval env sudo python python3 perl ruby node xargs".split())
_FED = Word(UNKNOWN, computed=True)


def judge_xargs(call: Call) -> Stream | None:
    """xargs runs a command on what it is fed."""
    found = call.options(
        "a d E I i L n P s arg-file delimiter max-args max-procs max-lines replace max-chars J R S",
        permute=False,
    )
    call.apply(found, "read a arg-file")
    words = found.operands or [Word("echo")]
    fed = _fed_words(call)
    marks = [word.text for word in found.of("I replace J")] or (["{}"] if found.has("i replace") else [])
    if call.stdin.source in {"network", "computed"} and words[0].text.rsplit("/", 1)[-1] in _RUNNERS:
        call.find("run.download" if call.stdin.source == "network" else "unclear.input", call.name)
    if not marks:
        return call.run([*words, *fed], stdin=Stream())
    if any(marks[0] == word.text for word in words[1:] if words[0].text.rsplit("/", 1)[-1] in _RUNNERS):
        call.find("unclear.command")
    lines = [Word(line) for line in (call.stdin.text or "").splitlines()[:8]] or fed[:1]
    for line in lines:
        call.run([_fill(word, marks[0], line) for word in words], stdin=Stream())
    return None


def _fill(word: Word, mark: str, fed: Word) -> Word:
    return Word(word.text.replace(mark, fed.text), True, word.obfuscated) if mark in word.text else word


def _fed_words(call: Call) -> list[Word]:
    stream = call.stdin
    if stream.text is not None:
        return [Word(text) for text in stream.text.split()[:32]] or [_FED]
    if stream.paths is not None:
        return [Word(path, True) for path in stream.paths] or [_FED]
    return [_FED]


_MARK = re.compile(r"\{[./]*\}")


def judge_parallel(call: Call) -> None:
    """parallel runs a command for each of its arguments."""
    found = call.options(
        "j S a I colsep arg-file jobs sshlogin joblog results tmpdir timeout delay N n L", permute=False
    )
    words, given = list(found.operands), []
    for position, word in enumerate(words):
        if word.text.startswith(":::"):
            given = [one for one in words[position + 1 :] if not one.text.startswith(":::")]
            words = words[:position]
            break
    given = given or _fed_words(call)
    if not words and not any(word.known for word in given):
        call.find("unclear.input", call.name)
    for word in given[:32]:
        filled = [Word(_MARK.sub(word.text.replace("\\", ""), one.text)) for one in words]
        if len(filled) < 2 and (not filled or " " in filled[0].text):
            call.script(filled[0].text if filled else word.text)
        else:
            call.run(filled if any("{" in one.text for one in words) else [*words, word])


def judge_make(call: Call) -> None:
    """make runs recipes, also those of a makefile it is fed, and its variables."""
    if call.scope.is_fetched(call.scope.cwd or ""):
        call.find("run.download")
    found = call.options("f C j o W I file makefile directory", permute=True)
    for word in found.of("f file makefile"):
        stream = call.stdin if word.text == "-" else call.scope.files.get(call.path(word) or "")
        if stream is not None and stream.text is None:
            call.find("unclear.input", call.name)
        if stream is None and word.text.startswith(("/", "~")):
            call.find("run.outside", word.text)
        for line in (stream.text or "").splitlines() if stream else ():
            call.script(line.split(":", 1)[-1].lstrip(" ;\t@-"))
    for word in found.operands:
        _, equals, value = word.text.partition("=")
        if equals and " " in value:
            call.script(value)


PROGRAMS: dict[str, Handler] = {
    "nice ionice nohup setsid stdbuf unbuffer chrt taskset setarch linux64 linux32 timeout gtimeout time "
    "gtime watch then else do caffeinate eatmydata faketime dbus-run-session xvfb-run hyperfine strace "
    "ltrace valgrind numactl cpulimit softlimit rlwrap chronic ifne flock fakeroot ! sudo doas pkexec su "
    "runuser chroot nsenter unshare exec coproc busybox toybox script entr perf torsocks proxychains "
    "firejail bwrap ssh": judge_wrapped,
    "ld.so ld-linux.so ld-linux-x86-64.so.2 ld-linux.so.2 ld-linux-aarch64.so.1": judge_wrapped,
    "command builtin": judge_command,
    "cmake": judge_cmake,
    "env": judge_env,
    "xargs gxargs": judge_xargs,
    "parallel": judge_parallel,
    "make gmake": judge_make,
}
