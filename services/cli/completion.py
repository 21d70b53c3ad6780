"""``mailroom completion``: the script that completes commands and options in a shell."""

import click
from click.shell_completion import get_completion_class

PLACES = {
    "bash": 'eval "$(mailroom completion bash)"  # ~/.bashrc',
    "zsh": 'eval "$(mailroom completion zsh)"  # ~/.zshrc',
    "fish": "mailroom completion fish | source  # ~/.config/fish/config.fish",
}
"""Where each shell wants it."""


@click.command(epilog="\b\nPut it where your shell starts:\n" + "\n".join(PLACES.values()))
@click.argument("shell", metavar="SHELL", type=click.Choice(list(PLACES)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes 'mailroom' in SHELL.

    SHELL is bash, zsh or fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root()
    click.echo(kind(root.command, {}, "mailroom", "_MAILROOM_COMPLETE").source())
