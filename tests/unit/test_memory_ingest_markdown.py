"""Markdown notes taken apart: sections, front matter, links, kinds, dates."""

from datetime import date

import pytest

from services.memory.ingest.drafting import candidate_ids, find_links, matches_path, name_id, path_id
from services.memory.ingest.front_matter import parse_front_matter
from services.memory.ingest.kinds import choose_kind, lean, score_kinds, score_piece
from services.memory.ingest.markdown import convert_org, parse_note
from services.memory.ingest.naming import make_piece
from services.memory.ingest.passages import LONG, read_passages, split_text
from services.memory.ingest.pieces import (
    MAX_BODY,
    Document,
    NoteLink,
    find_day,
    find_leading_date,
    find_named_date,
    find_tags,
    parse_date,
)

KNOWN = date(2026, 6, 1)

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


def read_note(path: str, text: str) -> Document:
    return parse_note(path, text, KNOWN)


def test_a_note_is_its_outline_and_its_passages() -> None:
    document = read_note("notes/bus.md", NOTE)
    assert [piece.title for piece in document.pieces] == [
        "The Bus",
        "Everything goes over one broker.",
        "The Bus › We chose NATS.",
        "Why › One binary #small.",
        "Why › not a heading, and no #tag",
        "A second one under the same heading.",
    ]
    outline, lead, first, why, code, second = document.pieces
    assert (outline.body, outline.kind) == ("Sections: Decisions, Why, Nothing yet", "note")
    assert lead.body == "Everything goes over one broker."
    assert lead.tags == ("infra", "nats")
    assert lead.importance == 0.65
    assert document.properties == {"author": "Jo"}
    assert [piece.line for piece in document.pieces[1:]] == [7, 10, 13, 15, 21]
    assert {piece.parent for piece in document.pieces[1:]} == {outline.key} == {"note"}
    assert first.key != second.key
    assert why.tags == ("infra", "nats", "small")
    assert why.heading == ("Decisions", "Why")
    assert first.kind == ""
    assert code.kind == "decision"
    assert "echo" in code.body
    assert document.links == ()


def test_nine_paragraphs_of_seven_kinds_are_nine_pieces() -> None:
    said = {
        "We decided to ship on Fridays only.": "decision",
        "Kim prefers tables to prose.": "preference",
        "Never restart the broker during a release.": "pattern",
        "The staging host is called heron.": "fact",
        "The release of April failed and was rolled back.": "event",
        "We noticed that builds got slower since March.": "observation",
        "Our goal is to halve the build time by the end of June.": "goal",
        "The archive holds nine years of invoices.": "fact",
        "Always tag a build before it leaves the house.": "pattern",
    }
    pieces = read_note("x.md", "# Decisions of the team\n\n" + "\n\n".join(said)).pieces[1:]
    assert [piece.body for piece in pieces] == list(said)
    assert [choose_kind(score_piece(piece)) for piece in pieces] == list(said.values())


def test_lists_are_read_bullet_by_bullet() -> None:
    text = """\
- [ ] call the bank
  about the loan
- [x] send the letter
  - the stamps are in the drawer

    of the desk
1. First the flour, then the milk

- after a gap
"""
    pieces = read_note("x.md", text).pieces[1:]
    assert [piece.body for piece in pieces] == [
        "- [ ] call the bank\nabout the loan",
        "- [x] send the letter",
        "- the stamps are in the drawer\n\n  of the desk",
        "1. First the flour, then the milk",
        "- after a gap",
    ]
    assert [piece.kind for piece in pieces] == ["task", "event", "", "", ""]
    assert pieces[2].title == "send the letter › the stamps are in the drawer"
    assert [piece.line for piece in pieces] == [1, 3, 4, 7, 9]


