"""The files of the dashboard as browsers get them."""

import gzip
import os
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from services.gateway.app import Files

CODE = "export const lines = [];\n" * 100


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    folder = tmp_path / "web"
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "main.js").write_text(CODE)
    (folder / "library.mjs").write_text("export {};")
    (tmp_path / "secret").write_text("secret")
    return TestClient(Starlette(routes=[Route("/web/{path:path}", Files(folder).serve)]))


def test_a_file_is_compressed_and_asked_for_once(client: TestClient) -> None:
    answer = client.get("/web/app/main.js")
    assert answer.text == CODE
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) == len(gzip.compress(CODE.encode(), mtime=0)) < 500
    assert answer.headers["content-type"].startswith("text/javascript")
    again = client.get("/web/app/main.js", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = client.get("/web/app/main.js", headers={"Accept-Encoding": "identity"})
    assert plain.text == CODE
    assert "content-encoding" not in plain.headers
    assert client.head("/web/library.mjs").headers["content-type"].startswith("text/javascript")


def test_a_file_that_changes_is_read_again(client: TestClient, tmp_path: Path) -> None:
    path = tmp_path / "web" / "library.mjs"
    before = client.get("/web/library.mjs")
    path.write_text("export { a };")
    os.utime(path, ns=(1, 1))
    after = client.get("/web/library.mjs", headers={"If-None-Match": before.headers["etag"]})
    assert (after.status_code, after.text) == (200, "export { a };")
    path.unlink()
    assert client.get("/web/library.mjs").status_code == 404


@pytest.mark.parametrize("name", ["../secret", "app/../../secret", "app//main.js", "app", "", "%00", "a%0a"])
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/web/{name.replace('..', '%2e%2e')}").status_code == 404
