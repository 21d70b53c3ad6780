"""Reading, searching and editing files as models do it: large, odd and hostile files, and what is refused."""

import time
from pathlib import Path
from typing import Any

import pytest

from shared.errors import ActionError, NotApproved
from shared.skills.editing import Edit, apply_edits
from shared.tasks.context import Opened, TaskContext, current_task
from tests.flow.hands import Hand


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    return Hand(tmp_path)


def replaced(text: str, *edits: tuple[str, str], every: bool = False) -> str:
    """``text`` after the edits."""
    return apply_edits(text, [Edit(old=old, new=new, all=every) for old, new in edits], "a.py")[0]


def refused(text: str, *edits: tuple[str, str]) -> str:
    """Why the edits are refused."""
    with pytest.raises(ActionError) as caught:
        replaced(text, *edits)
    return str(caught.value)


# --- editing -------------------------------------------------------------------------------------


def test_edits_are_made_in_order_and_all_of_one_where_that_is_meant():
    assert replaced("one two\n", ("one", "1"), ("1 two", "3")) == "3\n"
    assert replaced("a b a\n", ("a", "aa"), every=True) == "aa b aa\n"
    assert replaced("", ("", "new\n")) == "new\n"


def test_what_stands_there_twice_or_says_nothing_is_refused():
    assert "2 times, in the lines 1 and 3" in refused("x\ny\nx\n", ("x", "z"))
    assert "same" in refused("x\n", ("x", "x"))
    assert "not empty" in refused("x\n", ("", "y"))
    assert "Edit 2 of 2, made after those before it: old does not stand in a.py" in refused(
        "x\n", ("x", "y"), ("x", "z")
    )


def test_what_differs_in_white_space_is_shown_with_it():
    why = refused("def f():\n\treturn 1  \n", ("def f():\n    return 1\n", "x"))
    assert "only in white space from lines 1 to 2" in why
    assert "-     return 1\n+ \\treturn 1··" in why
    assert "only in white space from lines 2 to 2" in refused("a\n  b = 1\n", ("b  =  1", "x"))


def test_the_nearest_passage_is_shown_with_numbers_and_difference():
    text = "".join(f"def f{n}(x):\n    return x + {n}\n\n" for n in range(200))
    why = refused(text, ("def f77(x):\n    return x - 77", ""))
    assert "nearest passage is lines 232 to 233:\n232\tdef f77(x):\n233\t    return x + 77\n" in why
    assert "-     return x - 77\n+     return x + 77" in why
    assert "def f77(x):\n-" not in why  # what is the same is not told twice
    assert "Nothing in it is like that" in refused("a\nb\n", ("completely different", ""))
    assert "line numbers" in refused("one\ntwo\n", ("1\tone\n2\ttwo", "x"))


@pytest.mark.parametrize(
    ("before", "edits", "after"),
    [
        ("a\r\nb\r\nc\r\n", [("a\nb", "x\ny\nz"), ("c", "c\nd")], "x\r\ny\r\nz\r\nc\r\nd\r\n"),
        ("a\r\nb\nc\nd\n", [("b\nc", "x\ny"), ("d", "e\nf")], "a\r\nx\ny\ne\nf\n"),
        ("a\r\nb\r\nc\nd", [("b", "x\ny")], "a\r\nx\r\ny\r\nc\nd"),
        ("a\r\nb\r\n", [("a\r\n", "")], "b\r\n"),
        ("\ufeffa\nb", [("a", "\tc")], "\ufeff\tc\nb"),
    ],
)
def test_line_ends_tabs_and_marks_stay(before: str, edits: list[tuple[str, str]], after: str):
    assert replaced(before, *edits) == after


def test_a_miss_in_a_large_file_is_told_soon():
    text = "".join(f"line number {n} of a large file\n" for n in range(200_000))
    begun = time.monotonic()
    assert "nearest passage" in refused(text, ("line nmber 17 of a huge file\nx", ""))
    assert "does not stand" in refused("}\n" * 100_000, ("}\n" * 100 + "x", ""))
    assert time.monotonic() - begun < 5


async def edit(hand: Hand, path: str, *edits: tuple[str, str]) -> Any:
    return await hand.call("edit_file", path=path, edits=[{"old": old, "new": new} for old, new in edits])


