"""What programs mean: by name, what each does with its words."""

from shared.policy.programs import (
    archives,
    builds,
    cloud,
    containers,
    credentials,
    databases,
    files,
    git,
    information,
    installers,
    interpreters,
    machine,
    network,
    packages,
    python,
    repeaters,
    rights,
    search,
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
        **sessions.PROGRAMS,
        **credentials.PROGRAMS,
        **containers.PROGRAMS,
        **cloud.PROGRAMS,
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