def test_a_short_line_before_a_list_is_the_heading_of_its_entries() -> None:
    text = (
        "Lunch was good.\n\nOpen questions\n- Who waters the plants?\n- Should we sell in Finland?\n\nBye now"
    )
    lunch, plants, finland, bye = read_note("x.md", text).pieces[1:]
    assert (lunch.body, bye.body) == ("Lunch was good.", "Bye now")
    assert plants.title == "Open questions › Who waters the plants?"
    assert (plants.body, plants.heading, plants.line) == ("- Who waters the plants?", ("Open questions",), 4)
    assert {choose_kind(score_piece(piece)) for piece in (plants, finland)} == {"task"}
    told = read_note("x.md", "We met at noon and all of us were there.\n\n- tea\n- cake").pieces[1:]
    assert [piece.body for piece in told] == ["We met at noon and all of us were there.", "- tea", "- cake"]


def test_the_steps_of_a_procedure_stay_together() -> None:
    steps = "1. Hold the button.\n2. Connect the cable.\n3. Run the flasher."
    text = f"How to flash a station\n\n{steps}\n\nIt takes a minute.\n"
    with_lead, rest = (make_piece(passage, (), "", KNOWN, "t") for passage in read_passages(text))
    assert (with_lead.title, with_lead.body) == ("How to flash a station", f"How to flash a station\n{steps}")
    assert rest.body == "It takes a minute."
    (headed,) = read_note("x.md", f"# Notes\n\n## How to flash\n\n{steps}\n").pieces[1:]
    assert (headed.title, headed.body, headed.default_kind) == ("How to flash", steps, "pattern")
    decided = read_note("x.md", f"# Notes\n\n## Decisions\n\n{steps}\n").pieces[1:]
    assert len(decided) == 3


def test_tables_and_code_stay_whole_with_the_line_before_them() -> None:
    table = "| bed | crop |\n|---|---|\n| 1 | beans |\n| 2 | leek |"
    code = "```sh\nmake\n\nmake test\n```"
    text = f"{table}\n\nRun this first:\n\n{code}\n\nThen wait."
    assert [piece.body for piece in read_note("x.md", text).pieces[1:]] == [
        table,
        f"Run this first:\n\n{code}",
        "Then wait.",
    ]


def test_a_chat_is_read_message_by_message() -> None:
    text = "[2026-03-12 09:02] Lena: the courier came\nat eight\n12.03.26, 09:03 - Omar: my train was late\n"
    pieces = [make_piece(passage, (), "", KNOWN, "chat") for passage in read_passages(text)]
    assert [piece.title for piece in pieces] == ["Lena: the courier came", "Omar: my train was late"]
    assert [piece.default_kind for piece in pieces] == ["episodic", "episodic"]
    assert [piece.tags for piece in pieces] == [("lena",), ("omar",)]
    assert pieces[0].date == "2026-03-12T09:02:00.000000+00:00"
    assert pieces[1].date[:10] == "2026-03-12"
    assert pieces[0].body == "Lena: the courier came\nat eight"  # when is the date of its node
    undated = [make_piece(each, (), "", KNOWN, "chat") for each in read_passages("09:03 Omar: late")]
    assert undated[0].body == "09:03 Omar: late"


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ("I love spending time with the friends I have", {"episodic", "event", "fact"}),
        ("we never leave before the others do", {"episodic", "event", "fact"}),
        ("I'll let you know", {"episodic", "event", "fact"}),
        ("We decided to move the deploy of the shop to Thursday", {"decision"}),
        ("We'll go with Postgres", {"decision"}),
    ],
)
def test_what_people_chat_is_no_rule_and_seldom_a_decision(said: str, kinds: set[str]) -> None:
    (piece,) = [
        make_piece(each, (), "", KNOWN, "chat") for each in read_passages(f"[2026-03-12 09:02] Lena: {said}")
    ]
    assert choose_kind(score_piece(piece)) in kinds


