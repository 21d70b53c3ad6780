"""What a configured model can do, asked of its server and tried with small requests."""

import asyncio
import re
import time
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from shared.errors import ModelError
from shared.llm import make_provider
from shared.llm.clients import CONNECT, bound, explain, open_client, read_ssl
from shared.llm.config import ModelConfig
from shared.llm.dialects import Shape, choose_shape, dialect_of
from shared.llm.protocol import Message, Thought, Tool
from shared.llm.provider import ModelRequest, describe, read_answer
from shared.llm.scripted import read_script

TRIAL = 30.0  # Seconds that one small request may take: a model may have to be loaded
TRIAL_TOKENS = 1_024  # The most tokens of one answer: reasoning models think before they call
LEAST_PIECES = 8  # Pieces of an answer from which on its speed is told
NO_LIST = (400, 404, 405, 501)  # How a server says that it lists no models; it is there all the same
_SIZES = (
    *("max_model_len", "loaded_context_length", "context_length", "context_window", "max_input_tokens"),
    *("max_context_length", "n_ctx"),
)
"""How servers name the context of a model in tokens: vLLM, LM Studio, OpenRouter, Groq, Anthropic ..."""
ADD = Tool(
    name="add",
    description="Adds two numbers. You cannot add without it.",
    schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a model can do: its context in tokens (0: not told), tools, how JSON is asked for, its speed.

    None means that it could not be tried, as ``problem`` says. ``sees``: whether its server says that it
    reads images, None if it says nothing.
    """

    context: int = 0
    tools: bool | None = None
    json: Shape | None = None
    tokens_a_second: float = 0.0
    first_piece: float = 0.0
    sees: bool | None = None
    problem: str = ""


class Sum(msgspec.Struct, frozen=True):
    """The sum of two numbers."""

    a: int
    b: int
    total: int


async def probe(config: ModelConfig) -> None:
    """Ask the server of ``config`` for its models; raises ModelError if something is wrong, within 10 s.

    A script is read instead; raises ConfigError.
    """
    if config.kind == "scripted":
        read_script(Path(config.model).expanduser())
        return
    try:
        async with asyncio.timeout(CONNECT), await open_client(config, CONNECT) as client:
            page: Any = await client.models.list()
            models = {model.id for model in getattr(page, "data", None) or ()}
    except TimeoutError:
        raise ModelError(f"The model server at {config.place} did not answer within {CONNECT:g} s") from None
    except Exception as error:
        if getattr(error, "status_code", 0) in NO_LIST:
            return
        raise explain(error, config) or error from None
    # Ollama lists MODEL:latest, which answers to MODEL.
    if models and not {config.model, f"{config.model}:latest"} & models:
        raise ModelError(
            f"The model server at {config.place} does not list {config.model!r}",
            f"Correct {config.variable}, or have the server fetch the model",
        )


async def examine(config: ModelConfig) -> Abilities:
    """What the model can do, by three small requests, which take some hundred tokens; raises nothing."""
    if config.kind == "scripted":
        return Abilities(tools=True, json="text")
    problems: list[str] = []
    speed, first = await _try(_measure(config), (0.0, 0.0), config, problems)
    tools = await _try(_calls(config), None, config, problems)
    shape = await _try(_writes_json(config), None, config, problems)
    described = await describe_model(config)  # last: a server tells the context of a model that is loaded
    return msgspec.structs.replace(
        described,
        tools=tools,
        json=shape,
        tokens_a_second=round(speed, 1),
        first_piece=round(first, 2),
        problem="; ".join(dict.fromkeys(problems)),
    )


async def _try(trial: Any, otherwise: Any, config: ModelConfig, problems: list[str]) -> Any:
    try:
        async with asyncio.timeout(TRIAL):
            return await trial
    except TimeoutError:
        problems.append(f"no answer within {TRIAL:g} s")
    except Exception as error:
        explained = explain(error, config)
        problems.append(explained.cause if explained else type(error).__name__)
    return otherwise


def _question(text: str, **more: Any) -> ModelRequest:
    return ModelRequest(messages=(Message(role="user", text=text),), max_tokens=TRIAL_TOKENS, **more)


async def _measure(config: ModelConfig) -> tuple[float, float]:
    """Tokens a second of an answer from its first piece on, and the seconds until that."""
    question = _question("Write the numbers from one to forty as words, separated by spaces, nothing else.")
    began, first, pieces, thought = time.monotonic(), 0.0, 0, Thought(text="")
    async with aclosing(make_provider(config).stream(question, TRIAL)) as stream:
        async for piece in stream:
            if isinstance(piece, Thought):
                thought = piece
            elif piece:
                first = first or time.monotonic()
                pieces += 1
    lasted = time.monotonic() - first
    told = thought.usage.output_tokens - thought.usage.reasoning_tokens
    return (told / lasted if pieces >= LEAST_PIECES and lasted else 0.0), (first or time.monotonic()) - began


async def _calls(config: ModelConfig) -> bool:
    thought = await make_provider(config).answer(_question("Use add to add 2 and 3.", tools=(ADD,)), TRIAL)
    return any(call.name == ADD.name for call in thought.tool_calls)


async def _writes_json(config: ModelConfig) -> Shape | None:
    schema = describe(Sum)
    provider = make_provider(config)
    thought = await provider.answer(_question("Add a = 2 and b = 3.", schema=schema), TRIAL)
    try:
        read_answer(thought.text, Sum)
    except ValueError:
        return None
    least: Shape = "tool" if config.kind == "anthropic" else "strict"
    return choose_shape(dialect_of(config, shape=least), schema, has_tools=False)


# --- what servers say of a model -----------------------------------------------------------------


async def describe_model(config: ModelConfig) -> Abilities:
    """The model's context, and whether it sees, as far as its server tells; raises nothing.

    The list of models tells it at most servers, ``/props`` at llama.cpp, ``/api/ps`` and ``/api/show`` at
    Ollama, whose context is what the model was loaded with.
    """
    import httpx2

    if config.kind == "scripted":
        return Abilities()
    key = (
        {"x-api-key": config.key}
        if config.package == "anthropic"
        else {"authorization": f"Bearer {config.key}"}
    )
    headers = {
        "anthropic-version": "2023-06-01",
        "accept-encoding": "identity",
        **(key if config.key else {}),
    }
    base = config.url.removesuffix("/v1")
    async with httpx2.AsyncClient(
        verify=read_ssl(), timeout=CONNECT, headers=headers, event_hooks={"response": [bound]}
    ) as client:

        async def ask(url: str, body: object = None) -> dict[str, Any]:
            try:
                method = "GET" if body is None else "POST"
                response = await client.request(method, url, json=body)
                found = response.json() if response.status_code == 200 else {}
            except (httpx2.HTTPError, ValueError, RecursionError):
                return {}
            return found if isinstance(found, dict) else {}

        listed = await ask(f"{base}/v1/models" if config.package == "anthropic" else f"{config.url}/models")
        entry = _entry(listed, config.model)
        sees = _sees(entry)
        if config.package == "anthropic":
            return Abilities(context=_size(entry), sees=sees)
        if props := await ask(
            f"{base}/props"
        ):  # llama.cpp's own setting, not what the model was trained with
            settings = props.get("default_generation_settings")
            modalities = props.get("modalities")
            seen = modalities.get("vision") if isinstance(modalities, dict) else None
            return Abilities(
                context=_size(settings if isinstance(settings, dict) else {}),
                sees=seen if isinstance(seen, bool) else sees,
            )
        if size := _size(entry):
            return Abilities(context=size, sees=sees)
        running = _entry(await ask(f"{base}/api/ps"), config.model)
        shown = await ask(f"{base}/api/show", {"model": config.model})
        able = shown.get("capabilities")
        set_to = re.search(r"num_ctx\s+(\d+)", str(shown.get("parameters", "")))
        return Abilities(
            context=_size(running) or (int(set_to[1]) if set_to else 0),
            sees="vision" in able if isinstance(able, list) else sees,
        )


def _entry(listed: Mapping[str, Any], model: str) -> dict[str, Any]:
    entries = listed.get("data") or listed.get("models") or ()
    names = (model, f"{model}:latest")
    for each in entries if isinstance(entries, list) else ():
        if isinstance(each, dict) and (each.get("id") in names or each.get("name") in names):
            return each
    return {}


def _size(entry: Mapping[str, Any]) -> int:
    """The context that an entry tells, 0 if it tells none."""
    found = (entry.get(name) for name in _SIZES)
    return next((size for size in found if isinstance(size, int) and 0 < size < 10**9), 0)


def _sees(entry: Mapping[str, Any]) -> bool | None:
    architecture = entry.get("architecture")
    kinds = architecture.get("input_modalities") if isinstance(architecture, dict) else None
    return "image" in kinds if isinstance(kinds, list) else None
