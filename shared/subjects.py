"""Every subject, stream, bucket and limit of the office, each a named constant or a function."""

from typing import NamedTuple

from shared.errors import ConfigError

# --- streams -------------------------------------------------------------------------------------
OFFICE = "OFFICE"  # Everything that happens in the office, in one order
MEMORY = "MEMORY"
"""What agents ask memory to remember; kept for ever. A stream of its own: within one the id of a memory write
could be used again to keep an office message of the same id out of it."""
LOG = (OFFICE, MEMORY)
"""The streams that are the log. Nobody can purge them, and one identity alone, the eraser, deletes single
messages, on the order of a person; each is on record in OFFICE."""
FORGETTING = "FORGETTING"
"""What people ordered to be forgotten, until it is erased in OFFICE: only people write it, and only the
eraser and the admin read it."""

SUBMIT = "tasks.submit"
"""Where goals are submitted. What an agent submits is stored as ``tasks.submit.<agent>``, by the broker."""
SUBMIT_AS = {"URGENT": f"{SUBMIT}_urgent", "HIGH": f"{SUBMIT}_high", "MEDIUM": SUBMIT, "LOW": f"{SUBMIT}_low"}
"""Where people submit goals, by priority, highest first: the conductor has a durable for each."""
SUBMISSIONS = "tasks.>"  # The submissions of people and of agents

OFFICE_SUBJECTS = (
    *SUBMIT_AS.values(),
    "tasks.submit.*",
    "task.*.*.*.*",
    "mail.*.*",
    "state.goal.*",
    "state.office",
    "event.>",
    "dead.*",
    "approval.*.*.*",
    "record.*.*.*",
)
MEMORY_SUBJECTS = ("memory.write.*",)

# --- buckets -------------------------------------------------------------------------------------
AGENTS_BUCKET = "agents"  # The directory of agents: a Presence for each process, which expires unless renewed
LEASES_BUCKET = "leases"  # Exclusive rights, such as being the memory daemon
TURNS_BUCKET = "turns"  # The requests that wait or are open at model servers; see shared.llm.turns
BUDGETS_BUCKET = "budgets"  # What processes use of budgets that they share; see shared.reasoning.entries
IDENTITIES_BUCKET = "identities"
"""The public keys of every identity, by which signatures are checked: only the admin writes it."""
GATEWAY_BUCKET = "gateway"
"""What the gateways of an office share: sessions, links, tokens (their hashes), how far people were told."""
PRESENCE_TTL = 45.0  # Seconds until the presence of a process expires
PRESENCE_INTERVAL = PRESENCE_TTL / 3
"""Seconds between two writes of the presence: two may get lost before it expires."""
LEASE_TTL = 15.0  # Seconds until a lease expires
BUDGET_TTL = 90 * 86_400.0  # Seconds until what a process used of a budget expires: no goal takes longer
TURN_TTL = 90.0  # Seconds until a turn at a model server expires: a minute that counts, and a margin

# --- names ---------------------------------------------------------------------------------------
CONDUCTOR = "conductor"
NEXUS = "nexus"
TIMED = (CONDUCTOR, NEXUS)  # The agents that set timers
CORTEX = "cortex"
SUBMITTING = (NEXUS, CORTEX)  # The agents that submit goals: what people ask of them, and overnight jobs
COUNTING = (CONDUCTOR, CORTEX)
"""The agents that read what all agents have used of models: for reports, and for the budget of a night."""
CRITIC = "critic"
ENGINEER = "engineer"
OPENING = (CONDUCTOR, ENGINEER, CRITIC, CORTEX, "scout")
"""The agents that open folders which people sent, and what was worked on at another host."""
MEMORY_DAEMON = "memory"
USER = "user"  # People: a mailbox and an identity like any agent's
GATEWAY = "gateway"  # The process through which people use the office from a browser or a script
PEOPLE = (USER, GATEWAY)
"""The identities of people. The gateway's writes count as the user's: it knows which person it was."""
ADMIN = "admin"  # The operator's identity: provisions streams, and nothing runs under it
ERASER = "eraser"  # Erases single messages of the log, on the order of a person and for nobody else
ERASER_INBOX = f"_INBOX_{ERASER}"
"""Where it gets answers: it shares the admin's account, and may not hear what that is answered."""
OFFICE_HOST = "office"  # The host of the office itself; others join under names of their own
TAKEN = "taken"
"""In the place of a host: who takes over from a process that is gone. No host can have this name."""
PERSON = f"{USER}-"
"""What the identities of single people begin with, as whom they read and remember: ``user-ana``."""
RESERVED_NAMES = frozenset({USER, ADMIN, ERASER, "goal", "office", "submit", "write"})
"""Names no agent can have: they have another meaning at the place of an agent's name in a subject."""

