"""Letters, goals that are submitted, patches, briefings, the inbox, news, and what happens later."""

from pathlib import PurePath
from typing import Annotated, Any, Literal

import msgspec

from shared.contracts import Due, Goal, GoalBudget, TaskPriority
from shared.contracts.base import MAX_TEXT
from shared.views.approval import Approval
from shared.views.timeline import ArchivedPart, GoalSummary, format_sender


class LatestGoals(msgspec.Struct, frozen=True, kw_only=True):
    """Goals, the one that was submitted last at the end, and how many ``others`` there are."""

    goals: list[Goal]
    others: int


GOAL_ID = r"[A-Za-z0-9_-]{1,80}"  # The ids that the conductor takes


class NewGoal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A goal in the person's own words; ``context`` as ``mailroom submit -c`` gives it.

    ``context_refs`` and ``evidence_refs`` name memories, files and tasks that its tasks are shown. With a
    ``goal_id`` of the person's choice, the same submitted again begins nothing twice. ``is_resolved`` says
    that paths in the text were made whole where it was written: what still looks like one is no path.
    ``budget`` is what models may use for it in all; without one it is that of the settings.
    """

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
    context: dict[str, Any] = {}
    context_refs: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    priority: TaskPriority = TaskPriority.MEDIUM
    deadline: str = ""
    goal_id: Annotated[str, msgspec.Meta(pattern=rf"^({GOAL_ID})?\Z")] = ""
    is_resolved: bool = False
    budget: GoalBudget | None = None


class SubmittedGoal(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a goal that was submitted, and the number of its message in OFFICE.

    If it was submitted before under an id of one's own, ``status`` is the one that it has now. The number is
    0 then, and with an Idempotency-Key.
    """

    goal_id: str
    status: str = "submitted"
    seq: int = 0


class DeliveredPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A patch that an agent delivered, and the folder it was made for; empty if that was not recorded."""

    path: str
    folder: str = ""

    @property
    def name(self) -> str:
        """The name of the project."""
        return PurePath(self.path).stem


class SentPiece(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of a folder that a person sends: the bytes from ``offset`` on, in Base64.

    ``upload`` is an id of the sender's choice, the same for all pieces; the whole has ``size`` bytes and the
    SHA-256 ``digest``. The folder is ``source`` on the machine ``host``.
    """

    upload: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{8,80}\Z")]
    offset: Annotated[int, msgspec.Meta(ge=0)]
    data: bytes
    size: Annotated[int, msgspec.Meta(ge=1)]
    digest: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)]
    host: Annotated[str, msgspec.Meta(max_length=100)] = ""


