"""One instance of every contract, as the golden files have it.

``python -m tests.contracts.examples`` writes the golden files anew. The difference is then read by a
person: a field that was renamed, removed or retyped needs a new version of the type, not a new file.
"""

import struct
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from shared import contracts as c
from shared.asyncapi.document import make_document

GOLDEN = Path(__file__).parent / "golden"
ASYNCAPI = Path(__file__).parent / "asyncapi.sha256"
"""The digest of the document: a change of it is to be meant."""
AGENTS = ("conductor", "cortex", "critic", "engineer", "frontier", "gateway", "memory", "nexus", "scout")

AT = "2026-01-02T14:30:22.123456+00:00"
LATER = "2026-01-02T14:45:00.000000+00:00"
TASK_ID = "engineer_20260102_143022_123456_9f86d081"
OTHER_TASK_ID = "scout_20260102_143022_123999_60303ae2"
GOAL_ID = "goal_20260102_143022_100000_fd61a03a"
NODE_ID = "019b7f0a-1c2b-7000-8000-00000000000a"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER_NODE_ID = "019b7f0a-1c2b-7000-8000-00000000000b"


def header(number: int, sender: str, recipient: str) -> dict[str, str]:
    """The header of the envelope with this number; each answers the one before. Only people have a name."""
    person = {"person": "Ada Lovelace", "audience": "ada"} if sender == "user" else {}
    return {
        **person,
        "id": _id(number),
        "sender": sender,
        "recipient": recipient,
        "created_at": AT,
        "cause": _id(number - 1),
        "goal_id": GOAL_ID,
    }


def _id(number: int) -> str:
    return f"019b7f0a-1c2b-7000-8000-{number:012d}"


