"""The kinds of a file's pieces by the model that is set, many pieces in one call."""

from collections.abc import Sequence
from typing import Literal

from services.memory.ingest.pieces import SEPARATOR, Piece
from services.memory.labelling import ModelLabels
from shared.reasoning.model import ModelSession
from shared.text.excerpt import excerpt

MAX_PIECES = 40
"""The pieces of one call: small models lose count of longer lists."""
MAX_CHARACTERS = 600
"""What a call has of one piece: what comes later says little about its kind."""

KINDS = Literal["decision", "task", "preference", "goal", "pattern", "observation", "event", "fact"]

_ORDER = """You sort texts of a team's notes into kinds. The kinds:
decision: what was settled, who is in charge of something from now on, what is given up
task: what a person has to do once
preference: what a person likes, wants or wants to have done differently
goal: what is to be reached, with or without a day
pattern: a rule of the house, advice, what is always or never done
observation: what was noticed about how things go, a tendency
event: what happened once
fact: what is so, also times of day, numbers, and who owns what
Answer with the kind of each text as its label, by its number."""


class ModelKinds:
    """Asks the small model for kinds, within the budgets of memory."""

    def __init__(self, models: ModelSession) -> None:
        self._labels = ModelLabels(models, _ORDER, KINDS, MAX_PIECES)

    @property
    def chosen(self) -> int:
        """The pieces whose kind the model chose since the start."""
        return self._labels.chosen

    async def find(self, pieces: Sequence[Piece]) -> list[str]:
        """The kind of each piece; "" where the model gave none."""
        return await self._labels.find(
            [excerpt(SEPARATOR.join([*piece.heading, piece.body]), MAX_CHARACTERS) for piece in pieces]
        )
