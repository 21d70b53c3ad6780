"""What programs mean: by name, what each does with its words."""

from shared.policy.programs import (
    archives,
    cloud,
    containers,
    credentials,
    databases,
    editors,
    files,
    git,
    installers,
    interpreters,
    machine,
    network,
    packages,
    python,
    readers,
    search,
    shell_builtins,
    shells,
    text,
    tools,
    wrappers,
)
from shared.policy.programs.read_only import showing

PROGRAMS = showing(
    {
        **readers.PROGRAMS,
        **text.PROGRAMS,
        **tools.PROGRAMS,
        **machine.PROGRAMS,
        **editors.PROGRAMS,
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
        **search.PROGRAMS,
        **git.PROGRAMS,
        **shell_builtins.PROGRAMS,
        **wrappers.PROGRAMS,
        **shells.PROGRAMS,
    }
)
"""Every program the policy knows."""
