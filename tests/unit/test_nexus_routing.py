"""Who a message is for."""

import time

import pytest

from services.nexus.routing.router import Tool, find_subject, read_tools
from services.nexus.routing.rules import route_request
from services.nexus.routing.sentence_type import SentenceType, classify_sentence
from shared.errors import ConfigError

TOOLS = {
    "arxiv": ("arxiv", "papers on", "papers about"),
    "news": ("ai news", "latest news"),
}

WORK = """
    tell cortex to refactor the parser
    get someone to fix the login
    Ask the engineer to debug the importer
    Implement user authentication
    Please write code to sort a list
    write me a small python script that renames files
    we need to debug this
    The login page is broken, fix it
    The login page is broken since yesterday. Fix it please.
    Can you run the tests of this repo?
    could you please refactor the parser
    I want you to benchmark the index
    Start testing the parser
    do a benchmark of the search
    Let's build a small web page
    Why don't you fix the flaky test?
    Hi! Run the linter
    Find the failing test and fix it
    execute scripts/report.py
    Who is on call? Run the tests.
    I'd like to refactor billing
    - fix the parser
    test
"""
CHECK_UPS = """
    Check up on the repository at ~/src/demo
    Do a check-up of the repository in ~/src/demo
    Please inspect the repository
    Search the web for the boiling point of ethanol
    Can you search the internet for tulips?
    Please look up the release date of Python 3.14 on the web
    search online for how to run a marathon
"""
DISCOVERY = """
    Research graph memory for agents
    Show me current trends in retrieval
    monitor the field of robotics
    I need a literature review on caching
    Could you scout for new methods?
    please scan the journals for robotics
"""
NEITHER = """
    What are the current trends in retrieval?
    Which research is there on agents?
    Which tool monitors the batch machines?
    hello
    What is the latest on the project?
    Newest of the greatest contests
    testing the water
    Let's test the waters first
    The latest build is broken
    Tests and builds are slow
    Test results are in
    I need the test results
    The rebuild was fast
    Search the web shop for Ana
    The web search is slow
    Who wrote the web search?
    contest rules
    I went for a run
    in the long run it pays
    Bob wants to build a house
    My research interest is graphs
"""
KNOWN_HERE = """
    what did the check-up find?
    What did the tests find?
    Who wrote the test for the parser?
    Who does research on graphs in our team?
    How do I run the tests?
    Have you run the tests?
    Should we fix the parser first?
    What papers about memory did we find?
    Tell me about the research we did
    What do you remember about the benchmark?
    Remember that Bob wants to fix his car
    Remind me to run the tests tomorrow
    Was the build broken?
"""


def lines(block: str) -> list[str]:
    return [line.strip() for line in block.strip().splitlines()]


@pytest.mark.parametrize("text", lines(WORK))
def test_work_goes_to_cortex(text: str) -> None:
    decision = route_request(text, TOOLS)
    assert decision.route == "cortex", decision
    assert decision.rationale.endswith("is work for cortex")


@pytest.mark.parametrize("text", lines(CHECK_UPS))
def test_check_ups_go_to_the_conductor(text: str) -> None:
    assert route_request(text, TOOLS).route == "conductor"


@pytest.mark.parametrize("text", lines(DISCOVERY))
def test_discovery_goes_to_frontier(text: str) -> None:
    assert route_request(text, TOOLS).route == "frontier"


@pytest.mark.parametrize("text", lines(NEITHER))
def test_words_that_only_sound_like_work_stay(text: str) -> None:
    assert route_request(text, TOOLS).route == "nexus"


@pytest.mark.parametrize("text", lines(KNOWN_HERE))
def test_questions_about_memory_and_people_stay(text: str) -> None:
    decision = route_request(text, TOOLS)
    assert decision.route == "nexus"
    assert decision.rationale == "it is about what is known here"


def test_empty_messages_stay() -> None:
    for text in ("", "  \n\t"):
        assert route_request(text, TOOLS).rationale == "the message is empty"


def test_a_tool_comes_before_work_and_the_longest_keyword_first() -> None:
    decision = route_request("Fix the parser and look at arXiv", TOOLS)
    assert (decision.route, decision.tool_name) == ("tool:arxiv", "arxiv")
    assert decision.rationale == "'arxiv' is a keyword of the tool arxiv"
    assert route_request("Give me the latest news", TOOLS).route == "tool:news"
    assert route_request("what papers on graph memory are there?", TOOLS).route == "tool:arxiv"
    assert route_request("the bazaar xivil", TOOLS).route == "nexus"
    both = route_request("AI news and papers about it", {"a": ("ai",), "b": ("ai news",)})
    assert both.route == "tool:b"
    assert route_request("Find papers on graphs").route == "nexus"


def test_the_same_text_always_goes_the_same_way() -> None:
    text = "Run the build, then research trends and read the latest news"
    assert {route_request(text, TOOLS).route for _ in range(20)} == {"tool:news"}


@pytest.mark.parametrize("word", ["please ", "do ", "a ", "to run the ", "is x ", "and then ", "need a "])
def test_long_texts_are_decided_quickly(word: str) -> None:
    started = time.perf_counter()
    route_request(word * (100_000 // len(word)), TOOLS)
    assert time.perf_counter() - started < 2


def test_moods() -> None:
    assert classify_sentence("Could you fix it?") is SentenceType.REQUEST
    assert classify_sentence("What is a graph?") is SentenceType.QUESTION
    assert classify_sentence("What did we decide?") is SentenceType.RECALL


def test_what_a_tool_is_asked_about() -> None:
    tool = Tool(keywords=("arxiv", "papers about", "papers on"), assignee="frontier", action="find_papers")
    assert find_subject("Find me papers about graph memory, please.", tool) == "graph memory"
    assert find_subject("Search arXiv for “temporal graphs”!", tool) == "temporal graphs"
    assert find_subject("What papers on world models are there?", tool) == "world models"
    assert find_subject("papers on sparse attention on arxiv", tool) == "sparse attention"
    assert find_subject("Look at arxiv", tool) == ""
    assert find_subject("Nothing of the kind", tool) == ""


def test_tools_of_a_profile_are_checked() -> None:
    good = {"keywords": ["arxiv"], "assignee": "frontier", "action": "find_papers", "subject": "topic"}
    assert read_tools({"tools": {"arxiv": good}})["arxiv"].subject == "topic"
    assert read_tools({}) == {}
    with pytest.raises(ConfigError, match="unknown field `acton`"):
        read_tools({"tools": {"arxiv": good | {"acton": "x"}}})
    with pytest.raises(ConfigError, match="keywords must have at least one"):
        read_tools({"tools": {"arxiv": good | {"keywords": []}}})
