"""Markdown notes taken apart: sections, front matter, links, kinds, dates."""

import pytest

from services.memory.ingest.drafting import candidate_ids, find_links, matches_path, name_id, path_id
from services.memory.ingest.fields import (
    find_date,
    find_leading_date,
    find_named_date,
    find_tags,
    parse_date,
    parse_front_matter,
)
from services.memory.ingest.markdown import parse_note
from services.memory.ingest.pieces import MAX_BODY, NoteLink, classify
from services.memory.ingest.splitting import split_text

NOTE = """\
---
title: The Bus
tags: [infra, NATS]
author: Jo
importance: 0.65
---
Everything goes over one broker.

## Decisions
We chose NATS.

### Why
One binary #small.

```sh
# not a heading, and no #tag
echo '[[No Link]]'
```

## Decisions
A second one under the same heading.

## Nothing yet
"""


def test_a_note_is_its_beginning_and_its_sections() -> None:
    document = parse_note("notes/bus.md", NOTE)
    assert [piece.title for piece in document.pieces] == [
        "The Bus",
        "The Bus › Decisions",
        "The Bus › Decisions › Why",
        "The Bus › Decisions",
    ]
    lead, first, why, second = document.pieces
    assert lead.body == "Everything goes over one broker."
    assert lead.tags == ("infra", "nats")
    assert lead.importance == 0.65
    assert document.properties == {"author": "Jo"}
    assert [piece.line for piece in document.pieces] == [7, 10, 13, 21]
    assert why.parent == first.key
    assert first.parent == lead.key == "note"
    assert first.key != second.key
    assert why.tags == ("infra", "nats", "small")
    assert {first.kind, why.kind, second.kind} == {"decision"}
    assert "echo" in why.body
    assert document.links == ()


def test_the_key_of_a_section_stays_when_its_text_changes() -> None:
    before = {piece.title: piece.key for piece in parse_note("a.md", "# A\nlead\n\n## B\nold text\n").pieces}
    after = {
        piece.title: piece.key for piece in parse_note("a.md", "# A\nlead\n\nmore\n\n## B\nnew\n").pieces
    }
    assert before == after


def test_a_heading_of_the_first_level_at_the_top_names_the_note() -> None:
    (piece,) = parse_note("x.md", "# Toner\n\nIt is in the cupboard.\n").pieces
    assert (piece.title, piece.body, piece.line) == ("Toner", "It is in the cupboard.", 3)
    pieces = parse_note("x.md", "# One\nfirst\n\n# Two\nsecond\n").pieces
    assert [piece.title for piece in pieces] == ["x", "x › One", "x › Two"]
    assert pieces[0].body == "Sections: One, Two"
    assert pieces[0].kind == "note"


def test_a_long_section_is_cut_at_paragraphs_and_nothing_is_lost() -> None:
    paragraphs = [f"Paragraph {number} " + "word " * 90 for number in range(12)]
    pieces = parse_note("x.md", "## Long\n" + "\n\n".join(paragraphs)).pieces[1:]
    assert len(pieces) == 3
    assert all(len(piece.body) <= MAX_BODY and piece.body.startswith("Paragraph") for piece in pieces)
    assert [piece.title for piece in pieces[:2]] == ["x › Long", "x › Long › (2)"]
    assert {piece.parent for piece in pieces[1:]} == {pieces[0].key}
    assert " ".join(" ".join(piece.body for piece in pieces).split()) == " ".join(
        " ".join(paragraphs).split()
    )


def test_text_without_places_to_cut_is_cut_all_the_same() -> None:
    parts = split_text("x" * 5_000 + "\n```\n" + "code line\n\n" * 300 + "```\nend", 2_000)
    assert all(len(part) <= 2_000 for _, part in parts)
    assert "".join(part for _, part in parts).count("x") == 5_000
    assert sum(part.count("code line") for _, part in parts) == 300


