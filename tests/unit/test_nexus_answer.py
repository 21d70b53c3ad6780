"""Context packets and answers: only what was remembered, each statement with its node."""

import msgspec

from services.nexus.answers.memory_answer import (
    MAX_QUOTE,
    answer_by_likeness,
    build_packet,
    find_unknowns,
    node_statement,
    quote_node,
)
from shared.contracts import Hit, Node, Response, Source
from shared.text.display import shorten
from shared.text.prose import find_terms, stem_term

CHECK_UP = Node(
    id="n1",
    kind="observation",
    title="Check-up of shop: 3 of 41 tests fail",
    body="tests/test_cart.py::test_empty fails with AssertionError. Linting found 12 weaknesses.",
    source=Source(agent="conductor"),
    created_at="2026-11-01T10:00:00+00:00",
)
KEY = Node(
    id="n2", title="The office key hangs beside the kitchen door", created_at="2026-11-02T10:00:00+00:00"
)
PLAN = Node(id="n3", title="Version 2.0 of shop is planned for spring", body="Its documents come first.")


def hit(node: Node, score: float, vector: float | None = None) -> Hit:
    return Hit(node=node, score=score, why={"vector": score / 2 if vector is None else vector})


def ask(question: str, *hits: Hit) -> Response:
    return answer_by_likeness(question, build_packet(question, hits), hits)


def test_a_topic_is_answered_by_what_is_like_it_with_origin_and_date() -> None:
    response = ask("Failing tests in the shop", hit(KEY, 0.05), hit(CHECK_UP, 0.5), hit(PLAN, 0.1))
    assert response.citations == ("n1",)
    assert response.text.startswith("Check-up of shop: 3 of 41 tests fail: tests/test_cart.py::test_empty")
    assert response.text.endswith("(conductor, 2026-11-01)")
    assert "kitchen" not in response.text
    assert "n1" not in response.text
    assert response.confidence == 1.0


def test_the_newest_of_one_title_is_told_and_the_best_comes_first() -> None:
    older = msgspec.structs.replace(CHECK_UP, id="n0", created_at="2026-10-01T10:00:00+00:00")
    response = ask("tests and version of the shop", hit(older, 1.0), hit(PLAN, 0.3), hit(CHECK_UP, 0.9))
    assert response.citations == ("n1", "n3")


def test_what_is_not_covered_is_said_once_and_lowers_confidence() -> None:
    whole = ask("failing tests", hit(CHECK_UP, 0.3))
    partly = ask("tests that fail slowly", hit(CHECK_UP, 0.3, vector=0.2))
    assert "Memory says nothing about" not in whole.text
    assert partly.text.count("Memory says nothing about: slowly.") == 1
    assert 0 < partly.confidence < whole.confidence


def test_nothing_near_enough_is_said_with_what_can_be_done_and_quotes_nothing() -> None:
    response = ask("Where is the 'dentist'?", hit(KEY, 0.12, vector=0.05))
    assert response.text.startswith("Memory holds nothing that answers this.")
    assert "key" not in response.text
    assert "say 'search the web for ...'" in response.text
    assert "dentist" not in response.text
    assert response.citations == ()
    assert response.confidence == 0.0


def test_a_statement_may_be_kept_and_a_question_never() -> None:
    assert "mailroom memory add 'The invoice was paid'" in ask("The invoice was paid").text
    for question in (
        "The invoice, was it paid?",
        "On which day do we deploy the storefront?",
        "As what do we send the exports",
        "Can I print upstairs?",
    ):
        assert "memory add" not in ask(question).text


def test_likeness_without_common_words_is_enough_only_when_it_is_great() -> None:
    assert ask("getting into the building", hit(KEY, 0.25, vector=0.25)).citations == ("n2",)
    assert ask("getting into the building", hit(KEY, 0.13, vector=0.13)).citations == ()


def test_a_topic_with_a_name_is_not_answered_with_somebody_else() -> None:
    ada = Node(id="n4", title="Ada prefers short answers")
    assert ask("preferences of Ada", hit(ada, 0.4)).citations == ("n4",)
    assert ask("preferences of Bob", hit(ada, 0.4)).citations == ()


