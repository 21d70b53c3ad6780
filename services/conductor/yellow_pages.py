"""The yellow pages: who is at work, what they can do, and with which parameters."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import Presence

UNPLANNED = frozenset({subjects.CONDUCTOR, subjects.USER, subjects.ADMIN})
"""Who gets no task from a plan: the conductor would wait for itself, and people are asked, not told."""
MOST_TEXT = 24_000
"""Characters of the pages in a prompt; what is cut off is said."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as the pages show it; one that is not ``at_work`` shows no actions."""

    name: str
    description: str = ""
    instructions: str = ""
    skills: tuple[str, ...] = ()
    actions: Mapping[str, str] = {}
    schemas: Mapping[str, Mapping[str, Any]] = {}
    at_work: bool = False

    @property
    def thinks(self) -> bool:
        """Whether it works out by itself how to do what a text says, given a model: all but memory do."""
        return self.name != subjects.MEMORY_DAEMON

    def offers(self, action: str, parameter: str = "") -> bool:
        """Whether it has the action, and the action the parameter."""
        known = self.schemas.get(action, {}).get("properties", {})
        return action in self.actions and (not parameter or parameter in known)


def pages_of(present: Mapping[str, Presence], known: Iterable[str]) -> dict[str, Page]:
    """A page for each agent that is at work or ``known`` by its profile, by name."""
    pages = {name: Page(name=name) for name in known}
    return dict(sorted({**pages, **{name: _page(presence) for name, presence in present.items()}}.items()))


async def read_presence(bus: Bus, name: str) -> Presence | None:
    """The agent's process that showed itself last; None where none is at work."""
    stored = await bus.last(subjects.bucket_stream(subjects.AGENTS_BUCKET), subjects.presence(name, "*"))
    if stored is None or not stored.data:
        return None
    try:
        return Presence.from_json(stored.data)
    except ValueError:
        return None


def _page(presence: Presence) -> Page:
    return Page(
        name=presence.agent,
        description=presence.description,
        instructions=presence.instructions,
        skills=presence.skills,
        actions=presence.actions,
        schemas=presence.schemas,
        at_work=True,
    )


def describe_pages(pages: Mapping[str, Page]) -> str:
    """The pages as a model reads them: who can be given tasks, their actions and parameters."""
    text = "\n\n".join(_describe(page) for name, page in pages.items() if name not in UNPLANNED)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT].rpartition(chr(10))[0]}\n(cut off here)"


def _describe(page: Page) -> str:
    if not page.at_work:
        return f"{page.name}: not at work at present; what it is given in words waits for it."
    rows = [
        f"{page.name}: {page.description} {'' if page.thinks else 'It takes named actions only.'}".strip()
    ]
    if page.instructions:
        rows.append(f"  {page.instructions}")
    rows += [_describe_action(page, name) for name in sorted(page.actions)]
    return "\n".join(rows)


def _describe_action(page: Page, name: str) -> str:
    schema = page.schemas.get(name, {})
    required = schema.get("required", ())
    params = ", ".join(
        f"{param}{'' if param in required else '?'}: {_kind(values)}"
        for param, values in schema.get("properties", {}).items()
    )
    return f"  - {name}({params}): {page.actions[name][:200]}"


def _kind(values: Mapping[str, Any]) -> str:
    about = f" ({values['description'][:120]})" if values.get("description") else ""
    return f"{values.get('type', 'any')}{about}"
