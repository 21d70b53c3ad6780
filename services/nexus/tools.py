"""Tools of the front desk: single actions of other agents, found by keyword and named in the profile."""

import re
from typing import Any

import msgspec

from services.nexus.mood import inflect
from shared.errors import ConfigError

_LINK = re.compile(r"^[\s:,-]*(?:(?:on|about|for|of|regarding|in|concerning)\b\s*)?", re.IGNORECASE)


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``action`` of the agent ``assignee``; its parameter ``subject`` gets what a message is about."""

    keywords: tuple[str, ...]
    assignee: str
    action: str
    subject: str = ""

    def __post_init__(self) -> None:
        if not self.keywords or not all(keyword.strip() for keyword in self.keywords):
            raise ValueError("keywords must have at least one entry and no empty one")


def read_tools(options: dict[str, Any]) -> dict[str, Tool]:
    """The tools in a profile's options; raises ConfigError naming the field that is wrong."""
    try:
        return msgspec.convert(options.get("tools", {}), dict[str, Tool])
    except msgspec.ValidationError as error:
        raise ConfigError(f"The option 'tools' of the nexus profile is wrong: {error}") from None


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
