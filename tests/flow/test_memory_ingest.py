"""The watched folder with real files, into the real memory on disk."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from docx import Document

from services.memory.ingest import client as client_module
from services.memory.ingest import folder as folder_module
from services.memory.ingest.drafting import OPEN_LINKS, find_others
from services.memory.ingest.file_import import Progress
from services.memory.ingest.folder import IngestFolder
from shared import settings
from shared.contracts import ListQuery, MemoryQuery, MemoryWrite, MemoryWritten, Node
from shared.errors import BusUnavailable
from shared.memory import Memory
from tests.support.direct_memory import DirectMemory
from tests.support.logs import capture_log
from tests.support.office import Office
from tests.support.waiting import eventually

SETTLE = 0.1


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[DirectMemory]:
    async with DirectMemory.open(settings.load({"MAILROOM_STATE_DIR": str(tmp_path / "state")})) as memory:
        yield memory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ingest"
    folder.mkdir()
    return folder


Write = Callable[[MemoryWrite], Awaitable[MemoryWritten]]


@asynccontextmanager
async def watching(
    memory: DirectMemory, root: Path, write: Write | None = None
) -> AsyncIterator[IngestFolder]:
    folder = IngestFolder(
        root,
        write or memory.write,
        memory.engine,
        settle=SETTLE,
    )
    running = asyncio.create_task(folder.run())
    try:
        yield folder
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def drop(root: Path, path: str, text: str | bytes) -> Path:
    """Put a file there as ``mv`` does: whole."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    (root / ".new").write_bytes(text if isinstance(text, bytes) else text.encode())
    return (root / ".new").rename(target)


def left(root: Path) -> list[str]:
    """What lies in the folder besides what it filed away."""
    return [
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.relative_to(root).parts[0] not in ("processed", "failed") and not path.is_dir()
    ]


async def taken(folder: IngestFolder, files: int) -> None:
    await eventually(lambda: folder.status()["files"] + folder.status()["failed"] >= files, 60)
    await eventually(lambda: not folder.status()["waiting"])


async def test_files_there_at_the_start_and_files_that_come(memory: DirectMemory, root: Path) -> None:
    drop(root, "notes/printing.md", "# Printing\nThe colour printer stands on the second floor.\n")
    async with watching(memory, root) as folder:
        await taken(folder, 1)
        drop(root, "people.csv", "name,room\nAnna Meier,12\nBob Kowalski,14\n")
        drop(root, "deep/er/app.log", "2026-01-01 10:00:00 ERROR the toner ran out\n")
        await taken(folder, 3)
    assert left(root) == []
    assert (root / "processed/notes/printing.md").read_text().startswith("# Printing")
    assert (root / "processed/deep/er/app.log").exists()
    nodes = await memory.nodes()
    assert set(nodes) == {
        "Printing",
        "people › Anna Meier",
        "people › Bob Kowalski",
        "app › 2026-01-01 10:00:00 ERROR the toner ran out",
    }
    assert nodes["Printing"].source.channel == "ingest"
    assert nodes["Printing"].metadata["file"] == "notes/printing.md"
    found = await memory.engine.search(MemoryQuery(text="where is the printer?"))
    assert found[0].node.title == "Printing"


async def test_the_same_file_again_changes_nothing(memory: DirectMemory, root: Path) -> None:
    note = "# Vendor\nWe buy toner from Inkworks.\n\n## Decisions\nWe chose Inkworks for its prices.\n"
    table = "name,room\nAnna Meier,12\nBob Kowalski,14\n"
    async with watching(memory, root) as folder:
        drop(root, "vendor.md", note)
        drop(root, "people.csv", table)
        await taken(folder, 2)
        version = memory.engine.version
        drop(root, "vendor.md", note)
        drop(root, "people.csv", table)
        await taken(folder, 4)
        assert memory.engine.version == version
        for count in (5, 6):
            drop(root, "export/people (1).csv", table)
            await taken(folder, count)
            assert memory.engine.version == version + 1  # which says that this file has them too
        status = folder.status()
    assert (status["unchanged"], status["duplicates"], status["stored"]) == (5, 4, 5)
    assert (root / "processed/vendor-2.md").exists()
    assert (root / "processed/people.csv").read_text() == (root / "processed/people-2.csv").read_text()


