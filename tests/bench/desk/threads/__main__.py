"""Measure which follow-ups the desk understands: ``python -m tests.bench.desk.threads`` (``--help``).

The threads are said to the real nexus with the real memory, with a model or by the rules alone. The model is
a server that speaks the protocol of OpenAI and answers by rules over what the prompt really holds: it finds
there what the message refers to, calls the tool with that, and says that it does not know if it is not there.
Goals are played by a stand-in for the conductor, mail goes to a server of this process. Of the half ``held``
only figures are printed. The last line is one JSON object.
"""

import argparse
import json
import re
import tomllib
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from services.nexus.__main__ import Nexus
from shared import log, subjects
from shared.agent.process import AgentProcess
from shared.bus.entry import seal
from shared.contracts import (
    Goal,
    OfficeState,
    Question,
    Response,
    ResultOutcome,
    StateChanged,
    TaskStatus,
    generate_iso_timestamp,
)
from tests.bench.desk.ground import FACTS, PATIENCE, find_tool, join, nexus_profile, open_office
from tests.support.asking import ask_nexus
from tests.support.channels import MailStub
from tests.support.model_server import Answer, ModelServer, Request, serve_model
from tests.support.office import Office
from tests.support.sweeper import leave_nothing

HALVES = ("work", "held", "fresh")
KNOWN = (
    *FACTS,
    "Ana's mail address is ana@example.org.",
    "Bob's mail address is bob@example.org.",
    "Staging is the server heron now; before that it was osprey.",
)
LOST = "I do not know what that refers to."


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said, and what the answer and the mail sent have to match; ``counts`` if it is a follow-up.

    A model would ``find`` that in the prompt, after a ``recall`` if it is not there, and then call ``tool``
    with ``args`` or a ``text``, and what comes ``then``; or ``answer``. The goal that it starts runs, is
    ``done`` or ``failed``, with these words. Nexus begins anew before it with ``restart``.
    """

    say: str
    expect: str
    counts: bool = False
    find: tuple[str, ...] = ()
    recall: str = ""
    tool: str = ""
    text: str = ""
    args: dict[str, str] = {}
    then: tuple[dict[str, Any], ...] = ()
    answer: str = ""
    mailed: str = ""
    running: bool = False
    done: str = ""
    failed: str = ""
    restart: bool = False


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation of one person."""

    id: str
    turns: tuple[Turn, ...]


def read_threads(half: str) -> list[Thread]:
    """The threads of a half."""
    data = tomllib.loads(Path(__file__).with_name(f"{half}.toml").read_text(encoding="utf-8"))
    return msgspec.convert(data["thread"], list[Thread])


class RuleModel:
    """Answers as a model would that reads the prompt; ``sizes`` are the characters of each request."""

    def __init__(self, turns: list[Turn]) -> None:
        self._turns = sorted(turns, key=lambda turn: -len(turn.say))
        self.sizes: list[int] = []

    def __call__(self, request: Request) -> Answer:
        """The answer to a request of the chat-completions format."""
        messages = request.body["messages"]
        tools = [each["function"]["name"] for each in request.body.get("tools", ())]
        self.sizes.append(len(json.dumps(messages)) + len(json.dumps(request.body.get("tools", []))))
        prompt = "\n".join(str(each.get("content") or "") for each in messages)
        asked = next(str(each["content"]) for each in reversed(messages) if each["role"] == "user")
        said = [(asked.rfind(turn.say), turn) for turn in self._turns if turn.say in asked]
        if not said:
            return Answer(text=LOST)
        turn = max(said, key=lambda each: each[0])[1]
        found = self._find(turn, prompt)
        if not tools:
            return self._choose(turn, asked, found)
        if messages[-1]["role"] == "tool" and (found is None or messages[-1]["content"].startswith("It ")):
            return Answer(text=f"That was not possible: {messages[-1]['content'][:300]}")
        if messages[-1]["role"] == "tool" and turn.tool and not turn.recall:
            return Answer(text=f"{messages[-1]['content'][:500]}")
        if found is None and turn.recall and "recall" in tools:
            return Answer(calls=[("recall", {"text": turn.recall})])
        if found is None or (turn.tool and turn.tool not in tools):
            return Answer(text=LOST)
        if not turn.tool:
            return Answer(text=turn.answer.format(**found))
        steps = [{"tool": turn.tool, "text": turn.text, "args": turn.args}, *turn.then]
        calls = []
        for step in steps:
            given = step.get("args") or {"text": step["text"]}
            calls.append((step["tool"], {key: value.format(**found) for key, value in given.items()}))
        return Answer(calls=calls)

    def _choose(self, turn: Turn, asked: str, found: dict[str, str] | None) -> Answer:
        """What it answers where it is offered no tools: a choice among them, or text."""
        if "Choose the tool of the front desk" not in asked:
            return Answer(text=turn.answer.format(**found) if turn.answer and found else LOST)
        tool = turn.tool if turn.tool and found is not None else "memory" if turn.answer else "unclear"
        args = {key: value.format(**found) for key, value in turn.args.items()} if found else {}
        return Answer(text=json.dumps({"tool": tool, "parameters": args, "rationale": "it reads so"}))

    def _find(self, turn: Turn, prompt: str) -> dict[str, str] | None:
        """What the patterns find, the last one of each; None if one of them finds nothing."""
        found: dict[str, str] = {}
        for pattern in turn.find:
            matches = list(re.finditer(pattern, prompt))
            if not matches:
                return None
            for name, value in matches[-1].groupdict().items():
                if value is not None:
                    found[name.rstrip("2")] = value
        return found


