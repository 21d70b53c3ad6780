"""What leaves for models in an office: over a fallback, with secrets, and what people are shown of it."""

import asyncio
import json
import random
import stat
from pathlib import Path
from typing import Any

from shared import subjects
from shared.bus.records import submission_entry
from shared.contracts import Task, TaskStatus
from tests.support.model_server import Answer, Request, serve_model
from tests.support.office import Office

KEY = f"ghp_{random.Random(25).randbytes(18).hex()}"
NOTE = "the lighthouse is to be sold in March"


def texts(request: Request) -> str:
    return json.dumps(request.body["messages"], ensure_ascii=False)


async def command(office: Office, *arguments: str) -> str:
    finished = await asyncio.to_thread(office.server.mailroom, *arguments)
    assert (finished.returncode, finished.stderr) == (0, ""), finished.stderr
    return finished.stdout


async def test_a_fallback_gets_neither_files_nor_what_the_first_made_of_them(tmp_path: Path) -> None:
    def at_home(request: Request) -> Answer:
        if len(home.requests) == 1:
            return Answer(text="I read it.", calls=[("read_file", {"path": "notes.txt"})])
        if len(home.requests) == 2:
            said = f"I see that {NOTE}."
            return Answer(text=said, calls=[("read_file", {"path": f"{NOTE}.txt"})])
        return Answer(status=401)

    def elsewhere(request: Request) -> Answer:
        if len(provider.requests) == 1:
            mask = "[secret-0123abcd: GitHub token]"
            return Answer(calls=[("write_file", {"path": "new.txt", "content": f"key = {mask}"})])
        return Answer(calls=[("finish_task", {"result": "Done."})])

    with serve_model() as home, serve_model() as provider:
        home.answers, provider.answers = at_home, elsewhere
        there = provider.url.removeprefix("http://").removesuffix("/v1")
        office = Office(
            tmp_path,
            MAILROOM_BRAIN="openai:small",
            MAILROOM_BRAIN_URL=home.url,
            MAILROOM_BRAIN_FALLBACK=f"openai:big@{provider.url}",
            MAILROOM_LEAVES=f"{there}=web",
        )
        workspace = office.config.workspaces / "sell" / "sell"
        workspace.mkdir(parents=True)
        (workspace / "notes.txt").write_text(f"Note: {NOTE}.\nGITHUB_TOKEN={KEY}\n")
        try:
            await office.open(["engineer", subjects.GATEWAY])
            asked = Task(task_id="sell", text="Tidy the notes", assignee="engineer", requester=subjects.USER)
            await office.user.commit([submission_entry(asked)])
            result = await office.result("engineer", "sell")
            assert result.status is TaskStatus.COMPLETED, result.error_message
            assert not (workspace / "new.txt").exists()  # what stands for a secret is written nowhere
            # at home all was read, but for the secret
            assert NOTE in texts(home.requests[1])
            assert KEY not in "".join(map(texts, home.requests))
            assert texts(home.requests[1]).count("[secret-") == 1
            # elsewhere the task alone
            asked_there = "".join(map(texts, provider.requests))
            assert "Tidy the notes" in asked_there
            assert NOTE not in asked_there
            assert KEY not in asked_there
            assert f"(withheld: files may not go to {there})" in asked_there
            assert "stands for a secret that you were not sent" in texts(provider.requests[1])
            # it tells of what the model at home was shown
            assert "files" in result.metadata["kinds"]
            await what_people_are_shown(office, home.url, there)
        finally:
            await office.close()


async def what_people_are_shown(office: Office, home: str, there: str) -> None:
    sent: dict[str, Any] = json.loads(await command(office, "show", "sell", "--sent", "--json"))
    places = [request["place"] for request in sent["requests"]]
    assert places == [home.removeprefix("http://").removesuffix("/v1")] * 3 + [there] * 2
    first, *_, last = sent["requests"]
    assert last["withheld"]["files"] > 100
    assert "files" not in last["kinds"]
    assert sent["ends"][last["id"]]["input_tokens"] == 11
    whole = json.dumps(sent["texts"])
    assert KEY not in whole
    assert NOTE in whole
    assert first["tools"]
    shown = await command(office, "show", "sell", "--sent")
    assert f"openai:big at {there} (local), for sell" in shown
    assert "1 secret masked" in shown
    assert "failed after" in shown
    assert shown.count("Tidy the notes") == 1  # what the request before had is counted alone
    listed = json.loads(await command(office, "models", "--json"))["agents"]
    (engineer,) = [each for each in listed if each["agent"] == "engineer"]
    assert [model["kinds"] == ["web"] for model in engineer["models"]] == [False, True]
    assert {each["model"]: each["requests"] for each in engineer["today"]} == {
        "openai:small": 3,
        "openai:big": 2,
    }
    told = await command(office, "models")
    assert f"openai:big at {there} (local), stands in; kinds of text: web" in told
    assert "characters of files withheld" in told
    for path in office.config.sent.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    refused = await asyncio.to_thread(office.server.mailroom, "show", "no-such-goal", "--sent")
    assert refused.returncode != 0
    assert "There is no goal or task 'no-such-goal'" in refused.stderr
