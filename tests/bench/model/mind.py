"""A model that answers by rules over what its prompt holds: it knows a goal's solution, and nothing else.

It calls only tools that it was given, with the parameters that their schemas name; it changes only text that
it was shown, and tells only figures that it read. So it is right where a prompt holds what is needed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.support.model_formats import Answer, Request

Call = tuple[str, dict[str, Any] | str]


class Turn(NamedTuple):
    """A call of a tool, and what came back."""

    name: str
    arguments: dict[str, Any]
    result: str


class View:
    """A request as a model reads it."""

    def __init__(self, request: Request) -> None:
        body = request.body
        self.tools: dict[str, dict[str, Any]] = {
            tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools", ())
        }
        messages = body["messages"]
        self.system = _join(messages, "system")
        self.asked = _join(messages, "user")
        self.last = next((m["content"] for m in reversed(messages) if m["role"] == "user"), "")
        self.turns = tuple(_turns(messages))
        self.text = "\n".join([self.system, self.asked, *(turn.result for turn in self.turns)])
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        if forced := (body.get("tool_choice") or {}):
            named = forced.get("function", {}).get("name", "") if isinstance(forced, dict) else ""
            schema = self.tools.get(named, schema)
        if "approved" in self.tools.get("finish_task", {}).get("properties", ()):
            schema = self.tools["finish_task"]  # a verdict is a form to be filled in
        self.schema: dict[str, Any] = schema
        self.fields = set(schema.get("properties", ()))

    def tool(self, *names: str) -> str:
        """The first of ``names`` that is a tool of this request; empty if none is."""
        return next((name for name in names if name in self.tools), "")

    def called(self, *names: str) -> list[Turn]:
        """The calls of these tools so far."""
        return [turn for turn in self.turns if turn.name in names]

    def path(self, end: str) -> str:
        """A path of a file that the prompt names, by its last part; else that part itself."""
        found = re.findall(rf"(?<![\w./-])((?:[\w.-]+/)*{re.escape(end)})(?![\w/-])", self.text)
        return max(found, key=len, default=end)


def _join(messages: Sequence[Mapping[str, Any]], role: str) -> str:
    return "\n\n".join(m["content"] for m in messages if m["role"] == role and isinstance(m["content"], str))


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    calls = {call["id"]: call["function"] for m in messages for call in m.get("tool_calls") or ()}
    found, open_calls = [], {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            open_calls[call["id"]] = call["function"]
        if message["role"] == "tool":
            call = open_calls.get(message["tool_call_id"]) or calls[message["tool_call_id"]]
            found.append(Turn(call["name"], json.loads(call["arguments"] or "{}"), message["content"]))
    return found


class Edit(NamedTuple):
    """A replacement in a file; a new file if ``old`` is empty."""

    path: str
    old: str
    new: str


def say(value: object) -> Answer:
    """An answer as JSON."""
    return Answer(text=json.dumps(value))


def call(*calls: Call, text: str = "") -> Answer:
    """An answer that calls tools."""
    return Answer(text=text, calls=calls)


def finish(view: View, text: str) -> Answer:
    """The end of a task."""
    return call(("finish_task", {"result": text})) if view.tool("finish_task") else Answer(text=text)


def change(view: View, edits: Sequence[Edit], told: str) -> Answer:
    """Look, test, edit what was seen, test again, and report; as few turns as a good agent takes."""
    if asked := ask_for_copy(view):
        return asked
    run = view.tool("test_changes", "run_tests")
    arguments = {name: folder_of(view) or "." for name in view.tools[run].get("required", ())}
    done = {(turn.arguments.get("path", ""), _first_old(turn)) for turn in view.called(*EDITORS)}
    missing = [edit for edit in edits if edit.old and edit.old not in view.text]
    unread = [edit.path for edit in missing if not any(path.endswith(edit.path) for path, _ in done)]
    if unread:
        reads = [("read_file", {"path": _here(view, path)}) for path in dict.fromkeys(unread)]
        before = [] if view.called(run) else [(run, arguments)]
        if len(view.called("read_file")) < 3 * len(edits):
            return call(*before, *reads)
        return finish(view, f"I could not read {', '.join(unread)}.")
    todo = [edit for edit in edits if not any(_is_done(edit, one) for one in done)]
    if todo:
        return call(*(_edit_call(view, edit) for edit in todo), (run, arguments))
    last = view.called(run)[-1].result if view.called(run) else ""
    counts = re.search(r"\d+ passed[^\n.]*", last)
    return finish(view, f"{told} The tests: {counts[0] if counts else 'see the output'}.")


EDITORS = ("edit_file", "edit", "patch_file", "write_file")


def folder_of(view: View) -> str:
    """The folder of the workspace that the prompt names as the project's copy; empty if it names none."""
    found = re.findall(r" to ([\w.-]+) in the workspace|([\w.-]+) in the workspace is a copy", view.text)
    return "".join(found[-1]) if found else ""


