"""Plans goals without a model, by the context or the nearest playbook; knows which agents there are."""

import asyncio
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import tenacity

from services.conductor.coverage import find_left_over, find_parts
from services.conductor.periods import name_day
from services.conductor.playbook import (
    MissingParameter,
    Playbook,
    apply_playbook,
    find_folders,
    find_places,
    load_counterexamples,
)
from services.conductor.state_machine import GIVEN
from shared import subjects
from shared.bus import Bus
from shared.bus.consumer import yield_slot
from shared.bus.records import read_presences
from shared.contracts import Goal, GoalTask
from shared.contracts.base import require_name
from shared.errors import ActionError, BusError, BusUnavailable
from shared.language.sayings import read_sayings
from shared.language.utterance import Act, find_act
from shared.log import logger
from shared.memory import Memory
from shared.messaging.delegation import Directory
from shared.plans import AgentPage, Call, pages_of, plan_of, step_name
from shared.settings import Settings
from shared.tasks.profiles import PREFIX, read_names
from shared.text.prose import PATH_IN_TEXT, URL_IN_TEXT, find_terms, split_sentences

NEAR_ENOUGH = 0.72
"""Cosine similarity from which a playbook's example counts as the same request, provided that no
counterexample is nearer. Measured with bge-small-en-v1.5 in tests/flow/test_planning.py: rephrasings
lie above .73, requests for something else below .70 or nearer to a counterexample."""
DESK, NOBODY = "desk", "nobody"
"""Who does what the counterexamples ask for: the front desk (nexus), or no agent."""
PLAN = "plan"  # The key of a goal's context that holds its plan, if who submits it has made one
NAMED = "named action"  # The ``playbook`` of a goal whose context names the assignee and the action
MEMORY_TIMEOUT = 300.0
"""Seconds for which a goal waits for an unavailable memory daemon, which takes minutes to start on a busy
machine."""
MEMORY_TIMEOUT_WITH_MODEL = 30.0  # The same if a model may plan the goal instead
MEMORY_RETRY = 0.5  # Seconds between two tries meanwhile
NO_TASKS = frozenset({subjects.CONDUCTOR, *subjects.PEOPLE, subjects.ADMIN, subjects.ERASER})
"""Who gets no task from a plan: the conductor would wait for itself, and people get no tasks."""


log = logger(__name__)

_TIMED = frozenset({"schedule", "route"})
"""What the context of a goal has that the schedule or the front desk submitted: these know times, and the
words of the goal may still name one."""


class NoPlaybook(ActionError):
    """No playbook is near enough to the text, or memory cannot compare them; a model may still plan the goal.

    The message says what can be done without a model.
    """


