"""What handles the programs that change a script's state, run others, or touch files by their own rules."""

from collections.abc import Mapping

from shared.policy.call import Handler
from shared.policy.programs import builtins, code, fetching, files, git, running, searching

PROGRAMS: Mapping[str, Handler] = {
    name: handler
    for table in (
        builtins.PROGRAMS,
        running.PROGRAMS,
        files.PROGRAMS,
        searching.PROGRAMS,
        code.PROGRAMS,
        fetching.PROGRAMS,
        git.PROGRAMS,
    )
    for names, handler in table.items()
    for name in names.split()
}
"""By name."""
