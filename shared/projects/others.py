"""Prepares projects of all other kinds: fetches where a registry is known, else checks the tools."""

from shared.contracts import Preparation
from shared.projects.environment import Environment, Request, format_path
from shared.projects.fetched import prepare_go, prepare_java, prepare_rust
from shared.projects.recognition import Project
from shared.projects.steps import Steps
from shared.projects.toolchains import list_needs, require_programs

FETCHED = {"rust": prepare_rust, "go": prepare_go, "java": prepare_java}


async def prepare_other(request: Request, steps: Steps, project: Project) -> Environment:
    """The environment of a project; raises ActionError if a tool is missing."""
    if project.kind in FETCHED:
        return await FETCHED[project.kind](request, steps)
    names = list_needs(project.kind, request.place)
    require_programs(names, f"the project ({project.kind})")
    preparation = Preparation(ecosystem=project.ecosystem, folder=project.folder, tool=", ".join(names))
    return Environment(
        preparation=preparation,
        folder=project.folder,
        ecosystem=project.ecosystem,
        env={"PATH": format_path()},
    )
