"""The notes that are measured are taken apart as the people who wrote them would, by rules alone."""

from pathlib import Path

import pytest

from services.memory.ingest.files import read_document
from services.memory.ingest.kind_choice import score_piece
from services.memory.ingest.kinds import choose_kind
from tests.bench.notes import FOLDER, MODIFIED, read_gold


@pytest.mark.parametrize("gold", sorted(FOLDER.glob("*/*.gold")), ids=lambda file: file.stem)
def test_a_note_is_taken_apart(gold: Path) -> None:
    (note,) = (other for other in gold.parent.glob(f"{gold.stem}.*") if other != gold)
    pieces = read_document(note.parent, note.name, MODIFIED).pieces
    right = 0
    expected = read_gold(gold)
    for one in expected:
        (piece,) = (piece for piece in pieces if one.words in piece.body)
        assert (piece.date[:10] or "-") == one.day
        assert [other.words for other in expected if other.words in piece.body] == [one.words]
        right += (piece.kind or choose_kind(score_piece(piece))) == one.kind
    assert right >= len(expected) / 2
