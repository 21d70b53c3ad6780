"""The conductor with a model: it plans, plans anew, answers, and survives what models and machines do."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from services.conductor import goal_runner
from services.conductor.__main__ import Conductor
from services.conductor.model_decisions import MAX_TASKS, ModelDecisions
from services.conductor.planner import Planner
from services.conductor.state_machine import MAX_REPAIRS
from shared import subjects
from shared.contracts import (
    CancelGoal,
    Experience,
    ExperienceIndex,
    Goal,
    Hit,
    Node,
    OfficeState,
    StateChanged,
    TaskStatus,
)
from shared.errors import BusUnavailable
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from tests.flow.test_conductor_goals import Judge, Stage, Worker, fail, refuse
from tests.support.classifying import serve_memory
from tests.support.indexing import read_metrics
from tests.support.team import open_team

pytestmark = pytest.mark.timeout(30)
NAMES = ["conductor", "critic", "engineer", "memory", "worker"]


class NoMemory:
    """Memory's ``classify`` where nothing is like anything."""

    async def classify(self, classifier: str, texts: Sequence[str]) -> list[dict[str, float]]:
        return [{"nobody": 1.0} for _ in texts]


class Thoughtful(Conductor):
    """A conductor without a playbook that fits."""

    async def on_start(self) -> None:
        await super().on_start()
        self.planner = Planner(self.playbooks, NoMemory())  # type: ignore[arg-type]


class Critic(Judge):
    """A critic that is told the goal."""

    @register_action("Review", {"results": "The results", "repo": "The repository", "goal": "The goal"})
    async def review(self, results: dict[str, Any], repo: str = "", goal: str = "") -> Outcome:
        """The next verdict."""
        self.goals = [*getattr(self, "goals", []), goal]
        return await super().review(results, repo)


def task(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    done = {"action": "do", "params": {"name": name}}
    return {"name": name, "text": f"Do {name}", "assignee": "worker", "depends_on": needs, **done, **more}


def plan(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"json": {"tasks": list(tasks), **more}}


def answer(text: str, *citations: str) -> dict[str, Any]:
    return {"json": {"answer": text, "citations": citations}}


def script(
    plans: list[dict[str, Any]],
    repairs: list[dict[str, Any]] = (),  # type: ignore[assignment]
    answers: list[dict[str, Any]] = (),  # type: ignore[assignment]
) -> list[dict[str, Any]]:
    entries = [
        {"agent": "conductor", "match": "^Make a plan", "replies": plans},
        {"agent": "conductor", "match": "^The plan for this goal did not work out", "replies": list(repairs)},
        {"agent": "conductor", "match": "^Answer the person", "replies": list(answers)},
    ]
    return [entry for entry in entries if entry["replies"]]


@asynccontextmanager
async def stage(
    tmp_path: Path, entries: list[dict[str, Any]], critic: type[Judge] = Critic, **environment: str
) -> AsyncIterator[Stage]:
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(entries))))
    async with open_team(tmp_path, NAMES, MAILROOM_BRAIN=f"scripted:{path}", **environment) as team:
        worker = await team.join(Worker, Profile(name="worker", description="Works."))
        judge = await team.join(critic, Profile(name="critic", description="Judges."))
        await team.join(Thoughtful, Profile(name="conductor", description="Conducts.", concurrency=8))
        yield Stage(team, worker, judge)


async def states(playing: Stage, goal_id: str) -> list[OfficeState]:
    return [StateChanged.from_json(data).state for data in await playing.messages(subjects.goal(goal_id))]


async def test_a_model_plans_and_answers_with_sources(tmp_path: Path) -> None:
    entries = script(
        [plan(task("Read It"), task("count"), task("sum", "Read It", "count"))],
        answers=[answer("There are 7 [sum].", "sum")],
    )
    async with stage(tmp_path, entries) as playing:
        playing.worker.ways["sum"] = lambda: Outcome(output="It is 7", evidence_refs=("a.txt:1",))
        goal = await playing.play("g1", {})
        assert (goal.status, goal.playbook, goal.plans, goal.thinking) == (
            TaskStatus.COMPLETED,
            "brain",
            1,
            "",
        )
        assert playing.worker.done[2] == "sum"
        assert sorted(playing.worker.contexts["sum"]["inputs"]) == ["count", "read-it"]
        assert goal.answer.startswith("There are 7 [sum].\n\n(Written by the model scripted:")
        assert goal.answer.endswith("[sum] worker, task g1-sum-1")
        assert playing.judge.goals == ["do it"]  # type: ignore[attr-defined]
        report = Path(goal.report_path).read_text()
        assert "## Answer" in report
        assert "It is 7" in report
        assert (await playing.letter("g1")).summary == goal.answer


