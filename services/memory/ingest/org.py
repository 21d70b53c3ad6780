"""Org files as Markdown: headlines, tasks, keywords at the top, and blocks of code."""

import re

_HEADLINE = re.compile(
    r"(?P<stars>\*+)\s+(?:(?P<state>TODO|NEXT|WAITING|DONE|CANCELLED)\s+)?(?P<text>.*?)\s*$"
)
_KEYWORD = re.compile(r"#\+(title|date|author|filetags):\s*(.*)", re.IGNORECASE)
_TAGS = re.compile(r"\s+:([\w@:]+):$")
_STAMP = re.compile(r"[<\[](\d{4}-\d\d-\d\d)(?: [^\W\d_]{2,4}\.?)?(?: [^<>\[\]]{1,30})?[>\]]")
_DONE = frozenset({"DONE", "CANCELLED"})


def convert_org(text: str) -> str:
    """An Org text as Markdown, line for line: headlines are headings, those with a state are check boxes."""
    return "\n".join(_convert(line) for line in text.split("\n"))


def _convert(line: str) -> str:
    line = _STAMP.sub(r"\1", line)
    if headline := _HEADLINE.match(line):
        tags = _TAGS.search(headline["text"])
        words = headline["text"][: tags.start()] if tags else headline["text"]
        words += "".join(f" #{tag}" for tag in tags[1].split(":")) if tags else ""
        if headline["state"]:
            return f"- [{'x' if headline['state'] in _DONE else ' '}] {words}"
        return f"{'#' * min(6, 1 + len(headline['stars']))} {words}"
    if keyword := _KEYWORD.match(line):
        name = keyword[1].lower()
        return {"title": f"# {keyword[2]}", "date": f"Date: {keyword[2]}"}.get(name, "")
    folded = line.strip().lower()
    if folded.startswith(("#+begin_src", "#+begin_example", "#+end_src", "#+end_example")):
        return "```"
    return "" if folded.startswith(("#+", ":properties:", ":end:")) else line