async def test_one_edit_that_fails_leaves_the_file_and_undo_alone(hand: Hand) -> None:
    await hand.call("write_file", path="a.py", content="one\ntwo\nthree\n")
    effects = list(hand.journal.effects)
    with pytest.raises(ActionError, match="Edit 2 of 3"):
        await edit(hand, "a.py", ("one", "1"), ("tow", "2"), ("three", "3"))
    assert (hand.workspace / "a.py").read_text() == "one\ntwo\nthree\n"
    assert hand.journal.effects == effects
    done = await edit(hand, "a.py", ("one", "1"), ("two", "2"), ("three", "3"))
    assert done.output == "Changed a.py at lines 1, 2 and 3"
    await hand.call("undo")
    assert (hand.workspace / "a.py").read_text() == "one\ntwo\nthree\n"


async def test_a_new_file_is_made_by_an_edit_and_a_missing_one_is_not_edited(hand: Hand) -> None:
    await edit(hand, "src/new.py", ("", "x = 1\n"))
    assert (hand.workspace / "src" / "new.py").read_text() == "x = 1\n"
    with pytest.raises(ActionError, match="There is no"):
        await edit(hand, "gone.py", ("x", "y"))
    with pytest.raises(ActionError, match="not empty"):
        await edit(hand, "src/new.py", ("", "y = 1\n"))


