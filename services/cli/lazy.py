"""A group of commands that are imported when they are used, so that starting stays quick."""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are named in a table: each its name and ``module:function``."""

    def __init__(self, *arguments: Any, table: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.table = dict(table or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table."""
        return list(self.table)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; an error names the command that was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand:
            # Click itself looks among the commands that are imported already.
            raise click.NoSuchCommand(args[0], possibilities=self.table, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command ``cmd_name``; None where there is none."""
        if cmd_name not in self.table:
            return None
        module, _, function = self.table[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command
