"""Printing answers of the front desk, and the sources they have."""

import click

from services.cli.output.console import open_console, print_block
from shared.contracts import Response
from shared.text.display import clean, clean_block, flatten, shorten_id


def print_answer(answer: Response, *, why: bool = False) -> None:
    """Print an answer and those of its sources that the text does not name; memories only to tell ``why``."""
    print_block(clean_block(answer.text).strip(), open_console())
    print_sources(answer, why=why)


def print_sources(answer: Response, *, why: bool = False) -> None:
    """Print those sources of an answer that its text does not name, memories by what they say.

    An id by itself is told with ``why`` alone.
    """
    console = open_console()
    if why and answer.context_used:
        click.echo(f"\nConfidence {answer.confidence:.2f}.")
    packet = answer.context_used
    known = {item.evidence_id: item.text for item in packet.bullets} if packet else {}
    cited = [each for each in answer.citations if shorten_id(each) not in answer.text]
    unnamed = [each for each in cited if why or (each not in known and shorten_id(each) == each)]
    if unnamed:
        click.echo("\nSources:")
        for citation in unnamed:
            told = f"{flatten(known[citation], 100)} " if citation in known else ""
            name = f"{told}({shorten_id(citation)})" if told else shorten_id(citation)
            print_block(f"  {clean(name)}", console, hang=2)
