"""git's settings: some of them make it run programs."""

import re

from shared.policy.call import Call
from shared.policy.options import parse_options
from shared.policy.words import Word

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


def judge_config(call: Call, words: list[Word]) -> None:
    """Settings."""
    found = parse_options(words, "f file blob type default")
    for word in found.of("f", "file"):
        call.write(word)
    operands = [word.text for word in found.operands]
    if operands[:1] and operands[0] in {"get", "list", "set", "unset", "edit", "get-all"}:
        if operands[0] in {"get", "list", "get-all"}:
            return
        operands = operands[1:]
    if any(re.search(r"extraheader|token|password", word, re.IGNORECASE) for word in operands):
        call.find("secret.store")
    if found.has("get", "list", "l", "get-all", "get-regexp", "get-urlmatch", "show-origin", "get-color"):
        return
    if found.has("e", "edit"):
        call.find("git.config")
    if found.has("global", "system") and (len(operands) > 1 or found.has("unset", "unset-all", "add")):
        call.find("git.config")
    if len(operands) > 1 or found.has(
        "unset", "unset-all", "add", "replace-all", "rename-section", "remove-section"
    ):
        judge_setting(call, operands[0] if operands else "", operands[1] if len(operands) > 1 else "")
