"""reStructuredText read by its structure: titles, paragraphs, literal blocks, links."""

import re

from services.scout.document import Builder, Document, Reference, blocks

ADORNMENT = re.compile(r"([=\-`:.'\"~^_*+#<>])\1{2,}\s*")
CODE = re.compile(r"\.\. (?:code-block|code|sourcecode)::\s*(\S*)")
LINK = re.compile(r"`([^`<]+?)\s*<([^`>]+)>`__?")
ROLE = re.compile(r":[\w:+-]+:`~?([^`<]+?)(?:\s*<[^`>]*>)?`")
LITERAL = re.compile(r"``([^`]+)``")
MARKS = re.compile(r"\|[^|\s][^|]*\|_?|\*{1,2}|(?<=\w)__?(?=\W|$)")


def parse_restructured(path: str, text: str) -> Document:
    """The document in ``text``; directives other than code are left out."""
    builder = Builder(path, text)
    levels: list[str] = []
    literal = ""
    for line, rows in blocks(text):
        indented = rows[0].startswith((" ", "\t"))
        if indented:
            if literal:
                builder.add_code(_dedent(rows), line, literal.strip(":"))
            continue
        literal = ""
        rest = _take_title(builder, levels, line, rows)
        while rest != (line, rows):
            line, rows = rest
            rest = _take_title(builder, levels, line, rows)
        if not rows:
            continue
        if rows[0].startswith(".. "):
            literal = _read_directive(builder, line, rows)
            continue
        words = " ".join(row.strip() for row in rows)
        if words.endswith("::"):
            literal = ":"
        builder.add_paragraph(_read_inline(builder, line, rows), line)
    return builder.build()


def _take_title(builder: Builder, levels: list[str], line: int, rows: list[str]) -> tuple[int, list[str]]:
    over = len(rows) >= 3 and bool(ADORNMENT.fullmatch(rows[0])) and rows[0].rstrip() == rows[2].rstrip()
    first = 1 if over else 0
    if len(rows) < first + 2 or not ADORNMENT.fullmatch(rows[first + 1]):
        return line, rows
    style = rows[first + 1][0] * (2 if over else 1)
    if style not in levels:
        levels.append(style)
    builder.begin(levels.index(style) + 1, _plain(rows[first].strip()), line + first)
    return line + first + 2, rows[first + 2 :]


def _read_directive(builder: Builder, line: int, rows: list[str]) -> str:
    match = CODE.match(rows[0])
    if not match:
        return ""
    body = [row for row in rows[1:] if not row.strip().startswith(":")]
    if body:
        builder.add_code(_dedent(body), line + len(rows) - len(body), match[1])
    return f":{match[1] or ':'}"


def _read_inline(builder: Builder, line: int, rows: list[str]) -> str:
    for number, row in enumerate(rows, start=line):
        builder.references += [Reference(target=m[2], line=number, link=True) for m in LINK.finditer(row)]
        builder.references += [Reference(target=m[1], line=number, link=False) for m in LITERAL.finditer(row)]
    return _plain(" ".join(row.strip() for row in rows))


def _plain(text: str) -> str:
    text = LINK.sub(r"\1", text)
    text = ROLE.sub(r"\1", text)
    text = LITERAL.sub("\0\\1\0", text)
    text = MARKS.sub("", text).replace("`", "").replace("\0", "`")
    text = text.strip()
    if not text.endswith("::"):
        return text
    return text[:-1] if text[:-2].strip() else ""


def _dedent(rows: list[str]) -> str:
    margin = min(len(row) - len(row.lstrip()) for row in rows)
    return "\n".join(row[margin:] for row in rows)
