"""Any valid instance of any contract, built from its type hints."""

import enum
import functools
import string
import struct
from datetime import UTC
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from shared import contracts as c

texts = st.text(max_size=40)
filled = st.text(min_size=1, max_size=40).filter(lambda text: not text.isspace())
# All that c.NAME and c.TOKEN match, for a third of the time that st.from_regex takes to draw it.
_small = string.ascii_lowercase + string.digits
names = st.tuples(st.sampled_from(_small), st.text(f"{_small}_-", max_size=63)).map("".join)
people = st.text(min_size=1, max_size=64).filter(lambda name: name.isprintable() and name == name.strip())
tokens = st.text(f"{string.ascii_letters}{string.digits}_-", min_size=1, max_size=128)
hashes = st.text("0123456789abcdef", min_size=64, max_size=64)
moments = (st.datetimes() | st.datetimes(timezones=st.just(UTC))).map(lambda moment: moment.isoformat())
numbers = st.floats(allow_nan=False, allow_infinity=False)
units = st.floats(0, 1)
counts = st.integers(0, 2**70)
vectors = st.lists(st.floats(width=32), max_size=3).map(lambda row: struct.pack(f"<{len(row)}f", *row))
complexities = st.sampled_from(["", "low", "medium", "high"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)

REQUIRED = {
    **dict.fromkeys(("sender", "recipient", "agent", "assignee", "requester", "kind"), names),
    **dict.fromkeys(("id", "task_id", "goal_id", "report_id", "correlation_id", "instance", "name"), tokens),
    **dict.fromkeys(("from_id", "to_id"), tokens),
    **dict.fromkeys(("created_at", "completed_at", "started_at", "submitted_at", "timestamp"), moments),
    **dict.fromkeys(("importance", "confidence", "weight", "min_weight"), units),
    **dict.fromkeys(("attempt", "iteration_count", "version", "at", "changed_since", "visited"), counts),
    **dict.fromkeys(("created_version", "retired_version", "access_count", "omitted", "origin"), counts),
    **dict.fromkeys(("ids", "retire", "forget", "orders", "anchors"), st.lists(tokens, max_size=2)),
    "accessed": st.dictionaries(tokens, counts, max_size=2),
    **dict.fromkeys(("approval_id", "session_id", "due_id", "question_id"), tokens),
    **dict.fromkeys(("expires_at", "due_at", "given_at", "begun_at"), moments),
    **dict.fromkeys(("original_sender", "asker"), names),
    "check": names,
    "depth": st.integers(1, 20),
    "generated_at": moments,
    **dict.fromkeys(("hops", "restarts"), counts),
    "k": st.integers(1, 20),
    "limit": st.integers(1, 100),
    "score": numbers,
    "nodes_consulted": counts,
    "start": st.lists(tokens, min_size=1, max_size=3),
    "step_number": st.integers(1, 2**70),
}
"""What a field of this name holds, wherever it is."""

OPTIONAL = {
    **dict.fromkeys(("cause", "goal_id", "parent_goal_id", "part_of", "workspace", "continues"), tokens),
    **dict.fromkeys(("in_reply_to", "retry_of", "request_id"), tokens),
    "last": tokens,
    **dict.fromkeys(("sender", "recipient", "audience"), names),
    **dict.fromkeys(("person", "asked_by", "owner"), people),
    **dict.fromkeys(
        ("deadline", "since", "until", "updated_at", "last_accessed_at", "valid_from", "valid_to"),
        moments,
    ),
    **dict.fromkeys(("finished_at", "touched_at", "began_at", "ends_at", "last_at"), moments),
    "asked_at": moments,
}
"""What a field of this name holds where it is not empty and empty is its default."""

SPECIAL = {
    (c.Email, "body"): texts,
    (c.AnswerWords, "number"): counts,
    (c.TaskThoughts, "written"): counts,
    (c.TaskResult, "output"): texts,
    (c.TaskRequest, "requester"): filled,
    (c.Presence, "version"): filled,
    (c.ToolRun, "version"): texts,
    (c.CancelGoal, "goal_id"): tokens,
    (c.GoalDue, "goal_id"): tokens,
    (c.GoalBudget, "tokens"): counts,
    (c.GoalBudget, "cost"): st.floats(0, allow_nan=False, allow_infinity=False),
    (c.GoalBudget, "person"): tokens,
    (c.GoalBudget, "day_tokens"): counts,
    (c.GoalBudget, "day_cost"): st.floats(0, allow_nan=False, allow_infinity=False),
    (c.PersonLimits, "day_tokens"): counts,
    (c.PersonLimits, "day_cost"): st.floats(0, allow_nan=False, allow_infinity=False),
    (c.PersonLimits, "open_goals"): counts,
    (c.PersonLimits, "day_goals"): counts,
    (c.PersonGoals, "today"): st.lists(tokens, max_size=3),
    (c.PersonGoals, "opened"): st.lists(tokens, max_size=3),
    (c.Said, "by"): names,
    (c.Said, "until"): moments,
    (c.Said, "signature"): tokens,
    (c.MemoryRefused, "cause"): tokens,
    (c.MemoryErased, "cause"): tokens,
    (c.MemoryErased, "seqs"): st.lists(counts, min_size=1, max_size=3),
    (c.ErasureOrder, "cause"): tokens,
    (c.ErasureOrder, "nodes"): st.lists(tokens, min_size=1, max_size=3),
    (c.ErasedMessage, "seq"): counts,
    (c.ErasedMessage, "leaf"): hashes,
    (c.MessagesErased, "cause"): tokens,
    (c.MessagesErased, "gone"): st.lists(counts, max_size=3),
    (c.MemoryForgotten, "seqs"): st.lists(counts, max_size=3),
    (c.MemoryErasable, "seqs"): st.lists(counts, max_size=3),
    (c.LettersDropped, "numbers"): st.lists(counts, max_size=3),
    **{(c.Seal, name): counts for name in ("number", "first", "last", "count")},
    **{(c.Seal, name): hashes for name in ("root", "chain")},
    **{(c.ArchiveOrder, name): counts for name in ("first", "last", "count")},
    **{(c.ArchiveOrder, name): moments for name in ("since", "until")},
    **{(c.MessagesArchived, name): counts for name in ("deleted", "kept")},
    (c.MessagesArchived, "cause"): tokens,
    (c.EdgesQuery, "node"): tokens,
    (c.ListQuery, "after"): tokens,
    (c.ListQuery, "agent"): texts,
    (c.MemoryQuery, "agent"): texts,
    (c.Source, "agent"): texts,
    (c.Presence, "started_at"): texts,
    (c.GoalTask, "started_at"): texts,
    (c.DailySpending, "day"): st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", fullmatch=True),
    (c.RepositoryReading, "name"): filled,
    (c.ToolRun, "name"): filled,
    (c.BriefQuery, "max_chars"): st.integers(1_000, 60_000),
    (c.BriefQuery, "per_section"): st.integers(0, 100),
    (c.PictureQuery, "anchor"): tokens,
    **{(c.Picture, name): counts for name in ("total", "total_edges")},
    (c.PictureNode, "degree"): counts,
    **{(c.PictureEdge, name): counts for name in ("start", "end")},
    (c.VersionsQuery, "before"): counts,
    **{(c.VersionChange, name): counts for name in ("changed", "linked", "unlinked")},
    **{(cls, "at"): st.just("") | moments for cls in (c.VersionChange, c.NodeState)},
    **{(c.VersionPage, name): counts for name in ("next", "first")},
    **{(c.Task, name): st.lists(tokens, max_size=3) for name in ("depends_on", "starts_from")},
    (c.Goal, "starts_from"): st.lists(tokens, max_size=2),
    **{(cls, "workspace"): st.just("") | tokens for cls in (c.Task, c.GoalTask)},
    (c.TaskStep, "estimated_complexity"): complexities,
    (c.TaskStep, "dependencies"): st.just(()),
    (c.TaskPlan, "overall_complexity"): complexities,
    (c.TaskResult, "error_message"): filled,
    **{
        (c.Span, name): counts
        for name in ("number", "parent", "input_tokens", "cached_tokens", "output_tokens", "count")
    },
    (c.Span, "kind"): st.sampled_from(c.SpanKind),
    **{(c.Experience, name): counts for name in ("completed", "failed", "attempts", "tokens")},
    **{(cls, "patterns"): st.lists(tokens, max_size=2) for cls in (c.Experience, c.Goal)},
    **{(c.Pattern, name): counts for name in ("uses", "successes")},
    **{(c.Pattern, name): filled for name in ("condition", "strategy")},
    **{(c.Setback, name): counts for name in ("plan", "told")},
    (c.Setback, "task"): tokens,
    (c.ContextPacket, "best"): units,
    (c.Due, "at"): moments,
    (c.Timetable, "changed"): st.lists(tokens, max_size=2),
    **{(c.Due, name): counts for name in ("runs", "missed")},
    **{(c.NightState, name): counts for name in ("base_tokens", "tokens")},
    **{(cls, "channel"): names for cls in (c.Delivery, c.DeliveryReply)},
    **{(c.Delivery, name): tokens for name in ("delivery_id", "about", "bundle")},
    **{(c.DeliveryReply, name): tokens for name in ("reply_id", "delivery_id")},
    **{(c.Delivery, name): moments for name in ("first_at", "due_at", "ended_at")},
    (c.Delivery, "kind"): st.sampled_from(c.DeliveryKind),
    (c.Delivery, "attempts"): counts,
    (c.Conversation, "questions"): counts,
    **{(c.StoredObject, name): tokens for name in ("bucket", "key")},
    (c.StoredObject, "digest"): hashes,
    (c.StoredObject, "size"): counts,
    (c.Parcel, "workspace"): st.just("") | tokens,
}


@functools.cache
def instances(cls):
    """A strategy of valid instances of ``cls``."""
    fields = {field.name: _field(cls, field) for field in msgspec.structs.fields(cls)}
    if cls is c.TaskPlan:
        fields["steps"] = plans()
    if cls is c.MemoryWrite:
        fields["retire"] = st.lists(tokens, min_size=1, max_size=2)
        fields["nodes"], fields["vectors"] = st.lists(instances(c.Node), min_size=1, max_size=1), vectors
    made = st.fixed_dictionaries(fields)
    if cls is c.Edge:
        made = made.filter(lambda given: given["from_id"] != given["to_id"])
    return made.map(lambda given: cls(**given))


@st.composite
def plans(draw):
    """Steps in any order whose dependencies are other steps of the plan, without a circle."""
    numbers_ = draw(st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True))
    steps = []
    for place, number in enumerate(numbers_):
        earlier = draw(st.lists(st.sampled_from(numbers_[:place]), unique=True)) if place else []
        steps.append(c.TaskStep(step_number=number, action=draw(filled), dependencies=earlier))
    return draw(st.permutations(steps))


def _plain(hint):
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _field(cls, field):
    if (cls, field.name) in SPECIAL:
        return SPECIAL[cls, field.name]
    if field.default == "" and field.name in OPTIONAL:
        return st.just("") | OPTIONAL[field.name]
    if field.name in REQUIRED:
        return REQUIRED[field.name]
    return filled if _plain(field.type) is str and field.default != "" else _hinted(field.type)


def _hinted(hint):
    hint = _plain(hint)
    plain = {str: texts, int: st.integers(), float: numbers, bool: st.booleans(), Any: json_values}
    plain[bytes] = st.binary(max_size=12)
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return instances(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is tuple:
        return st.lists(_hinted(parts[0]), max_size=2) | st.lists(_hinted(parts[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(texts, _hinted(parts[1]), max_size=3)
    if origin is Literal:
        return st.sampled_from(parts)
    if origin in (Union, type(int | None)):
        return st.one_of(st.none(), *(_hinted(part) for part in parts if part is not type(None)))
    raise NotImplementedError(hint)
