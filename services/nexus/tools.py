"""Tools of the front desk: single actions of other agents, found by keyword and named in the profile."""

import re
from typing import Any

import msgspec

from services.nexus.mood import inflect
from services.nexus.phrases import DATES, SPAN, TIMES, VAGUE
from shared.errors import ConfigError

_COURTESY = re.compile(r"[,\s]*\b(?:please|thanks|like|going|to be|be)\s*$", re.IGNORECASE)
_VAGUE_DAYS = re.compile(
    r"\b(?:this|next|the|coming|for|over|at|in|on|like|now|right)\b|\bweek(?:end)?\b", re.IGNORECASE
)
_LINK = re.compile(r"^[\s:,-]*(?:(?:on|about|for|of|regarding|in|concerning)\b\s*)?", re.IGNORECASE)


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``action`` of the agent ``assignee``.

    Its parameter ``subject`` gets what a message is about, unless it is ``optional`` and nothing is named;
    ``message`` is the parameter that gets the whole message. The keywords of a ``personal`` tool count in
    questions about the people themselves too. ``description`` tells a model what it is for.
    """

    keywords: tuple[str, ...]
    assignee: str
    action: str
    description: str = ""
    subject: str = ""
    optional: bool = False
    message: str = ""
    personal: bool = False

    def __post_init__(self) -> None:
        if not self.keywords or not all(keyword.strip() for keyword in self.keywords):
            raise ValueError("keywords must have at least one entry and no empty one")


def read_tools(options: dict[str, Any]) -> dict[str, Tool]:
    """The tools in a profile's options; raises ConfigError naming the field that is wrong."""
    try:
        return msgspec.convert(options.get("tools", {}), dict[str, Tool])
    except msgspec.ValidationError as error:
        raise ConfigError(f"The option 'tools' of the nexus profile is wrong: {error}") from None


def find_place(text: str, tool: Tool) -> str:
    """The subject of a tool that needs none: what is named beside times, such as the town."""
    found = re.search(r"\b(?:in|for|at|of)\s+(?=(?-i:[A-ZÀ-Þ]))(?P<rest>.*)", text, re.IGNORECASE | re.DOTALL)
    rest = found["rest"] if found else find_subject(text, tool)
    for pattern in (SPAN, DATES, TIMES, VAGUE, _VAGUE_DAYS):
        rest = pattern.sub(" ", rest)
    return " ".join(_COURTESY.sub("", re.split(r"[?!.\n]", rest)[0]).strip(" \"'“”,;").split())


def find_subject(text: str, tool: Tool) -> str:
    """What ``text`` asks the tool about: what follows the keyword, without link words and courtesies."""
    for keyword in sorted(tool.keywords, key=len, reverse=True):
        found = re.search(inflect(keyword) + r"(?P<rest>.*)", text, re.IGNORECASE | re.DOTALL)
        if found:
            rest = re.split(r"[?!\n]|\.(?:\s|$)", _LINK.sub("", found["rest"]))[0]
            places = "|".join(re.escape(word) for word in tool.keywords if " " not in word) or "$"
            closing = rf"[,\s]*\b(?:please|thanks|(?:are|is) there|(?:on|in|from) (?:{places}))\s*$"
            return re.sub(closing, "", rest, flags=re.IGNORECASE).strip(" \"'“”,;")
    return ""


def fill_params(text: str, tool: Tool) -> dict[str, str] | None:
    """The parameters a message gives a tool; None where it does not say what it has to."""
    if tool.message:
        return {tool.message: text}
    if not tool.subject:
        return {}
    subject = find_place(text, tool) if tool.optional else find_subject(text, tool)
    if not subject and not tool.optional:
        return None
    return {tool.subject: subject} if subject else {}
