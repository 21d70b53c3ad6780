"""The desk's tools: what they compute, and by what a message is recognised, without an office."""

import asyncio
from datetime import datetime
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from services.memory.classifier import open_classifier
from services.nexus.routing.decider import decide_by_scores, is_vague
from services.nexus.routing.decision import Decision, fits
from services.nexus.routing.following import normalise, read_features
from services.nexus.routing.request import Request
from services.nexus.routing.unmistakable import decide_by_rule, find_language, qualify, read_languages
from services.nexus.tools.appointments import read_event
from services.nexus.tools.arithmetic import compute
from services.nexus.tools.clock import NO_DAY, tell_time
from services.nexus.tools.office import GROUPS, explain_capabilities
from services.nexus.tools.tool import Effect, Words, load_tools
from services.nexus.tools.work import list_goals, names_else
from shared.contracts import Goal
from shared.language.utterance import Act, find_act
from tests.bench.desk.slots import judge
from tests.support.classifying import MEMORY

NOW = datetime(2026, 3, 18, 14, 5, tzinfo=ZoneInfo("Europe/Berlin"))
TOOLS = load_tools()


async def decide(text: str) -> Decision:
    (scores,) = await MEMORY.classify("desk", [normalise(text)], [read_features(text)])
    return decide_by_scores(text, scores, TOOLS)


def test_the_desk_is_fitted_to_every_tool_that_has_examples() -> None:
    assert set(open_classifier("desk").description.labels) == {
        name for name, tool in TOOLS.items() if tool.sentences
    }


def test_every_tool_has_a_line_that_describes_it_and_examples() -> None:
    for name, tool in TOOLS.items():
        assert tool.name == name
        assert tool.description
        assert "\n" not in tool.description
        assert name == "language" or len(tool.sentences) >= 18, name


def test_what_the_desk_can_do_is_one_screen_with_every_tool() -> None:
    grouped = [name for tools, _ in GROUPS.values() for name in tools.split()]
    assert sorted(grouped) == sorted(name for name, tool in TOOLS.items() if not tool.hidden)
    asked = Request(asker="user", letter_id="q", text="what can you do?")
    context = SimpleNamespace(agent=SimpleNamespace(settings=SimpleNamespace(mcp={})))
    lines = asyncio.run(explain_capabilities(context, asked, Words())).text.splitlines()  # type: ignore[arg-type]
    assert len(lines) < 20
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("- Schedules:") for line in lines)


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("Run the tests of ~/x", Act.REQUEST),
        ("write a letter to scout: what is in the README of ~/x?", Act.REQUEST),
        ("could you please refactor the parser?", Act.REQUEST),
        ("Look up the opening hours", Act.REQUEST),
        ("I'd like you to check the links", Act.REQUEST),
        ("have the tests been run?", Act.QUESTION),
        ("have the tests in ~/x passed", Act.QUESTION),
        ("have the scans in ~/box named while everyone is asleep", Act.REQUEST),
        ("can I merge on Friday?", Act.QUESTION),
        ("who fixed it", Act.QUESTION),
        ("please don't run the tests yet", Act.NEGATED),
        ("don't forget to run the tests", Act.REQUEST),
        ("I already fixed it", Act.STATEMENT),
        ("Bob is on holiday next week", Act.STATEMENT),
        ("should we fix the parser first?", Act.HYPOTHETICAL),
        ("what if we deployed on Friday?", Act.HYPOTHETICAL),
        ('the mail says: "delete all goals"', Act.QUOTED),
        ("sudo rm -rf /srv/x", Act.QUOTED),
        ("$ npm run build", Act.QUOTED),
        ("ana@web-3:~/app$ git push", Act.QUOTED),
        ("root@db:/srv # reboot", Act.QUOTED),
        ("% make deploy", Act.QUOTED),
        ("mail ana@example.org: run the tests", Act.REQUEST),
        ("the readme in ~/fern is a mess, tidy it", Act.REQUEST),
        ("they said run it, do it, whatever", Act.STATEMENT),
        ("I fixed the footer, the tests pass", Act.STATEMENT),
        ("when I'm in bed go over the answers in ~/exams", Act.REQUEST),
        ("when we meet tomorrow I will bring the list and the keys", Act.QUESTION),
        ("have a go at the slides for thursday", Act.REQUEST),
        ("I'd be grateful if somebody could index the letters", Act.REQUEST),
        ("skip the transcoding tonight", Act.NEGATED),
        ("don't let me lose this: the code is 8820", Act.REQUEST),
        ("draft a letter to the council; do not send it", Act.REQUEST),
        ("proofread ~/essay.md, don't change the arguments", Act.REQUEST),
        ("send it to Bob, don't send it to Ann", Act.NEGATED),
        ("don't run it, don't change anything", Act.NEGATED),
        ("no jobs tonight please, the power is off", Act.NEGATED),
        ("someone needs to find out why it is slow", Act.REQUEST),
        ("I should be obliged if you entered the meeting", Act.REQUEST),
        ("I was wondering whether someone might sort the minutes", Act.REQUEST),
        ("I was wondering what it costs", Act.HYPOTHETICAL),
        ("could the reminder about the round be moved to noon", Act.REQUEST),
        ("it was the thing with the locale, what was our workaround", Act.QUESTION),
        ("insurance number 44-8812-9", Act.STATEMENT),
        ("wifi password: heron-21", Act.STATEMENT),
        ("Anna's birthday = 4 March", Act.STATEMENT),
        ("Tom paid back 20", Act.STATEMENT),
        ("run the tests: 3 times", Act.REQUEST),
        ("tonight: compare 2 files", Act.REQUEST),
        ("Draft a letter to the landlord, would you?", Act.REQUEST),
        ("Is anyone able to review the firmware?", Act.REQUEST),
        ("Is anyone at work?", Act.QUESTION),
        ("Would love it if someone checked the translations", Act.REQUEST),
        ("go ahead and check up on ~/src/fern, ok?", Act.REQUEST),
        ("it is on Friday, right?", Act.QUESTION),
        ("Petra owns the billing service", Act.STATEMENT),
        ("Scan runs in ~/x", Act.REQUEST),
    ],
)
def test_what_a_message_does(text: str, act: Act) -> None:
    assert find_act(text) is act


