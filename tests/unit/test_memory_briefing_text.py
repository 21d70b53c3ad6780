"""A briefing's text: harmless whatever was remembered, cut between words, fair to every section."""

import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from services.memory.briefing.page import (
    CHARACTERS,
    NEAR,
    OWN,
    REST,
    SHARED,
    Item,
    Limits,
    Page,
    RenderedText,
    Section,
    Unit,
    escape,
    render_compact,
    render_markdown,
)
from services.memory.briefing.sections import ORDER
from shared.contracts import Node
from shared.text.display import flatten, shorten

MARKDOWN = MarkdownIt("commonmark").enable("table").enable("strikethrough")
HOSTILE = (
    "# Heading\n## Goals\r\n- item",
    "```\ncode",
    "| a | b |\n|---|---|",
    "<script>alert(1)</script><!-- ",
    "[click](javascript:alert(1)) ![x](http://e.x/a.png) <http://e.x>",
    "**bold** _it_ ~~gone~~ `tick` \\",
    "--- \n***\n===",
    "1. one\n2) two",
    "> quoted",
    "&lt;b&gt; &#35;",
    "\u202egnissim\u202c \u200b\u200e \x00\x1b[31m",
    "\U000e0041\U000e0042 hidden tags",
    "+ plus",
    "[ref]: http://e.x 'title'",
    "    indented",
    "\u2028line\u2029paragraph\x85next\x0bvt",
    "\u200d\ufe0f",
    " \t ",
)


def node(number: int, title: str, body: str = "", **fields: Any) -> Node:
    named = title if title.strip() else f"{title}x"
    return Node(id=f"n{number:04}", title=named[:256], body=body, **fields)


def item(
    number: int, title: str = "A title of usual length", body: str = "A body. " * 30, note: str = ""
) -> Item:
    return Item(node=node(number, title, body), score=1 / (number + 1), note=note)


def within(characters: int) -> Limits:
    return Limits(characters=characters)


def page(*counts: int, least: int = 1, **texts: Any) -> Page:
    sections = []
    for place, (title, count) in enumerate(zip(ORDER, counts, strict=False)):
        items = [item(100 * place + number, **texts) for number in range(count)]
        units = [
            Unit(items=tuple(items[start : start + least]), least=least) for start in range(0, count, least)
        ]
        sections.append(Section(title=title, units=tuple(units)))
    return Page(
        agent="scout",
        version=7,
        moment=0.0,
        consulted=99,
        sections=tuple(section for section in sections if section.units),
    )


def headings(text: str) -> list[str]:
    tokens = MARKDOWN.parse(text)
    return [tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "heading_open"]


def shown(result: RenderedText) -> list[str]:
    return [item.node.id for section in result.sections for item in section.items]


def structure(text: str) -> list[str]:
    """The blocks of a page, all of which must be its own, and the inline marks but emphasis."""
    tokens = MARKDOWN.parse(text)
    inline = [child.type for token in tokens for child in token.children or ()]
    allowed = {"text", "strong_open", "strong_close", "em_open", "em_close", "text_special"}
    return [token.type for token in tokens if token.type != "inline"] + [
        kind for kind in inline if kind not in allowed
    ]


def expected(result: RenderedText, *, compact: bool = False) -> list[str]:
    heading, paragraph = ["heading_open", "heading_close"], ["paragraph_open", "paragraph_close"]
    blocks = heading + ([] if compact else paragraph)
    for section in result.sections:
        items = ["list_item_open", *paragraph, "list_item_close"] * len(section.items)
        blocks += heading + (paragraph if compact else ["bullet_list_open", *items, "bullet_list_close"])
        blocks += paragraph if section.omitted else []
    return blocks + (paragraph if any(section.omitted for section in result.sections) else [])


def test_a_page_says_for_whom_when_and_from_what_it_is() -> None:
    text = render_markdown(page(1, 1, body="Done.")).text
    assert text.startswith(
        "# Briefing for scout\n\nGraph version 7, made 1970-01-01T00:00:00+00:00, 99 nodes consulted.\n"
    )
    assert headings(text) == ["Briefing for scout", "Identity", "Active Context"]
    assert "\n- **A title of usual length** (fact): Done.\n" in text


def test_what_was_remembered_cannot_break_the_page() -> None:
    items = [item(number, title, title * 3) for number, title in enumerate(HOSTILE)]
    for chosen in (items[:9], items[9:]):
        section = Section(title="Goals", units=tuple(Unit(items=(one,)) for one in chosen))
        made = Page(agent="a-_b_", version=1, moment=0.0, sections=(section,))
        for compact, result in enumerate((render_markdown(made), render_compact(made))):
            assert structure(result.text) == expected(result, compact=bool(compact))
            assert headings(result.text)[1:] == ["Goals"]
            assert not re.search(
                "[\u202a-\u202e\u200b\u200e\x00\x1b\U000e0000-\U000e007f\u2028]", result.text
            )


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=60), st.text(max_size=80)), min_size=1, max_size=8))
def test_no_text_at_all_can_break_the_page(texts: list[tuple[str, str]]) -> None:
    items = [item(number, title, body) for number, (title, body) in enumerate(texts)]
    section = Section(title="Goals", units=tuple(Unit(items=(one,)) for one in items))
    made = Page(agent="scout", version=1, moment=0.0, sections=(section,))
    for compact, result in enumerate((render_markdown(made), render_compact(made))):
        assert structure(result.text) == expected(result, compact=bool(compact))
        assert result.text.encode()


