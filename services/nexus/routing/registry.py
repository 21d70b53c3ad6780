"""The tools of the desk: those that the modules of the package ``tools`` define, as TOOL or TOOLS."""

import functools
import importlib
import pkgutil

from services.nexus import tools
from services.nexus.tools.tool import Tool


@functools.cache
def load_tools() -> dict[str, Tool]:
    """The tools by their names, in the order of these."""
    names = sorted(module.name for module in pkgutil.iter_modules(tools.__path__))
    modules = [importlib.import_module(f"{tools.__name__}.{name}") for name in names]
    found: list[Tool] = [module.TOOL for module in modules if hasattr(module, "TOOL")]
    found += [tool for module in modules for tool in getattr(module, "TOOLS", ())]
    return {tool.name: tool for tool in sorted(found, key=lambda tool: tool.name)}
