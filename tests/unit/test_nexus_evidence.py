"""Which sentences answer a question: judged without the models, whose marks are given."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from services.nexus.answers import choice
from services.nexus.answers.answer_type import fits_type
from services.nexus.answers.choice import Chosen
from services.nexus.answers.evidence import (
    UNTOLD,
    Evidence,
    find_speaker,
    in_context,
    measure_rest,
    pick_sentences,
    summarise,
)
from services.nexus.answers.memory_answer import answer_from_sentences, build_packet, node_statement
from services.nexus.answers.weighing import (
    LEAST,
    LEAST_NAMED,
    UNLIKELY,
    Asked,
    has_names,
    is_told,
    leave_out_addressed,
    measure,
)
from shared.contracts import Hit, Node, Source
from shared.text.prose import (
    asks_about_work,
    asks_past,
    count_missing,
    find_names,
    find_numbered,
    find_phrases,
)
from tests.support.classifying import MEMORY

QUESTION = "On which day do we deploy the storefront?"


def told(sentence: str, mark: float, day: int, **more: object) -> Evidence:
    """A decision of that day; ``signs`` are rest, near, least, mean, opening and whole, by the models."""
    fields = {"kind": "decision", "superseded_by": "", "valid_to": "", "left": 1, **more}
    signs: tuple[float, ...] = fields.get("signs", (0.7, 0.71, 0.65, 0.84, 0.74, 0.84))  # type: ignore[assignment]
    rest, near, least, mean, opening, whole = signs
    node = Node(
        id=f"day{day}",
        kind=str(fields["kind"]),
        title=sentence,
        created_at=f"2026-11-{day:02}T10:00:00+00:00",
        valid_to=str(fields["valid_to"]),
        source=Source(agent="user"),
    )
    by = {name: str(fields.get(name, "")) for name in ("superseded_by", "questioned_by")}
    hit = Hit(node=node, score=0.5, **by)  # type: ignore[arg-type]
    return Evidence(
        hit=hit,
        sentence=sentence,
        mark=mark,
        bare=float(str(fields.get("bare", mark))),
        left=int(str(fields["left"])),
        rest=rest,
        near=near,
        least=least,
        mean=mean,
        opening=opening,
        whole=whole,
        vector=fields.get("vector", (1.0,)),  # type: ignore[arg-type]
    )


OLD = told("We deploy the storefront on Mondays.", 8.8, 1, signs=(0.75, 0.76, 0.72, 0.89, 0.8, 0.89))
NEW = told(
    "The storefront ships on Fridays now instead of Mondays.",
    5.5,
    9,
    bare=-5.5,
    left=2,
    signs=(0.7, 0.62, 0.6, 0.77, 0.83, 0.82),
)
OTHER = told(
    "We deploy the billing service on Thursdays.", 1.9, 20, left=2, signs=(0.67, 0.63, 0.51, 0.73, 0.81, 0.82)
)


def choose(question: str, evidence: Sequence[Evidence]) -> Chosen:
    return asyncio.run(choice.choose(question, evidence, MEMORY))


def first(question: str, *evidence: Evidence) -> str:
    chosen = choose(question, evidence)
    return chosen.answers[0].hit.node.id if chosen.answers else ""


def test_the_newest_of_those_that_say_the_same_answers_and_another_subject_does_not() -> None:
    chosen = choose(QUESTION, [OLD, OTHER, NEW])
    assert chosen.answers[0] is NEW
    assert chosen.earlier == (OLD,)
    assert first(QUESTION, OTHER, OLD) == "day1"


def test_only_what_has_ended_is_said_to_have_held_before() -> None:
    ended = told("We deployed the storefront on Tuesdays.", 9.1, 5, superseded_by="day9")
    for older, label in ((OLD, "Older, and alike:"), (ended, "Before that:")):
        chosen = choose(QUESTION, [NEW, older])
        lines = answer_from_sentences(QUESTION, build_packet(QUESTION, []), chosen, {}).text.splitlines()
        assert label in lines
        assert lines[lines.index(label) + 1].startswith(f"- {older.sentence}")
        assert len({"Older, and alike:", "Before that:"} & set(lines)) == 1


def test_what_may_have_taken_the_place_of_the_answer_comes_before_it_if_it_tells_what_is_asked() -> None:
    unlike = {"vector": (0.0, 1.0), "bare": -5.5, "left": 2, "signs": (0.7, 0.62, 0.6, 0.77, 0.83, 0.82)}
    asked = told("We deploy the storefront on Mondays.", 8.8, 1, questioned_by="day9", vector=(1.0, 0.0))
    newer = told("Fridays it is for the shop.", 3.5, 9, **unlike)
    assert first(QUESTION, asked, newer) == "day9"
    assert choose(QUESTION, [asked, newer]).earlier == (asked,)
    assert first(QUESTION, asked, told("It is for the shop.", 3.5, 9, **unlike)) == "day1"
    weak = told("Fridays it is for the shop.", -9.0, 9, **{**unlike, "signs": (0.4, 0.3, 0.3, 0.4, 0.4, 0.4)})
    assert first(QUESTION, asked, weak) == "day1"


def test_what_superseded_the_answer_is_told_though_it_lacks_words_of_the_question() -> None:
    ended = told(
        "We deploy the staging storefront on Mondays.", 8.8, 1, superseded_by="day9", valid_to="2026-11-09"
    )
    newer = told("Fridays it is.", 1.0, 9, vector=(0.0,))
    assert first("On which day do we deploy the staging storefront?", ended, newer) == "day9"


def test_a_question_about_the_past_is_answered_by_what_held_before() -> None:
    assert first("What was the day on which we deploy the storefront?", NEW, OLD) == "day1"
    ended = told("We deployed the storefront on Tuesdays.", 9.1, 5, superseded_by="day9")
    assert first("On which day did we deploy the storefront before?", NEW, ended, OLD) == "day5"


def test_the_day_of_an_event_that_was_taken_in_is_what_is_asked_for() -> None:
    signs = (0.9, 0.69, 0.96, 0.97, 0.71, 0.75)
    noted = told("Dentist: Thursday 2026-12-03 09:30 UTC.", 3.2, 9, kind="event", left=0, signs=signs)
    node = msgspec.structs.replace(noted.hit.node, source=Source(agent="user", channel="ingest"))
    taken_in = msgspec.structs.replace(noted, hit=msgspec.structs.replace(noted.hit, node=node))
    assert first("When is the dentist?", taken_in) == "day9"
    assert first("When is the dentist?", noted) == ""
    barber = Asked("When is the barber?", frozenset(), {"barber": 0.0})
    assert measure(barber, taken_in)["event"]  # it has half of the question's terms at least, or is no answer


LONG = "That was such a long day for all of us, and I would not have missed a minute of it! "


def say(name: str, text: str) -> Hit:
    """A message of a chat that was taken in."""
    body = f"{name}: {text}"
    source = Source(session="chat.txt", channel="ingest")
    return Hit(node=Node(title=body[:80], body=body, tags=(name.lower(),), source=source), score=0.5)


def test_what_is_said_in_a_chat_is_read_behind_the_name_of_who_says_it() -> None:
    hit = say("Ana", f"{LONG}I bought a kayak in June. Have you been to the lake?")
    sentences = pick_sentences(hit, "When did Ana buy a kayak?")
    assert "I bought a kayak in June." in sentences
    assert not any(sentence.endswith("?") for sentence in sentences)
    assert in_context(hit, "I bought a kayak in June.") == "Ana: I bought a kayak in June."
    assert in_context(hit, f"Ana: {LONG.strip()}") == f"Ana: {LONG.strip()}"
    assert not find_speaker(Node(title="Rule", body="Rule: ask first", tags=("process",)))
    assert not find_speaker(Node(title="Ana: yes", body="Ana: yes"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Thanks, Ana! I sold the kayak.", False),
        ("Hey Ana, I sold the kayak.", False),
        ("I sold it, Ana.", False),
        ("Ana sold the kayak.", True),
        ("I met Ana.", True),
        ("The kayak is of Ana, and of me.", True),
    ],
)
def test_who_is_only_addressed_is_not_told_of(text: str, told: bool) -> None:
    each = Evidence(hit=say("Bo", text), sentence=text, mark=1.0)
    question = "What did Ana sell?"
    assert has_names(question, leave_out_addressed(question, each)) == told
    assert has_names("What did Bo sell?", leave_out_addressed("What did Bo sell?", each))
    file = Evidence(hit=Hit(node=Node(title=text), score=0.5), sentence=text, mark=1.0)
    assert has_names(question, leave_out_addressed(question, file))


def test_what_happened_later_replaces_nothing() -> None:
    event = told("A deploy of the storefront failed on a Friday.", 7.5, 9, kind="event")
    assert first(QUESTION, OLD, event) == "day1"


@pytest.mark.parametrize(
    ("question", "evidence"),
    [
        (
            "Who waters the plants?",
            told(
                "The plants stand in the hall.",
                -7.3,
                1,
                bare=-10.8,
                signs=(0.66, 0.56, 0.54, 0.75, 0.68, 0.76),
            ),
        ),
        (
            "What does Bob like?",
            told("Ada likes tea.", -7.4, 1, signs=(0.6, 0.46, 0.52, 0.52, 0.76, 0.73)),
        ),
        (
            "What did the storefront cost?",
            told(
                "The storefront ships on Fridays.",
                -4.1,
                1,
                bare=-10.3,
                signs=(0.57, 0.64, 0.53, 0.75, 0.72, 0.75),
            ),
        ),
        (
            "Which room is the pump in?",
            told("The pump is new.", -3.3, 1, bare=-8.4, signs=(0.68, 0.68, 0.48, 0.73, 0.71, 0.76)),
        ),
        (
            "What is the wifi password?",
            told(
                "The wifi chip is an ESP32-C6.",
                -7.1,
                1,
                bare=-10.8,
                signs=(0.68, 0.66, 0.52, 0.75, 0.83, 0.83),
            ),
        ),
        (
            "Who services lift 1?",
            told("Lift 2 is serviced by Hallam.", 5.0, 1, signs=(0.71, 0.67, 0.53, 0.74, 0.69, 0.73)),
        ),
        (
            "Who has the key to the grey van?",
            told(
                "The grey van holds a calving jack and a spare generator.",
                3.0,
                1,
                bare=-9.4,
                signs=(0.66, 0.66, 0.54, 0.82, 0.66, 0.77),
            ),
        ),
    ],
)
def test_what_only_names_the_subject_is_no_answer(question: str, evidence: Evidence) -> None:
    assert choose(question, [evidence]).answers == ()


def test_a_sentence_in_other_words_answers_if_nothing_else_is_near_it() -> None:
    asked = "How long can customers bring things back?"
    signs = (0.7, 0.68, 0.55, 0.68, 0.8, 0.69)
    assert first(asked, told("Returns are accepted within 30 days.", 1.3, 1, left=4, signs=signs)) == "day1"
    signs = (0.88, 0.73, 0.83, 0.87, 0.78, 0.78)
    song = told("The Turkish song is sung by Cem.", 7.6, 1, left=2, signs=signs)
    assert first("Who sings for Turkey?", song) == "day1"
    signs = (0.73, 0.69, 0.43, 0.69, 0.79, 0.78)
    fee = told("The fee for the trip to Vienna is 240 euros.", 0.9, 1, left=4, signs=signs)
    assert first("What do families pay for the journey to Austria?", fee) == "day1"


def test_what_shares_a_phrase_with_the_question_must_weigh_more(monkeypatch: pytest.MonkeyPatch) -> None:
    named = told("The storefront is new.", 0.0, 1)
    worded = told("The shop ships on Fridays.", 0.0, 2)
    monkeypatch.setattr("services.nexus.answers.choice.weigh", lambda *_: (LEAST + LEAST_NAMED) / 2)
    monkeypatch.setattr("services.nexus.answers.choice.is_told", lambda _, *rest: is_told(UNLIKELY, *rest))
    assert first(QUESTION, named) == ""
    assert first(QUESTION, worded) == "day2"


def test_how_near_words_come_is_summed_up_by_what_they_are() -> None:
    near = {"who": 0.6, "has": 0.8, "the": 0.9, "wifi": 0.9, "password": 0.5}
    found = summarise(near)
    assert (found["least"], found["opening"]) == (0.5, 0.6)
    assert found["mean"] == pytest.approx(0.7)
    assert found["whole"] == pytest.approx(0.74)
    assert summarise({})["least"] == summarise({"it": UNTOLD})["least"] == UNTOLD


def test_words_that_a_sentence_lacks_are_compared_with_those_that_it_has() -> None:
    words = {"ill": (1.0, 0.0), "sick": (0.6, 0.8), "office": (0.0, 1.0)}
    assert measure_rest(["Ill"], ["sick", "office"], words) == 0.6
    assert measure_rest([], ["sick"], words) > measure_rest(["ill"], [], words)


def test_an_answer_tells_the_sentence_its_origin_and_dates_and_no_ids() -> None:
    ended = told(
        "We used Celery.",
        9.0,
        3,
        signs=(0.9, 0.62, 0.86, 0.86, 0.79, 0.79),
        superseded_by="later",
        valid_to="2026-11-09T00:00:00+00:00",
    )
    packet = build_packet("What did we use before?", [ended.hit])
    chosen = choose("What did we use before?", [ended])
    response = answer_from_sentences(packet.query, packet, chosen, {"later": "We moved to Temporal."})
    dates = "2026-11-03, until 2026-11-09"
    assert response.text == f"We used Celery. (user, {dates}, then: We moved to Temporal.)"
    assert response.citations == ("day3",)
    assert 0.9 < response.confidence <= 1


def test_a_sentence_under_a_heading_is_read_with_it() -> None:
    under = Hit(node=Node(title="AGENTS › Deploys", body="On Tuesdays only."), score=0.5)
    assert in_context(under, "On Tuesdays only.") == "AGENTS › Deploys: On Tuesdays only."
    goal = Node(title="Where is the key?", kind="event", source=Source(channel="goal"))
    assert in_context(Hit(node=goal, score=0.5), "It is done.") == "It is done."


@pytest.mark.parametrize(
    ("question", "fitting", "unfit"),
    [
        ("Who leads the group?", "Led by Paul Okafor.", "It meets on Mondays."),
        ("When does it close?", "At 18:30.", "It has a door."),
        ("How many approvals does it need?", "It takes two approvals.", "It takes approvals."),
        ("How many interns are there?", "We have 3 interns.", "Interns get a key after two weeks."),
        ("What does it cost?", "It is 2,300 euros.", "It needs 14 litres."),
        ("What colour is the van?", "It is dark green.", "It is a Renault."),
        ("How heavy is the parcel?", "It has 3 kg.", "It was late for 73 minutes."),
        ("What is the phone number of Ada?", "Call 4417.", "Ada is away for 2 days."),
        ("Where is the key?", "Under the pot.", "It is made of brass."),
        ("Where is the test track?", "It lies at the river.", "The test track is closed on Wednesdays."),
        ("Where do we wait?", "Ana: upstairs", "We wait up to 12 days, at 20 degrees in May."),
        ("How old is she?", "She was born in 1984.", "She sits in room 12."),
    ],
)
def test_a_type_that_a_question_asks_for_must_be_there(question: str, fitting: str, unfit: str) -> None:
    assert fits_type(question, fitting)
    assert not fits_type(question, unfit)
    assert fits_type("What is it?", unfit)


def test_phrases_of_a_question_are_found_in_a_text() -> None:
    question = "How many approvals does a change to the payment code need?"
    assert find_phrases(question, "It takes two to merge a change to the payment code.") == {
        "change to the payment code",
        "payment code",
    }
    assert find_phrases("What does Ada think of Ada's team?", "ADA left.") == {"ada"}
    assert find_phrases("", "") == frozenset()
    assert find_phrases("Who services lift 1?", "Lift 1 is serviced by Ada.") == {"lift 1"}
    assert find_numbered("From 9 to 11:30 team B waits for lift 12, not in May 3.") == {
        ("team", "b"),
        ("lift", "12"),
    }
    assert find_names("How old is Chiara Conti?") == ("Chiara", "Conti")
    assert count_missing(frozenset({"staging cluster"}), "The staging area.") == 2


@pytest.mark.parametrize(
    ("text", "past"),
    [
        ("What was the deploy day?", True),
        ("What did we use before Temporal?", True),
        ("Who used to own the audit export?", True),
        ("Which tool did we previously use?", True),
        ("What was decided about caching?", False),
        ("What must be checked before a release?", False),
        ("Why was the van in the garage?", False),
        ("On which day do we deploy?", False),
    ],
)
def test_words_that_ask_for_the_past(text: str, past: bool) -> None:
    assert asks_past(text) is past


def test_words_that_ask_for_the_work_of_the_office() -> None:
    assert asks_about_work("What did the engineer do yesterday?")
    assert asks_about_work("What did the check-up find?")
    assert not asks_about_work("What do the background jobs run on?")


def test_a_title_that_is_only_the_beginning_of_a_text_is_no_heading() -> None:
    body = "We take part in the market on 5 and 6 December. Marek is responsible."
    node = Node(id="n", title="We take part in the market on 5 and 6 December. Marek…", body=body)
    evidence = Evidence(hit=Hit(node=node, score=1.0), sentence="Marek is responsible.", mark=5.0)
    chosen = Chosen(answers=(evidence,))
    packet = build_packet("Who is responsible?", [])
    assert answer_from_sentences(packet.query, packet, chosen, {}).text.startswith(f"{body} (")
    long = msgspec.structs.replace(node, body=f"{body} {'More of the market. ' * 20}")
    evidence = msgspec.structs.replace(evidence, hit=Hit(node=long, score=1.0))
    told = answer_from_sentences(packet.query, packet, Chosen(answers=(evidence,)), {}).text
    assert told.startswith("Marek is responsible. (")


def test_a_text_that_two_memories_have_is_told_once() -> None:
    twice = tuple(told("The valve leaks.", 1, day) for day in (3, 2))
    other = told("The pump is loud.", 1, 1)
    text = answer_from_sentences("q", build_packet("q", []), Chosen(answers=(*twice, other)), {}).text
    assert text.count("The valve leaks.") == 1
    assert text.startswith(twice[0].text)
    assert "Also:\n- The pump is loud." in text


def test_a_record_is_read_as_a_whole_and_the_name_of_a_file_not_at_all() -> None:
    row = Node(id="r", title="vacation › Anna", body="who: Anna\nfrom: 2027-02-08\nto: 2027-02-19")
    read = pick_sentences(Hit(node=row, score=1.0), "When is Anna on vacation?")
    assert "who: Anna, from: 2027-02-08, to: 2027-02-19" in read
    assert "from: 2027-02-08" not in read
    diary = Node(id="d", title="marek-diary", body="Flour was short.")
    assert pick_sentences(Hit(node=diary, score=1.0), "What did Marek write?") == ["Flour was short."]


def test_an_entry_of_a_list_is_quoted_without_its_mark() -> None:
    node = Node(id="n", title="Flour comes from the mill…", body="- Flour comes from the mill on Wednesdays.")
    evidence = Evidence(hit=Hit(node=node, score=1.0), sentence="Flour comes from the mill…", mark=5.0)
    packet = build_packet("Who brings the flour?", [])
    told = answer_from_sentences(packet.query, packet, Chosen(answers=(evidence,)), {}).text
    assert told.startswith("Flour comes from the mill on Wednesdays. (")


def test_what_a_goal_was_asked_is_no_answer_to_the_same_question() -> None:
    question = "Where are old invoices kept?"
    body = f"What was found: It is done.\nIt was asked: Find an answer: {question}\nwork by scout: completed"
    report = Node(id="g", kind="event", title=question, body=body, source=Source(channel="goal"))
    read = pick_sentences(Hit(node=report, score=1.0), question)
    assert read
    assert not any("invoices" in each for each in read)


def test_a_heading_before_a_sentence_is_not_quoted_with_it() -> None:
    body = "- The door code of the workshop is 4471."
    node = Node(id="n", title="How to reach us › The door code of the workshop is 4471.", body=body)
    sentence = "How to reach us › The door code of the workshop is 4471."
    evidence = Evidence(hit=Hit(node=node, score=1.0), sentence=sentence, mark=5.0)
    packet = build_packet("What is the door code?", [])
    told = answer_from_sentences(packet.query, packet, Chosen(answers=(evidence,)), {}).text
    assert told.startswith("The door code of the workshop is 4471. (")
    assert node_statement(node) == "How to reach us: The door code of the workshop is 4471."


@pytest.mark.parametrize(
    ("question", "without", "holding"),
    [
        ("What is Petra's telephone number?", "Petra works on billing.", "Petra: 0151 2233"),
        ("What is Ann's telephone number?", "[16:05] Ann: telemetry is decoded", "[16:05] Ann: it is 551 22"),
        ("What does the starter pack cost?", "The starter pack has a sword.", "The starter pack is 4.99."),
        ("How many members has the club?", "The club has a boat.", "The club has thirty members."),
        ("What does the tour cost?", "The tour leaves from the pier.", "The tour is free."),
    ],
)
def test_only_a_number_answers_what_asks_for_one(question: str, without: str, holding: str) -> None:
    sure = {"signs": (0.9, 0.9, 0.9, 0.9, 0.9, 0.9), "left": 0}
    assert first(question, told(without, 9.0, 1, **sure)) == ""
    assert first(question, told(holding, 9.0, 1, **sure)) == "day1"
    assert (
        first("Who decides about the price?", told("Ada decides about the price.", 9.0, 1, **sure)) == "day1"
    )
