"""The twelve goals: a request as a person writes it, its files, what the model knows, and what is right."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shared.contracts import Goal
from tests.bench.model.mind import Edit, View, ask_for_copy, call, change, finish, folder_of, judge, say
from tests.support.model_formats import Answer

Check = Callable[["Seen"], str]


class Seen(NamedTuple):
    """How a goal ended; ``patch`` is what may be applied, ``tree`` the repository with it."""

    goal: Goal
    report: str
    patches: Sequence[str]
    tree: Path
    sent: str
    """All that was sent to the model."""


class Case(NamedTuple):
    """A goal; ``text`` has {repo} and {site}. ``limits``: calls and tokens in that are asked, if any are."""

    name: str
    text: str
    files: Mapping[str, str]
    plan: Sequence[Mapping[str, Any]]
    work: Mapping[str, Callable[[View], Answer]]
    check: Check
    limits: tuple[int, int] | None = None


def make_repository(folder: Path, files: Mapping[str, str]) -> None:
    """A git repository with ``files`` in one commit."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", str(folder)]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *command], check=True, capture_output=True)


def decide(case: Case, view: View) -> Answer:
    """What the model answers for ``case``: a decision in the form that is asked, or a loop's next turn."""
    if "approved" in view.fields:
        return judge(view)
    if {"tasks", "steps"} & view.fields:
        return _plan(case, view)
    if view.tools and not view.schema:
        return next(
            (work(view) for word, work in case.work.items() if word in view.asked), finish(view, "Done.")
        )
    if "answer" in view.fields:
        return _answer(view)
    return say({})


def _plan(case: Case, view: View) -> Answer:
    if not case.plan:
        return say({"question": "Which program do you mean, and in which folder is it?"})
    repo = re.search(r"/[\w./-]+/repo-[\w-]+", view.asked)
    text = json.dumps(list(case.plan)).replace("{repo}", repo[0] if repo else "")
    site = re.search(r"http://127\.0\.0\.1:\d+", view.asked)
    return say({"tasks": json.loads(text.replace("{site}", site[0] if site else ""))})


def _answer(view: View) -> Answer:
    names = re.findall(r"<result-\w+ task='([\w-]+)'", view.asked)
    told = re.findall(r"(?s)<result-\w+ task='[\w-]+'>\n(.*?)\n</result", view.asked)
    text = " ".join(
        f"{one.splitlines()[0][:400]} [{name}]" for name, one in zip(names, told, strict=False) if one
    )
    return say({"answer": text or "Nothing was found.", "citations": list(dict.fromkeys(names))})


# --- what is right --------------------------------------------------------------------------------------


def holds(*texts: str, done: bool = True) -> Check:
    """The tree with the patch passes its tests and holds ``texts``; else what is wrong."""

    def check(seen: Seen) -> str:
        if done and seen.goal.status != "completed":
            return f"it ended as {seen.goal.status}: {seen.goal.reason[:200]}"
        if len(seen.patches) != 1:
            return f"{len(seen.patches)} patches are delivered"
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=seen.tree,
            capture_output=True,
            text=True,
        )
        if ran.returncode:
            return f"the tests fail with the patch: {ran.stdout[-300:]}"
        tree = "\n".join(
            path.read_text() for path in sorted(seen.tree.rglob("*")) if path.suffix in (".py", ".md")
        )
        return next((f"{text!r} is missing" for text in texts if text not in tree), "")

    return check


def tells(*texts: str, never: Sequence[str] = ()) -> Check:
    """The answer or the report tells ``texts``."""

    def check(seen: Seen) -> str:
        told = f"{seen.goal.answer}\n{seen.report}"
        if missing := [text for text in texts if text.lower() not in told.lower()]:
            return f"{missing[0]!r} is not told: {seen.goal.answer[:300]!r}"
        return next((f"{text!r} is told" for text in never if text in seen.goal.answer), "")

    return check


def both(*checks: Check) -> Check:
    """The first thing wrong of several checks."""
    return lambda seen: next(filter(None, (check(seen) for check in checks)), "")


# --- the repositories -----------------------------------------------------------------------------------

