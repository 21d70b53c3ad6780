"""Judges a command as a whole: the strictest of what is found in it counts."""

import re
import shlex
from collections.abc import Callable

from shared.policy.interpreter import Interpreter
from shared.policy.parser import LONGEST, Unreadable, to_latin1
from shared.policy.paths import HOME, WORKSPACE, resolve
from shared.policy.programs import PROGRAMS
from shared.policy.rules import RULES, Ruling
from shared.policy.scope import NOTHING, Scope, Stream
from shared.policy.words import Word

_MISLEADING = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ue000-\ue0ff\ufeff]"
)
"""Characters that are invisible, reorder text, or have a meaning of their own within the policy."""
_MISLED = ("unclear.spelling", "A sign that cannot be seen")
_SHOWN = 160


def judge(command: str, *, workspace: str = "") -> Ruling:
    """What the policy says of ``command``, run in the folder ``workspace`` (default: a nameless one).

    Never raises, and decides in bounded time: what is too long or too deep is not allowed.
    """
    plain = command.isascii() or len(command) > LONGEST
    text, back = (command, {}) if plain else to_latin1(command)
    folder = workspace.translate({ord(sign): chr(slot) for slot, sign in back.items()})
    if _MISLEADING.search(command):
        return _ruling(command, *_MISLED)
    rule, what = _judge(text, folder, lambda shell, scope: shell.script(text, scope))
    return _ruling(command, rule, what.translate(back))


def judge_read(path: str, *, deep: bool = False, workspace: str = "") -> Ruling:
    """What the policy says of reading the file ``path``; ``deep``: of copying a folder into ``workspace``.

    As of ``cat`` and ``cp -r``, of which no shell reads the words. Never raises.
    """
    words = ["cp", "-r", path, "copy"] if deep else ["cat", path]
    command = shlex.join(words)
    if _MISLEADING.search(command):
        return _ruling(command, *_MISLED)
    return _ruling(
        command, *_judge(command, workspace, lambda shell, scope: shell.call([*map(Word, words)], scope))
    )


def _ruling(command: str, rule: str, what: str) -> Ruling:
    why = RULES[rule].why.format(_shorten(what) or "The command").replace("....", "...")
    return Ruling(command=command, verdict=RULES[rule].verdict, rule=rule, why=why)


def _judge(command: str, workspace: str, run: Callable[[Interpreter, Scope], Stream]) -> tuple[str, str]:
    if len(command) > LONGEST:
        return "unclear.size", f"{len(command)} characters"
    if not command.strip():
        return "nothing", ""
    shell = Interpreter((resolve(workspace, "/") or WORKSPACE) if workspace else WORKSPACE, PROGRAMS)
    scope = Scope(shell.workspace, NOTHING)
    try:
        output = run(shell, scope)
    except Unreadable as error:
        shell.find(error.rule, error.what)
    except RecursionError:
        shell.find("unclear.size", "commands within commands")
    except Exception:
        # A fault of the policy itself must let nothing through.
        shell.find("unclear.fault")
    else:
        shell.judge_printed(output)
        if shell.dropped:
            shell.find("destroy.workspace", shell.dropped)
        if output.endless:
            shell.find("exhaust.endless", command)
    return shell.rule, shell.what


def _shorten(text: str) -> str:
    text = " ".join(text.replace("\0", "...").replace(HOME, "~").split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
