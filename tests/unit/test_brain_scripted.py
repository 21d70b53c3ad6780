"""The scripted brain: the reply is a function of the conversation."""

import time
from pathlib import Path

import pytest

from shared.errors import ConfigError, ModelError, ModelUnavailable
from shared.llm import Message, Thought, ToolCall
from shared.llm.protocol import Price
from shared.llm.scripted import ScriptedModel

SCRIPT = r"""
- agent: engineer
  match: "mend .*tests"
  replies:
    - call: {name: read_file, arguments: {path: a.txt}}
    - calls: [{name: first}, {name: second, arguments: "{broken"}]
      text: Both.
    - text: "I will now call finish_task"
- agent: scout
  replies: [{json: {who: scout}}]
- match: "^slow"
  replies: [{text: late, delay: 0.2}]
- match: "down"
  replies: [{error: unavailable}, {json: [1, null]}]
"""


def brain(folder: Path, text: str = SCRIPT, agent: str = "", price: Price | None = None) -> ScriptedModel:
    path = folder / "script.yaml"
    path.write_text(text)
    return ScriptedModel(path, agent=agent, price=price)


def talk(first: str, turns: int = 0, prompt: str = "You are an agent.") -> list[Message]:
    messages = [Message(role="system", text=prompt), Message(role="user", text=first)]
    for _ in range(turns):
        messages += [Message(role="assistant", text="."), Message(role="user", text="go on, down, slow")]
    return messages


async def test_the_nth_reply_answers_the_nth_turn_and_the_last_repeats(tmp_path):
    engineer = brain(tmp_path, agent="engineer")
    first = await engineer.complete(talk("mend the tests"))
    assert first.tool_calls == (ToolCall(id="call_0_0", name="read_file", arguments='{"path":"a.txt"}'),)
    assert (first.text, first.stop) == ("", "tools")
    second = await engineer.complete(talk("mend the tests", 1))
    assert [(call.id, call.arguments) for call in second.tool_calls] == [
        ("call_1_0", "{}"),
        ("call_1_1", "{broken"),
    ]
    assert second.text == "Both."
    for turn in (2, 3, 9):
        third = await engineer.complete(talk("mend the tests", turn))
        assert (third.text, third.stop) == ("I will now call finish_task", "end")


async def test_an_entry_speaks_for_its_agent_alone(tmp_path):
    assert (await brain(tmp_path, agent="scout").complete(talk("mend the tests"))).text == '{"who":"scout"}'
    with pytest.raises(ModelError, match="No entry of the script fits the conversation of critic"):
        await brain(tmp_path, agent="critic").complete(talk("mend the tests"))


async def test_without_a_name_the_prompt_tells_whose_conversation_it_is(tmp_path):
    nameless = brain(tmp_path)
    thought = await nameless.complete(talk("mend the tests", prompt="You are Engineer, who builds."))
    assert thought.tool_calls
    assert (await nameless.complete(talk("hello", prompt="You are Scout."))).text == '{"who":"scout"}'
    with pytest.raises(ModelError, match="No entry"):
        await nameless.complete(talk("hello", prompt="You are Scouting."))


async def test_a_model_out_of_reach_and_a_slow_one(tmp_path):
    scripted = brain(tmp_path)
    with pytest.raises(ModelUnavailable):
        await scripted.complete(talk("down"))
    assert (await scripted.complete(talk("down", 1))).text == "[1,null]"
    began = time.perf_counter()
    assert (await scripted.complete(talk("slow"))).text == "late"
    assert time.perf_counter() - began >= 0.2
    with pytest.raises(ModelUnavailable, match=r"within 0.01 s"):
        await scripted.complete(talk("slow"), timeout=0.01)


async def test_it_streams_and_counts_by_its_price(tmp_path):
    scripted = brain(tmp_path, '[{replies: [{text: "A text of more than sixteen characters"}]}]')
    *pieces, thought = [piece async for piece in scripted.stream(talk("x"))]
    assert isinstance(thought, Thought)
    assert "".join(pieces) == thought.text == "A text of more than sixteen characters"
    assert len(pieces) > 1
    assert thought.usage.estimated
    dear = brain(tmp_path, "[{replies: [{text: Yes!}]}]", price=Price(input=1e6, output=0))
    assert (await dear.complete(talk("x" * 40))).usage.cost >= 10


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- replies: []", r"replies are empty - at `\$\[0\]`"),
        ("- match: x", "missing required field `replies`"),
        (
            "- replies: [{}]",
            r"a reply needs one of call, calls, text, json and error - at `\$\[0\].replies\[0\]`",
        ),
        ("- replies: [{text: a, json: {}}]", "a text or json, not both"),
        ("- replies: [{say: a}]", "unknown field `say`"),
        ("- replies: [{error: explode}]", "Invalid enum value 'explode'"),
        ("- replies: [{call: {arguments: {}}}]", "missing required field `name`"),
        ("- {match: '(', replies: [{text: a}]}", "is no regular expression"),
        ("- replies: [", "script.yaml is wrong: while parsing"),
        ("agent: x", "Expected `array`, got `object`"),
    ],
)
def test_a_wrong_script_is_refused_with_the_place(tmp_path, text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        brain(tmp_path, text)
