"""Variables that programs act upon: which make them run or load something."""

import re
from typing import TYPE_CHECKING

from shared.policy.expansion import UNKNOWN
from shared.policy.paths import Place, place, resolve

if TYPE_CHECKING:
    from shared.policy.call import Call

_LOADS = re.compile(
    r"(LD_(PRELOAD|LIBRARY_PATH|AUDIT|PROFILE\w*|DEBUG_OUTPUT)|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|PS[0-4]"
    r"|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|PYTHONSTARTUP|PYTHONHOME|PYTHONINSPECT|PYTHONBREAKPOINT|PYTHONWARNINGS"
    r"|PERL5OPT|PERL5LIB|PERL5DB|PERLLIB|RUBYOPT|RUBYLIB|NODE_OPTIONS|NODE_PATH|LUA_INIT\w*|JAVA_TOOL_OPTIONS"
    r"|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|GCONV_PATH|PHPRC|PHP_INI_SCAN_DIR|R_PROFILE\w*|GIT_EXEC_PATH"
    r"|GIT_TEMPLATE_DIR|GIT_CONFIG\w*|GIT_DIR|OPENSSL_CONF|OPENSSL_ENGINES|HISTFILE|HISTSIZE|HISTCONTROL"
    r"|HISTIGNORE|HISTFILESIZE|SUDO_ASKPASS|SSH_ASKPASS|INPUTRC|LOCPATH|CDPATH|FPATH|ZDOTDIR|PIP_INDEX_URL"
    r"|PIP_EXTRA_INDEX_URL|PIP_CONFIG_FILE|NPM_CONFIG_\w+|npm_config_\w+|MAKEFLAGS|CARGO_\w*WRAPPER|RUSTC\w*"
    r"|TMOUT|GOFLAGS|GOPROXY|DOCKER_HOST|KUBECONFIG)$"
)
_COMMAND = re.compile(
    r"(GIT_(SSH|SSH_COMMAND|PAGER|EDITOR|SEQUENCE_EDITOR|ASKPASS|EXTERNAL_DIFF|PROXY_COMMAND)|\w*PAGER|VISUAL"
    r"|EDITOR|FCEDIT|BROWSER|LESSOPEN|LESSCLOSE|LESS|RSYNC_RSH|CVS_RSH|SVN_SSH|TAR_OPTIONS|CC|CXX|LD|SHELL"
    r"|MANOPT|MANROFFOPT|GREP_OPTIONS|WGETRC|CURL_HOME|EXINIT|VIMINIT|GVIMINIT|LYNX_CFG|PARALLEL|XDG_\w+"
    r"|PERLDB_OPTS|AWKPATH|DEBUGINFOD_\w+)$"
)
_BUILTINS = {"echo", "printf", "true", ":", "pwd", "cd", "test", "["}
"""The shell itself does these, so that no program is started which would act upon a variable."""
_HARMLESS = re.compile(
    r"|cat|less( -[A-Za-z]+)?|more|true|:|-[A-Za-z]+( -[A-Za-z]+)*|--color(=\w+)?|false|none|vim?|nano|emacs"
    r"|code( --wait)?|(ccache )?(gcc|clang|g\+\+|clang\+\+|cc|c\+\+)(-\d+)?|ld"
    r"|(/usr)?/bin/(ba|z|da)?sh|firefox|bat|most|delta"
)
_GUARDS = re.compile(
    r"(^|_)(SANDBOX|SANDBOXED|GUARD|GUARDS|GUARDRAILS?|POLICY|JAIL|SECCOMP|LANDLOCK|APPARMOR|SELINUX"
    r"|AUDIT|APPROVALS?|FIREWALL|FALCO|MAILROOM"
    r"|UNSAFE|YOLO|SAFETY|PERMISSIONS?|SAFE_MODE|NO_?VERIFY|BYPASS|DCG|SUPERVISOR)(_|$)"
)
_SKIPS = re.compile(
    r"(SKIP|HUSKY\w*|LEFTHOOK\w*|OVERCOMMIT_\w+|PRE_COMMIT\w*|SKIP_\w*(HOOKS?|CHECKS?|LINT))$"
)
_CHECKED = {"git", "pre-commit", "npm", "yarn", "pnpm", "gh", "hub"}
"""Programs that run checks before they act; such a variable skips the checks."""
_PLAIN_LOADS = {
    "ENV": re.compile(r"\w*"),
    "HISTCONTROL": re.compile(r"ignore(dups|both)|erasedups"),
    "HISTSIZE": re.compile(r"[1-9]\d+"),
    "CDPATH": re.compile(r""),
    "HISTFILESIZE": re.compile(r"[1-9]\d{2,}"),
    "PYTHONWARNINGS": re.compile(r"[\w:]*"),
    "NODE_OPTIONS": re.compile(
        r"(--max[-_]old[-_]space[-_]size=\d+|--enable-source-maps|--experimental-(?!loader)[\w-]+|--no-[\w-]+"
        r"|--openssl-legacy-provider|--trace-[\w-]+|--stack-size=\d+|--preserve-symlinks| )*"
    ),
    "JAVA_TOOL_OPTIONS": re.compile(r"(-Xm[sxn]\d+[kmgKMG]?|-XX:[+-]\w+|-Dfile\.encoding=[\w-]+| )*"),
    "RUBYOPT": re.compile(r"-W[\w:-]*"),
    "GIT_DIR": re.compile(r"(\./)?\.git"),
    "GOPROXY": re.compile(r"off|direct|https://proxy\.golang\.org(,direct)?"),
    "MAKEFLAGS": re.compile(r"-j\s*\d*"),
    "GOFLAGS": re.compile(r"-mod=\w+"),
    "TMOUT": re.compile(r"\d+"),
    "CARGO_WRAPPER": re.compile(r""),
}


