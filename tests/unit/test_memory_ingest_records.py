"""Records, tables, texts and logs taken apart, and pieces made nodes of."""

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.memory.ingest.drafting import draft_nodes
from services.memory.ingest.naming import make_piece
from services.memory.ingest.passages import LOG_LINES, parse_log, read_passages
from services.memory.ingest.pieces import Document, IngestError, Piece, join_title
from services.memory.ingest.reading import MAX_BYTES, read_document
from services.memory.ingest.structured import parse_json, parse_table, parse_yaml


def test_a_table_is_read_by_its_header() -> None:
    anna, bob = parse_table("people", "name;city;joined\nAnna;Berlin;2026-01-02\n\nBob;;2026-01-03\n")
    assert anna.title == "people › Anna"
    assert anna.body == "name: Anna\ncity: Berlin\njoined: 2026-01-02"
    assert (bob.body, bob.line) == ("name: Bob\njoined: 2026-01-03", 4)
    assert anna.whole


def test_a_table_without_a_header_loses_no_row() -> None:
    rows = parse_table("t", "Anna,34\nBob,35\n")
    assert [row.body for row in rows] == ["column 1: Anna\ncolumn 2: 34", "column 1: Bob\ncolumn 2: 35"]
    wide = parse_table("t", 'a,b\n"x, y",2,3\n')
    assert wide[0].body == "a: x, y\nb: 2\ncolumn 3: 3"


def test_json_in_its_forms() -> None:
    text = (
        '{"people": [{"name": "Carl", "address": {"city": "Rome"}, "likes": ["tea", "jam"]}], "version": 3}'
    )
    version, carl = parse_json("x", text)
    assert version.title == "x › version 3"
    assert carl.title == "x › people › Carl"
    assert carl.body == "name: Carl\naddress.city: Rome\nlikes: tea, jam"
    assert [piece.line for piece in parse_json("l", '{"a": "one"}\n\n{"a": "two"}\n')] == [1, 3]
    assert [piece.body for piece in parse_json("s", '["one thing", [["two"]], null]')] == ["one thing", "two"]


def test_a_record_of_one_sentence_is_that_sentence() -> None:
    (told,) = parse_json(
        "facts", '[{"text": "The chip is an ESP32", "created": "2026-05-11", "kind": "fact"}]'
    )
    assert (told.title, told.body, told.date[:10]) == (told.body, "The chip is an ESP32", "2026-05-11")
    (numbered,) = parse_json("facts", '[{"text": "The chip is an ESP32", "id": "T-17"}]')
    assert numbered.body == "text: The chip is an ESP32\nid: T-17"
    (odd,) = parse_json("facts", '[{"text": "The chip is an ESP32", "type": "hardware"}]')
    assert odd.body.endswith("type: hardware")
    (numbers,) = parse_yaml("config", "alerts: {phone: '+47 555 0199', threshold: -25}")
    assert numbers.title == "config › alerts.phone +47 555 0199"
    (short,) = parse_json("parts", '[{"name": "battery"}]')
    assert (short.title, short.body) == ("parts › battery", "name: battery")


def test_a_record_says_its_kind_tags_date_and_importance_itself() -> None:
    (record,) = parse_yaml(
        "y",
        "- {title: Use NATS, kind: Decision, tags: [bus], date: 2026-01-02, importance: 0.9, agent: scout}",
    )
    assert (record.kind, record.tags, record.date[:10]) == ("decision", ("bus",), "2026-01-02")
    assert (record.importance, record.agent) == (0.9, "scout")


