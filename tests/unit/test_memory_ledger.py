"""The ledger: what it remembers, that one process owns it, and what it refuses to open."""

import sqlite3
from pathlib import Path

import pytest

from services.memory import ledger as module
from services.memory.ledger import Ledger
from shared.errors import StartError


def test_commits_are_remembered(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", 1)
    assert ledger.state() == {"schema": 1}
    ledger.commit(1, {"nodes": 2, "edges": 1}, ["w1", "w2"])
    ledger.commit(2, {"nodes": 3, "edges": 1}, ["w3"])
    ledger.close()
    again = Ledger(tmp_path / "ledger.sqlite", 1)
    assert again.state() == {"schema": 1, "version": 2, "nodes": 3, "edges": 1}
    assert [again.find(write) for write in ("w1", "w3", "w4")] == [1, 2, None]
    again.close()


def test_a_commit_is_whole_or_not_at_all(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", 1)
    ledger.commit(1, {"nodes": 2}, ["w1"])
    with pytest.raises(sqlite3.IntegrityError):
        ledger.commit(2, {"nodes": 3}, ["w2", "w1"])
    assert ledger.state() == {"schema": 1, "version": 1, "nodes": 2}
    assert ledger.find("w2") is None
    ledger.close()


def test_old_writes_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_WRITES", 2)
    ledger = Ledger(tmp_path / "ledger.sqlite", 1)
    ledger.commit(1, {}, ["w1", "w2", "w3"])
    ledger.trim()
    assert [ledger.find(write) for write in ("w1", "w2", "w3")] == [None, 1, 1]
    ledger.close()


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", 1)
    with pytest.raises(StartError, match=r"Another memory daemon has .* open. Stop it first"):
        Ledger(tmp_path / "ledger.sqlite", 1)
    ledger.close()


def test_a_later_schema_and_a_broken_file_are_refused(tmp_path: Path) -> None:
    Ledger(tmp_path / "later.sqlite", 2).close()
    with pytest.raises(StartError, match=r"written by a later version .* Update Mailroom"):
        Ledger(tmp_path / "later.sqlite", 1)
    (tmp_path / "broken.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(StartError, match=r"cannot be opened"):
        Ledger(tmp_path / "broken.sqlite", 1)
