"""The figures: what of the planted story memory recognised, answered and put into briefings."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from services.memory.briefing.page import EARLIER_NOTE, escape
from shared.contracts import Briefing, Hit, Response
from shared.text.display import ELLIPSIS, flatten
from tests.bench.answers.held import Held
from tests.bench.answers.story import Change, Story

NOTHING = re.compile(r"\bmemory (?:holds|has|says|knows) nothing\b|\bnothing in memory\b", re.IGNORECASE)
"""How an answer says plainly that there is none."""
UNRESOLVED = "Unresolved"
"""The section of briefings that asks about what is not decided: both sides may be there."""
NOISE = frozenset({"noise", "tasks"})
RECALLED = 5
BEGINNING = 60  # Characters by which the line of a node is known
TITLE = 12
"""The fewest characters of a title by which a quotation is known."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its target: at least ``least`` or at most ``most``; neither: it is only reported.

    ``misses`` are the cases that it counts as missed or wrong.
    """

    name: str
    value: float
    of: int = 0
    least: float | None = None
    most: float | None = None
    note: str = ""
    misses: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        if self.least is not None:
            return f">= {self.least:g}"
        return "" if self.most is None else f"<= {self.most:g}"

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.least is not None:
            return self.value >= self.least
        return None if self.most is None else self.value <= self.most


WAYS = (
    ("same", "same form", 85.0),
    ("paraphrase", "paraphrased", 60.0),
    ("number", "by number or date", None),
    ("ended", 'by "no longer"', None),
)
"""The ways of a change, their names, and the percentage of each that is to be recognised."""


def supersession_figures(held: Held, refused: Collection[str]) -> list[Figure]:
    """What was recognised by the way it was put, and what was replaced, merged or refused wrongly."""
    changes = held.story.changes
    figures = [
        _recognised(
            held, f"supersessions recognised, {name} (%)", [c for c in changes if c.way == way], least
        )
        for way, name, least in WAYS
    ]
    unmarked = [change for change in changes if change.way == "paraphrase" and not change.marked]
    wrong = held.wrong_pairs()
    ends = [end for end in held.wrong_ends() if all(old != end for _, old in wrong)]
    total = len(held.judged_pairs()) + len(ends)
    share = 100 * (len(wrong) + len(ends)) / total if total else 0.0
    pairs = held.story.lookalikes
    joined = [
        f"{held.titles[one]} | {held.titles[two]}" for one, two in pairs if not held.both_hold(one, two)
    ]
    merged = held.merged_changes()
    return [
        *figures,
        _recognised(held, "of the paraphrased, without a mark of change (%)", unmarked, None),
        Figure(
            name="wrong supersessions (%)",
            value=round(share, 1),
            of=total,
            most=5,
            misses=(
                *(f"{held.nodes[old].title} <- {held.nodes[new].title}" for new, old in wrong),
                *(f"ended: {held.titles[end]}" for end in ends),
            ),
        ),
        Figure(
            name="questions whether one replaces another, needless",
            value=len(held.wrong_questions()),
            of=len(held.asked),
            misses=tuple(f"{held.title(old)} <- {held.title(new)}" for new, old in held.wrong_questions()),
        ),
        Figure(
            name="look-alikes that stay apart",
            value=len(pairs) - len(joined),
            of=len(pairs),
            least=0.95 * len(pairs),
            misses=tuple(joined),
        ),
        Figure(
            name="claims with merged states",
            value=len(merged),
            of=len(changes),
            most=0,
            misses=tuple(map(held.describe, merged)),
        ),
        Figure(
            name="memories that the write gate refused",
            value=len(refused),
            of=len(held.story.planted),
            most=0,
            misses=tuple(held.titles[node_id] for node_id in refused),
        ),
    ]


def _recognised(held: Held, name: str, changes: Sequence[Change], least: float | None) -> Figure:
    missed = [held.describe(change) for change in changes if not held.recognised(change)]
    value = round(100 * (1 - len(missed) / len(changes)), 1) if changes else 0.0
    return Figure(name=name, value=value, of=len(changes), least=least, misses=tuple(missed))


def choose_questions(story: Story, count: int = 40) -> list[Change]:
    """The changes that are asked about, of each way in turn; "no longer" leaves nothing to ask for."""
    ways = [[c for c in story.changes if c.way == way] for way in ("same", "paraphrase", "number")]
    longest = max(map(len, ways))
    turns = [way[place] for place in range(longest) for way in ways if place < len(way)]
    return turns[:count]


def answer_figures(
    held: Held, asked: Sequence[Change], answers: Sequence[Response], hits: Sequence[Sequence[Hit]]
) -> list[Figure]:
    """Whether the first quotation and the first hits are of what holds now."""
    pairs = list(zip(asked, answers, strict=True))
    first = [_quotes_current(held, change, answer) for change, answer in pairs]
    by_way = Counter(change.way for change in asked)
    good = Counter(change.way for change, is_good in zip(asked, first, strict=True) if is_good)
    missed = [pair for pair, is_good in zip(pairs, first, strict=True) if not is_good]
    outdated = sum(bool(set(answer.citations[:1]) & set(change.ids[:-1])) for change, answer in pairs)
    behind = sum(_outdated_first(change, some) for change, some in zip(asked, hits, strict=True))
    there = sum(_shows_outdated(change, some) for change, some in zip(asked, hits, strict=True))
    elsewhere = [f"{c.question} -> {a.route_used}" for c, a in pairs if a.route_used not in ("", "nexus")]
    count = len(asked)
    return [
        Figure(
            name="first quotation of ask is current",
            value=sum(first),
            of=count,
            least=37,
            note=", ".join(f"{good[way]} of {number} {way}" for way, number in by_way.items()),
            misses=tuple(f"{c.question} -> {held.quoted(a)} | {held.titles[c.ids[-1]]}" for c, a in missed),
        ),
        Figure(name="first quotation of ask is outdated", value=outdated, of=count),
        Figure(name="outdated before current in search", value=behind, of=count, most=3),
        Figure(name="outdated among the first 10 of search", value=there, of=count),
        Figure(
            name="questions that were passed on",
            value=len(elsewhere),
            of=count,
            most=0,
            misses=tuple(elsewhere),
        ),
    ]


def _quotes_current(held: Held, change: Change, answer: Response) -> bool:
    last = change.ids[-1]
    return (
        answer.citations[:1] == (last,)
        and held.live(last)
        and change.value.casefold() in answer.text.casefold()
    )


def _outdated_first(change: Change, hits: Sequence[Hit]) -> bool:
    found = [hit.node.id for hit in hits if hit.node.id in change.ids]
    return bool(found) and found[0] != change.ids[-1]


def _shows_outdated(change: Change, hits: Sequence[Hit]) -> bool:
    return any(hit.node.id in change.ids[:-1] for hit in hits)


def decline_figures(held: Held, answers: Sequence[Response]) -> list[Figure]:
    """Of questions that nothing answers, those that are answered so, without a quotation or a hint."""
    titles = [node.title for node in held.nodes.values() if len(node.title) >= TITLE]

    def declined(answer: Response) -> bool:
        quoted = any(title in answer.text for title in titles)
        return bool(NOTHING.search(answer.text)) and not answer.citations and not quoted

    asked = zip(held.story.unanswerable, answers, strict=True)
    missed = [f"{question} -> {held.quoted(a)}" for question, a in asked if not declined(a)]
    uncited = sum(not answer.citations for answer in answers)
    return [
        Figure(
            name="unanswerable questions declined",
            value=len(answers) - len(missed),
            of=len(answers),
            least=9,
            misses=tuple(missed),
        ),
        Figure(name="of them without a citation", value=uncited, of=len(answers)),
    ]


def fact_figures(held: Held, hits: Sequence[Sequence[Hit]], answers: Sequence[Response]) -> list[Figure]:
    """Recall of plain facts that were there before the goals."""
    facts = held.story.facts
    found = [[hit.node.id for hit in some[:RECALLED]] for some in hits]
    missed = [question for (fact, question), ids in zip(facts, found, strict=True) if fact not in ids]
    top = sum(ids[:1] == [fact] for (fact, _), ids in zip(facts, found, strict=True))
    unquoted = [
        f"{question} -> {held.quoted(answer)}"
        for (fact, question), answer in zip(facts, answers, strict=True)
        if answer.citations[:1] != (fact,)
    ]
    return [
        Figure(
            name="plain facts among the first 5 hits",
            value=len(facts) - len(missed),
            of=len(facts),
            least=19,
            misses=tuple(missed),
        ),
        Figure(name="plain facts as the first hit", value=top, of=len(facts)),
        Figure(
            name="plain facts in the first quotation of ask",
            value=len(facts) - len(unquoted),
            of=len(facts),
            least=18,
            misses=tuple(unquoted),
        ),
    ]


def briefing_figures(held: Held, briefings: Mapping[str, Briefing], same: Sequence[bool]) -> list[Figure]:
    """What the agents' briefings tell: decisions that hold, outdated ones, and noise."""
    shown = {
        agent: [node.id for section in briefing.sections for node in section.nodes]
        for agent, briefing in briefings.items()
    }
    rulings = [(agent, ruling) for agent, ids in held.story.rulings.items() for ruling in ids]
    missed = [each for each in rulings if not held.live(each[1]) or each[1] not in shown[each[0]]]
    outdated = {old for change in held.story.changes for old in change.ids[:-1]}
    stale = {agent: find_told(briefing) & outdated for agent, briefing in briefings.items()}
    worst = max(map(len, stale.values()))
    told = [(agent, one) for agent, ids in shown.items() for one in ids]
    noise = [one for agent, one in told if _is_noise(held.labels.get(one, ""), agent)]
    own = [(label.split()[1], key) for key, label in held.labels.items() if label.startswith("private ")]
    unseen = [f"{agent}: {held.titles[key]}" for agent, key in own if key not in shown[agent]]
    return [
        Figure(
            name="current decisions in briefings",
            value=len(rulings) - len(missed),
            of=len(rulings),
            least=19,
            misses=tuple(f"{agent}: {held.titles[ruling]}" for agent, ruling in missed),
        ),
        Figure(
            name="outdated claims told as they are, on a page",
            value=worst,
            of=len(told),
            most=1,
            note=", ".join(f"{agent} {len(olds)}" for agent, olds in stale.items()),
            misses=tuple(f"{agent}: {held.titles[old]}" for agent, olds in stale.items() for old in olds),
        ),
        Figure(
            name="noise in briefings (%)",
            value=round(100 * len(noise) / max(1, len(told)), 1),
            of=len(told),
            most=25,
            misses=tuple(held.titles[one] for one in noise),
        ),
        Figure(name="briefings the same at a version", value=sum(same), of=len(same), least=len(same)),
        Figure(
            name="agents' own notes in their briefings",
            value=len(own) - len(unseen),
            of=len(own),
            least=len(own),
            misses=tuple(unseen),
        ),
    ]


def find_told(briefing: Briefing) -> set[str]:
    """The nodes that a briefing tells as they are: neither as a question nor as earlier ones."""
    earlier = [line for line in briefing.text.splitlines() if f"{EARLIER_NOTE})" in line]
    return {
        node.id
        for section in briefing.sections
        if section.title != UNRESOLVED
        for node in section.nodes
        if not any(escape(flatten(node.title, BEGINNING)).rstrip(ELLIPSIS) in line for line in earlier)
    }


def _is_noise(label: str, agent: str) -> bool:
    return label in NOISE or (label.startswith("private ") and label != f"private {agent}")
