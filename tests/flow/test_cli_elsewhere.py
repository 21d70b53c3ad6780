"""Memory and mail from another machine: who may do what, files, large answers, and a gateway that ends."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from services.cli.api import Login, keep_login
from shared.access.credentials import find_address
from shared.access.scopes import Scope
from shared.contracts import MemoryWritten, Node, Source
from tests.flow.test_cli_gateway import Elsewhere
from tests.flow.test_cli_memory import Desk, at_work
from tests.support.access import Tokens
from tests.support.server import Server, mailroom_command, run_mailroom, serve

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def desk(office_server: Server) -> Iterator[Desk]:
    with at_work(office_server) as desk:
        yield desk


class Laptop(Elsewhere):
    """Another machine with a token of its own."""

    def __init__(self, folder: Path, office: Server, name: str, scope: Scope) -> None:
        super().__init__(folder / name)
        self.url = find_address(office.config)
        self.token = Tokens(office.config).add(name, scope)
        self.sign_in(self.token)

    def sign_in(self, token: str) -> None:
        keep_login(self.config, Login(url=self.url, token=token))

    def read(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def post(self, path: str, body: dict[str, Any]) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx2.post(f"{self.url}/api/v1/{path}", json=body, headers=headers, timeout=30)


def test_what_a_person_writes_elsewhere_is_that_persons(desk: Desk, tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, desk.office, "ada", Scope.SUBMIT)
    (mine,) = laptop.read("memory", "add", "The foghorn is tested on Mondays", "--tag", "fog")["ids"]
    assert "from ada" in desk.run("memory", "get", mine)
    assert mine in laptop.run("memory", "search", "when is the foghorn tested?").stdout
    assert [node["id"] for node in laptop.read("memory", "list", "--tag", "fog")["nodes"]] == [mine]
    assert laptop.run("memory", "get", mine[:-1]).stdout.startswith("The foghorn is tested on Mondays\n")
    theirs = Node(id="of-scout", title="The scout saw a seal at the slipway", source=Source(agent="scout"))
    forged = Node(
        id="forged",
        title="Bob pays for all of the paint",
        source=Source(agent="scout"),
        metadata={"person": "bob"},
    )
    desk.run("memory", "import", "-", text=theirs.to_json().decode())
    laptop.run("memory", "import", "-", text=forged.to_json().decode())
    (node,) = desk.read("memory", "get", "forged")
    assert (node["source"]["agent"], node["metadata"]) == ("user", {"person": "ada"})
    assert "Ended on" in laptop.run("memory", "end", "of-scout").stdout  # its text stays its author's
    (node,) = desk.read("memory", "get", "of-scout")
    assert (node["source"]["agent"], bool(node["valid_to"]), node["metadata"]) == ("scout", True, {})
    admin = Laptop(tmp_path, desk.office, "keeper", Scope.ADMIN)
    admin.run("memory", "import", "-", text=forged.to_json().decode().replace("forged", "moved"))
    (node,) = desk.read("memory", "get", "moved")
    assert (node["source"]["agent"], node["metadata"]) == ("scout", {"person": "bob"})


def test_a_token_that_reads_writes_nothing(desk: Desk, tmp_path: Path) -> None:
    node_id = desk.add("The winch is oiled before each season")
    viewer = Laptop(tmp_path, desk.office, "viewer", Scope.READ)
    assert viewer.read("memory", "get", node_id)[0]["id"] == node_id
    assert viewer.read("memory", "linker")["rounds"] >= 0
    for arguments in (
        ("add", "Nothing of this is stored at all"),
        ("retire", node_id),
        ("end", node_id),
        ("link", node_id, "led_to", "x"),
    ):
        assert "needs the scope submit" in viewer.says("memory", *arguments)
    assert "needs the scope admin" in viewer.says("memory", "linker", "trigger")
    assert "needs the scope admin" in viewer.says("memory", "rebuild", "--yes")
    assert "needs the scope admin" in Laptop(tmp_path, desk.office, "eve", Scope.SUBMIT).says(
        "memory", "reindex"
    )
    assert desk.read("memory", "get", node_id)[0]["valid_to"] == ""
    assert viewer.read("mail", "list") == []
    assert "needs the scope submit" in viewer.says("mail", "write", "scout", "Hello")


def test_a_wrong_token_is_named_with_the_cure(desk: Desk, tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, desk.office, "wrong", Scope.READ)
    laptop.sign_in("mr_wrong")
    for arguments in (("memory", "stats"), ("memory", "add", "A fact of some length"), ("mail", "list")):
        said = laptop.says(*arguments)
        assert "does not take the token of this command. Make one there with" in said
    assert "does not take the token" in Elsewhere(tmp_path / "none").says(
        "memory", "list", MAILROOM_URL=laptop.url
    )


def test_nothing_is_forgotten_or_counted_by_a_write(desk: Desk, tmp_path: Path) -> None:
    node_id = desk.add("The oars are kept in the long shed")
    admin = Laptop(tmp_path, desk.office, "boss", Scope.ADMIN)
    for field in ({"forget": [node_id]}, {"accessed": {node_id: 9}}, {"sender": "memory"}):
        answer = admin.post("memory/write", {"retire": [node_id], **field})
        assert (answer.status_code, "There is no field" in answer.json()["detail"]) == (422, True)
    assert admin.post("memory/write", {}).status_code == 422
    assert admin.post("memory/list", {"limit": 0}).status_code == 422
    assert admin.post("memory/classify", {"classifier": "x"}).status_code == 404
    assert desk.read("memory", "get", node_id)[0]["retired_version"] == 0
    done = admin.run("memory", "forget", node_id, "--yes")  # it needs the bus
    assert done.returncode == 1
    assert "The office is elsewhere" in done.stderr


def test_files_of_another_machine_are_refused_by_name(desk: Desk, tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, desk.office, "files", Scope.SUBMIT)
    note = tmp_path / "note.md"
    note.write_text("# Note\n\n- The davit is rusty at its foot\n")
    said = laptop.says("memory", "ingest", str(note))
    assert said.startswith(f"Error: {note} is of this machine, and the office that is asked is that of")
    assert "mailroom memory import" in said
    said = laptop.says("mail", "write", "scout", "Read ./services please")
    assert "services is of this machine" in said
    assert "<briefing>" in laptop.run("brief", "critic", "--prompt").stdout
    lines = tmp_path / "lines.jsonl"  # what is in a file is sent
    lines.write_text('{"text": "The davit was painted green. By hand."}\n')
    assert laptop.run("memory", "import", str(lines)).stdout.startswith("Stored 1 nodes and 0 edges")
    laptop.read("memory", "export", str(tmp_path / "out.jsonl"))
    assert "davit was painted" in (tmp_path / "out.jsonl").read_text()


def test_large_nodes_and_answers_come_whole(desk: Desk, tmp_path: Path) -> None:
    """More than a message of the bus holds, and a node that is larger than other requests may be.

    They have vectors: to embed them would take a minute.
    """
    laptop = Laptop(tmp_path, desk.office, "large", Scope.SUBMIT)
    body = "The ledger of the harbour goes on and on. " * 8_000
    known: dict[str, Any] = {
        "tags": ("ledger",),
        "embedding": (1.0, *(0.0,) * 383),
    }
    nodes = [Node(id=f"ledger-{n:03}", title=f"Ledger {n}", body=body, **known) for n in range(30)]
    nodes.append(Node(id="ledger-large", title="Ledger of ledgers", body="Über " * 190_000, **known))
    (tmp_path / "ledgers.jsonl").write_bytes(b"\n".join(node.to_json() for node in nodes))
    assert laptop.read("memory", "import", str(tmp_path / "ledgers.jsonl"))["nodes"] == len(nodes)
    ids: list[str] = []
    after = ""
    while not ids or after:
        page = laptop.read("memory", "list", "--tag", "ledger", "--limit", "1000", "--after", after)
        assert all(len(node["body"]) >= len(body) for node in page["nodes"])
        ids += [node["id"] for node in page["nodes"]]
        after = page["next"]
    assert ids == [node.id for node in nodes]
    exported = laptop.read("memory", "export", str(tmp_path / "all.jsonl"))
    assert exported["nodes"] >= len(nodes)
    assert (tmp_path / "all.jsonl").stat().st_size > 10_000_000


def test_a_gateway_that_ends_in_the_middle(tmp_path: Path) -> None:
    with serve(tmp_path / "office") as office, at_work(office) as desk:
        desk.add("The lock keeper lives by the upper gate")
        lines = [f'{{"title": "Barge {n} carries {n * 3} tons of gravel upstream"}}' for n in range(1_600)]
        (tmp_path / "barges.jsonl").write_text("\n".join(lines))
        importing = office.start_process(
            mailroom_command("memory", "import", str(tmp_path / "barges.jsonl"), "--json")
        )
        while desk.read("memory", "stats")["nodes"] < 200:
            assert importing.poll() is None
            time.sleep(0.1)
        office.kill_gateway()
        assert importing.poll() is None
        # for a machine that asks by its address, it is away
        elsewhere = {**Elsewhere(tmp_path / "away").variables, "MAILROOM_URL": "http://127.0.0.1:9"}
        for arguments in (("memory", "search", "gravel"), ("memory", "add", "A fact of some length")):
            done = run_mailroom(elsewhere, *arguments)
            assert done.returncode == 1
            said = " ".join(done.stderr.split())
            assert said.startswith("Error: The gateway at http://127.0.0.1:9 cannot be reached: ")
            assert said.count("mailroom") == 1  # the cure
        office.start_gateway()
        out, error = importing.communicate(timeout=90)
        assert importing.returncode == 0, error
        result = json.loads(out)
        assert (result["nodes"], result["problems"]) == (1_600, [])
        assert desk.read("memory", "stats")["nodes"] == 1_601
        office.kill_gateway()
        said = desk.run("memory", "stats", code=1)
        assert "is open, but its gateway does not run. See why in" in " ".join(said.split())


def test_an_import_goes_on_after_too_many_requests(tmp_path: Path) -> None:
    answers = [429, 200]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            is_write = self.path.endswith("/write")
            status = answers.pop(0) if is_write else 200
            body = b'{"detail": "There were too many requests", "cure": "Try again in 1 s"}'
            if status == 200:
                body = MemoryWritten(version=7).to_json() if is_write else b"{}"
            self.send_response(status)
            self.send_header("Content-Type", f"application/{'json' if status == 200 else 'problem+json'}")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        done = Elsewhere(tmp_path).run(
            *("memory", "import", "-", "--json"),
            text='{"text": "The quay was swept"}',
            MAILROOM_URL=f"http://127.0.0.1:{server.server_port}",
        )
        server.shutdown()
        thread.join()
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["nodes"], answers) == (1, [])
