"""JSON is found in whatever a model writes, checked, and asked for again."""

import time
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pytest

from services.conductor.model_decisions import ModelAnswer, ModelPlan
from services.critic.judging import Judgement
from shared.errors import ModelError
from shared.llm import Message, Thought, Usage, ask_for
from shared.llm.dialects import make_strict
from shared.llm.provider import describe, read_answer
from tests.support.model_formats import refuse_strict

USER = Message(role="user", text="Plan it.")


class Step(msgspec.Struct):
    name: str
    kind: Literal["read", "write"] = "read"


class Plan(msgspec.Struct):
    steps: list[Step]
    score: float = 0.0


class Node(msgspec.Struct):
    children: list["Node"] = []


class Answering:
    name = "test:model"
    available = True

    def __init__(self, *answers: str | Thought) -> None:
        self.answers = [Thought(text=a) if isinstance(a, str) else a for a in answers]
        self.asked: list[Sequence[Message]] = []
        self.schemas: list[dict[str, Any] | None] = []

    async def complete(self, messages, *, tools=(), schema=None, max_tokens=0, timeout=0.0):
        self.asked.append(list(messages))
        self.schemas.append(schema)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return msgspec.structs.replace(answer, usage=Usage(input_tokens=10, output_tokens=1, calls=1))

    def stream(self, messages, *, max_tokens=0, timeout=0.0):
        raise NotImplementedError


PLAN = '{"steps": [{"name": "look"}], "score": 0.5}'


@pytest.mark.parametrize(
    "text",
    [
        PLAN,
        f"\n {PLAN}\n",
        f"```json\n{PLAN}\n```",
        f"Sure! Here is the plan:\n```\n{PLAN}\n```\nTell me (or [ask]) if {{you}} need more.",
        f"Sure: {PLAN} Good luck {{}}.",
        f'<think>{{"steps": [{{"name": "draft"}}]}} no, better:</think>\n{PLAN}',
        f'As {{"an": "example"}} of the form, then: {PLAN}',
        '{"steps": [{"name": "look"}], "score": "0.5"}',
    ],
)
def test_json_is_found_alone_fenced_and_amid_chat(text):
    assert read_answer(text, Plan) == Plan(steps=[Step(name="look")], score=0.5)


def test_what_is_wrong_is_said_of_the_likeliest_candidate():
    with pytest.raises(ValueError, match=r"Invalid enum value 'dance' - at `\$\.steps\[0\]\.kind`"):
        read_answer('Well: {"steps": [{"name": "look", "kind": "dance"}]}', Plan)
    with pytest.raises(ValueError, match="no JSON"):
        read_answer("I would rather not.", Plan)


@pytest.mark.parametrize("text", ["[" * 1_000_000, '{"a":' * 300_000, "{[" * 500_000, "```\n" * 250_000])
def test_a_megabyte_of_nonsense_is_refused_quickly(text):
    began = time.perf_counter()
    with pytest.raises(ValueError, match=r"JSON|Expected"):
        read_answer(text, Plan)
    assert time.perf_counter() - began < 2


def test_the_schema_has_no_reference_at_its_root_and_only_the_definitions_it_needs():
    schema = describe(Plan)
    assert schema["type"] == "object"
    assert list(schema["$defs"]) == ["Step"]
    assert "$defs" not in describe(Step)
    assert describe(list[int]) == {"type": "array", "items": {"type": "integer"}}
    assert "Node" in describe(Node)["$defs"]


async def test_a_good_answer_is_asked_for_once_with_the_schema():
    brain = Answering(PLAN)
    plan, usage = await ask_for(brain, [USER], Plan)
    assert plan.steps == [Step(name="look")]
    assert brain.asked == [[USER]]
    assert brain.schemas == [describe(Plan)]
    assert usage == Usage(input_tokens=10, output_tokens=1, calls=1)


async def test_the_error_goes_back_to_the_model_which_answers_again():
    brain = Answering("nonsense", '{"steps": 3}', PLAN)
    plan, usage = await ask_for(brain, [USER], Plan)
    assert plan.score == 0.5
    assert usage.calls == 3
    *_, answer, correction = brain.asked[-1]
    assert (answer.role, answer.text) == ("assistant", '{"steps": 3}')
    assert correction.role == "user"
    assert "Expected `array`, got `int` - at `$.steps`" in correction.text


async def test_a_check_sends_its_reason_back():
    brain = Answering('{"steps": []}', PLAN)
    await ask_for(brain, [USER], Plan, check=lambda plan: None if plan.steps else "there are no steps")
    assert "there are no steps" in brain.asked[-1][-1].text


async def test_after_the_last_try_the_reason_is_raised_and_all_calls_are_counted():
    brain, counted = Answering("no"), []
    with pytest.raises(ModelError, match="no usable answer in 2 tries: there is no JSON in it"):
        await ask_for(brain, [USER], Plan, tries=2, spent=counted.append)
    assert [usage.calls for usage in counted] == [1, 1]


async def test_an_answer_cut_off_is_told_so():
    brain = Answering(Thought(text=PLAN[:20], stop="length"), PLAN)
    await ask_for(brain, [USER], Plan)
    assert "cut off" in brain.asked[-1][-1].text


async def test_a_huge_wrong_answer_is_not_sent_back_whole():
    brain = Answering("x" * 1_000_000, PLAN)
    await ask_for(brain, [USER], Plan)
    assert sum(len(message.text) for message in brain.asked[-1]) < 10_000


async def test_asking_leaves_the_messages_given_alone():
    messages = [USER]
    await ask_for(Answering("no", PLAN), messages, Plan)
    assert messages == [USER]


@pytest.mark.parametrize(
    ("kind", "strict"),
    [
        (ModelPlan, False),  # parameters of actions may be any
        (list[Node], True),
        (ModelAnswer, True),
        (Judgement, True),
        (dict[str, str], False),
    ],
)
def test_what_agents_ask_for_can_be_held_to_a_strict_schema(kind: type, strict: bool) -> None:
    found = make_strict(describe(kind))
    assert (found is not None) is strict
    assert found is None or refuse_strict(found) == ""
