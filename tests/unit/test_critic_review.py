"""The review: what holds is approved, what does not is sent back with its reason."""

from pathlib import Path
from typing import Any

import pytest

from services.critic.claims import NamedFile, Rerun, find_named_folder, read_claims
from services.critic.review import add_reruns, by_repository, is_found, leave_open, review, settle
from shared.contracts import (
    Checked,
    Finding,
    Inspection,
    RepositoryReading,
    Statement,
    TestFailure,
    TestRun,
    ToolRun,
)
from shared.tasks.evidence import format_verdict
from tests.unit.test_source_tree import plant


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return plant(tmp_path / "repo", {"README.md": "one\ntwo\n", "src/a.py": "x\n", "empty.py": ""})


def done(**changes: Any) -> dict[str, Any]:
    return {"status": "completed", "output": "It is so.", "metadata": {}, "evidence_refs": [], **changes}


def run_of(**changes: Any) -> dict[str, Any]:
    run = TestRun(
        **{
            "command": "pytest",
            "exit_code": 0,
            "passed": 2,
            "failed": 0,
            "skipped": 0,
            "errors": 0,
            **changes,
        }
    )
    return done(
        metadata={"tests": run.to_dict(), "not_copied": []}, evidence_refs=[f.source for f in run.failures]
    )


FAILURE = TestFailure(test="t", message="m", source="gone.py:4")


def by_hand(output: str, *commands: tuple[str, int], **metadata: Any) -> dict[str, Any]:
    runs = [{"command": command, "exit_code": code} for command, code in commands]
    return done(output=output, metadata={"commands": runs, "patches": [], **metadata}, agent="engineer")


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (
            by_hand("Mended it. All 12 tests pass now."),
            "it says 'tests pass', and no run of them is on record",
        ),
        (
            done(output="Done, tests pass.", metadata={"steps": 1}, agent="engineer"),
            "it says 'tests pass', and no run of them is on record",
        ),
        (by_hand("The test suite is green.", ("ls", 0)), "and no run of them is on record"),
        (
            by_hand("Tests passed.", ("pytest -q", 0), ("cd a && pytest", 1)),
            "but cd a && pytest ended with exit code 1",
        ),
        (
            by_hand("The tests succeed.", tests={"exit_code": 1}),
            "its last run of them ended with exit code 1",
        ),
        (by_hand("I ran `npm run build`."), "it says that it ran 'npm run build', which is not on record"),
        (by_hand("Then I also ran pytest on it."), "it says that it ran 'pytest', which is not on record"),
        (by_hand("I fixed the parser."), "it says 'I fixed', and there is neither a patch nor a file"),
        (by_hand("The patch is attached."), "and there is neither a patch nor a file"),
    ],
)
def test_tests_said_to_pass_must_have_been_run(result: dict[str, Any], reason: str) -> None:
    verdict = review({"fix": result})
    assert (verdict.approved, verdict.redo) == (False, ("fix",))
    assert reason in verdict.reasons[0]


@pytest.mark.parametrize(
    "result",
    [
        by_hand("All tests pass.", ("pytest", 1), ("python -m pytest -q", 0)),
        by_hand("All tests pass.", tests={"exit_code": 0}),
        by_hand("Tests: 3 passed, 1 error in 0.1 seconds.", tests={"exit_code": 1}),
        done(output="abc tests pass again", metadata={"history": {}}, agent="engineer"),
        by_hand("I could not make the tests pass."),
        by_hand("I ran `npm run build`.", ("cd web && npm run  build", 0)),
        by_hand("I ran `test_changes` and `pytest -q`.", tests={"exit_code": 0, "command": "tox"}),
        by_hand("I have not run `npm test`, nor changed anything."),
        {**by_hand("I fixed the parser."), "output_paths": ["/o/shop.patch"]},
        by_hand("I could not find out what the maintainers changed."),
        by_hand("2 tests passed, 1 failed.", ("pytest", 1)),
        by_hand("Would the tests pass? They were not run."),
        by_hand("It reads a file and passes it on. Nothing was tested."),
        done(output="Its README says that all tests pass."),
    ],
)
def test_who_claims_nothing_of_tests_or_ran_them_is_believed(result: dict[str, Any]) -> None:
    assert review({"fix": result}).approved