DURABLE_ENDINGS = (
    *("_urgent", "_high", "_medium", "_low", "_timers"),
    *("_urgent_goals", "_high_goals", "_medium_goals", "_low_goals"),
    *(f"_{name}_goals" for name in SUBMITTING),
)
"""What the names of an agent's further durables end with."""

# --- steps of a task ---------------------------------------------------------------------------------
NEW = {"URGENT": "new_urgent", "HIGH": "new_high", "MEDIUM": "new", "LOW": "new_low"}
"""The step that submits a task, by its priority, highest first: the assignee has a durable for each."""
CLAIMED = "claimed"
"""A process of the assignee is at work on an attempt; the first step of one that does more than compute."""
NOTED = "noted"  # That process noted its progress
AT_WORK = (CLAIMED, NOTED)  # The steps that carry notes, effects and spans
ENDED = "ended"  # The assignee's result
CANCELLED = "cancelled"  # The requester ended the task
FINAL_STEPS = (ENDED, CANCELLED)
BY_REQUESTER = (*NEW.values(), CANCELLED)
BY_ASSIGNEE = (CLAIMED, NOTED, ENDED)
HANDED_ON = (*NEW.values(), ENDED)  # The steps that are delivered to the other party

# --- kinds of messages -----------------------------------------------------------------------------
TASK, SUBMISSION, ADVISORY = "task", "submission", "advisory"
"""The kinds of addresses that are not handled as mail."""

# --- limits --------------------------------------------------------------------------------------
MAX_PAYLOAD = 8 * 1024 * 1024
"""The largest message, in bytes: large enough for a text that is too long to reach its recipient, which then
refuses it with the reason."""
MAX_BATCH = 1_000  # The most messages of one atomic commit (a limit of nats-server)
MAX_BATCH_BYTES = 4 * 1024 * 1024  # The most bytes that are grouped into one atomic commit
MAX_ORIGINAL = 16_000  # The most characters of an original that a dead letter quotes
DUPLICATE_WINDOW = 120.0  # Seconds during which a stream refuses a second message with the same id
MAX_ACK_PENDING = 1_000  # How many messages of one mailbox may be unacknowledged

# --- subjects ------------------------------------------------------------------------------------
OFFICE_STATE = "state.office"
AUDIT_ALL = "audit.>"
"""All messages of the log as they are stored: the server republishes each, and nobody may publish there."""
AUDIT_PREFIX = "audit."
ERASED = f"event.{ERASER}.erased"
"""The records of messages of the log that were erased, and of what was put in their place."""
ARCHIVED = f"event.{ERASER}.archived"  # The records of orders to archive that were carried out
ERASABLE = f"event.{MEMORY_DAEMON}.erasable"
"""Where memory says which messages of MEMORY are to be erased: all of them have a record by then."""
GRAPH_VERSION = f"event.{MEMORY_DAEMON}.graph_version"
MEMORY_VERBS = ("written", "align", "classify", "embed", "read", "recall", "stats", "health")
"""What memory answers by request and reply, as ``memory.<verb>``, to everybody the same."""
MEMORY_READ_VERBS = ("search", "get", "list", "edges", "traverse", "paths", "brief")
"""What it answers with as much as the requester may read (shared/memory/ownership.py): a request to
``memory.<verb>`` reaches it as ``memory.<verb>.<requester>``, appended by the broker."""
MEMORY_SIGNED_VERBS = ("add", "link", *MEMORY_READ_VERBS)
"""These, and what it does in the requester's name."""
MEMORY_WHOLE_VERBS = ("picture", "versions", "history")
"""The same, for people alone: they show all of memory."""
MEMORY_PEOPLE_VERBS = ("linker", "reindex", "rebuild", *MEMORY_WHOLE_VERBS)
"""All that is for people alone: the first three occupy memory for a while."""
MEMORY_READER = "memory-reader"
"""The name, in settings and logs, of further processes of memory, which only answer what others ask."""
LEAST_HEADER = "Mailroom-Least-Version"
"""The header of a request to memory with the graph version that the answer has to be of, or a later one."""
READER_HEADER = "Mailroom-Reader"
"""The header of a request to memory in which nexus names whom it asks for."""