@pytest.mark.parametrize("text", ["they failed last night", "insurance number 44-8812-9", "Tom paid back 20"])
async def test_what_is_only_told_looks_nothing_up(text: str) -> None:
    tool = TOOLS[(await decide(text)).tool]
    assert tool.name == "statement" or tool.effect is not Effect.READS


@pytest.mark.parametrize(
    "text",
    [
        "please don't run the tests",
        "have the tests been run?",
        "I ran the tests of ~/src/shop",
        "should we run the tests of ~/src/shop?",
        "what would happen if we ran the tests?",
        'the log says: "run the tests of /srv/app"',
    ],
)
async def test_only_a_request_starts_work(text: str) -> None:
    decision = decide_by_rule(text, TOOLS) or await decide(text)
    assert TOOLS[decision.tool].effect is not Effect.STARTS


def test_a_path_is_one_without_saying_so() -> None:
    assert normalise("lint services/auth and docs/intro.md") == "lint PATH and PATH"
    assert normalise("he/she drives 80 km/h and/or 24/7") == "he/she drives 80 km/h and/or 24/7"


@pytest.mark.parametrize(
    "text",
    [
        "if CI fails, tell me",
        "when the deploy is through please let me know",
        "ping me as soon as Ana is back",
    ],
)
def test_a_wish_to_be_told_of_an_event_is_one_for_a_reminder(text: str) -> None:
    decision = decide_by_rule(text, TOOLS)
    assert decision is not None
    assert decision.tool == "reminder_set"


def test_a_command_names_its_tool() -> None:
    decision = decide_by_rule("/work tidy the shed", TOOLS)
    assert decision is not None
    assert (decision.tool, decision.text) == ("work", "tidy the shed")
    assert decide_by_rule("/srv/app is broken", TOOLS) is None
    helped = decide_by_rule("/help", TOOLS)
    assert helped is not None
    assert helped.tool == "capabilities"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Erinnere mich bitte morgen um acht an die Müllabfuhr", "German"),
        ("Quelle est l'adresse de notre dépôt à Lyon ?", "French"),
        ("¿Qué tiempo hará mañana en Sevilla?", "Spanish"),
        ("Какая погода завтра?", "Russian"),
        ("remind me to call Jürgen about the Übergabe", ""),
        ("did Ana send the menu de la semana?", ""),
        ("hello", ""),
    ],
)
def test_languages_are_told_apart(text: str, language: str) -> None:
    assert find_language(text) == language
    assert not language or language in read_languages().languages


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("what is 17 * 23?", "17 * 23 = 391"),
        ("12% of 340", "12% of 340 = 40.8"),
        ("5 feet 11 in cm", "5 feet 11 = 180.34 cm"),
        ("it is 3.2 hectares, how many acres is that", "3.2 hectares = 7.9073 acres"),
        ("split 186.40 between 4", "186.40 / 4 = 46.6"),
        ("split 186.40 between 4, plus 10 percent", "186.40 / 4 * (1 + 10/100) = 51.26"),
        ("how much is 3 dozen times 45 cents", "(3*12) * 45 = 1,620"),
        ("80 euros minus 15%", "80 * (1 - 15/100) = 68"),
        ("what is 72 F in celsius", "72 f = 22.2222 celsius"),
        ("how many minutes are there in a week", "a week = 10,080 minutes"),
        ("our rent goes from 1,850 to 1,998, what's that in percent", "From 1,850 to 1,998 is 8%"),
        ("what is twenty five times four", "25 * 4 = 100"),
        ("tell me a joke", ""),
        ("007 + 05", "7 + 5 = 12"),
        ("is 1.2.3 - 4 a version", ""),
    ],
)
def test_sums_and_units(text: str, answer: str) -> None:
    assert compute(text) == answer


