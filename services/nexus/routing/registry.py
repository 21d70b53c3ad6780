"""The tools of the desk: each Tool that a module of the package ``tools`` defines."""

import functools
import importlib
import pkgutil

from services.nexus import tools
from services.nexus.tools.tool import Tool


@functools.cache
def load_tools() -> dict[str, Tool]:
    """The tools by their names, in the order of these."""
    names = (module.name for module in pkgutil.iter_modules(tools.__path__))
    modules = [importlib.import_module(f"{tools.__name__}.{name}") for name in names]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Tool)]
    return {tool.name: tool for tool in sorted(found, key=lambda tool: tool.name)}
