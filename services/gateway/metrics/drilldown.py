"""The goals that make up a figure: from a number to what it counts."""

from shared import subjects

_OF_TASKS = (
    "goal_id IN (SELECT goal_id FROM tasks WHERE goal_id != '' AND ended_at >= ? AND ended_at < ? AND {})"
)
_ENDED_AT = "json_extract(CAST(record AS TEXT), '$.ended_at')"
_OF_GOALS = f"({_ENDED_AT} >= ? AND {_ENDED_AT} < ? AND status != 'cancelled' AND {{}})"
_PEOPLE = ", ".join(f"'{name}'" for name in subjects.PEOPLE)
_AFTER_AGENT = "substr(name, length(agent) + 2)"  # of agent.requester.id
_HANDED_ON = (
    f"status != 'cancelled' AND substr({_AFTER_AGENT}, 1, instr({_AFTER_AGENT}, '.') - 1) "
    f"NOT IN ('', agent, {_PEOPLE})"
)
_PATTERNS = "json_array_length(CAST(record AS TEXT), '$.patterns') > 0"
CONDITIONS = {
    "": "(json_extract(CAST(record AS TEXT), '$.submitted_at') BETWEEN ? AND ?)",
    "tasks": _OF_TASKS.format("TRUE"),
    "velocity": _OF_TASKS.format("status = 'completed'"),
    "tokens": _OF_TASKS.format("tokens > 0"),
    "cost": _OF_TASKS.format("cost > 0"),
    "drift": _OF_TASKS.format("rules IS NOT NULL"),
    "handoffs": _OF_TASKS.format(_HANDED_ON),
    "delegation": _OF_TASKS.format(
        f"{_HANDED_ON} AND attempts > 0 AND (status = 'completed' OR NOT offline)"
    ),
    "context": "goal_id IN (SELECT goal_id FROM scores WHERE at >= ? AND at < ?)",
    "safety": "goal_id IN (SELECT goal_id FROM policy WHERE kind = 'judged' AND at >= ? AND at < ?)",
    "improvement": _OF_GOALS.format("TRUE"),
    "adaptation": _OF_GOALS.format(_PATTERNS),
    "patterns": _OF_GOALS.format(_PATTERNS),
}
"""Of each figure the SQL that its goals fulfil, by the beginning and the end of the period; of none that they
were submitted in it. The recall of planted facts is measured on memory, by no goal."""
