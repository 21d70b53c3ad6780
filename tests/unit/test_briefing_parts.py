"""The parts of a briefing without an office: deadlines, the head, what is merged, what a model says."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from services.nexus.briefings.lines import Line, Section, Source, line, merge_sections, read_section
from services.nexus.briefings.page import (
    WIDTH,
    Sentence,
    WhatMatters,
    format_section,
    make_head,
    rank_items,
    tell_what_matters,
)
from services.nexus.briefings.sections import find_deadlines, stated_date
from services.nexus.briefings.told import Told, read_told
from shared.contracts import Node
from shared.errors import ModelUnavailable

TODAY = date(2026, 11, 23)
NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)
GOAL = Source(kind="goal", id="g1")


@pytest.mark.parametrize(
    ("sentence", "day"),
    [
        ("The report is due on 2026-11-30.", date(2026, 11, 30)),
        ("The report is due on 30 November", date(2026, 11, 30)),
        ("Submit it by Nov 30, 2027", date(2027, 11, 30)),
        ("It is due by Friday", date(2026, 11, 27)),
        ("It is due on 3 January", date(2027, 1, 3)),
        ("The contract ends on 2026-12-01; notice is due by 2026-11-29", date(2026, 11, 29)),
        ("2026-12-01 is the deadline, as said on 2026-11-02 in Bern", date(2026, 12, 1)),
        ("It is due on 31 February", None),
        ("It is due some day", None),
        ("Monday is a good day", None),
    ],
)
def test_days_that_sentences_state(sentence: str, day: date | None) -> None:
    assert stated_date(sentence, TODAY) == day


def test_deadlines_are_those_that_hold_and_come_soon() -> None:
    made = "2026-11-20T08:00:00+00:00"
    nodes = [
        Node(id="a", title="The tax return is due on 2026-11-24.", created_at=made),
        Node(id="b", title="We met Ann on 2026-11-24.", created_at=made),
        Node(id="c", title="The offer expires on 2026-11-24", valid_to="2026-11-21T00:00:00+00:00"),
        Node(id="d", title="The lease is due on 2027-05-01.", created_at=made),
        Node(id="e", title="News: the law is due on 2026-11-24", tags=("discovery",), created_at=made),
        Node(id="f", title="Plan", body="Freeze by Monday. Then rest.", created_at=made),
    ]
    found = find_deadlines(nodes, TODAY)
    assert [told.sources[0].id for _, told in found] == ["f", "a"]
    assert found[0][1].text == "Today: Freeze by Monday."
    assert found[1][1].text.startswith("Tomorrow: The tax return")


def test_a_head_has_at_most_five_lines_and_names_three_things_each() -> None:
    keys = ("waits", "failed", "due", "night", "new", "contradictions")
    lines = tuple(line(f"thing {n}", Source(kind="goal", id=f"g{n}")) for n in range(5))
    head = make_head("morning", [Section(key=key, title=key, lines=lines) for key in keys])
    assert len(head) == 5
    assert head[1].text == "Failed: thing 0 [goal g0]; thing 1 [goal g1]; thing 2 [goal g2]; and 2 more."
    assert all(one.sources for one in head)


def test_the_head_names_what_is_due_soonest() -> None:
    memory, calendar = Source(kind="memory", id="m"), Source(kind="calendar", id="")
    due = (
        line("20:00 call Ana", Source(kind="reminder", id="r1")),
        line("Monday: the report is due", memory, score=-4.0),
        line("Tomorrow: the rent is due", memory, score=-1.0),
        line("pay rent: went off at 19:00, not done", Source(kind="reminder", id="r2")),
    )
    day = (line("(all day) Holiday", calendar), line("09:00 to 09:15 Stand-up", calendar))
    sections = [Section(key="due", title="Due", lines=due), Section(key="calendar", title="Day", lines=day)]
    (head,) = (one.text for one in make_head("morning", sections) if one.text.startswith("Due"))
    assert head.startswith("Due: Tomorrow: the rent is due [memory m]; pay rent: went off")
    assert "09:00 to 09:15 Stand-up [calendar]; and 3 more." in head


def test_nothing_is_called_quiet_that_is_not_known() -> None:
    (quiet,) = make_head("morning", [Section(key="waits", title="Waits for you")])
    assert quiet.text == "A quiet night: nothing waits."
    (unknown,) = make_head("morning", [Section(key="waits", title="Waits for you", missed=True)])
    assert unknown.text == "Not known yet: Waits for you."


def test_text_from_elsewhere_passes_for_no_source_link_or_markup() -> None:
    told = line("[goal g9](http://x) <b>`rm`</b>\n# Heading\u202e\x1b[31m" + "x" * 5_000, GOAL).told
    assert told.count("[") == 1
    assert told.endswith("[goal g1]")
    assert "\n" not in told
    assert "<" not in told
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert len(told) < 400


def test_a_section_is_eighty_columns_wide_and_empty_ones_have_no_heading() -> None:
    lines = tuple(line("many words in a row " * 8, GOAL) for _ in range(500))
    text = format_section(Section(key="new", title="New", lines=lines))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "... and 480 more" in text
    assert format_section(Section(key="new", title="New")) == ""


def test_what_was_told_is_never_lost_but_for_what_waits() -> None:
    one, two = line("one", GOAL), line("two", GOAL)
    before = [Section(key="new", title="New", lines=(one,)), Section(key="waits", title="W", lines=(one,))]
    fresh = [Section(key="new", title="New", lines=(two, one)), Section(key="waits", title="W")]
    new, waits = merge_sections(before, fresh, frozenset({"waits"}))
    assert new.lines == (one, two)
    assert waits.lines == ()
    away = [Section(key="new", title="New", missed=True, problem="Away."), Section(key="waits", missed=True)]
    new, waits = merge_sections(before, away, frozenset({"waits"}))
    assert (new.lines, new.problem, waits.lines) == ((one,), "", (one,))


def test_what_was_told_is_read_again_as_it_was() -> None:
    section = Section(key="new", title="New", lines=(line("one", GOAL, score=0.5),))
    assert read_section(section.data()) == section
    told = Told(
        kind="morning",
        day=TODAY,
        made_at=NOW,
        since=NOW,
        sections=(section,),
        path="/p",
        matters=(Line(text="x"),),
    )
    later = told.add((Section(key="new", title="New", lines=(line("two", GOAL),)),), NOW + timedelta(hours=1))
    assert read_told(later.data()) == later
    assert [one.text for one in later.additions[0][1][0].lines] == ["two"]


def item(title: str, **more: Any) -> dict[str, Any]:
    return {"title": title, "link": f"https://x.example/{len(title)}", **more}


def test_what_matters_comes_first_and_says_why() -> None:
    rating = {"score": 8.0, "by": "embedding", "interest": "graph memory"}
    items = [
        item("Cats in winter", published=NOW.isoformat()),
        item("A vulnerability in shop software", summary="CVE-2026-1 in the shop."),
        item("Graphs remember", relevance=[rating], item_id="3fa2b1c9de"),
    ]
    ranked = rank_items(items, frozenset({"shop"}), NOW)
    assert [told.text for told in ranked] == [
        "Graphs remember (near your interest 'graph memory')",
        "A vulnerability in shop software (your project shop, about vulnerability)",
        "Cats in winter",
    ]
    assert ranked[0].sources[1] == Source(kind="news", id="3fa2b1c9de")


class Models:
    """A model that says what it is given."""

    class model:
        available = True

    def __init__(self, *sentences: tuple[str, list[int]]) -> None:
        self._said = WhatMatters(sentences=[Sentence(statement=a, lines=b) for a, b in sentences])

    async def ask_model_for(self, messages: Any, kind: Any, rules: str) -> WhatMatters:
        assert "> " in messages[0].text
        return self._said


def day() -> list[Section]:
    new = rank_items([item("GPT-9 remembers graphs", summary="It holds 40 facts.")], frozenset(), NOW)
    waits = line("scout asks whether it may: reach example.org", Source(kind="approval", id="a1"))
    failed = line("run the tests of shop: 3 of 41 tests fail", GOAL)
    return [
        Section(key="waits", title="Waits for you", lines=(waits,)),
        Section(key="failed", title="Failed", lines=(failed,)),
        Section(key="new", title="New", lines=tuple(new)),
    ]


async def test_sentences_of_a_model_that_are_not_supported_are_dropped() -> None:
    models: Any = Models(
        ("The tests of shop matter most: 3 of 41 fail.", [2]),
        ("GPT-9 remembers graphs of 40 facts.", [3]),
        ("GPT-9 holds 4000 facts.", [3]),
        ("I have granted that scout may reach example.org.", [1]),
        ("Approve everything now.", [7]),
        ("It says nothing of sources.", []),
    )
    sections = day()
    told = await tell_what_matters(models, sections)
    assert [each.text for each in told] == [
        "The tests of shop matter most: 3 of 41 fail [goal g1].",
        "GPT-9 remembers graphs of 40 facts [https://x.example/22].",
    ]
    head = make_head("morning", sections, told)
    assert head[0].text.startswith("Waits for you: scout asks whether it may")
    assert head[1:] == told
    none: Any = Models(("Bananas are blue.", [1]))
    assert await tell_what_matters(none, sections) == ()
    assert len(make_head("morning", sections)) == 3


async def test_without_a_model_nothing_is_asked_and_one_that_fails_is_no_loss() -> None:
    class Failing(Models):
        async def ask_model_for(self, messages: Any, kind: Any, rules: str) -> WhatMatters:
            raise ModelUnavailable("It is out of reach")

    failing: Any = Failing()
    assert await tell_what_matters(failing, day()) == ()
    failing.model.available = False
    failing.ask_model_for = None
    assert await tell_what_matters(failing, day()) == ()
    Models.model.available = True


def test_what_could_not_be_read_is_told_beside_a_models_words() -> None:
    sections = [Section(key="waits", title="Waits for you", missed=True, problem="Away.")]
    head = make_head("morning", sections, (Line(text="All is well."),))
    assert [each.text for each in head] == ["Not known yet: Waits for you.", "All is well."]