@given(st.text(alphabet=st.sampled_from("ab _*`[]<>&|~\\#-.!()"), max_size=40))
def test_an_escaped_line_reads_as_it_was(text: str) -> None:
    line = flatten(text, 100)
    (token,) = [token for token in MARKDOWN.parse(f"x{escape(line)}x") if token.type == "inline"]
    assert "".join(child.content for child in token.children or ()) == f"x{line}x"
    assert all(child.type in ("text", "text_special") for child in token.children or ())


def test_ordinary_text_stays_as_it_is() -> None:
    plain = "R&D uses snake_case_names, a < b, #42, C# and 3 > 2 (50 %)!"
    assert escape(flatten(plain, 100)) == plain


def test_text_is_cut_after_a_word_with_an_ellipsis() -> None:
    assert flatten("one two three four", 12) == "one two…"
    assert flatten("one\n\ttwo", 12) == "one two"
    assert flatten("x" * 20, 10) == "x" * 9 + "…"
    assert flatten("short" + " " * 500 + "end", 20) == "short …"
    assert flatten("short" + " " * 500, 20) == "short"
    assert flatten(" \u200b\n", 20) == ""


def test_a_character_of_several_parts_is_not_cut() -> None:
    family, accent, flag, hand = "👩\u200d👩\u200d👧", "e\u0301", "🇩🇪", "👍🏽"
    for whole in (family, accent, flag, hand):
        for limit_ in range(2, 40):
            cut = shorten(whole * 40, limit_).removesuffix("…")
            assert cut == whole * (len(cut) // len(whole)), (whole, limit_)


@given(st.text(max_size=300), st.integers(2, 60))
def test_nothing_is_longer_than_allowed_nor_begins_within_a_character(text: str, length: int) -> None:
    line = flatten(text, length)
    assert len(line) <= length
    assert line == line.strip()
    assert not any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in line)


def test_a_text_never_exceeds_its_limit_and_tells_what_it_leaves_out() -> None:
    full = page(10, 10, 10, 10, 10, 10, 10, title="*" * 256, body="&lt;" * 500)
    for result in (
        render_markdown(full),
        render_compact(full, within(1_000)),
        render_markdown(full, within(3_000)),
    ):
        assert len(result.text) <= CHARACTERS
        told = [int(number) for number in re.findall(r"_And (\d+) more\._", result.text)]
        assert told == [section.omitted for section in result.sections if section.omitted]
        assert len(shown(result)) + sum(told) == 70
        assert structure(result.text) == expected(result, compact=", version" in result.text)
    assert len(render_markdown(full, within(3_000)).text) <= 3_000


def test_bodies_get_shorter_before_items_are_left_out() -> None:
    few, many = render_markdown(page(3)), render_markdown(page(10, 10, 10, 10, body="word " * 200))
    assert "A body. " * 29 + "A body." in few.text
    assert len(shown(many)) == 40
    assert all(len(line) < 200 for line in many.text.splitlines())


def test_a_long_section_starves_none() -> None:
    long = Section(title="Identity", units=tuple(Unit(items=(item(n, "x" * 256),)) for n in range(10)))
    others = [
        Section(title=title, units=(Unit(items=(item(100 + place, "y" * 256),)),))
        for place, title in enumerate([*ORDER][1:])
    ]
    made = Page(agent="scout", version=1, moment=0.0, sections=(long, *others))
    result = render_markdown(made, within(3_000))
    assert headings(result.text)[1:] == [*ORDER]
    assert len(result.text) <= 3_000
    assert len(result.sections[0].items) > 1


def test_a_section_shows_its_best_first_and_nothing_twice() -> None:
    result = render_markdown(page(10, 10, 10, 10, 10, title="z" * 256, body="b" * 900), within(5_000))
    for section in result.sections:
        numbers = [int(one.node.id[1:]) for one in section.items]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[0] % 100 == 0
    assert len(shown(result)) == len(set(shown(result)))


def test_what_belongs_together_stays_together() -> None:
    for characters in range(600, 4_000, 170):
        result = render_markdown(page(10, 10, least=2, title="t" * 200), within(characters))
        assert all(len(unit.items) == 2 for section in result.sections for unit in section.units)
        assert len(result.text) <= characters


def test_compact_shows_many_times_as_much_in_the_same_room() -> None:
    title, body = "A decision of about forty characters", "Why it was so. " * 20
    few, full = page(5, 5, 5, 5, title=title, body=body), page(10, 10, 10, 10, 10, title=title, body=body)
    assert len(render_compact(few).text) * 4 < len(render_markdown(few).text)
    many = page(*[60] * 5, title=title)
    compact, whole = (len(shown(render(many, within(2_000)))) for render in (render_compact, render_markdown))
    assert compact >= 3.5 * whole
    assert "Why it was so" not in render_compact(full).text


