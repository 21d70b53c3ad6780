"""Which playbook a sentence calls for, with the real embedding model."""

import pytest

from services.conductor.planner import NoPlaybook, Planner
from services.conductor.playbook import load_playbooks
from shared.contracts import Goal
from shared.errors import ActionError
from tests.support.classifying import MEMORY

REQUESTS = {
    "checkup": [
        "is {path} in good shape?",
        "full inspection of {path} please, tests included",
        "Check up on the repository at {path}",
        "please look over my project in {path} and report its health",
        "do a health check of {path}",
        "How good is the code in {path}?",
        "review {path}",
        "Audit repository {path}",
        "give me a report on the repo at {path}",
        "check up on {path} and {path}/b",
        "I inherited the code base in '{path}'. What shape is it in?",
    ],
    "tests": [
        "They always say it is rock solid. Anyway. Long story short, run the tests of {path} so that I know.",
        "hey hey! could u get the engineer to run the test suite in {path} again? last time two were red",
        "make test in {path} for me",
        "run tests in {path}",
        "please run pytest for the project {path}",
        "run the tests of {path} and of {path}/b",
        "run the tests of {path}, {path}/b and {path}/c",
        "are the tests of {path} green?",
        "What tests are failing in {path}",
        "Are there failing tests in {path}?",
    ],
    "inspect": [
        "lint {path} and look for secrets and vulnerabilities",
        "scan {path} for security holes and leaked keys",
    ],
    "secrets": [
        "check {path} for leaked secrets",
        "check {path} for secrets",
        "did anybody commit a password to {path}?",
        "look for API keys in {path}",
    ],
    "lint": [
        "run the linter on {path}",
        "lint {path}",
        "lint the project at {path}, please",
    ],
    "security": [
        "do a security audit of {path}",
        "find vulnerabilities in {path}",
        "any security holes in {path}?",
        "is the code of {path} vulnerable?",
    ],
    "dependencies": [
        "are the dependencies of {path} vulnerable?",
        "check the packages that {path} uses for known vulnerabilities",
        "any CVEs in the dependencies of {path}?",
    ],
    "rules": [
        "does {path} follow its own architecture rules?",
        "does {path} break its own rules?",
        "check whether {path} keeps to its ARCHITECTURE.md",
    ],
    "licence": [
        "what is the licence of {path}?",
        "what license does {path} have?",
        "which license is {path} under",
    ],
    "support": [
        "does {path} support python 3.9?",
        "which python versions does {path} work with?",
        "can {path} be used with node 16?",
        "what is the minimum go version of {path}",
        "will {path} run on Python 3.14?",
    ],
    "outdated": [
        "which dependencies are outdated in {path}?",
        "are there newer versions of the packages that {path} needs?",
        "which packages of {path} have newer releases?",
        "list the outdated packages of {path}",
        "are the libraries of {path} up to date",
    ],
    "history": [
        "show the commit history of {path}",
        "update me on what changed in {path} this week",
        "what changed in {path} last week?",
        "what was changed in {path} since 2026-01-01?",
        "show me the last commits in {path}",
        "what has happened in {path} in the last 3 days",
        "is anything uncommitted in {path}?",
    ],
    "compare": [
        "compare {path} and {path}/b",
        "compare {path} with {path}/b",
        "how does {path} differ from {path}/b?",
    ],
    "read": [
        "read the documents of {path}",
        "give me an overview of {path}",
        "walk me through {path}",
        "what is {path}?",
        "Explain the code in {path}",
        "What does the code in {path} do?",
        "explain how to build {path}",
        "summarise the readme of {path}",
    ],
    "page": [
        "open https://example.org/a",
        "fetch https://example.org/a",
        "summarise https://example.org/news?id=1",
    ],
    "web": [
        "search the web for the boiling point of ethanol",
        "look up the release date of Python 3.14",
        "what does the internet say about cold fusion?",
        "find out on the web when the bus was invented",
    ],
    "research": [
        "find papers on how to split and merge models",
        "find recent papers about graph neural networks",
        "research retrieval augmented generation",
        "write me a brief on diffusion models",
        "latest publications on protein folding",
    ],
    "discovery": ["what's new in AI today?", "do the daily discovery", "any AI news?"],
    "desk": [
        "what is the weather tomorrow",
        "remind me to call my sister",
        "Remind me of the rent on Friday",
    ],
    None: [
        "Run the tests of {path} and fix them",
        "could you please port the tests of {path} to pytest",
        "patch the vulnerable dependencies of {path}",
        "profile {path} and find the bottleneck",
        "Build a docker image of {path}",
        "zip {path}",
        "paint my house blue",
        "write a poem about autumn",
        "book a flight to Paris",
        "implement user authentication",
        "hello",
        "delete the repository at {path}",
        "how many planets are there",
        "translate this to French: good morning",
        "plan my week",
        "deploy the app to production",
        "rename all files in {path}",
        "refactor the auth module of {path}",
        "write unit tests for {path}",
        "commit and push {path}",
        "find a restaurant nearby",
        "buy milk",
        "find me a cheap laptop",
        "send the report in {path} to my boss",
        "update the dependencies of {path}",
        "remove the secrets from {path}",
        "change the licence of {path}",
        "fix the lint errors in {path}",
        "revert the last commit in {path}",
        "compress the folder {path}",
        "book a hotel on the web",
        "build a web server",
        "delete my account on the web",
        "who was the first person on the moon?",
        "make the tests in {path} pass",
        "Find out why the tests of {path} fail",
        "Improve the code in {path}",
    ],
}


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(load_playbooks(), MEMORY)


