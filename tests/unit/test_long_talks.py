"""Agent loops whose messages are cut off, whose turns go wrong in part, or whose conversation is too long."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from shared.contracts import ResultOutcome
from shared.errors import ActionError, ModelUnavailable, TooLong
from shared.llm.protocol import Message, Thought, Tool, ToolCall
from shared.reasoning.conversation import CUT_CALL, GO_ON, SUMMARY, SUMMED, TOLD
from shared.reasoning.loop import AgentLoop, Conclusion
from shared.reasoning.tools import Caps, Toolbox
from shared.tasks.actions import Outcome, register_action
from tests.unit.test_micro import USAGE, Desk, Notebook, Script, bound, call, finish, run


def cut(text: str = "", *calls: tuple[str, str]) -> Thought:
    """A message that reached its length limit."""
    made = tuple(
        ToolCall(id=f"cut{n}", name=name, arguments=arguments) for n, (name, arguments) in enumerate(calls)
    )
    return Thought(text=text, tool_calls=made, usage=USAGE, stop="length")


# --- cut off -------------------------------------------------------------------------------------


async def test_an_answer_that_was_cut_off_goes_on_where_it_ended():
    script = Script(cut("The sum of the first "), cut("thousand numbers"), " is 500500.")
    assert (await run(script)).result == "The sum of the first thousand numbers is 500500."
    assert script.seen[1][-1].text == script.seen[2][-1].text == GO_ON


async def test_an_answer_that_never_ends_is_named_and_is_no_result():
    with pytest.raises(ActionError, match="cut off at the limit of its length"):
        await run(Script(cut("And so on, ")))


async def test_the_last_call_of_a_cut_message_is_not_run_and_the_others_are():
    desk = Desk()
    script = Script(cut("", call("add", a=1), call("add", a=2)), finish())
    await run(script, desk)
    assert desk.done == [("add", (1, 0))]
    assert {m.tool_call_id: m.text for m in script.seen[1] if m.role == "tool"}["cut1"] == CUT_CALL


async def test_a_result_that_was_cut_off_is_not_the_result():
    script = Script(cut("", finish("Half of")), finish("All of it"))
    assert (await run(script)).result == "All of it"


async def test_a_kill_after_a_cut_message_runs_no_half_call():
    class Dies(Desk):
        async def search(self) -> str:
            raise KeyboardInterrupt

        search.__action__ = Desk.search.__action__

    notebook, desk = Notebook(), Desk()
    with pytest.raises(KeyboardInterrupt):
        await run(Script(cut("", call("search"), call("add", a=2))), Dies(), journal=notebook)
    await run(Script(finish()), desk, journal=Notebook(notebook.pages))
    assert desk.done == [("search", None)]


# --- the end beside what failed ------------------------------------------------------------------


class Trying(Desk):
    @register_action("Test", {"well": "How it ends"})
    async def test(self, well: bool) -> Outcome:
        """Ends well or with findings."""
        self.done.append(("test", well))
        return Outcome(output="ran", outcome=ResultOutcome.DONE if well else ResultOutcome.FINDINGS)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (call("fail", how="action"), "It failed. The disk is full"),
        (call("test", well=False), "It has findings."),
        (call("add", b=1), "It was not run."),
        (call("nothing"), "It was not run."),
    ],
)
async def test_the_end_beside_what_went_wrong_is_not_accepted(bad: tuple[str, str], said: str):
    script = Script([finish("All done"), bad], finish("It could not be done"))
    assert (await run(script, Trying())).result == "It could not be done"
    results = [m.text for m in script.seen[1] if m.role == "tool"]
    assert results[0].startswith(said)
    assert results[1].startswith(f"It was not accepted, since {bad[0]} in the same turn")


async def test_the_end_beside_what_went_well_ends_it_and_all_calls_are_made():
    desk = Trying()
    assert (await run(Script([finish("Done"), call("test", well=True)]), desk)).result == "Done"
    assert desk.done == [("test", True)]


async def test_a_model_is_not_told_again_what_it_wrote_or_reads():
    class Citing(Desk):
        @register_action("Read", {"path": "Which"})
        async def read(self, path: str) -> Outcome:
            """Cites what it was asked for, what it shows, and more."""
            refs = (f"{path}:3", "b.py:7", "https://example.org/a")
            return Outcome(output="b.py\n7:x", evidence_refs=refs, output_paths=("/out/a.log",))

    script = Script(call("read", path="a.py"), finish())
    assert (await run(script, Citing())).evidence_refs == ("a.py:3", "b.py:7", "https://example.org/a")
    told = script.seen[1][-1].text
    assert told.endswith("</data>\nSources: https://example.org/a\nFiles: /out/a.log")


# --- too long ------------------------------------------------------------------------------------


class Reading(Desk):
    @register_action("Read", {"page": "Which"})
    async def read(self, page: int) -> str:
        """A long page."""
        self.done.append(("read", page))
        return f"page {page}: " + "word " * 400


class Reader(Script):
    """Reads so many pages, and ends; it writes summaries if it is asked for them."""

    def __init__(self, pages: int, *, fails: bool = False) -> None:
        super().__init__()
        self.pages, self.fails = pages, fails
        self.summaries = 0
        self.personas: set[str] = set()

    async def ask_model(
        self, messages: Sequence[Message], tools: Sequence[Tool], *, persona: str = ""
    ) -> Thought:
        self.seen.append(list(messages))
        self.personas.add(persona)
        if messages[-1].text == SUMMARY:
            self.summaries += 1
            if self.fails:
                raise ModelUnavailable("The model is out of reach")
            read = sorted(
                {
                    int(text.split()[2])
                    for m in messages
                    for text in m.text.split("\n")
                    if text[:6] == "I read"
                }
            )
            known = [m.text for m in messages if m.text.startswith(SUMMED)]
            return Thought(text=f"GOAL KEPT; read {read}; before: {known}", usage=USAGE)
        last = max([int(c.id[1:]) for m in messages for c in m.tool_calls] or [0])
        if last == self.pages:
            return Thought(text="", tool_calls=(ToolCall(id="end", name=finish()[0], arguments=finish()[1]),))
        made = ToolCall(id=f"c{last + 1}", name="read", arguments=json.dumps({"page": last + 1}))
        return Thought(text=f"I read {last + 1} now", tool_calls=(made,), usage=USAGE)


def size(messages: Sequence[Message]) -> int:
    return sum(len(m.text) + sum(len(c.arguments) for c in m.tool_calls) for m in messages)


async def read_on(
    reader: Reader, notebook: Notebook, told: Sequence[str] = (), desk: Any = None
) -> Conclusion:
    async def instructions() -> Sequence[str]:
        return told

    toolbox = Toolbox(bound(desk or Reading()))
    caps = Caps(steps=200, window=20_000)
    return await AgentLoop(reader, toolbox, caps, notebook, "You read.", instructions).run("Read it all")


async def test_a_long_conversation_is_summarised_by_the_model_and_its_end_kept_word_for_word():
    reader, notebook = Reader(40), Notebook()
    assert (await read_on(reader, notebook, ["Skip the index"])).steps == 41
    assert 2 <= reader.summaries <= 8
    for asked in reader.seen:
        assert size(asked) < 20_000
        assert asked[0].text == "Read it all"
        assert any(m.text == f"{TOLD}\nSkip the index" for m in asked)  # what a person said stays
        assert "characters left out" not in str(asked)
        calls = [c.id for m in asked for c in m.tool_calls]
        assert [m.tool_call_id for m in asked if m.role == "tool"] == calls
    last = reader.seen[-1]
    assert last[1].text.startswith(f"{SUMMED}\nGOAL KEPT; read [")
    assert "word word" in last[-1].text
    # Between two summaries each request begins with the whole one before it.
    grown = [b[: len(a)] == a for a, b in zip(reader.seen, reader.seen[1:], strict=False)]
    assert grown.count(False) <= 2 * reader.summaries


async def test_a_killed_loop_goes_on_with_the_same_summary():
    class Dies(Reading):
        async def read(self, page: int) -> str:
            if page == 25:
                raise KeyboardInterrupt
            return await super().read(page)

        read.__action__ = Reading.read.__action__

    whole, first, second, notebook = Reader(40), Reader(40), Reader(40), Notebook()
    await read_on(whole, Notebook())
    with pytest.raises(KeyboardInterrupt):
        await read_on(first, notebook, desk=Dies())
    await read_on(second, Notebook(notebook.pages))
    assert first.summaries > 0
    assert [*first.seen, *second.seen] == whole.seen


async def test_without_a_summary_the_oldest_messages_are_shortened():
    reader = Reader(40, fails=True)
    assert (await read_on(reader, Notebook())).steps == 41
    assert reader.summaries == 1  # it is not asked for at every step
    assert all(size(asked) < 21_000 for asked in reader.seen)
    assert "characters left out" in str(reader.seen[-1])


async def test_another_attempt_asks_in_the_words_of_the_first():
    class Dies(Reading):
        async def read(self, page: int) -> str:
            raise KeyboardInterrupt

        read.__action__ = Reading.read.__action__

    notebook, script = Notebook(), Reader(1)
    with pytest.raises(KeyboardInterrupt):
        await read_on(Reader(1), notebook, desk=Dies())
    loop = AgentLoop(script, Toolbox(bound(Reading())), Caps(), Notebook(notebook.pages), "You are new.")
    await loop.run("Read it all, and what memory holds by now")
    assert script.seen[0][0].text == "Read it all"
    assert script.personas == {"You read."}


async def test_arguments_go_back_as_the_model_wrote_them_also_after_a_kill():
    written = '{ "a" :  1.0,\n"b":2, "a":1 }'

    class Dies(Desk):
        async def add(self, a: int, b: int = 0) -> Outcome:
            raise KeyboardInterrupt

        add.__action__ = Desk.add.__action__

    notebook, script = Notebook(), Script(finish())
    with pytest.raises(KeyboardInterrupt):
        await run(Script(("add", written)), Dies(), journal=notebook)
    await run(script, journal=Notebook(notebook.pages))
    assert script.seen[0][1].tool_calls[0].arguments == written


class Refusing(Reader):
    """A reader behind a server that takes so many characters, whatever was set."""

    def __init__(self, pages: int, takes: int) -> None:
        super().__init__(pages)
        self.takes, self.refused = takes, 0

    async def ask_model(
        self, messages: Sequence[Message], tools: Sequence[Tool], *, persona: str = ""
    ) -> Thought:
        if size(messages) > self.takes:
            self.refused += 1
            raise TooLong("The model server at host was sent more than it can read")
        return await super().ask_model(messages, tools, persona=persona)


@pytest.mark.parametrize("takes", [16_000, 14_000, 12_000, 9_000, 7_000])
async def test_what_a_server_refuses_for_its_length_is_summarised_and_sent_again(takes: int):
    reader = Refusing(40, takes)
    assert (await read_on(reader, Notebook())).steps == 41
    assert reader.summaries >= 1
    assert reader.refused <= 2, "it is known then how much the model reads"


async def test_what_cannot_be_made_short_enough_fails_with_the_servers_reason():
    with pytest.raises(TooLong, match="more than it can read"):
        await read_on(Refusing(40, 5), Notebook())
