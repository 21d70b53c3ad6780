"""Questions for all that memory has of something, or for what was at a time."""

from datetime import UTC, datetime

import pytest

from services.nexus.answers.answer_type import Listed, read_listed
from services.nexus.answers.asked_time import happened_in, held_in, read_asked_time
from services.nexus.answers.memory_answer import MAX_QUOTES, answer_with_list, build_packet
from shared.contracts import Hit, Node
from shared.contracts.base import amended
from shared.language.times.spans import Span

NOW = datetime(2026, 11, 24, 19, tzinfo=UTC)


def listed(question: str) -> Listed:
    found = read_listed(question)
    assert found is not None
    return found


def hit(name: str, title: str, day: str = "2026-10-05") -> Hit:
    return Hit(node=Node(id=name, title=title, created_at=f"{day}T10:00:00+00:00"), score=0.5)


@pytest.mark.parametrize(
    ("question", "text", "kinds"),
    [
        ("what should I know about Priya?", "Priya", ()),
        ("What do we know about the cold room?", "the cold room", ()),
        ("what did we decide about the housing?", "the housing", ("decision",)),
        ("What was decided on prices", "prices", ("decision",)),
    ],
)
def test_a_topic_is_read_with_the_kind_that_is_asked_for(
    question: str, text: str, kinds: tuple[str, ...]
) -> None:
    assert (listed(question).text, listed(question).kinds) == (text, kinds)


@pytest.mark.parametrize(
    ("question", "first", "last", "decided"),
    [
        ("what was decided in October?", "2026-10-01", "2026-10-31", True),
        ("What happened in August?", "2026-08-01", "2026-08-31", False),
        ("What did we decide in December?", "2025-12-01", "2025-12-31", True),
        ("What happened in May 2024", "2024-05-01", "2024-05-31", False),
        ("what happened on 1 November?", "2026-11-01", "2026-11-01", False),
        ("on 2026-07-25, what happened?", "2026-07-25", "2026-07-25", False),
        ("Do you know what happened on March 3rd?", "2026-03-03", "2026-03-03", False),
        ("what went wrong yesterday", "2026-11-23", "2026-11-23", False),
        ("anything new from the day before yesterday?", "2026-11-22", "2026-11-22", False),
        ("what took place three days ago?", "2026-11-21", "2026-11-21", False),
        ("did anything break last week?", "2026-11-16", "2026-11-22", False),
        ("what was going on last Friday", "2026-11-20", "2026-11-20", False),
        ("tell me what happened in Q2", "2026-04-01", "2026-06-30", False),
        ("what did we do on 19 August?", "2026-08-19", "2026-08-19", False),
    ],
)
def test_all_of_a_time_is_wanted(question: str, first: str, last: str, decided: bool) -> None:
    asked = read_asked_time(question, NOW)
    assert asked is not None
    days = [datetime.fromtimestamp(moment, UTC).date() for moment in (asked.span.start, asked.span.end - 1)]
    assert [str(day) for day in days] == [first, last]
    assert (asked.wants_all, asked.decided) == (True, decided)


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("Who owned billing in September?", "Who owned billing?"),
        ("in April, who dealt with rights?", "who dealt with rights?"),
        ("what was our limit back in May 2025?", "what was our limit?"),
        ("What rate did the API have at the end of August?", "What rate did the API have?"),
        ("who was on call on Monday?", "who was on call?"),
        ("whose kit did we wear before October", "whose kit did we wear"),
        ("what did the lawyer say a week ago?", "what did the lawyer say?"),
    ],
)
def test_of_a_question_with_a_time_the_rest_is_asked(question: str, rest: str) -> None:
    asked = read_asked_time(question, NOW)
    assert asked is not None
    assert (asked.question, asked.wants_all) == (rest, False)


@pytest.mark.parametrize(
    "question",
    [
        "who is away on 4 May?",
        "When do we open in December?",
        "what will happen on 3 December?",
        "may I go?",
        "Does the lease end in March?",
        "what happened between August and October?",
        "who owns billing?",
    ],
)
def test_what_asks_of_now_or_later_names_no_past(question: str) -> None:
    assert read_asked_time(question, NOW) is None