@pytest.mark.parametrize(
    ("title", "gist"),
    [
        ("Payments go through Adyen, because Stripe had no iDEAL contract for us.", "Payments Adyen"),
        ("Never deploy after 15:00 on a Friday.", "Never Friday"),
        ("Team › The landlord is the Widmer foundation, represented by Ms. Roth.", "Widmer Ms Roth"),
        ("Run the tests of ~/src/billing (2026-11-18)", "Run billing"),
        ("Invoices are printed by a job that starts at 02:15 every night.", "Invoices 02:15"),
        ("Ana", "Ana"),
        ("Donaudampfschifffahrtsgesellschaft", "Donaudampfsch…"),
        ("of the and", "Of the and"),
    ],
)
def test_a_gist_is_of_the_words_that_tell_most(title: str, gist: str) -> None:
    section = Section(title="Goals", units=(Unit(items=(item(1, title),)),))
    made = Page(agent="scout", version=1, moment=0.0, sections=(section,))
    assert render_compact(made).text.splitlines()[-1] == gist


def test_limits_of_sections_and_of_all_hold() -> None:
    made = page(30, 30, 2, 0, 1, body="")
    few = render_markdown(made, Limits(section=10))
    assert [len(section.items) for section in few.sections] == [10, 10, 2, 1]
    assert [section.omitted for section in few.sections] == [20, 20, 0, 0]
    assert len(shown(render_markdown(made, Limits(total=20)))) == 20


def test_room_goes_to_what_binds_then_to_what_all_share_then_to_the_rest() -> None:
    tiers = {"Active Context": (OWN,) * 6 + (REST,) * 9, "Goals": (SHARED,) * 9, "Recent Events": (NEAR,) * 9}
    sections = []
    for place, (title, given_) in enumerate(tiers.items()):
        items = [
            Item(node=node(100 * place + n, "x" * 90, "why " * 99), score=place + 1 / (n + 1), tier=tier)
            for n, tier in enumerate(given_)
        ]
        sections.append(Section(title=title, units=tuple(Unit(items=(one,)) for one in items)))
    made = Page(agent="scout", version=1, moment=0.0, sections=tuple(sections))
    counts = {}
    for characters in (3_000, 6_000):
        result = render_markdown(made, within(characters))
        counts[characters] = [len(section.items) for section in result.sections]
        assert len(result.text) <= characters
    assert counts[3_000][0] == 6
    assert counts[6_000][:2] == [6, 9]


def test_what_shares_a_heading_shares_a_line() -> None:
    titles = ("Ana owns billing.", "Bence is on call in…", "**Greta** draws")
    items = [
        item(number, f"Team › {title}", f"- {title.replace('…', ' March')}")
        for number, title in enumerate(titles, 1)
    ]
    section = Section(title="Goals", units=(Unit(items=tuple(items), head="Team"),))
    made = Page(agent="scout", version=1, moment=0.0, sections=(section,))
    text, short = render_markdown(made).text, render_compact(made).text
    assert "- **Team**: Ana owns billing; Bence is on call in March; \\*\\*Greta\\*\\* draws" in text
    assert short.endswith("## Goals\nAna billing; Bence call; Greta draws\n")
    assert structure(text)[-4:] == [
        "paragraph_open",
        "paragraph_close",
        "list_item_close",
        "bullet_list_close",
    ]


def test_a_body_does_not_repeat_its_title() -> None:
    items = [
        item(1, "We deploy on Fridays", "We deploy on Fridays. Ada agreed."),
        item(2, "We deploy on Fridays", "We deploy on Fridays."),
        item(3, "Use ruff", "Use ruff-lsp in editors"),
        item(4, "Prices have no commas", "- Prices have no commas"),
        item(5, "Rules › Prices have no commas", "- Prices have no commas"),
        item(6, "Rules › Ask Ada before you…", "- Ask Ada before you deploy on a Friday."),
        item(7, "Run the tests (2026-03-04)", "Two fail.\nRun the tests\nShe wrote why."),
        item(8, "Die Preise haben kein Komma", "Die Preise haben kein Komma.\n\nSo will es Ada."),
    ]
    section = Section(title="Goals", units=tuple(Unit(items=(one,)) for one in items))
    text = render_markdown(Page(agent="scout", version=1, moment=0.0, sections=(section,))).text
    assert "- **We deploy on Fridays** (fact): Ada agreed.\n- **We deploy on Fridays** (fact)\n" in text
    assert "- **Use ruff** (fact): Use ruff-lsp in editors\n- **Prices have no commas** (fact)\n" in text
    assert "- **Rules › Prices have no commas** (fact)\n" in text
    assert "- **Rules › Ask Ada before you…** (fact): …deploy on a Friday.\n" in text
    assert "- **Run the tests (2026-03-04)** (fact): Two fail. She wrote why.\n" in text
    assert "- **Die Preise haben kein Komma** (fact): So will es Ada.\n" in text