def test_the_key_of_a_passage_is_that_of_its_text_wherever_it_stands() -> None:
    said = "The printer of the second floor is out of toner."
    here = read_note("a.md", f"# A\nlead\n\n## B\n{said}\n").pieces[-1]
    there = read_note("b.md", f"- one\n\n{said}\n").pieces[-1]
    assert here.key == there.key
    (short, other) = (read_note("a.md", f"lead\n\n## {name}\nport 4222\n").pieces[-1] for name in "BC")
    assert short.key != other.key
    assert short.title == "B › port 4222"


def test_a_heading_of_the_first_level_at_the_top_names_the_note() -> None:
    (piece,) = read_note("x.md", "# Toner\n\nIt is in the cupboard.\n").pieces
    assert (piece.title, piece.body, piece.line) == ("Toner", "It is in the cupboard.", 3)
    (piece,) = read_note("2026-03-04.md", "The toner is in the cupboard.\n").pieces
    assert piece.title == "The toner is in the cupboard."
    pieces = read_note("x.md", "# One\nfirst\n\n# Two\nsecond\n").pieces
    assert [piece.title for piece in pieces] == ["x", "One › first", "Two › second"]
    assert pieces[0].body == "Sections: One, Two"
    assert pieces[0].kind == "note"


def test_a_long_paragraph_is_split_at_sentences_and_nothing_is_lost() -> None:
    text = " ".join(f"Sentence {number} of them says this and that." for number in range(60))
    pieces = read_note("x.md", f"## Long\n{text}").pieces[1:]
    assert len(pieces) > 3
    assert all(len(piece.body) <= LONG and piece.body.endswith(".") for piece in pieces)
    assert " ".join(piece.body for piece in pieces) == text
    (endless,) = {len(piece.body) for piece in read_note("x.md", "## L\n" + "x" * 4_000).pieces[1:]}
    assert endless == MAX_BODY


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
        ("Wir haben beschlossen zu bleiben.", "decision"),
    ],
)
def test_kinds_are_told_by_whole_words(text: str, kind: str) -> None:
    assert choose_kind(score_kinds(text)) == kind


def test_likeness_alone_makes_a_kind_if_it_is_sure_enough() -> None:
    told = {"fact": 0.9, "decision": 0.0, "goal": 0.0}
    assert choose_kind(lean(told, {"fact": 1.0, "decision": 1.4, "goal": 0.1}, "fact")) == "fact"
    assert choose_kind(lean(told, {"fact": 1.0, "decision": 1.6, "goal": 0.1}, "fact")) == "decision"
    cued = {**told, "decision": 1.0}
    assert choose_kind(lean(cued, {"fact": 1.0, "decision": 1.4, "goal": 0.1}, "fact")) == "decision"
    assert choose_kind(lean(told, {"fact": 1.4, "episodic": 1.2}, "episodic")) == "fact"


def test_a_heading_counts_and_a_clear_text_counts_more() -> None:
    assert choose_kind(score_kinds("Postgres for the billing.", ("Goals", "Decisions"))) == "decision"
    assert choose_kind(score_kinds("Kim prefers tea.", ("Decisions",))) == "preference"
    assert choose_kind(score_kinds("The shelves are made of oak.", ("Decided",))) == "decision"
    assert choose_kind(score_kinds("A dark theme.", ("[2.4.0] - 2026-02-17", "Notes"))) == "event"
    assert choose_kind(score_kinds("Nothing telling.", (), default="event")) == "event"


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Monday 4 May", "2026-05-04"),
        ("Mon, 4th of May 2025", "2025-05-04"),
        ("March 4, 2026", "2026-03-04"),
        ("4. Mai 2026", "2026-05-04"),
        ("Protokoll vom 4.5.26", "2026-05-04"),
        ("Tuesday 14 April", "2026-04-14"),
        ("Tuesday 30 June", "2020-06-30"),
        ("24 December", "2025-12-24"),
        ("13/02/2026", "2026-02-13"),
        ("02/13/2026", "2026-02-13"),
        ("[2026-02-10 Tue] House rules", "2026-02-10"),
        ("v1.2.3 of May", ""),
        ("31 June", ""),
        ("4/5/2026", ""),
    ],
)
def test_days_are_read_in_the_forms_people_write(text: str, day: str) -> None:
    assert find_day(text, KNOWN)[:10] == day


