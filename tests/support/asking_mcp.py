"""An MCP server, by the library, whose tools ask a person and a model before they answer."""

from typing import Annotated

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

HARMLESS = ToolAnnotations(read_only_hint=True)
server = MCPServer("asking", version="1")


class Colour(BaseModel):
    colour: str = Field(description="A colour")


class Size(BaseModel):
    size: int = 3


def ask_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


def ask_size() -> Elicit[Size]:
    return Elicit("Which size?", Size)


def ask_model() -> Sample:
    content = TextContent(type="text", text="Two and two?")
    return Sample([SamplingMessage(role="user", content=content)], max_tokens=20)


@server.tool(annotations=HARMLESS)
def choose(
    colour: Annotated[ElicitationResult[Colour], Resolve(ask_colour)],
    size: Annotated[ElicitationResult[Size], Resolve(ask_size)],
) -> str:
    """Ask two questions, at the same time where the protocol has it so."""
    return f"{colour.model_dump_json()} {size.model_dump_json()}"


@server.tool(annotations=HARMLESS)
def think(thought: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask the model of the client."""
    return str(getattr(thought.content, "text", ""))


if __name__ == "__main__":
    server.run("stdio")