async def test_an_edited_note_changes_what_changed(memory: DirectMemory, root: Path) -> None:
    kept, edited = "The lead of it stays as it is.", "The first hall has seven machines."
    gone = "Nobody may smoke behind the hall."
    async with watching(memory, root) as folder:
        drop(root, "n.md", f"# Note\n{kept}\n\n## One\n{edited}\n\n## Two\n{gone}\n")
        await taken(folder, 1)
        before = await memory.nodes()
        edited = "The first hall has nine machines now."
        drop(root, "n.md", f"# Note\n\n## Three\n{kept}\n\n## One\n{edited}\n")
        await taken(folder, 2)
        after = await memory.nodes()
        assert folder.status()["retired"] == 1
        assert set(after) == {"Note", f"Three › {kept}", f"One › {edited}"}
        assert after[f"Three › {kept}"].id == before[kept].id
        assert after[f"One › {edited}"].id == before["One › The first hall has seven machines."].id
        assert after[f"One › {edited}"].body == edited
        version = memory.engine.version
        drop(root, "n.md", f"# Note\n\n## Three\n{kept}\n\n## One\n{edited}\n")
        await taken(folder, 3)
        assert memory.engine.version == version
        drop(root, "n.md", f"# Note\n{kept}\n\n## Two\n{gone}\n")
        await taken(folder, 4)
    back = await memory.nodes()
    assert set(back) == {"Note", kept, f"Two › {gone}"}
    assert back[f"Two › {gone}"].id == before[f"Two › {gone}"].id
    assert ("Note", f"Two › {gone}", "section") in await memory.links()


@pytest.mark.parametrize("held", [False, True])
async def test_a_text_in_files_that_come_together_is_one(
    memory: DirectMemory, root: Path, held: bool
) -> None:
    """Also if one is about to be left out as known, and another says meanwhile that it has it too."""
    said = "The spare key of the archive hangs behind the blue door."
    left_out, shared = asyncio.Event(), asyncio.Event()

    async def write(write: MemoryWrite) -> MemoryWritten:
        if write.retire:
            left_out.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * held):
                    await shared.wait()
        answer = await memory.write(write)
        if any(map(find_others, write.nodes)):
            shared.set()
        return answer

    async with watching(memory, root, write) as folder:
        drop(root, "a.md", f"# A\n- {said}\n- The archive itself is cold.\n")
        await taken(folder, 1)
        first = await memory.nodes()
        drop(root, "c.txt", f"{said}\n")
        if held:
            await left_out.wait()
        drop(root, "b.md", f"# B\n{said}\n\nAnother one tells of the cellar and its lamps.\n")
        await taken(folder, 3)
        (node,) = [node for node in (await memory.nodes()).values() if said in node.body]
        assert folder.status()["duplicates"] == 2
    assert (node.id, node.metadata["file"]) == (first[said].id, "a.md")
    assert sorted(find_others(node)) == ["b.md", "c.txt"]


async def test_a_vault_is_joined_by_its_links_also_to_notes_that_come_later(
    memory: DirectMemory, root: Path
) -> None:
    home = "# Home\nStart at [[Plan#Next steps|the steps]], then [[areas/Garden]] and ![[Later]].\n"
    async with watching(memory, root) as folder:
        drop(root, "Vault/Home.md", home)
        drop(
            root,
            "Vault/Plan.md",
            "The plan of the year.\n\n## Next steps\nCall the builder on Monday.\n",
        )
        drop(root, "Vault/areas/Garden.md", "The garden needs a fence. Back to [[home]].\n")
        await taken(folder, 3)
        await eventually(lambda: folder.status()["open_links"] == 1)
    assert OPEN_LINKS in (await memory.nodes())["Home"].tags
    async with watching(memory, root) as folder:  # another process, as it were
        drop(root, "Vault/somewhere/Later.md", "# Later\nThis note came a day after the others.\n")
        await taken(folder, 1)
        await memory.linked(
            ("Home", "Next steps › Call the builder on Monday.", "wikilink"),
            ("Home", "Garden", "wikilink"),
            ("Home", "Later", "wikilink"),
            ("Garden", "Home", "wikilink"),
            ("Plan", "Next steps › Call the builder on Monday.", "section"),
        )
        home_node = (await memory.nodes())["Home"]
        assert home_node.tags == ()
        assert "unresolved" not in home_node.metadata
        drop(root, "Vault/Home.md", "# Home\nStart at the [[Garden]] only, from today on.\n")
        await taken(folder, 2)
    cut = {link for link in await memory.links() if link[0] == "Home"}
    assert cut == {("Home", "Garden", "wikilink")}


