"""What short messages mean: answers to what was asked back, follow-ups, and what is left as it is."""

from datetime import UTC, datetime

import msgspec
import pytest

from services.nexus.conversation import pending
from services.nexus.conversation import resolve as resolving
from services.nexus.conversation.ellipsis import find_subject, swap
from services.nexus.conversation.mentions import find_mentioned
from services.nexus.conversation.pending import NOTHING, Resolved, format_question, read_asked
from services.nexus.conversation.resolve import NOT_ASKED
from services.nexus.conversation.store import answer, begin
from services.nexus.routing.request import Request
from shared.contracts import AskedBack, Choice, Conversation, ConversationTurn, Response
from shared.contracts.emails import CUT, MAX_TURNS
from shared.language.utterance import read_utterance

NOW = datetime(2026, 3, 18, 13, 5, tzinfo=UTC)
TIME = AskedBack(template="Remind me next Friday {answer} to call Ana", expects="time")
HALF = AskedBack(
    choices=(
        Choice(label="5:00 in the morning", text="Remind me tomorrow at 5:00 to run"),
        Choice(label="17:00 in the afternoon", text="Remind me tomorrow at 17:00 to run"),
    ),
    template="Remind me tomorrow {answer} to run",
    expects="time",
)
YES = AskedBack(choices=(Choice(label="Yes", text="Forget the note"), Choice(label="No")))
WHICH = AskedBack(
    choices=tuple(Choice(label=each, text=f"/{each} x") for each in ("news", "papers", "web search"))
)
PLACE = AskedBack(template="Tell the weather in {answer}", expects="text")


def settle(text: str, asks: AskedBack) -> Resolved | None:
    return pending.settle(read_utterance(text), asks)


def resolve(text: str, conversation: Conversation, now: datetime, *, with_model: bool = False) -> Resolved:
    return resolving.resolve(read_utterance(text), conversation, now, with_model=with_model)


@pytest.mark.parametrize(
    ("asks", "said", "meant"),
    [
        (TIME, "at 9", "Remind me next Friday at 9 to call Ana"),
        (TIME, "9", "Remind me next Friday at 9 to call Ana"),
        (TIME, "9am please", "Remind me next Friday 9am to call Ana"),
        (TIME, "half past nine.", "Remind me next Friday half past nine to call Ana"),
        (TIME, "in the evening", "Remind me next Friday in the evening to call Ana"),
        (TIME, "what time is it?", None),
        (TIME, "remind me tomorrow at 9 to call Tom", None),
        (HALF, "2", "Remind me tomorrow at 17:00 to run"),
        (HALF, "the second one", "Remind me tomorrow at 17:00 to run"),
        (HALF, "5 pm", "Remind me tomorrow at 17:00 to run"),
        (HALF, "morning", "Remind me tomorrow at 5:00 to run"),
        (HALF, "no, the other", "Remind me tomorrow at 17:00 to run"),
        (HALF, "the latter", "Remind me tomorrow at 17:00 to run"),
        (HALF, "at 6", "Remind me tomorrow at 6 to run"),
        (YES, "yes", "Forget the note"),
        (YES, "Yes, please!", "Forget the note"),
        (YES, "go ahead", "Forget the note"),
        (YES, "yes but not today, I want to think about what this one means first for us all", None),
        (WHICH, "papers", "/papers x"),
        (WHICH, "number 3", "/web search x"),
        (WHICH, "the last one", "/web search x"),
        (WHICH, "9", None),
        (PLACE, "Bern", "Tell the weather in Bern"),
        (PLACE, "what is 2 plus 2?", None),
        (PLACE, "", None),
        (YES, "or actually yes, keep it", "Forget the note"),
        (YES, "ok save it", "Forget the note"),
        (YES, "hm, that would be great", "Forget the note"),
    ],
)
def test_a_short_answer_settles_what_was_asked_back(asks: AskedBack, said: str, meant: str | None) -> None:
    found = settle(said, asks)
    assert (found.joined or found.text if found else None) == meant


@pytest.mark.parametrize(
    "said", ["no", "No.", "never mind", "neither", "cancel that", "2", "no need", "hm rather not"]
)
def test_a_no_does_nothing(said: str) -> None:
    found = settle(said, YES)
    assert found is not None
    assert (found.reply, found.understood) == (NOTHING, "")


def test_a_yes_to_several_choices_is_asked_again() -> None:
    found = settle("yes", WHICH)
    assert found is not None
    assert found.asks == WHICH
    assert found.reply == "Which one?\n1. news\n2. papers\n3. web search"
    assert format_question("Which one?", WHICH) == found.reply


def test_what_a_task_asks_back_may_be_anything() -> None:
    assert read_asked({"asks": HALF.to_dict()}) == HALF
    for odd in ({}, {"asks": 3}, {"asks": {"choices": "x"}}, {"asks": {"expects": "money"}}):
        assert read_asked(odd) is None


