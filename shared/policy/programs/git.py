"""git: where it works, the commands it runs, and what it fetches; the rest are rows."""

import re

from shared.policy.call import Call, Handler
from shared.policy.paths import Place
from shared.policy.programs.fetching import judge_address
from shared.policy.scope import Word
from shared.policy.words import Options, parse_options

_GLOBAL = "C c git-dir work-tree namespace exec-path super-prefix config-env attr-source list-cmds"
_SHOWS = frozenset(
    "status log diff show blame rev-parse rev-list ls-files ls-tree cat-file grep describe shortlog".split()
)
_ADDRESS = re.compile(r"(?:[a-z+]+://|[\w.-]+@)([\w.-]+)")
_READS = {"commit", "add", "hash-object", "blame", "diff", "apply", "am"}
_RUNS = {"x", "exec", "upload-pack", "receive-pack", "extcmd", "tree-filter", "index-filter", "msg-filter"}


def judge_git(call: Call) -> None:
    """One of git's own commands, with its options before it."""
    found = parse_options(call.args, _GLOBAL, permute=False)
    for word in found.of("c config-env"):
        _judge_setting(call, *word.text.partition("=")[::2])
    for word in found.of("git-dir"):
        if call.place(word) is not Place.WORKSPACE:
            call.find("git.executes")
    if found.values:
        call.scope = call.scope.branch()
    for word in [*found.of("C"), *found.of("work-tree")]:
        call.scope.cwd = call.path(word)
    if not found.operands:
        return
    name, words = found.operands[0], found.operands[1:]
    if name.hidden or not name.known:
        call.find("unclear.command")
        return
    _judge_command(call, name.text, words)
    call.judge_outputs()


def _judge_command(call: Call, name: str, words: list[Word]) -> None:
    found = parse_options(
        words,
        "b branch o origin u upload-pack depth j x exec F file t template m message c config onto extcmd C",
    )
    if name not in _SHOWS and call.place(Word(".")) not in {Place.WORKSPACE, Place.SCRATCH, Place.UNKNOWN}:
        call.find("destroy.outside-workspace", call.scope.cwd or "")
    for word in [word for option in _RUNS for word in found.values.get(option, ())]:
        call.script(word.text)
    _judge_words(call, name, words, found)


def _judge_words(call: Call, name: str, words: list[Word], found: Options) -> None:
    rest = [word for word in words if not word.text.startswith("-")]
    if name == "config" and len(rest) > 1:
        _judge_setting(call, rest[0].text, rest[1].text)
    elif name == "bisect" and rest and rest[0].text == "run":
        call.run(words[1:])
    elif name == "submodule" and rest and rest[0].text == "foreach":
        call.script(" ".join(word.text for word in rest[1:]))
    elif name == "clone" and found.operands:
        _judge_clone(call, found.operands)
    elif name in {"fetch", "pull", "ls-remote", "push"} and rest and (match := _ADDRESS.match(rest[0].text)):
        call.need(f"host:{match[1]}")
    elif name in {"rm", "clean"} and not found.has("cached n dry-run"):
        for word in found.operands:
            call.delete(word, deep=True)
    for word in words if name in _READS else ():
        if word.text.startswith(("/", "~", "..")):
            call.read(word)
    for word in rest if name in {"init", "bundle", "worktree", "archive", "format-patch"} else ():
        if word.text.startswith(("/", "~")):
            call.write(word, create=name == "worktree")


def _judge_setting(call: Call, key: str, value: str) -> None:
    """git runs the value of an alias, and of some settings: those are rows too."""
    if key.lower().startswith("alias.") and not value.startswith("!"):
        call.run([Word("git"), *(Word(part) for part in value.split())])
    elif value.startswith("!") or re.search(r"(?i)command|pager|editor|fsmonitor|filter|cmd$", key):
        call.script(value.lstrip("!"))


def _judge_clone(call: Call, words: list[Word]) -> None:
    source = words[0].text
    folder = words[1] if len(words) > 1 else Word(re.sub(r"\.git/?$|/$", "", source).rsplit("/", 1)[-1])
    call.write(folder, create=True)
    if match := _ADDRESS.match(source):
        judge_address(call, words[0]) if "://" in source else call.need(f"host:{match[1]}")
        call.scope.fetched.add(call.path(folder) or "")
    elif "\0" in source:
        call.need("network")
    else:
        call.read(words[0], deep=True)


PROGRAMS: dict[str, Handler] = {"git": judge_git}
