"""What a person approved of a server: its tools by name, description and schema, kept as they were shown."""

import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from shared.errors import ActionError
from shared.files import write_atomically
from shared.settings import Settings
from shared.text.display import escape_invisible

MAX_TOOLS = 200  # Tools of one server that are taken: more than a model chooses from
MAX_ACTION = 64  # Characters of an action's name, which providers of models allow
MAX_TOOL = 100_000  # Bytes of one tool's description and schema
MAX_DEPTH = 40  # How deep a schema may be nested

Kind = Literal["tool", "prompt", "resources"]


class Tool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as its server describes it; prompts and the resources of a server are given as tools too."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    annotations: dict[str, Any] = {}
    kind: Kind = "tool"

    @property
    def digest(self) -> str:
        """The SHA-256 of everything that a model or a person is told of it, in hexadecimal digits."""
        return hashlib.sha256(
            json.dumps(msgspec.to_builtins(self), sort_keys=True).encode("utf-8", "surrogatepass")
        ).hexdigest()

    @property
    def label(self) -> str:
        """Its part of an action's name."""
        if self.kind == "resources":
            return "read_resource"
        return re.sub(
            r"\W", "_", f"prompt_{self.name}" if self.kind == "prompt" else self.name, flags=re.ASCII
        )

    @property
    def properties(self) -> dict[str, Any]:
        """The schemas of its parameters by their names; empty if they are not described so."""
        found = self.schema.get("properties")
        return found if isinstance(found, dict) else {}

    @property
    def is_read_only(self) -> bool:
        """Whether it says that it changes nothing."""
        return self.kind != "tool" or self.annotations.get("readOnlyHint") is True

    @property
    def asks(self) -> bool:
        """Whether a call needs a person unless the settings say otherwise: what it does not deny, it does."""
        hints = self.annotations
        harmless = hints.get("destructiveHint") is False and hints.get("openWorldHint") is False
        return not (self.is_read_only or harmless)

    @property
    def title(self) -> str:
        """Its name, after its kind if it is no tool."""
        return f"{self.kind} {self.name}" if self.kind != "tool" else self.name

    @property
    def marks(self) -> tuple[str, ...]:
        """What it does in a word, whether it reaches what is open, and whether it says what is not seen."""
        text = f"{self.name}{self.description}{json.dumps(self.schema, ensure_ascii=False)}"
        is_open = self.kind == "tool" and self.annotations.get("openWorldHint") is not False
        more = {"open": is_open, "hidden": escape_invisible(text) != text}
        return ("reads" if self.is_read_only else "changes", *(mark for mark, has in more.items() if has))

    def show(self) -> str:
        """All of it, line by line, with what cannot be seen as code points."""
        said = [name for name, value in sorted(self.annotations.items()) if value is True]
        hints = f"  ({', '.join(said)})" if said else ""
        schema = json.dumps(self.schema, indent=1, sort_keys=True, ensure_ascii=False)
        return escape_invisible(
            "\n".join(filter(None, (self.title + hints, self.description.strip(), schema)))
        )


class Pin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tools of a server, and which program that was, as a person saw them."""

    server: str
    program: str = ""
    version: str = ""
    protocol: str = ""
    tools: tuple[Tool, ...] = ()
    pinned_at: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole set, by which a tool that is new or gone is seen too."""
        return hashlib.sha256("\n".join(sorted(tool.digest for tool in self.tools)).encode()).hexdigest()

    def actions(self) -> dict[str, Tool]:
        """Its tools by the names of the actions they become; of two with one name, the first."""
        named: dict[str, Tool] = {}
        for tool in self.tools:
            name = f"{self.server}__{tool.label}"
            if len(name) <= MAX_ACTION:
                named.setdefault(name, tool)
        return named

    def find(self, tool: Tool) -> Tool | None:
        """The tool of the same kind and name."""
        return next((each for each in self.tools if (each.kind, each.name) == (tool.kind, tool.name)), None)


def read_pin(settings: Settings, server: str) -> Pin | None:
    """What was approved of ``server``; None if nothing was, or if it cannot be read."""
    try:
        return msgspec.json.decode(_path(settings, server).read_bytes(), type=Pin)
    except (OSError, msgspec.MsgspecError):
        return None


def write_pin(settings: Settings, pin: Pin) -> None:
    """Keep what a person approved; raises ActionError if it cannot be written."""
    try:
        write_atomically(_path(settings, pin.server), msgspec.json.encode(pin), mode=0o600)
    except OSError as error:
        raise ActionError(f"The tools of {pin.server} cannot be kept: {error.strerror}") from None


def remove_pin(settings: Settings, server: str) -> None:
    """Forget what was approved of ``server``."""
    _path(settings, server).unlink(missing_ok=True)


def _path(settings: Settings, server: str) -> Path:
    return settings.state_dir / "mcp" / f"{server}.json"


def require_sound(tool: Tool) -> Tool:
    """``tool``; raises ActionError if it is larger or deeper than any that is meant to be read."""
    try:
        text = json.dumps([tool.description, tool.schema])
    except (ValueError, RecursionError):
        text = "[" * (MAX_DEPTH + 1)
    depth = most = 0
    for character in re.sub(r'"(?:[^"\\]|\\.)*"', "", text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(character, 0)
        most = max(most, depth)
    if len(text) > MAX_TOOL or most > MAX_DEPTH:
        raise ActionError(
            f"The tool {escape_invisible(tool.name[:60])} describes itself at a length or depth "
            "that nobody reads"
        )
    return tool


def compare(before: Pin | None, now: Pin) -> Iterator[tuple[str, str]]:
    """What of ``now`` was not approved ``before``, and what is gone: a word, and the lines that show it."""
    old = before.tools if before else ()
    gone = [tool for tool in old if now.find(tool) is None]
    for tool in now.tools:
        known = before.find(tool) if before else None
        twin = next((each for each in gone if _body(each) == _body(tool)), None)
        if known is None and twin:
            yield f"renamed from {escape_invisible(twin.name)}", tool.show()
        elif known is None:
            yield "new", tool.show()
        elif known.digest != tool.digest:
            lines = difflib.unified_diff(
                known.show().splitlines(), tool.show().splitlines(), lineterm="", n=2
            )
            yield f"changed: {escape_invisible(tool.name)}", "\n".join(list(lines)[2:])
    for tool in gone:
        yield "gone", escape_invisible(tool.name)


def _body(tool: Tool) -> Sequence[Any]:
    return tool.kind, tool.description, json.dumps(tool.schema, sort_keys=True)


def check_params(schema: Mapping[str, Any], params: Any) -> str:
    """What is wrong with ``params`` at the first glance; the server itself checks the rest."""
    if not isinstance(params, dict):
        return "its parameters must be an object"
    known = schema.get("properties")
    known = known if isinstance(known, dict) else {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in params:
            return f"its parameter {str(name)[:60]} is missing"
    if schema.get("additionalProperties") is False:
        for name in params:
            if name not in known:
                return f"it has no parameter {str(name)[:60]!r}"
    return ""
