"""Ways to say things: the notation of their rows, each file of them, and messages that are read once."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.language.sayings import WORDS, Sayings, read_sayings
from shared.language.spelling import correct_spelling
from shared.language.utterance import Act, read_utterance

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for part in ("services", "shared") for path in (ROOT / part).rglob("sayings.toml"))
MACRO = re.compile(r"\{([a-z]\w*)\}")


def list_tables() -> Iterator[tuple[Path, str]]:
    for path in FILES:
        for table in tomllib.loads(path.read_text(encoding="utf-8")):
            yield path, table


def list_ways(row: object) -> Iterator[str]:
    """The ways of a row, whatever its form; of rows of two the first part."""
    if isinstance(row, str):
        yield row
    elif isinstance(row, dict):
        yield from (row.get("lead", ""), *row["ways"], row.get("tail", ""))
    elif isinstance(row, list):
        yield from (each if isinstance(each, str) else each[0] for each in row)


@pytest.mark.parametrize(("path", "table"), list(list_tables()), ids=lambda value: str(value)[-40:])
def test_each_row_is_a_pattern_and_is_used(path: Path, table: str) -> None:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))[table]
    ways = read_sayings(str(path.with_name("any.py")), table)
    code = "\n".join(module.read_text(encoding="utf-8") for module in path.parent.glob("*.py"))
    named = {name for row in rows.values() for way in list_ways(row) for name in MACRO.findall(way)}
    for name, row in rows.items():
        if isinstance(row, list) and isinstance(row[0], list):
            ways.rewrite(name, "a text")
        elif not re.search(r"\(\?P<", ways.expand(name)) or name not in named:
            assert ways[name]
        spoken = re.search(rf"\b{name}\b", code)
        assert spoken or name in named, f"nothing reads {name}"


def test_the_shared_words_are_patterns_and_are_used() -> None:
    words = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    texts = "\n".join(path.read_text(encoding="utf-8") for path in [*FILES, WORDS])
    for name in words:
        assert Sayings({}, words)[name]
        assert f"{{{name}}}" in texts or f'"{name}"' in "\n".join(
            module.read_text(encoding="utf-8") for module in (ROOT / "services/nexus").rglob("*.py")
        ), f"nothing reads {name}"


def test_the_notation() -> None:
    words = {"polite": "(please|pls)"}
    rows = {
        "stop": "{polite} (don't|do not) (?P<what>run|test) it",
        "near": {"lead": "(?<=at )", "ways": ["noon", "9"], "tail": "[ '.]?$"},
        "plainly": [["(?P<day>mon|tues)day week", r"\g<day>day in a week"], ["arvo", "afternoon"]],
        "answers": [["thanks", "You are welcome."], ["hi|hello", "Hello."]],
    }
    ways = Sayings(rows, words)
    found = ways["stop"].fullmatch("Please  don’t\nrun it")
    assert found is not None
    assert found["what"] == "run"
    assert found.groups() == ("run",)
    assert ways["near"].search("at noon'")
    assert not ways["near"].search("by noon")
    assert ways.rewrite("plainly", "Monday week in the arvo") == "Monday in a week in the afternoon"
    assert ways.choose("answers", "well hello") == "Hello."
    assert ways.choose("answers", "what is it?") == ""


@pytest.mark.parametrize(
    ("text", "act", "is_time", "is_part", "refers", "ordinal"),
    [
        ("At 9 a.m., please!", Act.REQUEST, True, True, False, 9),
        ("the day after tomorrow", Act.STATEMENT, True, True, False, 0),
        ("in a fortnight", Act.REQUEST, True, True, False, 0),
        ("When do we deploy?", Act.QUESTION, False, False, False, 0),
        ("don't run it yet", Act.NEGATED, False, False, True, 0),
        ("the second one", Act.STATEMENT, False, True, True, 2),
        ("no, it's on the 5th", Act.STATEMENT, False, False, True, 5),
    ],
)
def test_a_message_is_read(
    text: str, act: Act, is_time: bool, is_part: bool, refers: bool, ordinal: int
) -> None:
    said = read_utterance(text)
    found = (said.act, said.is_time, said.is_part, said.refers, said.ordinal)
    assert found == (act, is_time, is_part, refers, ordinal)


def test_a_message_is_read_once() -> None:
    assert read_utterance("at 9") is read_utterance("at 9")
    assert read_utterance("Half past 5 p.m.").plain == "half past 5 pm"
    assert read_utterance("at 5:30 p.m.").clock == "17:30"


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("whats on tmrw", "what's on tomorrow"),
        ("what did u find", "what did you find"),
        ("its not thursdays, its mondays", "it's not thursdays, it's mondays"),
        ("cant u do it nxt week plz", "can't you do it next week please"),
        ("im late thx", "i'm late thanks"),
        ("the cat lost its tail", "the cat lost its tail"),
        ("call U-Haul and R Studio", "call U-Haul and R Studio"),
        ("that is its own thing", "that is its own thing"),
    ],
)
def test_what_is_written_short_is_read_in_full(text: str, spelled: str) -> None:
    assert read_utterance(text).spelled == spelled


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("any leters i havnt anwsered", "any letters i havent answered"),
        ("run teh tests of ~/src/tonigth tonigth", "run the tests of ~/src/tonigth tonight"),
        ("remnid me tomorow", "remind me tomorrow"),
        ("put it in my calender on thrusday", "put it in my calendar on thursday"),
        ("cancle the serach", "cancel the search"),
        ("it is cold in three studios", "it is cold in three studios"),
        ("the remainder of the massage", "the remainder of the massage"),
        ("Mali wrote 'tonigth' to emil@example.org", "Mali wrote 'tonigth' to emil@example.org"),
        ("rememebr that the tets server is teh old one", "remember that the tets server is teh old one"),
        ("remember taks is a table", "remember taks is a table"),
        ("remnid  me tomorow: ring  teh bank", "remind  me tomorrow: ring  teh bank"),
        ("tell ana that teh taks repo moved", "tell ana that teh taks repo moved"),
    ],
)
def test_mistyped_words_of_requests_are_corrected(text: str, corrected: str) -> None:
    assert correct_spelling(text) == corrected


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("May I ask what is the scout doing?", Act.QUESTION),
        ("We would like to know until when the hall is ours.", Act.REQUEST),
        ("So somebody wrote me about it, can you dig that out for me, I have to call them", Act.REQUEST),
        ("I'll forget otherwise, so nudge me in an hour", Act.REQUEST),
        ("He called, told me it is fine", Act.STATEMENT),
        ("let me know when the build ends", Act.REQUEST),
    ],
)
def test_what_only_says_that_it_asks_is_no_statement(text: str, act: Act) -> None:
    assert read_utterance(text).act is act
