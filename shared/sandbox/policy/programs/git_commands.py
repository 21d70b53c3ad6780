"""git's commands: what can be brought back, and what cannot."""

import re
from collections.abc import Callable

from shared.sandbox.policy.call import Call
from shared.sandbox.policy.options import parse_options
from shared.sandbox.policy.programs.fetching import judge_address
from shared.sandbox.policy.words import Word

_RUNS_KEYS = re.compile(
    r"(core\.(pager|editor|sshcommand|askpass|hookspath|fsmonitor|gitproxy|attributesfile|worktree"
    r"|alternaterefscommand)"
    r"|alias\..*|pager\..*|sequence\.editor|filter\..*|diff\..*\.(command|textconv)|diff\.external"
    r"|merge\..*\.driver"
    r"|(merge|diff)tool\..*\.(cmd|path)|credential\..*|credential\.helper|gpg\.program"
    r"|gpg\..*\.program|init\.templatedir"
    r"|uploadpack\.packobjectshook|remote\..*\.(uploadpack|receivepack|vcs|proxy)|protocol\..*"
    r"|url\..*\.(insteadof|pushinsteadof)"
    r"|include\.path|includeif\..*|http\.(proxy|sslverify|extraheader|cookiefile)"
    r"|submodule\..*\.update|interactive\.difffilter"
    r"|sendemail\..*|web\.browser|browser\..*|instaweb\..*|man\..*|trailer\..*\.(cmd|command)"
    r"|tar\..*\.command|receive\..*|ssh\.variant"
    r"|extensions\..*|difftool\..*|guitool\..*|safe\.directory)$",
    re.IGNORECASE,
)

_ADDRESS = re.compile(r"^([a-z+]+://|[\w.-]+@[\w.-]+:|ext::)", re.IGNORECASE)


def judge_config(call: Call, key: str, value: str) -> None:
    """Judge that git's setting ``key`` becomes ``value``: some name programs that git then runs."""
    if _RUNS_KEYS.match(key):
        harmless = key.lower() in {"core.pager", "core.editor", "safe.directory"} and value in {
            "cat",
            "less",
            "vim",
            "nano",
            "",
            "true",
            ":",
            "code --wait",
        }
        if not harmless:
            call.find("git.executes", f"Setting {key}")
            call.script(value.lstrip("!"))


def _config(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "f file blob type default")
    for word in found.of("f", "file"):
        call.write(word)
    operands = [word.text for word in found.operands]
    if operands[:1] and operands[0] in {"get", "list", "set", "unset", "edit", "get-all"}:
        if operands[0] in {"get", "list", "get-all"}:
            return
        operands = operands[1:]
    if found.has("get", "list", "l", "get-all", "get-regexp", "get-urlmatch", "show-origin", "get-color"):
        return
    if found.has("e", "edit"):
        call.find("git.config")
    if found.has("global", "system"):
        call.find("git.config")
    if len(operands) > 1 or found.has(
        "unset", "unset-all", "add", "replace-all", "rename-section", "remove-section"
    ):
        judge_config(call, operands[0] if operands else "", operands[1] if len(operands) > 1 else "")


def _reset(call: Call, words: list[Word]) -> None:
    if parse_options(words).has("hard", "merge", "keep", "har", "mer"):
        call.find("git.discard")


def _clean(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "e exclude")
    if found.has("n", "dry-run"):
        return
    call.find("git.discard")
    for word in found.operands:
        call.delete(word, deep=True)


def _checkout(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "b B orphan t0 conflict pathspec-from-file")
    texts = [word.text for word in words]
    if (
        found.has("p", "patch", "f", "force", "B", "ours", "theirs", "m", "pathspec-from-file")
        or "--" in texts
        or (
            not found.has("b", "orphan", "d", "detach", "t", "track")
            and (len(found.operands) > 1 or any(_is_file(word.text) for word in found.operands))
        )
    ):
        call.find("git.discard")


def _is_file(text: str) -> bool:
    """Whether a word is a file rather than a branch: ``.``, ``src/``, ``a.py``, ``*.py``."""
    return bool(
        text in {".", ":/", "*"} or text.startswith(("./", "../", ":")) or text.endswith("/") or "*" in text
    ) or bool(
        re.search(
            r"(?<!\d)\.(py|js|ts|tsx|jsx|md|txt|json|ya?ml|toml|c|h|cpp|go|rs|java|rb|sh|html|css"
            r"|cfg|ini|lock"
            r"|xml|sql)$",
            text,
        )
    )


def _switch(call: Call, words: list[Word]) -> None:
    if parse_options(words, "c C orphan").has("f", "force", "discard-changes", "C", "m", "merge"):
        call.find("git.discard")


def _restore(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "s source")
    if not found.has("S", "staged", "stage") or found.has("W", "worktree"):
        call.find("git.discard")


