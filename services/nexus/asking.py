"""Asking the model: for a route and for an answer, both held to what there is."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

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
from shared.reasoning.model import ModelSession

T = TypeVar("T")


async def choose_route(models: ModelSession, text: str, routes: Mapping[str, str]) -> RoutingDecision:
    """The route the model chooses, one of ``routes`` (what each is for, by name); raises ModelError."""
    names = list(routes)
    chosen = await models.ask_model_for(
        [frame_choice(text, list(routes.items()))], Chosen, lambda chosen: check_choice(chosen, names)
    )
    return to_decision(chosen)


async def ask_brain(
    models: ModelSession,
    text: str,
    packet: ContextPacket,
    reminders: Sequence[Reminder],
    said: Sequence[Message] = (),
) -> Response:
    """The model's answer from ``packet`` alone, without what it made up; raises ModelError.

    ``said`` is the thread so far, which tells what a question means.
    """
    composed = await models.ask_model_for([*said, frame_question(text, packet)], Composed, check_answer)
    return settle(composed, packet, reminders)