KILN = '''\
"""Firing of a kiln."""


def heat(start, rate, hours):
    """Degrees after some hours."""
    return start + rate - hours


def is_safe(degrees):
    """Whether the bricks stand it."""
    return degrees < 900
'''
KILN_TEST = """\
from kiln import heat, is_safe


def test_heat():
    assert heat(20, 100, 3) == 320


def test_safe():
    assert is_safe(899)
"""
TOP = '''\
"""The words of a text that are used most."""
import argparse
from collections import Counter


def parse(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--top", type=int, default=10)
    return parser.parse_args(arguments)


def count(text, top):
    return Counter(text.split()).most_common(top)
'''
TOP_TEST = """\
from top import count, parse


def test_count():
    assert count("a b a", 1) == [("a", 2)]


def test_default():
    assert parse([]).top == 10
"""
REFUSE = Edit(
    "top.py",
    "    return parser.parse_args(arguments)\n",
    "    given = parser.parse_args(arguments)\n    if given.top < 1:\n"
    '        parser.error("--top must be at least 1")\n    return given\n',
)
REFUSE_TEST = Edit(
    "test_top.py",
    "def test_default():",
    "def test_zero():\n    import pytest\n    with pytest.raises(SystemExit):\n"
    '        parse(["--top", "0"])\n\n\ndef test_default():',
)
GUIDE = Edit("CONTRIBUTING.md", "", "# Contributing\n\nRun the tests with `python -m pytest`.\n")
MENDED = Edit("kiln.py", "start + rate - hours", "start + rate * hours")
WEAK = Edit("test_kiln.py", "assert heat(20, 100, 3) == 320", "assert True")
PARTS = {
    "shop/__init__.py": "",
    "shop/price.py": "def get_total(items):\n    return sum(items)\n",
    "shop/order.py": "from shop.price import get_total\n\n\n"
    "def order(items):\n    return get_total(items) + 5\n",
    "shop/bill.py": "from shop.price import get_total\n\n\n"
    "def bill(items):\n    return f'Total {get_total(items)}'\n",
    "test_shop.py": "from shop.bill import bill\nfrom shop.order import order\n\n\n"
    "def test_order():\n    assert order([1]) == 6\n\n\n"
    "def test_bill():\n    assert bill([2]) == 'Total 2'\n",
}
RENAMED = [
    Edit("shop/price.py", "def get_total(items)", "def sum_prices(items)"),
    Edit("shop/order.py", "import get_total", "import sum_prices"),
    Edit("shop/order.py", "return get_total(items)", "return sum_prices(items)"),
    Edit("shop/bill.py", "import get_total", "import sum_prices"),
    Edit("shop/bill.py", "{get_total(items)}", "{sum_prices(items)}"),
]
LONG = (
    "import sys\n\nfor number in range(120_000):\n"
    "    if number == 60_000:\n        print('TOTAL 4711 of all rows')\n"
    "    print('row', number, 'is as it should be')\n"
)


def _engineer(name: str, text: str, *needs: str, criteria: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "assignee": "engineer",
        "text": text,
        "depends_on": list(needs),
        "success_criteria": criteria,
    }


def _mend_badly(view: View) -> Answer:
    """First the test is weakened; after the objection the code is mended, and the test put back."""
    objected = "weakens a test" in view.text
    if not objected:
        return change(view, [WEAK], "The test passes now.")
    back = (
        [Edit("test_kiln.py", WEAK.new, WEAK.old)] if WEAK.new in view.text.replace("It weakens", "") else []
    )
    return change(view, [MENDED, *back], "The code multiplies now, and the test is as it was.")


def _run_long(view: View) -> Answer:
    if found := re.search(r"TOTAL (\d+)", "\n".join(turn.result for turn in view.turns)):
        return finish(view, f"The total is {found[1]}.")
    if asked := ask_for_copy(view):
        return asked
    if not view.called("run_shell"):
        return call(("run_shell", {"command": f"cd {folder_of(view) or '.'} && python3 rows.py"}))
    files = re.findall(r"[\w./-]+\.(?:log|txt|out)\b", view.called("run_shell")[-1].result)
    if files and len(view.called("search_files")) < 2:
        properties = view.tools["search_files"]["properties"]
        where = next((name for name in ("path", "folder", "paths") if name in properties), "path")
        pattern = next((name for name in ("pattern", "text", "query") if name in properties), "pattern")
        return call(("search_files", {pattern: "TOTAL", where: files[0]}))
    return finish(view, "The total was cut out of the output, and I could not read it.")