def talk(
    said: str, answer: str, *, route: str = "nexus", goal: str = "", failed: bool = False
) -> Conversation:
    response = Response(text=answer, route_used=route, goal_id=goal)
    turn = ConversationTurn(
        id="q1", text=said, answer=answer, route=route, goal_id=goal, state="answered", failed=failed
    )
    return Conversation(
        session_id="s",
        asker="user",
        begun_at=NOW.isoformat(),
        title="t",
        questions=1,
        turns=(turn,),
        mentioned=find_mentioned(response),
    )


DEPLOYS = talk("When do we deploy?", "Deploys happen on Tuesdays. (user, 2026-11-02)")
OWNER = talk("Who owns the billing service?", "Ana Brandt owns the billing service. (user, 2026-11-02)")
SUCCESSOR = talk(
    "Who does support?",
    "Wei left for a year in Taiwan; Samira Haddad takes over support. (x.md, 2026-10-05)\n"
    "Older, and alike:\n- Wei Zhang does support. (team.md, 2026-06-02)",
)
WEATHER = talk("What's the weather in Bern today?", "Sunny, 12 degrees", route="tool:weather")
REMINDER = talk(
    "Remind me tomorrow at 9 to call Ana",
    "I shall remind you on Tuesday at 09:00: call Ana\nIt is reminder r81c2aabbcc.",
    route="tool:reminder_set",
)
CANCELLED = talk("cancel that", "r81c2aabbcc (call Ana) is cancelled.", route="tool:reminder_cancel")
REMEMBERED = talk("remember that x is y", "To erase it: mailroom memory forget said12", route="tool:remember")
PLANNED = talk(
    "every night at 2 run the tests of ~/depot", "s12ab34c runs every day at 02:00", route="tool:schedule"
)
LISTED = talk("what are my reminders?", "r81c2aabbcc Tue 09:00 call Ana\nr91c2aabbcc Wed 09:00 pay rent")
GOAL = talk("Run the tests of ~/src/shop", "I started goal goal_abcdef12", goal="goal_abcdef12")
PAPERS = talk(
    "any new papers on graph memory?", "- Graphs that remember\n- Memory in graphs", route="tool:papers"
)
UNKNOWN = talk("do you remember my shoe size?", "Memory holds nothing that answers this.")
FAILED = talk(
    "remind me to call the tuner at 9", "09:00 has passed today", route="tool:reminder_set", failed=True
)
KEPT = talk(
    "remember that we pay the cleaner 18 an hour",
    "I shall remember: we pay the cleaner 18 an hour\nTo erase it for good: mailroom memory forget said13",
    route="tool:remember",
)
GATE = talk(
    "keep in mind that the north gate is closed till Easter",
    "I shall remember: the north gate is closed till Easter\nTo erase it: x",
    route="tool:remember",
)
GOALS = talk("how far is the catalogue", "There are no goals yet.", route="tool:goals")
MAIL = talk("find the mail about the parking permit", "1 mail", route="tool:mail")
QUEUED = talk("render it tonight", "Queued as job-20261123-001.", route="tool:night_job")
SUM = talk("what is 15% of 80?", "12", route="tool:arithmetic")


ENDED_BADLY = talk(
    "did anything fail?",
    "- failed, yesterday 16:04, after 4m00s: Run the tests of ~/kiln - 2 of 48 tests fail (goal_kilntests1)",
    route="tool:goals",
)


