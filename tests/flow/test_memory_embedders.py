"""Other embedders by LanceDB's registry and the real clients, from a server that speaks their protocols."""

import base64
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.memory.embedding import HostedEmbedder, make_slug, open_embedder, parse_choice
from shared import settings
from shared.errors import ActionError, StartError
from shared.settings import Settings
from tests.support.http import HttpServer, Request

DIMENSIONS = 8


def vector_of(text: str) -> list[float]:
    """Some vector that depends on the text, and is no unit vector."""
    rest = (float(sum(map(ord, text)) % (7 + place)) for place in range(DIMENSIONS - 1))
    return [float(len(text) + 1), *rest]


class EmbeddingServer(HttpServer):
    """OpenAI's ``/v1/embeddings`` and Ollama's ``/api/embed``; ``failures`` are answered first."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any], str]] = []
        self.failures: list[int] = []
        self.dimensions = DIMENSIONS
        super().__init__(self._respond)

    def _respond(self, request: Request) -> None:
        body = json.loads(request.read_body())
        self.requests.append((request.path, body, request.headers.get("Authorization", "")))
        status = self.failures.pop(0) if self.failures else 200
        answer = self.answer(request.path, body) if status == 200 else {"error": {"message": "out of order"}}
        request.respond(status, {"Content-Type": "application/json"}, json.dumps(answer).encode())

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        vectors = [vector_of(text)[: self.dimensions] for text in body["input"]]
        if path == "/api/embed":
            return {"model": body["model"], "embeddings": vectors}
        assert path == "/v1/embeddings"
        shown: list[Any] = vectors
        if body.get("encoding_format") == "base64":
            shown = [base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode() for row in vectors]
        return {
            "object": "list",
            "model": body["model"],
            "data": [
                {"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(shown)
            ],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


def configure(tmp_path: Path, embedding: str, url: str = "", key: str = "") -> Settings:
    return settings.load(
        {
            "MAILROOM_STATE_DIR": str(tmp_path),
            "MAILROOM_EMBEDDING": embedding,
            "MAILROOM_EMBEDDING_URL": url,
            "MAILROOM_EMBEDDING_KEY": key,
        }
    )


@pytest.fixture
def opened(tmp_path: Path, server: EmbeddingServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    family = request.param
    pytest.importorskip(family)
    url = server.root + ("/v1" if family == "openai" else "")
    embedder = open_embedder(configure(tmp_path, f"{family}:tiny-model", url, "k3y"))
    yield embedder
    embedder.close()


@pytest.mark.parametrize("opened", ["openai", "ollama"], indirect=True)
def test_vectors_of_a_served_model_are_unit_vectors_in_order(opened: Any, server: EmbeddingServer) -> None:
    family = opened.model_name.partition(":")[0]
    assert opened.model_name == f"{family}:tiny-model"
    assert opened.slug == f"{make_slug(opened.model_name)}_{DIMENSIONS}"
    assert opened.dimensions == DIMENSIONS
    texts = [f"text number {number} " * (number % 5 + 1) for number in range(150)] + ["", "x" * 20_000]
    vectors = opened.embed(texts)
    assert (vectors.dtype, vectors.shape) == (np.float32, (152, DIMENSIONS))
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    wanted = np.array([vector_of(text.strip()) for text in texts[:150]])
    assert np.allclose(vectors[:150], wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-6)
    assert opened.embed([]).shape == (0, DIMENSIONS)
    sizes = [len(body["input"]) for _, body, _ in server.requests]
    assert sizes[0] == 1
    assert sorted(sizes[1:4]) == [24, 64, 64]
    assert max(len(text) for _, body, _ in server.requests for text in body["input"]) == 8_000
    assert {key for _, _, key in server.requests} == {"Bearer k3y"}
    assert {body["model"] for _, body, _ in server.requests} == {"tiny-model"}


@pytest.mark.parametrize("opened", ["openai", "ollama"], indirect=True)
def test_what_passes_is_tried_again_and_what_does_not_is_told(opened: Any, server: EmbeddingServer) -> None:
    server.failures = [503, 429]
    assert opened.embed(["once more"]).shape == (1, DIMENSIONS)
    count = len(server.requests)
    server.failures = [401, 401, 401]
    with pytest.raises(ActionError, match=r"tiny-model at http.*MAILROOM_EMBEDDING_KEY"):
        opened.embed(["no"])
    assert len(server.requests) == count + 1
    server.failures = []
    server.dimensions = 4
    with pytest.raises(ActionError, match="now gives 4 numbers a vector, not 8"):
        opened.embed(["another model"])


@pytest.mark.parametrize("family", ["openai", "ollama"])
def test_a_server_that_is_not_there_is_told_at_the_start(
    tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(family)
    monkeypatch.setattr("services.memory.embedding.FIRST_PAUSE", 0.01)
    started = time.monotonic()
    with pytest.raises(StartError, match=r"does not answer \(.*\)\. See that it runs"):
        open_embedder(configure(tmp_path, f"{family}:m", "http://127.0.0.1:9"))
    assert time.monotonic() - started < 10


def test_the_texts_of_a_refused_request_are_not_logged(tmp_path: Path, server: EmbeddingServer) -> None:
    pytest.importorskip("openai")
    program = (
        "import sys\nfrom services.memory.embedding import open_embedder\n"
        "from shared import settings\n"
        "try:\n    open_embedder(settings.load())\nexcept Exception as error:\n    print(error)\n"
    )
    server.failures = [400]
    config = {
        "MAILROOM_EMBEDDING": "openai:m",
        "MAILROOM_EMBEDDING_URL": f"{server.root}/v1",
        "MAILROOM_EMBEDDING_KEY": "k3y",
        "MAILROOM_STATE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **config}, capture_output=True, text=True
    )
    assert "gave 0 vectors for 1 texts" in done.stdout
    assert "Traceback" not in done.stderr
    assert "How many numbers" not in done.stderr + done.stdout


@pytest.mark.parametrize("embedding", ["openai", "openai:", "cohere:x", "bge"])
def test_a_family_that_is_not_known(embedding: str) -> None:
    with pytest.raises(
        StartError, match=r"Give openai:NAME, ollama:NAME, sentence-transformers:NAME, or nothing"
    ):
        parse_choice(embedding)


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        StartError, match=r"sentence_transformers is not installed\. Run: pip install 'mailroom\["
    ):
        open_embedder(configure(tmp_path, "sentence-transformers:all-MiniLM-L6-v2"))


def test_no_setting_is_the_own_model() -> None:
    own = open_embedder(settings.load())
    assert (own.model_name, own.slug, own.dimensions) == (
        "bge-small-en-v1.5-int8",
        "bge_small_en_v1_5_int8",
        384,
    )
    own.close()


class Function:
    """What the registry's embedding functions look like, without a client."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def generate_embeddings(self, texts: list[str]) -> list[Any]:
        return self.rows


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([None], "gave 0 vectors for 1 texts"),
        ([[1.0], [2.0]], "gave 2 vectors for 1 texts"),
        ([[0.0, 0.0]], "a vector that is zero"),
        ([[float("nan"), 1.0]], "not of numbers"),
    ],
)
def test_vectors_that_are_none_are_refused(rows: list[Any], reason: str) -> None:
    with pytest.raises(ActionError, match=reason):
        HostedEmbedder("openai:m", Function(rows))


def test_slugs_tell_models_apart() -> None:
    slugs = {make_slug(name) for name in ("openai:a/b", "openai:a_b", "openai:A-b", "x" * 200)}
    assert len(slugs) == 4
    assert all(len(slug) < 64 and slug.replace("_", "").isalnum() for slug in slugs)
