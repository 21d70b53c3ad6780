"""git's commands: what can be brought back, what cannot, and which settings make git run programs."""

import re
from collections.abc import Callable, Sequence

from shared.policy.call import Call
from shared.policy.options import parse_options
from shared.policy.programs.fetching import judge_address
from shared.policy.programs.rows import Row, Step, always, first, row
from shared.policy.words import Word

Judge = Callable[[Call, Sequence[Word]], object]

_BY_SSH = re.compile(r"(ssh://)?git@[\w-]+(\.[\w-]+)+[:/][\w./-]+").fullmatch
_ADDRESS = r"(?i:[a-z+]+://|[\w.-]+@[\w.-]+:|ext::)"
_TWO_WORDS = r"[^ ]* [^ ]* "
_FILE = (
    r"\.|:/|\*|(\./|\.\./|:).*|.*/|.*\*.*"
    r"|.*(?<!\d)\.(py|js|ts|tsx|jsx|md|txt|json|ya?ml|toml|c|h|cpp|go|rs|java|rb|sh|html|css|cfg|ini|lock|xml|sql)"
)
"""A file rather than a branch: ``.``, ``src/``, ``a.py``, ``*.py``."""
_RUNS_KEYS = re.compile(
    r"(core\.(pager|editor|sshcommand|askpass|hookspath|fsmonitor|gitproxy|attributesfile|worktree"
    r"|alternaterefscommand)|alias\..*|pager\..*|sequence\.editor|filter\..*|diff\..*\.(command|textconv)"
    r"|diff\.external|merge\..*\.driver|(merge|diff)tool\..*\.(cmd|path)|credential\..*|credential\.helper"
    r"|gpg\.program|gpg\..*\.program|init\.templatedir|uploadpack\.packobjectshook|remote\..*\.(uploadpack"
    r"|receivepack|vcs|proxy)|protocol\..*|url\..*\.(insteadof|pushinsteadof)|include\.path|includeif\..*"
    r"|http\.(proxy|sslverify|extraheader|cookiefile)|submodule\..*\.update|interactive\.difffilter"
    r"|sendemail\..*|web\.browser|browser\..*|instaweb\..*|man\..*|trailer\..*\.(cmd|command)"
    r"|tar\..*\.command|receive\..*|ssh\.variant|extensions\..*|difftool\..*|guitool\..*|safe\.directory)$",
    re.IGNORECASE,
)


def judge_setting(call: Call, key: str, value: str) -> None:
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
        if key.lower() == "core.hookspath" and value in {"/dev/null", ""}:
            call.find("git.config", f"Setting {key}")
        elif key.lower().startswith("alias.") and not value.startswith("!"):
            call.run([Word("git"), *(Word(part) for part in value.split())])
        elif not harmless:
            call.find("git.executes", f"Setting {key}")
            call.script(value.lstrip("!"))


def judge_config(call: Call, words: Sequence[Word]) -> None:
    """Settings."""
    found = parse_options(words, "f file blob type default")
    call.apply(found, "write f file")
    operands = [word.text for word in found.operands]
    if operands[:1] and operands[0] in {"get", "list", "set", "unset", "edit", "get-all"}:
        if operands[0] in {"get", "list", "get-all"}:
            return
        operands = operands[1:]
    if any(re.search(r"extraheader|token|password", word, re.IGNORECASE) for word in operands):
        call.find("secret.store")
    if found.has("get list l get-all get-regexp get-urlmatch show-origin get-color"):
        return
    if found.has("e edit"):
        call.find("git.config")
    if found.has("global system") and (len(operands) > 1 or found.has("unset unset-all add")):
        call.find("git.config")
    if len(operands) > 1 or found.has("unset unset-all add replace-all rename-section remove-section"):
        judge_setting(call, operands[0] if operands else "", operands[1] if len(operands) > 1 else "")


def judge_clone(call: Call, words: Sequence[Word]) -> None:
    """A repository fetched."""
    found = parse_options(
        words,
        "b branch c config o origin u upload-pack template reference depth j jobs separate-git-dir filter",
    )
    for word in found.of("c config"):
        judge_setting(call, word.text.partition("=")[0], word.text.partition("=")[2])
    if found.has("u upload-pack template"):
        call.find("git.executes")
    if not found.operands:
        return
    source = found.operands[0].text
    folder = (
        found.operands[1]
        if len(found.operands) > 1
        else Word(re.sub(r"\.git/?$|/$", "", source).rsplit("/", 1)[-1])
    )
    call.write(folder, create=True)
    if re.match(_ADDRESS, source):
        if source.startswith("https://"):
            judge_address(call, found.operands[0])
        elif not _BY_SSH(source):
            call.find("git.remote")
            judge_address(call, found.operands[0])
        call.scope.fetched.add(call.path(folder) or "")


def judge_submodule(call: Call, words: Sequence[Word]) -> None:
    """Repositories within this one."""
    if words and words[0].text == "foreach":
        rest = [word for word in words[1:] if not word.text.startswith("-")]
        call.script(" ".join(word.text for word in rest))
    elif words and words[0].text in {"add", "set-url"}:
        call.find("git.remote")
    elif words and (words[0].text == "deinit" or parse_options(words).has("f force")):
        call.find("git.discard")


