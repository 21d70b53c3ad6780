"""Documents are checked for what they are."""

import pytest

from services.critic.document_links import check_documents
from services.critic.file_tools import sort_files
from services.engineer.report import format_headline, outcome_of
from services.engineer.testing import NO_CODE, discover
from shared.contracts import ResultOutcome, TestRun
from shared.source import read_tree
from tests.support.registries import write_files

GUIDE = '# Guide\n\n## First steps\n\n## What\'s `new`, *really*?\n\n## First steps\n\n<a name="own"></a>\n'
WORLD = {"guide.md": GUIDE, "img/a b.png": "x", "sub/page.md": "# Page\n", "docs/index.md": "# Index\n"}


async def check(folder, files):
    write_files(folder, {**WORLD, **files})
    done = await check_documents(sort_files(read_tree(folder)), timeout=60)
    return [each for each in done.findings if each.file in files]


@pytest.mark.parametrize(
    "link",
    [
        "[a](guide.md)",
        "[a](guide.md#first-steps)",
        "[a](guide.md#first-steps-1)",
        "[a](guide.md#whats-new-really)",
        "[a](guide.md#own)",
        "[a](sub/)",
        "[a](sub/page)",
        "[a](docs/index.html)",
        "![a](img/a%20b.png)",
        "[a][x]\n\n[x]: sub/page.md",
        "[a](https://example.org/gone.md)",
        "[a](mailto:a@example.org) [b](//example.org) [c](/root) [d]({{ site.url }}/x)",
        "[a](#here)",
        "`[a](gone.md)`",
    ],
)
async def test_links_that_lead_somewhere(tmp_path, link):
    assert not await check(tmp_path, {"README.md": f"# Here\n\n{link}\n"})


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("[a](gone.md)", "gone.md does not exist"),
        ("[a](sub/gone.md#x)", "sub/gone.md does not exist"),
        ("![a](img/c.png)", "img/c.png does not exist"),
        ("[a](guide.md#nowhere)", "guide.md has no heading nowhere"),
        ("[a](#nowhere)", "README.md has no heading nowhere"),
        ("[a][x]\n\n[x]: sub/gone.md", "sub/gone.md does not exist"),
        ("| t |\n|---|\n| [a](gone.md) |", "gone.md does not exist"),
    ],
)
async def test_links_that_lead_nowhere(tmp_path, link, said):
    (found,) = await check(tmp_path, {"README.md": f"# Here\n\n{link}\n"})
    assert (found.rule, found.severity) == ("broken-link", "medium")
    assert said in found.message
    assert found.line >= 3


async def test_a_broken_link_matters_less_beside_code(tmp_path):
    (found,) = await check(tmp_path, {"README.md": "[a](gone.md)\n", "a.py": ""})
    assert (found.severity, found.line) == ("low", 1)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("# A\n\n### B\n", ["heading-level"]),
        ("# A\n\n## B\n\n## B\n", ["heading-twice"]),
        ("# A\n\n## B\n\n### X\n\n## C\n\n### X\n", []),
        ("## A\n\n### B\n\n# C\n", []),
        ("# A\n\n> ### quoted\n", []),
        ("```\n# A\n### B\n```\n", []),
        ("", []),
    ],
)
async def test_the_order_of_headings(tmp_path, text, rules):
    assert [each.rule for each in await check(tmp_path, {"notes.md": text})] == rules


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Instalation\n\nHow it is installed.\n", ["Instalation"]),
        ("Getting startd quickly\n======================\n", ["startd"]),
        ("# Use\n\n## The enviroment\n\n## What we recieve\n", ["enviroment", "recieve"]),
        ("# Use\n\nThe enviroment is no heading.\n", []),
        ("# `mkae` builds\n\n```\n# enviroment\n```\n", []),
        ("# Das ist oder ist es nicht\n\nDas ist oder war es so, und sie ist oder war da.\n", []),
        ("# Kubernetes and PostgreSQL\n", []),
        ("# O sistem\n\n" + "Cada comando tem uma linha com o seu nome e mais nada. " * 9, []),
        ("# The sistem\n\n" + "Each of the commands has a line with its name and no more. " * 9, ["sistem"]),
    ],
)
async def test_the_spelling_of_headings(tmp_path, text, words):
    found = await check(tmp_path, {"notes.md": text})
    assert [each.message.split("'")[1] for each in found] == words
    assert {each.rule for each in found} <= {"heading-spelling"}
    assert not await check(tmp_path, {"notes.md": text, "a.py": ""})


@pytest.mark.parametrize(
    ("files", "has_code"),
    [
        ({"README.md": "# A\n"}, False),
        ({"readme.rst": "A\n=\n", "img/a.png": "x", "LICENSE": "x"}, False),
        ({"README": "A", "docs/a.md": "", "site.css": "", ".github/scripts/lint.sh": ""}, False),
        ({"README.md": "# A\n", "a.py": ""}, True),
        ({"README.md": "# A\n", "run.sh": ""}, True),
        ({"data.csv": "a,b\n"}, True),  # no document says what it is
    ],
)
def test_documents_alone_have_no_tests_to_run(tmp_path, files, has_code):
    write_files(tmp_path, files)
    found = discover(tmp_path)
    assert isinstance(found, TestRun)
    assert (NO_CODE in found.notes) != has_code
    assert outcome_of(found) is (ResultOutcome.NOT_CHECKED if has_code else ResultOutcome.DONE)
    assert has_code or format_headline(found) == f"{NO_CODE}."
