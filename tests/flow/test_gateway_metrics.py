"""What Prometheus scrapes and what the figures say, of a real office; a real Prometheus scrapes it."""

import asyncio
import contextlib
import json
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from services.gateway.metrics.reading import MAX_AGENTS, OTHER, limited
from shared import subjects
from shared.access.scopes import Scope
from shared.bus.entry import seal
from shared.bus.records import step_entry, submission_entry
from shared.contracts import CommandJudged, CommandVerdict, Task, TaskStatus, generate_iso_timestamp
from shared.contracts.task import Span, SpanKind
from shared.errors import BusError
from shared.trace import HEADER, trace_id
from tests.support.access import Tokens
from tests.support.gateway import RunningGateway
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.waiting import eventually

DASHBOARD = Path("deploy/grafana/mailroom.json")
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SAMPLE = re.compile(r"(\w+)(?:{(.*)})? (\S+)")


@contextlib.asynccontextmanager
async def run_gateway(folder: Path) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(folder, **install_slow_agent(folder))
    try:
        await running.open("conductor", "critic", "slow")
        yield running
    finally:
        await running.close()


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway for one test."""
    async with run_gateway(tmp_path) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    """A gateway whose office has worked, for the tests that add nothing to what it counts."""
    async with run_gateway(tmp_path_factory.mktemp("gateway")) as running:
        await work(running)
        async with running.client(Scope.READ) as client:
            await indexed(client, running)
        yield running


in_module = pytest.mark.asyncio(loop_scope="module")


async def work(gateway: RunningGateway) -> None:
    """Two goals, and a task with model calls, memories and a denied command."""
    for name in ("tea-1", "tea-2"):
        await gateway.office.submit(slow_goal(name, 0.05))
    for name in ("tea-1", "tea-2"):
        await gateway.office.finished(name)
    bus = await gateway.office.connect("engineer")
    task = Task(task_id="t1", text="Look", assignee="engineer", requester="engineer")
    spans = tuple(
        Span(
            number=number,
            kind=SpanKind.MODEL,
            name="qwen3",
            started_at=generate_iso_timestamp(),
            seconds=1.0,
            input_tokens=100,
            output_tokens=20,
            cost=0.25,
        )
        for number in (1, 2)
    )
    facts = {"context": {"scores": [0.8, 0.1]}, "usage": {"input_tokens": 200, "output_tokens": 40}}
    result = task.result("engineer", TaskStatus.COMPLETED, output="x", metadata=facts, attempt=1, spans=spans)
    (seq,) = await bus.commit([submission_entry(task)])
    await bus.commit([step_entry(task, subjects.ENDED, result, seq)])
    judged = CommandJudged(command="rm -rf /", verdict=CommandVerdict.DENY, rule="r", why="w", task_id="t1")
    await bus.commit([seal(subjects.event("engineer", "command_judged"), judged)])
    await bus.close()


async def scrape(client: httpx2.AsyncClient) -> dict[str, float]:
    answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return parse(answer.text)


def parse(text: str) -> dict[str, float]:
    found = {}
    for line in text.splitlines():
        if not line.startswith("#") and (sample := SAMPLE.fullmatch(line)):
            labels = ",".join(sorted(re.findall(r'\w+="[^"]*"', sample[2] or "")))
            found[f"{sample[1]}{{{labels}}}" if labels else sample[1]] = float(sample[3])
    return found


async def indexed(client: httpx2.AsyncClient, gateway: RunningGateway) -> None:
    """Wait until the gateway has indexed all there is."""

    async def ready() -> bool:
        page = (await client.get("/api/v1/messages", params={"limit": 1})).json()
        info = await gateway.office.user.request(f"$JS.API.STREAM.INFO.{subjects.OFFICE}")
        return bool(page["position"].split("-")[0] == str(json.loads(info)["state"]["last_seq"]))

    await eventually(ready)


@in_module
async def test_the_page_has_the_office_s_figures_and_keeps_them_over_a_kill(worked: RunningGateway) -> None:
    async with worked.client(Scope.READ) as client:
        await indexed(client, worked)
        found = await scrape(client)
        text = (await client.get("/metrics")).text
    assert found['mailroom_goals{outcome="done",status="completed"}'] == 2
    assert found['mailroom_tasks{agent="slow",outcome="done",status="completed"}'] == 2
    assert found['mailroom_task_hop_seconds_count{agent="slow",hop="claim"}'] == 2
    assert found['mailroom_task_hop_seconds_bucket{agent="slow",hop="work",le="0.025"}'] == 0
    assert found['mailroom_task_hop_seconds_bucket{agent="slow",hop="work",le="+Inf"}'] == 2
    assert found['mailroom_model_tokens_total{agent="engineer",direction="input",model="qwen3"}'] == 200
    assert found['mailroom_model_calls_total{agent="engineer",model="qwen3"}'] == 2
    assert found['mailroom_model_cost_dollars_total{agent="engineer",model="qwen3"}'] == 0.5
    assert found['mailroom_commands_judged_total{agent="engineer",verdict="deny"}'] == 1
    assert found['mailroom_queue_depth{agent="slow",lane="medium"}'] == 0
    assert found['mailroom_processes{agent="slow",host="office"}'] == 1
    assert found["mailroom_bus_up"] == 1
    assert found["mailroom_approvals_waiting"] == 0
    assert found["mailroom_nats_storage_bytes"] > 0
    assert found["mailroom_nats_jetstream_bytes"] >= found["mailroom_nats_storage_bytes"]
    assert found["mailroom_nats_memory_bytes"] > 5_000_000
    assert found["mailroom_nats_slow_consumers_total"] == 0
    assert found["mailroom_nats_received_messages_total"] > found["mailroom_log_messages"]
    assert not re.search(r"tea-1|\bt1\b|[0-9a-f]{12}", re.sub(r" \S+$", "", text, flags=re.MULTILINE))
    _check_with_promtool(text)

    worked.office.kill(subjects.GATEWAY)
    worked.office.start(subjects.GATEWAY)
    await worked.office.ready(subjects.GATEWAY)
    async with worked.client(Scope.READ) as client:
        await indexed(client, worked)
        later = await scrape(client)
    counted = {
        name: value for name, value in found.items() if re.match(r"mailroom_(task|goal|model|comm)", name)
    }
    assert {name: later[name] for name in counted} == pytest.approx(counted)


async def test_connections_are_those_that_the_server_has(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        before = await scrape(client)
        bus = await gateway.office.connect("scout")
        try:
            for subject in (subjects.SERVER_STATISTICS, "$SYS.REQ.SERVER.PING.STATSZ"):
                with pytest.raises(BusError):  # these figures are for the gateway
                    await bus.request(subject, timeout=0.5)
            await asyncio.sleep(1.1)  # what was read counts for a second
            after = await scrape(client)
        finally:
            await bus.close()
    assert after["mailroom_nats_connections"] == before["mailroom_nats_connections"] + 1
    assert (
        after["mailroom_nats_connections_opened_total"]
        == before["mailroom_nats_connections_opened_total"] + 1
    )


@in_module
async def test_nobody_scrapes_without_a_token(worked: RunningGateway) -> None:
    async with worked.stranger() as client:
        for path in ("/metrics", "/api/v1/kpi", "/asyncapi.json", "/api/v1/doctor"):
            assert (await client.get(path)).status_code == 401


async def test_the_page_is_there_without_the_server(gateway: RunningGateway) -> None:
    await work(gateway)
    async with gateway.client() as client:
        await indexed(client, gateway)
        gateway.office.server.kill()
        found = await scrape(client)
    assert found["mailroom_bus_up"] == 0
    assert found['mailroom_goals{outcome="done",status="completed"}'] == 2


async def test_requests_are_counted_by_route_and_continue_a_trace(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        for name in ("AUDIT/99999", "b/2", "../../etc"):
            await client.get(f"/api/v1/messages/{name}")
        await client.get("/nowhere/12345")
        body = {"text": "Wait", "context": {"assignee": "slow", "action": "wait", "params": {"seconds": 0}}}
        answer = await client.post("/api/v1/goals", json=body, headers={HEADER: PARENT})
        assert answer.status_code < 300, answer.text
        async with client.stream("GET", "/api/v1/events") as events:
            lines = events.aiter_lines()
            await anext(aiter(lines))
            found = await scrape(client)
        assert found["mailroom_gateway_streams"] == 1
    routes = {name for name in found if name.startswith("mailroom_gateway_requests_total")}
    assert any(
        'route="/api/v1/messages/{stream}/{seq}"' in name and 'status="404"' in name for name in routes
    )
    assert not any("12345" in name or "9999" in name or "etc" in name for name in routes)
    goal = await gateway.office.finished(answer.json()["goal_id"])
    assert trace_id(goal.traceparent) == trace_id(PARENT)


@in_module
async def test_the_figures_are_those_of_the_command(worked: RunningGateway) -> None:
    async with worked.client() as client:
        await indexed(client, worked)
        found = (await client.get("/api/v1/kpi")).json()
        recent = datetime.now(UTC) - timedelta(hours=1)
        of_hour = (await client.get("/api/v1/kpi", params={"since": recent.isoformat()})).json()
        of_now = (await client.get("/api/v1/kpi", params={"since": datetime.now(UTC).isoformat()})).json()
        wrong = await client.get("/api/v1/kpi", params={"since": "yesterday"})
    metrics = found["metrics"]
    printed = json.loads(worked.office.server.mailroom("kpi", "--json").stdout)
    compared = (printed, of_hour["metrics"], metrics)
    assert all(each.pop("messages") for each in compared)
    experiences = [each.pop("agents") for each in compared]
    kinds = [[(seen["agent"], seen["kind"]) for seen in each] for each in experiences]
    assert kinds[0] == kinds[1] == kinds[2]
    assert {agent for agent, _ in kinds[0]} >= {"engineer", "slow"}
    assert printed == of_hour["metrics"] == metrics
    assert (of_now["metrics"]["tasks"], of_now["metrics"]["velocity"]) == ({}, None)
    assert [each["value"] for each in of_hour["figures"]] == [each["value"] for each in found["figures"]]
    assert len(of_hour["figures"][0]["trend"]) <= 2 < len(found["figures"][0]["trend"]) == 30
    assert {each["value"] for each in of_now["figures"] if each["name"] in ("tasks", "velocity")} == {None}
    assert wrong.status_code == 422
    assert metrics["tasks"] == {"completed": metrics["velocity"]["tasks"]}
    assert metrics["velocity"]["tasks"] >= 3
    assert metrics["context_hits"]["items"] == 1
    assert metrics["safety"]["denied"] == 1
    figures = {each["name"]: each for each in found["figures"]}
    assert figures["velocity"]["met"] is True
    assert (figures["context"]["value"], figures["context"]["met"]) == (0.8, True)
    assert (figures["handoffs"]["value"], figures["adaptation"]["value"]) == (1.0, None)
    assert found["metrics"]["planted"]["missed"] == []
    assert figures["drift"]["value"] is None
    assert figures["safety"]["value"] == 1.0
    assert figures["tokens"]["value"] == 240
    assert all(len(each["trend"]) == 30 for each in figures.values())
    assert [point["value"] for point in figures["velocity"]["trend"]][:-1] == [None] * 29


@in_module
async def test_doctor_and_the_description_of_the_bus_are_served(worked: RunningGateway) -> None:
    async with worked.client(Scope.READ) as client:
        checks = (await client.get("/api/v1/doctor")).json()["checks"]
        document = (await client.get("/asyncapi.json")).json()
    verdicts = {check["name"]: check["verdict"] for check in checks}
    assert verdicts["bus"] == "ok"
    assert verdicts["agents"] == "warn"
    assert document["asyncapi"] == "3.1.0"
    assert "slow_receive_task_new" in document["operations"]


@in_module
async def test_a_real_prometheus_scrapes_it(worked: RunningGateway, tmp_path: Path) -> None:
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        pytest.skip("prometheus is not installed (Debian's package of that name)")
    async with run_prometheus(prometheus, worked, tmp_path) as client:
        (goals,) = await ask(client, 'sum(mailroom_goals{status="completed"})')
        assert goals["value"][1] == "2"
        assert [each["value"][1] for each in await ask(client, "up")] == ["1"]
        panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel.get("targets")]
        asked = [(panel, target["expr"]) for panel in panels for target in panel["targets"]]
        for panel, expression in asked:
            if not panel["description"]:
                assert await ask(client, expression), expression
            else:  # it says when it is empty; what is asked has to be valid all the same
                answer = await client.get("/api/v1/query", params={"query": expression})
                assert answer.json()["status"] == "success", answer.text
        (spent,) = await ask(client, "sum(mailroom_model_cost_dollars_total)")
        assert float(spent["value"][1]) == 0.5


async def ask(client: httpx2.AsyncClient, query: str) -> list[Any]:
    """What Prometheus answers, waiting until there is something."""

    async def answered() -> list[Any]:
        try:
            answer = await client.get("/api/v1/query", params={"query": query})
            return list(answer.json()["data"]["result"])
        except (httpx2.HTTPError, ValueError):
            return []

    return list(await eventually(answered, 40))


@contextlib.asynccontextmanager
async def run_prometheus(
    program: str, gateway: RunningGateway, folder: Path
) -> AsyncIterator[httpx2.AsyncClient]:
    """A Prometheus that scrapes the gateway each second."""
    token, port = Tokens(gateway.config).add("prometheus", Scope.READ), free_port()
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n"
        f"  - {{job_name: mailroom, authorization: {{credentials: {token}}}, "
        f"static_configs: [{{targets: ['{gateway.url.removeprefix('http://')}']}}]}}\n"
    )
    process = subprocess.Popen(  # noqa: ASYNC220
        [
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 20)


@in_module
async def test_the_dashboard_asks_for_figures_that_there_are(worked: RunningGateway) -> None:
    async with worked.client() as client:
        await indexed(client, worked)
        await client.get("/metrics")
        found = {name.partition("{")[0] for name in await scrape(client)}
    asked = names_in(json.loads(DASHBOARD.read_text()))
    assert asked
    may_be_missing = {"mailroom_dead_letters", "mailroom_tasks_working"}
    assert asked <= found | may_be_missing, asked - found


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def names_in(value: Any) -> set[str]:
    """The names of metrics in the expressions of a dashboard."""
    if isinstance(value, dict):
        expressions = re.findall(r"\b(mailroom_\w+|process_\w+)", value.get("expr", ""))
        return set(expressions).union(*map(names_in, value.values()))
    return set().union(*map(names_in, value)) if isinstance(value, list) else set()


def test_names_beyond_a_limit_share_a_label() -> None:
    names = [f"specialist-{number:03}" for number in range(MAX_AGENTS + 20)]
    labels = limited(names, MAX_AGENTS)
    assert len(set(labels.values())) == MAX_AGENTS + 1
    assert labels[names[-1]] == OTHER


def _check_with_promtool(text: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        return  # the test of a real Prometheus says that it is missing
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
