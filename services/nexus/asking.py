"""Asking the model: for a route and for an answer, both held to what there is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from services.nexus.composing import (
    Chosen,
    Composed,
    check_answer,
    check_choice,
    frame_choice,
    frame_question,
    settle,
    to_decision,
)
from shared.contracts import ContextPacket, Reminder, Response, RoutingDecision
from shared.llm.protocol import Message

T = TypeVar("T")


class Thinker(Protocol):
    """An agent with a model."""

    async def consider(
        self, messages: Sequence[Message], kind: type[T], check: Callable[[T], str | None] | None = None
    ) -> T:
        """What its model answers, as a ``kind`` in which ``check`` finds nothing wrong; raises ModelError."""


async def choose_route(thinker: Thinker, text: str, routes: Mapping[str, str]) -> RoutingDecision:
    """The route the model chooses, one of ``routes`` (what each is for, by name); raises ModelError."""
    names = list(routes)
    chosen = await thinker.consider(
        [frame_choice(text, list(routes.items()))], Chosen, lambda chosen: check_choice(chosen, names)
    )
    return to_decision(chosen)


async def ask_brain(
    thinker: Thinker,
    text: str,
    packet: ContextPacket,
    reminders: Sequence[Reminder],
    said: Sequence[Message] = (),
) -> Response:
    """The model's answer from ``packet`` alone, without what it made up; raises ModelError.

    ``said`` is the thread so far, which tells what a question means.
    """
    composed = await thinker.consider([*said, frame_question(text, packet)], Composed, check_answer)
    return settle(composed, packet, reminders)