@pytest.mark.parametrize(
    ("reader", "text", "reason"),
    [
        (parse_json, '{"a": ', "not valid JSON"),
        (parse_json, "[" * 100_000, "not valid JSON"),
        (parse_json, "[" * 60 + "1" + "]" * 60, "nested more than 40 deep"),
        (parse_yaml, "a: [", "not valid YAML"),
        (parse_yaml, "&a [*a]", "nested more than 40 deep"),
        (parse_yaml, "a: " + "[" * 60 + "1" + "]" * 60, "nested more than 40 deep"),
        (parse_yaml, "a: " + "[" * 20_000 + "]" * 20_000, "brackets are nested too deep"),
        (parse_yaml, "!!python/object/apply:os.system [ls]", "not valid YAML"),
        (
            parse_yaml,
            "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(
                f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
            ),
            "more than 2,000,000 values",
        ),
    ],
)
def test_what_cannot_be_read_says_why(reader: object, text: str, reason: str) -> None:
    with pytest.raises(IngestError, match=reason):
        reader("x", text)  # type: ignore[operator]


def read_text(text: str) -> tuple[Piece, ...]:
    return tuple(make_piece(passage, (), "", date(2026, 6, 1), "t") for passage in read_passages(text))


def test_a_text_is_read_by_its_passages() -> None:
    bullet, rest = read_text("- Buy toner\n\nand paper\n")
    assert (bullet.title, bullet.body) == ("t › Buy toner", "- Buy toner")
    assert (rest.body, rest.line) == ("and paper", 3)
    lines = read_text("Anna runs the shop.\nBob drives the van!\n\nA text that goes on\nover two lines.\n")
    assert [piece.body for piece in lines] == [
        "Anna runs the shop.",
        "Bob drives the van!",
        "A text that goes on\nover two lines.",
    ]


def test_a_log_keeps_what_belongs_to_a_line_with_it() -> None:
    lines = [f"2026-01-01 10:{number:02d}:00 INFO step {number}" for number in range(LOG_LINES - 1)]
    lines += ["2026-01-01 11:00:00 ERROR it broke", "Traceback:", "  in step", "2026-01-01 11:01:00 INFO on"]
    first, second = parse_log("app", "\n".join(lines))
    assert second.body.split("\n")[0] == "2026-01-01 11:00:00 ERROR it broke"
    assert second.body.endswith("INFO on")
    assert (first.date[11:16], second.date[11:16], second.line) == ("10:00", "11:00", LOG_LINES)
    assert {piece.kind for piece in (first, second)} == {"event"}
    longer = parse_log("app", "\n".join([*lines, "2026-01-01 11:02:00 INFO appended"]))
    assert longer[0].body == first.body


def test_a_log_of_a_chat_is_read_message_by_message(tmp_path: Path) -> None:
    said = (
        "2026-09-14 10:02 <lena> the screws come from Bossard\n2026-10-22 08:15 <henrik> the code is 9026\n"
    )
    (tmp_path / "chat.log").write_text(said)
    first, second = read_document(tmp_path, "chat.log", 1.79e9).pieces
    assert (first.body, first.date[:10]) == ("lena: the screws come from Bossard", "2026-09-14")
    assert (second.body, second.date[:16]) == ("henrik: the code is 9026", "2026-10-22T08:15")
    (tmp_path / "app.log").write_text(
        "2026-09-14 10:02:00 nginx: started\n2026-09-14 10:02:01 nginx: ready\n"
    )
    assert len(read_document(tmp_path, "app.log", 1.79e9).pieces) == 1


def test_records_of_the_same_text_have_the_same_id_wherever_they_are() -> None:
    one = draft_nodes(Document(pieces=parse_table("a", "name,n\nAnna,x\nBob,y\nAnna,x\n")), "a.csv", 1.7e9)
    other = draft_nodes(Document(pieces=parse_table("b", "name,n\nBob,y\n")), "sub/b.csv", 1.7e9)
    assert (len(one.drafts), one.repeated) == (2, 1)
    assert one.drafts[1].node.id == other.drafts[0].node.id
    assert one.drafts[0].node.created_at < one.drafts[1].node.created_at


def test_what_is_planned_is_known_before_its_day() -> None:
    drafts = draft_nodes(Document(pieces=read_text("2099-01-01 the lease ends")), "t.txt", 1.7e9)
    node = drafts.drafts[0].node
    assert node.valid_from[:4] == "2099"
    assert node.created_at[:4] == "2023"