@pytest.mark.parametrize(
    ("before", "said", "meant"),
    [
        (DEPLOYS, "and who decided that?", "Who decided that deploys happen on Tuesdays?"),
        (DEPLOYS, "why?", "Why is it that deploys happen on Tuesdays?"),
        (DEPLOYS, "who said so?", "Who said that deploys happen on Tuesdays?"),
        (DEPLOYS, "what about staging?", "When do we deploy staging?"),
        (DEPLOYS, "and before?", "When do we deploy before?"),
        (DEPLOYS, "what about before that?", "When do we deploy before?"),
        (DEPLOYS, "previously?", "When do we deploy before?"),
        (DEPLOYS, "and on Friday?", "When do we deploy on Friday?"),
        (OWNER, "and the search service?", "Who owns the search service?"),
        (OWNER, "what about search?", "Who owns the search service?"),
        (OWNER, "when did she start?", "When did Ana Brandt start?"),
        (OWNER, "what is her number?", "What is Ana Brandt's number?"),
        (OWNER, "who is that?", "Who is Ana Brandt?"),
        (SUCCESSOR, "what is her number?", "What is Samira Haddad's number?"),
        (OWNER, "what does it do?", "What does the billing service do?"),
        (WEATHER, "and tomorrow?", "/weather What's the weather in Bern tomorrow?"),
        (WEATHER, "tomorrow?", "/weather What's the weather in Bern tomorrow?"),
        (WEATHER, "in Zurich?", "/weather What's the weather in Zurich today?"),
        (WEATHER, "and Rome?", "/weather What's the weather in Rome today?"),
        (WEATHER, "and there on Friday?", "/weather What's the weather in Bern on Friday?"),
        (SUM, "make it 20%", "/arithmetic what is 20% of 80?"),
        (SUM, "and of 200?", "/arithmetic what is 15% of 200?"),
        (REMINDER, "make it 10 instead", "Move the reminder r81c2aabbcc to 10"),
        (REMINDER, "no, at 10", "Move the reminder r81c2aabbcc to 10"),
        (REMINDER, "move it to 10am", "Move the reminder r81c2aabbcc to 10am"),
        (REMINDER, "10 would be better", "Move the reminder r81c2aabbcc to 10"),
        (REMINDER, "half an hour earlier please", "Move the reminder r81c2aabbcc half an hour earlier"),
        (REMINDER, "actually Friday would be better", "Move the reminder r81c2aabbcc to Friday"),
        (REMINDER, "undo that", "undo the change of the reminder"),
        (CANCELLED, "undo that", "undo the change of the reminder"),
        (CANCELLED, "hm no, bring it back", "undo the change of the reminder"),
        (CANCELLED, "oh wait, put it back please", "undo the change of the reminder"),
        (REMINDER, "leave it on the original day", "undo the change of the reminder"),
        (REMINDER, "no, keep it at the old time", "undo the change of the reminder"),
        (REMINDER, "leave it as it was", "undo the change of the reminder"),
        (ENDED_BADLY, "try it again please", "Run the tests of ~/kiln"),
        (ENDED_BADLY, "once more", "Run the tests of ~/kiln"),
        (REMEMBERED, "undo", "/forget memory said12"),
        (PLANNED, "make that 3", "/schedule every night at 3 run the tests of ~/depot"),
        (PLANNED, "cancel that", "/stop s12ab34c"),
        (REMINDER, "cancel that", "/reminder_cancel cancel reminder r81c2aabbcc"),
        (LISTED, "cancel the second one", "cancel reminder r91c2aabbcc"),
        (LISTED, "snooze number 2", "snooze reminder r91c2aabbcc"),
        (GOAL, "cancel that", "/stop goal_abcdef12"),
        (GOAL, "stop it please", "/stop goal_abcdef12"),
        (GOAL, "is it done?", "Is goal goal_abcdef12 done?"),
        (GOAL, "how is it going?", "How is goal goal_abcdef12 going?"),
        (GOAL, "the same for ~/src/blog", "Run the tests of ~/src/blog"),
        (PAPERS, "tell me more about the first one", "Tell me more about “Graphs that remember”"),
        (PAPERS, "2", "Tell me more about “Memory in graphs”"),
        (PAPERS, "and on vector search?", "any new papers on vector search?"),
        (PAPERS, "only the ones of today", "/papers any new papers on graph memory, only the ones of today"),
        (PAPERS, "what does it say", "any new papers on graph memory, what does it say"),
        (WEATHER, "wind as well please", "What's the weather in Bern today, wind as well please"),
        (UNKNOWN, "it's 43", "Remember that my shoe size is 43"),
        (UNKNOWN, "since when", "do you remember my shoe size, since when"),
        (FAILED, "make it 10 instead", "remind me to call the tuner at 10"),
        (QUEUED, "cancel that", "/stop job-20261123-001"),
        (LISTED, "drop the first", "cancel reminder r81c2aabbcc"),
        (OWNER, "tell me more", "/memory Tell me more about the billing service"),
        (KEPT, "make that 19", "/correct we pay the cleaner 19 an hour"),
        (GATE, "sorry, the south gate", "/correct the south gate is closed till Easter"),
        (GOALS, "who does that", "Who does the catalogue?"),
        (REMINDER, "scratch that second one", "cancel reminder r81c2aabbcc"),
        (REMINDER, "turn it off", "/reminder_cancel cancel reminder r81c2aabbcc"),
        (QUEUED, "hm no stop, leave it", "/stop job-20261123-001"),
        (REMINDER, "and one at 10.30", "Remind me tomorrow at 10.30 to call Ana"),
        (REMINDER, "call it shop keys", "Rename reminder r81c2aabbcc to shop keys"),
        (REMINDER, "change the text to call Anna Berg", "Rename reminder r81c2aabbcc to call Anna Berg"),
        (REMINDER, "and on Friday at 7", "Remind me on Friday at 7 to call Ana"),
    ],
)
def test_a_follow_up_becomes_a_whole_message(before: Conversation, said: str, meant: str) -> None:
    found = resolve(said, before, NOW)
    assert meant in (found.text, found.understood, found.joined)
    assert found.understood or found.joined
    assert not found.reply


