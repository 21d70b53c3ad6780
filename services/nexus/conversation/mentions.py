"""What an answer named, in its order: goals, reminders, jobs, schedules, memories, or lines of a list."""

import re

from services.nexus.conversation.pending import Resolved
from services.nexus.routing.request import GOAL
from services.nexus.timetable.schedule_words import JOB
from shared.contracts import Conversation, Mentioned, Response
from shared.contracts.emails import CUT, MAX_MENTIONED
from shared.language.sayings import read_sayings
from shared.language.utterance import Utterance

WAYS = read_sayings(__file__, "mentions")

_IDS = {
    "goal": GOAL,
    "reminder": re.compile(r"\b(?P<id>r[0-9a-f]{10})\b"),
    "job": JOB,
    "schedule": re.compile(r"\b(?P<id>s[0-9a-f]{7})\b"),
    "approval": re.compile(r"\bapprovals (?:grant|refuse) (?P<id>[0-9a-f-]{12,36})\b"),
}
GONE = "In place of: "  # How a line begins that names what is no longer there
_PATH = re.compile(r"(?<![\w/.])(?:~|\.{1,2})?/[^\s\"'`,;]+")
_ITEM = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+(?P<text>\S.*)$")


def find_mentioned(response: Response) -> tuple[Mentioned, ...]:
    """What ``response`` names, each once; if nothing has an id the lines of its list."""
    found: dict[tuple[str, str], Mentioned] = {}

    def add(what: str, ref: str, text: str) -> None:
        found.setdefault((what, ref), Mentioned(what=what, ref=ref, text=_cut(text)))  # type: ignore[arg-type]

    items = []
    for line in response.text.splitlines():
        if line.startswith(GONE):
            continue
        for what, pattern in _IDS.items():
            for named in pattern.finditer(line):
                add(what, named["id"], line)
        if item := _ITEM.match(line):
            items.append(item["text"])
    if response.goal_id:
        add("goal", response.goal_id, response.text)
    said = (
        {each.evidence_id: each.text for each in response.context_used.bullets}
        if response.context_used
        else {}
    )
    if not found:
        found = {("line", text): Mentioned(what="line", text=_cut(text)) for text in items}
    for node_id in response.citations:
        if not found or all(each.what == "memory" for each in found.values()):
            add("memory", node_id, said.get(node_id, ""))
    return tuple(found.values())[:MAX_MENTIONED]


def _cut(text: str) -> str:
    return " ".join(text.split())[:CUT]


def find_goal(conversation: Conversation) -> str:
    """The goal that the last answer started, or told of alone."""
    turn = conversation.turns[-1]
    named = [each.ref for each in conversation.mentioned if each.what == "goal"]
    return turn.goal_id or (named[0] if turn.route == "tool:goals" and len(named) == 1 else "")


def look_at(said: Utterance, conversation: Conversation) -> Resolved | None:
    """An order about the folder of the last work, with its path in place of "it": "and lint it too"."""
    found = WAYS["look"].fullmatch(said.bare)
    if not found or not find_goal(conversation):
        return None
    work = next((each for each in reversed(conversation.turns) if each.goal_id), None)
    paths = find_paths(work.meant or work.text) if work else []
    if len(paths) != 1:
        return None
    whole = f"{found['order']} {paths[0]}{found['rest']}".strip()
    return Resolved(text=whole, understood=whole)


def find_paths(text: str) -> list[str]:
    """The paths that ``text`` names, each once."""
    return list(dict.fromkeys(path.rstrip(".,;:!?") for path in _PATH.findall(text)))
