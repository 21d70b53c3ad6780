"""Questions for all that memory has of something, or of a month."""

from datetime import date

import pytest

from services.nexus.answers.answer_type import Listed, read_listed
from services.nexus.answers.memory_answer import MAX_QUOTES, answer_with_list, build_packet
from shared.contracts import Hit, Node

TODAY = date(2026, 11, 24)


def listed(question: str) -> Listed:
    found = read_listed(question, TODAY)
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
    ("question", "month", "kind"),
    [
        ("what was decided in October?", "2026-10", "decision"),
        ("What happened in August?", "2026-08", "event"),
        ("What did we decide in December?", "2025-12", "decision"),
        ("What happened in May 2024", "2024-05", "event"),
    ],
)
def test_a_month_is_the_last_one_that_has_begun(question: str, month: str, kind: str) -> None:
    assert (listed(question).month, listed(question).kinds[0]) == (month, kind)


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
    assert read_listed(question, TODAY) is None


def test_only_what_names_the_topic_and_is_of_the_month_is_kept() -> None:
    named, other = hit("a", "Priya leads the app."), hit("b", "Lena leads the shop.")
    assert listed("what should I know about Priya?").keep([other, named]) == [named]
    late, early = hit("c", "Prices rise.", "2026-10-30"), hit("d", "PETG it is.", "2026-10-02")
    before = hit("e", "ABS it is.", "2026-09-30")
    assert listed("what was decided in October?").keep([late, before, early]) == [early, late]


def test_what_is_too_much_to_tell_is_counted() -> None:
    hits = [hit(f"n{number}", f"Priya has task {number}.") for number in range(MAX_QUOTES + 2)]
    response = answer_with_list(build_packet("Priya", []), hits)
    assert response.text.splitlines()[0] == "Priya has task 0. (2026-10-05)"
    assert response.text.endswith("Memory has 2 more of this.")
    assert len(response.citations) == MAX_QUOTES
