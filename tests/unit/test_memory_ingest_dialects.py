"""Notes of Obsidian and Logseq, minutes, changelogs, and the exports of chats."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from services.memory.ingest.chats import convert_chat
from services.memory.ingest.kinds import choose_kind, score_piece
from services.memory.ingest.markdown import normalise_markup
from services.memory.ingest.pieces import Piece, tag_speaker
from services.memory.ingest.reading import read_document

KNOWN = date(2026, 6, 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def read(root: Path, name: str, text: str) -> dict[str, Piece]:
    """The pieces of a file by title, without its outline."""
    (root / name).write_text(text)
    modified = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
    return {piece.title: piece for piece in read_document(root, name, modified).pieces if piece.key != "note"}


def kind(piece: Piece) -> str:
    return piece.kind or choose_kind(score_piece(piece))


def test_what_is_struck_out_hidden_or_a_question_to_the_program_is_no_text() -> None:
    text = (
        "%% private %%\n> [!info]- Status\n> It is ==hot==. ^block-1\n- ~~Fire on Mondays~~\n"
        "- It costs ~~10~~ 12 euros\n"
        "  id:: 6645\n- [#A] kept\n- LATER [#A] read\n- CANCELED go\n[![CI](https://x/y.svg)](https://x/y)\n"
        "```dataview\nTABLE a == b\n```\n```sh\na == b ~~c~~\n```\nowner:: Ann"
    )
    assert normalise_markup(text).split("\n") == [
        "",
        "> [!info]- Status",
        "> It is hot.",
        "",
        "- It costs 12 euros",
        "",
        "- [#A] kept",
        "- [ ] read",
        "- [-] go",
        "",
        "",
        "",
        "",
        "```sh",
        "a == b ~~c~~",
        "```",
        "owner: Ann",
    ]


def test_comments_end_where_they_end_and_code_keeps_its_own() -> None:
    text = (
        "50%% off\n\nand 20%% off\n%%\ntwo\nlines\n%%\nSeen <!-- not\nthis -->\n```html\n<!-- kept -->\n```"
    )
    assert normalise_markup(text).split("\n") == [
        *("50%% off", "", "and 20%% off", "", "", "", "", "Seen ", ""),
        *("```html", "<!-- kept -->", "```"),
    ]


def test_a_bullet_that_is_a_day_dates_those_below_it(root: Path) -> None:
    text = "- [[May 11th, 2026]]\n\t- TODO Call the landlord\n\t- We moved the server\n- Any day\n"
    told = read(root, "log.md", text)
    assert {title: piece.date[:10] for title, piece in told.items()} == {
        "Call the landlord": "2026-05-11",
        "We moved the server": "2026-05-11",
        "Any day": "",
    }


def test_signs_of_task_programs_are_no_title_and_say_when_it_was_done(root: Path) -> None:
    text = "# T\n\n- [x] Order [[Bert|Bertram]]s cones ✅ 2026-03-09\n- [ ] [[Ada]] signs ⏫ 📅 2026-03-20\n"
    told = read(root, "t.md", text)
    assert {title: piece.date[:10] for title, piece in told.items()} == {
        "Order Bertrams cones": "2026-03-09",
        "Ada signs": "",
    }


def test_a_heading_that_names_a_day_without_a_year_fails_no_file(root: Path) -> None:
    told = read(root, "d.md", "# Diary\n\n## Monday 4 May\n\nWe went to the lake.\n")
    assert told["We went to the lake."].date[:10] == "2026-05-04"


def test_minutes_are_read_point_by_point_on_the_day_in_their_first_line(root: Path) -> None:
    text = (
        "Weekly sync, Tuesday 12 May 2026\n\n1. Release\n   Ben says that 2.4 is blocked by the import.\n"
        "   Decision: it is postponed.\n   AI: Ben to fix the import\n2. Buy milk\n   and bread for all.\n"
    )
    told = read(root, "m.md", text)
    assert {title: kind(piece) for title, piece in told.items() if title != "Buy milk"} == {
        "Release › Ben says that 2.4 is blocked by the import.": "fact",
        "Release › Decision: it is postponed.": "decision",
        "Release › AI: Ben to fix the import": "task",
    }
    assert told["Buy milk"].body == "2. Buy milk\n and bread for all."
    assert {piece.date[:10] for piece in told.values()} == {"2026-05-12"}


def test_an_entry_of_a_changelog_says_what_became_of_it(root: Path) -> None:
    text = "# Changelog\n\n## [2.4.0] - 2026-05-19\n\n### Removed\n\n- Support for Python 3.9\n"
    (piece,) = read(root, "CHANGELOG.md", text).values()
    assert (piece.title, piece.date[:10]) == ("2.4.0 › Removed › Support for Python 3.9", "2026-05-19")


def test_entries_of_a_diary_are_apart_by_their_times(root: Path) -> None:
    told = read(root, "2026-05-12.txt", "09:15 The seal leaked\n10:30 - Tank refilled\nwith rain water\n")
    times = [(piece.date[11:16], piece.body.count("\n")) for piece in told.values()]
    assert times == [("09:15", 0), ("10:30", 1)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "12.05.26, 09:14 - Messages are end-to-end encrypted.\n12.05.26, 09:15 - Jana: Who?\n"
            "12.05.26, 09:16 - Uwe: <Media omitted>\n12.05.26, 09:17 - ~ Uwe: I do\n\nat five",
            ["2026-05-12 09:15 Jana: Who?", "2026-05-12 09:17 Uwe: I do", "at five"],
        ),
        (
            "[5/12/26, 9:14:03\u202fAM] Dana: Hi\n\u200e[5/13/26, 7:02:10\u202fPM] +49 151 23: Yo",
            ["2026-05-12 09:14 Dana: Hi", "2026-05-13 19:02 Number +49 151 23: Yo"],
        ),
        (
            "14/05/2026, 08:00 - A: x\n05/06/2026, 08:00 - B: y",
            ["2026-05-14 08:00 A: x", "2026-06-05 08:00 B: y"],
        ),
        (
            "[Yesterday 14:02] Schmidt, Karin\nCan we?\n\n[14:20] Okafor\nYes.",
            ["2026-05-31 14:02 Schmidt, Karin: Can we?", "2026-06-01 14:20 Okafor: Yes."],
        ),
        (
            "mira — 05/14/2026 6:22 PM\nthe beta is open\ntomo — Yesterday at 6:24 PM\ngood",
            ["2026-05-14 18:22 mira: the beta is open", "2026-05-31 18:24 tomo: good"],
        ),
    ],
)
def test_chats_are_put_in_one_form(text: str, told: list[str]) -> None:
    assert convert_chat(text, KNOWN).split("\n") == told


@pytest.mark.parametrize(
    "text",
    [
        "09:15 - Seal leaked\n10:30 - Tank refilled",
        "Lunch 12:00\nDinner 19:00",
        "2026-05-12 09:15 The seal leaked\n2026-05-12 10:00 It was replaced",
        "Opening hours: 9:00\nClosed: Mondays",
    ],
)
def test_what_is_no_chat_stays_as_it_is(text: str) -> None:
    assert convert_chat(text, KNOWN) == text


def test_records_that_are_messages_say_who_said_what_and_when(root: Path) -> None:
    ines, link = {"real_name": "Ines"}, {"type": "link", "text": "x.org"}
    records = [
        {"user": "U1", "user_profile": ines, "text": "We use ARM now", "ts": "1778577241.0002"},
        {"subtype": "channel_join", "user": "U2", "text": "<@U2> has joined", "ts": "1778577242"},
        {"id": 3, "date": "2026-05-12T09:16:01", "from": "Bo", "text": ["see ", link]},
        {"name": "Ada", "date": "1990-05-01", "message": "call"},
    ]
    told = read(root, "chat.json", json.dumps(records))
    assert [(piece.body, piece.date[:16]) for piece in told.values()] == [
        ("Ines: We use ARM now", "2026-05-12T09:14"),
        ("Bo: see x.org", "2026-05-12T09:16"),
        ("name: Ada\ndate: 1990-05-01\nmessage: call", "1990-05-01T00:00"),
    ]
    assert [piece.tags for piece in told.values()] == [("ines",), ("bo",), ()]


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("Jana Novák", ("jana",)),
        ("Dr. Anne-Marie O'Neill", ("anne-marie",)),
        ("~ Tom 🚲", ("tom",)),
        ("Number +49 170 1234567", ()),
        ("Scout", ()),  # an agent: its briefing would have it
        ("Global Shop", ()),
    ],
)
def test_the_author_of_a_message_is_among_its_tags(name: str, tags: tuple[str, ...]) -> None:
    assert tag_speaker(name) == tags


def test_a_column_names_the_kind_of_its_rows(root: Path) -> None:
    told = read(root, "t.csv", "date;item;decision\n2026-05-01;Fridge;Buy a used one\n2026-05-02;Oven;none\n")
    assert [piece.kind for piece in told.values()] == ["decision", ""]


MANUAL = """\
<p align="center">
  <a href="https://x.org"><img src="a.svg"
     width="35%"></a>