BUDGET = c.GoalBudget(
    goal_id="goal_20260102_140000_000000_1",
    tokens=200_000,
    cost=1.5,
    person="ada",
    day_tokens=900_000,
    day_cost=4.5,
)
SAID = c.Said(
    text="Run the tests of /srv/project",
    by="conductor",
    until="2026-01-02T14:45:00.000000+00:00",
    signature="ab" * 64,
)
TASK = c.Task(
    **header(1, "conductor", "engineer"),
    task_id=TASK_ID,
    parent_goal_id=GOAL_ID,
    text="Run the tests of the repository",
    assignee="engineer",
    status=c.TaskStatus.IN_PROGRESS,
    priority=c.TaskPriority.HIGH,
    requester="conductor",
    context={"action": "run_tests", "params": {"repo": "/srv/project", "timeout": 300.5}, "inputs": {}},
    context_refs=(NODE_ID,),
    evidence_refs=("README.md:12",),
    depends_on=(OTHER_TASK_ID,),
    deadline=LATER,
    traceparent=TRACE,
    said=SAID,
    asker="user",
    workspace="tests-1",
    starts_from=("reading-1",),
    continues=OTHER_TASK_ID,
    budget=BUDGET,
)
SPAN = c.Span(
    number=4,
    parent=3,
    kind=c.SpanKind.MODEL,
    name="openai:qwen3",
    started_at=AT,
    seconds=2.25,
    failed=True,
    input="What failed?",
    output="Two tests.",
    ref=f"{NODE_ID}:3",
    input_tokens=1_200,
    output_tokens=48,
    cached_tokens=1_024,
    instead_of="openai:qwen3-large",
    cost=0.0042,
    count=2,
)
TASK_RESULT = c.TaskResult(
    **header(2, "engineer", "conductor"),
    task_id=TASK_ID,
    completed_at=LATER,
    agent="engineer",
    status=c.TaskStatus.FAILED,
    output="11 passed, 1 failed",
    output_paths=("outputs/tests.log",),
    evidence_refs=("tests/test_login.py:40",),
    error_message="One test failed",
    metadata={"passed": 11, "failed": 1, "coverage": 0.95, "flaky": None, "slow": [True, False]},
    attempt=2,
    worker="9f86d081aa12",
    begun_at=AT,
    outcome=c.ResultOutcome.FAILED,
    spans=(SPAN,),
    parent_goal_id=GOAL_ID,
)
STATEMENT = c.Statement(text="A web shop — für alle 店", source="README.md:3")
FINDING = c.Finding(
    tool="bandit",
    rule="B602",
    severity="high",
    file="shop/pay.py",
    line=17,
    message="Shell=True in a subprocess",
)
LETTER = c.Email(
    **header(44, "user", "engineer"),
    subject="The login",
    body="Is the login fixed?",
    in_reply_to=_id(39),
    user_session_id="browser-1",
    hops=1,
)
DUE = c.Due(
    **header(148, "nexus", "nexus"),
    due_id="s4f2a90",
    what=c.DueKind.GOAL,
    text="Check up on /srv/shop",
    requester="user",
    at=LATER,
    status=c.DueStatus.PAUSED,
    repeats="DTSTART;TZID=Europe/Zurich:20260105T070000\nRRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
    words="every weekday at 7",
    runs=3,
    missed=1,
    last_at=AT,
    last="goal_7",
    note="1 run was missed while the office was stopped",
    job={"id": "job-20260102-001", "task": "frontier.daily_discovery", "priority": "high", "retries": 2},
)
EFFECT = c.Effect(
    what="run the tests: pytest -q",
    step="t-1-3-",
    host="north",
    repeatable=True,
    started_at=AT,
    finished_at=LATER,
)
PUT_ASIDE = c.PutAside(id="dead_letter:814", agent="scout", by="ada", created_at=AT)
INSTRUCTION = c.Instruction(id="say-1", text="Leave the tests alone", given_at=AT, person="ada")
CHANGE = c.Change(path="outputs/g/changes/c/project.patch", folder="/srv/project")
SETBACK = c.Setback(
    task="tests",
    agent="engineer",
    action="run_tests",
    params={"timeout": 60},
    reason="It took longer than 60 s",
    review=True,
    plan=1,
    told=1,
)
FAILURE = c.Failure(
    goal_id=GOAL_ID,
    subject="/srv/project",
    params={"timeout": 60},
    error="timeout",
    project="python",
    reason="It took longer than 60 s",
)
GOAL = c.Goal(
    person="ada",
    goal_id=GOAL_ID,
    text="Check up on the repository at /srv/project",
    requester="user",
    status=c.TaskStatus.REVIEW,
    priority=c.TaskPriority.URGENT,
    context={"repo": "/srv/project"},
    context_refs=(NODE_ID,),
    evidence_refs=("src/app.py:12",),
    playbook="checkup",
    parameters={"repo": "/srv/project"},
    tasks=(
        c.GoalTask(
            name="tests",
            task_id=TASK_ID,
            text="Run the tests of the repository",
            assignee="engineer",
            action="run_tests",
            params={"repo": "/srv/project"},
            depends_on=("reading",),
            status=c.TaskStatus.COMPLETED,
            issued=True,
            started_at=AT,
            ended_at=LATER,
            summary="11 passed, 1 failed",
            outcome=c.ResultOutcome.FINDINGS,
            success_criteria="All tests ran",
            workspace="tests-1",
            changes=(CHANGE,),
            merges=("outputs/g/changes/a/project.patch", "outputs/g/changes/b/project.patch"),
            continues=OTHER_TASK_ID,
        ),
    ),
    review_task_id="critic_20260102_144000_000000_1b4f0e98",
    reviews=2,
    verdict={"approved": False, "decision": "sent_back"},
    report_path="outputs/checkup.md",
    answer="The report is written",
    reason="One test failed",
    deadline=LATER,
    submitted_at=AT,
    ended_at=LATER,
    traceparent=TRACE,
    thinking="answer",
    plans=2,
    retry_of="goal_20260101_144000_000000_7",
    instructions=(INSTRUCTION,),
    earlier=(
        c.GoalTask(
            name="tests",
            task_id="tests-1",
            text="Run the tests of the repository",
            assignee="engineer",
            status=c.TaskStatus.FAILED,
            summary="There is no folder",
        ),
    ),
    said=SAID,
    outcome=c.ResultOutcome.FINDINGS,
    setbacks=(SETBACK,),
    patterns=(NODE_ID,),
    left_out=("and tell Ana",),
    question="Which folder?",
    part_of="goal_20260102_140000_000000_1",
    cause=_id(1),
    starts_from=(OTHER_TASK_ID,),
    depth=1,
    asker="user",
    budget=BUDGET,
)
PATTERN = c.Pattern(
    condition="Tests of a python project that take longer than the limit",
    strategy="Give it timeout=600",
    learned_from=c.PatternOrigin.REPAIR,
    example="Run the tests of /srv/project",
    agent="engineer",
    action="run_tests",
    project="python",
    error="timeout",
    params={"timeout": 600},
    evidence=(f"goal:{GOAL_ID}",),
    uses=3,
    successes=2,
    counted=(GOAL_ID,),
)
SOURCE = c.Source(agent="critic", session="session-7", channel="task")
NODE = c.Node(
    id=NODE_ID,
    kind="pattern",
    title="The login test fails",
    body="tests/test_login.py:40 fails since the session cookie was renamed.",
    tags=("tests", "login"),
    metadata={"repo": "/srv/project"},
    source=SOURCE,
    importance=0.8,
    access_count=3,
    last_accessed_at=LATER,
    created_at=AT,
    updated_at=LATER,
    valid_from=AT,
    valid_to=LATER,
    created_version=41,
    version=43,
    retired_version=43,
    embedding=(0.6, -0.8),
)
EDGE = c.Edge(
    from_id=NODE_ID,
    to_id=OTHER_NODE_ID,
    relation=c.Relation.LED_TO,
    weight=0.6,
    provenance={"by": "structural", "rule": "same session"},
    created_at=AT,
    touched_at=LATER,
    created_version=42,
    version=44,
    retired_version=44,
)
EDGE_KEY = c.EdgeKey(from_id=NODE_ID, to_id=OTHER_NODE_ID, relation=c.Relation.CONTRADICTS)
REJECTION = c.Rejection(
    check="duplicate",
    reason="Memory holds a pattern that says the same (0.97)",
    suggestion="Add to the node that is there",
    existing=NODE,
)
PICTURE_NODE = c.PictureNode(
    id=NODE_ID,
    kind="decision",
    title="Sessions last a day",
    agent="critic",
    importance=0.8,
    standing="superseded",
    degree=4,
)
PICTURE_EDGE = c.PictureEdge(start=0, end=1, relation=c.Relation.SUPERSEDES, weight=0.6)
NODE_CHANGE = c.NodeChange(id=NODE_ID, kind="decision", title="Sessions last a day", change="changed")
VERSION_CHANGE = c.VersionChange(
    version=41,
    at=AT,
    sender="user",
    person="ana",
    write=_id(60),
    cause=_id(59),
    nodes=(NODE_CHANGE,),
    changed=30,
    linked=2,
    unlinked=1,
)
NODE_STATE = c.NodeState(
    version=41,
    node=NODE,
    change="changed",
    fields=("title",),
    at=AT,
    sender="user",
    person="ana",
    write=_id(60),
    cause=_id(59),
)
VISIT = c.Visit(node=NODE, depth=2, weight=0.3, parent=OTHER_NODE_ID, relation="led_to")
CONTEXT_ITEM = c.ContextItem(text="The login test fails", evidence_id=NODE_ID, score=0.875)
CONTEXT_PACKET = c.ContextPacket(
    query="What did the check-up find?",
    bullets=(CONTEXT_ITEM,),
    unknowns=("Since when it fails",),
    assumptions=("The latest check-up is meant",),
    best=0.75,
)
STEP = c.TaskStep(
    step_number=2,
    action="Implement password hashing",
    dependencies=(1,),
    estimated_complexity="low",
    success_criteria="Passwords are hashed",
    context={"action": "write_file"},
)
TOOL_RUN = c.ToolRun(
    name="bandit", version="1.9.4", findings=1, problem="2 files could not be parsed", files=41
)
TEST_FAILURE = c.TestFailure(test="test_login", message="assert 401 == 200", source="tests/test_login.py:40")
CHECKED = c.Checked(
    tests=1,
    records=1,
    patches=1,
    inspections=1,
    code=2,
    files=3,
    sources=4,
    found=3,
    criteria=2,
    met=1,
    content=True,
    unjudged=("tests: not run: its time was up",),
)

