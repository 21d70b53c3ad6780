"""The notes that are measured are taken apart as the people who wrote them would, by rules alone."""

from pathlib import Path

import pytest

from services.memory.ingest.kinds import choose_kind, score_kinds, score_piece
from services.memory.ingest.reading import read_document
from tests.bench.notes import FOLDER, HALVES, MODIFIED, read_gold, read_sentences


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


@pytest.mark.parametrize("half", HALVES)
def test_most_single_sentences_get_their_kind(half: str) -> None:
    sentences = read_sentences(half)
    wrong = [text for kind, text in sentences if choose_kind(score_kinds(text)) != kind]
    assert len(wrong) <= 0.15 * len(sentences), wrong


def test_a_hand_over_decides_and_a_time_of_day_is_a_fact() -> None:
    def find_kind(text: str) -> str:
        return choose_kind(score_kinds(text))

    assert find_kind("Ines hands the press list over to Tariq.") == "decision"
    assert find_kind("The bakery opens at 6:30.") == "fact"
    assert find_kind("The bakery opened at 6:30 yesterday.") == "event"
    assert find_kind("Never leave the oven on.") == "pattern"
