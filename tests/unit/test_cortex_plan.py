"""Plans: texts become steps that wait for each other; what can never be done is refused by name."""

import contextlib
import time

import pytest

from services.cortex.__main__ import read_options
from services.cortex.plan_parser import call_of, parse_call, parse_plan
from shared.contracts import TaskPlan, TaskPriority, TaskRequest, TaskStep
from shared.errors import ActionError, ConfigError
from shared.plans import Call, plan_of

OWN = ("run_script", "generate_plan")


def shape(text: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(step.action, step.dependencies) for step in parse_plan(text).steps]


@pytest.mark.parametrize(
    "text",
    [
        "1. Fetch it\n2. Parse it\n3. Store it",
        "Please do this:\n\n1) Fetch it\n2) Parse it\n3) Store it",
        "Step 1: Fetch it\nStep 2: Parse it\nStep 3: Store it",
        "Fetch it; Parse it; Store it",
        "Fetch it, then Parse it and then Store it",
        "First Fetch it. Then Parse it. After that, Store it",
        "1. Fetch it\n1. Parse it\n1. Store it",
    ],
)
def test_steps_in_order_wait_for_the_one_before(text: str) -> None:
    assert [(action.rstrip("."), waits) for action, waits in shape(text)] == [
        ("Fetch it", ()),
        ("Parse it", (1,)),
        ("Store it", (2,)),
    ]


def test_bullets_wait_for_nothing_unless_they_say_so() -> None:
    text = "- fetch a\n* fetch b\n- [ ] compare (after 1 and 2)"
    assert shape(text) == [("fetch a", ()), ("fetch b", ()), ("compare", (1, 2))]


def test_a_list_can_say_what_its_steps_wait_for() -> None:
    text = "10. fetch a\n20. fetch b (in parallel)\n30. compare (after 10, 20)\n40. report, after step 30"
    assert shape(text) == [("fetch a", ()), ("fetch b", ()), ("compare", (1, 2)), ("report", (3,))]


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("1. do a  2. do b (after 1)", [(), (1,)]),
        ("1) a, 2) b, then 3) c (after step 1)", [(), (1,), (1,)]),
        ("(1) a (2) b (after 1)", [(), (1,)]),
        ("Step 1: a Step 2: b (parallel with 1) Step 3: c (once 1 and 2 are done)", [(), (), (1, 2)]),
        ("Please do this: 1. a; 2. b; and 3. c, after 1 and 2", [(), (1,), (1, 2)]),
        ("1. a\n2. b (needs #1)\n3. c [after 1-2]", [(), (1,), (1, 2)]),
        ("1. a\n2. b, after 1\n3. c (depends on steps 1, 2)", [(), (1,), (1, 2)]),
        ("1. a\n2. b (in parallel)\n3. After steps 1 and 2: c", [(), (), (1, 2)]),
        ("1. a\n2. once step 1 is done, b\n3. c after step 1", [(), (1,), (1,)]),
        ("- a\n- b\n- c, after 1 and 2.", [(), (), (1, 2)]),
    ],
)
def test_ways_to_write_what_a_step_waits_for(text: str, waits: list[tuple[int, ...]]) -> None:
    steps = [(action.removeprefix("do "), waited) for action, waited in shape(text)]
    assert steps == list(zip("abc", waits, strict=False))


@pytest.mark.parametrize(
    "text",
    [
        "1. wait\n2. call Bob after 10",
        "1. wait\n2. explain what happens when step 1 fails",
        '1. wait\n2. write "(after 9)" on the board',
        "1. wait\n2. retry after 5 minutes",
    ],
)
def test_what_only_reads_like_it_stays_in_the_step(text: str) -> None:
    assert shape(text)[1] == (text.partition("2. ")[2], (1,))


@pytest.mark.parametrize(
    "text",
    ["Upgrade to version 1. 2. is broken", "Compare chapter 1. Intro with 2. Methods", "Call 1. 5. 2."],
)
def test_numbers_in_a_sentence_make_no_list(text: str) -> None:
    assert shape(text) == [(text, ())]


@pytest.mark.parametrize(
    "text",
    ["1. x " * 3_000, "after " * 15_000, "after step " * 9_000, "(" * 30_000, "1, " * 20_000, "- " * 20_000],
)
def test_odd_texts_are_read_quickly(text: str) -> None:
    begun = time.process_time()
    with contextlib.suppress(ActionError):
        parse_plan(text)
    assert time.process_time() - begun < 2


def test_lines_that_follow_a_step_belong_to_it() -> None:
    text = "1. fetch\n   the page\n   - with its links\n\n2. store"
    assert shape(text) == [("fetch the page - with its links", ()), ("store", (1,))]