def test_a_retired_node_is_not_quoted() -> None:
    retired = Node(id="n5", title="The key hangs in the hall", retired_version=7)
    assert ask("the key", hit(retired, 0.9)).citations == ()
    assert build_packet("key", [hit(retired, 0.9)]).bullets == ()


def test_a_long_node_is_quoted_where_it_bears_on_the_question() -> None:
    filler = " ".join(f"Sentence number {number} is about the weather." for number in range(40))
    node = Node(title="Minutes of Monday", body=f"{filler}\nThe budget was cut to half. {filler}")
    quoted = quote_node(node, find_terms("what happened to the budget?"))
    assert quoted == "Minutes of Monday: The budget was cut to half."
    assert len(quote_node(Node(title="x" * 200, body="y" * 5_000), {})) <= MAX_QUOTE


def test_a_context_packet_keeps_the_best_within_limit_and_budget() -> None:
    nodes = [Node(id=f"n{number}", title=f"Note {number}", body="word " * 200) for number in range(20)]
    hits = [hit(node, number / 20) for number, node in enumerate(nodes)]
    packet = build_packet("word", [*hits, hits[3]], limit=8)
    assert [item.evidence_id for item in packet.bullets] == ["n19", "n18", "n17", "n16", "n15"]
    assert sum(len(item.text) for item in packet.bullets) <= 1200 * 4 + 20
    assert packet.bullets[0].score == 0.95
    short = build_packet("word", [hit(Node(title=f"N{n}"), 0.5) for n in range(20)], limit=8)
    assert len(short.bullets) == 8
    tight = build_packet("word", hits, budget_tokens=100)
    assert len(tight.bullets) == 1
    assert tight.bullets[0].text.endswith("…")


def test_unknowns_are_the_telling_words_that_nothing_holds() -> None:
    packet = build_packet("When were the failing tests of the Windows port fixed?", [hit(CHECK_UP, 0.5)])
    assert packet.unknowns == ("Windows", "port", "fixed")
    assert find_unknowns("What is it?", []) == ()


def test_assumptions_name_what_is_old_or_expired() -> None:
    old = Node(title="The desk is by the window", created_at="2020-01-01T00:00:00+00:00")
    expired = Node(title="The trial runs", valid_to="2021-01-01T00:00:00")
    fresh = Node(title="Fresh")
    packet = build_packet("x", [hit(old, 0.9), hit(expired, 0.8), hit(fresh, 0.7)])
    assert packet.assumptions == (
        "'The desk is by the window', remembered on 2020-01-01, still holds",
        "'The trial runs' was valid until 2021-01-01",
    )


def test_a_node_is_stated_once() -> None:
    assert node_statement(Node(title="A fact", body="A fact")) == "A fact"
    assert (
        node_statement(Node(title="A fact that is cut…", body="A fact that is cut off here"))
        == "A fact that is cut off here"
    )
    assert node_statement(Node(title="Done?", body="Yes\n  indeed")) == "Done? Yes indeed"
    assert shorten("one two three", 9) == "one two…"


def test_an_entry_of_a_list_is_stated_without_its_mark() -> None:
    assert node_statement(Node(title="Ask Breuer", body="- [ ] Ask Breuer")) == "Ask Breuer"
    assert (
        node_statement(Node(title="Ask Breuer for a…", body="1. Ask Breuer for a valve"))
        == "Ask Breuer for a valve"
    )


def test_forms_of_a_word_are_one() -> None:
    for forms in (
        "test tests testing tested",
        "run runs running",
        "fix fixes fixed",
        "city cities",
        "find found finds findings",
        "write wrote written writing",
        "release releases",
    ):
        assert len({stem_term(word) for word in forms.split()}) == 1, forms
    assert stem_term("class") == "class"
    assert list(find_terms("What's the latest on Ada's test?").values()) == ["latest", "Ada", "test"]