</p>

(frozen)=

# Frozen <em>classes</em>

:::{warning}
Use {func}`attrs.field` and {doc}`the guide <names>`, not `<b>bold</b>`.
:::

```{toctree}
:maxdepth: 1
api
```

>

?

Ages below 5 < 7 > 3 are [kept].

[kept]: https://x.org/kept "Kept"
[Ana]: brings the tea
"""


def test_html_and_what_manuals_tell_their_program_are_no_text(root: Path) -> None:
    assert [piece.body for piece in read(root, "frozen.md", MANUAL).values()] == [
        "Use `attrs.field` and `the guide`, not `<b>bold</b>`.",
        "Ages below 5 < 7 > 3 are [kept].",
        "[Ana]: brings the tea",
    ]
    assert len(normalise_markup(MANUAL).split("\n")) == len(MANUAL.split("\n"))


@pytest.mark.parametrize(
    ("line", "title", "of_kind"),
    [
        ("- [-] Build a second jetty", "Cancelled: Build a second jetty", "decision"),
        ("- CANCELLED: Build a second jetty", "Cancelled: Build a second jetty", "decision"),
        ("- [/] Paint the hull of Hulda red", "Paint the hull of Hulda red", "task"),
        ("- [>] Order new fenders from Horten now", "Order new fenders from Horten now", "task"),
        ("- [<] Order new fenders from Horten now", "Order new fenders from Horten now", "task"),
        ("- [?] Does the lock need a pump", "Does the lock need a pump", "task"),
        ("- [!] Tankers moor at berth one", "Tankers moor at berth one", "fact"),
        ('- ["] The lock has one pump', "The lock has one pump", "fact"),
        ("- [i] The lock has one pump", "The lock has one pump", "fact"),
        ("- [X] Sold the boat to Einar", "Sold the boat to Einar", "event"),
        ("- TODO: ask Signe about the book", "ask Signe about the book", "task"),
        ("1. [ ] order rope for the ferry", "order rope for the ferry", "task"),
    ],
)
def test_check_boxes_of_all_kinds(line: str, title: str, of_kind: str, root: Path) -> None:
    told = read(root, "jetty.md", f"# Jetty\n\n{line}\n- The quay of Horten has seven bollards of iron\n")
    assert {name: kind(piece) for name, piece in told.items() if "bollards" not in name} == {title: of_kind}
    assert not any(mark in told[title].body for mark in ("[-]", "[?]", "[!]", "[>]"))


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        ("> [!tip] Oil\n> Use oil number nine.", "Use oil number nine.", "Use oil number nine."),
        (
            "> [!note]+\n> The bilge pump is of Hulda.",
            "The bilge pump is of Hulda.",
            "The bilge pump is of Hulda.",
        ),
        (
            "> [!question]- Who has the key?\n> Ebbe has it in the shed.",
            "Who has the key? › Ebbe has it in the shed.",
            "",
        ),
        ("> [!warning] Never moor at berth two", "Never moor at berth two", ""),
        (
            "> > The pilot must wear a red vest.",
            "The pilot must wear a red vest.",
            "The pilot must wear a red vest.",
        ),
        ("> [!a]\n> > [!todo] Inner\n> > Copy the key for Tove.", "Inner › Copy the key for Tove.", ""),
        (
            "The crane lifts 3 * 4 tons & more.",
            "The crane lifts 3 * 4 tons & more.",
            "The crane lifts 3 * 4 tons & more.",
        ),
        (
            "Bo &amp; Liv greased the long rail.",
            "Bo & Liv greased the long rail.",
            "Bo & Liv greased the long rail.",
        ),
        ("The rail is long<br>and it is wet.", "The rail is long and it is wet.", ""),
        ("It lifts _five_ **tons**[^1] of \\*steel\\*.", "It lifts five tons of *steel*.", ""),
        ("[^1]: The note says seven tons.", "The note says seven tons.", "The note says seven tons."),
        ("| A | B |\n|---|---|\n| x \\| y | z |", "A, B", ""),
        ("The depth is <50 m> here, a < b.", "The depth is <50 m> here, a < b.", ""),
    ],
)
def test_a_note_is_told_as_its_reader_sees_it(text: str, title: str, body: str, root: Path) -> None:
    told = read(root, "sea.md", f"# Sea\n\n{text}\n\n- The quay of Horten has seven bollards of iron\n")
    assert title in {name.removeprefix("Oil › ") for name in told}, list(told)
    if body:
        assert told[title].body == body