async def test_a_critic_of_an_older_version_is_asked_as_before(tmp_path: Path) -> None:
    entries = script([plan(task("a"))], answers=[answer("Done [a].", "a")])
    async with stage(tmp_path, entries, critic=Judge) as playing:
        goal = await playing.play("g1", {})
        assert (goal.verdict["approved"], goal.reason) == (True, "")


async def test_a_named_action_and_a_playbook_go_before_the_model(tmp_path: Path) -> None:
    async with stage(tmp_path, []) as playing:
        goal = await playing.play("g1", {"assignee": "worker", "action": "do", "params": {"name": "x"}})
        assert (goal.status, goal.answer, goal.plans) == (TaskStatus.COMPLETED, "x is done", 0)


async def test_what_one_agent_does_is_the_answer_and_nobody_is_asked_to_word_it(tmp_path: Path) -> None:
    async with stage(tmp_path, script([plan(task("a", text=""))])) as playing:
        playing.worker.ways["a"] = lambda: Outcome(output="It is 7.\n\nAs b.txt says.")
        goal = await playing.play("g1", {})
        assert (goal.status, goal.plans, goal.tasks[0].text) == (TaskStatus.COMPLETED, 1, "do it")
        assert goal.answer == "It is 7.\n\nAs b.txt says."
        assert (await playing.letter("g1")).summary == goal.answer


async def test_a_model_chooses_a_playbook_answers_or_asks_back(tmp_path: Path) -> None:
    entries = [
        {"agent": "conductor", "match": f"goal:\n{text}", "replies": replies}
        for text, replies in {
            "see to the tests": [plan(playbook="tests", parameters={"repo": str(tmp_path)})],
            "how much is 6 times 7": [plan(answer="42")],
            "make it faster": [plan(question="Which program?"), plan(task("never"))],
        }.items()
    ]
    # what was said later is in the prompt
    entries.insert(0, {"agent": "conductor", "match": "later:\n- the kiln", "replies": [plan(task("kiln"))]})
    async with stage(tmp_path, entries) as playing:
        await playing.submit("p", text="see to the tests of it")
        await playing.until(lambda goal: bool(goal.tasks), "p")
        goal = await playing.goal("p")
        assert goal is not None
        assert (goal.playbook, goal.plans, goal.tasks[0].action) == ("tests", 0, "run_tests")
        assert goal.tasks[0].params == {"repo": str(tmp_path)}
        await playing.submit("a", text="how much is 6 times 7?")
        told = await playing.ended("a")
        assert (told.status, str(told.outcome), told.tasks) == (TaskStatus.COMPLETED, "not_checked", ())
        assert told.answer.startswith("42\n\n(Written by the model ")
        await playing.submit("q", text="make it faster")
        asks = await playing.ended("q")
        assert (asks.question, str(asks.outcome)) == ("Which program?", "not_checked")
        assert "mailroom resume q --say" in (await playing.letter("q")).summary
        said = json.dumps({"resume": "q", "text": "the kiln", "request_id": "r1"}).encode()
        await playing.user.store(subjects.SUBMIT, said)
        await playing.until(lambda goal: goal.status.final and not goal.question, "q")
        assert playing.worker.done == ["kiln"]


