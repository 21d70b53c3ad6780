"""Memory by way of the command, the scripts' functions and plain requests, against the real daemon."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from services.cli.command import cli
from shared.contracts import MemoryWritten, Node, generate_id
from tests.support.forking import start_program
from tests.support.server import ROOT, Server, serve

START_TIMEOUT = 60.0


class Desk:
    """An office with nothing but memory and the gateway at work, and the command."""

    def __init__(self, office: Server) -> None:
        self.office = office

    def run(self, *arguments: str, text: str | None = None, code: int = 0) -> str:
        """Run the command, which ends with ``code``; returns what it printed, or if it failed its errors.

        It runs in this process: starting Python anew each time would take most of the time.
        """
        done = CliRunner().invoke(
            cli, arguments, prog_name="mailroom", input=text, env=self.office.environment
        )
        assert done.exit_code == code, (done.output, done.exception)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.stderr if code else done.stdout

    def read(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def add(self, title: str, *more: str) -> str:
        (node_id,) = self.read("memory", "add", title, *more)["ids"]
        return str(node_id)

    def script(self, code: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**self.office.environment, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout


@contextmanager
def at_work(office: Server) -> Iterator[Desk]:
    office.environment["MAILROOM_LINKER_INTERVAL"] = "86400"  # nothing but what the tests do
    office.start_gateway()
    variables, log = {**office.environment, "NATS_URL": office.url}, office.config.logs / "memory.log"
    daemon = start_program([sys.executable, "-m", "services.memory"], variables, log)
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while not list((office.config.state_dir / "run").glob("memory-*.alive")):
            assert daemon.poll() is None, log.read_text()[-3_000:]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield Desk(office)
    finally:
        daemon.terminate()
        daemon.wait(20)


@pytest.fixture(scope="module")
def desk(office_server: Server) -> Iterator[Desk]:
    """One memory for the tests of this module: each remembers things of its own."""
    with at_work(office_server) as desk:
        yield desk


# --- how it is ----------------------------------------------------------------------------------


def test_it_tells_how_it_is(desk: Desk) -> None:
    # Before the others fill memory: 150 memories that are alike take a round of the linker fifteen seconds.
    desk.add("The harbour office is on the second floor of the tower")
    health = desk.run("memory", "health").splitlines()
    assert health[0].split() == ["status", "ok"]
    assert all(len(line) <= 80 or "path" in line or "folder" in line for line in health)
    stats = desk.read("memory", "stats")
    assert stats["nodes"] > 0
    assert f"{stats['model']}" in desk.run("memory", "stats")
    assert "rounds" in desk.run("memory", "linker")
    assert desk.read("memory", "linker", "trigger")["rounds"] >= 1
    desk.add("Visitors of the harbour office take the stairs to the second floor of the tower", "--insist")
    linked = desk.read("memory", "linker", "trigger", "--edges")
    made = next(
        edge
        for edge in linked["made"]
        if edge["by"] == "similarity" and edge["from_title"].startswith("Visitors")
    )
    assert made["relation"] == "related_to"
    assert 0.75 <= made["score"] <= 1
    assert made["to_title"].startswith("The harbour office")
    assert linked["edges_by_kind"]["related_to"]["similarity"] >= 1
    lines = desk.run("memory", "linker", "--edges").splitlines()
    assert any("related_to by similarity" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)
    assert desk.run("memory", "reindex")


# --- nodes ---------------------------------------------------------------------------------------


def test_what_is_remembered_can_be_read_listed_and_retired(desk: Desk) -> None:
    title = "The lighthouse keeper changes at noon"
    node_id = desk.add(
        title, "--kind", "observation", "--tag", "lighthouse", "-m", "shift=early", "--session", "s-9"
    )
    told = desk.run("memory", "get", node_id)
    assert told.startswith(f"{title}\nobservation, importance 0.5, ")
    assert "from user s-9 command line\ntags: lighthouse\nshift: early\n" in told
    listed = desk.run("memory", "list", "--tag", "lighthouse")
    assert title in listed
    assert node_id in listed
    assert desk.read("memory", "list", "--session", "s-9")["nodes"][0]["id"] == node_id
    assert "No memory matches" in desk.run("memory", "list", "--agent", "critic", "--tag", "lighthouse")
    version = desk.read("memory", "list", "--tag", "lighthouse")["version"]
    assert "graph version" in desk.run("memory", "retire", node_id)
    assert desk.read("memory", "list", "--tag", "lighthouse")["nodes"] == []
    assert (
        desk.read("memory", "list", "--tag", "lighthouse", "--retired")["nodes"][0]["retired_version"]
        > version
    )
    assert (
        desk.read("memory", "list", "--tag", "lighthouse", "--at", str(version))["nodes"][0]["id"] == node_id
    )
    assert "retired at graph version" in desk.run("memory", "get", node_id)
    assert "nowhere is not in memory, so it cannot be retired" in desk.run(
        "memory", "retire", "nowhere", code=1
    )


def test_what_is_forgotten_is_gone_and_where_it_still_stands_is_told(desk: Desk) -> None:
    title = "The lamp oil is bought from Ignatius Quill in secret"
    node_id, merged = (
        desk.add(title, "--insist"),
        desk.add("The cellar key is kept by Ignatius alone", "--insist"),
    )
    joined = desk.add("Ignatius keeps oil and key", "-m", json.dumps([merged]).join(("merged_from=", "")))
    note = desk.office.config.state_dir / "outputs" / "report.md"
    note.parent.mkdir(exist_ok=True)
    note.write_text(f"As is known: {title}.")
    unknown = desk.run("memory", "forget", node_id, "nowhere", "--yes", code=1)
    assert "nowhere is not in memory, so nothing was forgotten" in unknown
    quoting = desk.add("Heard at the harbour", "--body", f"Somebody said: {title}!", "--insist")
    asked = desk.run("memory", "forget", node_id, text="n\n", code=1)
    assert f"1 other memory with the same text lose it too: {quoting}" in asked.replace("\n", " ")
    assert title in asked
    assert desk.read("memory", "get", node_id)[0]["title"] == title
    told = desk.run("memory", "forget", node_id, "--yes")
    assert told.startswith(
        f"Forgotten: {node_id} (2 messages of the log erased)\nOverwritten in:\n- {note}\n"
    )
    assert "The texts stand in no message of the office, and in no file of its folder." in told
    assert note.read_text() == f"As is known: {'[forgotten]'.ljust(len(title))}."
    done = desk.read("memory", "forget", merged, "--yes")
    assert (done["nodes"], done["remain"]) == ([merged, joined], [])
    assert [node["title"] for node in desk.read("memory", "get", node_id, merged, joined)] == [
        "[forgotten]"
    ] * 3
    assert re.search(r"^  - \d+ by order of .*\(order \S+\)$", desk.run("audit", "verify"), re.MULTILINE)


def test_files_are_taken_in_and_what_came_of_them_is_said(desk: Desk, tmp_path: Path) -> None:
    notes = tmp_path / "quay"
    notes.mkdir()
    (notes / "lamps.md").write_text("# Lamps\n\n- The north lamp is green.\n- The south lamp is red.\n")
    done = desk.read("memory", "ingest", str(notes / "lamps.md"))
    assert (done["memories"], done["failed"], done["wait"]) == (3, [], [])
    (notes / "map.gif").write_bytes(b"GIF89a")
    told = CliRunner().invoke(cli, ["memory", "ingest", str(notes)], env=desk.office.environment)
    assert told.exit_code == 1
    assert "map.gif was not imported: memory reads md, markdown" in told.stdout
    assert "1 file taken in: 3 memories" in told.stdout


def test_the_file_that_a_row_came_from_is_named_when_it_is_forgotten(desk: Desk, tmp_path: Path) -> None:
    table = tmp_path / "bollards.csv"
    table.write_text("bollard,colour,year\nnorth mole,yellow,1987\nsouth mole,white,1991\n")
    assert desk.read("memory", "ingest", str(table))["memories"] == 2
    row = next(
        node["id"]
        for node in desk.read("memory", "list", "--session", "bollards.csv")["nodes"]
        if "north" in node["body"]
    )
    note = tmp_path / "buoys.md"
    note.write_text(
        "# Buoys\n\n- The red buoy off the point was towed to the yard in March\n- Others stayed\n"
    )
    desk.read("memory", "ingest", str(note))
    (buoy,) = [
        node["id"]
        for node in desk.read("memory", "list", "--session", "buoys.md")["nodes"]
        if "red buoy" in node["body"] + node["title"] and "Others" not in node["body"]
    ]
    done = desk.read("memory", "forget", buoy, "--yes")
    assert (done["remain"], [Path(path).name for path in done["files"]]) == ([], ["buoys.md"])
    done = desk.read("memory", "forget", row, "--yes")
    assert len(done["remain"]) == 1
    assert done["remain"][0].endswith("ingest/processed/bollards.csv, which it was taken from")


def test_the_beginning_of_an_id_is_enough(desk: Desk) -> None:
    for number in (1, 2):
        desk.add(f"The pilot boat number {number} is painted red", "--id", f"pilot-red-{number}")
    assert [node["id"] for node in desk.read("memory", "get", "pilot-red-1")] == ["pilot-red-1"]
    desk.add("The tug at the fish quay has a crew of four", "--id", "tug-of-the-quay")
    assert [node["id"] for node in desk.read("memory", "get", "tug-of")] == ["tug-of-the-quay"]
    several = desk.run("memory", "retire", "pilot-red", code=1)
    assert "Several memories begin with 'pilot-red'. Give more of the id" in several
    assert "Retired tug-of-the-quay" in desk.run("memory", "retire", "tug-of")
    assert "There is no memory 'tug-at'" in desk.run("memory", "get", "tug-at", code=1)


def test_what_was_retired_or_ended_is_restored(desk: Desk) -> None:
    node_id = desk.add("The lighthouse keeper sleeps in the western tower", "--tag", "light")
    before = desk.read("memory", "get", node_id)
    for command in ("retire", "end"):
        desk.run("memory", command, node_id)
        assert node_id not in desk.run("memory", "search", "lighthouse keeper")
        assert f"Restored {node_id}" in desk.run("memory", "restore", node_id[:20])
        assert node_id in desk.run("memory", "search", "lighthouse keeper")
    (old,), (new,) = before, desk.read("memory", "get", node_id)
    for name in ("title", "tags", "created_at", "valid_to", "retired_version", "source"):
        assert new.get(name) == old.get(name), name
    assert "was neither retired nor ended" in desk.run("memory", "restore", node_id, code=1)
    desk.run("memory", "retire", node_id)
    assert "is retired, so nothing was ended" in desk.run("memory", "end", node_id, code=1)
    assert "nowhere is not in memory" in desk.run("memory", "restore", "nowhere", code=1)


def test_what_holds_no_longer_is_ended_on_its_day(desk: Desk) -> None:
    node_id = desk.add("The ferry leaves from the northern quay", "--tag", "ferry")
    assert "Ended on 2026-03-02" in desk.run("memory", "end", node_id, "--on", "2026-03-02")
    (node,) = desk.read("memory", "get", node_id)
    assert (node["valid_to"][:10], node["title"], node["tags"]) == (
        "2026-03-02",
        "The ferry leaves from the northern quay",
        ["ferry"],
    )
    assert "nowhere is not in memory" in desk.run("memory", "end", "nowhere", code=1)
    assert "Not in memory: nowhere" in desk.run("memory", "graph", "nowhere", code=1)
    later = desk.add("The ferry leaves from the southern pier", "--tag", "ferry")
    desk.run("memory", "link", later, "supersedes", node_id)
    by = f", superseded by: The ferry leaves from the southern pier ({later})"
    told = desk.run("memory", "get", node_id)
    assert "valid until 2026-03-02" in told
    assert by in told
    assert node_id not in desk.run("memory", "search", "ferry quay", "--tag", "ferry")
    assert by in desk.run("memory", "search", "ferry quay", "--tag", "ferry", "--history")
    assert by in desk.run("memory", "search", "Where did the ferry leave before?", "--tag", "ferry")


def test_a_list_goes_on_where_the_page_before_ended(desk: Desk) -> None:
    ids = [desk.add(f"Buoy number {number} was painted {colour}", "--kind", "buoy") for number, colour in
           enumerate(["red", "green", "white"])]  # fmt: skip
    first = desk.read("memory", "list", "--kind", "buoy", "--limit", "2")
    assert [node["id"] for node in first["nodes"]] == sorted(ids)[:2]
    assert f"--after {first['next']}" in desk.run("memory", "list", "--kind", "buoy", "--limit", "2")
    rest = desk.read("memory", "list", "--kind", "buoy", "--after", first["next"])
    assert ([node["id"] for node in rest["nodes"]], rest["next"]) == (sorted(ids)[2:], "")
    since = desk.read("memory", "get", ids[1])[0]["version"]
    later = desk.read("memory", "list", "--kind", "buoy", "--changed-since", str(since))
    assert [node["id"] for node in later["nodes"]] == [ids[2]]


def test_what_the_gate_refuses_is_told_with_what_to_do(desk: Desk) -> None:
    refusal = desk.run("memory", "add", "Port", code=1)
    assert refusal.startswith("Error: Not stored: ")
    assert "\nCheck: thin\nSuggestion: " in refusal
    assert "--insist" in refusal
    done = desk.office.mailroom("memory", "add", "Port", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["rejection"]["check"] == "thin"
    assert "Remembered as" in desk.run("memory", "add", "Port", "--insist")


def test_what_is_there_already_is_named(desk: Desk) -> None:
    title = "The eastern pier is closed for repairs until the spring"
    node_id = desk.add(title)
    refusal = desk.run("memory", "add", title, code=1)
    assert f"There already: {node_id}, {title}" in refusal
    assert f"mailroom memory add TITLE --id {node_id}" in refusal
    assert desk.add("The eastern pier is closed until the summer", "--id", node_id) == node_id
    assert desk.read("memory", "get", node_id)[0]["title"] == "The eastern pier is closed until the summer"


# --- search --------------------------------------------------------------------------------------


def test_a_search_tells_why_and_takes_filters(desk: Desk) -> None:
    title = "Fog signals are sounded twice a minute in bad weather"
    node_id = desk.add(title, "--session", "fog-1")
    told = desk.run("memory", "search", "what is done when there is fog?", "--why", "--session", "fog-1")
    assert title in told
    assert "     = " in told
    assert all(len(line) <= 80 or node_id in line for line in told.splitlines()), told
    (hit,) = desk.read("memory", "search", "fog", "--session", "fog-1", "--limit", "1")
    assert hit["node"]["id"] == node_id
    assert sum(hit["why"].values()) > 0
    assert desk.read("memory", "search", "fog", "--session", "fog-1", "--until", "1h") == []
    assert desk.read("memory", "search", "fog", "--session", "fog-1", "--since", "1h")
    assert (
        desk.read("memory", "search", "fog signals", "--deep", "--anchor", node_id)[0]["node"]["id"]
        == node_id
    )


def test_a_first_deep_search_says_that_it_takes_long(desk: Desk, tmp_path: Path) -> None:
    said = [f"Ballast tank {number} is emptied at low tide by pump {number % 7}." for number in range(150)]
    lines = [json.dumps({"title": each, "source": {"session": "ballast"}}) for each in said]
    (tmp_path / "ballast.jsonl").write_text("\n".join(lines))
    desk.run("memory", "import", str(tmp_path / "ballast.jsonl"))
    for known in (False, True):
        done = CliRunner().invoke(
            cli, ["memory", "search", "ballast tank", "--deep"], env=desk.office.environment
        )
        assert "Ballast tank" in done.stdout
        assert ("texts are compared for the first time" in done.stderr) is not known


# --- the graph -----------------------------------------------------------------------------------


def test_a_graph_is_a_tree_and_its_past_stays(desk: Desk) -> None:
    decision = desk.add("Decided to dredge the western channel", "--kind", "decision")
    event = desk.add("The dredger arrived in the western channel", "--kind", "event")
    fact = desk.add("The western channel is nine metres deep now")
    assert "led_to" in desk.run("memory", "link", decision, "led_to", event, "--weight", "0.8")
    desk.run("memory", "link", event, "led_to", fact, "--weight", "0.5")
    tree = desk.run("memory", "graph", decision, "--relation", "led_to").splitlines()
    assert tree[0] == "decision Decided to dredge the western channel"
    assert tree[2] == "└─ → led_to 0.80 event The dredger arrived in the western channel"
    assert tree[4] == "   └─ → led_to 0.50 fact The western channel is nine metres deep now"
    walk = desk.read("memory", "graph", fact, "--direction", "in", "--depth", "1", "--relation", "led_to")
    assert {visit["node"]["id"] for visit in walk["visits"]} == {fact, event}
    (path,) = desk.read("memory", "graph", decision, "--to", fact, "-k", "1", "--relation", "led_to")
    assert path["weight"] == pytest.approx(0.4)
    assert "weight 0.400, 2 steps" in desk.run(
        "memory", "graph", decision, "--to", fact, "-k", "1", "--relation", "led_to"
    )
    before = desk.read("memory", "stats")["version"]
    desk.run("memory", "unlink", event, "led_to", fact)
    assert f"No path leads from {decision} to {fact}" in desk.run(
        "memory", "graph", decision, "--to", fact, "--relation", "led_to", code=1
    )
    assert desk.read("memory", "graph", decision, "--to", fact, "--relation", "led_to", "--at", str(before))


def test_an_edge_to_nowhere_is_refused(desk: Desk) -> None:
    node_id = desk.add("The crane on the northern quay lifts forty tons")
    assert "which is not in memory" in desk.run("memory", "link", node_id, "led_to", "nowhere", code=1)
    assert "is not one of" in desk.run("memory", "link", node_id, "likes", "nowhere", code=2)
    assert "another node" in desk.run("memory", "link", node_id, "led_to", node_id, code=2)


# --- looking after it ----------------------------------------------------------------------------


def test_a_rebuild_asks_first_and_brings_everything_back(desk: Desk) -> None:
    node_id = desk.add("The tide table for the coming year is on the wall")
    assert "Nothing was done" in desk.run("memory", "rebuild", text="n\n", code=1)
    before = desk.read("memory", "stats")
    assert "Memory was rebuilt" in desk.run("memory", "rebuild", "--yes")
    after = desk.read("memory", "stats")
    assert (after["nodes"], after["edges"], after["kinds"]) == (
        before["nodes"],
        before["edges"],
        before["kinds"],
    )
    assert desk.read("memory", "get", node_id)[0]["title"].startswith("The tide table")


# --- briefings -----------------------------------------------------------------------------------


def test_a_briefing_for_people_and_for_a_prompt(desk: Desk) -> None:
    goal = "Make the harbour safe for ships at night"
    desk.add(
        goal, "--kind", "goal", "--importance", "0.9", "--tag", "safety", "--body", "Lights come first. " * 10
    )
    unknown = desk.run("brief", "nobody-knows-me", code=1)
    assert "There is no agent 'nobody-knows-me'" in unknown
    assert "critic" in unknown
    briefing = desk.read("brief", "critic")
    assert briefing["agent"] == "critic"
    assert goal in briefing["text"]
    assert desk.read("brief", "critic", "--at", str(briefing["version"]))["text"] == briefing["text"]
    prompt = desk.run("brief", "critic", "--prompt")
    assert "<briefing>" in prompt
    assert prompt.index("<briefing>") > 0
    assert len(desk.run("brief", "critic", "--compact")) < len(desk.run("brief", "critic"))
    short = desk.read("brief", "critic", "--max-chars", "1000", "--per-section", "1", "--no-contradictions")
    assert len(short["text"]) <= 1_000
    assert all(len(section["nodes"]) == 1 for section in short["sections"])
    assert "Lights come first" in prompt
    assert "leave out --compact" in desk.run("brief", "critic", "--prompt", "--compact", code=2)
    assert "agent must be a name" in desk.run("brief", "Not A Name", code=2)


# --- in and out ----------------------------------------------------------------------------------


def records(data: str) -> list[dict[str, Any]]:
    """Exported lines without the versions and times that a memory of its own gives them."""
    own = ("created_version", "version", "retired_version", "updated_at", "access_count", "last_accessed_at")
    lines = [json.loads(line) for line in data.splitlines()]
    return sorted(
        ({name: value for name, value in line.items() if name not in own} for line in lines),
        key=lambda line: json.dumps(line, sort_keys=True),
    )


@pytest.mark.timeout(180)
def test_what_is_exported_can_be_imported_elsewhere(desk: Desk, tmp_path: Path) -> None:
    first = desk.add("The old chart of the bay was drawn in 1911")
    second = desk.add("The new chart of the bay was drawn last year")
    desk.run("memory", "link", second, "supersedes", first, "--weight", "0.7")
    version = ("--at", str(desk.read("memory", "stats")["version"]))
    exported = desk.read("memory", "export", str(tmp_path / "memory.jsonl"), *version)
    assert exported["nodes"] >= 2
    assert exported["edges"] >= 1
    lines = (tmp_path / "memory.jsonl").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["memory.jsonl"]
    desk.run("memory", "export", str(tmp_path / "memory.parquet"), *version)
    assert sorted(path.name for path in (tmp_path / "memory.parquet").iterdir()) == [
        "edges.parquet",
        "nodes.parquet",
    ]
    with serve(tmp_path / "other") as office, at_work(office) as other:
        stored = other.read("memory", "import", str(tmp_path / "memory.parquet"))
        assert (stored["nodes"], stored["edges"], stored["problems"]) == (
            exported["nodes"],
            exported["edges"],
            [],
        )
        assert records(other.run("memory", "export", "-")) == records(lines)
        again = other.run("memory", "import", str(tmp_path / "memory.jsonl"))
        assert again.startswith(f"Stored {exported['nodes']:,} nodes and {exported['edges']:,} edges")
        assert records(other.run("memory", "export", "-")) == records(lines)


def test_a_wrong_line_is_told_and_the_others_are_stored(desk: Desk, tmp_path: Path) -> None:
    one, two = generate_id(), generate_id()
    lines = [
        json.dumps({"from": one, "to": two, "relation": "led_to"}),
        json.dumps({"id": one, "title": "Imported first"}),
        "",
        '{"title": "broken"',
        json.dumps({"title": "x" * 300}),
        json.dumps({"record": "node", "id": two, "title": "Imported second", "kind": "event"}),
        json.dumps({"record": "edge", "from": one, "to": "nowhere"}),
        json.dumps({"text": "Imported without an id. It has two sentences."}),
    ]
    file, rejects = tmp_path / "lines.jsonl", tmp_path / "rejected.jsonl"
    file.write_text("\n".join(lines))
    done = desk.office.mailroom("memory", "import", str(file), "--rejects", str(rejects))
    assert done.returncode == 1
    assert done.stdout.startswith("Stored 3 nodes and 1 edges")
    told = done.stderr.splitlines()
    assert [line.split(":")[0] for line in told] == ["line 4", "line 5", "line 7"]
    assert "title has 300 characters" in told[1]
    assert "cannot lead to nowhere, which is not in memory" in told[2]
    assert rejects.read_text().splitlines() == [lines[3], lines[4], lines[6]]
    before = desk.read("memory", "stats")["nodes"]
    done = desk.office.mailroom("memory", "import", "-", "--json", text=file.read_text())
    assert [problem["line"] for problem in json.loads(done.stdout)["problems"]] == [4, 5, 7]
    assert desk.read("memory", "stats")["nodes"] == before
    (edge,) = desk.read("memory", "graph", one, "--relation", "led_to")["edges"]
    assert edge["provenance"] == {"by": "imported"}


def test_what_is_too_large_for_a_message_comes_in_parts(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "large.jsonl"
    lines = [
        {"id": f"large{n}", "title": f"Large text {n}", "body": f"word{n} " * 140_000} for n in range(10)
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert desk.read("memory", "import", str(file))["nodes"] == 10
    desk.run("memory", "export", str(tmp_path / "all.jsonl"))
    exported = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert {line["id"] for line in lines} <= {line.get("id") for line in exported}
    told = desk.run("memory", "get", *(line["id"] for line in lines), code=1)
    assert "ask for less at once" in told
    for line in lines:
        desk.run("memory", "retire", line["id"])


def test_files_that_are_not_there(desk: Desk, tmp_path: Path) -> None:
    assert "cannot be read" in desk.run("memory", "import", str(tmp_path / "none.jsonl"), code=1)
    assert "nodes.parquet" in desk.run("memory", "import", str(tmp_path), code=1)
    assert "must end in .jsonl" in desk.run("memory", "export", str(tmp_path / "memory.txt"), code=2)
    assert "cannot be written" in desk.run("memory", "export", str(tmp_path / "no" / "m.jsonl"), code=1)


# --- scripts and other clients -------------------------------------------------------------------


def test_scripts_use_plain_functions(desk: Desk) -> None:
    code = """
