"""Papers and news that frontier told: reading them, and telling it what a person thinks of one."""

from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import AgentReport, DiscoveryResult, generate_id
from shared.errors import MailroomError, NotFound
from shared.queries.records import count_subjects, read_last
from shared.views.listed import ToldItem

FRONTIER = "frontier"
JUDGED = "item_judged"  # The type of the report by which a person says what they think of an item
VERDICTS = {"keep": "kept", "open": "opened", "dismiss": "dismissed"}
MAX_READ = 2_000  # The most items that are read


async def read_told_items(bus: Bus) -> list[ToldItem]:
    """The items, the latest first."""
    names = list(await count_subjects(bus, subjects.OFFICE, _subject("*")))
    found = (await read_last(bus, subjects.OFFICE, names[-MAX_READ:])).values()
    items = (_item(each) for each in sorted(found, key=lambda one: -one.seq))
    return [each for each in items if each is not None]


async def find_told_item(bus: Bus, prefix: str) -> ToldItem:
    """The item whose id begins with ``prefix``; raises NotFound if there is none, or several."""
    names = await count_subjects(bus, subjects.OFFICE, _subject("*"))
    chosen = [name for name in names if prefix and name.rpartition(".")[2].startswith(prefix)]
    if len(chosen) > 1:
        raise MailroomError(f"{len(chosen)} items begin with {prefix[:40]!r}", "Give more of its id")
    found = list((await read_last(bus, subjects.OFFICE, chosen)).values()) if chosen else []
    item = _item(found[0]) if found else None
    if item is None:
        raise NotFound(f"There is no item {prefix[:40]!r}", "'mailroom news list' shows their ids")
    return item


def judging_report(item: ToldItem, verdict: str, report_id: str = "", person: str = "") -> AgentReport:
    """The report that tells frontier what a person thinks of an item."""
    number = report_id or generate_id()
    return AgentReport(
        id=number,
        sender=subjects.USER,
        recipient=FRONTIER,
        report_id=number,
        agent=subjects.USER,
        report_type=JUDGED,
        summary=f"{VERDICTS[verdict].capitalize()}: {item.title}",
        metadata={"item": item.id, "verdict": verdict},
        person=person,
    )


def _subject(item_id: str) -> str:
    return subjects.record(FRONTIER, "reported", item_id)


def _item(stored: Stored) -> ToldItem | None:
    try:
        told = DiscoveryResult.from_json(stored.data)
    except ValueError:
        return None
    return ToldItem(
        id=stored.subject.rpartition(".")[2],
        title=told.query,
        text=told.summary,
        link=told.citations[1] if len(told.citations) > 1 else "",
        told_at=told.completed_at,
    )