class Bench:
    """The office, and what is said in it."""

    def __init__(
        self, office: Office, ends: AsyncExitStack, mails: MailStub, model: RuleModel | None
    ) -> None:
        self._office, self._ends, self._mails, self._model = office, ends, mails, model
        self._desk: AgentProcess | None = None
        self.calls: Counter[str] = Counter()
        self.misses: list[str] = []

    async def restart(self) -> None:
        """Have a new nexus take the place of the one at work."""
        if self._desk is not None:
            await self._desk.close()
        self._desk = await join(self._office, self._ends, Nexus, nexus_profile())

    async def hold(self, thread: Thread) -> list[bool]:
        """Whether each follow-up of a thread was understood; what it set up is removed."""
        right, named = [], ""
        for turn in thread.turns:
            if turn.restart:
                await self.restart()
            before, asked = len(self._mails.mails), len(self._model.sizes) if self._model else 0
            answer = await self._say(turn.say, f"thread-{thread.id}")
            named += answer.text
            if answer.goal_id:
                await self._play(answer.goal_id, turn)
            mails = "\n".join(each.get_content() for each in self._mails.mails[before:])
            fits = bool(
                re.search(
                    turn.expect, answer.text.replace("\n", "  ") if "(?s)" in turn.expect else answer.text
                )
            )
            fits = fits and (not turn.mailed or turn.mailed in mails)
            if self._model:
                self.calls[str(len(self._model.sizes) - asked)] += 1
            if turn.counts:
                right.append(fits)
            if not fits:
                head = "  " if turn.counts else "  (before) "
                self.misses.append(
                    f"{thread.id}{head}{turn.say!r} <- {find_tool(answer)}: {answer.text[:300]!r}"
                )
        await self._say("Cancel all reminders", "thread-end")
        for schedule in dict.fromkeys(re.findall(r"\bs[0-9a-f]{7}\b", named)):
            await self._say(f"/stop {schedule}", "thread-end")
        return right

    async def _say(self, text: str, session: str) -> Response:
        question = Question(
            sender=subjects.USER, recipient=subjects.NEXUS, text=text, user_session_id=session
        )
        return await ask_nexus(self._office.user, question, PATIENCE)

    async def _play(self, goal_id: str, turn: Turn) -> None:
        """What the conductor would record of a goal that was just started."""
        conductor = await self._office.connect(subjects.CONDUCTOR)
        if await self._office.goal(goal_id) is not None:
            return
        now = generate_iso_timestamp()
        ended = turn.done or turn.failed
        status = (
            TaskStatus.FAILED if turn.failed else TaskStatus.COMPLETED if ended else TaskStatus.IN_PROGRESS
        )
        goal = Goal(
            goal_id=goal_id,
            text=turn.say,
            requester=subjects.USER,
            context={"letter_id": "q", "route": subjects.CONDUCTOR},
            submitted_at=now,
            status=status,
            answer=turn.done,
            reason=turn.failed,
            ended_at=now if ended else "",
            outcome=ResultOutcome.DONE if turn.done else ResultOutcome.NONE,
        )
        changed = StateChanged(sender=subjects.CONDUCTOR, goal_id=goal_id, state=OfficeState.IDLE, goal=goal)
        await conductor.commit([seal(subjects.goal(goal_id), changed)])
        await conductor.close()


async def measure(halves: list[str], *, with_model: bool) -> dict[str, Any]:
    """The share of follow-ups that were understood in each half, and what the model was sent."""
    threads = {half: read_threads(half) for half in halves}
    turns = [turn for found in threads.values() for thread in found for turn in thread.turns]
    model = RuleModel(turns)
    figures: dict[str, Any] = {}
    async with AsyncExitStack() as ends:
        mails = ends.enter_context(MailStub())
        server: ModelServer = ends.enter_context(serve_model(by=model))
        brain = {"MAILROOM_BRAIN": "openai:small", "MAILROOM_BRAIN_URL": server.url} if with_model else {}
        mailing = {
            "MAILROOM_SMTP_URL": f"smtp://127.0.0.1:{mails.port}",
            "MAILROOM_SMTP_SENDER": "desk@example.org",
            "MAILROOM_SMTP_RECIPIENTS": "ana@example.org,bob@example.org",
        }
        office = await ends.enter_async_context(open_office(KNOWN, with_desk=False, **brain, **mailing))
        bench = Bench(office, ends, mails, model if with_model else None)
        await bench.restart()
        for half, found in threads.items():
            bench.misses.clear()
            right = [each for thread in found for each in await bench.hold(thread)]
            figures[half] = {"right": sum(right), "of": len(right)}
            if half != "held":
                print(*bench.misses, sep="\n")
        if with_model:
            sizes = sorted(model.sizes) or [0]
            figures["characters"] = {"median": sizes[len(sizes) // 2], "all": sum(sizes)}
            figures["calls"] = dict(bench.calls)
    return figures


def main() -> None:
    """Measure, and print the JSON as the last line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.desk.threads", description=__doc__)
    parser.add_argument("--half", action="append", choices=HALVES, help="only this half; may be repeated")
    parser.add_argument("--rules", action="store_true", help="without a model")
    args = parser.parse_args()
    log.configure("bench", level="error")
    leave_nothing()
    halves = args.half or list(HALVES)
    print(json.dumps(uvloop.run(measure(halves, with_model=not args.rules))))


if __name__ == "__main__":
    main()