def test_a_passage_is_dated_by_its_beginning_else_by_its_heading() -> None:
    text = "# Log\n\n## Mon 4 May 2026\n- 09:10 disk replaced\n- On 2 May: a call came in\n- due on 7 May\n"
    dates = [piece.date[:16] for piece in read_note("log.md", text).pieces[1:]]
    assert dates == ["2026-05-04T09:10", "2026-05-02T00:00", "2026-05-04T00:00"]
    record = read_note("adr.md", "# Use X\n\nDate: 2026-01-22\n\n## Context\nA text.\n")
    assert [piece.date[:10] for piece in record.pieces] == ["2026-01-22"] * 2


def test_an_org_file_is_read_as_a_note() -> None:
    text = "#+TITLE: Studio\n#+DATE: 2026-02-03\n\n* Rooms :large:\nThere is a piano.\n\n* TODO Mend it\n"
    outline, room, task = read_note("s.org", convert_org(text)).pieces
    assert (outline.title, room.tags, room.date[:10]) == ("Studio", (), "2026-02-03")
    assert (room.body, task.body, task.kind) == ("There is a piano.", "- [ ] Mend it", "task")


def test_dates_come_from_names_headings_first_words_and_front_matter() -> None:
    day = "2026-01-31T00:00:00.000000+00:00"
    assert find_named_date("memory/2026-01-31.md") == day
    assert find_named_date("2026-01-31/notes.md") == ""
    assert find_leading_date("- [x] 2026-01-31: done") == day
    assert find_leading_date("done on 2026-01-31") == ""
    assert find_day("Week of 2026-01-31", KNOWN) == day
    assert parse_date("2026-01-31 10:30") == "2026-01-31T10:30:00.000000+00:00"
    assert parse_date("2026-01-31T10:30:00+02:00") == "2026-01-31T08:30:00.000000+00:00"
    assert parse_date("2026-02-31") == parse_date("12026-01-01") == parse_date(7) == ""


def test_a_daily_note_is_of_its_day_and_a_dated_section_of_its_own() -> None:
    note = "- Met the vendor\n\n## 2026-01-30 afterwards\nA late thought about it.\n"
    _, lead, section = read_note("memory/2026-01-31.md", note).pieces
    assert (lead.date[:10], lead.default_kind) == ("2026-01-31", "event")
    assert (section.date[:10], section.default_kind) == ("2026-01-30", "event")


def test_front_matter_that_is_none_stays_text() -> None:
    assert parse_front_matter("---\n{{title}}: [\n---\ntext", KNOWN).lines == 0
    assert parse_front_matter("text\n---\na: 1\n---\n", KNOWN).lines == 0
    assert parse_front_matter("---\n---\ntext", KNOWN).lines == 0
    text = "---\nkind: Decision\ndate: 2026-02-01\ntags: 'a, #b'\nagent: scout\n---\n"
    matter = parse_front_matter(text, KNOWN)
    assert (matter.kind, matter.date[:10], matter.tags, matter.agent, matter.lines) == (
        "decision",
        "2026-02-01",
        ("a", "b"),
        "scout",
        6,
    )


@pytest.mark.parametrize(
    "title",
    [
        "Re: crane booking: second try",
        "@runa on paint",
        "%progress of the hull",
        "{{title}}",
        "No",
        "010",
        "1.0",
        "12:30:45",
        "*Starred* words",
        "- a dash",
        "C:\\Users\\runa",
        '"half" quoted',
        "[draft] second",
        "`code` first",
        "what? yes: no",
        "a\ttab: b",
        "100 % sure: really",
        "key | value > other",
    ],
)
def test_front_matter_is_read_as_it_is_written(title: str) -> None:
    text = (
        f"---\ntitle: {title}\ntags: [no, off, 010]\ndate: 2026-08-14\ncountry: NO\nkind: fact\n---\n\n- A\n"
    )
    matter = parse_front_matter(text, KNOWN)
    assert (matter.title.replace("\t", " "), matter.tags) == (title.replace("\t", " "), ("no", "off", "010"))
    assert (matter.date[:10], matter.kind, matter.properties) == ("2026-08-14", "fact", {"country": "NO"})
    assert (matter.lines, matter.unread) == (7, ())