@pytest.mark.parametrize(
    "said",
    [
        "what time is it?",
        "is it raining?",
        "thanks",
        "it is broken",
        "the second edition of the book is late",
        "and when does the shop open?",
        "what about the weather in Rome?",
        "remind me tomorrow at 9 to cancel the order of the second router",
        "/help",
        "Why is the sky blue?",
        "this that it so they him her there then " * 30,
    ],
)
def test_a_whole_message_is_left_as_it_is(said: str) -> None:
    found = resolve(said, DEPLOYS, NOW)
    assert (found.text, found.understood, found.reply) == (said, "", "")


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (MAIL, "put that in an email to Bridget"),
        (WEATHER, "can you move it to 4"),
        (KEPT, "hazelnuts i mean"),
        (
            talk("tell scout to look at it", "I wrote to scout", route="tool:send_mail"),
            "and cortex to check the log",
        ),
        (talk("is it free?", "Nothing waits", route="tool:waiting"), "why not"),
        (UNKNOWN, "that is all for today"),
    ],
)
def test_what_only_looks_like_a_part_is_left_as_it_is(before: Conversation, said: str) -> None:
    assert resolve(said, before, NOW) == Resolved(text=said)


def test_what_was_said_first_is_told() -> None:
    assert resolve("what did I ask first?", DEPLOYS, NOW).reply == "Your first message here was: “t”"


@pytest.mark.parametrize(("before", "text"), [(MAIL, "ok forget it"), (WEATHER, "forget about it")])
def test_what_was_not_done_is_dropped(before: Conversation, text: str) -> None:
    found = resolve(text, before, NOW)
    assert (found.route, found.reply) == ("tool:small_talk", "All right.")


def test_a_stop_ends_the_work_that_what_is_offered_would_add_to() -> None:
    offered = AskedBack(choices=(Choice(label="Yes", text="/work write it: two pages"), Choice(label="No")))
    assert settle("no stop, cancel", offered) is None
    found = settle("no", offered)
    assert found is not None
    assert found.reply == NOTHING


@pytest.mark.parametrize("said", ["what about Tom?", "and tomorrow?", "again"])
def test_what_has_an_effect_is_asked_before_it_is_done_again(said: str) -> None:
    found = resolve(said, REMINDER, NOW)
    assert found.reply.startswith("Shall I do this: Remind me")
    assert found.asks is not None
    assert [each.label for each in found.asks.choices] == ["Yes", "No"]
    assert not found.asks.choices[1].text


@pytest.mark.parametrize("said", ["just kidding", "thanks a lot", "more coffee for me", "only joking"])
def test_small_talk_adds_nothing(said: str) -> None:
    assert resolve(said, PAPERS, NOW).understood == ""


@pytest.mark.parametrize("said", ["cancel the third one", "abstract of the fifth", "more on the ninth one"])
def test_what_was_not_listed_is_said_not_to_be(said: str) -> None:
    assert resolve(said, LISTED, NOW).reply == "My last answer named only 2, so I do not know what that is."


@pytest.mark.parametrize("said", ["yes please", "yep", "go ahead"])
def test_a_yes_to_nothing_does_nothing(said: str) -> None:
    found = resolve(said, OWNER, NOW)
    assert (found.reply, found.route) == (NOT_ASKED, "tool:small_talk")


def test_what_was_said_is_repeated_and_dated() -> None:
    assert resolve("what did I just tell you?", DEPLOYS, NOW).reply == "You wrote: “When do we deploy?”"
    assert resolve("say that again", DEPLOYS, NOW).reply == "Deploys happen on Tuesdays. (user, 2026-11-02)"
    assert resolve("when was that?", DEPLOYS, NOW).reply == "Memory has it from 2026-11-02."


def test_of_several_nothing_is_ended_unless_it_is_named() -> None:
    assert resolve("cancel that", LISTED, NOW).understood == ""


def test_a_model_reads_the_conversation_itself_but_what_was_asked_back_is_settled() -> None:
    assert resolve("and who decided that?", DEPLOYS, NOW, with_model=True).understood == ""
    asked = msgspec.structs.replace(DEPLOYS, asks=HALF)
    assert resolve("2", asked, NOW, with_model=True).text == HALF.choices[1].text


def test_the_first_message_of_a_conversation_follows_nothing() -> None:
    empty = Conversation(session_id="s", asker="user", begun_at=NOW.isoformat())
    for said in ("and tomorrow?", "cancel that", "the second one", "why?"):
        assert resolve(said, empty, NOW).text == said


@pytest.mark.parametrize(
    ("before", "other", "after"),
    [
        ("What is the staging server called?", "the production one", "What is the production server called?"),
        ("How many goals failed today?", "tasks", "How many tasks failed today?"),
        ("any failed goals?", "tasks", "any failed tasks?"),
        ("Remind me tomorrow at 9 to call Ana", "10", "Remind me tomorrow at 10 to call Ana"),
        ("Remind me tomorrow at 9 to call Ana", "Friday", "Remind me Friday at 9 to call Ana"),
        ("what's on my calendar on Friday?", "Monday", "what's on my calendar on Monday?"),
        ("What is Ana's number?", "Tom's", "What is Tom's number?"),
        ("run the tests of ~/src/shop", "~/src/blog", "run the tests of ~/src/blog"),
        ("weather in bern", "zurich", "weather in zurich"),
    ],
)
def test_a_phrase_takes_the_place_of_its_like(before: str, other: str, after: str) -> None:
    assert swap(before, other) == after