def test_what_holds_is_approved(repo: Path) -> None:
    reading = RepositoryReading(
        name="x",
        purpose=(Statement(text="a", source="README.md:2"),),
        layout=(
            Statement(text="b", source="src/"),
            Statement(text="c", source="."),
            Statement(text="d", source="empty.py:1"),
        ),
    )
    finding = Finding(tool="ruff", rule="F1", severity="low", file="src/a.py", line=1, message="m")
    inspection = Inspection(
        findings=(finding,), total=1, tools=(ToolRun(name="ruff", version="1", findings=1),)
    )
    results = {
        "reading": done(metadata={"reading": reading.to_dict()}, evidence_refs=["README.md:2", "src/"]),
        "inspection": done(metadata={"inspection": inspection.to_dict()}, evidence_refs=["src/a.py:1"]),
        "tests": run_of(exit_code=1, passed=1, failed=1, failures=(FAILURE,)),
        "history": done(
            evidence_refs=[
                "git:1234567",
                "https://example.org/a:1",
                "arxiv:1706.03762v7",
                "/elsewhere/tests.log",
            ]
        ),
    }
    verdict = review(results, repo)
    assert (verdict.approved, verdict.decision, verdict.redo) == (True, "approved", ())
    # Commits, web pages and files elsewhere are not looked up.
    assert (verdict.reasons, verdict.checked) == ((), Checked(sources=5, found=5))
    mixed = done(evidence_refs=["src/a.py:1", "git:1234567"])
    assert review({"only": mixed}, repo).checked == Checked(sources=2, found=1)


def test_what_a_program_found_and_nothing_bears_out_is_said_to_be_unchecked(repo: Path) -> None:
    results = {"log": done(evidence_refs=["git:1234567"])}
    verdict = settle(review(results, repo), results)
    assert (verdict.approved, verdict.decision, verdict.checked) == (False, "nothing_checked", Checked())
    assert format_verdict(verdict).startswith("Nothing was checked: ")
    checked = {"log": done(evidence_refs=["src/a.py:1"])}
    assert settle(review(checked, repo), checked).decision == "approved"


@pytest.mark.parametrize("metadata", [{"steps": 3}, {"usage": {"calls": 1}}])
def test_what_a_model_says_and_nothing_bears_out_is_not_judged(metadata: dict[str, Any]) -> None:
    results = {"answer": done(metadata=metadata), "log": done()}
    verdict = settle(review(results), results)
    assert (verdict.approved, verdict.decision) == (False, "not_checked")
    assert format_verdict(verdict).startswith("Not judged: answer: a model wrote it, and nothing")
    failed = {"answer": done(metadata=metadata, status="failed", error_message="No."), "log": done()}
    assert settle(review(failed), failed).decision == "nothing_checked"


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (done(status="in_progress"), "it has not ended (it is in_progress)"),
        ({}, "it has not ended (it is without a status)"),
        ("not a result", "it has not ended (it is without a status)"),
        (done(output=" \n"), "it completed without any output"),
        (done(status="failed", output=""), "it ended as failed and does not say why"),
        (done(evidence_refs=["README.md:3"]), "it names sources that cannot be found: README.md:3"),
        (done(evidence_refs=["README.md:0"]), "it names sources that cannot be found: README.md:0"),
        (done(evidence_refs=["gone.md:1"]), "it names sources that cannot be found: gone.md:1"),
        (done(evidence_refs=["src/gone.py"]), "it names sources that cannot be found: src/gone.py"),
        (done(evidence_refs=["../outside.md:1"]), "it names sources that cannot be found: ../outside.md:1"),
        (
            done(evidence_refs=[f"g{n}.md:1" for n in range(5)]),
            "it names sources that cannot be found: g0.md:1, g1.md:1, g2.md:1 and 2 more",
        ),
        (
            done(metadata={"reading": {"purpose": [{"text": "a", "source": "no.md:1"}]}}),
            "it names sources that cannot be found: no.md:1",
        ),
        (
            done(metadata={"i": {"findings": [{"rule": "r", "file": "no.py", "line": 3}]}}),
            "it names sources that cannot be found: no.py:3",
        ),
        (run_of(failed=2), "the tests ended with exit code 0, but 2 are said to have failed"),
        (
            run_of(exit_code=1),
            "the tests ended with exit code 1, but none is said to have failed, and no reason is given",
        ),
        (
            run_of(exit_code=1, passed=1, failed=1, failures=(FAILURE,) * 3),
            "3 failures are listed, but 1 are counted",
        ),
        (
            done(metadata={"tests": {"exit_code": "x", "passed": 1, "failed": 0}}),
            "its account of the tests cannot be read",
        ),
        (
            done(metadata={"inspection": {"findings": [], "total": 3, "tools": []}}),
            "3 findings are counted, but the tools report fewer",
        ),
    ],
)
def test_what_does_not_hold_is_sent_back(repo: Path, result: Any, reason: str) -> None:
    verdict = review({"good": done(), "bad": result}, repo)
    assert verdict.redo == ("bad",)
    assert verdict.reasons == (f"bad: {reason}",)
    assert (verdict.approved, verdict.decision) == (False, "sent_back")


