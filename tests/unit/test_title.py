"""A title is the first sentence that says something."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.text.prose import MAX_TITLE, split_title


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        ("The harbour opens at six", "The harbour opens at six", ""),
        ("  The harbour opens.  ", "The harbour opens.", ""),
        ("It opens at six. It closes.", "It opens at six.", "It opens at six. It closes."),
        ("Yes. We use Postgres. It is there.", "Yes. We use Postgres.", "Yes. We use Postgres. It is there."),
        ("Use v1.2 of it, e.g. by pinning", "Use v1.2 of it, e.g. by pinning", ""),
        ("What was found\n\nNothing.", "What was found", "What was found\n\nNothing."),
        (
            'He said "Stop it now." Then he left.',
            'He said "Stop it now."',
            'He said "Stop it now." Then he left.',
        ),
        ("two  blanks in here", "two blanks in here", "two  blanks in here"),
        ("港口六点开放。港口十点关闭。", "港口六点开放。港口十点关闭。", ""),
        (
            "港口在早上六点钟开放。港口十点关闭。",
            "港口在早上六点钟开放。",
            "港口在早上六点钟开放。港口十点关闭。",
        ),
        ("", "", ""),
    ],
)
def test_the_first_sentence_is_the_title(text, title, body):
    assert split_title(text) == (title, body)


def test_a_long_sentence_is_cut_between_words():
    title, body = split_title("harbour " * 100)
    assert title.endswith("harbour…")
    assert MAX_TITLE - 8 <= len(title) <= MAX_TITLE
    assert body == ("harbour " * 100).strip()
    assert split_title("x" * 300)[0] == "x" * 255 + "…"


@given(st.text(max_size=600))
def test_nothing_is_lost(text):
    title, body = split_title(text)
    assert len(title) <= MAX_TITLE
    assert (body or title) == text.strip()
    assert bool(title) == bool(text.strip())
