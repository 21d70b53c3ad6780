"""``mailroom asyncapi``: the AsyncAPI document of the bus."""

import click

from services.cli.output.console import print_json
from shared import settings
from shared.agent.process import package_version
from shared.asyncapi.document import make_document
from shared.tasks.installed_agents import load_agents, load_specialists


@click.command()
def asyncapi() -> None:
    """Print the subjects of the bus as AsyncAPI 3.0, in JSON.

    It has each subject with its parameters, what travels on it, how long it is kept, and what each identity
    may send and receive. The agents are those of this installation; no office has to run.
    """
    config = settings.load()
    names = sorted(agent.name for agent in [*load_agents(config), *load_specialists(config)])
    print_json(make_document(names, version=package_version()))