@pytest.mark.parametrize("status", ["failed", "timeout", "cancelled"])
def test_an_honest_failure_is_a_finding_and_not_sent_back(status: str) -> None:
    failed = done(status=status, output="", error_message="There is no Python here.")
    verdict = review({"good": done(), "tests": failed})
    assert (verdict.decision, verdict.redo) == ("approved", ())
    assert verdict.reasons == (f"tests: it ended as {status}: There is no Python here.",)
    alone = review({"tests": failed})
    assert (alone.approved, alone.decision, alone.reasons) == (False, "not_checked", verdict.reasons)
    assert format_verdict(alone) == "Not judged: no task completed."


@pytest.mark.parametrize(
    "run",
    [
        {"exit_code": 5, "passed": 0, "problem": "no tests"},
        {"exit_code": 1, "problem": "coverage is below 90 %"},
        {"exit_code": -9, "timed_out": True},
        {"exit_code": 2, "passed": -1, "failed": -1, "errors": -1, "skipped": -1},
        {"exit_code": -1, "passed": -1, "failed": -1, "problem": "not run"},
    ],
)
def test_runs_that_explain_themselves_are_accepted(run: dict[str, Any]) -> None:
    assert review({"tests": run_of(**run)}).approved


def test_what_could_not_be_checked_is_not_approved() -> None:
    unchecked = done(output="The tests could not be run: there is no Go.", outcome="not_checked")
    alone = review({"tests": unchecked})
    assert (alone.decision, alone.redo) == ("not_checked", ())
    assert format_verdict(alone) == "Not judged: tests: The tests could not be run: there is no Go."
    assert review({"tests": unchecked, "reading": done()}).decision == "approved"


def test_without_a_repository_no_place_is_looked_up(tmp_path: Path) -> None:
    results = {"a": done(evidence_refs=["gone.md:1"])}
    assert review(results).approved
    assert review(results, tmp_path / "none").approved
    assert not review(results, tmp_path).approved


def test_names_of_tests_are_no_places(repo: Path) -> None:
    claims = [
        "example.org/mod/pkg.TestX",
        "suite > works",
        "<string>:3",
        "TestA.test_b",
        "src/a.py::test_x",
        "README.md",
    ]
    assert review({"a": done(evidence_refs=claims)}, repo).approved


def test_nothing_to_review_is_not_approved() -> None:
    verdict = review({})
    assert (verdict.approved, verdict.decision) == (False, "not_checked")


def test_the_same_results_get_the_same_verdict(repo: Path) -> None:
    results = {str(number): done(output="") for number in range(9)}
    assert review(results, repo) == review(results, repo)


def test_running_again_outweighs_what_was_looked_up(repo: Path) -> None:
    good = review({"a": done(), "b": done()}, repo)
    assert add_reruns(good, Rerun()) == good
    unrun = add_reruns(good, Rerun(unrun=[("a", "no runner")]))
    assert (unrun.approved, unrun.decision) == (False, "not_checked")
    assert unrun.reasons == ("a: not run: no runner",)
    assert unrun.checked.unjudged == unrun.reasons
    held = add_reruns(good, Rerun(confirmed=[("a", "3 passed")]))
    assert (held.decision, held.reasons) == ("approved", ("a: 3 passed",))
    refuted = add_reruns(good, Rerun(faults=[("b", "it fails")], unrun=[("a", "no runner")]))
    assert (refuted.approved, refuted.decision, refuted.redo) == (False, "sent_back", ("b",))
    open_ = leave_open(good, "its own")
    assert (open_.approved, open_.decision, open_.checked.unjudged) == (False, "not_checked", ("its own",))
    assert leave_open(refuted, "its own").decision == "sent_back"


