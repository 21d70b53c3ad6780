"""Locked packages, and the databases of vulnerabilities, played by a local server."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from services.critic import vulnerability_scan
from services.critic.file_tools import sort_files
from services.critic.scans import _finding, find_outdated, look_up
from shared.projects.reading import ProjectFiles
from shared.projects.reading.locks import read_locked
from shared.source import read_tree
from tests.unit.test_source_tree import plant

LOCKS = {
    "requirements.txt": "# pinned\nrequests[socks]==2.19.0 ; python_version > '3'\nflask>=2\n"
    "idna == 3.10 \\\n  --hash=x\n",
    "uv.lock": '[[package]]\nname = "jinja2"\nversion = "2.10"\n'
    'source = { registry = "https://pypi.org/simple" }\n'
    '[[package]]\nname = "own"\nversion = "0.1"\nsource = { editable = "." }\n',
    "Pipfile.lock": '{"default": {"django": {"version": "==1.11"}}, "develop": {}}',
    "package-lock.json": '{"lockfileVersion": 3, "packages": {"": {"version": "1.0.0"},\n'
    '"node_modules/lodash": {"version": "4.17.11"},\n'
    '"node_modules/a/node_modules/@b/c": {"version": "1.0.0"}}}',
    "old/package-lock.json": '{"dependencies": {"x": {"version": "1.0.0",'
    ' "dependencies": {"y": {"version": "2.0.0"}}}}}',
    "yarn.lock": '"@babel/core@^7.0.0", "@babel/core@^7.1.0":\n  version "7.2.0"\n\nleft-pad@^1.0.0:\n'
    '  version "1.3.0"\n',
    "pnpm-lock.yaml": "packages:\n  /axios@0.21.0:\n    resolution: {}\n"
    "  '@scope/a@1.2.3(react@18.0.0)':\n    dev: true\n",
    "Cargo.lock": '[[package]]\nname = "time"\nversion = "0.1.0"\nsource = "registry"\n[[package]]\n'
    'name = "own"\nversion = "1.0.0"\n',
    "go.mod": "module example.org/own\n\ngo 1.24\n\nrequire (\n\tgolang.org/x/text v0.3.0 // indirect\n)\n",
    "tests/fixtures/requirements.txt": "evil==1.0\n",
    "broken/poetry.lock": "[[package",
}


def test_every_kind_of_lock_file_is_read(tmp_path: Path) -> None:
    tree = read_tree(plant(tmp_path, LOCKS))
    found = {
        (each.ecosystem, each.name, each.version, f"{each.file}:{each.line}")
        for each in read_locked(ProjectFiles(tree.root), tree.files)
    }
    assert found == {
        ("PyPI", "requests", "2.19.0", "requirements.txt:2"),
        ("PyPI", "idna", "3.10", "requirements.txt:4"),
        ("PyPI", "jinja2", "2.10", "uv.lock:2"),
        ("PyPI", "django", "1.11", "Pipfile.lock:1"),
        ("npm", "lodash", "4.17.11", "package-lock.json:2"),
        ("npm", "@b/c", "1.0.0", "package-lock.json:3"),
        ("npm", "x", "1.0.0", "old/package-lock.json:1"),
        ("npm", "y", "2.0.0", "old/package-lock.json:1"),
        ("npm", "@babel/core", "7.2.0", "yarn.lock:1"),
        ("npm", "left-pad", "1.3.0", "yarn.lock:4"),
        ("npm", "axios", "0.21.0", "pnpm-lock.yaml:2"),
        ("npm", "@scope/a", "1.2.3", "pnpm-lock.yaml:4"),
        ("crates.io", "time", "0.1.0", "Cargo.lock:2"),
        ("Go", "golang.org/x/text", "0.3.0", "go.mod:6"),
    }  # fmt: skip


KNOWN: dict[str, Any] = {
    "/v1/vulns/GHSA-1": {
        "id": "GHSA-1",
        "aliases": ["CVE-2020-1"],
        "summary": "Pollution",
        "database_specific": {"severity": "HIGH"},
        "affected": [
            {
                "package": {"name": "lodash"},
                "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "4.17.12"}]}],
            }
        ],
    },
    "/pypi/jinja2/2.10/json": {
        "vulnerabilities": [
            {"id": "PYSEC-1", "aliases": ["CVE-2019-1"], "summary": "Escape", "fixed_in": ["2.10.1"]}
        ]
    },
    "/pypi/jinja2/json": {"info": {"version": "3.1.6"}},
    "/@babel%2Fcore/latest": {"version": "7.28.0"},
    "/lodash/latest": {"version": "4.17.21"},
    "/pypi/idna/3.10/json": {"vulnerabilities": [{"id": "PYSEC-2", "withdrawn": "2020-01-01"}]},
}
ADVISORY = {
    "id": 1,
    "url": "https://github.com/advisories/GHSA-1",
    "severity": "critical",
    "title": "Pollution",
    "vulnerable_versions": ">=4.0.0 <4.17.12",
}


class Database(BaseHTTPRequestHandler):
    """Answers as the databases do."""

    def do_GET(self) -> None:
        self.answer(KNOWN.get(self.path))

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/querybatch":
            results = [
                {"vulns": [{"id": "GHSA-1"}]} if query["package"]["name"] == "lodash" else {}
                for query in asked["queries"]
            ]
            self.answer({"results": results})
        else:
            self.answer({"lodash": [ADVISORY]} if "lodash" in asked else {})

    def answer(self, body: Any) -> None:
        self.send_response(200 if body is not None else 404)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Database)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def ask(folder: Path, source: str, address: str, packages: list[list[str]]) -> list[list[Any]]:
    (folder / "request").write_text(json.dumps({"source": source, "address": address, "packages": packages}))
    words = [
        sys.executable,
        "-I",
        vulnerability_scan.__file__,
        str(folder / "request"),
        str(folder / "report"),
    ]
    subprocess.run(words, check=True, env={}, timeout=30)
    return [json.loads(row) for row in (folder / "report").read_text().splitlines()]


def test_the_database_of_open_source_vulnerabilities(tmp_path: Path, address: str) -> None:
    packages = [["npm", "minimist", "1.2.8"], ["npm", "lodash", "4.17.11"]]
    assert ask(tmp_path, "osv", address, packages) == [[1, "CVE-2020-1", "HIGH", "Pollution", ["4.17.12"]]]


def test_the_advisories_of_npm(tmp_path: Path, address: str) -> None:
    packages = [["npm", "lodash", "4.17.11"], ["npm", "lodash", "4.17.21"], ["npm", "minimist", "1.2.8"]]
    assert [row[:3] for row in ask(tmp_path, "npm", address, packages)] == [[0, "GHSA-1", "critical"]]


def test_what_pypi_knows(tmp_path: Path, address: str) -> None:
    packages = [["PyPI", "jinja2", "2.10"], ["PyPI", "idna", "3.10"], ["PyPI", "gone", "1.0"]]
    assert ask(tmp_path, "pypi", address, packages) == [[0, "CVE-2019-1", "", "Escape", ["2.10.1"]]]


def test_an_index_that_keeps_no_vulnerabilities_is_no_answer(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KNOWN, "/pypi/jinja2/2.10/json", {"info": {}})
    with pytest.raises(subprocess.CalledProcessError):
        ask(tmp_path, "pypi", address, [["PyPI", "idna", "3.10"]])


def test_a_finding_names_the_package_its_place_and_the_cure(tmp_path: Path) -> None:
    files = ProjectFiles(plant(tmp_path, {"requirements.txt": "jinja2==2.10\n"}))
    package = read_locked(files, ["requirements.txt"])
    found = _finding(package, json.dumps([0, "CVE-2019-1", "CRITICAL", "Escape", ["2.10.1"]]).encode())
    assert (found.rule, found.severity, found.source) == ("CVE-2019-1", "high", "requirements.txt:1")
    assert found.message == "jinja2 2.10: Escape; fixed in 2.10.1"


async def test_without_a_grant_it_says_which_would_help(tmp_path: Path) -> None:
    sources = sort_files(read_tree(plant(tmp_path, {"requirements.txt": "jinja2==2.10\n"})))
    check = await look_up(sources, timeout=10)
    assert [gap.what for gap in check.not_checked] == ["known vulnerabilities of 1 PyPI package"]
    assert "MAILROOM_REACH=api.osv.dev" in check.not_checked[0].cure
    assert (check.tool.files, check.findings) == (0, ())
    nothing = await look_up(sort_files(read_tree(plant(tmp_path / "none", {"a.py": ""}))), timeout=10)
    assert (nothing.not_checked, nothing.tool.files) == ((), 0)


@pytest.mark.parametrize(
    ("source", "package", "newest"),
    [
        ("pypi newest", ["PyPI", "jinja2", "2.10"], ["3.1.6"]),
        ("npm newest", ["npm", "@babel/core", "7.2.0"], ["7.28.0"]),
        ("npm newest", ["npm", "lodash", "4.17.21"], ["4.17.21"]),
        ("pypi newest", ["PyPI", "gone", "1"], []),
        ("npm newest", ["npm", "../../etc", "1"], []),
    ],
)
def test_registries_tell_the_newest_release(
    tmp_path: Path, address: str, source: str, package: list[str], newest: list[str]
) -> None:
    assert [row[1] for row in ask(tmp_path, source, address, [package])] == newest


@pytest.mark.parametrize(
    ("lines", "rows", "said"),
    [
        ("jinja2==2.10", [[0, "3.1.6"]], "- jinja2 2.10, newest 3.1.6 (requirements.txt:1)"),
        ("jinja2==3.1.6", [[0, "3.1.6"]], "Of 1 locked dependency, 0 have a newer release."),
        ("a==1.9\nb==1.10", [[0, "1.10"], [1, "1.9"]], "Of 2 locked dependencies, 1 has a newer"),
        ("a==2.0", [[0, "2.0rc1"]], "dependency, 0 have"),
        ("jinja2", [], "The project locks no versions"),
        ("", [], "The project locks no versions"),
    ],
)
async def test_what_is_outdated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, rows: list[Any], said: str
) -> None:
    async def answer(*_: Any) -> list[bytes]:
        return [json.dumps([*row, "", "", []]).encode() for row in rows]

    monkeypatch.setattr("services.critic.scans._ask", answer)
    sources = sort_files(read_tree(plant(tmp_path, {"requirements.txt": f"{lines}\n"})))
    found = await find_outdated(sources, timeout=10, granted=["python"])
    assert said in found.output
    refused = await find_outdated(sources, timeout=10)
    assert rows == [] or "https://pypi.org may not be asked (grant the reach 'python')" in refused.output