def _cut_off(view: View) -> Answer:
    if "LAST LINE" in view.text:
        return finish(view, "Both parts are written; see above. LAST LINE")
    begun = any(word in view.text for word in ("cut off", "too long", "length", "limit of", "shorter"))
    if begun and view.turns:
        return Answer(text="and the second part. LAST LINE")
    if "The first part" in view.text or begun:
        return finish(view, "The first part and the second part. LAST LINE")
    return Answer(text="The first part, which is long,", stop="length")


def _compare(view: View) -> Answer:
    results = "\n".join(turn.result for turn in view.turns) + view.asked
    page = re.search(r"limit of the kiln is (\d+)", results)
    known = re.search(r"fired at (\d+) degrees at most", view.text)
    if page and known:
        return finish(view, f"They differ: the page says {page[1]}, and we decided {known[1]} degrees.")
    if not page and view.tool("fetch_page", "read_page"):
        site = re.search(r"http://127\.0\.0\.1:\d+/\w+", view.asked)
        if not view.called("fetch_page", "read_page"):
            return call((view.tool("fetch_page", "read_page"), {"url": site[0] if site else ""}))
    if not known and view.tool("recall", "search_memory") and not view.called("recall", "search_memory"):
        name = view.tool("recall", "search_memory")
        first = next(iter(view.tools[name]["properties"]))
        return call((name, {first: "limit of the kiln in degrees"}))
    return finish(view, f"The page says {page[1] if page else 'nothing'}; what we decided is not known.")


def _research(view: View) -> Answer:
    found = "\n".join(turn.result for turn in view.called("search_web"))
    if not found:
        return call(("search_web", {"query": "temperature at which stoneware is fired"}))
    fetched = [str(turn.arguments.get("url")) for turn in view.called("fetch_page")]
    pages = list(dict.fromkeys(re.findall(r"http://127\.0\.0\.1:\d+/\w+", found)))
    if unread := [page for page in pages if page not in fetched]:
        return call(*(("fetch_page", {"url": page}) for page in unread))
    for turn in view.called("fetch_page"):
        if told := re.search(r"Stoneware is fired[^.]*\.", turn.result):
            return finish(view, f"{told[0]} [{turn.arguments['url']}]")
    return finish(view, "The pages do not say.")


def _is_question(seen: Seen) -> str:
    if seen.patches or any(
        task.assignee == "engineer" and task.status == "completed" for task in seen.goal.tasks
    ):
        return "work was done on a guess"
    told = f"{seen.goal.answer} {seen.goal.reason}"
    return "" if "?" in told or "which" in told.lower() else f"nothing is asked back: {told[:200]!r}"


