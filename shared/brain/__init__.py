"""What agents think with: models behind one protocol."""

from shared.brain.asking import ask_for
from shared.brain.budget import Budget
from shared.brain.choice import make_brain, make_cerebellum
from shared.brain.protocol import Brain, Message, Thought, Tool, ToolCall, Usage

__all__ = [
    "Brain",
    "Budget",
    "Message",
    "Thought",
    "Tool",
    "ToolCall",
    "Usage",
    "ask_for",
    "make_brain",
    "make_cerebellum",
]