NOT_CHECKED = c.NotChecked(what="main.go", why="There is no Go here", cure="Install it: apt install golang")
COMMAND_RECORD = c.CommandRecord(command="uv sync", exit_code=1, seconds=2.5)
CONNECTION = c.Connection(
    host="pypi.org", port=443, allowed=False, why="It was not granted", sent=517, received=39, seconds=0.25
)
PREPARATION = c.Preparation(
    ecosystem="python",
    folder="shop",
    tool="uv 0.9.5",
    interpreter="CPython 3.12.1",
    read=("uv.lock",),
    steps=(COMMAND_RECORD,),
    seconds=3.5,
    cached=True,
    problem="numpy could not be built",
    cure="Install gfortran",
    refused=("example.org",),
    log_path="outputs/prepare.log",
    notes=("pytest was installed as well",),
)
TEST_SUITE = c.TestSuite(
    command="pytest -q",
    found="pyproject.toml:30",
    exit_code=1,
    passed=11,
    failed=1,
    skipped=2,
    errors=0,
    seconds=3.25,
    timed_out=True,
    failures=(TEST_FAILURE,),
    problem="Stopped after 300 seconds",
    log_path="outputs/tests.log",
    cure="Name it in .mailroom.yaml",
    folder="shop",
    interpreter="CPython 3.12.1",
    counted_by="JUnit report",
    flaky=("tests/test_pay.py::test_retry",),
    hung=("tests/test_pay.py::test_slow",),
    notes=("3 of 4 failures need a network",),
    incomplete=True,
)
DRIFT_RULE = c.DriftRule(
    rule="shop does not import admin",
    source="ARCHITECTURE.md:21",
    violations=(FINDING,),
    not_checked="Two packages could not be read",
)
SECTION = c.BriefingSection(title="Active Context", nodes=(NODE,), omitted=2)