async def test_a_part_that_a_plan_drops_is_objected_to_once_and_named_first(tmp_path: Path) -> None:
    asked = "do the kiln, and also write a GUIDE.md about firing"
    kiln = task("kiln", text="Do the kiln")
    both = plan(kiln, left_out=["a GUIDE.md about firing"])
    for number, replies in enumerate(([plan(kiln), both], [plan(kiln)])):
        (tmp_path / str(number)).mkdir()
        async with stage(tmp_path / str(number), script(replies)) as playing:
            await playing.submit("g1", text=asked)
            goal = await playing.ended("g1")
            part = goal.left_out[0]
            assert "GUIDE.md about firing" in part
            assert (goal.status, str(goal.outcome)) == (TaskStatus.COMPLETED, "not_checked")
            assert goal.answer == f"Left out: '{part}'.\n\nkiln is done"
            assert Path(goal.report_path).read_text().split("\n\n")[1] == f"Left out: '{part}'."


FAULTY: list[tuple[dict[str, Any], str]] = [
    (plan(), "the plan is empty"),
    (plan(task("a", "b"), task("b", "a")), "in a circle"),
    (plan(task("a", "a")), "in a circle"),
    (plan(task("a", "nothing")), "which is no task of the plan"),
    (plan(task("a", assignee="gardener")), "there is no agent 'gardener'; there are"),
    (plan(task("a", assignee="conductor")), "'conductor' takes no tasks from a plan"),
    (plan(task("a", assignee="user")), "'user' takes no tasks from a plan"),
    (plan(task("a", action="fly")), "worker has no action 'fly'; it has do"),
    (plan(task("a", params={})), "do needs the parameter 'name'"),
    (plan(task("a", params={"name": "a", "sudo": True})), "do has no parameter 'sudo'"),
    (plan(task("a"), task("A")), "is taken"),
    (plan(task("review")), "is taken"),
    (plan(*(task(f"t{number}") for number in range(1_000))), f"1,000 tasks, and {MAX_TASKS} are allowed"),
    (plan(task("a"), specialists=[{"domain": "x", "requirements": "y"}]), "and 0 more may be made"),
    (plan(task("a", text=" "), task("b")), "its text must have"),
    (plan(task("a"), answer="It is so"), "it goes 2 ways (answer, tasks): give one of them"),
    (plan(playbook="dance"), "there is no playbook 'dance'; there are checkup,"),
    (plan(playbook="tests", parameters={"speed": "9"}), "tests has no parameter 'speed'; it has repo"),
    (plan(playbook="tests"), "The goal does not say the folder of the project"),
    ({"text": "I would rather not."}, "no JSON"),
    ({"json": {"tasks": "all of them"}}, "Expected `array`"),
]


async def test_what_is_wrong_with_a_plan_is_said_and_then_refused(tmp_path: Path) -> None:
    entries = [
        {"agent": "conductor", "match": f"goal:\nfaulty {number}$", "replies": [reply]}
        for number, (reply, _) in enumerate(FAULTY)
    ]
    async with stage(tmp_path, entries) as playing:
        await asyncio.gather(
            *(playing.submit(f"f{number}", text=f"faulty {number}") for number in range(len(FAULTY)))
        )
        for number, (_, reason) in enumerate(FAULTY):
            goal = await playing.ended(f"f{number}")
            assert goal.status is TaskStatus.FAILED
            assert reason in goal.reason
            assert "gave no usable answer in 3 tries" in goal.answer
            assert goal.tasks == ()
        assert playing.worker.done == []


async def test_a_faulty_plan_is_mended_by_asking_again(tmp_path: Path) -> None:
    entries = script(
        [FAULTY[1][0], FAULTY[7][0], plan(task("a"), task("b", "a"))],
        answers=[answer("", "a"), answer("A [a]", "a")],
    )
    async with stage(tmp_path, entries) as playing:
        goal = await playing.play("g1", {})
        assert (goal.status, playing.worker.done) == (TaskStatus.COMPLETED, ["a", "b"])
        assert goal.answer.startswith("A [a]")


