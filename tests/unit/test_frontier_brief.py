"""Research briefs: every number leads to a source, and text from outside stays text."""

import re

import pytest

from services.frontier.brief import Findings, compose_brief, shorten_sentences
from services.frontier.sources import parse_options
from shared.errors import ConfigError
from shared.skills.workspace import slug
from shared.web.quoting import escape

PAPER = {
    "title": "Attention Is All You Need",
    "authors": ["Ashish Vaswani", "Noam Shazeer", "Niki Parmar", "Jakob Uszkoreit"],
    "abstract": "The dominant models are recurrent. We propose another.",
    "arxiv_id": "1706.03762v7",
    "published": "2017-06-12T17:57:34+00:00",
    "pdf_url": "https://arxiv.org/pdf/1706.03762v7",
    "categories": ["cs.CL"],
}
OTHER = PAPER | {"title": "A [trap](https://evil.example) <b>_x_", "arxiv_id": "2005.11401v4", "authors": []}
ITEM = {
    "title": "News of the day",
    "link": "https://news.example/a b>c",
    "published": "2026-01-06T08:30:00+00:00",
    "source": "Model & Machine",
    "summary": "",
}


def test_every_citation_resolves_to_one_source() -> None:
    text = compose_brief(
        "Discovery", Findings(papers={"attention": [PAPER, OTHER], "memory": [PAPER]}, news=[ITEM])
    )
    body, _, sources = text.partition("## Sources")
    cited = set(re.findall(r"(?<!\\)\[(\d+)\]", body))
    assert cited == {"1", "2", "3"}
    assert dict(re.findall(r"^\[(\d+)\]: <(.+)>$", sources, re.MULTILINE)) == {
        "1": "https://arxiv.org/abs/1706.03762v7",
        "2": "https://arxiv.org/abs/2005.11401v4",
        "3": "https://news.example/a%20b%3Ec",
    }
    assert re.findall(r"^- \[(\d+)\]", sources, re.MULTILINE) == ["1", "2", "3"]
    assert body.count("**Attention Is All You Need** [1]") == 2
    assert "- **Attention Is All You Need** [1], listed above\n" in body
    assert body.count("Abstract: ") == 2
    assert "By Ashish Vaswani and 3 others, 2017-06-12, cs.CL" in body
    assert "2 papers (confidence: medium) and 1 news item, looked up 20" in body


def test_text_from_outside_makes_no_markup() -> None:
    text = compose_brief("x", Findings(papers={"t": [OTHER]}, problems=["The feed <b> is broken\n# Heading"]))
    assert "](https://evil.example)" not in text.replace("\\]", "")
    assert "\\[trap\\](https://evil.example) \\<b\\>\\_x\\_" in text
    assert "\n# Heading" not in text
    assert escape("a\n\n# b") == "a \\# b"


def test_nothing_found_is_said() -> None:
    text = compose_brief(
        "Research brief: nothing", Findings(papers={"nothing": []}, problems=["arXiv cannot be reached."])
    )
    assert "0 papers (confidence: low)" in text
    assert "None found." in text
    assert "- arXiv cannot be reached." in text
    assert "## Sources" not in text


def test_options_are_checked() -> None:
    assert parse_options({}).arxiv_delay == 3.0
    with pytest.raises(ConfigError, match=r"options of the frontier profile are wrong: .*news_items"):
        parse_options({"news_items": "many"})


def test_a_brief_is_saved_under_a_plain_name() -> None:
    assert slug("Research brief: ../../Größe & more", 60) == "research-brief-gr-e-more"


def test_excerpts_end_with_a_sentence_where_they_can() -> None:
    assert shorten_sentences("One. Two is longer. Three.", 20) == "One. Two is longer."
    assert shorten_sentences("No end in this sentence at all", 12) == "No end in…"
    assert shorten_sentences("Short", 12) == "Short"


def test_what_a_model_summarised_and_rated_is_labelled_and_cited() -> None:
    ratings = [
        {"score": 7.4, "by": "embedding", "interest": "attention"},
        {"score": 9.0, "by": "model", "reason": "It is about that"},
    ]
    found = Findings(
        papers={"attention": [PAPER | {"relevance": ratings}, OTHER]},
        summary=(("Recurrence is not needed [1].", (1,)), ("Both say so <b>", (1, 2))),
        notes=["Memory does not answer"],
        looked_up=1_767_700_800.0,
    )
    text = compose_brief("x", found)
    assert "## Summary (by a model, from the sources below)\n\n- Recurrence is not needed. [1] (" in text
    assert "- Both say so \\<b\\> [1][2]" in text
    assert "  Relevance: 7.4 of 10 by embedding, nearest to 'attention'  \n" in text
    assert "  Relevance: 9.0 of 10 by model: It is about that  \n" in text
    assert "looked up 2026-01-06 12:00 UTC" in text
    assert "## Notes\n\n- Memory does not answer" in text