API = f"{GATEWAY}.api"
"""Where the gateway answers people who use a NATS client: as ``gateway.api.<identity>``, by the broker."""
MAILBOX = f"{GATEWAY}.mailbox"
"""Where the gateway answers the front desk's searches of people's own mailboxes; it has their passwords."""


def seal(stream: str) -> str:
    """A seal over the messages of a stream since the seal before.

    The gateway alone publishes them, in OFFICE.
    """
    return f"seal.{stream}"


def archive(stream: str) -> str:
    """A person's order to delete on the server what lies in a verified bundle.

    People alone publish it, in OFFICE, with their own key.
    """
    return f"archive.{stream}"


def forgetting(order: str) -> str:
    """What is to be erased in OFFICE too, from people to the eraser."""
    return f"forgetting.{order}"


ORDERS_OF_ERASURE = (forgetting("*"), archive(OFFICE), ERASABLE)
"""What the eraser listens to: each leads to something that is to be erased, or to be deleted."""


def submitted_by(agent: str) -> str:
    """What an agent submits on tasks.submit, as it is stored."""
    return f"{SUBMIT}.{agent}"


def task(assignee: str, requester: str, task_id: str, step: str) -> str:
    """One step of a task: submitted (one of NEW), ``claimed``, ``noted``, ``ended`` or ``cancelled``.

    The last step of a task is its present state; each is refused unless it follows the one that its writer
    read.
    """
    return f"task.{assignee}.{requester}.{task_id}.{step}"


def mail(recipient: str, sender: str) -> str:
    """Mail: emails, questions and answers, reports, requests to cancel and to stop."""
    return f"mail.{recipient}.{sender}"


def goal(goal_id: str) -> str:
    """The record of a goal: its state after each change."""
    return f"state.goal.{goal_id}"


def words(question_id: str) -> str:
    """The words of an answer as a model writes it; sent by nexus alone, stored by nothing."""
    return f"words.{NEXUS}.{question_id}"


def thoughts(agent: str, task_id: str) -> str:
    """What a model writes for a task of ``agent``, sent by that agent alone, stored by nothing."""
    return f"thoughts.{agent}.{task_id}"


def event(agent: str, what: str) -> str:
    """Something that happened to an agent."""
    return f"event.{agent}.{what}"


def dead(agent: str) -> str:
    """A message that could not be handled, with the reason."""
    return f"dead.{agent}"


def approval_asked(agent: str, approval_id: str) -> str:
    """An agent asks a person for permission."""
    return f"approval.{agent}.asked.{approval_id}"


def approval_answered(agent: str, approval_id: str) -> str:
    """A person's answer.

    Only people may publish here.
    """
    return f"approval.{agent}.answered.{approval_id}"


INSTRUCTIONS = "instructions"
"""The kind of the conductor's records of what people added to a goal, which every agent may read."""


CONTROL = "control"
"""The kind of the conductor's records of what people want of agents: pause, resume, restart."""


def control(agent: str) -> str:
    """What people want of an agent: pause, resume, restart.

    The agent itself reads and follows it.
    """
    return record(CONDUCTOR, CONTROL, agent)


def record(agent: str, kind: str, record_id: str) -> str:
    """A record of an agent's own; the last message on its subject is its state."""
    return f"record.{agent}.{kind}.{record_id}"


DELIVERY, REPLY, INBOX, LIMITS = "delivery", "reply", "inbox", "limits"
PARCELS = "parcels"
"""The kind of records of what lies in the object store: of a goal's tasks, by the agent that did them, and of
folders that people sent, by the gateway."""
GATEWAY_RECORDS = (DELIVERY, REPLY, INBOX, LIMITS, PARCELS)
"""The kinds of the gateway's records: what people are told elsewhere, what they reply there, what they took
out of the inbox, what each may use, and which folders they sent.
"""
EVERYONE = "_"  # The id of the record of limits for people without a record of their own
GOALS_OF = "goals_of"  # The kind of the conductor's records of the goals of people who have limits
PUT_ASIDE = record(GATEWAY, INBOX, "put_aside")  # The record of what people took out of the inbox


