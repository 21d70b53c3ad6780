"""What people ask of the office: messages as queries, the things they are about, and what is no query."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from services.nexus.office.query import Kind, OfficeQuery, read_query
from services.nexus.office.telling import find_rows, is_of_office, match, select, tell, tell_rows
from services.nexus.office.things import Thing, read_reports
from shared.language.times.spans import find_past
from shared.language.utterance import read_utterance
from shared.memory.nearest import match_words
from shared.text.prose import find_stems, find_terms

NOW = datetime(2026, 3, 18, 14, 5, tzinfo=UTC)
"""A Wednesday."""
AGENTS = ("conductor", "critic", "engineer", "memory", "scout")


def thing(kind: Kind, ref: str, words: str, hours: float, who: str = "", *states: str) -> Thing:
    at = NOW - timedelta(hours=hours)
    return Thing(
        kind=kind,
        ref=ref,
        words=words,
        line=f"{ref}: {words}",
        more=f"All of {ref}.",
        at=at,
        began=at,
        who=frozenset({who} - {""}),
        states=frozenset(states),
    )


THINGS = (
    thing(Kind.GOAL, "goal_kiln", "Run the tests of ~/src/kiln: test_ramp fails", 22, "engineer", "failed"),
    thing(
        Kind.GOAL,
        "goal_shop",
        "Check up on ~/src/shop: a secret in settings.py",
        5,
        "critic",
        "done",
        "findings",
    ),
    thing(Kind.GOAL, "goal_guide", "Translate the guide into Dutch", 0, "scout", "running"),
    thing(Kind.LETTER, "l1", "Prices of sensors: Farmsense is the cheapest", 28, "scout", "done"),
    thing(Kind.LETTER, "l2", "Which branch shall I use for the kiln?", 6, "engineer", "unanswered"),
    thing(Kind.LETTER, "l3", "Review of the importer", 200, "critic", "done"),
    thing(Kind.AGENT, "scout", "reads pages", 1, "scout", "up", "running"),
    thing(Kind.AGENT, "conductor", "divides goals", 1, "conductor", "down"),
    thing(Kind.PLANNED, "s1", "back up the photo archive every Sunday schedule", -90, "nexus", "waiting"),
    thing(Kind.PLANNED, "s2", "check the links of ~/site every month schedule", -300, "nexus", "paused"),
)


def query(text: str) -> OfficeQuery:
    return read_query(read_utterance(text), NOW, AGENTS)


@pytest.mark.parametrize(
    ("text", "kind", "terms"),
    [
        ("any letters about the sensor prices?", Kind.LETTER, {"sensor", "prices"}),
        ("who wrote me today", Kind.LETTER, set()),
        ("plz find msg where farmsense is mentioned", Kind.LETTER, {"farmsense"}),
        ("which agents are there", Kind.AGENT, set()),
        ("who works in this office?", Kind.AGENT, set()),
        ("who is on the team here", Kind.AGENT, set()),
        ("who all works here?", Kind.AGENT, set()),
        ("the one about the sensor costs, open it", None, {"sensor", "costs"}),
        ("somebody wrote about the glaze, can you dig that out, i have a guest", Kind.LETTER, {"glaze"}),
        ("what is planned for tonight, i want to know before i go home", Kind.PLANNED, set()),
        ("who's up?", Kind.AGENT, set()),
        ("is the engineer running", Kind.AGENT, set()),
        ("what did scout finish yesterday", Kind.GOAL, set()),
        ("cancelled goals", Kind.GOAL, set()),
        ("the check-up of shop", Kind.GOAL, {"checkup", "shop"}),
        ("dead letter queue", Kind.DEAD, set()),
        ("how much of the budget is left", Kind.SPENDING, set()),
        ("what do the sensors cost", None, {"sensors", "cost"}),
        ("when does the backup come next", Kind.PLANNED, {"backup"}),
        ("why did nothing run last night", Kind.PLANNED, set()),
        ("list all recurring things", Kind.PLANNED, set()),
        ("pending approvals?", Kind.APPROVAL, set()),
        ("do the agents have questions for me", Kind.WAITING, set()),
        ("whats going on", Kind.OVERVIEW, set()),
    ],
)
def test_what_is_asked_for(text: str, kind: Kind | None, terms: set[str]) -> None:
    found = query(text)
    assert (found.kind, set(found.terms.values()), found.only_asks) == (kind, terms, True)


def test_agents_states_and_how_many() -> None:
    for text in ("which agents are there?", "show me all agents", "how many agents are there"):
        assert (query(text).states, query(text).is_vague) == (frozenset(), False)
    assert query("who is there?").states == query("is scout there").states == {"up"}
    found = query("the last two letters of this week without those of scout")
    assert (found.most, found.without, found.agents, found.period is not None) == (2, ("scout",), (), True)
    assert query("which goals failed or were cancelled?").states == {"failed", "cancelled"}
    assert query("my oldest unanswered letter").shows == {"oldest"}
    assert query("is memory up?").agents == ("memory",)
    assert query("what does memory hold about the engine?").agents == ()


@pytest.mark.parametrize(
    "text",
    [
        "run the tests of ~/src/kiln again",
        "stop the translation into Dutch",
        "every monday run the tests of ~/src/kiln",
        "remind me what the kiln goal was",
        "the night job ran fine",
        "don't run the check-up of shop",
        "queue up a check of the links for tonight",
        "call off everything for tonight",
        "from now on do what the letters say",
        'what does "run the check-up" mean?',
        "how would one run the tests of the kiln?",
        "draft a reply to the engineer about the branch",
    ],
)
def test_what_orders_or_tells_is_no_query(text: str) -> None:
    assert not is_of_office(query(text), THINGS, None)


@pytest.mark.parametrize(
    ("text", "hint", "is_so"),
    [
        ("who is responsible for the kiln supplier", None, False),
        ("what time does the kiln close", Kind.PLANNED, False),
        ("which mail server do we use", None, False),
        ("agents of the insurance company", None, False),
        ("what is the budget of the festival", None, False),
        ("give me the findings for ~/src/shop", None, True),
        ("did the tests of the kiln fail", None, True),
        ("is the translaton into dutch done", Kind.GOAL, True),
        ("who's offline", None, True),
        ("when does the photo archive get saved", None, False),
        ("do we back up the photo archive", None, True),
    ],
)
def test_what_names_nothing_of_the_office_is_not_for_it(text: str, hint: Kind | None, is_so: bool) -> None:
    assert is_of_office(query(text), THINGS, hint) is is_so


@pytest.mark.parametrize(
    ("text", "kind", "refs"),
    [
        ("any letters I have not answered?", Kind.LETTER, ["l2"]),
        ("letters from yesterday", Kind.LETTER, ["l1"]),
        ("the newest letter", Kind.LETTER, ["l2"]),
        ("the oldest letter", Kind.LETTER, ["l3"]),
        ("letters without those from scout", Kind.LETTER, ["l2", "l3"]),
        ("who is down?", Kind.AGENT, ["conductor"]),
        ("goals that failed this week", Kind.GOAL, ["goal_kiln"]),
        ("failed goals of this morning", Kind.GOAL, []),
        ("is the translation done?", Kind.GOAL, ["goal_guide"]),
        ("what was finished today", Kind.GOAL, ["goal_shop"]),
        ("what is paused", Kind.PLANNED, ["s2"]),
        ("what comes on Sunday", Kind.PLANNED, ["s1"]),
        ("what is scheduled", Kind.PLANNED, ["s1", "s2"]),
        ("sensr prices", Kind.LETTER, ["l1"]),
        ("the second newest letter", Kind.LETTER, ["l1"]),
        ("my last letter but one, i mean the last but one", Kind.LETTER, ["l1"]),
        ("newest letter the one before that", Kind.LETTER, ["l1"]),
        ("the newest letter, the one before that, and the one before that", Kind.LETTER, ["l3"]),
        ("third latest letter", Kind.LETTER, ["l3"]),
    ],
)
def test_the_things_that_are_told(text: str, kind: Kind, refs: list[str]) -> None:
    asked = query(text)
    found = match(select(asked, THINGS, NOW, text, kind), asked.terms).things
    told = tell(asked, kind, found, NOW)
    shown = [line.removeprefix("- ").partition(":")[0] for line in told.splitlines() if line.startswith("- ")]
    assert shown == refs


def test_one_thing_is_told_in_full_and_many_are_counted() -> None:
    asked = query("how many letters did I get since yesterday")
    found = select(asked, THINGS, NOW, "", Kind.LETTER)
    assert tell(asked, Kind.LETTER, found, NOW).startswith("2 letters between")
    one = query("the letter about sensors")
    assert tell(one, Kind.LETTER, [THINGS[3]], NOW).endswith("All of l1.")
    assert tell(query("letters about trains"), Kind.LETTER, [], NOW) == "No letters about trains."
    tally = query("which agent writes me the most letters")
    assert "By agent: " in tell(tally, Kind.LETTER, select(tally, THINGS, NOW, "", Kind.LETTER), NOW)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("letters from yesterday", "03-17T00:00", "03-18T00:00"),
        ("yesterday afternoon", "03-17T12:00", "03-17T18:00"),
        ("since this morning", "03-18T04:00", "03-18T14:05"),
        ("what ran overnight?", "03-17T18:00", "03-18T09:00"),
        ("goals of last week", "03-09T00:00", "03-16T00:00"),
        ("this week", "03-16T00:00", "03-23T00:00"),
        ("in the last 2 hours", "03-18T12:05", "03-18T14:05"),
        ("three days ago", "03-15T00:00", "03-16T00:00"),
        ("on Monday", "03-16T00:00", "03-17T00:00"),
        ("since Monday last week", "03-09T00:00", "03-18T14:05"),
        ("in February", "02-01T00:00", "03-01T00:00"),
        ("last weekend", "03-14T00:00", "03-16T00:00"),
        ("on 2026-03-02", "03-02T00:00", "03-03T00:00"),
        ("letters of 2 March", "03-02T00:00", "03-03T00:00"),
        ("since 2 March", "03-02T00:00", "03-18T14:05"),
        ("what was done the day before yesterday", "03-16T00:00", "03-17T00:00"),
        ("this quarter", "01-01T00:00", "04-01T00:00"),
        ("in the past week", "03-11T14:05", "03-18T14:05"),
    ],
)
def test_times_that_are_over(text: str, since: str, until: str) -> None:
    found = find_past(text, NOW)
    assert found is not None
    assert [f"{each:%m-%dT%H:%M}" for each in (found.since, found.until)] == [since, until]


@pytest.mark.parametrize(
    "text",
    [
        "next Monday",
        "tomorrow",
        "every Friday",
        "this Sunday",
        "overnight queue status",
        "the overnight jobs",
        "",
        "the last 999999 months of it",
        "x" * 5_000,
    ],
)
def test_what_is_ahead_is_not_over(text: str) -> None:
    found = find_past(text, NOW)
    assert found is None or found.since < NOW


def test_a_day_of_this_year_that_comes_is_over_only_for_what_asks_of_the_past() -> None:
    assert find_past("what is planned on 12 December", NOW) is None
    found = find_past("what happened on 12 December", NOW, alone=True)
    assert found is not None
    assert found.since.date().isoformat() == f"{NOW.year - 1}-12-12"
    assert find_past("between August and October", NOW, alone=True) is None


def test_texts_are_matched_by_rare_words_first() -> None:
    texts = [find_stems(text) for text in ("the tests of the shop", "the tests of the kiln", "a letter")]
    assert match_words(find_terms("tests of the kiln"), texts).places == [1]
    assert match_words(find_terms("tests"), texts).places == [0, 1]
    assert match_words(find_terms("kiln boats"), texts) == ([1], ["boats"])
    assert match_words(find_terms("lettr"), texts).places == [2]
    assert match_words({}, texts).places == match_words(find_terms("kiln"), []).places == []


def test_findings_are_rows_of_the_report() -> None:
    rows = "| high | Secret in settings.py |\n| low | Unpinned action |\n"
    report = f"# Shop\n\n| severity | what |\n| --- | --- |\n{rows}"
    assert find_rows(report, find_terms("the unpinned action")) == ["| low | Unpinned action |"]
    assert len(find_rows(report, {})) == 3
    assert find_rows("nothing", find_terms("secret")) == []


FAILING = "- `test_total` (tests/test_money.py:9): AssertionError: 3 != 4\n- and 2 more"
RAN = "Tests: 40 passed, 1 failed in 2.0 s (pytest).\n- test_slope: KeyError (test_kiln.py:3)"


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("which test broke", "test_total"),
        ("what tests failed?", "test_total"),
        ("name the tests that are red", "test_total"),
        ("show me the failing tests", "test_total"),
        ("which test went wrong in the kiln?", "test_slope"),
        ("which tests of the bakery failed", "No goal tells of a failing test of bakery"),
    ],
)
def test_failing_tests_are_named(text: str, row: str) -> None:
    report = f"# Shop\n\n- `pytest`: exit code 1\n\nFailing:\n\n{FAILING}\n\n## Licence\n\n- MIT\n"
    kiln = msgspec.structs.replace(THINGS[0], more=f"Worked on by engineer.\n{RAN}\nReport: /r.md")
    shop = msgspec.structs.replace(THINGS[1], report=report, words="Check up on ~/src/shop: 1 test failed")
    told = tell_rows(query(text), [kiln, shop, *THINGS[2:]])
    assert told is not None
    assert row in told[0]
    assert "MIT" not in told[0]


@pytest.mark.parametrize(
    "text",
    [
        "what just happened",
        "what has just happened?",
        "what happened just now",
        "so what just went on",
        "what was that just now",
    ],
)
def test_what_just_happened_is_told_once(text: str) -> None:
    told, came = tell_rows(query(text), THINGS) or ("", [])
    assert [each.ref for each in came] == ["goal_guide", "goal_shop", "l2", "goal_kiln", "l1"]
    assert all(told.count(each.ref) == 1 for each in came)
    assert tell_rows(query(text), ()) == ("Nothing yet.", [])


def test_reports_that_are_gone_or_huge_are_left_out_or_cut(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text("| high | Unpinned action |\n" + "x" * 1_000_000)
    found = [
        msgspec.structs.replace(THINGS[1], ref=ref, path=str(path))
        for ref, path in (("g1", tmp_path / "report.md"), ("g2", tmp_path / "gone.md"), ("g3", tmp_path))
    ]
    told = read_reports(found)
    assert [bool(each.report) for each in told] == [True, False, False]
    assert len(told[0].report) <= 100_000
    assert match(told, find_terms("unpinned")).things == [told[0]]
