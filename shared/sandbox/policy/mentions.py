"""Paths of credentials wherever they stand in a program's words: in options, after a sign, within code."""

import re
from typing import TYPE_CHECKING

from shared.sandbox.policy.paths import resolve
from shared.sandbox.policy.secrets import is_private

if TYPE_CHECKING:
    from shared.sandbox.policy.call import Call

_TEXTUAL = frozenset(
    "echo printf print grep ggrep egrep fgrep rgrep rg ag ack zgrep pcregrep git gh glab hub hg svn jj "
    "awk gawk mawk nawk sed gsed test [ [[ expr find gfind fd fdfind locate mlocate plocate ls "
    "gls dir vdir exa eza lsd stat du tree readlink realpath basename dirname file man apropos whatis "
    "which type help export declare typeset local readonly alias trap case read set : true false "
    "mailroom python python3 perl ruby node php lua sh bash dash zsh ksh eval xargs "
    "parallel env sudo ssh crontab unset tldr mkdir touch".split()
)
"""Programs whose words are text, names or commands of their own, and are judged as that."""
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
