"""Sentences: split at punctuation and line breaks, and counted off from the beginning."""

from shared.text.display import format_list
from shared.text.prose import last_sentence_end, split_sentences


def test_sentences_and_lines_are_split_without_their_list_marks() -> None:
    text = "# Title\n- One thing. Another?  Yes!\n> quoted\n\n"
    assert split_sentences(text) == ["Title", "One thing.", "Another?", "Yes!", "quoted"]
    assert split_sentences("  ") == []


def test_whole_sentences_within_a_limit() -> None:
    text = "One. Two is longer. Three."
    assert text[: last_sentence_end(text, 20)] == "One. Two is longer."
    assert text[: last_sentence_end(text, 4)] == "One."
    assert last_sentence_end(text, 3) == 0


def test_names_are_joined_and_the_rest_is_counted() -> None:
    assert format_list(["a"]) == "a"
    assert format_list(["a", "b", "c"]) == "a, b and c"
    assert format_list(list("abcdefg")) == "a, b, c, d, e and 2 more"
