"""Printing answers of the front desk, and the sources they have."""

import click

from services.cli.output.console import open_console, print_block
from shared.contracts import Response
from shared.text.display import clean, clean_block


def print_answer(answer: Response, *, why: bool = False) -> None:
    """Print an answer and those of its sources that the text does not name.

    Memories are named by their ids only to tell ``why``.
    """
    print_block(clean_block(answer.text).strip(), open_console())
    print_sources(answer, why=why)


def print_sources(answer: Response, *, why: bool = False) -> None:
    """Print those sources of an answer that its text does not name."""
    console = open_console()
    if why and answer.context_used:
        click.echo(f"\nConfidence {answer.confidence:.2f}.")
    known = {item.evidence_id for item in answer.context_used.bullets} if answer.context_used else set()
    unnamed = [each for each in answer.citations if each not in answer.text and (why or each not in known)]
    if unnamed:
        click.echo("\nSources:")
        for citation in unnamed:
            print_block(f"  {clean(citation)}", console, hang=2)
