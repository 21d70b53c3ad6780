"""Language models behind one protocol."""

from shared.llm.factory import make_model, make_small_model
from shared.llm.protocol import LanguageModel, Message, Thought, Tool, ToolCall, Usage
from shared.llm.structured_output import ask_for

__all__ = [
    "LanguageModel",
    "Message",
    "Thought",
    "Tool",
    "ToolCall",
    "Usage",
    "ask_for",
    "make_model",
    "make_small_model",
]
