"""Open questions of the linker, whether one takes the place of the other, answered by a small model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from services.memory.classifier import ModelLabels
from services.memory.linking.rules import UNDECIDED, sort_by_age, still_holds
from services.memory.linking.supersession import WEIGHT, end_validity
from services.memory.writes.change import embedded_text, name_edge
from shared.contracts import Edge, EdgeKey, MemoryWrite, Node, Relation
from shared.reasoning.model import ModelSession
from shared.text.display import excerpt

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

LOOKED_AT = 5_000  # The last edges of the linker among which open questions are searched

MAX_PAIRS = 20  # The pairs of one pass, in one call: the next pass has the rest

MAX_CHARACTERS = 500  # What the model gets of each statement

RULE = "model"  # The rule of an edge ``supersedes`` that the model decided

JUDGED = "judged"
"""What the provenance of a question has that the model could not decide: it is not asked again."""

REPLACED, BOTH, UNSURE = "replaced", "both", "unsure"

_ORDER = f"""Each text has two statements from a team's memory, the OLD one and a NEW one that came later.
Say what holds now:
{REPLACED}: the NEW one takes the place of the OLD one: the same thing has another value, owner, day or tool
{BOTH}: both hold, as when they are about two things, teams, environments or times, or one adds to the other
{UNSURE}: it cannot be told from the two alone
Answer with the label of each text, by its number."""


class Question(NamedTuple):
    """An edge that asks whether ``newer`` takes the place of ``older``."""

    edge: Edge
    newer: Node
    older: Node


class ModelJudge:
    """Asks the small model, within the budgets of memory."""

    def __init__(self, models: ModelSession) -> None:
        self._labels = ModelLabels(models, _ORDER, Literal["replaced", "both", "unsure"], MAX_PAIRS)

    async def judge(self, questions: Sequence[Question]) -> list[str]:
        """REPLACED, BOTH or UNSURE for each question; "" where the model gave no answer."""
        return await self._labels.find(
            [f"OLD: {_tell(question.older)} NEW: {_tell(question.newer)}" for question in questions]
        )


def _tell(node: Node) -> str:
    since = (node.valid_from or node.created_at)[:10]
    return f"({since}) {excerpt(embedded_text(node), MAX_CHARACTERS)}"


def find_questions(view: "View", moment: float) -> list[Question]:
    """The open questions that were not judged yet, the latest first, at most MAX_PAIRS.

    What an agent wrote is no question of the linker, whatever it calls itself: with the model's help it
    would end what others wrote.
    """
    found = []
    for edge in view.graph.latest_made(LOOKED_AT):
        provenance = edge.provenance
        if provenance.get("rule") != UNDECIDED or {JUDGED, "agent"} & provenance.keys():
            continue
        pair = [node for node in view.nodes([edge.from_id, edge.to_id]) if not node.retired_version]
        if len(pair) == 2 and all(still_holds(node, moment) for node in pair):
            older, newer = sort_by_age(*pair)
            found.append(Question(edge, newer, older))
        if len(found) == MAX_PAIRS:
            break
    return found


def settle(view: "View", questions: Sequence[Question], verdicts: Sequence[str]) -> MemoryWrite | None:
    """The write that makes the verdicts so; None for none.

    What was replaced ends when the newer began. The question goes, but if it stays undecided: people are
    then asked, and the model not again. A pair that was written meanwhile is left out.
    """
    ended: dict[str, Node] = {}
    edges: list[Edge] = []
    unlink: list[EdgeKey] = []
    for question, verdict in zip(questions, verdicts, strict=True):
        edge, newer, older = question
        if not verdict or older.id in ended or newer.id in ended or not _is_current(view, question):
            continue
        if verdict == UNSURE:
            provenance = {**edge.provenance, JUDGED: verdict}
            edges.append(msgspec.structs.replace(edge, provenance=provenance, version=0))
            continue
        unlink.append(name_edge(edge))
        if verdict == REPLACED:
            ended[older.id] = end_validity(older, newer)
            edges.append(_supersede(question))
    if not (edges or unlink):
        return None
    return MemoryWrite(
        sender="memory", nodes=tuple(ended.values()), edges=tuple(edges), unlink=tuple(unlink), insist=True
    )


def _is_current(view: "View", question: Question) -> bool:
    edge, newer, older = question
    nodes = view.nodes([newer.id, older.id])
    same = [node.version for node in nodes] == [newer.version, older.version]
    return same and view.graph.edge(edge.from_id, edge.to_id, edge.relation.value) is not None


def _supersede(question: Question) -> Edge:
    provenance = {**question.edge.provenance, "by": "supersession", "rule": RULE}
    return Edge(
        from_id=question.newer.id,
        to_id=question.older.id,
        relation=Relation.SUPERSEDES,
        weight=WEIGHT,
        provenance=provenance,
    )