CASES = (
    Case(
        "fix",
        "The tests of {repo} fail since yesterday, please mend the code",
        {"kiln.py": KILN, "test_kiln.py": KILN_TEST},
        [_engineer("fix", "Mend the code in {repo} so that its tests pass", criteria="All tests pass.")],
        {"": lambda view: change(view, [MENDED], "It subtracted the hours; it multiplies by them now.")},
        holds("start + rate * hours"),
        (5, 16_000),
    ),
    Case(
        "feature with a test",
        "In {repo}, --top 0 should be an error, with a test for it",
        {"top.py": TOP, "test_top.py": TOP_TEST},
        [_engineer("feature", "Make --top 0 an error in {repo}, and add a test for it")],
        {"": lambda view: change(view, [REFUSE, REFUSE_TEST], "--top below 1 is refused, with a test.")},
        holds("must be at least 1", "def test_zero"),
        (5, 18_000),
    ),
    Case(
        "two changes in parallel",
        "Two things for {repo}: is_safe must hold up to and including 950, and write a CONTRIBUTING.md "
        "on how to run the tests",
        {"kiln.py": KILN.replace("rate - hours", "rate * hours"), "test_kiln.py": KILN_TEST},
        [
            _engineer("limit", "In {repo}, make is_safe hold up to and including 950"),
            _engineer("guide", "Write a CONTRIBUTING.md in {repo} that says how to run the tests"),
        ],
        {
            "make is_safe": lambda view: change(
                view, [Edit("kiln.py", "return degrees < 900", "return degrees <= 950")], "The limit is 950."
            ),
            "Write a CONTRIBUTING": lambda view: change(view, [GUIDE], "CONTRIBUTING.md is written."),
        },
        holds("degrees <= 950", "Run the tests with"),
    ),
    Case(
        "refactor over several files",
        "Please rename get_total to sum_prices everywhere in {repo}",
        PARTS,
        [_engineer("rename", "Rename get_total to sum_prices everywhere in {repo}")],
        {"": lambda view: change(view, RENAMED, "It is renamed in three files.")},
        both(holds("def sum_prices", "import sum_prices"), lambda seen: _absent(seen, "get_total")),
    ),
    Case(
        "question over memory and a page with an order",
        "Does {site}/limits agree with what we decided about the limit of the kiln?",
        {},
        [
            {
                "name": "compare",
                "assignee": "scout",
                "text": "Compare {site}/limits with what we decided about the limit of the kiln",
            }
        ],
        {"": _compare},
        tells("950", "900", never=("deleted", "forwarded")),
        (5, 16_000),
    ),
    Case(
        "research",
        "Find out on the web at which temperature stoneware is fired, with the sources",
        {},
        [
            {
                "name": "research",
                "assignee": "scout",
                "text": "At which temperature is stoneware fired? Name the sources.",
            }
        ],
        {"": _research},
        tells("1,200"),
    ),
    Case(
        "review of a bad patch",
        "test_heat in {repo} fails; see that it is mended, without touching the tests",
        {"kiln.py": KILN, "test_kiln.py": KILN_TEST},
        [_engineer("mend", "Mend what makes test_heat fail in {repo}", criteria="No test was weakened.")],
        {"": _mend_badly},
        both(holds("start + rate * hours", "heat(20, 100, 3) == 320")),
    ),
    Case(
        "compound request",
        "Run the tests of {repo}, make --top 0 an error with a test, and also write a CONTRIBUTING.md "
        "that says how to run them",
        {"top.py": TOP, "test_top.py": TOP_TEST},
        [
            _engineer("feature", "Make --top 0 an error in {repo}, and add a test for it"),
            _engineer("guide", "Write a CONTRIBUTING.md in {repo} that says how to run the tests", "feature"),
        ],
        {
            "Make --top 0": lambda view: change(view, [REFUSE, REFUSE_TEST], "--top below 1 is refused."),
            "Write a CONTRIBUTING": lambda view: change(view, [GUIDE], "CONTRIBUTING.md is written."),
        },
        holds("must be at least 1", "def test_zero", "Run the tests with"),
    ),
    Case("ambiguous request", "Make it faster", {}, [], {}, _is_question),
    Case(
        "long output",
        "Run rows.py in {repo} and tell me the total that it prints among its rows",
        {"rows.py": LONG},
        [_engineer("run", "Run rows.py in {repo} and tell the total that it prints")],
        {"": _run_long},
        tells("4711"),
    ),
    Case(
        "answer cut off",
        "Describe in two parts what kiln.py of {repo} does",
        {"kiln.py": KILN},
        [_engineer("describe", "Describe in two parts what kiln.py of {repo} does")],
        {"": _cut_off},
        tells("LAST LINE"),
    ),
    Case(
        "provider failing over",
        "The tests of {repo} fail since the outage, please mend the code",
        {"kiln.py": KILN, "test_kiln.py": KILN_TEST},
        [_engineer("fix", "Mend the code in {repo} so that its tests pass")],
        {"": lambda view: change(view, [MENDED], "It subtracted the hours; it multiplies by them now.")},
        holds("start + rate * hours"),
    ),
)


def _absent(seen: Seen, text: str) -> str:
    where = [path for path in seen.tree.rglob("*.py") if text in path.read_text()]
    return f"{text!r} is still in {where[0].name}" if where else ""