DUE, TIMETABLE = "due", "timetable"
"""The kinds of records of what happens by itself: one for each item, and one of the items' ids."""


DROPPED = "dropped"  # The kind of the admin's records of dead letters that were dropped or sent again


def dropped(agent: str) -> str:
    """Which dead letters of an agent were dropped or sent again; they stay in the log."""
    return record(ADMIN, DROPPED, agent)


def memory_write(agent: str) -> str:
    """A write to memory; memory itself also records here what it refused and what it erased."""
    return f"memory.write.{agent}"


def memory(verb: str) -> str:
    """A request to the memory daemon."""
    return f"memory.{verb}"


def timer(agent: str, name: str) -> str:
    """A timer is set; the header Nats-Schedule has its time.

    Setting it again replaces it.
    """
    return f"timer.set.{agent}.{name}"


def timer_due(agent: str) -> str:
    """A timer is due."""
    return f"timer.due.{agent}"


def timers_stream(agent: str) -> str:
    """The stream of the timers of ``agent``, which the broker delivers later.

    Each agent has its own: a schedule may name any target in its stream, and a rollup empties a stream.
    """
    return f"TIMERS_{agent}"


def timer_subjects(agent: str) -> tuple[str, str]:
    """The subjects of that stream."""
    return timer(agent, "*"), timer_due(agent)


def timers_durable(agent: str) -> str:
    """The durable that delivers the timers of ``agent``."""
    return f"{agent}_timers"


SERVER_STATISTICS = "server.statistics"
"""What the gateway asks nats-server for its own figures by: connections, memory, slow consumers, storage."""


def position(stream: str, durable: str) -> str:
    """How far a durable is; the answer is the server's CONSUMER.INFO."""
    return f"position.{stream}.{durable}"


def listing(stream: str) -> str:
    """The subjects of a stream; the answer is the server's STREAM.INFO."""
    return f"listing.{stream}"


def peer(agent: str, instance: str) -> str:
    """One process asks another of the same agent what it has in hand.

    It never leaves the account of the agent.
    """
    return f"peer.{agent}.{instance}"


def presence(agent: str, instance: str) -> str:
    """The directory entry of one process, which expires unless it is renewed.

    Those of a host that joined lie apart: it writes its own alone.
    """
    return presences(agent, host_of(instance)).removesuffix("*") + instance


def presences(agent: str, host: str = "") -> str:
    """The directory entries of an agent on a host; without one all, and who takes over from which."""
    place = {"": ">", OFFICE_HOST: "*"}.get(host, f"{host}.*")
    return f"$KV.{AGENTS_BUCKET}.{agent}.{place}"


def taken(agent: str, instance: str) -> str:
    """Which process takes over from one that is gone: every process of the agent may write that."""
    return presences(agent, TAKEN).removesuffix("*") + instance


def host_of(instance: str) -> str:
    """The host of a process: what joined has its name ahead of the id of each of its processes."""
    return instance.rpartition("-")[0] or OFFICE_HOST


def joining(host: str) -> str:
    """A host asks to join as ``host``, with the key of its token; nothing stores that."""
    return f"hosts.join.{host}"


def asking(host: str) -> str:
    """A host that joined tells the office something, such as that it leaves; nothing stores that."""
    return f"hosts.ask.{host}"


def lease(name: str) -> str:
    """An exclusive right and the process that holds it."""
    return f"$KV.{LEASES_BUCKET}.{name}"


def identity(name: str) -> str:
    """The public keys of an identity, written by the admin."""
    return f"$KV.{IDENTITIES_BUCKET}.{name}"


def turn(server: str, agent: str, request: str) -> str:
    """A request of an agent at a model server."""
    return f"$KV.{TURNS_BUCKET}.{server}.{agent}.{request}"


def share(budget: str, agent: str, instance: str) -> str:
    """What a process of an agent has of a budget that it shares with others."""
    return f"$KV.{BUDGETS_BUCKET}.{budget}.{agent}.{instance}"


def shared_entry(kind: str, name: str) -> str:
    """An entry of what the gateways share, which they alone read and write."""
    return f"$KV.{GATEWAY_BUCKET}.{kind}.{name}"


