"""A patch as the critic reads it: its files and lines, and the tests that it weakens."""

import subprocess
from pathlib import Path

import pytest

from services.critic.patch import find_weakened, format_changes, parse_patch
from tests.unit.test_source_tree import plant


def diff(folder: Path, before: dict[str, str], after: dict[str, str]) -> str:
    """What git says of the change from one to the other."""
    for name, files in (("a", before), ("b", after)):
        plant(folder / name, files)
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-color", "-M", "--src-prefix=", "--dst-prefix=", "a", "b"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


TEST = "import sums\n\n\ndef test_add():\n    assert sums.add(1, 2) == 3\n    assert sums.add(0, 0) == 0\n"
SPEC = 'it("adds", () => {\n  expect(add(1, 2)).toBe(3);\n});\n'
GO = 'func TestAdd(t *testing.T) {\n\tif add(1, 2) != 3 {\n\t\tt.Errorf("no")\n\t}\n}\n'
RUST = "fn add() {}\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3);\n    }\n}\n"
LAST = "    assert sums.add(0, 0) == 0\n"
MORE = '\n\n@pytest.mark.skipif(WINDOWS, reason="no")\ndef test_more():\n    assert True is not None\n'


def weakened(folder: Path, name: str, before: str, after: str | None) -> list[tuple[str, str, bool]]:
    plant(folder, {"keep": ""})
    patch = diff(
        folder, {"keep": "", name: before}, {"keep": ""} if after is None else {"keep": "", name: after}
    )
    found = find_weakened(parse_patch(patch))
    return [(each.place, each.how, each.certain) for each in found]


@pytest.mark.parametrize(
    ("name", "before", "after", "how"),
    [
        ("tests/test_a.py", TEST, None, "the test 'test_add' is removed"),
        ("tests/test_a.py", TEST, "import sums\n", "the test 'test_add' is removed"),
        ("test_a.py", TEST, TEST.replace("def", "@pytest.mark.skip\ndef"), "left out: @pytest.mark.skip"),
        ("test_a.py", TEST, TEST.replace("def", "@unittest.expectedFailure\ndef"), "left out: @unittest"),
        ("test_a.py", TEST, TEST.replace("    assert", '    pytest.skip("x")\n    assert', 1), "left out"),
        ("test_a.py", TEST, TEST.replace(LAST, ""), "an assertion is removed"),
        (
            "test_a.py",
            TEST,
            TEST.replace("sums.add(1, 2) == 3", "True"),
            "whatever the code does",
        ),
        ("a.spec.ts", SPEC, SPEC.replace("it(", "it.skip("), "a test is left out: it.skip"),
        ("a.spec.ts", SPEC, SPEC.replace("it(", "xit("), "a test is left out: xit("),
        ("a.test.js", SPEC, SPEC.replace("expect(add(1, 2)).toBe(3)", "expect(true).toBe(true)"), "whatever"),
        ("a_test.go", GO, GO.replace("\tif", "\tt.Skip()\n\tif"), "a test is left out: t.Skip()"),
        ("a_test.go", GO, "package a\n", "the test 'TestAdd' is removed"),
        (
            "src/a.rs",
            RUST,
            RUST.replace("#[test]\n", "#[test]\n    #[ignore]\n"),
            "left out: #[ignore]",
        ),
        ("src/a.rs", RUST, "fn add() {}\n", "1 test removed"),
        ("pytest.ini", "[pytest]\n", "[pytest]\naddopts = --ignore=tests/slow\n", "tests are left out"),
        ("package.json", "{}\n", '{"test": "jest || true"}\n', "tests are left out"),
    ],
)
def test_a_weakened_test_is_found_with_its_place(
    tmp_path: Path, name: str, before: str, after: str | None, how: str
) -> None:
    found = weakened(tmp_path, name, before, after)
    assert any(how in each and certain and place.startswith(name) for place, each, certain in found), found


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("src/a.py", "def test_it():\n    assert x\n", "y = 1\n"),  # the product's own
        ("test_a.py", TEST, TEST + "\n\ndef test_more():\n    assert sums.add(2, 2) == 4\n"),
        (
            "test_a.py",
            TEST,
            TEST.replace(LAST, "") + LAST,
        ),
        ("a_test.go", GO, GO + GO.replace("TestAdd", "TestMore")),
        ("test_a.py", TEST, TEST.replace("import sums", "# skip this\nimport sums")),
        ("pyproject.toml", "[project]\n", '[project]\nname = "a"\n'),
    ],
)
def test_what_adds_or_moves_weakens_nothing(tmp_path: Path, name: str, before: str, after: str) -> None:
    assert weakened(tmp_path, name, before, after) == []


