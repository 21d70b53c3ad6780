"""What a program's words name whatever the program is: files of credentials, and places to write to."""

import re
from typing import TYPE_CHECKING

from shared.policy.paths import resolve
from shared.policy.secrets import is_private
from shared.policy.words import Word

if TYPE_CHECKING:
    from shared.policy.call import Call

_TEXTUAL = frozenset(
    "echo printf print grep ggrep egrep fgrep rgrep rg ag ack zgrep pcregrep git gh glab hub hg svn jj "
    "awk gawk mawk nawk sed gsed test [ [[ expr find gfind fd fdfind locate mlocate plocate ls "
    "gls dir vdir exa eza lsd stat du tree readlink realpath basename dirname file man apropos whatis "
    "which type help export declare typeset local readonly alias trap case read set : true false "
    "mailroom python python3 perl ruby node php lua sh bash dash zsh ksh eval xargs "
    "parallel env sudo ssh crontab unset tldr mkdir touch".split()
)
"""Programs whose words are text, names or commands of their own, and are judged as that."""
_OUTPUT = re.compile(
    r"--?(?!no[-_])(?:[a-z0-9]+[-_])*(?:out(?:put)?|dest(?:ination)?|target|save|write|dump|report|log)"
    r"(?:[-_]?(?:to|as|dir|directory|folder|file|path|name|root))?"
)
"""The long names of options that say where a program writes."""
_ELSEWHERE = ("/", "~", "..")
_CHOOSES = frozenset("df findmnt lsblk ps systemctl journalctl".split())
"""Programs whose --output names columns or a form."""
_PATH = re.compile(r"(?:~[\w-]*|\.\.)?/[^\s=@,:{}()\"'|;<>]+")


def judge_mentions(call: "Call") -> None:
    """A program that is given a file of credentials is not to have it, whatever it does with it."""
    if call.name in _TEXTUAL:
        return
    for word in call.args:
        if "/" in word.text:
            for text in _PATH.findall(word.text):
                path = resolve(text, call.scope.cwd) or text
                if is_private(path):
                    call.find("secret.file", path)


def judge_outputs(call: "Call") -> None:
    """An option that names an output is one, whatever else is known of the program."""
    if call.name in _CHOOSES or (call.name in _TEXTUAL and call.name != "git"):
        return
    for index, word in enumerate(call.args):
        name, sign, value = word.text.partition("=")
        if not name.startswith("-") or not _OUTPUT.fullmatch(name.lower()):
            continue
        if sign:
            target = Word(value)
        elif index + 1 < len(call.args):
            target = call.args[index + 1]
        else:
            continue
        if target.text.startswith(_ELSEWHERE):
            call.write(target)