class SentFolder(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes of a folder arrived; with the last of them, the path by which goals name it."""

    received: int
    folder: str = ""


class PatchFile(DeliveredPatch, frozen=True, kw_only=True):
    """A patch and its bytes."""

    data: bytes


class GoalPatches(msgspec.Struct, frozen=True, kw_only=True):
    """The patches of a goal, for the person who applies them where they are."""

    goal_id: str
    patches: list[PatchFile]


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A patch and what became of it: ``done`` is applied, already applied, declined or refused.

    ``undo`` is the command that takes it out again, ``problem`` why it was refused and ``cure`` what helps.
    """

    project: str
    patch: str
    folder: str
    done: str
    files: list[str] = []
    undo: str = ""
    problem: str = ""
    cure: str = ""


class ToldItem(msgspec.Struct, frozen=True, kw_only=True):
    """A paper or an item of news that was told."""

    id: str
    title: str
    text: str = ""
    link: str = ""
    told_at: str = ""


class NewsList(msgspec.Struct, frozen=True, kw_only=True):
    """Items, the latest first."""

    news: list[ToldItem]


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is listed; ``number`` is its sequence, ``session`` the id of the one it answers.

    ``person`` is who of the people wrote it, if that is known, ``audience`` for whom alone it is.
    """

    number: int
    id: str
    sender: str
    recipient: str
    created_at: str
    kind: str
    subject: str
    body: str
    session: str = ""
    person: str = ""
    audience: str = ""

    @property
    def parties(self) -> str:
        """``sender → recipient``."""
        return f"{format_sender(self.sender, self.person)} → {self.recipient}"


class MailList(msgspec.Struct, frozen=True, kw_only=True):
    """Messages, the latest last; ``next`` goes into ``before`` for earlier ones, 0 if there are none.

    ``older`` is how much earlier mail there is of each sender, where that is known. ``away`` are bundles of
    the archive whose mail is not looked at: mail of their time is not among these.
    """

    mail: list[Mail]
    next: int = 0
    older: dict[str, int] = {}
    away: list[ArchivedPart] = []


class NewLetter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A letter to an agent, or with ``reply_to`` the answer to the message of that number."""

    to: str = ""
    subject: Annotated[str, msgspec.Meta(max_length=500)] = ""
    body: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
    reply_to: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0


class SentLetter(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a letter and its number."""

    id: str
    number: int


class DeadLetterView(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter; ``number`` names it, ``agent`` could not handle the message, for the ``reason``.

    ``original`` is the beginning of the message, which is number ``stream_seq`` of ``stream``; it had
    ``original_size`` bytes.
    """

    number: int
    agent: str
    reason: str
    subject: str
    since: str
    deliveries: int
    goal_id: str
    task_id: str
    stream: str
    stream_seq: int
    headers: dict[str, str]
    original: str
    original_size: int


class DeadLetterList(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters, the latest last, the number of all, and how many more each agent has."""

    dead_letters: list[DeadLetterView]
    total: int
    more: dict[str, int]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens at ``at``, or did.

    ``what`` is mail (a reminder), goal (on a schedule), briefing, job (of the night) or deadline (the end of
    a goal's time). ``status`` is as in the record; what is not recorded waits. ``every`` says in English how
    often it repeats, ``next_runs`` are the next times. ``runs`` counts how often it happened, ``missed`` the
    runs that were left out, ``note`` says why the last one was; ``last`` is the goal that began at
    ``last_at``. ``due`` is the record, if it has one.
    """

    id: str
    what: str
    text: str
    at: str
    status: str = "waiting"
    every: str = ""
    next_runs: list[str] = []
    runs: int = 0
    missed: int = 0
    last_at: str = ""
    last: str = ""
    note: str = ""
    due: Due | None = None

    @property
    def waits(self) -> bool:
        """Whether it is going to happen."""
        return self.status in ("waiting", "snoozed")


class NightJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the night; ``state`` is waiting, running, ended or refused.

    ``outcome`` is how it ended, ``reason`` why it was refused or what it waits for; ``task_id`` is the task
    that does it.
    """

    id: str
    state: str
    task: str = ""
    priority: str = ""
    run_at: str = ""
    when: str = ""
    at: str = ""
    task_id: str = ""
    outcome: str = ""
    reason: str = ""


class NightQueue(msgspec.Struct, frozen=True, kw_only=True):
    """The overnight queue; not ``reachable`` if its folder, of files and results, is not on this machine.

    ``window`` is the time in which jobs begin; empty: as soon as they are due. It begins or began at
    ``begins_at``. ``held`` says why nothing begins now, though it is time; ``tokens`` and ``cost`` (US
    dollars) are what models used in this night, or the last one; the limits are its budget (0: none).
    """

    reachable: bool
    window: str = ""
    is_night: bool = True
    begins_at: str = ""
    ends_at: str = ""
    held: str = ""
    tokens: int = 0
    cost: float = 0.0
    token_limit: int = 0
    cost_limit: float = 0.0
    folder: str = ""
    counts: dict[str, int] = {}
    jobs: list[NightJob] = []


class TimetablePage(msgspec.Struct, frozen=True, kw_only=True):
    """What is going to happen, the next first, then what is paused or open; and the night's queue.

    ``time_zone`` is that of the office, ``problem`` names records that are damaged.
    """

    time_zone: str
    items: list[Item]
    night: NightQueue
    problem: str = ""


class InboxItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that waits: ``kind`` is approval, question, dead_letter or failed_goal.

    ``title`` and ``text`` say it in two lines, ``since`` is when it began to wait. The part of its kind has
    all of it. ``number`` of a question names the letter to reply to; what a goal ``asked`` is in no letter.
    """

    id: str
    kind: str
    title: str
    text: str
    agent: str
    since: str
    goal_id: str = ""
    approval: Approval | None = None
    question: Mail | None = None
    asked: str = ""
    dead_letter: DeadLetterView | None = None
    goal: GoalSummary | None = None


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person answered or put aside; ``by`` is empty if it is not known who."""

    id: str
    kind: str
    title: str
    outcome: str
    by: str
    at: str
    goal_id: str = ""
    note: str = ""


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """What waits, the oldest first, and what was answered within a day, the latest first."""

    waiting: list[InboxItem]
    answered: list[Answered]


Kind = Literal["morning", "evening"]


class LineSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a line comes from: what it is, the command that shows it, its address or its path here."""

    kind: str = ""
    id: str = ""
    label: str = ""
    open: str = ""
    link: str = ""


class BriefingLine(msgspec.Struct, frozen=True, kw_only=True):
    """A statement; ``inline``: its sources stand within the text, in brackets."""

    text: str
    sources: list[LineSource] = []
    inline: bool = False
    score: float = 0.0


class BriefingSection(msgspec.Struct, frozen=True, kw_only=True):
    """A section; ``problem`` says what is missing and why, ``missed`` that it is tried again."""

    key: str
    title: str
    lines: list[BriefingLine] = []
    problem: str = ""
    missed: bool = False


class BriefingAddition(msgspec.Struct, frozen=True, kw_only=True):
    """What was told after the first time."""

    made_at: str
    sections: list[BriefingSection] = []


class DayBriefing(msgspec.Struct, frozen=True, kw_only=True):
    """A briefing of a day: its head of at most five lines, its sections, and what was added."""

    kind: Kind
    day: str
    title: str
    made_at: str
    head: list[BriefingLine] = []
    sections: list[BriefingSection] = []
    additions: list[BriefingAddition] = []


class BriefingNote(msgspec.Struct, frozen=True, kw_only=True):
    """A briefing of a day that was made."""

    kind: Kind
    day: str


class BriefingList(msgspec.Struct, frozen=True, kw_only=True):
    """The briefings that were made, the latest first."""

    briefings: list[BriefingNote]


class TodaysBriefings(msgspec.Struct, frozen=True, kw_only=True):
    """The briefings of today that were made, the evening's first; ``day`` is today in the office's zone."""

    day: str
    time_zone: str
    briefings: list[DayBriefing]