@pytest.mark.parametrize(
    ("tags", "read"),
    [
        ("tags: crane, booking", ("crane", "booking")),
        ("tags: #crane #booking", ("crane", "booking")),
        ("tags:\n  - crane\n  - booking", ("crane", "booking")),
        ("tags:\n\t- crane\n\t- booking", ("crane", "booking")),
        ("tags:\n- #crane\n- #booking", ("crane", "booking")),
        ("tags: [#crane, #booking]", ("crane", "booking")),
        ("Tags: [ 'crane', \"booking\" ]", ("crane", "booking")),
    ],
)
def test_tags_of_front_matter(tags: str, read: tuple[str, ...]) -> None:
    for title in ("Plain", "Not: so: plain"):
        assert parse_front_matter(f"---\ntitle: {title}\n{tags}\n---\n", KNOWN).tags == read


@pytest.mark.parametrize(
    "date_line",
    [
        "date: 2026-8-4",
        "date: 2026/08/04",
        "date: 4 August 2026",
        "created: 4.8.2026",
        'date: "2026-08-04 10:00"',
        "date: Aug 4, 2026",
    ],
)
def test_days_of_front_matter(date_line: str) -> None:
    assert parse_front_matter("---\ndate: 1850-01-01\n---\n", KNOWN).date[:10] == "1850-01-01"
    assert parse_front_matter(f"---\n{date_line}\n---\n", KNOWN).date[:10] == "2026-08-04"


@pytest.mark.parametrize(
    ("source", "unread"),
    [
        ('title = "Hugo"\ndate = 2026-07-07\ntags = ["a", "b"]', 0),
        ("title = 'Hugo'\ndate = 2026-07-07T10:00:00Z\ntags = ['a', 'b']", 0),
        ("title = Hugo\ndate = 2026-07-07\ntags = [a, b]", 0),
        ('title = "Hugo"\nnot a field\ndate = 2026-07-07\ntags = ["a", "b"]', 1),
        ('title = "Hugo"\ndate = "2026-07-07"\n# a remark\ntags = ["a", "b"]', 0),
    ],
)
def test_front_matter_of_toml(source: str, unread: int) -> None:
    document = parse_note("a.md", f"+++\n{source}\n+++\n\n- The ferry leaves from berth five.\n", KNOWN)
    (piece,) = document.pieces
    assert (piece.title, piece.tags, piece.date[:10]) == ("Hugo", ("a", "b"), "2026-07-07")
    assert len(document.unread) == unread


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


CHANGES = """\
# Changes

## {}

### Fixed
- The default always returns the value, as we decided.
- Users prefer long options now.
"""


@pytest.mark.parametrize(
    "version",
    [
        "1.2",
        "[1.2.0] - 2026-03-01",
        "v2",
        "Version 8.3.3",
        "Release 26.1 (2026-03-01)",
        "[Unreleased]",
        "2.0rc1",
    ],
)
def test_what_a_changelog_tells_took_place(version: str) -> None:
    pieces = parse_note("CHANGES.md", CHANGES.format(version), KNOWN).pieces[1:]
    assert [piece.kind for piece in pieces] == ["event", "event"]


@pytest.mark.parametrize("heading", ["3.2 Installation", "2 rooms", "Versions of the API", "Team"])
def test_a_numbered_chapter_is_no_version(heading: str) -> None:
    pieces = parse_note("guide.md", f"# Guide\n\n## {heading}\nWe decided to use Postgres.\n", KNOWN).pieces
    assert not pieces[-1].kind
