"""Tasks named on a tool's command line (``db:drop``, ``migrate reset``): which do more than build."""

import re
from collections.abc import Sequence

from shared.policy.call import Call
from shared.policy.words import Word

_EFFECTS = frozenset(
    "drop destroy wipe purge fresh flush nuke downgrade rollback erase truncate teardown undeploy reset "
    "delete uninstall obliterate publish deploy release unpublish yank shutdown decommission terminate "
    "overwrite sqlflush flushdb dropdb dropall promote evict revoke provision deprovision".split()
)
_CHECKS = frozenset("test tests check lint spec help list show status dry plan preview".split())
"""What a task is called that only tries or tells."""
_VALUED = frozenset("-k -m -t -g -n -p -c -o -f --grep --filter --name --match --tag --message".split())
"""Options whose value only names something."""
_FILE = re.compile(r"[^:]*(/[^:]*|\.[a-z]{1,6})$")
_PARTS = re.compile(r"[:._-]+|(?<=[a-z])(?=[A-Z])")


def names_effect(text: str) -> bool:
    """Whether a task is called as those are that destroy, reset or publish something; files are no tasks."""
    if text.startswith("-") or _FILE.match(text):
        return False
    parts = [part.lower() for part in _PARTS.split(text)]
    return parts[0] not in _CHECKS and not _EFFECTS.isdisjoint(parts)


def judge_script_name(call: Call, path: str) -> None:
    """Ask where a script is called as such a task is (``deploy.sh``); what tests one is called so too."""
    stem = path.rsplit("/", 1)[-1].split(".", 1)[0]
    if names_effect(stem) and "test" not in stem:
        call.find("task.effect")


def judge_tasks(call: Call, words: Sequence[Word]) -> None:
    """Ask where one of ``words`` names such a task."""
    previous = ""
    for word in words:
        if previous not in _VALUED and names_effect(word.text):
            call.find("task.effect")
        previous = word.text
