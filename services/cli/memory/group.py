"""``mailroom memory``: the table of its commands."""

import click

from services.cli.lazy import LazyGroup

COMMANDS = {
    "add": "services.cli.memory.nodes:add",
    "search": "services.cli.memory.search:search",
    "get": "services.cli.memory.nodes:get",
    "list": "services.cli.memory.nodes:list_nodes",
    "retire": "services.cli.memory.nodes:retire",
    "link": "services.cli.memory.edges:link",
    "unlink": "services.cli.memory.edges:unlink",
    "graph": "services.cli.memory.graph:graph",
    "stats": "services.cli.memory.upkeep:stats",
    "health": "services.cli.memory.upkeep:health",
    "linker": "services.cli.memory.upkeep:linker",
    "reindex": "services.cli.memory.upkeep:reindex",
    "rebuild": "services.cli.memory.upkeep:rebuild",
    "export": "services.cli.memory.exports:export",
    "import": "services.cli.memory.imports:import_records",
}
"""Where each command is: from remembering to looking after memory."""


@click.group(cls=LazyGroup, table=COMMANDS)
def memory() -> None:
    """Remember, search and read what the office knows."""