class Planner:
    """Chooses playbooks by example, with the classifier ``playbooks`` of memory."""

    def __init__(self, playbooks: Mapping[str, Playbook], memory: Memory, *, has_model: bool = False) -> None:
        self._playbooks = playbooks
        self._memory = memory
        self._has_model = has_model
        self._against = load_counterexamples()
        self._desk_words = frozenset(find_terms(" ".join(self._against.desk)))

    async def plan(self, goal: Goal, *, alone: bool = False) -> Goal:
        """``goal`` with its tasks; raises ActionError if it cannot be planned.

        That is NoPlaybook if a model might still plan it, as with anything that a playbook leaves over.
        Without a model, or ``alone``, the goal names what is left out, unless that limits what is done.
        """
        named = goal.context
        if PLAN in named:
            return msgspec.structs.replace(goal, playbook=GIVEN, tasks=_given_tasks(goal))
        if named.get("action") or named.get("assignee"):
            return msgspec.structs.replace(goal, playbook=NAMED, tasks=(_named_task(goal),))
        if (name := named.get("playbook")) is not None:
            if str(name) not in self._playbooks:
                there = f"There are {', '.join(self._playbooks)}"
                raise ActionError(f"There is no playbook {str(name)[:60]!r}", there)
            return apply_playbook(self._playbooks[str(name)], goal)
        was_timed = goal.requester == subjects.CORTEX or not _TIMED.isdisjoint(goal.context)
        text = request_of(goal)
        playbook = await self._nearest(text, name_folder(goal, text, "{} in {}"), begins_now=not was_timed)
        # That of which a playbook does a part is the model's, if there is one.
        may_ask = self._has_model and not alone
        times = [found.span() for found in WAYS["later"].finditer(text)] if was_timed else []
        taken = [*find_places(playbook, text), *times]
        left = find_left_over(text, taken, playbook.vocabulary, self._against.changes.split())
        quoted = ", ".join(f"'{phrase}'" for phrase in left.phrases)
        if left.phrases and (may_ask or left.limits):
            raise NoPlaybook(
                f"Without a model only a part of this could be done ({playbook.description.rstrip('.')}), "
                f"and {quoted} would be left out: nothing was begun",
                f"Ask for that part alone, have it done with --context playbook={playbook.name}, or set "
                "MAILROOM_BRAIN for requests in your own words",
            )
        try:
            planned = apply_playbook(playbook, msgspec.structs.replace(goal, text=text))
        except MissingParameter as error:
            if may_ask:
                raise NoPlaybook(str(error)) from None
            raise
        # What is only told asks for nothing.
        asked = tuple(phrase for phrase in left.phrases if find_act(phrase) is not Act.STATEMENT)
        return msgspec.structs.replace(planned, text=goal.text, left_out=asked)

    async def _nearest(self, said: str, text: str, *, begins_now: bool = True) -> Playbook:
        """The playbook for ``text``, which is what was ``said`` with its folder; raises NoPlaybook."""
        asked_so = shlex.quote(" ".join(said[:2_000].split()))
        if self._against.ask_for_change(text[:2_000]):
            raise NoPlaybook(self._format_offers())
        if reason := find_reservation(text[:2_000]):
            raise NoPlaybook(f"{reason}: nothing was begun", "Say only what is to be done now")
        if begins_now and names_later_time(text[:2_000]):
            raise NoPlaybook(
                "The request names a time, and a submission begins at once: nothing was begun",
                f"The front desk queues it: mailroom ask {asked_so}",
            )
        asked = variants(text[:2_000], self._playbooks)
        scores = await self._classify([sentence for sentence, _ in asked])
        score, nearest = max(
            (score, name)
            for found, (_, only) in zip(scores, asked, strict=True)
            for name, score in found.items()
            if name in (DESK, NOBODY) or (name in self._playbooks and only in (None, self._playbooks[name]))
        )
        if nearest == DESK and score >= NEAR_ENOUGH and not self._desk_words.isdisjoint(find_terms(text)):
            raise NoPlaybook(
                "Reminders and the weather are the front desk's", f"Ask it with: mailroom ask {asked_so}"
            )
        if nearest not in self._playbooks or score < NEAR_ENOUGH:
            raise NoPlaybook(self._format_offers())
        return self._playbooks[nearest]

    async def _classify(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """How like each text is to the nearest example of each playbook and to the nearest counterexample of
        DESK and NOBODY; while memory is away, other goals go on in the released slot.
        """
        patience = MEMORY_TIMEOUT_WITH_MODEL if self._has_model else MEMORY_TIMEOUT
        again = tenacity.retry_if_exception_type(BusUnavailable)
        stop, wait = tenacity.stop_after_delay(patience), tenacity.wait_fixed(MEMORY_RETRY)
        asking = tenacity.AsyncRetrying(retry=again, stop=stop, wait=wait, reraise=True)
        try:
            try:
                return await self._memory.classify("playbooks", texts)
            except BusUnavailable as error:
                log.warning("waiting_for_memory", reason=str(error))
                async with yield_slot():
                    return await asking(self._memory.classify, "playbooks", texts)
        except BusError as error:
            raise NoPlaybook(error.cause, error.cure) from None

    def _format_offers(self) -> str:
        offers = "\n".join(f"- {book.examples[0]}" for book in self._playbooks.values())
        return (
            "No model is configured, and no playbook fits this request. "
            "Set MAILROOM_BRAIN, such as openai:MODEL, for requests in your own words. "
            f"Without a model you can ask for:\n{offers}\n"
            "You can also name an action of an agent: context assignee=engineer action=git_log."
        )


def _given_tasks(goal: Goal) -> tuple[GoalTask, ...]:
    """The tasks of a goal whose context holds its plan (TaskPlan), each with its assignee in its context."""
    tasks = []
    for step in plan_of(goal.context[PLAN], goal.goal_id, goal.requester).steps:
        try:
            call = msgspec.convert(step.context, Call)
            tasks.append(
                GoalTask(
                    name=step_name(step.step_number),
                    task_id=f"{goal.goal_id}-{step.step_number}-1",
                    text=step.action,
                    assignee=call.assignee.strip().lower(),
                    action=call.action,
                    params=call.params,
                    depends_on=tuple(map(step_name, step.dependencies)),
                    success_criteria=step.success_criteria[:2_000],
                )
            )
        except ValueError as error:
            cause = f"The context of step {step.step_number} is wrong: {error}"
            raise ActionError(cause, "It names an assignee, and perhaps an action with its params") from None
    return tuple(tasks)


def _named_task(goal: Goal) -> GoalTask:
    """The one task of a goal whose context names the assignee and the action."""
    context = goal.context
    try:
        assignee = str(context.get("assignee", "")).strip().lower()
        require_name("assignee", assignee)
    except ValueError as error:
        raise ActionError(f"The context names an action, but {error}", "Add assignee=AGENT") from None
    params = context.get("params", {})
    if not isinstance(params, dict):
        raise ActionError("params in the context must be an object", 'Such as {"repo": "/path"}')
    rest = {key: value for key, value in context.items() if key not in ("assignee", "action", "params")}
    return GoalTask(
        name="task",
        task_id=f"{goal.goal_id}-task-1",
        text=goal.text,
        assignee=assignee,
        action=str(context.get("action", "")),
        params={**rest, **params},
    )


def give_whole(goal: Goal, agent: str) -> GoalTask:
    """The one task of a goal that an agent gets in the person's words."""
    text = name_folder(goal, request_of(goal))
    return GoalTask(name="task", task_id=f"{goal.goal_id}-task-1", text=text, assignee=agent)


def name_folder(goal: Goal, text: str, form: str = "{}\n\nIt is about the folder {}.") -> str:
    """``text``, with the folder that was given with the goal as ``form`` says, unless it names one itself."""
    folder = goal.context.get("folder")
    if not folder or any(not each.problem for each in find_folders(text)):
        return text
    return form.format(text.rstrip() if "\n" in form else text.rstrip(" .?!"), f'"{folder}"')


class Roster:
    """The agents by name: those at work, and those with a profile on this machine."""

    def __init__(self, directory: Directory, bus: Bus, settings: Settings) -> None:
        self._directory = directory
        self._bus = bus
        self._settings = settings
        self._known: set[str] = set()

    async def require(self, names: Iterable[str]) -> None:
        """Raise ActionError, which lists the agents, if one of the names is no agent's.

        An agent at work counts wherever its profile lies. One with a profile here counts while it is down
        too, since its tasks wait for it.
        """
        for name in set(names) - self._known:
            if not await read_presences(self._bus, name) and name not in (known := await self._names()):
                raise ActionError(f"There is no agent {name!r}", f"There are {', '.join(sorted(known))}")
            if not name.startswith(PREFIX):
                # A specialist may be retired tomorrow.
                self._known.add(name)

    async def pages(self) -> dict[str, AgentPage]:
        """Every agent by name, with its actions if it is at work."""
        return pages_of(await self._directory.read(), await self._names())

    async def skills_of(self, name: str) -> set[str]:
        """The skills of an agent at work; none if it is not."""
        present = (await self._directory.read()).get(name)
        return set(present.skills) if present else set()

    async def _names(self) -> set[str]:
        return await asyncio.to_thread(read_names, self._settings)


def request_of(goal: Goal) -> str:
    """What is asked for: the goal's text, with what people added to it; much white space is a new line."""
    text = " ".join([goal.text, *(each.text for each in goal.instructions)]).strip()
    return BLANKS.sub("\n", text)


def find_addressee(text: str, agents: Mapping[str, AgentPage]) -> str:
    """The agent to which ``text`` gives all that it asks for, as in "ask the engineer to"; empty for none."""
    names = [name for name in agents if name not in NO_TASKS and agents[name].thinks]
    named = {name for name in names if re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE)}
    called = WAYS["address"].match(text)
    name = (called["asked"] or called["named"]).lower() if called else ""
    return name if called and named == {name} and len(find_parts(text[called.end() :])) == 1 else ""