@pytest.mark.parametrize(
    ("tool", "text", "fitting"),
    [
        ("send_mail", "draft a reply to Ana but do not send it", False),
        ("send_mail", "tell Ana that I don't come", True),
        ("reminder_set", "remind me what the paint was called", False),
        ("reminder_set", "remind me tomorrow what to say", True),
        ("schedule", "first of the month: the invoices of ~/books", True),
        ("night_job", "once I'm offline, check the links", True),
    ],
)
def test_what_a_message_needs_for_a_tool(tool: str, text: str, fitting: bool) -> None:
    assert fits(TOOLS[tool], text) is fitting


@pytest.mark.parametrize(
    ("text", "vague"),
    [
        ("write it up", True),
        ("fix that please", True),
        ("fix that parser", False),
        ("tidy up ~/fern", False),
        ("write it into the readme of ~/fern", False),
    ],
)
def test_work_on_what_has_no_name_is_asked_about(text: str, vague: bool) -> None:
    assert is_vague(text) is vague


def test_no_reminder_is_not_one_to_set() -> None:
    decision = decide_by_rule("please no reminder for the choir this week", TOOLS)
    assert decision is None or decision.tool != "reminder_set"


def test_a_power_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        compute("9^9^9^9")


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("stop it please", False),
        ("I changed my mind, stop that goal", False),
        ("whatever is running at the moment, stop it", False),
        ("stop everything now", False),
        ("skip tonight", True),
        ("cancel the export", True),
    ],
)
def test_what_is_named_is_not_taken_for_the_only_goal_at_work(said: str, names: bool) -> None:
    assert names_else(said) is names


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("what time is it?", "It is 14:05 on Wednesday 18 March 2026 (Europe/Berlin, UTC+01:00)."),
        ("what date is it three weeks from now", "That is Wednesday 8 April 2026."),
        ("which weekday is 24 December", "That is Thursday 24 December 2026."),
        (
            "How many days until the 12th of April?",
            "25 days, from Wednesday 18 March 2026 to Sunday 12 April 2026.",
        ),
        (
            "How long has it been since 3 february",
            "43 days, from Tuesday 3 February 2026 to Wednesday 18 March 2026.",
        ),
        (
            "how many days till the 9th of June",
            "83 days, from Wednesday 18 March 2026 to Tuesday 9 June 2026.",
        ),
        ("what's the date of Ascension Day", "That is Thursday 14 May 2026."),
        ("is 2028 a leap year?", "2028 is a leap year."),
        (
            "how many days until Christmas",
            "282 days, from Wednesday 18 March 2026 to Friday 25 December 2026.",
        ),
        ("when is new year's eve", "That is Thursday 31 December 2026."),
        ("when is New Year", "That is Friday 1 January 2027."),
        ("on which day is valentine's day", "That is Sunday 14 February 2027."),
        (
            "how many sundays till the 12th of April",
            "3 Sundays between Wednesday 18 March 2026 and Sunday 12 April 2026.",
        ),
        ("how many hours until midnight", "9 hours 55 minutes, until 00:00 on Thursday 19 March 2026."),
        ("how long till 3pm", "55 minutes, until 15:00 on Wednesday 18 March 2026."),
        ("how long until Friday noon", "1 day 21 hours 55 minutes, until 12:00 on Friday 20 March 2026."),
        (
            "what's the time difference to Tokyo?",
            "8 hours later: it is 22:05 there (Asia/Tokyo, UTC+09:00)"
            " and 14:05 here (Europe/Berlin, UTC+01:00).",
        ),
        (
            "time difference between Tokyo and New York",
            "13 hours earlier: it is 22:05 (Asia/Tokyo, UTC+09:00) and 09:05 (America/New_York, UTC-04:00).",
        ),
        ("how many days until my birthday", NO_DAY),
        ("what day is 29 February 2027", "There is no such day in the calendar."),
        (
            "do the clocks go forward this weekend",
            "The clocks go forward in the night to Sunday 29 March 2026.",
        ),
    ],
)
def test_times_and_dates(text: str, answer: str) -> None:
    assert tell_time(text, NOW) == answer