CHOICE = c.Choice(label="9:00 in the morning", text="Remind me on Friday at 9:00 to call Ana")
ASKED_BACK = c.AskedBack(
    choices=(CHOICE,), template="Remind me on Friday {answer} to call Ana", expects="time"
)
MENTIONED = c.Mentioned(what="goal", ref=GOAL_ID, text="Run the tests")
TOLD = c.Told(id=_id(8), text="The lease ends in June", asked_at=AT)
CONVERSATION_TURN = c.ConversationTurn(
    id=_id(9),
    text="and staging?",
    meant="What about staging?",
    answer="The login test fails.",
    route="nexus",
    state="answered",
    failed=True,
    assignee="engineer",
    task_id=TASK_ID,
    goal_id=GOAL_ID,
    asked_at=AT,
)

ERASED_MESSAGE = c.ErasedMessage(
    seq=8,
    subject="mail.user.nexus",
    time="2026-01-02T14:30:22.123456789Z",
    leaf="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    kind="response.v1",
    message_id=NODE_ID,
    replaced=True,
)

STORED = c.StoredObject(
    bucket="engineer_north",
    key="674b2f00-6f1c",
    name=f"{GOAL_ID}/{TASK_ID}/0",
    size=48_213,
    digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
)
PARCEL = c.Parcel(workspace=TASK_ID, host="north", pinned=True, source="/home/ada/parser", objects=(STORED,))
EXAMPLES: tuple[c.Contract, ...] = (
    c.Email(
        **header(3, "conductor", "user"),
        subject="Your check-up is done",
        body="The report lies in outputs/checkup.md.\n\nOne test fails.",
        in_reply_to=_id(2),
        user_session_id="session-7",
        hops=2,
    ),
    c.CancelGoal(**header(4, "user", "conductor"), reason="No longer needed"),
    TASK,
    SAID,
    BUDGET,
    c.TaskRequest(
        **header(5, "nexus", "conductor"),
        task_id=TASK_ID,
        requester="nexus",
        task_description="Implement user authentication",
        priority=c.TaskPriority.LOW,
        context={"language": "python"},
        evidence_refs=("memory:req_001",),
    ),
    c.TaskPlan(
        **header(6, "cortex", "conductor"),
        task_id=TASK_ID,
        agent="cortex",
        steps=(
            c.TaskStep(step_number=1, action="Design the database schema", estimated_complexity="medium"),
            STEP,
        ),
        overall_complexity="medium",
        required_tools=("sqlite", "pytest"),
        estimated_duration="two hours",
    ),
    TASK_RESULT,
    c.DiscoveryResult(
        **header(7, "frontier", "conductor"),
        task_id=OTHER_TASK_ID,
        completed_at=LATER,
        agent="frontier",
        query="graph neural networks",
        papers=({"title": "Graph networks", "arxiv_id": "2401.12345", "authors": ["A", "B"]},),
        news_items=({"title": "A release", "link": "https://example.org/news/1"},),
        citations=("arxiv:2401.12345",),
        summary="One paper and one news item",
        output_path="outputs/brief.md",
    ),
    c.AgentReport(
        **header(8, "frontier", "user"),
        report_id="report_20260102_143022",
        agent="frontier",
        report_type="research_brief",
        summary="What was new this week",
        findings=("Graph networks improve",),
        evidence_refs=("arxiv:2401.12345",),
        output_paths=("outputs/brief.md",),
        metadata={"papers": 1},
    ),
    c.Question(
        **header(9, "user", "nexus"),
        text="What did the check-up find?",
        user_session_id="session-7",
        history=({"role": "user", "text": "Check up on the shop"},),
    ),
    c.Response(
        **header(10, "nexus", "user"),
        text="The login test fails.",
        citations=(NODE_ID,),
        route_used="tool:memory",
        context_used=CONTEXT_PACKET,
        confidence=0.75,
        outcome=c.ResultOutcome.DONE,
        asks=ASKED_BACK,
        understood="What does the login test say about staging?",
    ),
    c.CognitiveMessage(
        **header(11, "cortex", "memory"),
        message_type=c.MessageType.REQUEST,
        payload={"query": "login"},
        correlation_id="corr-1",
        timestamp=AT,
        priority=5,
    ),
    c.TaskChanged(
        **header(12, "engineer", "conductor"),
        task_id=TASK_ID,
        origin=814,
        attempt=2,
        worker="engineer-4711",
        note="Running the tests",
        journal=(EFFECT,),
        spans=(SPAN,),
    ),
    PUT_ASIDE,
    c.Seal(
        **(header(63, "gateway", "user") | {"person": "ada", "audience": "ada"}),
        stream="OFFICE",
        number=3,
        first=2_001,
        last=2_002,
        count=2,
        root="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        chain="2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        marks="n4bQgSwmtGs=",
    ),
    c.PersonLimits(
        **(header(63, "gateway", "user") | {"person": "bob", "audience": "ada"}),
        whose="ada",
        day_tokens=200_000,
        day_cost=1.5,
        open_goals=3,
        day_goals=20,
    ),
    c.PersonGoals(
        **header(64, "conductor", "user"),
        whose="ada",
        day="2026-11-30",
        today=("goal_1", "goal_2"),
        opened=("goal_2",),
    ),
    c.LettersDropped(**header(62, "admin", "user"), numbers=(814,)),
    c.InboxChanged(
        **(header(61, "gateway", "user") | {"person": "ada", "audience": "ada"}), put_aside=(PUT_ASIDE,)
    ),
    c.Instructions(
        **header(60, "conductor", "engineer"),
        instructions=(INSTRUCTION,),
        said=SAID,
        budget=BUDGET,
    ),
    c.ParcelsStored(
        **header(63, "engineer", "user"),
        parcels=(PARCEL,),
    ),
    PARCEL,
    STORED,
    c.StateChanged(
        **header(13, "conductor", "user"),
        state=c.OfficeState.REVIEW,
        previous=c.OfficeState.EXECUTING,
        goal=GOAL,
        active={GOAL_ID: c.OfficeState.REVIEW},
        spans=(SPAN,),
    ),
    c.GoalDue(**header(14, "conductor", "conductor"), what="thinking"),
    c.DeadLetter(
        **header(15, "engineer", "user"),
        reason="task.v1: Object missing required field `text`",
        subject=f"task.engineer.conductor.{TASK_ID}.new",
        stream="OFFICE",
        stream_seq=815,
        deliveries=5,
        original='{"type":"task.v1"}',
        original_size=18,
        headers={"Nats-Msg-Id": "m-1"},
        task_id=TASK_ID,
    ),
    c.Presence(
        **header(16, "engineer", "user"),
        agent="engineer",
        instance="engineer-4711",
        version="0.1.0",
        description="Changes and runs code in a workspace",
        instructions="Name the repository by its whole path",
        skills=("git", "tests"),
        actions={"run_tests": "Find and run a project's tests"},
        load=1,
        concurrency=4,
        handled=12,
        failed=1,
        pid=4711,
        host="office-1",
        space="pid:[4026531836]",
        started_at=AT,
        unplanned=("run_tests",),
        schemas={"run_tests": {"type": "object", "properties": {"repo": {"type": "string"}}}},
        paused=True,
        servers=("time",),
    ),
    c.MemoryWrite(
        **header(17, "critic", "memory"),
        nodes=(NODE,),
        edges=(EDGE,),
        retire=(OTHER_NODE_ID,),
        forget=(OTHER_NODE_ID,),
        unlink=(EDGE_KEY,),
        accessed={NODE_ID: 2},
        vectors=struct.pack("<2f", 0.6, -0.8),
        insist=True,
        asker="user",
    ),
    c.MemoryWritten(
        **header(18, "memory", "critic"),
        ids=(NODE_ID,),
        version=42,
        error="Memory holds a pattern that says the same (0.97)",
        rejection=REJECTION,
        proposed=(EDGE_KEY,),
    ),
    c.MemoryRefused(
        **header(21, "memory", "memory"),
        error="Memory holds a pattern that says the same (0.97)",
        rejection=REJECTION,
    ),
    c.MemoryErased(
        **header(44, "memory", "memory"),
        seqs=(17, 23),
        subject="memory.write.critic",
        time="2026-01-02T14:30:22.123456789Z",
        write=c.MemoryWrite(**header(17, "critic", "memory"), unlink=(EDGE_KEY,)),
        refused=c.MemoryRefused(**header(21, "memory", "memory"), error="It was refused"),
    ),
    c.MemoryForgotten(
        **header(45, "memory", "memory"),
        orders=(NODE_ID,),
        ids=(OTHER_NODE_ID,),
        seqs=(17, 23),
    ),
    c.MemoryErasable(**header(48, "memory", "memory"), seqs=(17, 23)),
    c.ErasureOrder(
        **header(46, "user", "memory"),
        nodes=(NODE_ID,),
        texts=("The key is below the mat",),
        common=("the key",),
    ),
    ERASED_MESSAGE,
    c.MessagesErased(
        **header(47, "eraser", "user"),
        stream="MEMORY",
        messages=(ERASED_MESSAGE,),
        gone=(8,),
        bundle="OFFICE-0000000001-0000020000.jsonl.gz",
    ),
    c.ArchiveOrder(
        **header(49, "user", "eraser"),
        first=1,
        last=20_000,
        count=19_998,
        since="2026-01-02T14:30:22.123456789Z",
        until="2026-02-03T04:05:06Z",
        bundle="OFFICE-0000000001-0000020000.jsonl.gz",
        folder="/mnt/archive",
    ),
    c.MessagesArchived(**header(50, "eraser", "user"), deleted=19_000, kept=998),
    c.GraphVersion(
        **header(19, "memory", "user"), version=42, kinds=("fact",), agents=("critic",), ids=(NODE_ID,)
    ),
    c.Briefing(
        **header(20, "memory", "engineer"),
        agent="engineer",
        version=42,
        sections=(SECTION,),
        nodes_consulted=7,
        generated_at=LATER,
        text="# Active Context\n- The login test fails",
    ),
    STEP,
    STATEMENT,
    FINDING,
    c.RepositoryReading(
        name="shop",
        purpose=(STATEMENT,),
        build=(c.Statement(text="make test runs the tests", source="Makefile:4"),),
        layout=(c.Statement(text="shop holds 12 files of Python", source="shop"),),
        questions=(c.Statement(text="TODO: which browsers?", source="README.md:40"),),
        licence=(c.Statement(text="The licence is declared as MIT", source="pyproject.toml:3"),),
        languages={"Python": 1200, "Markdown": 90},
        files=14,
    ),
    c.HistoryReading(
        branch="main",
        commits=120,
        changes=(" M shop/pay.py",),
        latest=(c.Statement(text="Rename the cookie", source="git:1a2b3c4"),),
        problem="The history is shallow",
        since="2026-01-01",
        until="2026-01-31",
        files=("+12 -3 shop/pay.py",),
        cut="The clone is shallow: its history begins on 2026-01-02, and what was before is not known",
        author="Ana",
    ),
    TEST_FAILURE,
    NOT_CHECKED,
    COMMAND_RECORD,
    CONNECTION,
    PREPARATION,
    TEST_SUITE,
    c.TestRun(
        command="pytest -q",
        found="pyproject.toml:30",
        exit_code=1,
        passed=11,
        failed=1,
        skipped=2,
        errors=0,
        seconds=3.25,
        timed_out=True,
        failures=(TEST_FAILURE,),
        problem="Stopped after 300 seconds",
        log_path="outputs/tests.log",
        cure="Name it in .mailroom.yaml",
        folder="shop",
        interpreter="CPython 3.12.1",
        counted_by="JUnit report",
        flaky=("tests/test_pay.py::test_retry",),
        hung=("tests/test_pay.py::test_slow",),
        notes=("3 of 4 failures need a network",),
        incomplete=True,
        prepared=(PREPARATION,),
        suites=(TEST_SUITE,),
        not_run=(NOT_CHECKED,),
    ),
    TOOL_RUN,
    DRIFT_RULE,
    c.Inspection(
        findings=(FINDING,),
        total=3,
        tools=(TOOL_RUN,),
        drift=(DRIFT_RULE,),
        drift_note="One rule could be read",
        not_checked=(NOT_CHECKED,),
        checked=("41 Python files",),
    ),
    CHECKED,
    c.Verdict(
        approved=False,
        reasons=("The tests were not run",),
        redo=("tests",),
        decision="not_checked",
        checked=CHECKED,
        objections=("The tests were not run",),
        kinds=("repository",),
    ),
    c.RoutingDecision(route="tool:memory", rationale="Asks what is known", tool_name="memory"),
    CONTEXT_ITEM,
    CONTEXT_PACKET,
    EFFECT,
    SPAN,
    GOAL.tasks[0],
    INSTRUCTION,
    GOAL,
    SOURCE,
    NODE,
    EDGE,
    EDGE_KEY,
    REJECTION,
    c.MemoryQuery(
        text="login",
        limit=5,
        kinds=("fact",),
        tags=("tests",),
        agent="critic",
        session="session-7",
        since=AT,
        until=LATER,
        anchors=(OTHER_NODE_ID,),
        at=42,
        deep=True,
        history=True,
        vector=(0.6, -0.8),
        settled=True,
    ),
    c.Hit(
        node=NODE,
        score=0.875,
        why={"vector": 0.75, "keyword": 1.0},
        superseded_by=OTHER_NODE_ID,
        questioned_by=OTHER_NODE_ID,
    ),
    c.GetQuery(ids=(NODE_ID, OTHER_NODE_ID), at=42),
    c.ListQuery(
        after=NODE_ID,
        limit=500,
        kinds=("fact",),
        tags=("tests",),
        agent="critic",
        session="session-7",
        since=AT,
        until=LATER,
        changed_since=40,
        retired=True,
        at=42,
    ),
    c.NodePage(nodes=(NODE,), next=NODE_ID, version=42),
    c.EdgesQuery(
        node=NODE_ID,
        direction="in",
        relations=(c.Relation.LED_TO,),
        after=f"{NODE_ID} {OTHER_NODE_ID} led_to",
        limit=500,
        at=42,
    ),
    c.EdgePage(edges=(EDGE,), next=f"{NODE_ID} {OTHER_NODE_ID} led_to", version=42),
    c.TraverseQuery(
        start=(NODE_ID,),
        strategy="weighted",
        depth=2,
        direction="both",
        relations=(c.Relation.LED_TO,),
        kinds=("fact",),
        min_weight=0.2,
        include_start=False,
        limit=50,
        at=42,
    ),
    VISIT,
    c.Traversal(
        visits=(VISIT,), edges=(EDGE,), visited=10_000, truncated="10,000 nodes were looked at", version=42
    ),
    c.PathsQuery(
        from_id=NODE_ID,
        to_id=OTHER_NODE_ID,
        k=3,
        depth=4,
        direction="out",
        relations=(c.Relation.LED_TO,),
        min_weight=0.2,
        at=42,
    ),
    c.Path(nodes=(NODE, NODE), edges=(EDGE,), weight=0.6),
    c.BriefQuery(
        agent="engineer", compact=True, at=42, max_chars=4_000, per_section=12, include_contradictions=False
    ),
    c.PictureQuery(at=42, anchor=NODE_ID, limit=200, forgotten=True),
    PICTURE_NODE,
    PICTURE_EDGE,
    c.Picture(
        version=42, nodes=(PICTURE_NODE, PICTURE_NODE), edges=(PICTURE_EDGE,), total=800, total_edges=900
    ),
    c.VersionsQuery(before=42, limit=20),
    NODE_CHANGE,
    VERSION_CHANGE,
    c.VersionPage(versions=(VERSION_CHANGE,), next=12, version=42, first=1),
    c.HistoryQuery(id=NODE_ID, limit=20),
    NODE_STATE,
    c.NodeHistory(id=NODE_ID, states=(NODE_STATE,), omitted=3, version=42),
    SECTION,
    c.CognitiveContext(
        user_query="Why does the login fail?",
        original_query="why login fail",
        conversation_history=({"role": "user", "content": "why login fail"},),
        accumulated_results=({"tool": "memory", "hits": 1},),
        current_plan={"steps": ["look", "answer"]},
        memory_cache={"login": [NODE_ID]},
        episodic_memories=({"id": NODE_ID},),
        processing_stage="planning",
        iteration_count=1,
        confidence=0.5,
        mode="cognitive",
        percept={"intent": "Find out why the login fails."},
        evaluation={"is_complete": False, "confidence": 0.5},
        answer="The session cookie is not set.",
    ),
    c.CommandConnected(
        **header(52, "engineer", "user"),
        command="pip install structlog",
        connections=(
            c.Connection(
                host="pypi.org",
                port=443,
                allowed=False,
                why="pypi.org cannot be resolved",
                sent=12,
                received=34,
                seconds=0.5,
            ),
        ),
        task_id=TASK_ID,
    ),
    c.CommandJudged(
        **header(40, "engineer", "user"),
        command="git push --force",
        verdict=c.CommandVerdict.ASK,
        rule="git.rewrite-remote",
        why="It overwrites what others may have fetched.",
        reach=("host:git.example.org",),
        task_id=TASK_ID,
    ),
    c.ApprovalRequest(
        **header(41, "engineer", "user"),
        approval_id="9f86d081884c7d65",
        task_id=TASK_ID,
        what="git push --force",
        rule="git.rewrite-remote",
        why="It overwrites what others may have fetched.",
        reach=("host:git.example.org",),
        expires_at=LATER,
    ),
    c.AgentControl(
        **header(61, "conductor", "engineer"),
        agent="engineer",
        do="restart",
        paused=True,
        restarts=2,
        request_id="control-7",
        asked_by="ada",
    ),
    c.ApprovalAnswer(
        **header(42, "user", "engineer"),
        approval_id="9f86d081884c7d65",
        granted=True,
        note="Go ahead",
        scope="goal",
        hosts=("git.example.org",),
        digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ),
    c.TaskSession(
        **header(43, "engineer", "engineer"),
        session_id=_id(44),
        original_sender="user",
        user_session_id="browser-1",
        status=c.SessionStatus.WAITING,
        history=({"role": "user", "text": "Is the login fixed?"},),
    ),
    CHOICE,
    ASKED_BACK,
    MENTIONED,
    CONVERSATION_TURN,
    TOLD,
    c.Conversation(
        **header(90, "nexus", "nexus"),
        session_id="session-7",
        asker="user",
        title="What did the check-up find?",
        owner="ada",
        begun_at=AT,
        questions=2,
        turns=(CONVERSATION_TURN,),
        asks=ASKED_BACK,
        mentioned=(MENTIONED,),
        told=(TOLD,),
    ),
    c.StopAnswer(**header(91, "user", "nexus"), question_id=_id(9), session_id="session-7"),
    c.AnswerWords(question_id=_id(9), number=3, text="The login test fails. "),
    c.TaskThoughts(
        agent="engineer", goal_id=GOAL_ID, task_id=f"{GOAL_ID}-fix-1", text="The sum ignores", written=2_315
    ),
    c.SentEmail(
        **header(45, "engineer", "engineer"),
        email=LETTER,
        session_id=_id(44),
        awaited=True,
        answer=LETTER,
    ),
    c.LoopCheckpoint(
        **header(46, "engineer", "engineer"),
        task_id=TASK_ID,
        steps=3,
        messages=({"role": "assistant", "text": "I look at the test."},),
        usage={"input_tokens": 900, "output_tokens": 40, "cost": 0.01, "calls": 3},
        spent={"input_tokens": 1200, "output_tokens": 60, "cost": 0.02, "calls": 4},
        evidence_refs=("tests/test_login.py:40",),
        output_paths=("outputs/fix.patch",),
        doubts=("Whether the mail was sent is not known",),
        task="Fix the test of the login",
        persona="You are brief.",
        summary="The test compares a name in the wrong case.",
        summed=4,
    ),
    c.DailySpending(
        **header(47, "engineer", "engineer"),
        day="2026-01-02",
        input_tokens=900,
        output_tokens=40,
        cost=0.01,
        calls=3,
    ),
    DUE,
    c.Timetable(**header(48, "nexus", "nexus"), ids=("s4f2a90",), changed=("s4f2a90",), undo=(DUE,)),
    c.NightState(
        **header(149, "cortex", "cortex"),
        began_at=AT,
        ends_at=LATER,
        base_tokens=900,
        base_cost=0.01,
        tokens=120,
        cost=0.02,
        held="The night's budget is spent",
    ),
    c.TimerDue(**header(49, "nexus", "nexus"), due_id="s4f2a90"),
    c.Experience(
        **header(50, "conductor", "conductor"),
        agent="engineer",
        kind="run_tests",
        completed=7,
        failed=1,
        attempts=9,
        seconds=(4.25, 11.5),
        tokens=1200,
        cost=0.04,
        counted=(TASK_ID, "task-2"),
        failures=(FAILURE,),
        patterns=(NODE_ID,),
    ),
    FAILURE,
    CHANGE,
    SETBACK,
    PATTERN,
    c.ExperienceIndex(**header(51, "conductor", "conductor"), records=("engineer-run_tests",)),
    c.AccessChanged(
        **header(53, "gateway", "user"),
        person="ada",
        audience="ada",
        act=c.AccessAct.TOKEN_ADDED,
        address="127.0.0.1",
        about="ci",
        reason="by 'mailroom token'",
    ),
    c.Delivery(
        **header(57, "gateway", "user"),
        person="ada",
        audience="ada",
        delivery_id="phone-1",
        channel="phone",
        kind=c.DeliveryKind.APPROVAL,
        urgency=c.Urgency.HIGH,
        title="engineer asks: git push",
        text="It leaves this machine",
        link="http://127.0.0.1:8642/goals/goal_1",
        about="approval-1",
        status=c.DeliveryStatus.DELIVERED,
        reason="It answered 503",
        attempts=2,
        first_at=AT,
        due_at=LATER,
        ended_at=LATER,
        bundle="bundle-1",
        uncertain=True,
        reference="7",
    ),
    c.DeliveryReply(
        **header(58, "gateway", "user"),
        person="ada",
        audience="ada",
        reply_id="reply-1",
        channel="phone",
        address="ada@example.org",
        delivery_id="phone-1",
        text="approve",
        outcome=c.ReplyOutcome.WRONG_CODE,
        reason="The code is wrong",
        thread="<reply@example.org>",
    ),
)
"""Every field of every contract, none of them at its default."""


def golden_path(cls: type[c.Contract]) -> Path:
    """The golden file of a contract: named by the type of an envelope, else by the class."""
    return GOLDEN / f"{cls.__struct_config__.tag or cls.__name__}.json"


def rendered(instance: c.Contract) -> bytes:
    """The JSON of a contract as the golden files have it: one field a line."""
    return msgspec.json.format(instance.to_json(), indent=2) + b"\n"


def asyncapi_document() -> dict[str, Any]:
    """The document of the bus for an office of the agents that come with Mailroom."""
    return make_document(AGENTS, version="0.0.0")


def asyncapi_digest() -> str:
    """The digest of that document as its file has it."""
    return sha256(msgspec.json.encode(asyncapi_document())).hexdigest() + "\n"


if __name__ == "__main__":
    ASYNCAPI.write_text(asyncapi_digest())
    GOLDEN.mkdir(exist_ok=True)
    for example in EXAMPLES:
        golden_path(type(example)).write_bytes(rendered(example))