def ask_for_copy(view: View) -> Answer | None:
    """A call that copies the repository into the workspace, if that is still to be done."""
    repo = re.search(r"/[\w./-]+/repo-[\w-]+", view.asked)
    copy = view.tool("copy_project")
    return call((copy, {"repo": repo[0]})) if repo and copy and not folder_of(view) else None


def _here(view: View, path: str) -> str:
    return f"{folder}/{path}" if (folder := folder_of(view)) else view.path(path)


def _first_old(turn: Turn) -> str:
    edits = turn.arguments.get("edits") or [turn.arguments]
    first = edits[0]
    return str(first.get("search", first.get("old", first.get("old_text", ""))))


def _is_done(edit: Edit, done: tuple[str, str]) -> bool:
    path, old = done
    return path.endswith(edit.path) and old == edit.old


def _edit_call(view: View, edit: Edit) -> Call:
    path = _here(view, edit.path)
    if not edit.old:
        return "write_file", {"path": path, "content": edit.new}
    name = view.tool("edit_file", "edit", "patch_file")
    properties = view.tools[name]["properties"]
    if "edits" in properties:
        item = properties["edits"]["items"]
        while "$ref" in item:
            item = view.tools[name]["$defs"][item["$ref"].rpartition("/")[2]]
        old, new = list(item["properties"])[:2]
        return name, {"path": path, "edits": [{old: edit.old, new: edit.new}]}
    old, new = [each for each in properties if each not in ("path", "all", "replace_all")][:2]
    return name, {"path": path, old: edit.old, new: edit.new}


ORDERS = re.compile(r"(?im)^\s*(?:please )?(?:ignore|disregard|approve|delete|forward)\b.*$")
"""What a page or a patch may try to order; the model follows none of it."""


def judge(view: View) -> Answer:
    """Approve what the prompt bears out: a patch that takes no test away, and tests that ran."""
    removed = re.findall(r"(?m)^-\s+(?:assert\b|self\.assert\w+).*", view.asked)
    added = re.findall(r"(?m)^\+\s+(?:assert\b|self\.assert\w+).*", view.asked)
    skipped = re.findall(r"(?m)^\+.*(?:pytest\.mark\.skip|unittest\.skip|# *def test_).*", view.asked)
    names = re.findall(r"<result task='?\"?([\w-]+)", view.asked) or re.findall(
        r"task='?\"?([\w-]+)", view.asked
    )
    weak = skipped or (len(removed) > len(added)) or _weaker(removed, added)
    if weak:
        line = (skipped or removed)[0].strip()
        reason = {"task": names[0] if names else "task", "text": f"It weakens a test: {line}", "source": ""}
        verdict: dict[str, Any] = {"approved": False, "reasons": [reason], "redo": names[:1]}
    else:
        verdict = {"approved": True, "reasons": [], "redo": []}
    files = re.findall(r"(?m)^\+\+\+ (?:b/)?([^\s]+)", view.asked)
    verdict["criteria"] = [
        {
            "task": name,
            "number": int(number),
            "met": not weak,
            "why": "Seen there.",
            "source": files[0] if files else "",
        }
        for name in dict.fromkeys(names)
        for number in re.findall(
            r"(?m)^(\d+)\. ", view.asked.partition(f"Criteria of {name};")[2].partition("\n\n")[0]
        )
    ]
    return say({name: value for name, value in verdict.items() if name in view.fields or name == "approved"})


def _weaker(removed: Sequence[str], added: Sequence[str]) -> bool:
    """Whether an assertion now expects what the wrong code gives."""
    return bool(removed) and any("assert True" in line or "or True" in line for line in added)
