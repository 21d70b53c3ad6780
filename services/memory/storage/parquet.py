"""Records of memory between JSON lines and Parquet.

``python -m services.memory.storage.parquet to FOLDER`` makes nodes.parquet and edges.parquet of the lines
on standard input; ``from PATH`` prints the lines of such a folder, or of one file of it. A line is a node or
an edge with its ``record``. Free fields (metadata, provenance) are columns of JSON text, whatever they hold.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from shared.contracts import Edge, Node
from shared.errors import ActionError

GROUP = 10_000  # Rows of a row group: what is held in memory at a time
FREE = ("metadata", "provenance")  # Fields that are columns of JSON text

_VERSIONS = dict.fromkeys(("created_version", "version", "retired_version"), pa.int64())
SCHEMAS = {
    "node": pa.schema(
        {
            **dict.fromkeys(("id", "kind", "title", "body"), pa.string()),
            "tags": pa.list_(pa.string()),
            "metadata": pa.string(),
            "source": pa.struct([(name, pa.string()) for name in ("agent", "session", "channel")]),
            "importance": pa.float64(),
            "access_count": pa.int64(),
            **dict.fromkeys(
                ("last_accessed_at", "created_at", "updated_at", "valid_from", "valid_to"), pa.string()
            ),
            **_VERSIONS,
            "embedding": pa.list_(pa.float32()),
        }
    ),
    "edge": pa.schema(
        {
            **dict.fromkeys(("from", "to", "relation"), pa.string()),
            "weight": pa.float64(),
            **dict.fromkeys(("provenance", "created_at", "touched_at"), pa.string()),
            **_VERSIONS,
        }
    ),
}


def write_folder(folder: Path, lines: Iterable[bytes]) -> dict[str, int]:
    """Make the two files of ``lines``; returns the number of rows of each.

    Raises ValueError that names the line that is no record, OSError if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    waiting: dict[str, list[dict[str, Any]]] = {"node": [], "edge": []}
    counts = {"node": 0, "edge": 0}
    with (
        pq.ParquetWriter(folder / "nodes.parquet", SCHEMAS["node"], compression="zstd") as nodes,
        pq.ParquetWriter(folder / "edges.parquet", SCHEMAS["edge"], compression="zstd") as edges,
    ):
        writers = {"node": nodes, "edge": edges}
        for kind, row in _rows(lines):
            waiting[kind].append(row)
            counts[kind] += 1
            if len(waiting[kind]) >= GROUP:
                _write_group(writers[kind], kind, waiting[kind])
        for kind, rows in waiting.items():
            _write_group(writers[kind], kind, rows)
    return counts


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, or of nodes.parquet and then edges.parquet in a folder.

    Columns that are missing take their defaults when the line is read. Raises ActionError for what is not
    there or no Parquet.
    """
    files = [path / "nodes.parquet", path / "edges.parquet"] if path.is_dir() else [path]
    found = [file for file in files if file.exists()]
    if not found:
        raise ActionError(
            f"{path} holds no nodes.parquet or edges.parquet", "Name a folder or file that does"
        )
    for file in found:
        try:
            with pq.ParquetFile(file) as opened:
                kind = "edge" if "from" in opened.schema_arrow.names else "node"
                for batch in opened.iter_batches(batch_size=GROUP):
                    yield from (_line(kind, row) for row in batch.to_pylist())
        except (pa.ArrowException, OSError) as error:
            raise ActionError(f"{file} cannot be read as Parquet: {error}") from None


def _rows(lines: Iterable[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        try:
            data = msgspec.json.decode(line, type=dict[str, Any])
            kind = str(data.pop("record", ""))
            if kind not in ("node", "edge"):
                raise ValueError("record must be node or edge")
            content = (Node if kind == "node" else Edge).from_dict(data)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        row = content.to_dict()
        yield kind, row | {name: msgspec.json.encode(row[name]).decode() for name in FREE if name in row}


def _line(kind: str, row: dict[str, Any]) -> bytes:
    given = {name: value for name, value in row.items() if value is not None}
    free = {name: msgspec.Raw(given[name].encode()) for name in FREE if name in given}
    return msgspec.json.encode({"record": kind, **given, **free}) + b"\n"


def _write_group(writer: Any, kind: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[kind]))
        rows.clear()


def main(arguments: list[str]) -> None:
    """Convert as the arguments say; ends the process with a message if that fails."""
    if len(arguments) != 2 or arguments[0] not in ("to", "from"):
        raise SystemExit("usage: python -m services.memory.storage.parquet to FOLDER | from PATH")
    try:
        if arguments[0] == "to":
            write_folder(Path(arguments[1]), sys.stdin.buffer)
        else:
            sys.stdout.buffer.writelines(read_lines(Path(arguments[1])))
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise SystemExit(1) from None  # the reader closed the pipe
    except (ActionError, ValueError, OSError) as error:
        raise SystemExit(" ".join(str(error).split())) from None


if __name__ == "__main__":
    main(sys.argv[1:])
