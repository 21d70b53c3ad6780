"""Files made up for measuring how memory takes them in, the same each time."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta

_THINGS = (
    "printer server invoice garden meeting kitchen budget library report bicycle contract engine database"
    " ticket recipe battery folder letter camera bridge museum teacher driver vendor team project release"
    " schedule router password backup mirror lamp stove valley forest festival novel painting hammer roof"
    " cellar corridor desk keyboard"
).split()
_SUCH = "old new broken green quiet heavy cheap reliable slow northern narrow dusty local spare".split()
_DONE = "moved repaired ordered cancelled tested measured painted postponed archived sold".split()
_PEOPLE = "Anna Bob Carla Dmitri Elena Farid Greta Hugo Ines Jonas Katya Liam Mona Nadia Omar Paula".split()
_PLACES = "Rome Berlin Oslo Lisbon Vienna Zurich Prague Dublin Madrid Athens Ghent Turin Basel Graz".split()
_SENTENCES = (
    "{who} {done} the {such} {thing} near the {thing2} in {place} for {number} euros.",
    "The {such} {thing} of {who} stands beside the {thing2} on floor {number}.",
    "We decided that {thing} {number} goes to {place} because the {thing2} was too {such}.",
    "Nobody in {place} knows why the {thing} number {number} has a {such} {thing2}.",
    "Ask {who} whether the {such} {thing} may be {done} after {number} days in {place}.",
    "The {thing} costs {number} euros a year, and the {such} {thing2} of {place} is included.",
)


def make_sentence(draw: random.Random) -> str:
    """A sentence of some fifteen words."""
    return draw.choice(_SENTENCES).format(
        who=draw.choice(_PEOPLE),
        done=draw.choice(_DONE),
        such=draw.choice(_SUCH),
        thing=draw.choice(_THINGS),
        thing2=draw.choice(_THINGS),
        place=draw.choice(_PLACES),
        number=draw.randrange(2, 90_000),
    )


def _repeat(size: int, make: Callable[[], str], joint: str) -> str:
    """What ``make`` gives, over and over, up to ``size`` characters."""
    parts, length = list[str](), 0
    while length < size:
        parts.append(make())
        length += len(parts[-1]) + len(joint)
    return joint.join(parts)


def make_line(size: int, seed: int = 1) -> str:
    """Sentences in a single line."""
    draw = random.Random(seed)
    return _repeat(size, lambda: make_sentence(draw), " ")


def make_markdown(size: int, seed: int = 1) -> str:
    """A handbook: headings, paragraphs, lists, tables and code."""
    draw = random.Random(seed)

    def make() -> str:
        form = draw.randrange(12)
        if form == 0:
            return f"## {draw.choice(_SUCH).title()} {draw.choice(_THINGS)} {draw.randrange(10_000)}"
        if form == 1:
            rows = (f"| {draw.choice(_PEOPLE)} | {draw.randrange(9_999)} |" for _ in range(8))
            return "\n".join(["| name | price |", "|---|---|", *rows])
        if form == 2:
            code = (f"{draw.choice(_THINGS)} = {draw.randrange(999)}" for _ in range(6))
            return "\n".join(["```", *code, "```"])
        if form < 6:
            return "\n".join(f"- {make_sentence(draw)}" for _ in range(5))
        return " ".join(make_sentence(draw) for _ in range(draw.randint(1, 4)))

    return "# Handbook\n\n" + _repeat(size, make, "\n\n") + "\n"


def make_calendar(events: int, seed: int = 1) -> str:
    """Events with folded lines, each fifth one with a rule by which it repeats."""
    draw = random.Random(seed)
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//bench//EN"]
    for number in range(events):
        start = datetime(2020, 1, 1, 9) + timedelta(hours=5 * number)
        told = "".join(f"{make_sentence(draw)} ".replace(",", "\\,") for _ in range(draw.randint(1, 3)))
        lines += ["BEGIN:VEVENT", f"UID:{number}@bench", f"DTSTART:{start:%Y%m%dT%H%M%S}Z"]
        lines.append(f"SUMMARY:{draw.choice(_THINGS).title()} with {draw.choice(_PEOPLE)} {number}")
        text = f"DESCRIPTION:{told}"
        lines.append("\r\n ".join(text[place : place + 70] for place in range(0, len(text), 70)))
        lines += ["RRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=20"] * (number % 5 == 0)
        lines.append("END:VEVENT")
    return "\r\n".join([*lines, "END:VCALENDAR", ""])


def make_mail(size: int, name: str = "Received", seed: int = 1) -> bytes:
    """A mail whose header ``name`` has ``size`` bytes: many of "Received", else a long one."""
    draw = random.Random(seed)
    known = {"From": "Anna <anna@example.org>", "To": "bob@example.org", "Subject": "The new printer"}
    headers = {**known, "Date": "Mon, 4 May 2026 10:00:00 +0000", "Message-ID": "<1@example.org>"}
    count = iter(range(size))
    makers: dict[str, Callable[[], str]] = {
        "Received": lambda: f"from a{next(count)}.example.org by b.org; Mon, 4 May 2026 10:00:00 +0000",
        "To": lambda: f'"{draw.choice(_PEOPLE)} {next(count)}" <u{next(count)}@example.org>,',
        "Subject": lambda: f"=?utf-8?q?Caf=C3=A9_{next(count)}?=",
        "Content-Type": lambda: f"x{next(count)}=y;",
    }
    begin = "text/plain; " if name == "Content-Type" else ""
    joint = "\r\nReceived: " if name == "Received" else "\r\n "
    headers[name] = begin + _repeat(size, makers[name], joint)
    told = "\r\n\r\n".join(make_sentence(draw) for _ in range(5))
    return "".join(
        [*(f"{key}: {value}\r\n" for key, value in headers.items()), "\r\n", told, "\r\n"]
    ).encode()


def make_pdf(pages: int, seed: int = 1) -> bytes:
    """A document with some 400 characters a page."""
    draw = random.Random(seed)
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids = []
    for _ in range(pages):
        shown = "".join(f"({make_sentence(draw)}) Tj 0 -28 Td " for _ in range(5))
        stream = f"BT /F1 12 Tf 40 780 Td {shown}ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        kids.append(len(objects) + 1)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {len(objects)} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>"
        )
    objects[1] = f"<< /Type /Pages /Count {pages} /Kids [{' '.join(f'{kid} 0 R' for kid in kids)}] >>"
    data, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return bytes(data) + f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode()