BLANKS = re.compile(r"\s{20,}")


# --- what a request says ----------------------------------------------------------------------------

WAYS = read_sayings(__file__, "requests")
SEVERAL = WAYS["several"]


def variants(text: str, playbooks: Mapping[str, Playbook]) -> list[tuple[str, Playbook | None]]:
    """``text`` with placeholders, to be compared with examples: once with PATH and URL, once as if it named
    one path if it names several, once the request alone if more is said around it, and
    once more with TOPIC for each playbook that takes a topic. With versions only playbooks that take a time.
    """
    general = URL_IN_TEXT.sub("URL", text)
    general = PATH_IN_TEXT.sub("PATH", general)
    if (dated := name_day(general)) != general:
        # Only what takes a time can do it; examples have days.
        timed = [
            each for each in playbooks.values() if any(p.kind == "since" for p in each.parameters.values())
        ]
        return [(each, playbook) for playbook in timed for each in (dated, *_find_requests(dated))]
    asked: list[tuple[str, Playbook | None]] = [(general, None)]
    if (single := SEVERAL.sub("PATH", general)) != general:
        asked.append((single, None))
    asked += [(request, None) for request in _find_requests(single) if request != single]
    for playbook in playbooks.values():
        for parameter in playbook.parameters.values():
            found = parameter.regex.search(general) if parameter.kind == "text" else None
            # A place is no topic: "the documents of PATH" does not ask for papers, nor does "PATH for ...".
            is_place = not found or found["value"].startswith(("PATH", "URL"))
            if found and not is_place and "PATH" not in general[: found.start()]:
                start, end = found.span("value")
                asked.append((general[:start] + "TOPIC" + general[end:], playbook))
    return asked