def test_the_subject_of_a_message() -> None:
    assert find_subject("What port does the billing service use?") == "the billing service"
    assert find_subject("When is Samira's birthday?") == "Samira's birthday"
    assert find_subject("remember that Samira's birthday is on 3 March") == "Samira's birthday"
    assert find_subject("Is goal goal_abcdef12 done?") == "goal goal_abcdef12"
    assert find_subject("hm") == ""


def test_a_person_who_was_named_earlier_is_meant_if_the_last_answer_names_none() -> None:
    """Neither what a message was taken for nor advice names a person."""
    asked = Request(asker="user", letter_id="q2", text="and before?", session="s")
    talked = begin(SUCCESSOR, asked, Resolved(text="Who did it before?", understood="Who did it before?"))
    nothing = Response(text="Memory holds nothing that answers this.\nSearch with Scout.", cause="q2")
    talked = answer(talked, msgspec.structs.replace(asked, understood="Who did it before?").reply(nothing))
    assert talked.turns[-1].answer.startswith("Memory holds nothing")
    assert resolve("what is her number?", talked, NOW).text == "What is Samira Haddad's number?"


def test_a_conversation_of_ten_thousand_turns_stays_small() -> None:
    """The last hundred of them, since none depends on more than the record before it."""
    conversation = Conversation(
        session_id="s", asker="user", begun_at=NOW.isoformat(), title="water", questions=9_900
    )
    long = "water the palms of the hall " * 40
    for number in range(9_900, 10_000):
        request = Request(asker="user", letter_id=f"q{number}", text=f"{number} {long}", person="ana")
        conversation = begin(conversation, request, Resolved(text=request.text, understood=request.text))
        response = Response(text=f"r{number:010x} {long}\n" * 3, cause=request.letter_id)
        conversation = answer(conversation, response)
    assert (conversation.questions, len(conversation.turns)) == (10_000, MAX_TURNS)
    assert conversation.turns[-1].id == "q9999"
    assert len(conversation.to_json()) < 20_000
    assert conversation.title == "water"
    assert all(len(turn.text) <= CUT and len(turn.answer) <= CUT for turn in conversation.turns)


def test_what_was_said_before_a_message_is_no_part_of_it() -> None:
    found = resolve("never mind. is there a concert at the church on Sunday?", WEATHER, NOW)
    assert found.text == "is there a concert at the church on Sunday?"


def test_what_was_begun_further_back_is_ended_by_its_tool() -> None:
    turns = (*talk("sort the scans tonight", "Queued.", route="tool:night_job").turns, *WEATHER.turns)
    found = resolve("ok then rather not", msgspec.structs.replace(WEATHER, turns=turns), NOW)
    assert found.text == "/stop ok then rather not"


def test_what_is_asked_before_it_is_repeated_is_of_the_same_tool() -> None:
    found = resolve("and for ~/shop?", PLANNED, NOW)
    assert (found.route, found.asks is not None) == ("tool:schedule", True)


def test_what_is_cancelled_is_not_cancelled_again_and_what_lasts_is_said_to() -> None:
    assert resolve("cancel that", CANCELLED, NOW).reply.startswith("It is cancelled already")
    sent = talk("write to Ana", "I wrote to Ana", route="tool:send_mail")
    assert resolve("undo that", sent, NOW).reply == "What was sent cannot be taken back."


def test_a_time_after_an_event_adds_no_second_one() -> None:
    event = talk("add lunch on Friday at 12", "Added to the calendar: lunch", route="tool:calendar_add")
    for said in ("10 would be better", "make it 1pm", "half an hour later"):
        assert resolve(said, event, NOW).reply.startswith("I add events and cannot change them"), said


@pytest.mark.parametrize("route", ["tool:statement", "tool:correct"])
def test_a_pronoun_means_one_who_was_named_by_people_or_memory(route: str) -> None:
    told = talk("Nina moved to Birch Lane", "Memory has it. Nothing was changed yet.", route=route)
    found = resolve("Where does she live now?", told, NOW)
    assert "Where does Nina live now?" in (found.text, found.joined)


