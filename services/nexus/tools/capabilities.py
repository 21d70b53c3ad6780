"""What the desk and the team can do, made from the list of tools."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

GROUPS = {
    "Memory": (
        "memory remember correct forget",
        "'who has the key?', 'remember that the fee is 9 euros', 'forget that'",
    ),
    "Reminders": (
        "reminder_set reminder_list reminder_change reminder_cancel",
        "'remind me at 9 to call Ana', 'at 10 instead', 'list my reminders'",
    ),
    "Calendar": (
        "calendar calendar_add",
        "'what is on my calendar on Friday?', 'add lunch on Friday at 12:30'",
    ),
    "Work now": ("work goals stop", "'run the tests of ~/src/shop', 'is it done?', 'stop it'"),
    "Tonight": ("night_job queue", "'tonight at 23:30 check the links of ~/site', 'what is queued?'"),
    "Schedules": ("schedule", "'every weekday at 7 run the tests of .', 'list my schedules'"),
    "For you": ("waiting approve brief project", "'what waits for me?', 'brief me', 'what is still open?'"),
    "Mail": ("mail send_mail", "'any mail from the bank?', 'write to ana@example.org: I am late'"),
    "Look up": ("web papers news weather", "'search the web for ...', 'papers on ...', 'weather in Bern'"),
    "And": (
        "clock arithmetic spending capabilities",
        "'what is 12% of 340?', 'days until 30 June', 'what was spent?'",
    ),
}
"""The tools in groups, each with what one may say."""
TEAM = (
    "Work is tests, check-ups and security scans of a repository, and research on the",
    "web and in papers; with a model also patches, documents, and what you describe.",
)
"""What the team works on."""


async def explain(desk: "Desk", request: Request, _: Words) -> Answer:
    """One screen: what may be said, by groups of tools, and the team's work."""
    groups = [f"- {name}: {said}" for name, (_, said) in GROUPS.items()]
    head = "This is Nexus, the front desk. Write what you want in plain English:"
    return Answer(text="\n".join([head, *groups, "", *TEAM]))


TOOL = Tool(
    name="capabilities",
    description="says what it can do, with examples",
    run=explain,
)
