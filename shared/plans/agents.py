"""The agents that a plan can use: what each can do, and how a model is shown it."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from shared import subjects
from shared.contracts import Presence
from shared.text.excerpt import excerpt

MAX_TEXT = 24_000
"""Characters of the agents in a prompt; if there are more, the text says that it was cut off."""
MAX_INTRODUCTION = 1_000
"""Characters of an agent's own description in a prompt."""


class AgentPage(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a planner sees it; the actions of one that is not ``at_work`` are not known."""

    name: str
    description: str = ""
    instructions: str = ""
    skills: tuple[str, ...] = ()
    actions: Mapping[str, str] = {}
    schemas: Mapping[str, Mapping[str, Any]] = {}
    at_work: bool = False

    @property
    def thinks(self) -> bool:
        """Whether it can do a step that names no action, given a model: every agent but memory can."""
        return self.name != subjects.MEMORY_DAEMON

    def offers(self, action: str, parameter: str = "") -> bool:
        """Whether it has the action, and the action the parameter."""
        known = self.schemas.get(action, {}).get("properties", {})
        return action in self.actions and (not parameter or parameter in known)


def page_of(presence: Presence) -> AgentPage:
    """The page of an agent at work."""
    return AgentPage(
        name=presence.agent,
        description=presence.description,
        instructions=presence.instructions,
        skills=presence.skills,
        actions=presence.actions,
        schemas=presence.schemas,
        at_work=True,
    )


def pages_of(present: Mapping[str, Presence], known: Iterable[str] = ()) -> dict[str, AgentPage]:
    """A page for each agent that is at work, or ``known`` by its profile alone; sorted by name."""
    pages = {name: AgentPage(name=name) for name in known}
    return dict(sorted((pages | {name: page_of(presence) for name, presence in present.items()}).items()))


def format_agents(pages: Iterable[AgentPage], *, actions: bool = True) -> str:
    """The agents for a prompt, one a line; with ``actions``, what each can do and with which parameters."""
    text = "\n".join(row for page in pages for row in _format_agent(page, actions))
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT].rpartition(chr(10))[0]}\n(cut off here)"


def _format_agent(page: AgentPage, actions: bool) -> list[str]:
    if not page.at_work:
        return [f"- {page.name}: not at work at present; a step without an action waits for it."]
    words = f"{page.description} {page.instructions}"
    if actions and not page.thinks:
        words = f"It takes named actions only. {words}"
    introduction = excerpt(" ".join(words.split()), MAX_INTRODUCTION)
    return [
        f"- {page.name}: {introduction}".rstrip(),
        *(_format_action(page, name) for name in sorted(page.actions) if actions),
    ]


def _format_action(page: AgentPage, name: str) -> str:
    schema = page.schemas.get(name, {})
    required = schema.get("required", ())
    params = ", ".join(
        f"{param}{'' if param in required else '?'}: {_format_type(values)}"
        for param, values in schema.get("properties", {}).items()
    )
    return f"  - {name}({params}): {page.actions[name][:200]}"


def _format_type(values: Mapping[str, Any]) -> str:
    about = f" ({values['description'][:120]})" if values.get("description") else ""
    return f"{values.get('type', 'any')}{about}"