@pytest.mark.parametrize(
    "text",
    [
        "If the tests fail then stop",
        "Tell me when it is done, then",
        'Write "first this; then that" on the board',
        "Now and then look at the log",
        "Look at the log",
        "- only one bullet",
        "Wait for 5 minutes after lunch",
    ],
)
def test_anything_else_is_a_single_step(text: str) -> None:
    assert len(shape(text)) == 1


def test_a_condition_ends_with_its_part() -> None:
    assert shape("if it fails then stop; report") == [("if it fails then stop", ()), ("report", (1,))]


def test_requests_and_complexity() -> None:
    request = TaskRequest(
        task_id="t1",
        requester="nexus",
        task_description="one; two; three",
        priority=TaskPriority.HIGH,
    )
    plan = parse_plan(request)
    assert (plan.task_id, plan.agent, len(plan.steps), plan.overall_complexity) == (
        "t1",
        "cortex",
        3,
        "medium",
    )
    assert parse_plan("one").overall_complexity == "low"
    assert parse_plan(";".join("abcdef")).overall_complexity == "high"
    named = TaskRequest(
        task_id="t2",
        requester="nexus",
        task_description="one; two",
        priority=TaskPriority.LOW,
        context={"assignee": "scout", "action": "read_page", "params": {"url": "https://example.org"}},
    )
    (step,) = parse_plan(named).steps
    assert step.context["action"] == "read_page"


def test_steps_written_as_calls_can_be_executed() -> None:
    plan = parse_plan(
        'frontier.find_papers topic="graph memory" max_results=3; think about it', own_actions=OWN
    )
    assert plan.steps[0].context == {
        "assignee": "frontier",
        "action": "find_papers",
        "params": {"topic": "graph memory", "max_results": 3},
    }
    assert plan.steps[1].context == {}
    assert plan.required_tools == ("frontier.find_papers",)


def test_calls() -> None:
    assert parse_call('run_script path=/x/y.py args=\'["a", "b c"]\'', "cortex", OWN) == Call(
        assignee="cortex", action="run_script", params={"path": "/x/y.py", "args": ["a", "b c"]}
    )
    assert parse_call("scout.read_page url=https://example.org/?a=b", "cortex", OWN) == Call(
        assignee="scout", action="read_page", params={"url": "https://example.org/?a=b"}
    )
    for prose in (
        "run_script is useful",
        "test",
        "scout.read_page 'unclosed",
        "Look at it",
        "find_papers topic=x",
    ):
        assert parse_call(prose, "cortex", OWN) is None, prose


def test_a_step_that_names_nothing_is_no_call() -> None:
    step = TaskStep(step_number=2, action="Design the database schema")
    assert call_of(step, "cortex", OWN) == Call(assignee="cortex", text="Design the database schema")
    wrong = TaskStep(step_number=1, action="x", context={"action": "y", "params": "z"})
    with pytest.raises(ActionError, match=r"The context of step 1 is wrong: .*params"):
        call_of(wrong, "cortex", OWN)


def test_circles_are_refused_by_name() -> None:
    with pytest.raises(ActionError) as caught:
        parse_plan("1. dig (after 3)\n2. fill\n3. plant (after 2)\n4. water")
    text = str(caught.value)
    assert "can never be done" in text
    assert "1 ('dig') waits for 3 ('plant')" in text
    assert "water" not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing to plan"),
        (" \n ", "nothing to plan"),
        ("1. a\n2. b (after 7)", "wait for step 7, which is no other step"),
        ("1. a (after 1)\n2. b", "wait for step 1, which is no other step"),
        (";".join("x" * 201), "201 steps"),
    ],
)
def test_texts_that_make_no_plan(text: str, words: str) -> None:
    with pytest.raises(ActionError, match=words):
        parse_plan(text)


def test_options_are_checked() -> None:
    assert read_options({"queue_poll": 1}).queue_poll == 1.0
    with pytest.raises(ConfigError, match=r"options of the cortex profile are wrong: .*`queue_pol`"):
        read_options({"queue_pol": 1})


def test_plans_as_data() -> None:
    values = {"steps": [{"step_number": 1, "action": "look"}]}
    plan = plan_of(values, "t1", "cortex")
    assert plan.steps == (TaskStep(step_number=1, action="look"),)
    assert plan_of(plan.to_dict(), "t2", "cortex").task_id == "t1"
    for broken in (
        {},
        {"steps": []},
        {"steps": [{"step_number": 0, "action": "x"}]},
        {"steps": "x"},
        [],
        None,
    ):
        with pytest.raises(ActionError, match="This is not a plan"):
            plan_of(broken, "t1", "cortex")
    assert isinstance(plan, TaskPlan)