SEPTEMBER = Span(datetime(2026, 9, 1, tzinfo=UTC).timestamp(), datetime(2026, 10, 1, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("kind", "day", "text", "until", "holds"),
    [
        ("fact", "2026-07-03", "Bruno owns billing.", "", True),
        ("fact", "2026-07-03", "Bruno owns billing.", "2026-08-30", False),
        ("fact", "2026-07-03", "Bruno owns billing.", "2026-10-06", True),
        ("fact", "2026-10-06", "Joana owns billing.", "", False),
        ("fact", "2026-10-06", "Joana owns billing since August.", "", True),
        ("fact", "2026-08-20", "From 5 October Joana owns billing.", "", False),
        ("fact", "2026-11-02", "Bruno owned billing until September.", "", True),
        ("fact", "2026-11-02", "In September Bruno owned billing.", "", True),
        ("decision", "2026-09-30", "Deploy day is Monday from now on.", "", True),
        ("event", "2026-09-14", "The queue stood still.", "", True),
        ("event", "2026-08-14", "The queue stood still.", "", False),
        ("event", "2026-10-02", "On 29 September the queue stood still.", "", True),
        ("event", "2026-10-01", "The queue stood still yesterday.", "", True),
        ("event", "2026-09-01", "The queue stood still yesterday.", "", False),
    ],
)
def test_what_held_in_september(kind: str, day: str, text: str, until: str, holds: bool) -> None:
    node = Node(
        kind=kind,
        title=text,
        created_at=f"{day}T10:00:00+00:00",
        valid_to=until and f"{until}T10:00:00+00:00",
    )
    assert held_in(node, SEPTEMBER) is holds


@pytest.mark.parametrize(
    "question",
    [
        "Who knows Priya?",
        "what was decided?",
        "When did we move?",
        "What do we do about it?",
        "What did we decide?",
    ],
)
def test_a_question_for_one_thing_lists_nothing(question: str) -> None:
    assert read_listed(question) is None


def test_only_what_names_the_topic_and_is_of_the_month_is_kept() -> None:
    named, other = hit("a", "Priya leads the app."), hit("b", "Lena leads the shop.")
    assert listed("what should I know about Priya?").keep([other, named]) == [named]
    late, early, before = (
        amended(each, node=amended(each.node, kind="decision"))
        for each in (
            hit("c", "Prices rise.", "2026-10-30"),
            hit("d", "PETG it is.", "2026-10-02"),
            hit("e", "ABS it is.", "2026-09-30"),
        )
    )
    asked = read_asked_time("what was decided in October?", NOW)
    assert asked is not None
    assert asked.list_from([late, before, early]) == [early, late]


def test_what_is_too_much_to_tell_is_counted() -> None:
    hits = [hit(f"n{number}", f"Priya has task {number}.") for number in range(MAX_QUOTES + 2)]
    response = answer_with_list(build_packet("Priya", []), hits)
    assert response.text.splitlines()[0] == "Priya has task 0. (2026-10-05)"
    assert response.text.endswith("Memory has 2 more of this.")
    assert len(response.citations) == MAX_QUOTES


@pytest.mark.parametrize(
    ("text", "kind", "on_the_day"),
    [
        ("Starting this month the welders begin at seven.", "decision", False),
        ("In September all bridges are painted.", "decision", False),
        ("This week the shop has no butter.", "observation", False),
        ("The third quarter was slow.", "decision", False),
        ("On 15 September the lift stood still.", "decision", True),
        ("Flood in the cellar.", "event", False),
    ],
)
def test_what_is_of_a_month_happened_on_none_of_its_days(text: str, kind: str, on_the_day: bool) -> None:
    first, middle, next_day, last = (
        datetime(2026, 9, day, tzinfo=UTC).timestamp() for day in (1, 15, 16, 30)
    )
    node = Node(id="n", title=text, kind=kind, created_at="2026-09-08T10:00:00+00:00")
    assert happened_in(node, Span(middle, next_day)) is on_the_day
    assert happened_in(node, Span(first, last))
