"""Judges a command as a whole: the strictest of what is found in it counts, reach last."""

import re
from collections.abc import Callable, Collection, Iterator
from functools import cache

from shared.contracts import CommandVerdict
from shared.policy import effects
from shared.policy.call import Call
from shared.policy.commands import judge_redirect
from shared.policy.parser import LONGEST, Unreadable, to_latin1
from shared.policy.paths import HOME, WORKSPACE, resolve
from shared.policy.programs import PROGRAMS
from shared.policy.rules import RULES, Rule, Ruling
from shared.policy.scope import NOTHING, Scope
from shared.policy.shell import Grammar, Shell
from shared.policy.statements import STATEMENTS

GRAMMAR = Grammar(
    statements=STATEMENTS,
    programs=PROGRAMS,
    call=lambda shell, scope, words, assigned: Call(shell, scope, words, assigned).judge(),
    redirect=judge_redirect,
)
_MISLEADING = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ue000-\ue0ff\ufeff]"
)
"""Characters that are invisible, reorder text, or have a meaning of their own within the policy."""
_MISLED = ("unclear.spelling", "A sign that cannot be seen")
_SHOWN = 160
NEWLINE = "\u2424"  # Stands for a newline within an example
_NAMES = {
    "python": "the Python registry",
    "javascript": "the npm registry",
    "rust": "crates.io",
    "go": "the Go module proxy",
    "java": "Maven Central",
    "debian": "Debian's package servers",
    "network": "the hosts it needs",
}


def judge(command: str, *, workspace: str = "", granted: Collection[str] = ()) -> Ruling:
    """What the policy says of ``command``, run in the folder ``workspace`` (default: a nameless one).

    ``granted``: what may be reached, as in Ruling.reach; "network" covers every host. Never raises, and
    decides in bounded time: what is too long or too deep is not allowed. At the first call the rules are
    checked by their examples (50 ms); if one fails, nothing is allowed.
    """
    faults = find_faults()
    return _ruling(command, "unclear.fault", faults[0]) if faults else decide(command, workspace, granted)


@cache
def find_faults() -> tuple[str, ...]:
    """A sentence for each example that its rule is not found for, or is found for against its will."""
    return tuple(fault for name, rule in RULES.items() for fault in _faults_of(name, rule))


def _faults_of(name: str, rule: Rule) -> Iterator[str]:
    for text in filter(None, rule.stops.split("\n")):
        found = decide(text.replace(NEWLINE, "\n"))
        if found.rule != name:
            yield f"{text} is not stopped by {name} but decided by {found.rule}"
    for text in filter(None, rule.lets.split("\n")):
        if decide(text.replace(NEWLINE, "\n")).rule == name:
            yield f"{text} is stopped by {name}"


def decide(command: str, workspace: str = "", granted: Collection[str] = ()) -> Ruling:
    """As ``judge``, by rules that are taken for right."""
    plain = command.isascii() or len(command) > LONGEST
    text, back = (command, {}) if plain else to_latin1(command)
    folder = workspace.translate({ord(sign): chr(slot) for slot, sign in back.items()})
    if _MISLEADING.search(command):
        return _ruling(command, *_MISLED)
    shell = _judge(text, folder, lambda shell, scope: shell.script(text, scope))
    reach = {entry.translate(back): what.translate(back) for entry, what in shell.reach.items()}
    rule, verdict = shell.rule, RULES[shell.rule].verdict
    why = _explain(rule, shell.what.translate(back))
    missing = [entry for entry in reach if not _covers(granted, entry)]
    if missing and verdict is CommandVerdict.ALLOW:
        rule, verdict = f"reach.{missing[0].partition(':')[0]}", RULES["reach.host"].verdict
        names = " and ".join(_NAMES.get(entry, entry.removeprefix("host:")) for entry in missing[:4])
        why = RULES[rule].why.format(_shorten(reach[missing[0]]), names)
    return Ruling(command=command, verdict=verdict, rule=rule, why=why, reach=tuple(reach))


def judge_read(path: str, *, deep: bool = False, workspace: str = "") -> Ruling:
    """What the policy says of reading the file ``path``; ``deep``: of all in the folder.

    A relative path starts in ``workspace``. Never raises.
    """
    if _MISLEADING.search(path):
        return _ruling(path, *_MISLED)

    def read(shell: Shell, scope: Scope) -> None:
        if (full := resolve(path, scope.cwd)) is not None:
            effects.read_path(shell, full, deep=deep)

    shell = _judge(path, workspace, read)
    return _ruling(path, shell.rule, shell.what)


def _judge(text: str, workspace: str, run: Callable[[Shell, Scope], object]) -> Shell:
    shell = Shell((resolve(workspace, "/") or WORKSPACE) if workspace else WORKSPACE, GRAMMAR)
    if len(text) > LONGEST:
        shell.find("unclear.size", f"{len(text)} characters")
        return shell
    if not text.strip():
        shell.rule = "nothing"
        return shell
    try:
        run(shell, Scope(shell.workspace, NOTHING))
    except Unreadable as error:
        shell.find(error.rule, error.what)
    except RecursionError:
        shell.find("unclear.size", "commands within commands")
    except Exception as error:
        # A fault of the policy itself must let nothing through.
        shell.find("unclear.fault", type(error).__name__)
    return shell


def _ruling(command: str, rule: str, what: str) -> Ruling:
    return Ruling(command=command, verdict=RULES[rule].verdict, rule=rule, why=_explain(rule, what))


def _explain(rule: str, what: str) -> str:
    return RULES[rule].why.format(_shorten(what) or "The command").replace("....", "...")


def _covers(granted: Collection[str], entry: str) -> bool:
    """Whether a grant holds ``entry``, a host above it by ``*.``, or every host."""
    if entry in granted or "network" in granted:
        return True
    kind, _, host = entry.partition(":")
    return kind == "host" and any(
        one.startswith("host:*.") and host.endswith(one.removeprefix("host:*")) for one in granted
    )


def _shorten(text: str) -> str:
    text = " ".join(text.replace("\0", "...").replace(HOME, "~").split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
