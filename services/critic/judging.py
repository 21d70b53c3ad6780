"""A judgement of results: what programs settle of it, what is left to a model, and what both come to."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from services.critic.claims import as_texts, format_counts
from services.critic.findings import clean
from services.critic.rerun import Rerunner
from services.critic.review import completed, extend, is_by_model, is_found, leave_open
from shared.contracts import Checked, TestRun, Verdict
from shared.source import as_list, as_mapping
from shared.tasks.evidence import CODER

MAX_CRITERIA = 10  # The most criteria of a task that are judged


class Objection(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be said of a task's result; ``source`` is the place that it rests on."""

    task: str
    text: str
    source: str = ""


class JudgedCriterion(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the result of ``task`` meets one of its criteria, by its number from 1, why, and where."""

    task: str
    number: int
    met: bool
    why: str = ""
    source: str = ""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a model thinks of results; ``redo`` names the tasks to be done again."""

    approved: bool
    criteria: tuple[JudgedCriterion, ...] = ()
    reasons: tuple[Objection, ...] = ()
    redo: tuple[str, ...] = ()


def criteria_of(results: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    """The stated criteria of success by task and number from 1: a line each."""
    found: dict[tuple[str, int], str] = {}
    for name, result in results.items():
        lines = str(as_mapping(result).get("success_criteria") or "").splitlines()
        stated = [line.strip(" -*") for line in lines if line.strip(" -*")][:MAX_CRITERIA]
        found |= {(name, number): line for number, line in enumerate(stated, start=1)}
    return found


# --- what programs settle ---------------------------------------------------------------------------

TESTS = frozenset(
    "test tests testcase testcases assertion assertions assert asserts spec specs suite".split()
)
WEAKENS = frozenset(
    "weaken weakened weakens weaker remove removed deleted delete skipped skip disabled disable loosened"
    " dropped commented out".split()
)
NEGATIONS = frozenset("no none not never without nor neither".split())
PASSES = frozenset("pass passes passed succeed succeeds green".split())
FILLERS = frozenset(
    "the a any all every each whole full existing other present old unit case cases project project's its of"
    " was is were are be been has have or and still now again made with exit code 0 in way does do".split()
)
"""The words of criteria that programs settle: one with any other word says more."""


def says_tests_are_kept(criterion: str) -> bool:
    """Whether it says that no test is weakened, and nothing else: reading the diff settles that."""
    words = _words(re.sub(r"\b(?:so that|to make|in order to|just to)\b.*", "", criterion))
    known = words <= TESTS | WEAKENS | NEGATIONS | FILLERS
    return known and all(map(words.intersection, (TESTS, WEAKENS, NEGATIONS)))


def says_tests_pass(criterion: str) -> bool:
    """Whether it says that the tests pass, and nothing else: a run of all tests settles that."""
    words = _words(criterion)
    return words <= TESTS | PASSES | FILLERS and all(map(words.intersection, (TESTS, PASSES)))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[\w'’]+", text.lower()))


def settle_criteria(results: Mapping[str, Any], rerun: Rerunner) -> list[JudgedCriterion]:
    """The criteria that the diff and the runs of tests settle, so that no model is asked about them."""
    found = []
    for (task, number), text in criteria_of(results).items():
        settled: tuple[bool, str, str] | None = None
        if says_tests_are_kept(text) and task in rerun.weakened:
            weakened = rerun.weakened[task]
            if not weakened:
                settled = True, "the patch removes and skips no test and no assertion", "the patch"
            elif weakened[0].certain:
                settled = False, weakened[0].how, weakened[0].place
        elif says_tests_pass(text) and (tests := _tests_of(task, results, rerun)):
            settled = not tests.broken, format_counts(tests), tests.command
        if settled:
            met, why, source = settled
            found.append(JudgedCriterion(task=task, number=number, met=met, why=why, source=source))
    return found


def _tests_of(task: str, results: Mapping[str, Any], rerun: Rerunner) -> TestRun | None:
    """The run of all tests that a review relies on: its own, else that on record; None if it says little."""
    tests = rerun.tests.get(task) or rerun.tests_of(rerun.trees.get(task, Path()))
    if tests is None and task not in rerun.weakened:
        try:
            tests = msgspec.convert(
                as_mapping(as_mapping(results[task]).get("metadata")).get("tests"), TestRun
            )
        except (msgspec.ValidationError, ValueError):
            return None
    told = tests is not None and tests.passed > 0 and not tests.incomplete and not tests.problem
    return tests if told and (tests.exit_code == 0 or tests.broken) else None  # type: ignore[union-attr]


def select_judged(
    results: Mapping[str, Any], verdict: Verdict, settled: Iterable[JudgedCriterion]
) -> dict[str, Mapping[str, Any]]:
    """The results that a model is to judge.

    Those with criteria that are open, and what a model made that can be held against something: a patch,
    files, sources, commands. Not what is sent back already, what a program counted, and words alone; nor
    what the requester says is not to be judged (``judged``).
    """
    known = {(each.task, each.number) for each in settled}
    waiting = {task for task, number in criteria_of(results) if (task, number) not in known}
    found = {}
    for name, result in completed(results).items():
        metadata = as_mapping(result.get("metadata"))
        made = ("evidence_refs", "output_paths")
        holds = any(result.get(key) for key in made) or metadata.get("patches") or "commands" in metadata
        due = name in waiting or (is_by_model(result) and (holds or result.get("agent") == CODER))
        if name not in verdict.redo and result.get("judged", due):
            found[name] = result
    return found


# --- the verdict ------------------------------------------------------------------------------------

MAX_REASONS = 20
RANGE = re.compile(r"(?P<path>.+?):(?P<line>\d+)(?:[-–:,]\s*\d+)*")


class Places:
    """The places that a judgement may rest on: in projects and patches, commands and sources on record."""

    def __init__(self, results: Mapping[str, Any], rerun: Rerunner) -> None:
        self._trees = list({tree.name: tree for name in results if (tree := rerun.trees.get(name))}.values())
        self._refs = {
            ref for each in results.values() for ref in as_texts(as_mapping(each).get("evidence_refs"))
        }
        self._commands = {_plain(str(run.get("command"))) for run in rerun.record.runs}
        for result in results.values():
            metadata = as_mapping(as_mapping(result).get("metadata"))
            for run in (
                *as_list(metadata.get("commands")),
                metadata.get("tests"),
                metadata.get("tests_before"),
            ):
                self._commands.add(_plain(str(as_mapping(run).get("command") or "")))
        self._lines: dict[str, set[int]] = {}
        for name in results:
            for change in rerun.changes.get(name, ()):
                for path in filter(None, (change.path, change.before)):
                    lines = self._lines.setdefault(path, set())
                    lines |= change.places | {number for number, _ in change.removed}

    def hold(self, source: str) -> bool:
        """Whether ``source`` is there: a file, perhaps with lines, a command that was run, or a source."""
        said = source.strip(" `[]()'\"")
        if said in self._refs or (self._lines and re.fullmatch(r"(?:the )?(?:patch|diff)", said)):
            return True
        if (plain := _plain(said.removeprefix("$"))) and any(plain in each for each in self._commands):
            return len(plain) > 3
        found = RANGE.fullmatch(said)
        path, line = (found["path"], int(found["line"])) if found else (said, 0)
        for name in (path, path.partition("/")[2]):  # perhaps with the name of its project before it
            if name in self._lines and (not line or line in self._lines[name]):
                return True
            if name and any(is_found(f"{name}:{line or 1}", tree) for tree in self._trees):
                return True
        return False


def _plain(command: str) -> str:
    return " ".join(command.split())


def find_fault(
    judged: Judgement,
    results: Mapping[str, Any],
    settled: Iterable[JudgedCriterion] = (),
    places: Places | None = None,
) -> str | None:
    """Why a judgement cannot be used; None if it can. Its places are looked up if ``places`` are given."""
    known = {(each.task, each.number) for each in (*settled, *judged.criteria)}
    if missing := [each for each in criteria_of(results) if each not in known]:
        return f"criteria must say whether criterion {missing[0][1]} of {missing[0][0]} is met"
    names = {*judged.redo, *(reason.task for reason in judged.reasons)}
    if unknown := sorted(names - set(results)):
        return f"there is no task {unknown[0][:60]!r}; the tasks are {', '.join(results)}"
    unmet = [each.task for each in judged.criteria if not each.met]
    if not judged.approved and not (judged.redo or unmet):
        return "redo must name the tasks to be done again where the results are not approved"
    if not judged.approved and not (judged.reasons or unmet):
        return "reasons must say why the results are not approved"
    for each in judged.criteria if places else ():
        if each.met and places and not places.hold(each.source):
            said = f"the source of criterion {each.number} of {each.task} is {each.source[:100]!r}"
            return f"{said}: name the file:line, or the command on record, that shows it"
    return None


def combine(
    verdict: Verdict, judged: Judgement, results: Mapping[str, Any], places: Places | None = None
) -> Verdict:
    """Both judgements in one: the stricter verdict, and only the places that exist.

    ``places`` are looked up where a model judged; a criterion that is met nowhere is not judged.
    """
    reasons, objections, dropped = list[str](), list[str](), 0
    for reason in judged.reasons[:MAX_REASONS]:
        holds = places is None or not reason.source or places.hold(reason.source)
        dropped += not holds
        place = f" [{clean(reason.source, 200)}]" if reason.source and holds else ""
        reasons.append(clean(f"{reason.task}: {reason.text}", 600) + place)
    if not judged.approved:
        objections += reasons
    if dropped:
        reasons.append(f"{dropped} place{'s' * (dropped != 1)} the model cited could not be found")
    stated = criteria_of(results)
    lines: dict[str, list[str]] = {"met": [], "not met": [], "not judged": []}
    for each in judged.criteria:
        if text := stated.pop((each.task, each.number), ""):
            holds = places is None or places.hold(each.source)
            word = "not met" if not each.met else "met" if holds else "not judged"
            why = f" ({each.why})" if each.why.strip() else ""
            place = f" [{clean(each.source, 200)}]" if each.source and holds else ""
            lines[word].append(
                clean(f"{each.task}: criterion {each.number} {word}: {text}{why}", 600) + place
            )
    met, unmet, unplaced = lines.values()
    again = [*(() if judged.approved else judged.redo), *(line.partition(":")[0] for line in unmet)]
    decision = verdict.decision if judged.approved and not unmet else "sent_back"
    whole = extend(
        verdict,
        decision,
        [*reasons, *met, *unmet],
        again,
        Checked(content=places is not None, criteria=len(met) + len(unmet), met=len(met)),
        objections=[*objections, *unmet],
    )
    return leave_open(whole, *(f"{line} (no place shows it)" for line in unplaced)) if unplaced else whole