def goal(text: str) -> Goal:
    return Goal(goal_id="g", text=text, requester="user", submitted_at="2026-01-02T03:04:05+00:00")


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in REQUESTS.items() for text in texts]
)
async def test_a_sentence_finds_its_playbook_or_none(
    planner: Planner, tmp_path, name: str | None, text: str
) -> None:
    asked = goal(text.format(path=tmp_path))
    if name == "desk":
        with pytest.raises(ActionError, match=f"the front desk's. Ask it with: mailroom ask '{text}'"):
            await planner.plan(asked)
        return
    if name is None:
        with pytest.raises(ActionError, match="No model is configured, and no playbook fits"):
            await planner.plan(asked)
        return
    planned = await planner.plan(asked)
    assert planned.playbook == name
    assert planned.tasks


PARTS = {
    "run lint and format checks on {path}": "'format'",
    "what's new in machine learning this week": "'learning this week'",
    "Run only the tests that mention comma in {path}": "'only the tests that mention comma'",
    "check up on {path} but skip the linter": "'skip the linter'",
    "run the tests of {path} except {path}/b": "'except {path}/b'",
    "research retrieval augmented generation since 2024, max 3 papers": "'since 2024', 'max 3 papers'",
    "were there commits by bob in {path} last week?": "'by bob'",
    "lint {path}, then the tests only if there are no errors": "'the tests only if there are no errors'",
}


@pytest.mark.parametrize(("text", "left"), PARTS.items())
async def test_what_a_playbook_would_do_by_part_is_refused_with_what_it_leaves_out(
    planner: Planner, tmp_path, text: str, left: str
) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(ActionError) as refused:
        await planner.plan(goal(text.format(path=tmp_path)))
    assert f"{left.format(path=tmp_path)} would be left out: nothing was begun" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("run the tests of {path}, then tell ana", ("tell ana",)),
        ("open https://example.org/prices and tell me the cheapest plan", ("tell me the cheapest plan",)),
        ("They ported it in spring. Run the tests of {path}.", ()),
        ("lint {path}, but do not fix anything", ()),
        ("run teh tets of {path} pelase", ()),
    ],
)
async def test_what_is_asked_for_beside_a_request_is_named(
    planner: Planner, tmp_path, text: str, left: tuple[str, ...]
) -> None:
    assert (await planner.plan(goal(text.format(path=tmp_path)))).left_out == left


async def test_with_a_model_a_playbook_takes_only_what_it_does_whole(tmp_path) -> None:
    thinking = Planner(load_playbooks(), MEMORY, has_model=True)
    whole = f"Could you run the tests of {tmp_path}, please? Thanks!"
    assert (await thinking.plan(goal(whole))).playbook == "tests"
    for text in (f"run the tests of {tmp_path}, then tell ana", "Run the tests"):
        with pytest.raises(NoPlaybook):
            await thinking.plan(goal(text))


async def test_a_folder_that_is_not_there_is_said_at_once(planner: Planner) -> None:
    with pytest.raises(ActionError, match="There is no folder /no/such/place"):
        await planner.plan(goal("Check up on the repository at /no/such/place."))


async def test_a_missing_parameter_is_asked_for(planner: Planner) -> None:
    with pytest.raises(ActionError, match="does not say the folder of the repository"):
        await planner.plan(goal("Check up on the repository"))


async def test_a_topic_is_taken_from_the_sentence(planner: Planner) -> None:
    planned = await planner.plan(goal("Write a research brief on graph neural networks."))
    assert planned.parameters == {"topic": "graph neural networks"}
    planned = await planner.plan(goal("Look up the release date of Python 3.14. Thanks!"))
    assert planned.parameters == {"question": "the release date of Python 3.14"}
    planned = await planner.plan(goal("What does the web say about cold fusion?"))
    assert planned.parameters == {"question": "cold fusion"}


async def test_each_example_is_taken_whole(planner: Planner, tmp_path) -> None:
    """What a playbook gives as an example for itself leaves nothing over."""
    (tmp_path / "b").mkdir()
    for book in load_playbooks().values():
        for example in book.examples:
            text = example.replace("PATH", str(tmp_path), 1).replace("PATH", f"{tmp_path}/b")
            text = text.replace("URL", "https://example.org/a").replace("TOPIC", "tea in Bern")
            planned = await planner.plan(goal(text))
            assert (planned.playbook, planned.left_out) == (book.name, ()), text