def find_reservation(text: str) -> str:
    """Why ``text`` asks for nothing that can begin now: it forbids it, or has a condition; else empty.

    Sentences are compared by what they are about: "do not run the tests of PATH" would run them. The front
    desk starts no work if any part of a message forbids something; of a submission the clause that names the
    place decides, so that "lint PATH, but do not fix anything" is done.
    """
    told = split_sentences(URL_IN_TEXT.sub("URL", PATH_IN_TEXT.sub("PATH", text)))
    named = [sentence for sentence in told if WAYS["place"].search(sentence)] or told[:1]
    orders = [sentence for sentence in named if not sentence.rstrip().endswith("?")]
    begins = [WAYS["courtesy"].sub("", each) for each in orders]
    if any(map(WAYS["condition"].match, begins)) or any(map(WAYS["condition_after"].search, orders)):
        return "The request has a condition, and without a model nothing waits for it"
    forbidden = [each for each in orders if WAYS["forbids"].match((_find_requests(each) or [each])[-1])]
    return "The request says what is not to be done" if forbidden and forbidden == named else ""


def names_later_time(text: str) -> bool:
    """Whether ``text`` says at its beginning or end that work on a place is to begin later, or repeatedly."""
    told = split_sentences(PATH_IN_TEXT.sub("PATH", URL_IN_TEXT.sub("URL", text)))
    orders = [each for each in told if "PATH" in each and not each.rstrip().endswith("?")]
    begins = [WAYS["courtesy"].sub("", each) for each in orders]
    return any(map(WAYS["later_first"].match, begins)) or any(map(WAYS["later_last"].search, orders))


def _find_requests(text: str) -> list[str]:
    """What is asked for in a place, without what is told before and after it, and without courtesies."""
    found = []
    for sentence in split_sentences(text):
        if not WAYS["place"].search(sentence):
            continue
        bare = WAYS["told_before"].sub("", WAYS["courtesy"].sub("", sentence))
        bare = WAYS["courtesy"].sub("", WAYS["told_after"].sub("", bare).strip(" .,!?"))
        found += [each for each in dict.fromkeys((sentence, bare)) if "PATH" in each or "URL" in each]
    return found
