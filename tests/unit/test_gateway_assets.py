"""The dashboard's libraries: a manifest with sums, and files that are what it says."""

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from services.gateway import assets
from services.gateway.app import WEB
from services.gateway.assets import MANIFEST, fetch, is_complete, read_manifest
from shared.errors import StartError
from shared.settings import load

TESTS = Path(__file__).parents[1] / "browser" / "assets.toml"


def test_every_package_has_a_version_a_licence_and_sums() -> None:
    for package in (*read_manifest(MANIFEST), *read_manifest(TESTS)):
        assert re.fullmatch(r"\d+\.\d+\.\d+", package.version)
        assert package.license in {"MIT", "Apache-2.0", "MPL-2.0", "ISC"}
        assert package.integrity.startswith("sha512-")
        assert all(re.fullmatch(r"[0-9a-f]{64}", file.sha256) for file in package.file)


def test_no_manifest_names_an_address() -> None:
    assert not any("://" in path.read_text() for path in (MANIFEST, TESTS))


def test_the_import_map_names_the_files_of_the_manifest() -> None:
    found = re.search(r'<script type="importmap">(.*?)</script>', (WEB / "index.html").read_text())
    assert found
    named = set(json.loads(found[1])["imports"].values())
    assert named == {f"/web/vendor/{file.name}" for package in read_manifest() for file in package.file}


def test_the_files_that_were_fetched_have_their_sums() -> None:
    folder = load().assets
    if not folder.is_dir():
        pytest.skip("there was no registry of npm: python -m services.gateway.assets fetches them")
    assert is_complete(folder, read_manifest())
    assert fetch(folder, pytest.fail) == folder


def test_a_file_that_was_changed_is_not_taken(tmp_path: Path) -> None:
    folder = load().assets
    if not folder.is_dir():
        pytest.skip("there was no registry of npm: python -m services.gateway.assets fetches them")
    shutil.copytree(folder, tmp_path / "web")
    (tmp_path / "web" / "htm.mjs").write_text("export default 1")
    assert not is_complete(tmp_path / "web", read_manifest())


def fake_npm(folder: Path, content: bytes | None) -> str:
    """A program named npm that packs ``content`` as a file of the package; None: it cannot."""
    tarball = folder / "packed.tgz"
    if content is not None:
        (folder / "file").write_bytes(content)
        with tarfile.open(tarball, "w:gz") as archive:
            for name in ("LICENSE", "dist/preact.mjs"):
                archive.add(folder / "file", f"package/{name}")
    program = folder / "bin" / "npm"
    program.parent.mkdir()
    told = "npm error code E404\\nnpm error A complete log of this run can be found in: x"
    copy = f"cp {tarball} ." if content is not None else f"printf '{told}' >&2; exit 1"
    program.write_text(f"#!/bin/sh\n{copy}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(("content", "words"), [(b"evil", "wrong sum"), (None, "E404")])
def test_what_is_not_as_expected_is_refused_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, words: str
) -> None:
    npm = fake_npm(tmp_path, content)
    monkeypatch.setattr(assets.shutil, "which", lambda _: npm)
    with pytest.raises(StartError, match=words) as raised:
        fetch(tmp_path / "web", lambda _: None)
    assert "services.gateway.assets" in str(raised.value) or "npm cache" in str(raised.value)
    assert list((tmp_path / "web").iterdir()) == []


def imported(module: Path) -> list[Path]:
    """The modules of our own that a module imports when it is loaded."""
    found = re.findall(r'^(?:import|export)\b[^;]*?from "(\.[^"]+)";', module.read_text(), re.MULTILINE)
    return [(module.parent / path).resolve() for path in found]


def test_the_page_asks_at_once_for_every_module_it_needs() -> None:
    needed: set[Path] = set()
    left = [WEB / "app" / "main.js"]
    while left:
        module = left.pop()
        if module not in needed:
            needed.add(module)
            left += imported(module)
    named = re.findall(r'modulepreload" href="/web/(app/[^"]+)"', (WEB / "index.html").read_text())
    assert {WEB / name for name in named} == needed
