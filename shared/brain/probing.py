"""Whether a model's server is there and knows key and model; asking costs nothing."""

import asyncio
from pathlib import Path
from typing import Any

from shared.brain.choice import Choice
from shared.brain.connecting import CONNECT, open_client
from shared.brain.faults import explain
from shared.brain.scripted import read_script
from shared.errors import BrainError

NO_LIST = (400, 404, 405, 501)
"""How a server says that it lists no models; it is there all the same."""


async def probe(choice: Choice) -> None:
    """Ask the server of ``choice`` for its models; raises BrainError where something is wrong, within 10 s.

    A script is read instead; raises ConfigError.
    """
    if choice.kind == "scripted":
        read_script(Path(choice.model).expanduser())
        return
    try:
        async with asyncio.timeout(CONNECT):
            models = await _list_models(choice)
    except TimeoutError:
        raise BrainError(f"The model server at {choice.place} did not answer within {CONNECT:g} s") from None
    except Exception as error:
        if getattr(error, "status_code", 0) in NO_LIST:
            return
        raise explain(error, choice) or error from None
    # Ollama lists MODEL:latest, which answers to MODEL.
    if models and not {choice.model, f"{choice.model}:latest"} & models:
        raise BrainError(
            f"The model server at {choice.place} does not list {choice.model!r}",
            f"Correct MAILROOM_{choice.setting.upper()}, or have the server fetch the model",
        )


async def _list_models(choice: Choice) -> set[str]:
    async with await open_client(choice, CONNECT) as client:
        page: Any = await client.models.list()
        return {model.id for model in getattr(page, "data", None) or ()}
