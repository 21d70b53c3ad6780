"""What programs mean: by name, what each does with its words."""

from shared.policy.programs import (
    archives,
    builds,
    databases,
    files,
    git,
    information,
    installers,
    interpreters,
    keys,
    machine,
    network,
    packages,
    processes,
    python,
    repeaters,
    rights,
    search,
    services,
    sessions,
    shells,
    text,
    tools,
    wrappers,
)
from shared.policy.programs.shows import showing

PROGRAMS = showing(
    {
        **text.PROGRAMS,
        **tools.PROGRAMS,
        **builds.PROGRAMS,
        **machine.PROGRAMS,
        **processes.PROGRAMS,
        **sessions.PROGRAMS,
        **keys.PROGRAMS,
        **services.PROGRAMS,
        **databases.PROGRAMS,
        **packages.PROGRAMS,
        **installers.PROGRAMS,
        **network.PROGRAMS,
        **archives.PROGRAMS,
        **interpreters.PROGRAMS,
        **python.PROGRAMS,
        **files.PROGRAMS,
        **rights.PROGRAMS,
        **search.PROGRAMS,
        **git.PROGRAMS,
        **information.PROGRAMS,
        **wrappers.PROGRAMS,
        **repeaters.PROGRAMS,
        **shells.PROGRAMS,
    }
)
"""Every program the policy knows."""
