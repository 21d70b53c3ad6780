"""The commit table: what it records, that one process owns it, and what it refuses to open."""

import sqlite3
import threading
from pathlib import Path

import pytest

from services.memory.storage import commit_table as module
from services.memory.storage.commit_table import CommitTable
from shared.errors import StartError


def add(table: CommitTable, version: int, *writes: str, **accessed: tuple[int, str]) -> None:
    """Add writes at the versions up to ``version``, a minute each."""
    versions = range(version - len(writes) + 1, version + 1)
    table.add(list(zip(writes, versions, strict=True)), [60.0 * each for each in versions], accessed)


def test_commits_are_remembered(tmp_path: Path) -> None:
    table = CommitTable(tmp_path / "ledger.sqlite", 2)
    assert table.state() == {"schema": 2}
    add(table, 2, "w1", "w2")
    table.commit({"version": 2, "nodes": 2, "edges": 1, "old nodes": 3})
    add(table, 5, "w3")
    table.commit({"version": 5, "nodes": 3})
    table.close()
    again = CommitTable(tmp_path / "ledger.sqlite", 2)
    assert again.state() == {"schema": 2, "version": 5, "nodes": 3, "edges": 1, "old nodes": 3}
    assert [again.find(write) for write in ("w1", "w2", "w3", "w4")] == [1, 2, 5, None]
    assert again.find_all(["w4", "w3", "w1"]) == {"w1": 1, "w3": 5}
    again.close()


def test_what_was_added_is_known_and_without_a_commit_it_is_gone(tmp_path: Path) -> None:
    table = CommitTable(tmp_path / "ledger.sqlite", 2)
    add(table, 1, "w1", a=(1, "then"), b=(1, "then"))
    table.commit({"version": 1})
    add(table, 2, "w2", a=(2, "now"))
    assert table.find_all(["w1", "w2"]) == {"w1": 1, "w2": 2}
    assert table.access() == {"a": (2, "now"), "b": (1, "then")}
    assert (table.moment_of(2), table.applied(), table.first_version()) == (120.0, [1, 2], 1)
    assert table.versions(0, 5) == [(2, 120.0), (1, 60.0)]
    table.write_note("linker", "2")
    table.close()
    again = CommitTable(tmp_path / "ledger.sqlite", 2)
    assert again.find_all(["w1", "w2"]) == {"w1": 1}
    assert again.access() == {"a": (1, "then"), "b": (1, "then")}
    assert (again.moment_of(2), again.applied()) == (60.0, [1])
    assert again.read_note("linker") == "2"
    again.close()


def test_writes_are_added_all_or_none(tmp_path: Path) -> None:
    table = CommitTable(tmp_path / "ledger.sqlite", 2)
    add(table, 1, "w1", a=(1, "then"))
    with pytest.raises(sqlite3.IntegrityError):
        add(table, 3, "w2", "w1", a=(2, "now"))
    assert table.find("w2") is None
    assert table.access() == {"a": (1, "then")}
    assert table.moment_of(3) == 60.0
    table.close()


def test_a_version_has_a_moment(tmp_path: Path) -> None:
    table = CommitTable(tmp_path / "ledger.sqlite", 2)
    assert table.moment_of(7) == 0.0
    add(table, 4, "w1", "w2")
    assert [table.moment_of(version) for version in (2, 3, 4, 99)] == [0, 180, 240, 240]
    table.close()


def test_old_writes_are_forgotten_and_their_moments_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_WRITES", 2)
    table = CommitTable(tmp_path / "ledger.sqlite", 2)
    add(table, 3, "w1", "w2", "w3")
    table.commit({"version": 3})
    table.trim()
    assert [table.find(write) for write in ("w1", "w2", "w3")] == [None, 2, 3]
    assert table.moment_of(1) == 60.0
    table.close()


def test_notes_are_kept(tmp_path: Path) -> None:
    table = CommitTable(tmp_path / "ledger.sqlite", 2)
    assert table.read_note("linker") == ""
    table.write_note("linker", "1")
    table.write_note("linker", "2")
    table.close()
    again = CommitTable(tmp_path / "ledger.sqlite", 2)
    assert again.read_note("linker") == "2"
    again.close()


def test_of_briefings_at_one_version_the_newest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_BRIEFINGS", 2)
    table = CommitTable(tmp_path / "ledger.sqlite", 2)
    for agent, version, moment in (("a", 1, 1.0), ("b", 1, 2.0), ("a", 2, 3.0), ("a", 1, 4.0)):
        table.record_briefing(agent, version, moment)
    known = [table.briefing_moment(agent, version) for agent, version in (("a", 1), ("a", 2), ("b", 1))]
    assert known == [4.0, 3.0, None]
    table.close()


def test_threads_do_not_get_into_each_others_commits(tmp_path: Path) -> None:
    table = CommitTable(tmp_path / "ledger.sqlite", 2)
    failed: list[Exception] = []

    def note(name: str) -> None:
        try:
            for value in range(50):
                table.write_note(name, str(value))
                table.record_briefing(name, value, 1.0)
        except sqlite3.Error as error:
            failed.append(error)

    threads = [threading.Thread(target=note, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for version in range(1, 50):
        add(table, version, f"w{version}")
        table.commit({"version": version})
    for thread in threads:
        thread.join()
    assert failed == []
    assert [table.read_note(name) for name in ("a", "b", "c")] == ["49"] * 3
    assert table.state()["version"] == 49
    table.close()


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    table = CommitTable(tmp_path / "ledger.sqlite", 2)
    with pytest.raises(StartError, match=r"Another memory daemon has .* open. Stop it first"):
        CommitTable(tmp_path / "ledger.sqlite", 2)
    table.close()


def test_another_schema_and_a_broken_file_are_refused(tmp_path: Path) -> None:
    for schema in (1, 3):
        CommitTable(tmp_path / f"{schema}.sqlite", schema).close()
        with pytest.raises(StartError, match=r"by another version .* 'mailroom memory export' there"):
            CommitTable(tmp_path / f"{schema}.sqlite", 2)
    (tmp_path / "broken.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(StartError, match=r"is damaged .file is not a database"):
        CommitTable(tmp_path / "broken.sqlite", 2)


def test_up_to_where_all_is_answered_is_known_when_it_is_opened_again(tmp_path: Path) -> None:
    table = CommitTable(tmp_path / "ledger.sqlite", 2)
    assert table.answered() == 0
    for version in (9, 1_234, 7):
        table.mark_answered(version)
        assert table.answered() == version
    table.close()
    again = CommitTable(tmp_path / "ledger.sqlite", 2)
    assert again.answered() == 7
    again.close()