def test_what_stands_above_the_days_of_a_log_has_the_day_of_the_file(tmp_path: Path) -> None:
    """No day of the log is its day: what ends what is for the words of both to say."""

    def created(*days: str) -> str:
        sections = "".join(f"\n\n## {day}\nSomething else took place on that day." for day in days)
        (tmp_path / "t.md").write_text(f"# Team\n\nDana looks after the booking system.{sections}", "utf-8")
        found = draft_nodes(read_document(tmp_path, "t.md", 1.79e9), "t.md", 1.79e9, "n1")
        return next(draft.node.created_at for draft in found.drafts if "Dana" in draft.node.body)[:10]

    assert created("2025-10-02", "2025-11-10") == "2026-09-21"
    assert created("2025-10-02") == "2026-09-21"


def test_the_folder_of_an_agent_is_its_memory() -> None:
    document = Document(pieces=read_text("Likes short answers to long questions"))
    assert draft_nodes(document, "agents/scout/m.txt", 0).drafts[0].node.source.agent == "scout"
    assert draft_nodes(document, "agents/m.txt", 0).drafts[0].node.source.agent == ""
    assert draft_nodes(document, "m.txt", 0).drafts[0].node.source.session == "m.txt"


def test_titles_keep_the_file_and_the_nearest_heading() -> None:
    assert join_title("a" * 50, "b" * 100, "c" * 100) == f"{'a' * 50} › {'c' * 100}"
    assert len(join_title("x" * 500)) == 200
    assert Piece(title=join_title(""), body="x").title == "untitled"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"ab\x81\xff\x01", "not text, or in an unknown encoding: byte 2"),
        ("a.md", b"zero\0byte", "zero bytes"),
        ("a.md", b" \n\n", "empty"),
        ("a.csv", b"name,city\n", "nothing in it"),
        ("a.xls", b"%PDF", "not .xls"),
        ("a.pdf", b"%PDF", "no text in it"),
        ("README", b"text", "not this"),
        ("a.txt", b"x" * (MAX_BYTES + 1), "the limit is 10,000,000"),
    ],
)
def test_files_that_are_not_taken(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(IngestError, match=reason):
        read_document(tmp_path, name, 0.0)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.md").write_text("secret")
    (tmp_path / "in" / "a.md").symlink_to(tmp_path / "out" / "secret.md")
    (tmp_path / "in" / "sub").symlink_to(tmp_path / "out")
    for path in ("a.md", "sub/secret.md", "../out/secret.md"):
        with pytest.raises(IngestError, match=r"leads out|cannot be read"):
            read_document(tmp_path / "in", path, 0.0)


FRAGMENTS = st.sampled_from(
    '# |## |---\n|\n|[[|]]|#tag |```\n|- |text |2026-01-03 |a: 1\n|{"a":|[1]|}|,|"|\t|&a |*a|!x |![[|](x.md)|'
    "\U0001f600|\u2028|\r\n|null|\\|`|_".split("|")
)


@settings(max_examples=150, deadline=None)
@given(ending=st.sampled_from("md org txt log json yaml csv".split()), parts=st.lists(FRAGMENTS, max_size=60))
def test_any_text_is_taken_apart_or_refused(
    tmp_path_factory: pytest.TempPathFactory, ending: str, parts: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / f"any.{ending}").write_text("".join(parts), newline="")
    try:
        document = read_document(folder, f"any.{ending}", 1.7e9)
    except IngestError:
        return
    drafts = draft_nodes(document, f"any.{ending}", 1.7e9, "note-id")
    seen = set[str]()
    for draft in drafts.drafts:
        assert not draft.parent or draft.parent in seen
        seen.add(draft.node.id)
        assert draft.node.to_json()
    assert len(seen) + drafts.repeated == len(document.pieces)


@pytest.mark.parametrize("value", ["NO", "010", "12:30:45", "1.0", "off", "1e3", "0x1F", "2026-08-14"])
def test_values_of_yaml_are_as_they_are_written(value: str) -> None:
    (record,) = parse_yaml("config", f"name: the harbour of Horten\nkey: {value}\n")
    assert record.body == f"name: the harbour of Horten\nkey: {value}"