import asyncio, json
from shared.memory import add_memory_entry, get_memory_health, search_memory
assert get_memory_health()["status"] == "ok"
text = "The ferry to the island leaves every two hours. It takes cars too."
entry = add_memory_entry(text, "observation", {"pier": 3}, session="script-1")

async def inside():
    return search_memory("when does the ferry leave?", limit=3, session="script-1")

found = asyncio.run(inside())
print(json.dumps([entry, found]))
"""
    entry, found = json.loads(desk.script(code))
    assert [hit["id"] for hit in found] == [entry]
    assert found[0]["text"] == "The ferry to the island leaves every two hours. It takes cars too."
    assert (found[0]["type"], found[0]["metadata"], found[0]["agent"]) == ("observation", {"pier": 3}, "user")
    (node,) = desk.read("memory", "get", entry)
    assert node["title"] == "The ferry to the island leaves every two hours."


def test_a_script_of_an_agent_works_under_its_name(desk: Desk) -> None:
    code = """
from shared.memory import WriteRefused, add_memory_entry
print(add_memory_entry("The scout found the harbour master's manual in the archive"))
try:
    add_memory_entry("Port")
except WriteRefused as refused:
    print(refused.rejection.check)
"""
    entry, check = desk.script(code, MAILROOM_IDENTITY="scout").split()
    assert desk.read("memory", "get", entry)[0]["source"]["agent"] == "scout"
    assert check == "thin"


async def test_any_client_can_add_and_link_with_plain_json(desk: Desk) -> None:
    async with desk.office.connection("critic") as critic:
        answer = await critic.request(
            "memory.add", b'{"text": "The breakwater was measured from a drone"}', timeout=20
        )
        written = MemoryWritten.from_json(answer)
        assert not written.error
        data = msgspec.json.encode([{"title": "The drone needs a new battery", "id": generate_id()}])
        second = MemoryWritten.from_json(await critic.request("memory.add", data, timeout=20))
        edge = msgspec.json.encode({"from": written.ids[0], "to": second.ids[0], "relation": "informed_by"})
        linked = MemoryWritten.from_json(await critic.request("memory.link", edge, timeout=20))
        assert linked.version > second.version
        (node,) = msgspec.json.decode(
            await critic.request("memory.get", msgspec.json.encode({"ids": written.ids})), type=list[Node]
        )
        assert node.source.agent == "critic"
