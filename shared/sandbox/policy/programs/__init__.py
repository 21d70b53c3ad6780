"""What programs mean: by name, what each does with its words."""

from shared.sandbox.policy.call import Handler
from shared.sandbox.policy.programs import (
    archives,
    databases,
    files,
    git,
    information,
    installers,
    interpreters,
    machine,
    network,
    packages,
    search,
    services,
    shells,
    text,
    tools,
    wrappers,
)

PROGRAMS: dict[str, Handler] = {
    **text.PROGRAMS,
    **tools.PROGRAMS,
    **machine.PROGRAMS,
    **services.PROGRAMS,
    **databases.PROGRAMS,
    **packages.PROGRAMS,
    **installers.PROGRAMS,
    **network.PROGRAMS,
    **archives.PROGRAMS,
    **interpreters.PROGRAMS,
    **files.PROGRAMS,
    **search.PROGRAMS,
    **git.PROGRAMS,
    **information.PROGRAMS,
    **wrappers.PROGRAMS,
    **shells.PROGRAMS,
}
"""Every program the policy knows."""
