"""Variables that programs act upon: which make them run or load something, or leave the guards out."""

import re
from typing import TYPE_CHECKING

from shared.policy.expansion import UNKNOWN
from shared.policy.paths import Place, place, resolve

if TYPE_CHECKING:
    from shared.policy.call import Call

_LOADS = re.compile(
    r"(LD_(PRELOAD|AUDIT)|DYLD_INSERT_\w+|BASH_ENV|PROMPT_COMMAND|BASH_FUNC_.*|PYTHONSTARTUP|PERL5OPT|RUBYOPT"
    r"|NODE_OPTIONS|JAVA_TOOL_OPTIONS|LUA_INIT\w*|GCONV_PATH|GIT_EXEC_PATH|GIT_TEMPLATE_DIR|PERL5DB)$"
)
_COMMAND = re.compile(
    r"(GIT_(SSH|SSH_COMMAND|PAGER|EDITOR|SEQUENCE_EDITOR|ASKPASS|EXTERNAL_DIFF|PROXY_COMMAND)|\w*PAGER|VISUAL"
    r"|EDITOR|BROWSER|LESSOPEN|RSYNC_RSH|SUDO_ASKPASS|SSH_ASKPASS|PS[0-4])$"
)
_SEARCHED = {"PATH", "PYTHONPATH", "PERL5LIB", "RUBYLIB", "NODE_PATH", "CLASSPATH", "LD_LIBRARY_PATH"}
"""Search paths for programs, or parts of them."""
_PLAIN = re.compile(
    r"|((-W[\w:-]*|--(max[-_]old[-_]space[-_]size|stack-size)=\d+|--(enable|experimental-(?!loader)"
    r"|no|trace|openssl"
    r"|preserve)[\w-]*|-Xm[sxn]\d+[kmgKMG]?|-XX:[+-]\w+|-Dfile\.encoding=[\w-]+)\s*)+"
)
"""Options in such a variable that load nothing."""
_SIMPLE = re.compile(r"[\w.-]*( -{1,2}[\w=.-]+)*")
"""A program by its name, with options."""
_GUARDS = re.compile(
    r"(^|_)(SANDBOX|SANDBOXED|GUARD|GUARDS|GUARDRAILS?|JAIL|SECCOMP|LANDLOCK|APPARMOR|SELINUX|AUDIT"
    r"|APPROVALS?"
    r"|MAILROOM|YOLO|SAFETY|SAFE_MODE|BYPASS|SUPERVISOR)(_|$)|^HIST(FILE|SIZE|CONTROL|IGNORE|FILESIZE)$"
)
_SKIPS = re.compile(r"SKIP|HUSKY\w*|LEFTHOOK\w*|OVERCOMMIT_\w+|PRE_COMMIT\w*")
_LARGE = re.compile(r"[1-9]\d+|ignore(dups|both)|erasedups")
"""A history that is kept."""


def judge_variable(call: "Call", name: str, value: str) -> None:
    """Judge that ``name`` is given ``value``."""
    if _GUARDS.search(name.upper()) and not _LARGE.fullmatch(value):
        call.shell.find("guard.tamper", f"Setting {name}")
    if _SKIPS.fullmatch(name) and (not call.words or call.name in {"git", "pre-commit"}):
        call.shell.find("git.config", f"Setting {name}")
    if name in _SEARCHED:
        folders = [resolve(folder or ".", call.scope.cwd) for folder in value.split(":")]
        for folder in folders:
            if place(folder, call.shell.workspace) in {Place.SCRATCH, Place.DEVICE, Place.KERNEL}:
                call.shell.find("run.preload", f"Looking for programs in {folder}")
    elif _LOADS.match(name) and not _PLAIN.fullmatch(value):
        call.shell.find("run.preload", f"Setting {name}")
        call.script(value.replace(UNKNOWN, ""))
    elif _COMMAND.match(name) and (name[:2] != "PS" or "$(" in value or "`" in value):
        if not _SIMPLE.fullmatch(value):
            call.shell.find("run.preload", f"Setting {name}")
        if UNKNOWN not in value:
            call.script(value)
