"""The tools of the desk: one for each module of the package ``tools`` that defines TOOL."""

import functools
import importlib
import pkgutil

from services.nexus import tools
from services.nexus.tools.tool import Tool


@functools.cache
def load_tools() -> dict[str, Tool]:
    """The tools by their names, in the order of their modules."""
    names = sorted(module.name for module in pkgutil.iter_modules(tools.__path__))
    modules = [importlib.import_module(f"{tools.__name__}.{name}") for name in names]
    found = [module.TOOL for module in modules if hasattr(module, "TOOL")]
    return {tool.name: tool for tool in found}