async def test_a_file_changed_meanwhile_is_not_written_over(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hand.call("write_file", path="a.py", content="one\n")

    def applied(*arguments: Any) -> Any:
        (hand.workspace / "a.py").write_text("one, by another task\n")
        return apply_edits(*arguments)

    monkeypatch.setattr("shared.skills.files.apply_edits", applied)
    with pytest.raises(ActionError, match="changed meanwhile"):
        await edit(hand, "a.py", ("one", "two"))
    assert (hand.workspace / "a.py").read_text() == "one, by another task\n"


async def test_a_file_written_whole_keeps_its_line_ends(hand: Hand) -> None:
    await hand.call("list_files")
    (hand.workspace / "a.bat").write_bytes(b"one\r\ntwo\r\n")
    await hand.call("write_file", path="a.bat", content="one\nthree\n")
    assert (hand.workspace / "a.bat").read_bytes() == b"one\r\nthree\r\n"
    await hand.call("write_file", path="a.bin", content="one\n")
    assert (hand.workspace / "a.bin").read_bytes() == b"one\n"


@pytest.mark.parametrize("path", ["link", "folder/inside", "../up", "/etc/hosts", "a\0b", "folder"])
async def test_links_and_ways_out_are_neither_read_nor_edited(hand: Hand, tmp_path: Path, path: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "inside").write_text("secret\n")
    await hand.call("list_files")
    (hand.workspace / "link").symlink_to(tmp_path / "elsewhere" / "inside")
    (hand.workspace / "folder").symlink_to(tmp_path / "elsewhere")
    for name, params in (
        ("read_file", {}),
        ("edit_file", {"edits": [{"old": "secret", "new": "x"}]}),
        ("write_file", {"content": "x"}),
        ("search_files", {"pattern": "secret"}),
    ):
        with pytest.raises(ActionError):
            await hand.call(name, path=path, **params)
    assert (tmp_path / "elsewhere" / "inside").read_text() == "secret\n"


# --- reading -------------------------------------------------------------------------------------


async def test_a_file_is_read_by_lines_with_numbers(hand: Hand) -> None:
    await hand.call("write_file", path="a", content="".join(f"\tline {n}\n" for n in range(1, 6_001)))
    read = await hand.call("read_file", path="a", offset=5_999, limit=10)
    assert read.output == "5999\t\tline 5999\n6000\t\tline 6000\n[lines 5999-6000 of 6,000]"
    first = await hand.call("read_file", path="a")
    rest = await hand.call("read_file", path="a", offset=first.data["end"] + 1)
    assert first.output.endswith(f"of 6,000, read on with offset={rest.data['start']}]")
    assert rest.output.startswith(f"{rest.data['start']}\t")
    with pytest.raises(ActionError, match="only 6,000 lines"):
        await hand.call("read_file", path="a", offset=6_001)
    await hand.call("write_file", path="empty", content="")
    assert (await hand.call("read_file", path="empty")).output == "[empty]"


async def test_a_long_line_is_cut_and_the_next_one_is_not(hand: Hand) -> None:
    await hand.call("write_file", path="a.json", content="x" * 500_000 + "\nnext\n")
    read = await hand.call("read_file", path="a.json")
    assert len(read.output) < 2_000
    assert "\n2\tnext\n[lines 1-2 of 2, [...]" in read.output


async def test_odd_names_are_read_edited_and_found(hand: Hand) -> None:
    for name in ("-rf", "a b.py", "tab\tname", "quote'\".py", "--help", "é.py", "$(touch x)", "new\nline"):
        await hand.call("write_file", path=name, content="needle\n")
        await edit(hand, name, ("needle", "needle two"))
        assert "needle two" in (await hand.call("read_file", path=name)).output
        assert (await hand.call("search_files", pattern="needle two", path=name)).data["matches"] == 1
    assert (await hand.call("search_files", pattern="needle two", files_only=True)).data["matches"] == 8
    assert (await hand.call("search_files", pattern="needle two")).data["total"] == 8


# --- searching -----------------------------------------------------------------------------------


async def test_five_thousand_files_are_searched_within_a_second(hand: Hand) -> None:
    await hand.call("list_files")
    for folder in range(50):
        place = hand.workspace / f"package{folder:02}" / "src"
        place.mkdir(parents=True)
        for number in range(100):
            (place / f"m{number}.py").write_text(f"def f{number}():\n    return {number}\n\n" * 20)
    await hand.call("search_files", pattern="x")  # the jail is checked once
    taken = 9.0
    for _ in range(5):  # the quickest counts: other tests run at the same time
        begun = time.monotonic()
        found = await hand.call("search_files", pattern=r"return \d+", context=1)
        taken = min(taken, time.monotonic() - begun)
        if taken < 1:
            break
    assert taken < 1, taken
    named = await hand.call("search_files", pattern=r"def f7\(", glob="package0*/**/*.py", files_only=True)
    assert (found.data["matches"], found.data["cut"]) == (100, True)
    assert "more matches; " in found.output.splitlines()[-1]
    assert len(found.output) < 20_000
    assert named.output.splitlines() == [f"package0{n}/src/m7.py" for n in range(10)]


async def test_a_pattern_of_paths_begins_at_any_folder(hand: Hand) -> None:
    for path in ("shop/src/a.py", "shop/src/deep/b.py", "shop/tests/a.py"):
        await hand.call("write_file", path=path, content="needle\n")
    for glob, path, names in (
        ("src/*.py", "shop", ["shop/src/a.py", "shop/src/deep/b.py"]),
        ("shop/src/**/*.py", ".", ["shop/src/a.py", "shop/src/deep/b.py"]),
        ("tests/a.py", "shop", ["shop/tests/a.py"]),
        ("rc/*.py", ".", ["Nothing matches needle"]),
        ("b.*", ".", ["shop/src/deep/b.py"]),
    ):
        found = await hand.call("search_files", pattern="needle", path=path, glob=glob, files_only=True)
        assert found.output.splitlines() == names


async def test_matches_are_shown_with_the_lines_around_them(hand: Hand) -> None:
    await hand.call("write_file", path="b/a.py", content="one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    found = await hand.call("search_files", pattern="t[wo]{2}|s.x", context=1)
    assert found.output == "b/a.py\n1-one\n2:two\n3-three\n--\n5-five\n6:six\n7-seven"
    assert found.evidence_refs == ("b/a.py:2", "b/a.py:6")
    await hand.call("write_file", path="c.py", content="-- \ntwo\n")
    bare = await hand.call("search_files", pattern="t[wo]{2}|s.x|--")
    assert bare.output == "b/a.py\n2:two\n6:six\nc.py\n1:-- \n2:two"
    both = await hand.call("search_files", pattern="six|two", glob="*.py", context=1)
    assert both.output.endswith("7-seven\nc.py\n1--- \n2:two")


async def test_what_is_long_or_binary_or_costly_does_no_harm(hand: Hand) -> None:
    await hand.call("write_file", path="min.js", content="needle" + "x" * 1_000_000 + "\nneedle\n")
    (hand.workspace / "binary").write_bytes(b"\0needle\n")
    found = await hand.call("search_files", pattern="needle")
    assert found.data["total"] == 2
    assert len(found.output) < 400
    with pytest.raises(ActionError, match="search failed"):
        await hand.call("search_files", pattern="(", path=".")
    await hand.call("write_file", path="evil", content="a" * 5_000 + "!\n")
    with pytest.raises(ActionError, match=r"search failed|longer than"):
        await hand.call("search_files", pattern="^(a+)+$", path="evil")


# --- paths that were given -----------------------------------------------------------------------


async def test_ten_megabytes_of_output_are_cut_in_the_middle_and_can_be_read_on(hand: Hand) -> None:
    command = "echo first; seq 1400000; echo 'the needle'; seq 100000; exit 2"
    ran = await hand.call("run_shell", command=command)
    assert len(ran.output) < 17_000
    assert ran.output.startswith("first\n1\n2\n")
    assert "bytes cut" in ran.output
    (log,) = ran.output_paths
    assert ran.output.endswith(f"\n100000\n[exit code 2. The middle is left out; all of it is in {log}]")
    assert command not in ran.output
    read = await hand.call("read_file", path=log, offset=1_400_001, limit=2)
    assert read.output.startswith(
        "1400001\t1400000\n1400002\tthe needle\n[lines 1400001-1400002 of 1,500,002"
    )
    found = await hand.call("search_files", pattern="^the needle", path=log)
    assert found.evidence_refs == (f"{log}:1400002",)
    by_command = await hand.call("run_shell", command=f"grep -c needle {log}; echo x >> {log}")
    assert by_command.output.startswith("1\n")
    assert "Read-only" in by_command.output


async def test_results_of_the_goal_are_opened_and_those_of_others_are_not(hand: Hand) -> None:
    outputs = hand.settings.outputs
    for goal in ("goal_1", "goal_2", "goal_3"):
        (outputs / goal).mkdir(parents=True)
        (outputs / goal / "tests.log").write_text(f"{goal} failed\n")
    (outputs / "goal_1" / "link").symlink_to(outputs / "goal_3" / "tests.log")
    read = await hand.call("read_file", path=str(outputs / "goal_1" / "tests.log"))
    assert read.output.startswith("1\tgoal_1 failed")
    for path in (
        outputs / "goal_3" / "tests.log",
        outputs / "goal_1" / "link",
        hand.settings.state_dir / "keys",
    ):
        with pytest.raises(ActionError):
            await hand.call("read_file", path=str(path))
    with pytest.raises(ActionError):
        await edit(hand, str(outputs / "goal_1" / "tests.log"), ("failed", "passed"))
    given = str(outputs / "goal_2" / "tests.log")
    task = TaskContext(hand.journal)  # type: ignore[arg-type]
    task.references = {"task:t2": Opened(kind="task", output="It failed", output_paths=(given,))}
    token = current_task.set(task)
    try:
        actions = hand.agent.context.actions
        assert "goal_2 failed" in (await actions.perform("read_file", {"path": given})).output
    finally:
        current_task.reset(token)


async def test_a_file_that_a_person_named_is_read_if_the_policy_allows_it(hand: Hand, tmp_path: Path) -> None:
    from shared.contracts import CommandVerdict
    from shared.contracts.base import amended

    project = tmp_path / "shop"
    project.mkdir()
    (project / "README").write_text("Allegra\n")
    (tmp_path / "other").write_text("other\n")
    hand.journal.task = amended(hand.journal.task, text=f"Fix the tests of {project}")
    assert (await hand.call("read_file", path=str(project / "README"))).output.startswith("1\tAllegra")
    with pytest.raises(ActionError, match="no person named it"):
        await hand.call("read_file", path=str(tmp_path / "other"))
    hand.verdict = CommandVerdict.ASK
    with pytest.raises(NotApproved, match="test-rule"):
        await hand.call("read_file", path=str(project / "README"))
    assert [path.name for path in project.iterdir()] == ["README"]