def test_each_result_is_held_against_its_own_repository(repo: Path, tmp_path: Path) -> None:
    other = plant(tmp_path / "other", {"b.py": "x\n"})
    results = {
        "a": done(evidence_refs=["src/a.py:1"], repo=str(repo)),
        "b": done(evidence_refs=["b.py:1"], repo=str(other)),
        "c": done(task=f"Look at {other}"),
        "d": done(repo="/no/such/place"),
    }
    assert review(results).approved
    swapped = {**results, "b": {**results["b"], "repo": str(repo)}}
    assert review(swapped).redo == ("b",)
    assert by_repository(results, None, "Look") == [
        (repo, True, {"a": results["a"]}),
        (other, True, {"b": results["b"]}),
        (other, False, {"c": results["c"]}),
        (None, False, {"d": results["d"]}),
    ]


def test_places_a_model_may_cite(repo: Path) -> None:
    for source in ("README.md:2", "src/a.py", "empty.py:1"):
        assert is_found(source, repo), source
    for source in ("README.md:3", "gone.py:1", "../other.md:1", "src", "<string>:1", "a b", "", "\n:1"):
        assert not is_found(source, repo), source
    assert not is_found("README.md:1", None)


def test_claims_of_odd_shapes_are_none(tmp_path: Path) -> None:
    odd: list[Any] = [
        {},
        {"metadata": [1], "output_paths": "x"},
        {"metadata": {"tests": {"exit_code": 0, "passed": 1, "command": ["pytest"]}}},
        {"metadata": {"patch": 5, "diff": "no diff", "inspection": {"tools": [1, {"name": "ruff"}]}}},
        {"output_paths": [1, "relative.py", "/etc/passwd", f"{tmp_path}/../x.py", "/a\0b"]},
    ]
    for result in odd:
        claims = read_claims("t", result, (tmp_path,))
        assert (claims.tests, claims.patches, claims.files, claims.missing) == (False, (), (), ()), result
        assert (claims.tools, claims.rules) == ({}, {})


def test_files_that_are_or_lie_behind_a_link_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.py").write_text("secret")
    (tmp_path / "outside" / "a.patch").write_text("--- a/x\n+++ b/x\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.py").touch()
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "c.py").symlink_to(tmp_path / "outside" / "a.py")
    named = ["b.py", "c.py", "link/a.py", "link/a.patch", "link/gone.py", "gone.py", "gone/a.py"]
    (tmp_path / "alias").symlink_to(folder)  # the folder itself may be named by a link
    for root in (folder, tmp_path / "alias"):
        claims = read_claims("t", {"output_paths": [f"{root}/{name}" for name in named]}, (root,))
        assert claims.files == (NamedFile(root=folder, name="b.py"),)
        assert (claims.patches, claims.missing) == ((), (f"{root}/gone.py",))


def test_the_folder_that_a_goal_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shop = tmp_path / "src" / "shop"
    shop.mkdir(parents=True)
    for text in (f"Mend {shop}.", "Mend ~/src/shop, please", f"({shop})", f"/no/such/place and {shop}"):
        assert find_named_folder(text) == shop, text
    for text in ("Mend it", "Mend ~/", "look at / and /usr", f"https:/{shop}", "a/b/c", f"{tmp_path}"):
        assert find_named_folder(text) is None, text


def test_odd_shapes_do_not_break_the_review(repo: Path) -> None:
    deep: Any = {"source": "README.md:1"}
    for _ in range(500):
        deep = {"x": [deep]}
    odd = (
        done(metadata=[1], evidence_refs="x"),
        done(metadata={"x": deep}, evidence_refs=[1, None, ":", "a\nb:1"]),
        done(metadata={"tests": {"failures": 3}}),
    )
    assert review({str(at): result for at, result in enumerate(odd)}, repo).approved


def test_an_approval_names_what_was_not_checked() -> None:
    unchecked = done(outcome="not_checked", output="go is not installed.", metadata={})
    verdict = review({"tests": unchecked, "reading": done()})
    assert verdict.decision == "approved"
    assert format_verdict(verdict) == "Nothing was checked; not checked: tests: go is not installed."