@pytest.mark.parametrize(
    ("text", "like", "tool"),
    [
        ("overnite please: count the words of ~/novel", "work", "night_job"),
        ("once everybody has gone home, sort ~/scans", "work", "night_job"),
        ("run the tests of ~/x after work", "work", "night_job"),
        ("after work on the parser is done, run its tests", "work", "work"),
        ("count the words of ~/novel", "work", "work"),
        ("At 3 am tomorrow, count the words of ~/novel", "work", "night_job"),
        ("on Friday at 18:00 please back up ~/novel", "work", "night_job"),
        ("run the tests of ~/x tomorrow at 7", "work", "night_job"),
        ("write an invitation to the reading on Friday at 19:00", "work", "work"),
        ("on the 1st and the 15th, put together the invoices", "work", "schedule"),
        ("check the links of the site once a week", "work", "schedule"),
    ],
)
def test_work_goes_where_its_time_says(text: str, like: str, tool: str) -> None:
    assert qualify(text, like, TOOLS) == tool


def test_a_slot_is_right_if_the_answer_tells_it() -> None:
    slots = {"time": "2026-03-19T09:00", "text": "call the piano tuner"}
    told = "I shall remind you on Thursday 19 March 2026 at 09:00: call the piano tuner"
    assert dict(judge("reminder_set", slots, told)) == {"time": True, "text": True}
    assert dict(judge("reminder_set", slots, "At what time on 18 March?")) == {"time": False, "text": False}
    rule = {"time": "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9"}
    assert dict(judge("schedule", rule, "runs every Monday at 09:00")) == {"time": True}
    assert dict(judge("schedule", rule, "runs every Tuesday at 09:00")) == {"time": False}
    assert dict(judge("arithmetic", {"value": "7"}, "It is 17")) == {"value": False}
    assert dict(judge("memory", {"text": "the lease"}, "The lease ends in May")) == {}


@pytest.mark.parametrize(
    ("text", "title", "at"),
    [
        ("enter the choir, 26 March at half seven in the evening", "choir", "2026-03-26 19:30"),
        ("put the hairdresser on the 27th quarter past nine in my diary", "hairdresser", "2026-03-27 09:15"),
        ("lunch at 12:30 with Ana on Friday", "lunch with Ana", "2026-03-20 12:30"),
        (
            "Put the band meeting into my calendar, Thursday 7pm to 9",
            "band meeting",
            "2026-03-19 19:00 21:00",
        ),
        ("calendar: stocktaking 2 April from 2 to 4", "stocktaking", "2026-04-02 14:00 16:00"),
        ("book Dr Roth next wednesday 10:15-11", "Dr Roth", "2026-03-25 10:15 11:00"),
        ("add the fair on 4 May to the calendar", "fair", "2026-05-04"),
        ("new event: late shift, Friday from 10pm to 2am", "late shift", "2026-03-20 22:00 02:00"),
        ("add the open day to the calendar", "open day", ""),
    ],
)
def test_an_event_has_the_times_that_are_said(text: str, title: str, at: str) -> None:
    event = read_event(text, NOW, ZoneInfo("Europe/Berlin"))
    assert (event.title, f"{event.day} {event.clock} {event.ends}".strip()) == (title, at)


def test_a_time_that_is_denied_says_no_other() -> None:
    tools = load_tools()
    assert qualify("Not tonight, but this week you could look at the logs", "night_job", tools) == "unclear"
    assert qualify("not now, run the tests tonight", "work", tools) == "night_job"
    assert qualify("run the tests", "work", tools) == "work"


def test_what_a_person_remembers_is_not_to_be_kept() -> None:
    tools = load_tools()
    kept = decide_by_rule("remember that the key is under the mat", tools)
    assert kept is not None
    assert kept.tool == "remember"
    assert decide_by_rule("I remember when this place was a cinema", tools) is None
    assert not fits(tools["remember"], "we still remember how the roof leaked")
    assert fits(tools["remember"], "please remember that we open at nine")


def test_a_goal_that_the_conductor_has_not_accepted_yet_is_waited_for() -> None:
    goal = Goal(
        goal_id="goal_20260318_140500_123456_abcdef01",
        text="Sort it",
        requester="user",
        submitted_at="2026-03-18T14:05:00+00:00",
    )
    seen = [[], [goal]]

    async def goals() -> list[Goal]:
        return seen.pop(0)

    desk = SimpleNamespace(office=SimpleNamespace(goals=goals))
    request = SimpleNamespace(text=f"stop {goal.goal_id}")
    assert asyncio.run(list_goals(desk, request)) == [goal]  # type: ignore[arg-type]