async def test_it_plans_anew_where_a_task_failed_and_keeps_what_is_done(tmp_path: Path) -> None:
    entries = script(
        [plan(task("a"), task("b", "a"), task("c", "b"))],
        [plan(task("b2", "a"), task("c", "b2"))],
        [answer("Done in another way [b2].", "b2")],
    )
    async with stage(tmp_path, entries) as playing:
        playing.worker.ways["b"] = fail("The bridge is out")
        goal = await playing.play("g1", {})
        assert goal.status is TaskStatus.COMPLETED
        assert playing.worker.done == ["a", "b", "b2", "c"]
        assert [task.name for task in goal.tasks] == ["a", "b2", "c"]
        assert [task.summary for task in goal.earlier if task.name == "b"] == ["The bridge is out"]
        assert (goal.plans, goal.reason) == (2, "")
        assert "The bridge is out" in Path(goal.report_path).read_text()
        passed = await states(playing, "g1")
        assert OfficeState.PLANNING in passed[passed.index(OfficeState.EXECUTING) :]


async def test_memory_is_asked_before_a_plan_and_before_another(tmp_path: Path) -> None:
    """A repair is asked with what went wrong, so that memory can tell what helped."""
    asked: list[str] = []

    async def search(payload: bytes) -> bytes:
        asked.append(json.loads(payload)["text"])
        node = Node(id=f"n{len(asked)}", title="The kettle leaks", body="Use the pan.")
        return msgspec.json.encode([Hit(node=node, score=0.9)])

    async def embed(payload: bytes) -> bytes:
        return msgspec.json.encode([[1.0] for _ in json.loads(payload)["texts"]])

    async def classify(payload: bytes) -> bytes:
        return msgspec.json.encode([{"nobody": 1.0} for _ in json.loads(payload)["texts"]])

    known = r"(?s){}.*What memory holds that may bear on it.*\[n\d\] The kettle leaks: Use the pan\."
    entries = script([plan(task("a"))], [plan(task("b"))], [answer("Done [b].", "b")])
    for entry in entries[:2]:
        entry["match"] = known.format(entry["match"])
    async with stage(tmp_path, entries) as playing:
        daemon = await playing.team.connect("memory")
        endpoints = {"search": search, "embed": embed, "classify": classify}
        await serve_memory(daemon, endpoints)
        playing.worker.ways["a"] = fail("the lid is stuck")
        goal = await playing.play("g1", {})
        assert (goal.status, goal.plans) == (TaskStatus.COMPLETED, 2), goal.reason
    assert "do it" in asked
    assert any("do it" in text and "the lid is stuck" in text for text in asked)


async def test_it_plans_anew_twice_and_then_tells_what_failed(tmp_path: Path) -> None:
    entries = script(
        [plan(task("ok"), task("b"))], [plan(task("b"))], [answer("Half of it [ok]; b failed.", "ok")]
    )
    async with stage(tmp_path, entries) as playing:
        playing.worker.ways["b"] = fail("The bridge is out")
        goal = await playing.play("g1", {})
        assert playing.worker.done.count("b") == 1 + MAX_REPAIRS
        assert playing.worker.done.count("ok") == 1
        assert goal.status is TaskStatus.COMPLETED
        assert goal.reason == "b was not done: The bridge is out"
        assert goal.answer.startswith("Half of it")


async def test_a_review_that_can_redo_nothing_leads_to_another_plan(tmp_path: Path) -> None:
    entries = script([plan(task("a"))], [plan(task("b"))], [answer("Both [a] [b].", "a", "b")])
    async with stage(tmp_path, entries) as playing:
        playing.judge.verdicts = [refuse(why="the other half is missing")]
        goal = await playing.play("g1", {})
        assert playing.worker.done == ["a", "b"]
        assert (goal.reviews, goal.verdict["approved"]) == (2, True)


async def test_a_model_that_is_down_fails_the_goal_and_leaves_what_is_done(tmp_path: Path) -> None:
    down = [{"error": "unavailable"}]
    async with stage(tmp_path, script(down)) as playing:
        goal = await playing.play("g1", {})
        assert goal.status is TaskStatus.FAILED
        assert "it could not be planned: The script says that the model is out of reach" in goal.answer
    later = tmp_path / "later"
    later.mkdir()
    async with stage(later, script([plan(task("a"), task("b"))], down, down)) as playing:
        playing.worker.ways["b"] = fail("The bridge is out")
        goal = await playing.play("g1", {})
        assert goal.status is TaskStatus.COMPLETED
        assert "could not be planned again" in goal.reason
        assert goal.answer == "Failed. 1 of 2 tasks completed."
        assert "The bridge is out" in Path(goal.report_path).read_text()


