"""What memory made of a story: which of its claims hold, which are ended, by what they were replaced."""

from collections.abc import Mapping, Sequence

from shared.contracts import Edge, Node, Relation, Response
from shared.text.display import flatten
from tests.bench.answers.story import Change, Story

STATED = frozenset({"claim", "lookalike", "fact", "ruling"})
"""The labels of what holds until something replaces it."""
JUDGED = STATED | {"owner", "preferences"}
"""The labels of what must not be replaced by anything but a later state of it."""


def _pairs(edges: Sequence[Edge], relation: Relation) -> set[tuple[str, str]]:
    return {(edge.from_id, edge.to_id) for edge in edges if edge.relation is relation}


class Held:
    """What memory holds of a story after the linker: its nodes by id, and what replaces what."""

    def __init__(self, story: Story, nodes: Mapping[str, Node], edges: Sequence[Edge]) -> None:
        self.story = story
        self.nodes = nodes
        self.merged = {str(gone) for node in nodes.values() for gone in node.metadata.get("merged_from", ())}
        self.replaced = _pairs(edges, Relation.SUPERSEDES)
        self.asked = _pairs(edges, Relation.CONTRADICTS)
        self.keys = {planted.node.id: planted.key for planted in story.planted}
        self.labels = {planted.node.id: planted.label for planted in story.planted}
        self.dates = {planted.node.id: planted.node.created_at for planted in story.planted}
        self.titles = {planted.node.id: planted.node.title for planted in story.planted}

    def live(self, node_id: str) -> bool:
        """Whether a planted node is there, as itself, and holds."""
        node = self.nodes.get(node_id)
        return node is not None and not node.retired_version and not node.valid_to

    def recognised(self, change: Change) -> bool:
        """Whether each state is ended by a later one of the claim, and the last state holds."""
        *before, last = change.ids
        later = {old: change.ids[place + 1 :] for place, old in enumerate(before)}
        return self.live(last) and all(
            any((new, old) in self.replaced for new in later[old]) or self._ended(old) for old in before
        )

    def _ended(self, node_id: str) -> bool:
        node = self.nodes.get(node_id)
        return node is not None and bool(node.valid_to) and not node.retired_version

    def judged_pairs(self) -> list[tuple[str, str]]:
        """What was replaced among memories that say how things are: the later one and the earlier one."""
        return [pair for pair in self.replaced if self.labels.get(pair[1]) in JUDGED]

    def wrong_pairs(self) -> list[tuple[str, str]]:
        """Of these, those whose later one is no later state of the same claim."""
        return [pair for pair in self.judged_pairs() if not self._replaces(*pair)]

    def wrong_questions(self) -> list[tuple[str, str]]:
        """What is asked of, though the later one is no later state of the same claim."""
        return [pair for pair in self.asked if not self._replaces(*pair)]

    def _replaces(self, new: str, old: str) -> bool:
        key = self.keys.get(old, "")
        return bool(key) and self.keys.get(new) == key and self.dates[new] > self.dates[old]

    def wrong_ends(self) -> list[str]:
        """What holds by the story, and memory has ended or merged away."""
        outdated = {old for change in self.story.changes for old in change.ids[:-1]}
        holds = [key for key, label in self.labels.items() if label in STATED and key not in outdated]
        return [key for key in holds if key in self.nodes and not self.live(key)]

    def merged_changes(self) -> list[Change]:
        """Claims of which a state was merged into another node."""
        return [change for change in self.story.changes if any(state in self.merged for state in change.ids)]

    def both_hold(self, one: str, other: str) -> bool:
        """Whether two nodes hold, each as itself."""
        return self.live(one) and self.live(other)

    def describe(self, change: Change) -> str:
        """The states of a claim, for people."""
        return " -> ".join(self.titles[state] for state in change.ids)

    def title(self, node_id: str) -> str:
        """The title of a node of memory."""
        return self.nodes[node_id].title

    def quoted(self, answer: Response) -> str:
        """The title of what an answer cites first; the beginning of its text if it cites nothing."""
        node = self.nodes.get(answer.citations[0]) if answer.citations else None
        return node.title if node else flatten(answer.text, 80)
