"""Whether a model's server is there and knows key and model; asking costs nothing."""

import asyncio
from pathlib import Path
from typing import Any

from shared.errors import ModelError
from shared.llm.clients import CONNECT, open_client
from shared.llm.config import ModelConfig
from shared.llm.provider_errors import explain
from shared.llm.scripted import read_script

NO_LIST = (400, 404, 405, 501)
"""How a server says that it lists no models; it is there all the same."""


async def probe(choice: ModelConfig) -> None:
    """Ask the server of ``choice`` for its models; raises ModelError where something is wrong, within 10 s.

    A script is read instead; raises ConfigError.
    """
    if choice.kind == "scripted":
        read_script(Path(choice.model).expanduser())
        return
    try:
        async with asyncio.timeout(CONNECT):
            models = await _list_models(choice)
    except TimeoutError:
        raise ModelError(f"The model server at {choice.place} did not answer within {CONNECT:g} s") from None
    except Exception as error:
        if getattr(error, "status_code", 0) in NO_LIST:
            return
        raise explain(error, choice) or error from None
    # Ollama lists MODEL:latest, which answers to MODEL.
    if models and not {choice.model, f"{choice.model}:latest"} & models:
        raise ModelError(
            f"The model server at {choice.place} does not list {choice.model!r}",
            f"Correct MAILROOM_{choice.setting.upper()}, or have the server fetch the model",
        )


async def _list_models(choice: ModelConfig) -> set[str]:
    async with await open_client(choice, CONNECT) as client:
        page: Any = await client.models.list()
        return {model.id for model in getattr(page, "data", None) or ()}
