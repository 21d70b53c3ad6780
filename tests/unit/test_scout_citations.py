"""What an answer cites against what was read, and the passages that are quoted without a model."""

from services.scout.research import (
    Passage,
    check_citations,
    choose_passages,
    rank_by_meaning,
    rank_by_words,
    split_passages,
)
from shared.skills.web import Page

READ = ("https://a.example/x", "https://b.example/wiki/Tea_(drink)/", "README.md:3", "/srv/docs/plan.pdf:1")


def sources(line: str) -> tuple[str, ...]:
    checked = check_citations(line, READ)
    return tuple(source for kept in checked.kept for source in kept.sources)


def test_citations_are_known_in_every_dress() -> None:
    assert sources("Tea is hot. [https://a.example/x]") == ("https://a.example/x",)
    assert sources("- Tea is hot [https://a.example/x#part].") == ("https://a.example/x",)
    assert sources("1. Tea is [hot](https://a.example/x/)") == ("https://a.example/x",)
    assert sources("Tea is hot (https://a.example/x).") == ("https://a.example/x",)
    assert sources("Tea. [https://b.example/wiki/Tea_(drink)]") == (READ[1],)
    assert sources("It is a kettle. [README.md:3]") == ("README.md:3",)
    assert sources("It is a kettle. [README.md]") == ("README.md",)
    assert sources("It is a kettle. [setup.py:3]") == ()
    assert sources("It is planned. [/srv/docs/plan.pdf:12]") == ("/srv/docs/plan.pdf:12",)
    assert sources("Both. [https://a.example/x, README.md:3]") == ("https://a.example/x", "README.md:3")


def test_an_address_of_any_kind_is_a_citation() -> None:
    (kept,) = check_citations("Hot [https://a.example/x]. Cold [file:///etc/tea].", READ).kept
    assert (kept.text, kept.unread) == ("Hot [https://a.example/x]. Cold .", ("file:///etc/tea",))
    assert check_citations("Cold [ftp://b.example/tea].", READ).dropped


def test_what_was_not_read_is_dropped_and_said() -> None:
    answer = """# Findings
In short:

Tea is hot. [https://a.example/x]
Tea is cold. [https://a.example/y]
Tea is old. [https://a.example/x, https://c.example/]
Tea is good.
Tea is [sic] wet at [12:30].
It is set in [tool.ruff] and [a/b, c]."""
    checked = check_citations(answer, READ)
    assert [one.text for one in checked.kept] == [
        "Tea is hot. [https://a.example/x]",
        "Tea is old. [https://a.example/x, (not read)]",
    ]
    assert [one.unread for one in checked.dropped] == [("https://a.example/y",)]
    assert [one.text for one in checked.unsourced] == [
        "Tea is good.",
        "Tea is [sic] wet at [12:30].",
        "It is set in [tool.ruff] and [a/b, c].",
    ]
    assert checked.sources == ("https://a.example/x",)
    told = checked.describe()
    assert "Dropped: 1 statement whose source was not read in this task." in told
    assert told.endswith("Cited, but not read in this task:\n- https://a.example/y\n- https://c.example/")


def test_a_longer_address_is_not_the_shorter_one() -> None:
    assert sources("Tea. [https://a.example/x/y]") == ()
    assert sources("Tea. [https://a.example/xy]") == ()
    assert sources("Tea. [https://a.example]") == ()
    assert check_citations("", READ).describe() == ""


PAGES = [
    Page(
        url="https://a.example/",
        title="Kettles",
        text="Short\n"
        + "Copper kettles have been made for ages by many people in many towns. " * 15
        + "\nWater boils at one hundred degrees, and then the kettle whistles loudly.",
    ),
    Page(url="https://b.example/", text="Soup is made of onions and broth, and some like it with bread."),
]


def test_passages_are_of_a_size_and_from_every_page() -> None:
    passages = split_passages(PAGES)
    assert max(len(passage.text) for passage in passages) <= 700
    assert passages[0].text.startswith("Short Copper kettles")
    assert {passage.url for passage in passages} == {"https://a.example/", "https://b.example/"}
    assert passages[-1].title == "https://b.example/"
    assert split_passages([]) == []
    endless = split_passages([Page(url="u", text="x" * 5_000)])
    assert [len(passage.text) for passage in endless] == [700] * 7 + [100]


def test_passages_are_ranked_by_words_or_meaning() -> None:
    passages = split_passages(PAGES)
    by_words = rank_by_words(passages, "At what degrees does water boil?")
    assert by_words[0].text.startswith("Water boils")
    assert by_words[-1].nearness == 0.0
    vectors = [[0.0, 1.0] if "onions" in passage.text else [1.0, 0.0] for passage in passages]
    by_meaning = rank_by_meaning(passages, [0.0, 1.0], vectors)
    assert by_meaning[0].url == "https://b.example/"


def test_of_one_page_not_more_than_two_passages_are_shown() -> None:
    passages = [Passage(url="u", title="t", text=str(n), nearness=0.9 - n / 10) for n in range(4)]
    other = Passage(url="v", title="t", text="other", nearness=0.1)
    nothing = Passage(url="w", title="t", text="nothing")
    assert [one.text for one in choose_passages([*passages, other, nothing], 6)] == ["0", "1", "other"]
    assert len(choose_passages(passages, 1)) == 1
