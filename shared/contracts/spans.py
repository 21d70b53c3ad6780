"""What a process did within a task, piece by piece, as the steps of the task carry it."""

from enum import StrEnum
from typing import Annotated

from shared.contracts.base import Contract, Count, Timestamp, at_most, text_up_to

MAX_INPUT = 1_000  # Characters of a span's ``input``
MAX_OUTPUT = 2_000  # Characters of a span's ``output``


class SpanKind(StrEnum):
    """What a span is: a model's call, an action that a model called, a command in the jail, a memory query.

    MORE stands for several spans that were left out of a step.
    """

    MODEL = "model"
    ACTION = "action"
    COMMAND = "command"
    MEMORY = "memory"
    MORE = "more"


class Span(Contract, frozen=True, kw_only=True):
    """Something with a beginning and an end; ``number`` counts from 1 within an attempt.

    ``parent`` is the number of the span that it is part of (0: none). ``input`` and ``output`` are excerpts.
    ``ref`` says where the whole of a model's message or of an action's result is: the id of the agent loop
    and the number of the message in its checkpoints. ``cost`` is in US dollars, ``count`` how many spans a
    MORE stands for.
    """

    number: Count
    parent: Count = 0
    kind: SpanKind
    name: Annotated[str, text_up_to(200)]
    started_at: Timestamp
    seconds: float
    failed: bool = False
    input: Annotated[str, at_most(MAX_INPUT)] = ""
    output: Annotated[str, at_most(MAX_OUTPUT)] = ""
    ref: Annotated[str, at_most(200)] = ""
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost: float = 0.0
    count: Count = 1