async def test_two_notes_of_one_name_are_two(memory: DirectMemory, root: Path) -> None:
    async with watching(memory, root) as folder:
        drop(root, "a/Index.md", "# Index of A\nEverything about apples is here.\n\nSee [[Index]].\n")
        drop(root, "b/Index.md", "# Index of B\nEverything about bridges is here.\n")
        drop(root, "b/Start.md", "# Start\nThe way into bridges: [[Index]].\n")
        await taken(folder, 3)
        await memory.linked(("Start", "Index of B", "wikilink"))
    async with watching(memory, root) as folder:
        drop(root, "c/Index.md", "# Index of C\nEverything about canals is here.\n")
        await taken(folder, 1)
    assert {"Index of A", "Index of B", "Index of C", "Start"} <= set(await memory.nodes())
    links = {link for link in await memory.links() if link[2] == "wikilink"}
    assert links == {("Start", "Index of B", "wikilink")}


async def test_a_text_stays_as_long_as_a_file_has_it(memory: DirectMemory, root: Path) -> None:
    said = "The spare key of the archive hangs behind the blue door."
    files = iter(range(1, 9))

    async def bring(folder: IngestFolder, name: str, text: str) -> list[tuple[str, object]]:
        drop(root, name, f"# {name[0].upper()}\nWhat stands here stays here.{name}\n\n{text}\n")
        await taken(folder, next(files))
        nodes = (await memory.nodes()).values()
        return [(node.body, node.metadata["file"]) for node in nodes if "blue door" in node.body]

    async with watching(memory, root) as folder:
        await bring(folder, "a.md", said)
        await bring(folder, "b.md", said)
        assert await bring(folder, "c.md", said) == [(said, "a.md")]
        same = "The spare key of the archive hangs behind the blue door, on a nail."  # no news
        assert await bring(folder, "d.md", same) == [(said, "a.md")]
        edited = "The spare key of the archive lies in the office of Ines now, 3 steps from the blue door."
        assert set(await bring(folder, "a.md", edited)) == {(edited, "a.md"), (said, "b.md")}
        assert set(await bring(folder, "b.md", "")) == {(edited, "a.md"), (said, "c.md")}
        assert set(await bring(folder, "c.md", "")) == {(edited, "a.md"), (said, "d.md")}
        assert await bring(folder, "d.md", "") == [(edited, "a.md")]
        assert folder.status()["failed"] == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.md", "# B\n\n- {}\n- The ladder of the crow's nest has nineteen rungs.\n"),
        ("b.txt", "{}\n\nThe ladder of the crow's nest has nineteen rungs.\n"),
        ("b.org", "* B\n- {}\n- The ladder of the crow's nest has nineteen rungs.\n"),
        ("deep/b.md", "{}\n\nThe ladder of the crow's nest has nineteen rungs.\n"),
        ("b.rst", "B\n=\n\n{}\n\nThe ladder of the crow's nest has nineteen rungs.\n"),
    ],
)
async def test_a_text_that_was_retired_is_told_when_another_file_has_it(
    name: str, text: str, memory: DirectMemory, root: Path
) -> None:
    said = "The winch key of slip three hangs behind the blue door."
    async with watching(memory, root) as folder:
        drop(
            root,
            "a.md",
            text.format(said) if name == "b.md" else f"# A\n\n- {said}\n- It is a small harbour.\n",
        )
        await taken(folder, 1)
        (node,) = [each for each in (await memory.nodes()).values() if "winch key" in each.body]
        done = await memory.write(MemoryWrite(sender="user", nodes=(node,), retire=(node.id,), insist=True))
        assert not done.error
        drop(root, name, text.format(said if node.body == said else node.body.removeprefix("- ")))
        await taken(folder, 2)
        reasons = folder.status()["left_out"].get(name, [])
    stored = [each for each in (await memory.nodes()).values() if "winch key" in each.body]
    assert stored or any("retired" in reason for reason in reasons)