def test_short_code_is_not_torn_at_its_blank_lines() -> None:
    code = "```py\na = 1\n\n\nb = 2\n```"
    parts = split_text(f"{'word ' * 380}\n\n{code}\n\nafter", 2_000)
    assert any(code in part for _, part in parts)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("We decided to stay.", "decision"),
        ("Our target is 100 users.", "goal"),
        ("She prefers tea.", "preference"),
        ("Always lock the door.", "pattern"),
        ("It happened at noon.", "event"),
        ("I noticed a smell; we saw that.", "observation"),
        ("The latest pickings are in the undecided retargeting patternless file.", "fact"),
        ("He saw the thing that was there.", "fact"),
        ("An aim in a long text. " + "Nothing of the kind. " * 60, "fact"),
    ],
)
def test_kinds_are_told_by_whole_words(text: str, kind: str) -> None:
    assert classify(text) == kind


def test_the_nearest_heading_decides_before_the_text() -> None:
    assert classify("We chose it.", ("Decisions", "Goals")) == "goal"
    assert classify("We chose it.", ("Goals", "Background")) == "goal"
    assert classify("Nothing telling.", (), "event") == "event"


def test_dates_come_from_names_headings_first_words_and_front_matter() -> None:
    day = "2026-01-31T00:00:00.000000+00:00"
    assert find_named_date("memory/2026-01-31.md") == day
    assert find_named_date("2026-01-31/notes.md") == ""
    assert find_leading_date("- [x] 2026-01-31: done") == day
    assert find_leading_date("done on 2026-01-31") == ""
    assert find_date("Week of 2026-01-31") == day
    assert parse_date("2026-01-31 10:30") == "2026-01-31T10:30:00.000000+00:00"
    assert parse_date("2026-01-31T10:30:00+02:00") == "2026-01-31T08:30:00.000000+00:00"
    assert parse_date("2026-02-31") == parse_date("12026-01-01") == parse_date(7) == ""


def test_a_daily_note_is_of_its_day_and_a_dated_section_of_its_own() -> None:
    note = "- Met the vendor\n\n## 2026-01-30 afterwards\nA late thought about it.\n"
    lead, section = parse_note("memory/2026-01-31.md", note).pieces
    assert (lead.date[:10], lead.kind) == ("2026-01-31", "event")
    assert (section.date[:10], section.kind) == ("2026-01-30", "event")


def test_front_matter_that_is_none_stays_text() -> None:
    assert parse_front_matter("---\n{{title}}: [\n---\ntext").lines == 0
    assert parse_front_matter("text\n---\na: 1\n---\n").lines == 0
    assert parse_front_matter("---\n---\ntext").lines == 0
    matter = parse_front_matter("---\nkind: Decision\ndate: 2026-02-01\ntags: 'a, #b'\nagent: scout\n---\n")
    assert (matter.kind, matter.date[:10], matter.tags, matter.agent, matter.lines) == (
        "decision",
        "2026-02-01",
        ("a", "b"),
        "scout",
        6,
    )


def test_tags_are_words_with_a_letter() -> None:
    assert find_tags("#One and (#two/three) but not #12, a#b, http://x/#y, ## or [#z]") == (
        "one",
        "two/three",
    )


def test_links_of_all_forms_and_none_in_code() -> None:
    text = "[[A]] ![[folder/B#Part|shown]] [[C^block]] [[A]] `[[No]]` [[p.png]] [[#Here]]"
    text += " [x](sub/D%20E.md#top) [y](http://z/w.md)"
    assert find_links(text) == (
        NoteLink("A"),
        NoteLink("folder/B", "Part"),
        NoteLink("C^block"),
        NoteLink("sub/D E", "top"),
    )
    assert find_links("[[Node.js]] [[N#^block]] [[a\\|b]]") == (
        NoteLink("Node.js"),
        NoteLink("N"),
        NoteLink("a"),
    )


def test_a_link_means_the_nearest_note_that_fits() -> None:
    ids = candidate_ids(NoteLink("folder/B"), "vault/x/A.md")
    assert ids == [
        path_id("vault/x/folder/B"),
        path_id("vault/folder/B"),
        path_id("folder/B"),
        name_id("B"),
    ]
    assert candidate_ids(NoteLink("../B"), "vault/x/A.md")[-2:] == [path_id("vault/B"), name_id("b")]
    assert matches_path(NoteLink("folder/b"), "vault/Folder/B.md")
    assert not matches_path(NoteLink("other/B"), "vault/folder/B.md")