SET = talk(
    "remind me tomorrow at 14:30 to call the agency",
    "I shall remind you on Thursday 19 March 2026 at 14:30 (Europe/Berlin, UTC+01:00): call the agency\n"
    "It is reminder r81c2aabbcc. Not what you meant? mailroom reminders cancel r81c2aabbcc",
    route="tool:reminder_set",
)
MOVED = talk(
    "make it 10",
    "r81c2aabbcc (pay rent) is put off until Tuesday 1 December 2026 at 10:00 (UTC).",
    route="tool:reminder_change",
)
TESTED = talk("run the tests of ~/src/ledger please", "I started it", goal="goal_abcdef12")
TOLD_OF = talk(
    "How far is goal goal_abcdef12?",
    "About that:\n- in progress: run the tests (goal_abcdef12)",
    route="tool:goals",
)
KEPT_FACT = talk(
    "note: the vpn certs expire in August",
    "I shall remember: the vpn certs expire in August",
    route="tool:remember",
)
HOURS = talk(
    "note: the office closes at 18:00 on Fridays",
    "I shall remember: the office closes at 18:00 on Fridays",
    route="tool:remember",
)
LETTER = talk("Draft a letter to the landlord about the damp", "I started it", goal="goal_abcdef12")


@pytest.mark.parametrize(
    ("before", "said", "meant"),
    [
        (SET, "and another one an hour earlier", "Remind me on 2026-03-19 at 13:30 to call the agency"),
        (SET, "quarter past instead", "Move the reminder r81c2aabbcc to 14:15"),
        (SET, "make it half past three", "Move the reminder r81c2aabbcc to half past three"),
        (SET, "one more 2 days later please", "Remind me on 2026-03-21 at 14:30 to call the agency"),
        (MOVED, "and another one a day earlier", "Remind me on 2026-11-30 at 10:00 to pay rent"),
        (LISTED, "the first one, push it to tomorrow", "push reminder r81c2aabbcc to tomorrow"),
        (LISTED, "and the second, cancel that", "cancel reminder r91c2aabbcc"),
        (PLANNED, "stop doing that", "/stop s12ab34c"),
        (PLANNED, "take that one out again", "/stop s12ab34c"),
        (GOAL, "forget it, cancel that", "/stop goal_abcdef12"),
        (SET, "same on Friday", "Remind me on Friday at 14:30 to call the agency"),
        (SET, "and the same again tomorrow at nine", "Remind me tomorrow at nine to call the agency"),
        (SET, "push it back an hour", "Move the reminder r81c2aabbcc an hour later"),
        (
            SET,
            "can you bring it forward by half an hour",
            "Move the reminder r81c2aabbcc half an hour earlier",
        ),
        (SET, "no wait, forget it", "/reminder_cancel cancel reminder r81c2aabbcc"),
        (SET, "make it half nine on Friday", "Move the reminder r81c2aabbcc to half nine on Friday"),
        (TESTED, "and lint it too", "lint ~/src/ledger"),
        (TESTED, "ok check that for secrets as well", "check ~/src/ledger for secrets"),
        (TESTED, "how far is it?", "How far is goal goal_abcdef12?"),
        (TOLD_OF, "what did it find?", "What did goal goal_abcdef12 find?"),
        (HOURS, "sorry, at 17:00", "/correct the office closes at 17:00 on Fridays"),
        (KEPT_FACT, "sorry, in September", "/correct the vpn certs expire in September"),
        (LISTED, "make tonight's job 4 am instead", "make tonight's job 4 am instead"),
        (LETTER, "make it a bit shorter please", "make it a bit shorter please"),
    ],
)
def test_what_was_done_last_is_done_otherwise(before: Conversation, said: str, meant: str) -> None:
    assert resolve(said, before, NOW).text == meant


@pytest.mark.parametrize("said", ["at 10 instead", "make it 10:30", "no, at 9 rather", "tomorrow instead"])
def test_a_time_joins_no_question_that_names_none(said: str) -> None:
    found = resolve(said, OWNER, NOW)
    assert (found.text, found.route) == (said, "tool:unclear")
    assert found.reply.startswith("What is to be at that time?")


def test_another_time_for_a_job_of_the_night_names_the_one_before() -> None:
    queued = talk("tonight at 11 sort ~/scans", "Queued as job-20261123-001.", route="tool:night_job")
    found = resolve("make that half past eleven", queued, NOW)
    assert (found.text, found.replaces) == (
        "/night_job tonight at half past eleven sort ~/scans",
        "job-20261123-001",
    )


def test_a_time_that_belongs_to_nothing_is_asked_about() -> None:
    unclear = talk("at 10 instead", "What is to be at that time?", route="tool:unclear")
    for before in (unclear, msgspec.structs.replace(OWNER, turns=())):
        assert resolve("at 10 instead", before, NOW).reply.startswith("What is to be at that time?")
    assert resolve("quarter past instead", PLANNED, NOW).route == "tool:unclear"
    assert resolve("at 10 instead", FAILED, NOW).text == "remind me to call the tuner at 10"
    assert resolve("the report instead", msgspec.structs.replace(OWNER, turns=()), NOW).reply == ""