async def test_what_cannot_have_been_written_then_is_left_out_and_the_rest_kept(
    memory: DirectMemory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = capture_log(monkeypatch, folder_module)
    records = (
        '[{"title": "The camel house burned down", "created_at": "1850-01-01"},'
        ' {"title": "The camel house was built of stone"},'
        ' {"title": "The camel house gets a roof", "date": "2099-05-05"},'
        ' {"title": "The camel house is closed", "created": "2099-05-05T10:00:00Z"}]'
    )
    note = "---\ncreated: 2099-01-01\n---\n# Seals\n\nThe seals eat herring.\n\n2026-01-02: The pool leaks.\n"
    async with watching(memory, root) as folder:
        drop(root, "camels.json", records)
        drop(root, "seals.md", note)
        drop(root, "whale.md", "---\ncreated_at: 2099-01-01\n---\nThe whale bones hang in the hall.\n")
        drop(
            root, "old.md", "---\ndate: 1850-01-01\n---\n# Camels\n\n## Old\nThe first camel came by ship.\n"
        )
        await taken(folder, 4)
        status = folder.status()
    assert (status["files"], status["failed"], status["refused"]) == (3, 1, 3)
    nodes = {node.title.split(" › ")[-1]: node for node in (await memory.nodes()).values()}
    assert nodes.keys() == {
        "The camel house was built of stone",
        "The camel house gets a roof",
        "Seals",
        "The pool leaks.",
        "Camels",
        "The first camel came by ship.",
    }
    assert nodes["The camel house gets a roof"].valid_from.startswith("2099-05-05")
    assert nodes["The first camel came by ship."].valid_from.startswith("1850")
    assert nodes["The pool leaks."].created_at.startswith("2026-01-02")
    assert "is in the future" in (root / "failed/whale.md.reason.txt").read_text()
    assert "1850-01-01 is before 1900" in str(said)


async def test_the_same_note_of_two_agents_is_each_ones_own(memory: DirectMemory, root: Path) -> None:
    said = "Ask for a smaller sample before the long run."
    async with watching(memory, root) as folder:
        for agent in ("scout", "critic"):
            drop(root, f"agents/{agent}/notes.md", f"- {said}\n")
        await taken(folder, 2)
    page = await memory.engine.list_nodes(ListQuery(limit=50))
    own = [node.source.agent for node in page.nodes if node.body.endswith(said)]
    assert sorted(own) == ["critic", "scout"]


async def test_what_is_thin_or_known_is_left_out_and_counted(memory: DirectMemory, root: Path) -> None:
    said = "The spare key of the archive hangs behind the blue door."
    async with watching(memory, root) as folder:
        drop(root, "keys.txt", f"{said}\n")
        await taken(folder, 1)
        drop(
            root, "more.md", f"# More\nA note about other things altogether.\n\n## Key\n{said}\n\n## X\nok\n"
        )
        await taken(folder, 2)
        status = folder.status()
    assert (status["files"], status["failed"]) == (2, 0)
    assert (status["stored"], status["duplicates"] + status["refused"]) == (3, 2)
    assert not any(node.body == "ok" for node in (await memory.nodes()).values())


async def test_files_that_cannot_be_taken_say_why_and_touch_nothing_else(
    memory: DirectMemory, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("# Secret\nNobody is to know about this one.\n")
    drop(root, "broken.json", '{"a": ')
    drop(root, "noise.txt", bytes(range(256)))
    drop(root, "sub/photo.png", b"\x89PNG")
    drop(root, "empty.md", "")
    os.utime(root / "empty.md", (1, 1))
    drop(root, "large.txt", b"word " * 2_000_001)
    (root / "link.md").symlink_to(outside / "secret.md")
    (root / "dir").symlink_to(outside)
    os.mkfifo(root / "pipe.txt")
    for name in (".hidden.md", "draft.md~", "movie.md.part", "x.tmp", ".obsidian/app.json"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("not this one, please")
    async with watching(memory, root) as folder:
        await taken(folder, 8)
    reasons = {
        str(path.relative_to(root / "failed")).removesuffix(".reason.txt"): path.read_text()
        for path in (root / "failed").rglob("*.reason.txt")
    }
    for name, reason in {
        "broken.json": "not valid JSON",
        "noise.txt": "not text",
        "sub/photo.png": "not .png",
        "empty.md": "empty",
        "large.txt": "the limit is 10,000,000",
        "link.md": "symbolic link",
        "dir": "symbolic link",
        "pipe.txt": "no ordinary file",
    }.items():
        assert reason in reasons.pop(name)
    assert reasons == {}
    assert (root / "failed/sub/photo.png").read_bytes() == b"\x89PNG"
    assert (outside / "secret.md").exists()
    assert not (root / "link.md").is_symlink()
    assert len(left(root)) == 5
    assert await memory.nodes() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="needs the jail")
async def test_word_files_and_pages_are_read_in_the_jail(memory: DirectMemory, root: Path) -> None:
    letter = Document()
    letter.add_heading("Kitchen rules", 1)
    letter.add_paragraph("We decided to bake the rye bread on Fridays.")
    letter.add_paragraph("Ana owns the ovens of the bakery.")
    table = letter.add_table(rows=2, cols=2)
    for place, text in enumerate(("Flour", "Ben orders it", "Salt", "Ana brings it")):
        table.cell(place // 2, place % 2).text = text
    letter.save(str(root / ".rules.docx"))
    (root / ".rules.docx").rename(root / "rules.docx")
    page = "<html><head><title>Ops</title></head><body><h1>Ops</h1><p>{}</p><script>no</script></body></html>"
    drop(root, "ops.html", page.format("The database is called heron and it runs in Paris."))
    drop(root, "broken.pdf", b"%PDF-1.4 broken")
    async with watching(memory, root) as folder:
        await taken(folder, 3)
    titles = {node.title: node for node in (await memory.nodes()).values()}
    assert titles["Kitchen rules › We decided to bake the rye bread on Fridays."].kind == "decision"
    assert any("Ana owns the ovens" in title for title in titles)
    assert any(node.body == "| Flour | Ben orders it |\n| Salt | Ana brings it |" for node in titles.values())
    assert any("called heron" in node.body for node in titles.values())
    assert not any(node.body == "no" for node in titles.values())
    reason = (root / "failed" / "broken.pdf.reason.txt").read_text()
    assert reason.startswith("broken.pdf was not imported: it is damaged")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open")
async def test_a_file_is_taken_when_its_writer_closed_it(memory: DirectMemory, root: Path) -> None:
    program = (
        "import sys, time\nfile = open(sys.argv[1], 'w')\n"
        "for part in ('# Slow\\n', 'The first half of it, ', 'and the second half.\\n'):\n"
        "    file.write(part); file.flush(); time.sleep(0.6)\n"
    )
    async with watching(memory, root) as folder:
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(root / "slow.md"))
        await eventually((root / "slow.md").exists)
        assert folder.status()["files"] == 0
        await writer.wait()
        await taken(folder, 1)
    assert (await memory.nodes())["Slow"].body == "The first half of it, and the second half."
    assert len(memory.writes) == 1


async def test_stopped_in_the_middle_it_goes_on_where_it_was(
    memory: DirectMemory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_NODES", 5)
    sections = "\n".join(f"## Part {n}\nThe machine number {n} stands in hall {n * 7}.\n" for n in range(30))
    drop(root, "machines.md", f"# Machines\nAll the machines of the works.\n\n{sections}")
    stopped = asyncio.Event()

    async def stall(write: MemoryWrite) -> MemoryWritten:
        if len(memory.writes) >= 3:
            stopped.set()
            await asyncio.Event().wait()
        return await memory.write(write)

    async with watching(memory, root, stall):
        await asyncio.wait_for(stopped.wait(), 20)
    assert left(root) == ["machines.md"]
    stored = len(await memory.nodes())
    async with watching(memory, root) as folder:
        await taken(folder, 1)
        status = folder.status()
    assert 0 < stored < 32
    assert len(await memory.nodes()) == 32
    assert status["unchanged"] >= stored  # what was under way when it stopped came in afterwards
    assert status["unchanged"] + status["stored"] == 32
    assert len(await memory.links()) == 31


async def test_it_waits_for_memory_and_gives_up_on_what_memory_does_not_take(
    memory: DirectMemory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.memory.ingest.folder.FIRST_PAUSE", 0.05)
    calls = 0

    async def flaky(write: MemoryWrite) -> MemoryWritten:
        nonlocal calls
        calls += 1
        if calls <= 3:
            raise BusUnavailable("no server")
        if any("poison" in node.body for node in write.nodes):
            return MemoryWritten(cause=write.id, error="tags must be something else")
        return await memory.write(write)

    async with watching(memory, root, flaky) as folder:
        drop(root, "fine.txt", "The kettle in the kitchen leaks a little.")
        await eventually(lambda: folder.status()["problem"] == "no server")
        await taken(folder, 1)
        drop(root, "bad.txt", "This text is poison for the memory.")
        await taken(folder, 2)
        await eventually(lambda: not folder.status()["problem"])
    assert "tags must be something else" in (root / "failed/bad.txt.reason.txt").read_text()
    assert (root / "processed/fine.txt").exists()


async def test_a_file_that_cannot_be_moved_is_taken_once(
    memory: DirectMemory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = capture_log(monkeypatch, folder_module)
    drop(root, "sub/a.txt", "The lift is being repaired this week.")
    (root / "processed").mkdir()
    (root / "processed/sub").write_text("in the way")
    async with watching(memory, root) as folder:
        await eventually(lambda: "sub/a.txt" in folder.status()["problem"])
        drop(root, "b.txt", "The stairs are being cleaned next week.")
        await taken(folder, 1)
        await asyncio.sleep(1)
    assert [len(write.nodes) for write in memory.writes] == [1, 1]
    assert [entry["event"] for entry in logged].count("file_not_moved") == 1
    assert left(root) == ["sub/a.txt"]


async def test_the_folder_may_be_deleted_while_it_is_watched(
    memory: DirectMemory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.memory.ingest.folder.RESCAN", 0.5)
    async with watching(memory, root) as folder:
        await eventually((root / "processed").exists)
        shutil.rmtree(root)
        await eventually((root / "processed").exists)
        drop(root, "a.txt", "The mail room moved to the ground floor.")
        await taken(folder, 1)


async def test_passages_are_found_by_words_before_they_have_their_vectors(
    memory: DirectMemory, root: Path
) -> None:
    told = "".join(f"The boiler {n} of the works stands in hall {n * 7}.\n\n" for n in range(20))
    copied = "It is known that the boiler number 3 of the works is standing in hall number 21.\n"
    async with memory.engine._embedding, watching(memory, root) as folder:  # nothing is embedded meanwhile
        drop(root, "boilers.md", f"# Boilers\n\n{told}Should we have all boilers of the works cleaned?\n")
        await eventually(lambda: folder.status()["under_way"].get("boilers.md", Progress(of=1)).stored == 22)
        assert memory.engine.stats()["not_embedded"] == 22
        (hit, *_) = await memory.engine.search(MemoryQuery(text="boiler in hall 133"))
        assert "stands in hall 133" in hit.node.body
        assert hit.why.get("vector", 0) == 0
        assert folder.status()["files"] == 0
    assert left(root) == ["boilers.md"]  # killed before they were embedded: it is not done

    async with watching(memory, root) as folder:
        await taken(folder, 1)
        drop(root, "copy.md", f"# Copy\n\nA line of its own, about something else entirely.\n\n{copied}")
        await taken(folder, 2)
    assert memory.engine.stats()["not_embedded"] == 0
    (hit, *_) = await memory.engine.search(MemoryQuery(text="where does the heating unit 19 stand?"))
    assert hit.why["vector"] > 0
    kinds = {node.body: node.kind for node in (await memory.nodes()).values()}
    assert kinds["Should we have all boilers of the works cleaned?"] == "task"


async def test_large_tables_are_written_in_packs(memory: DirectMemory, root: Path) -> None:
    rows = "\n".join(f"item {number},{number * 3}" for number in range(210))
    async with watching(memory, root) as folder:
        drop(root, "stock.csv", f"name,count\n{rows}\n")
        await taken(folder, 1)
        assert folder.status()["stored"] == 210
    assert [len(write.nodes) for write in memory.writes] == [200, 10]
    assert all(
        write.sender == "memory" and len(msgspec.json.encode(write)) < 900_000 for write in memory.writes
    )


async def test_the_desk_pages_through_what_it_looks_up(
    monkeypatch: pytest.MonkeyPatch, memory: DirectMemory
) -> None:
    monkeypatch.setattr(client_module, "PAGE", 2)
    asked: list[int] = []
    get = memory.engine.get

    async def find(ids: Sequence[str], at: int = 0) -> list[Node]:
        asked.append(len(ids))
        return await get(ids, at)

    monkeypatch.setattr(memory.engine, "get", find)
    client = client_module.MemoryClient(memory.write, memory.engine)
    nodes = [Node(id=f"n{number}", title=f"A note of number {number}", tags=("t",)) for number in range(5)]
    assert [count async for count in client.write_ungated(nodes)] == [5]
    assert set(await client.find([node.id for node in nodes])) == {node.id for node in nodes}
    assert asked == [2, 2, 1]
    assert [node.id for node in await client.list(tags=("t",))] == [node.id for node in nodes]


async def test_the_daemon_takes_files_in_and_goes_on_after_kill_9(tmp_path: Path) -> None:
    running = Office(tmp_path)
    try:
        await running.open(["memory"])
        root = running.config.ingest
        await eventually((root / "processed").exists)
        notes = [f"Note {number}" for number in range(40)]
        for number, name in enumerate(notes):
            says = f"The machine number {number} stands in hall {number * 7}."
            text = f"# {name}\n{says} See [[{notes[number - 1]}]].\n"
            drop(root, f"vault/{name}.md", text)
        await eventually(lambda: len(list((root / "processed").rglob("*.md"))) >= 5, 30)
        running.kill("memory")
        running.start("memory")
        await eventually(lambda: not left(root), 60)
        memory = Memory(running.user)

        async def count_links() -> int:
            edges = [edge async for edge in memory.iterate_edges()]
            return sum(edge.provenance.get("rule") == "wikilink" for edge in edges)

        async with asyncio.timeout(30):
            while await count_links() < len(notes):
                await asyncio.sleep(0.1)
        page = await memory.nodes(ListQuery(limit=1_000))
        assert sorted(node.title for node in page.nodes) == sorted(notes)
        assert not any(node.tags for node in page.nodes)
        assert await count_links() == len(notes)
        health = await memory.health()
        assert (health["ingest"]["failed"], health["ingest"]["problem"]) == (0, "")
    finally:
        await running.close()


async def test_what_was_stored_is_embedded_after_kill_9(tmp_path: Path) -> None:
    running = Office(tmp_path)
    try:
        await running.open(["memory"])
        memory, root = Memory(running.user), running.config.ingest
        await eventually((root / "processed").exists)
        told = (f"- The pump number {n} was repaired in the hall of gate {n * 7}." for n in range(80))
        drop(root, "pumps.md", "\n".join(["# Pumps", *told]))

        async def is_stored() -> bool:
            health = await memory.health()
            far = health["ingest"]["under_way"].get("pumps.md")
            return bool(far and far["stored"] == far["of"] and health["not_embedded"] > 20)

        await eventually(is_stored, 60)
        before = (await memory.stats())["version"]
        running.kill("memory")
        running.start("memory")
        await running.ready("memory")
        hits = await memory.search("pump repaired in the hall of gate 553")
        assert "gate 553" in hits[0].node.body
        assert (await memory.health())["not_embedded"] > 0
        await eventually(lambda: not left(root), 100)
        stats = await memory.stats()
        assert (stats["not_embedded"], stats["nodes"]) == (0, 81)
        assert stats["version"] >= before
        hits = await memory.search("mending of a pump")
        assert hits[0].why["vector"] > 0
        at = [node async for node in memory.iterate_nodes(ListQuery(at=before, limit=500))]
        assert len(at) == 81
    finally:
        await running.close()
