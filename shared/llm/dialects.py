"""What a server was found to take, and how answers of a shape are asked for there."""

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from shared.llm.config import ModelConfig
from shared.llm.protocol import Message, ToolCall

Shape = Literal["strict", "schema", "tool", "text"]
"""How JSON of a shape is asked for, the surest first: constrained to the schema, with the schema as a hint,
as the arguments of a tool that has to be called, and in words."""
ANSWER = "give_answer"
"""The tool whose arguments are a structured answer, which GIVE describes."""
GIVE = "Give the answer."
_ABOUT_SHAPE = re.compile(r"response_format|text\.format|schema|grammar|structured|json|strict")
_ABOUT_STRICT = re.compile(
    r"strict|additionalproperties|'required'|\"required\"|invalid schema|invalid_json_schema"
)
_ABOUT_FILES = re.compile(r"\bpdf\b|\bdocument\b|['\"` ]file['\"` ]|file_data|input_file")
_ABOUT_IMAGES = re.compile(r"image|vision|visual|multi-?modal|mmproj|content.{0,20}(string|text)")
_HINTS = (
    "type",
    "enum",
    "const",
    "title",
    "description",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "pattern",
)
"""What a strict schema may say of a value beside its parts."""


class Dialect(msgspec.Struct, kw_only=True):
    """What a model at a server takes, as far as it refused nothing yet."""

    tools: bool = True
    shape: Shape = "strict"
    stream_options: bool = True
    limit: str = "max_tokens"
    images: bool = True
    files: bool = True

    def hide(self, refusal: str) -> bool:
        """Show images no more, or PDFs, after ``refusal`` of them; False if it is about something else."""
        text = refusal.lower()
        if self.files and _ABOUT_FILES.search(text):
            self.files = False
        elif (self.images or self.files) and _ABOUT_IMAGES.search(text):
            self.images = self.files = False
        else:
            return False
        return True

    def lower(self, used: Shape, refusal: str) -> bool:
        """Ask in a less sure way after ``refusal`` of ``used``; False if it is about something else."""
        text = refusal.lower()
        if used in ("strict", "schema") and _ABOUT_SHAPE.search(text):
            self.shape = "schema" if used == "strict" and _ABOUT_STRICT.search(text) else "tool"
        elif used == "tool" and "tool" in text:
            self.shape = "text"
        else:
            return False
        return True


_dialects: dict[tuple[str, str, str], Dialect] = {}
"""The dialect of each model by format and address, for as long as the process lives."""


def dialect_of(config: ModelConfig, *, shape: Shape = "strict") -> Dialect:
    """What is known of the model's server; ``shape`` is the surest that its format has."""
    # OpenAI's reasoning models refuse the old name; other servers may not know the new one.
    limit = "max_completion_tokens" if config.at_home else "max_tokens"
    key = (config.kind, config.url, config.model)
    # Chat completions of other servers know no PDFs.
    files = config.images and (config.at_home or config.kind != "openai")
    return _dialects.setdefault(key, Dialect(shape=shape, limit=limit, images=config.images, files=files))


def forget_dialects(url: str) -> None:
    """Have the server at ``url`` begin as one that takes everything."""
    for key in [key for key in _dialects if key[1] == url]:
        del _dialects[key]


def show(dialect: Dialect, message: Message) -> Message:
    """``message`` with what the model can see of what is attached, and a word on the rest."""
    seen = tuple(each for each in message.attached if (dialect.images if each.is_image else dialect.files))
    hidden = [
        f"({each.name} cannot be shown to this model.)" for each in message.attached if each not in seen
    ]
    text = "\n\n".join(filter(None, [message.text, *hidden]))
    return msgspec.structs.replace(message, attached=seen, text=text) if message.attached else message


def choose_shape(dialect: Dialect, schema: dict[str, Any] | None, *, has_tools: bool) -> Shape:
    """How an answer of ``schema`` is asked for; a request with tools of its own forces none."""
    if schema is None or schema.get("type") != "object":
        return "text"
    shape = dialect.shape
    if shape == "strict" and make_strict(schema) is None:
        shape = "schema"
    return "text" if shape == "tool" and (has_tools or not dialect.tools) else shape


def take_answer(calls: Sequence[ToolCall]) -> str:
    """The structured answer among ``calls``; empty without one."""
    return next((call.arguments for call in calls if call.name == ANSWER), "")


def make_strict(schema: dict[str, Any]) -> dict[str, Any] | None:
    """``schema`` as a server can hold a model to it; None if it cannot be written so.

    Every field is required then, and one with a default may be null; objects of any fields have no such form.
    """
    try:
        strict = _strict(schema)
        if definitions := schema.get("$defs"):
            strict["$defs"] = {name: _strict(each) for name, each in definitions.items()}
    except ValueError:
        return None
    return strict


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return {"anyOf": [_strict(each) for each in options]}
    found = {name: schema[name] for name in _HINTS if name in schema}
    if "enum" in found and "type" not in found and all(isinstance(each, str) for each in found["enum"]):
        found["type"] = "string"
    if found.get("type") == "object":
        if "properties" not in schema or schema.get("additionalProperties"):
            raise ValueError("any fields")
        required = schema.get("required", ())
        properties = {
            name: _strict(each) if name in required else _nullable(_strict(each))
            for name, each in schema["properties"].items()
        }
        return found | {"properties": properties, "required": list(properties), "additionalProperties": False}
    if found.get("type") == "array":
        if not isinstance(schema.get("items"), dict):
            raise ValueError("any items")
        return found | {"items": _strict(schema["items"])}
    if "type" not in found and "enum" not in found and "const" not in found:
        raise ValueError("anything")
    return found


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    options = schema.get("anyOf", [schema])
    return {"anyOf": options if {"type": "null"} in options else [*options, {"type": "null"}]}