def bucket_stream(bucket: str) -> str:
    """The stream behind a bucket."""
    return f"KV_{bucket}"


def max_deliveries(stream: str, durable: str) -> str:
    """The server gave up delivering a message."""
    return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{durable}"


def mailboxes(agent: str) -> dict[str, list[str]]:
    """The durables of OFFICE that deliver an agent's messages, in order of precedence, and their subjects.

    What work under way waits for goes before new tasks and goals, and tasks have a lane for each priority.
    The goals that people submit have such lanes above all tasks, and those of each agent one below them: no
    number of an agent's goals delays a person's, or takes all slots from another agent's.
    People have no tasks, and the gateway, which is no person itself, has no mail either.
    """
    if agent == GATEWAY:
        return {}
    steps = NEW.items() if agent != USER else ()
    lanes = {f"{agent}_{priority.lower()}": [task(agent, "*", "*", step)] for priority, step in steps}
    if agent == CONDUCTOR:
        of_people = {f"{agent}_{name.lower()}_goals": [subject] for name, subject in SUBMIT_AS.items()}
        of_agents = {f"{agent}_{name}_goals": [submitted_by(name)] for name in SUBMITTING}
        lanes = {**of_people, **lanes, **of_agents}
    names = (agent, *lanes)
    mail_of = [mail(agent, "*"), task("*", agent, "*", ENDED), *(max_deliveries(OFFICE, n) for n in names)]
    return {agent: mail_of, **lanes}


def is_for(agent: str, subject: str) -> bool:
    """Whether a message on ``subject`` is delivered to ``agent``."""
    address = Address.of(subject)
    is_left = address.kind == "approval" or (address.kind == TASK and address.step not in HANDED_ON)
    return address.recipient == agent and not is_left


class Address(NamedTuple):
    """A subject taken apart, once for each message: what kind it is, who published it, and for whom.

    The broker guarantees ``sender``. It is empty if people submitted a goal, if the server itself speaks, and
    if the subject is none of the office's, which has no ``kind`` either. ``id`` is that of the task, approval
    or record, ``step`` that of the task; of what people submit with a priority, ``step`` is that priority.
    """

    kind: str = ""
    sender: str = ""
    recipient: str = ""
    id: str = ""
    step: str = ""

    @classmethod
    def of(cls, subject: str) -> "Address":  # noqa: PLR0912  # a branch for each kind
        """The parts of ``subject``."""
        match subject.split("."):
            case ["task", assignee, requester, task_id, step]:
                if step in BY_ASSIGNEE:
                    return cls(TASK, assignee, requester, task_id, step)
                return cls(TASK, requester, assignee, task_id, step)
            case ["tasks", "submit", *sender]:
                return cls(SUBMISSION, ".".join(sender), CONDUCTOR)
            case ["tasks", door] if subject in SUBMIT_AS.values():
                return cls(SUBMISSION, "", CONDUCTOR, step=door.removeprefix("submit_").upper())
            case ["mail", recipient, sender]:
                return cls("mail", sender, recipient)
            case ["seal", stream]:
                return cls("seal", GATEWAY, "", stream)
            case ["archive", stream]:
                return cls("archive", USER, "", stream)
            case ["memory", "write", sender]:
                return cls("memory", sender, MEMORY_DAEMON)
            case ["state", "goal" | "office", *name]:
                return cls("state", CONDUCTOR, "", ".".join(name))
            case ["timer", "set", sender, name]:
                return cls("timer", sender, "", name)
            case ["timer", "due", sender]:
                return cls("timer", sender, sender)
            case ["record", sender, _, name]:
                return cls("record", sender, "", name)
            case ["approval", agent, ("asked" | "answered") as what, name]:
                parties = (agent, USER) if what == "asked" else (USER, agent)
                return cls("approval", *parties, name)
            case [("event" | "dead") as kind, sender, *_]:
                return cls(kind, sender)
            case ["$JS", "EVENT", *_]:
                return cls(ADVISORY)
        return cls()


def require_agent_name(name: str) -> None:
    """Raise ConfigError if ``name`` is reserved, or might be that of another agent's durable."""
    if name in RESERVED_NAMES or name.startswith(PERSON) or name.endswith(DURABLE_ENDINGS):
        raise ConfigError(f"{name!r} cannot be an agent's name: it is reserved", "Choose another name")
