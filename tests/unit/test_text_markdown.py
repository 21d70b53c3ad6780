"""Markdown by its blocks: their headings, their lines, and what a table, a list and code become."""

from shared.text.markdown import Block, read_blocks

TEXT = """\
before

# Broker
It *runs*
on [NATS](nats.md).

## Ports

| name | port |
|------|------|
| nats | 4222 |

> # quoted

- item

~~~toml title
port = 4222
~~~

Storage
=======

<div>shown</div>
"""


def kinds(text: str) -> list[tuple[str, tuple[str, ...], int, int]]:
    return [(block.kind, block.path, block.start, block.end) for block in read_blocks(text)]


def find(kind: str, text: str = TEXT) -> list[Block]:
    return [block for block in read_blocks(text) if block.kind == kind]


def test_each_block_has_its_headings_and_lines() -> None:
    assert kinds(TEXT) == [
        ("paragraph", (), 0, 1),
        ("heading", ("Broker",), 2, 3),
        ("paragraph", ("Broker",), 3, 5),
        ("heading", ("Broker", "Ports"), 6, 7),
        ("row", ("Broker", "Ports"), 8, 9),
        ("row", ("Broker", "Ports"), 10, 11),
        ("heading", ("Broker", "Ports"), 12, 13),
        ("paragraph", ("Broker", "Ports"), 14, 15),
        ("code", ("Broker", "Ports"), 16, 19),
        ("heading", ("Storage",), 20, 22),
        ("html", ("Storage",), 23, 24),
    ]


def test_a_heading_in_a_quotation_begins_no_section() -> None:
    assert [(block.text, block.nested, block.level) for block in find("heading")] == [
        ("Broker", False, 1),
        ("Ports", False, 2),
        ("quoted", True, 1),
        ("Storage", False, 1),
    ]


def test_a_row_has_its_cells() -> None:
    header, row = find("row")
    assert header.is_header
    assert not row.is_header
    assert [cell.text for cell in row.cells] == ["nats", "4222"]


def test_code_has_its_language() -> None:
    (code,) = find("code")
    assert (code.text, code.info, code.fenced) == ("port = 4222\n", "toml title", True)
    assert not find("code", "    indented")[0].fenced


def test_links_are_parsed_only_when_asked_for() -> None:
    paragraph = find("paragraph")[1]
    assert paragraph.text == "It *runs*\non [NATS](nats.md)."
    assert [token.attrs["href"] for token in paragraph.inline if token.type == "link_open"] == ["nats.md"]
    plain = list(read_blocks(TEXT, inline=False))
    assert [block.text for block in plain] == [block.text for block in read_blocks(TEXT)]
    assert not any(block.inline for block in plain)


def test_without_tables_a_table_is_a_paragraph() -> None:
    blocks = list(read_blocks("| a |\n|---|\n| b |", tables=False))
    assert [block.kind for block in blocks] == ["paragraph"]