def judge_bisect(call: Call, words: Sequence[Word]) -> None:
    """Looks for a commit; ``run`` runs a command for each."""
    if words and words[0].text == "run":
        call.run(words[1:])


_PUSH = row(
    "o push-option repo receive-pack exec",
    Step(has="n dry-run", stop=True),
    first(
        Step("git.history", has="f force force-with-lease force-if-includes mirror prune d delete"),
        Step("git.history", words=r"[^ ]* (?:[^ ]* )*?[+:][^ ]*"),
        Step("network.send", words=r"(?![\w.-]+ )[^ ]+"),
        Step("git.remote", has="all repo"),
    ),
    Step("git.remote", words=r"[^ ]* .*\0[^ ]*"),
)
_CHECKOUT = row(
    "b B orphan t0 conflict pathspec-from-file",
    Step("git.discard", has="p patch f force B ours theirs m pathspec-from-file"),
    Step("git.discard", argument="--"),
    Step("git.discard", words=_TWO_WORDS, lacks="b orphan d detach t track"),
    Step("git.discard", operand=_FILE, lacks="b orphan d detach t track"),
)
_BRANCH = row(
    "u set-upstream-to contains no-contains merged no-merged points-at sort format",
    Step("git.history", has="D M C f force"),
    Step("git.history", has="d delete dr", also="r remotes"),
    Step("unknown.use", has="edit-description"),
)
_FETCH = row(
    "upload-pack depth j jobs o s X strategy",
    Step("git.executes", has="upload-pack"),
    Step("git.remote", words=rf"{_ADDRESS}[^ ]*"),
    Step("git.discard", operand=r"\+[^:]*:(?!refs/remotes/).*"),
    Step("git.discard", has="f force X"),
)
_PATCH = row(
    "p C directory exclude include whitespace",
    Step(does="read 0:"),
    Step("git.discard", has="R reverse"),
    Step("write.unpack", has="unsafe-paths"),
)
_ALWAYS = {
    "git.history": "prune filter-branch filter-repo update-ref replace fast-import prune-packed "
    "unpack-objects",
    "git.discard": "checkout-index read-tree",
    "secret.store": "credential credential-store credential-cache",
    "network.send": "send-email imap-send",
    "network.listen": "daemon instaweb http-backend",
    "git.remote": "svn p4",
    "unclear.command": "shell",
    "git.executes": "upload-pack receive-pack sh-setup hook for-each-repo filter-process",
    "unknown.use": "gui",
}
_TABLE: dict[str, Row | Judge] = {
    **{names: always(rule) for rule, names in _ALWAYS.items()},
    "config": judge_config,
    "clone": judge_clone,
    "submodule": judge_submodule,
    "bisect": judge_bisect,
    "push": _PUSH,
    "checkout": _CHECKOUT,
    "branch": _BRANCH,
    "fetch pull": _FETCH,
    "am apply": _PATCH,
    "add stage": row("chmod pathspec-from-file", Step(does="read 0:")),
    "difftool mergetool": row(
        "x extcmd t tool", Step("git.executes", given="x extcmd", does="script x extcmd")
    ),
    "reset": row("", Step("git.discard", has="hard merge keep har mer")),
    "clean": row(
        "e exclude", Step(has="n dry-run", stop=True), Step("git.discard"), Step(does="delete-deep 0:")
    ),
    "switch": row("c C orphan", Step("git.discard", has="f force discard-changes C m merge")),
    "restore": row(
        "s source", Step("git.discard", lacks="S staged stage"), Step("git.discard", has="W worktree")
    ),
    "stash": row("", Step("git.discard", line="drop|clear")),
    "reflog": row("", Step("git.history", line="expire|delete")),
    "gc": row("", Step("git.history", has="prune aggressive force", argument=".*(now|all).*")),
    "symbolic-ref": row("m", Step("git.history", words=_TWO_WORDS), Step("git.history", has="d delete")),
    "tag": row("m F u", Step("git.history", has="d delete f force")),
    "remote": row("", Step("git.remote", line="add|set-url|remove|rm|rename|set-head|prune|update")),
    "rm": row(
        "",
        Step(has="cached n dry-run", stop=True),
        Step("git.discard", has="r f force"),
        Step(does="delete 0:"),
    ),
    "mv": row("", Step("git.discard", has="f force")),
    "worktree": row(
        "b B reason",
        Step("git.discard", line="remove", has="f force"),
        Step(line="add|move", does="create 1:2"),
    ),
    "commit": row(
        "m message F file C c reuse-message author date t template u S",
        Step("git.config", has="n"),
        Step(does="read F file t template"),
    ),
    "init": row("b initial-branch template object-format shared", Step(does="create 0:")),
    "interpret-trailers": row("trailer where if-exists if-missing", Step(has="in-place", does="write 0:")),
    "maintenance": row("", Step("persist.schedule", line="start|register")),
    "rebase": row(
        "x exec onto s X strategy",
        Step("git.executes", given="x exec", does="script x exec"),
        Step("git.history", has="X"),
    ),
    "lfs": row("", Step("git.history", line="prune|uninstall|migrate|push|install")),
    "diff": row("U S G O output diff-filter word-diff-regex", Step(has="no-index", does="read 0:")),
}
COMMANDS = {name: judge for names, judge in _TABLE.items() for name in names.split()}
"""Commands that do more than look and record."""
