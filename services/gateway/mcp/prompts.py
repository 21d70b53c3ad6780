"""The playbooks of the office as prompts, which hosts show as commands of a person."""

import functools
import re
from collections.abc import Mapping

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from shared.tasks.installed_agents import SERVICES

_PLACE = re.compile(r"PATH and PATH|PATH|URL|TOPIC")
"""What an example of a playbook has where a person names something."""
TEXT = (
    "Give this goal to the office with submit_goal, wait for it with wait_for_goal, and tell me what it "
    "found, what it could not check, and what it waits for:\n\n{}"
)


class _Parameter(msgspec.Struct):
    kind: str
    description: str = ""


class _Playbook(msgspec.Struct):
    name: str
    description: str
    examples: list[str]
    parameters: dict[str, _Parameter] = {}

    @property
    def named(self) -> dict[str, _Parameter]:
        """What a person has to name; days may be left out."""
        return {name: each for name, each in self.parameters.items() if each.kind not in ("since", "until")}


@functools.cache
def _read() -> Mapping[str, _Playbook]:
    """The playbooks of which a goal can be made from one word of a person, by name."""
    paths = sorted((SERVICES / "conductor" / "playbooks").glob("*.yaml"))
    found = [msgspec.yaml.decode(path.read_bytes(), type=_Playbook) for path in paths]
    return {
        each.name: each for each in found if len(each.named) == len(set(_PLACE.findall(each.examples[0])))
    }


async def list_prompts(_: ServerRequestContext, __: object) -> types.ListPromptsResult:
    """A prompt for each playbook."""
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=each.name,
                description=each.description,
                arguments=[
                    types.PromptArgument(name=name, description=parameter.description, required=True)
                    for name, parameter in each.named.items()
                ],
            )
            for each in _read().values()
        ]
    )


async def get_prompt(_: ServerRequestContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    """A prompt with what the person named."""
    playbook = _read().get(params.name)
    given = params.arguments or {}
    if playbook is None:
        raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name[:60]!r}")
    if missing := [name for name in playbook.named if not given.get(name, "").strip()]:
        raise MCPError(
            types.INVALID_PARAMS, f"{missing[0]} is missing: {playbook.named[missing[0]].description}"
        )
    value = next((given[name] for name in playbook.named), "")
    goal = _PLACE.sub(lambda _: value, playbook.examples[0])
    message = types.PromptMessage(role="user", content=types.TextContent(text=TEXT.format(goal)))
    return types.GetPromptResult(description=playbook.description, messages=[message])