@pytest.mark.parametrize(
    "after",
    [
        TEST.replace("== 3", "== 4"),
        TEST.replace("test_add", "test_sum"),
        TEST
        + '\n\n@pytest.mark.skipif(WINDOWS, reason="no")\ndef test_more():\n    assert True is not None\n',
    ],
)
def test_what_may_be_right_is_not_certain(tmp_path: Path, after: str) -> None:
    found = weakened(tmp_path, "test_a.py", TEST, after)
    assert found
    assert not any(certain for _, _, certain in found)


def test_a_test_that_moves_to_another_file_is_not_removed(tmp_path: Path) -> None:
    patch = diff(tmp_path, {"test_a.py": TEST, "x": "1\n"}, {"test_b.py": "#\n" * 9 + TEST, "x": "1\n"})
    assert find_weakened(parse_patch(patch)) == []


PATCH = """\
From: someone
Subject: a patch

diff --git a/a.py b/a.py
index 123..456 100644
--- a/a.py
+++ b/a.py
@@ -3,3 +3,4 @@ def f():
 three
--- a line that looks like a head
+++ and one that looks like another
+five
 six
\\ No newline at end of file
diff --git a/old name.py b/new.py
similarity index 90%
rename from old name.py
rename to new.py
diff --git "a/\\303\\274.py" "b/\\303\\274.py"
new file mode 100644
--- /dev/null
+++ "b/\\303\\274.py"
@@ -0,0 +1 @@
+x
diff --git a/pic.png b/pic.png
deleted file mode 100644
Binary files a/pic.png and /dev/null differ
--- plain.txt\t2026-01-01
+++ plain.txt\t2026-01-02
@@ -1 +1 @@
-a
+b
"""


def test_files_and_lines_are_read() -> None:
    first, moved, new, gone, plain = parse_patch(PATCH)
    assert (first.path, first.removed) == ("a.py", [(4, "-- a line that looks like a head")])
    assert first.added == [(4, "++ and one that looks like another"), (5, "five")]
    assert first.places == {3, 4, 5, 6}
    assert (moved.before, moved.path) == ("old name.py", "new.py")
    assert (new.path, new.new, new.added) == ("ü.py", True, [(1, "x")])
    assert (gone.path, gone.deleted) == ("pic.png", True)
    assert (plain.path, plain.before, plain.removed, plain.added) == ("plain.txt", "", [(1, "a")], [(1, "b")])


@pytest.mark.parametrize("text", ["", "a\nb", "@@ -1 +1 @@\n-a\n+b\n", "--- a\n+++ b\n@@ -1,9 +1,9 @@\n-x"])
def test_what_is_no_patch_breaks_nothing(text: str) -> None:
    assert len(parse_patch(text)) <= 1


def test_what_is_cut_is_named() -> None:
    long = "".join(f"+line {number}\n" for number in range(1_000))
    lock = f"--- /dev/null\n+++ b/uv.lock\n@@ -0,0 +1,1000 @@\n{long}"
    code = f"--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,1000 @@\n{long}"
    test = "--- /dev/null\n+++ b/test_a.py\n@@ -0,0 +1 @@\n+assert a\n"
    changes = parse_patch(lock + code + test)
    shown = format_changes(changes, 3_000)
    assert len(shown) < 3_200
    assert shown.index("b/test_a.py") < shown.index("b/a.py") < shown.index("uv.lock")
    assert "more lines of this part are not shown]" in shown
    again = format_changes(changes, 3_000, [each.text for each in changes])
    assert again.splitlines()[1] == "[a.py (+1000 -0 lines): the same as above]"


def test_a_patch_of_many_files_is_shown_in_part() -> None:
    many = "".join(f"--- a/m{n}.py\n+++ b/m{n}.py\n@@ -1 +1 @@\n-a\n+{'b' * 300}\n" for n in range(2_000))
    shown = format_changes(parse_patch(many), 24_000)
    assert len(shown) < 30_000
    assert shown.startswith("--- a/m0.py")
    assert shown.count("+++ b/") > 50
    assert shown.endswith("more files]")