def test_a_time_after_another_question_offers_to_move_the_last_reminder() -> None:
    turns = (*SET.turns, *OWNER.turns)
    found = resolve("at 10 instead", msgspec.structs.replace(OWNER, turns=turns), NOW)
    assert found.asks is not None
    assert found.asks.choices[0].text == "Move the reminder r81c2aabbcc to 10"
    assert resolve("on Friday instead", WEATHER, NOW).text == "/weather What's the weather in Bern on Friday?"


def test_what_a_tool_told_is_no_fact_that_somebody_decided() -> None:
    spent = talk("what's the budget of the play", "Today: 12,900 tokens, $0.11.", route="tool:spending")
    found = resolve("and who approved it", spent, NOW)
    assert "tokens" not in found.text + found.joined


def test_the_source_of_an_answer_is_told() -> None:
    assert resolve("where does that come from?", DEPLOYS, NOW).reply == "Memory has it from: user, 2026-11-02"
    assert resolve("who told you that", KEPT, NOW).reply == "You told me, in this conversation."
    assert not resolve("how do you know that?", UNKNOWN, NOW).reply


WORKED = talk(
    "Run the tests of /srv/shop", "I started goal goal_abcdef12", route="conductor", goal="goal_abcdef12"
)
DATED = talk(
    "remind me at 3pm to water the plants",
    "I shall remind you on Wednesday 18 March 2026 at 15:00 (Europe/Berlin, UTC+01:00): water the plants\n"
    "It is reminder r81c2aabbcc.",
    route="tool:reminder_set",
)
AGENDA = talk(
    "when is Anna coming",
    "In 2 days:\n- Fri 2026-03-20 14:00 to 15:30 Anna Lindt visits",
    route="tool:calendar",
)


@pytest.mark.parametrize(
    ("before", "said", "meant"),
    [
        # work once more, at another time, regularly, in another folder
        (WORKED, "once more please", "Run the tests of /srv/shop"),
        (WORKED, "one more time", "Run the tests of /srv/shop"),
        (WORKED, "and for /srv/blog too", "Run the tests of /srv/blog"),
        (WORKED, "not that one, /srv/store", "Run the tests of /srv/store"),
        (WORKED, "sorry i meant ~/store", "Run the tests of ~/store"),
        (WORKED, "do that every morning at 6", "/schedule Run the tests of /srv/shop every morning at 6"),
        (
            WORKED,
            "not today, do it on thursday night",
            "/night_job Run the tests of /srv/shop on thursday night",
        ),
        (WORKED, "do it again tonight", "/night_job Run the tests of /srv/shop tonight"),
        (WORKED, "result?", "/goals How does goal goal_abcdef12 stand?"),
        (WORKED, "any news yet?", "/goals How does goal goal_abcdef12 stand?"),
        (WORKED, "do you like music", "do you like music"),
        # a reminder that is to repeat
        (DATED, "do that every day", "Move the reminder r81c2aabbcc to every day at 15:00"),
        (DATED, "every week actually", "Move the reminder r81c2aabbcc to every week on Wednesday at 15:00"),
        (DATED, "on weekdays", "Move the reminder r81c2aabbcc to on weekdays at 15:00"),
        (DATED, "every friday at 9 please", "Move the reminder r81c2aabbcc to every friday at 9"),
        (DATED, "hm can we do 6 instead", "Move the reminder r81c2aabbcc to 6"),
        # an event that was told of
        (AGENDA, "how long is it", "/calendar how long is “Anna Lindt visits” on 2026-03-20"),
        (AGENDA, "how long does she stay", "/calendar how long does “Anna Lindt visits” on 2026-03-20 stay"),
        (AGENDA, "and after that?", "/calendar What is after “Anna Lindt visits” on 2026-03-20?"),
        (AGENDA, "and before?", "/calendar What is before “Anna Lindt visits” on 2026-03-20?"),
        # where memory has it from
        (OWNER, "are you sure?", "Memory has it from: user, 2026-11-02"),
        (OWNER, "who says that?", "Memory has it from: user, 2026-11-02"),
    ],
)
def test_what_follows_on_what_just_happened(before: Conversation, said: str, meant: str) -> None:
    found = resolve(said, before, NOW)
    assert (found.reply or found.text) == meant


def test_the_other_one_is_what_was_told_of_before() -> None:
    earlier = talk("remind me at 12 to eat", "It is reminder ra000000001.", route="tool:reminder_set")
    both = msgspec.structs.replace(DATED, turns=(*earlier.turns, *DATED.turns))
    for said in ("cancel the other one", "no, delete the other reminder please"):
        assert "ra000000001" in resolve(said, both, NOW).text
    assert resolve("move the other one to 5", both, NOW).text == "move reminder ra000000001 to 5"
    assert resolve("cancel the other one", DATED, NOW).text == "cancel the other one"


def test_words_beside_a_time_are_no_name() -> None:
    for said in ("the day after at half a mind", "maybe better around 6 when Tom is back"):
        assert "Ana" in resolve(said, REMINDER, NOW).text or resolve(said, REMINDER, NOW).text == said