def _push(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "o push-option repo receive-pack exec")
    if found.has("n", "dry-run"):
        return
    if found.has(
        "f", "force", "force-with-lease", "force-if-includes", "mirror", "prune", "d", "delete"
    ) or any(word.text.startswith(("+", ":")) for word in found.operands[1:]):
        call.find("git.history")
    elif found.operands and not re.fullmatch(r"[\w.-]+", found.operands[0].text):
        call.find("network.send")
    elif found.has("all", "repo"):
        call.find("git.remote")
    if any(not word.known for word in found.operands[1:]):
        call.find("git.remote")


def _branch(call: Call, words: list[Word]) -> None:
    found = parse_options(
        words, "u set-upstream-to contains no-contains merged no-merged points-at sort format"
    )
    delete = found.has("d", "delete", "dr")
    if found.has("D", "M", "C", "f", "force") or (delete and found.has("r", "remotes")):
        call.find("git.history")
    if found.has("edit-description"):
        call.find("unknown.use")


def _stash(call: Call, words: list[Word]) -> None:
    if words and words[0].text in {"drop", "clear"}:
        call.find("git.discard")


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


def _remote(call: Call, words: list[Word]) -> None:
    if words and words[0].text in {"add", "set-url", "remove", "rm", "rename", "set-head", "prune", "update"}:
        call.find("git.remote")


def _rm(call: Call, words: list[Word]) -> None:
    found = parse_options(words)
    if found.has("cached", "n", "dry-run"):
        return
    if found.has("r", "f", "force"):
        call.find("git.discard")
    for word in found.operands:
        call.delete(word)


def _worktree(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "b B reason")
    if words and words[0].text == "remove" and found.has("f", "force"):
        call.find("git.discard")
    for word in found.operands[1:2]:
        if words[0].text in {"add", "move"}:
            call.write(word, gently=True)


def _clone(call: Call, words: list[Word]) -> None:
    found = parse_options(
        words,
        "b branch c config o origin u upload-pack template reference depth j jobs separate-git-dir filter",
    )
    for word in found.of("c", "config"):
        judge_config(call, word.text.partition("=")[0], word.text.partition("=")[2])
    if found.has("u", "upload-pack", "template"):
        call.find("git.executes")
    if not found.operands:
        return
    source = found.operands[0].text
    folder = (
        found.operands[1]
        if len(found.operands) > 1
        else Word(re.sub(r"\.git/?$|/$", "", source).rsplit("/", 1)[-1])
    )
    call.write(folder, gently=True)
    if _ADDRESS.match(source):
        if not source.startswith("https://"):
            call.find("git.remote")
        judge_address(call, found.operands[0])
        call.scope.fetched.add(call.path(folder) or "")


def _fetch(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "upload-pack depth j jobs o s X strategy")
    if found.has("upload-pack"):
        call.find("git.executes")
    if found.operands and _ADDRESS.match(found.operands[0].text):
        call.find("git.remote")
    if found.has("f", "force", "X"):
        call.find("git.discard")


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


def _lfs(call: Call, words: list[Word]) -> None:
    if words and words[0].text in {"prune", "uninstall", "migrate", "push", "install"}:
        call.find("git.history")


def _submodule(call: Call, words: list[Word]) -> None:
    if words and words[0].text == "foreach":
        rest = [word for word in words[1:] if not word.text.startswith("-")]
        call.script(" ".join(word.text for word in rest))
    elif words and words[0].text in {"add", "deinit", "set-url"}:
        call.find("git.remote")


def _am(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "p C directory exclude include whitespace")
    for word in found.operands:
        call.read(word)
    if found.has("unsafe-paths"):
        call.find("write.unpack")


def _tool(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "x extcmd t tool")
    for word in found.of("x", "extcmd"):
        call.find("git.executes")
        call.script(word.text)


def _add(call: Call, words: list[Word]) -> None:
    for word in parse_options(words, "chmod pathspec-from-file").operands:
        call.read(word)


def _diff(call: Call, words: list[Word]) -> None:
    found = parse_options(words, "U S G O output diff-filter word-diff-regex")
    if found.has("no-index"):
        for word in found.operands:
            call.read(word)


Judge = Callable[[Call, list[Word]], None]

COMMANDS: dict[str, Judge] = {
    "config": _config,
    "reset": _reset,
    "clean": _clean,
    "checkout": _checkout,
    "switch": _switch,
    "restore": _restore,
    "push": _push,
    "branch": _branch,
    "stash": _stash,
    "reflog": _reflog,
    "gc": _gc,
    "prune": _always("git.history"),
    "filter-branch": _always("git.history"),
    "filter-repo": _always("git.history"),
    "update-ref": _update_ref,
    "symbolic-ref": _always("git.history"),
    "replace": _always("git.history"),
    "tag": _tag,
    "remote": _remote,
    "rm": _rm,
    "worktree": _worktree,
    "clone": _clone,
    "fetch": _fetch,
    "pull": _fetch,
    "rebase": _rebase,
    "bisect": _bisect,
    "submodule": _submodule,
    "lfs": _lfs,
    "am": _am,
    "apply": _am,
    "difftool": _tool,
    "mergetool": _tool,
    "add": _add,
    "diff": _diff,
    "stage": _add,
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
