"""Package registries on loopback, and projects that use them."""

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.http import Site


def build_wheel(name: str, version: str, files: Mapping[str, str], requires: tuple[str, ...] = ()) -> bytes:
    """A wheel of pure Python."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    contents = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*contents, f"{info}/RECORD"))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return data.getvalue()


def build_tarball(manifest: Mapping[str, object], files: Mapping[str, str]) -> bytes:
    """A package as npm has it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path, text in {"package.json": json.dumps(manifest), **files}.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size = len(text)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


class PythonIndex(Site):
    """An index of wheels (PEP 503)."""

    def add(self, name: str, version: str, files: Mapping[str, str], requires: tuple[str, ...] = ()) -> None:
        wheel = build_wheel(name, version, files, requires)
        file = f"{name}-{version}-py3-none-any.whl"
        page = self.pages.get(f"/simple/{name}/", (200, {}, b""))
        assert isinstance(page, tuple)
        digest = hashlib.sha256(wheel).hexdigest()
        link = f'<a href="/files/{file}#sha256={digest}">{file}</a><br>'.encode()
        self.pages[f"/simple/{name}/"] = (200, {"Content-Type": "text/html"}, page[2] + link)
        self.pages[f"/files/{file}"] = (200, {"Content-Type": "application/zip"}, wheel)

    @property
    def index(self) -> str:
        return self.url("/simple")


class NodeRegistry(Site):
    """A registry of npm packages."""

    def add(self, name: str, version: str, files: Mapping[str, str], **fields: object) -> str:
        """Offer a package; returns its integrity, as locks have it."""
        manifest = {"name": name, "version": version, **fields}
        tarball = build_tarball(manifest, files)
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
        address = self.url(f"/{name}/-/{name}-{version}.tgz")
        dist = {"tarball": address, "integrity": integrity, "shasum": hashlib.sha1(tarball).hexdigest()}
        body = {
            "name": name,
            "dist-tags": {"latest": version},
            "versions": {version: {**manifest, "dist": dist}},
        }
        self.pages[f"/{name}"] = (200, {"Content-Type": "application/json"}, json.dumps(body).encode())
        self.pages[f"/{name}/-/{name}-{version}.tgz"] = (200, {}, tarball)
        return integrity


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write ``files`` beneath ``folder``; returns it."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