@pytest.mark.parametrize(
    "said", ["and the address can go", "and the gate is shut", "and the others were sold"]
)
def test_a_sentence_of_its_own_takes_the_place_of_no_value(said: str) -> None:
    kept = talk("the number ends in 73 now", "I shall remember: it ends in 73", route="tool:correct")
    assert not resolve(said, kept, NOW).understood


LETTERS = talk(
    "what did the engineer write",
    "- today 08:30, engineer: Which branch? - main or release-2? (mailroom mail show 01a22bcb-1f6f)\n"
    "main or release-2?",
    route="tool:mail",
)
TWO_LETTERS = talk(
    "what waits for me?",
    "2 things wait for you:\n- scout asks: Dutch sources? (mailroom mail show 01a22bcb-1f6f)\n"
    "- critic asks: Which patch? (mailroom mail show 01a22bcb-1f60)",
    route="tool:waiting",
)
ASKING = talk(
    "what waits for me?",
    "1 thing waits for you:\n"
    "- About 'Plan the store': Postgres or SQLite? (mailroom resume goal_abcdef12 --say '...')",
    route="tool:waiting",
)
EVENT = talk(
    "when is the dentist",
    "Next, tomorrow:\n- Tue 2026-12-01 15:30 to 16:15 Dentist, Marktgasse 4",
    route="tool:calendar",
)


@pytest.mark.parametrize(
    ("before", "said", "meant"),
    [
        (LETTERS, "tell him release-2", "/send_mail reply to engineer: release-2"),
        (LETTERS, "answer her: main please", "/send_mail reply to engineer: main please"),
        (LETTERS, "write back that it can wait", "/send_mail reply to engineer: it can wait"),
        (LETTERS, "ok let them know that both are fine", "/send_mail reply to engineer: both are fine"),
        (LETTERS, "reply: main", "/send_mail reply to engineer: main"),
        (LETTERS, "could you say to him no", "/send_mail reply to engineer: no"),
        (ASKING, "answer: use Postgres", "/approve answer goal_abcdef12: use Postgres"),
        (ASKING, "yes, the second one", "/approve answer goal_abcdef12: yes, the second one"),
        (ASKING, "the second one", "/approve answer goal_abcdef12: the second one"),
        (ASKING, "use Postgres", "/approve answer goal_abcdef12: use Postgres"),
        (ASKING, "go with SQLite for now", "/approve answer goal_abcdef12: go with SQLite for now"),
        (ASKING, "no, neither", "/approve answer goal_abcdef12: no, neither"),
        (SET, "the day before please", "Move the reminder r81c2aabbcc 1 day earlier"),
        (SET, "hmm, the day before that", "Move the reminder r81c2aabbcc 1 day earlier"),
        (SET, "on the day after instead", "Move the reminder r81c2aabbcc 1 day later"),
        (SET, "no, the week before", "Move the reminder r81c2aabbcc 1 week earlier"),
        (SET, "rather the hour before", "Move the reminder r81c2aabbcc 1 hour earlier"),
        (EVENT, "remind me the day before", "Remind me on 2026-11-30 at 15:30 of Dentist"),
        (EVENT, "and remind me an hour before that", "Remind me on 2026-12-01 at 14:30 of Dentist"),
        (EVENT, "please ping me half an hour ahead", "Remind me on 2026-12-01 at 15:00 of Dentist"),
        (
            EVENT,
            "can you remind me about it two days in advance",
            "Remind me on 2026-11-29 at 15:30 of Dentist",
        ),
        (EVENT, "alert me 10 minutes earlier too", "Remind me on 2026-12-01 at 15:20 of Dentist"),
    ],
)
def test_what_was_told_is_answered_or_reminded_of(before: Conversation, said: str, meant: str) -> None:
    found = resolve(said, before, NOW)
    assert (found.text, found.reply) == (meant, "")


@pytest.mark.parametrize(
    ("before", "said", "choices"),
    [
        (
            SET,
            "remind me the day before",
            [
                "Move the reminder r81c2aabbcc 1 day earlier",
                "Remind me on 2026-03-18 at 14:30 of call the agency",
            ],
        ),
        (TWO_LETTERS, "tell him yes", ["/send_mail reply to scout: yes", "/send_mail reply to critic: yes"]),
    ],
)
def test_of_two_readings_it_is_asked_which(before: Conversation, said: str, choices: list[str]) -> None:
    found = resolve(said, before, NOW)
    assert found.asks is not None
    assert [each.text for each in found.asks.choices] == choices


@pytest.mark.parametrize(
    "said", ["what did he mean?", "yes?", "which branches are there", "run the tests of ~/src/kiln"]
)
def test_what_asks_or_orders_is_no_answer_to_a_letter(said: str) -> None:
    assert "reply to" not in resolve(said, LETTERS, NOW).text
    assert "/approve" not in resolve(said, ASKING, NOW).text