_SEARCHED = {"PATH", "PYTHONPATH", "PERL5LIB", "PERLLIB", "RUBYLIB", "NODE_PATH", "CLASSPATH"}
"""Search paths for programs, or parts of them."""


def _is_own_program(call: "Call") -> bool:
    """Whether it is a program of the workspace that a variable is set for."""
    name = call.words[0].text if call.words else ""
    return "/" in name and place(resolve(name, call.scope.cwd), call.shell.workspace) is Place.WORKSPACE


def judge_variable(call: "Call", name: str, value: str) -> None:
    """Judge that ``name`` is given ``value``."""
    if call.words and call.name in _BUILTINS and name != "PATH":
        return
    if _GUARDS.search(name.upper()):
        call.shell.find("guard.tamper", f"Setting {name}")
    if _SKIPS.match(name) and (not call.words or call.name in _CHECKED):
        call.shell.find("git.config", f"Setting {name}")
    if name in _SEARCHED or (name == "LD_LIBRARY_PATH" and _is_own_program(call)):
        _judge_search(call, value)
    elif name.startswith("HIST") and not _plain(name, value):
        call.shell.find("guard.tamper", f"Setting {name}")
    elif _LOADS.match(name) and not _plain(name, value):
        call.shell.find("run.preload", f"Setting {name}")
    elif _COMMAND.match(name) and not _HARMLESS.fullmatch(value):
        if UNKNOWN in value or " " in value:
            call.shell.find("run.preload", f"Setting {name}")
        else:
            call.shell.find("unknown.use", f"setting {name}")
        if UNKNOWN not in value:
            call.script(value)


def _plain(name: str, value: str) -> bool:
    pattern = _PLAIN_LOADS.get(name)
    if pattern is not None and pattern.fullmatch(value):
        return True
    return name in {"PS1", "PS2", "PS3", "PS4"} and "$(" not in value and "`" not in value


def _judge_search(call: "Call", value: str) -> None:
    """Programs may be looked for in the workspace and in the system's folders."""
    for folder in value.split(":"):
        path = resolve(folder or ".", call.scope.cwd)
        where = place(path, call.shell.workspace)
        if where not in {Place.WORKSPACE, Place.SYSTEM, Place.UNKNOWN, Place.HOME, Place.ELSEWHERE}:
            call.shell.find("run.preload", f"Looking for programs in {path}")
