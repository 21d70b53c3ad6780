"""What programs mean: by name, what each does with its words."""

from shared.policy.programs import (
    archives,
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
    search,
    services,
    shell_builtins,
    shells,
    text,
    tools,
    wrappers,
)
from shared.policy.programs.machine import showing
from shared.policy.programs.rows import by_name

_MODULES = (
    text, tools, machine, editors, credentials, services, databases, packages, installers,
    network, archives, interpreters, python, files, search, git, shell_builtins, wrappers, shells,
)  # fmt: skip
"""Of two rows for the same program the one of the later module counts."""
PROGRAMS = showing(by_name(module.PROGRAMS for module in _MODULES))
"""What judges a call of each program that the policy knows, by its name."""