async def test_thinking_does_not_hold_up_the_mailbox_and_a_cancelled_goal_stays_cancelled(
    tmp_path: Path,
) -> None:
    """More goals wait for a slow model than the conductor handles messages at once."""
    entries = script([{**plan(task("a")), "delay": 2.0}], answers=[answer("A [a]", "a")])
    async with stage(tmp_path, entries) as playing:
        for number in range(12):
            await playing.submit(f"s{number}", text="slow")
        await playing.until(lambda goal: goal.thinking == "plan", "s11")
        async with asyncio.timeout(1.5):
            quick = await playing.play("q", {"assignee": "worker", "action": "do", "params": {"name": "q"}})
        assert quick.status is TaskStatus.COMPLETED
        letter = CancelGoal(sender="user", recipient="conductor", goal_id="s0")
        await playing.team.write(letter, "conductor")
        assert (await playing.ended("s0")).status is TaskStatus.CANCELLED
        assert (await playing.ended("s1")).status is TaskStatus.COMPLETED
        assert (await playing.goal("s0")).tasks == ()  # type: ignore[union-attr]


async def test_another_process_goes_on_thinking_and_the_plan_is_committed_once(tmp_path: Path) -> None:
    entries = script([{**plan(task("a")), "delay": 1.0}], answers=[answer("A [a]", "a")])
    async with stage(tmp_path, entries) as playing:
        playing.worker.gate.clear()
        await playing.submit("g1")
        await playing.until(lambda goal: goal.thinking == "plan")
        # the first one thinks on, as one would that was frozen and wakes up late
        await playing.team.join(Thoughtful, Profile(name="conductor", description="Conducts."))
        await playing.until(lambda goal: goal.plans)
        await asyncio.sleep(1.0)
        playing.worker.gate.set()
        goal = await playing.ended("g1")
        assert (goal.status, goal.plans, playing.worker.done) == (TaskStatus.COMPLETED, 1, ["a"])
        assert len(await playing.messages("mail.user.conductor")) == 1


async def test_where_thinking_broke_off_it_is_taken_up_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goal_runner, "CHECK_AFTER", 1.0)
    decide = ModelDecisions.decide
    broken: list[str] = []

    async def break_once(self: ModelDecisions, goal: Goal, results: Any) -> Any:
        if not broken:
            broken.append(goal.goal_id)
            raise BusUnavailable("The server is away")
        return await decide(self, goal, results)

    monkeypatch.setattr(ModelDecisions, "decide", break_once)
    async with stage(tmp_path, script([plan(task("a"))], answers=[answer("A [a]", "a")])) as playing:
        goal = await playing.play("g1", {})
        assert (goal.status, broken, playing.worker.done) == (TaskStatus.COMPLETED, ["g1"], ["a"])


async def test_how_tasks_went_is_kept_with_their_results(tmp_path: Path) -> None:
    async with stage(tmp_path, []) as playing:
        playing.worker.ways["bad"] = fail("no")
        for number, name in enumerate(["x", "y", "bad"]):
            context = {"assignee": "worker", "action": "do", "params": {"name": name}}
            await playing.play(f"g{number}", context)
        (index, *_) = await playing.messages(subjects.record("conductor", "learning", "all"))
        assert ExperienceIndex.from_json(index).records == ("worker-do",)
        kept = await playing.messages(subjects.record("conductor", "learning", "worker-do"))
        last = Experience.from_json(kept[-1])
        assert len(kept) == 3
        assert (last.completed, last.failed, last.attempts, len(last.seconds)) == (2, 1, 3, 3)
        assert last.counted == ("g0-task-1", "g1-task-1", "g2-task-1")
        # what is reckoned from the log alone is the same
        (told,) = [seen for seen in (await read_metrics(playing.user)).agents if seen.agent == "worker"]
        for field in ("kind", "completed", "failed", "attempts", "counted", "tokens"):
            assert getattr(told, field) == getattr(last, field)
        # another process knows it
        again = await playing.team.join(Thoughtful, Profile(name="conductor", description="Conducts."))
        assert again.learner.experience("worker", "do") == last
