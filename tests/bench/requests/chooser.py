"""A model that chooses by rules over what its prompt holds: the request, the playbooks, and who is there.

It names only playbooks and agents that the prompt lists. The rules are those of a reader in a hurry: they
show that a request reaches a model whole and that what it chooses is done, not that any model chooses well.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from tests.support.model_formats import Answer, Request

PLACE = re.compile(r"/[\w./-]+|https?://\S+")
PLAYBOOKS = (
    ("checkup", r"check up|state of|understanding"),
    ("history", r"what'?s? (has )?(changed|new)|happened|commits"),
    ("compare", r"\bcompare\b"),
    ("secrets", r"passwords|secrets|leak"),
    ("rules", r"architecture\.md"),
    ("licence", r"licen[cs]e"),
    ("lint", r"\blint\b"),
    ("read", r"overview|what is\b"),
    ("tests", r"\btests?\b"),
    ("page", r"\b(open|read)\b.*https?:"),
)
AGENTS = (
    ("frontier", r"papers?|arxiv|research"),
    ("scout", r"https?:|licen[cs]e|function|search the web|how do i"),
    ("critic", r"scan|lint|secur|audit|passwords|import rules|check up"),
)
MORE = re.compile(
    r"\b(only|except|but|skip|ignore|without|whether i|by|most|max|since v\d|since 20\d\d|mention|last \d|"
    r"fix|add|write|tell|also|which|between \d|how|why|first|on python|login|has the|deutsch|cheapest|"
    r"largest|not|dont|open an|logs|broken|put it|rename)\b|^who",
    re.IGNORECASE,
)
TALK = re.compile(
    r"\b(remind me|weather|hello|difference between|we decide|every night|good morning)\b", re.IGNORECASE
)


def choose(request: Request, *, careless: bool = False) -> Answer:
    """The choice for the request in the prompt; a ``careless`` one does the first part alone."""
    asked = "\n".join(each["content"] for each in request.body["messages"] if each["role"] == "user")
    listed = "\n".join(each["content"] for each in request.body["messages"] if each["role"] == "system")
    if not (found := re.search(r"The goal:\n(.*?)(?=\n\n|\nWhat was given|$)", asked, re.DOTALL)):
        return _say(answer="Nothing more.", citations=[])
    if asked.startswith("Answer the person"):
        return _say(answer="It is done.", citations=re.findall(r"\btask='([\w-]+)'", asked))
    text = found[1]
    if careless:
        first = re.split(r"[,.;:]\s|\b(?:and|then|but)\b", text)[0]
        return _say(tasks=[{"name": "do", "assignee": "engineer", "text": first}])
    if TALK.search(text):
        return _say(answer="As far as I know, yes.")
    if not PLACE.search(text) and not re.search(AGENTS[0][1], text, re.IGNORECASE):
        return _say(question="Which project do you mean?")
    return _work(text, listed)


def _work(text: str, listed: str) -> Answer:
    def fits(pattern: str) -> bool:
        return bool(re.search(pattern, text, re.IGNORECASE))

    books = dict(re.findall(r"(?m)^- (\w+)\(([\w, ]*)\): ", listed))
    exact = next((name for name, pattern in PLAYBOOKS if fits(pattern) and name in books), "")
    if exact and not MORE.search(PLACE.sub("", text)):
        return _say(playbook=exact)  # the conductor reads the parameters of the text
    agents = set(re.findall(r"(?m)^- ([a-z]+): ", listed))
    named = [name for name in agents if re.match(rf"(?:ask the )?{name}\b", text, re.IGNORECASE)]
    parts = re.split(r"(?:, and also|, then| then tell|\. Also| and (?=open an|put it)|; |, but )", text)
    wanted = [named[0] if named else _agent(part, agents) for part in parts if part.strip()]
    if len(set(wanted)) == 1:
        return _say(tasks=[{"name": "do", "assignee": wanted[0], "text": ""}])
    place = PLACE.search(text)
    tasks = [
        {"name": f"part{number}", "assignee": agent, "text": f"{part.strip()} ({place[0] if place else ''})"}
        for number, (agent, part) in enumerate(zip(wanted, parts, strict=False), 1)
    ]
    return _say(tasks=tasks)


def _agent(part: str, agents: set[str]) -> str:
    matching: Callable[[str], Any] = lambda pattern: re.search(pattern, part, re.IGNORECASE)  # noqa: E731
    return next((name for name, pattern in AGENTS if matching(pattern) and name in agents), "engineer")


def _say(**choice: Any) -> Answer:
    return Answer(text=json.dumps(choice))
