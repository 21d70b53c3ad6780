"""The store: what is kept on disk of nodes, edges and vectors, and how it changes."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from services.memory.storage import rows, states
from services.memory.storage.disk import MANY
from services.memory.storage.ledger import Commit
from services.memory.storage.tables import Tables, Vectors, vector_table
from services.memory.storage.vault import Vault
from services.memory.writes.change import Change, join_text
from shared.contracts import Edge, Node

TIDY_AFTER = MANY
"""Commits of tables after which the store is untidy."""

S = TypeVar("S", Node, Edge)


class Store:
    """Nodes, edges and the vectors of the embedding model ``model``, in the folder ``path``.

    One owner: whoever opens it is the only process to do so (StartError otherwise), and calls its methods one
    at a time, those of ``ledger`` at any time. Every state that something had is kept: the newest counts,
    and the others serve ``load(at)``.
    """

    def __init__(self, path: Path, model: str, dimensions: int) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", model):
            raise ValueError(f"{model!r} cannot be part of a table's name")
        self._vault = Vault(path, model, dimensions)
        self._vectors = vector_table(model)
        self.ledger = self._vault.ledger
        self._missing: pa.Table | None = None

    @property
    def version(self) -> int:
        """The committed graph version; 0 where nothing was stored yet."""
        return self._vault.state.get("version", 0)

    @property
    def untidy(self) -> bool:
        """Whether ``tidy`` is due."""
        return self._vault.commits >= TIDY_AFTER

    def find_write(self, write_id: str) -> int | None:
        """The graph version at which a write was applied; None where it was not."""
        return self.ledger.find(write_id)

    def load(self, at: int = 0) -> Tables:
        """Memory as it is, or as it was at graph version ``at``."""
        self._vault.recover()
        at = at if at < self.version else 0
        with ThreadPoolExecutor(2) as pool:  # reading is decoding, which goes on beside other threads
            nodes = pool.submit(self._vault.read_states, "nodes", at)
            edges = pool.submit(self._vault.read_states, "edges", at)
            ids, vectors = self._vault.read_vectors(at)
        return Tables(
            nodes=nodes.result(),
            edges=states.drop_retired(edges.result()),
            access=self.ledger.access(),
            vector_ids=ids,
            vectors=vectors,
            version=at or self.version,
        )

    def apply(
        self, change: Change, ids: Sequence[str], vectors: Vectors, versions: Sequence[int] = ()
    ) -> None:
        """Store a change; it is on disk when this returns.

        ``vectors`` has a row for each of ``ids``: all of ``change.texts_changed``, and those of
        ``change.interim`` if they are wanted; then ``versions`` says since when each has its text. Raises
        ActionError with cause and cure where it cannot be written; then nothing of it is stored.
        """
        if change.version <= self.version:
            raise ValueError(f"version {change.version} does not come after {self.version}")
        if lacking := change.texts_changed.keys() - set(ids):
            raise ValueError(f"there is no vector of {min(lacking)}")
        versions = versions or [change.texts_changed[node_id] for node_id in ids]
        later = [change.nodes[key].created_version != at for key, at in zip(ids, versions, strict=True)]
        with self._vault.writing():
            self._vault.store(
                {
                    "nodes": rows.write_nodes(_states(change.nodes, change.replaced_nodes, self.version)),
                    "edges": rows.write_edges(_states(change.edges, change.replaced_edges, self.version)),
                    self._vectors: rows.write_vectors(ids, versions, vectors),
                },
                Commit(
                    version=change.version,
                    writes=change.writes,
                    moments=change.moments,
                    accessed=change.accessed,
                ),
                {
                    "nodes": len(change.replaced_nodes),
                    "edges": len(change.replaced_edges),
                    self._vectors: sum(later),
                },
            )

    def missing_vectors(self, limit: int) -> list[tuple[str, int, str]]:
        """Texts without a vector of this model, at most ``limit``: id, version since which it has it, text.

        Those that were current when they were looked up come first. Once none are left, the vectors of other
        models are dropped, and asking costs nothing until the model is changed again.
        """
        if not self._vault.state.get("pending"):
            return []
        missing = self._find_missing()
        if not missing.num_rows:
            with self._vault.writing():
                self._vault.drop_other_models()
            self._missing = None
        columns = missing.slice(0, limit).to_pydict()
        texts = map(join_text, columns["title"], columns["body"])
        return list(zip(columns["id"], columns["version"], texts, strict=True))

    def count_missing(self) -> int:
        """How many texts have no vector of this model."""
        return self._find_missing().num_rows if self._vault.state.get("pending") else 0

    def add_vectors(self, keys: Sequence[tuple[str, int]], vectors: Vectors) -> None:
        """Store vectors of the first texts of ``missing_vectors``; the graph version stays.

        Raises ActionError as ``apply`` does.
        """
        ids, versions = [node_id for node_id, _ in keys], [version for _, version in keys]
        with self._vault.writing():
            table = rows.write_vectors(ids, versions, vectors)
            # Texts of the past may be among them: one old row is enough to have the newest looked for.
            self._vault.store({self._vectors: table}, Commit(version=self.version), {self._vectors: 1})
        if self._missing is not None:
            self._missing = self._missing.slice(len(ids))

    def tidy(self) -> None:
        """Compact the tables and drop their old files; raises ActionError as ``apply`` does."""
        with self._vault.writing():
            self._vault.tidy()

    def close(self) -> None:
        """Let the files go."""
        self._vault.close()

    def _find_missing(self) -> pa.Table:
        if self._missing is None:
            texts = self._vault.read("nodes", ["id", "version", "title", "body"], history=True)
            done = self._vault.read(self._vectors, ["id", "version"], history=True)
            self._missing = states.find_texts(texts, done)
        return self._missing


def _states(current: Mapping[Any, S], replaced: Sequence[tuple[S, int]], before: int) -> list[S]:
    """The states to write, those included that began and ended since version ``before``."""
    interim = [state for state, _ in replaced if state.version > before]
    return interim + list(current.values())
