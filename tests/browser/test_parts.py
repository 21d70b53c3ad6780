"""The parts of views: texts of others become no HTML and take no long time; long lists stay small."""

from typing import Any

import pytest_asyncio
from playwright.async_api import Page

from tests.browser.pages import Desk, paint

MARKDOWN = """async (text) => {
  const [{ Markdown }, { html }, { render }] = await Promise.all(
    [import("/web/app/ui/markdown.js"), import("/web/app/ui/html.js"), import("preact")]);
  const box = document.createElement("div");
  const begun = performance.now();
  render(html`<${Markdown} text=${text} />`, box);
  const tags = [...box.querySelectorAll("*")].map((element) => element.localName);
  const links = [...box.querySelectorAll("a")].map((link) => [link.href, link.rel, link.target]);
  return { text: box.textContent, tags, links, took: performance.now() - begun };
}"""
ROWS = """async (count) => {
  const [{ Rows }, { html }, { render }] = await Promise.all(
    [import("/web/app/ui/rows.js"), import("/web/app/ui/html.js"), import("preact")]);
  const box = Object.assign(document.createElement("div"), { id: "many" });
  document.querySelector("main").replaceChildren(box);
  window.show = (count, added) => render(html`<${Rows} count=${count} label="many" added=${added} tall="400px"
    keys=${false} keyOf=${(index) => count - index} render=${(index) => html`row ${count - index}`} />`, box);
  const begun = performance.now();
  window.show(count, 0);
  return performance.now() - begun;
}"""
PATCH = """diff --git a/notes.sql b/notes.sql
--- a/notes.sql
+++ b/notes.sql
@@ -1,3 +1,3 @@
 one
--- a comment that was removed
+++ a line that begins with plus signs
 three
diff --git a/old b/old
--- a/old
+++ /dev/null
@@ -1 +0,0 @@
-gone
\\ No newline at end of file
"""
DIFF = """async (text) => (await import("/web/app/ui/diff.js")).parseDiff(text)"""


@pytest_asyncio.fixture(loop_scope="session")
async def page(desk: Desk) -> Page:
    return await desk.open("/figures")


async def markdown(page: Page, text: str) -> dict[str, Any]:
    found: dict[str, Any] = await page.evaluate(MARKDOWN, text)
    return found


async def test_markdown_of_reports_becomes_elements(page: Page) -> None:
    text = "# Title\n\nOne **bold** and `code`, see [docs](https://example.org/a_b).\n\n- one\n- two\n\n"
    text += "```\nx < y\n```"
    found = await markdown(page, text)
    assert {"h3", "b", "code", "a", "ul", "li", "pre"} <= set(found["tags"])
    assert found["links"] == [["https://example.org/a_b", "noopener noreferrer nofollow", "_blank"]]
    assert "x < y" in found["text"]


async def test_markdown_of_reports_has_no_backslash_before_what_it_escapes(page: Page) -> None:
    text = "Needs Python \\>=3.10 and \\*nothing\\* of C:\\temp\n\n|a|b|\n|--|--|\n|x \\| y|z|"
    found = await markdown(page, text)
    assert "Needs Python >=3.10 and *nothing* of C:\\temp" in found["text"]
    assert "x | yz" in found["text"]
    assert found["tags"].count("td") == 2
    assert "em" not in found["tags"]


async def test_markdown_makes_nothing_else(page: Page) -> None:
    hostile = [
        '<img src=x onerror="window.hit=1">',
        "<script>window.hit=1</script>",
        "[x](javascript:window.hit=1)",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "[x](//example.org/protocol-relative)",
        "![x](https://example.org/pixel.png)",
        "<a href='https://example.org' onclick=alert(1)>x</a>",
        "<svg/onload=alert(1)>",
    ]
    for text in hostile:
        found = await markdown(page, text)
        assert not {"img", "script", "svg", "iframe", "style"} & set(found["tags"]), text
        assert all(href.startswith("https://") for href, _, _ in found["links"]), text
    assert await page.evaluate("window.hit") is None


async def test_no_text_takes_long(page: Page) -> None:
    long = ["*", "**a", "`", "[", "[a](", "_a ", "> ", "- ", "|a|\n|--|\n", "http://", "# ", "``` \n", "\n"]
    for part in long:
        found = await markdown(page, part * (100_000 // len(part)))
        assert found["took"] < 8_000, part
    nested = "\n".join(f"{'  ' * depth}- x" for depth in range(2_000))
    assert (await markdown(page, nested))["took"] < 8_000


async def test_a_hundred_thousand_rows_are_a_few_elements(page: Page) -> None:
    await page.evaluate(ROWS, 100_000)
    rows = page.locator("#many .row")
    await rows.first.wait_for()
    assert await rows.count() < 60
    await page.evaluate("document.querySelector('#many .rows').scrollTop = 1e9")
    await page.get_by_text("row 1", exact=True).wait_for()
    assert await rows.count() < 60
    assert await page.locator("#many [aria-posinset='100000'][aria-setsize='100000']").count() == 1


async def test_rows_that_come_in_front_do_not_move_what_one_reads(page: Page) -> None:
    await page.evaluate(ROWS, 1_000)
    await page.evaluate("document.querySelector('#many .rows').scrollTop = 3600")
    row = page.get_by_text("row 895", exact=True)
    await row.wait_for()
    before = await row.bounding_box()
    await page.evaluate("window.show(1012, 12)")
    await paint(page)
    assert await row.bounding_box() == before


async def test_a_diff_is_read_by_its_numbers_of_lines(page: Page) -> None:
    files = await page.evaluate(DIFF, PATCH)
    assert [(file["name"], file["plus"], file["minus"]) for file in files] == [
        ("notes.sql", 1, 1),
        ("old", 0, 1),
    ]
    assert files[0]["lines"][2]["text"] == "-- a comment that was removed"
