"""git's commands: what can be brought back, and what cannot."""

from collections.abc import Callable

from shared.policy.call import Call
from shared.policy.options import parse_options
from shared.policy.programs.git_remotes import (
    judge_clone,
    judge_fetch,
    judge_lfs,
    judge_push,
    judge_remote,
    judge_submodule,
)
from shared.policy.programs.git_settings import judge_config
from shared.policy.programs.git_tree import (
    judge_add,
    judge_am,
    judge_checkout,
    judge_clean,
    judge_mv,
    judge_reset,
    judge_restore,
    judge_rm,
    judge_stash,
    judge_switch,
    judge_worktree,
)
from shared.policy.words import Word


def _branch(call: Call, words: list[Word]) -> None:
    found = parse_options(
        words, "u set-upstream-to contains no-contains merged no-merged points-at sort format"
    )
    delete = found.has("d", "delete", "dr")
    if found.has("D", "M", "C", "f", "force") or (delete and found.has("r", "remotes")):
        call.find("git.history")
    if found.has("edit-description"):
        call.find("unknown.use")


def _reflog(call: Call, words: list[Word]) -> None:
    if words and words[0].text in {"expire", "delete"}:
        call.find("git.history")


def _gc(call: Call, words: list[Word]) -> None:
    if parse_options(words).has("prune", "aggressive", "force") and any(
        "now" in word.text or "all" in word.text for word in words
    ):
        call.find("git.history")


def _always(rule: str) -> "Judge":
    return lambda call, _: call.find(rule)


def _update_ref(call: Call, words: list[Word]) -> None:
    call.find("git.history")


def _tag(call: Call, words: list[Word]) -> None:
    if parse_options(words, "m F u").has("d", "delete", "f", "force"):
        call.find("git.history")


def _symbolic(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "m")
    if len(found.operands) > 1 or found.has("d", "delete"):
        call.find("git.history")


def _init(call: Call, words: list[Word]) -> None:
    for word in parse_options(words, "b initial-branch template object-format shared").operands:
        call.write(word, gently=True)


def _trailers(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "trailer where if-exists if-missing")
    for word in found.operands if found.has("in-place") else ():
        call.write(word)


def _commit(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "m message F file C c reuse-message author date t template u S")
    if found.has("n"):
        call.find("git.config")
    for word in found.of("F", "file", "t", "template"):
        call.read(word)


def _maintenance(call: Call, words: list[Word]) -> None:
    if words and words[0].text in {"start", "register"}:
        call.find("persist.schedule")


def _rebase(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "x exec onto s X strategy")
    for word in found.of("x", "exec"):
        call.find("git.executes")
        call.script(word.text)
    if found.has("X"):
        call.find("git.history")


def _bisect(call: Call, words: list[Word]) -> None:
    if words and words[0].text == "run":
        call.run(words[1:])


def _tool(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "x extcmd t tool")
    for word in found.of("x", "extcmd"):
        call.find("git.executes")
        call.script(word.text)


def _diff(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "U S G O output diff-filter word-diff-regex")
    if found.has("no-index"):
        for word in found.operands:
            call.read(word)


Judge = Callable[[Call, list[Word]], None]

COMMANDS: dict[str, Judge] = {
    "config": judge_config,
    "reset": judge_reset,
    "clean": judge_clean,
    "checkout": judge_checkout,
    "switch": judge_switch,
    "restore": judge_restore,
    "push": judge_push,
    "branch": _branch,
    "stash": judge_stash,
    "reflog": _reflog,
    "gc": _gc,
    "prune": _always("git.history"),
    "filter-branch": _always("git.history"),
    "filter-repo": _always("git.history"),
    "update-ref": _update_ref,
    "symbolic-ref": _symbolic,
    "replace": _always("git.history"),
    "tag": _tag,
    "remote": judge_remote,
    "rm": judge_rm,
    "worktree": judge_worktree,
    "clone": judge_clone,
    "commit": _commit,
    "init": _init,
    "interpret-trailers": _trailers,
    "mv": judge_mv,
    "maintenance": _maintenance,
    "fetch": judge_fetch,
    "pull": judge_fetch,
    "rebase": _rebase,
    "bisect": _bisect,
    "submodule": judge_submodule,
    "lfs": judge_lfs,
    "am": judge_am,
    "apply": judge_am,
    "difftool": _tool,
    "mergetool": _tool,
    "add": judge_add,
    "diff": _diff,
    "stage": judge_add,
    "checkout-index": _always("git.discard"),
    "read-tree": _always("git.discard"),
    "credential": _always("secret.store"),
    "credential-store": _always("secret.store"),
    "credential-cache": _always("secret.store"),
    "send-email": _always("network.send"),
    "imap-send": _always("network.send"),
    "daemon": _always("network.listen"),
    "instaweb": _always("network.listen"),
    "http-backend": _always("network.listen"),
    "svn": _always("git.remote"),
    "p4": _always("git.remote"),
    "shell": _always("unclear.command"),
    "upload-pack": _always("git.executes"),
    "receive-pack": _always("git.executes"),
    "fast-import": _always("git.history"),
    "prune-packed": _always("git.history"),
    "unpack-objects": _always("git.history"),
    "sh-setup": _always("git.executes"),
    "hook": _always("git.executes"),
    "for-each-repo": _always("git.executes"),
    "gui": _always("unknown.use"),
    "filter-process": _always("git.executes"),
}

"""Commands that do more than look and record."""
