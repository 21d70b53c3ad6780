"""What people said: the words that name the paths and addresses a task may use.

A model plans, delegates and writes tasks, and may have read anything. So what counts is not what a task says
but what a person said: in the task, if a person submitted it, or in an email; else in ``Task.said``, which
the agents that people talk to sign and every agent passes on. Its signature is checked where a task arrives.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from shared import subjects
from shared.bus import Bus
from shared.bus.connecting import is_signed
from shared.bus.records import read_keys, read_record
from shared.contracts import Instructions, Said, Task
from shared.contracts.base import amended
from shared.errors import BusError
from shared.log import logger
from shared.tasks.context import TaskContext
from shared.tasks.speaker import WITNESSES

QUOTED = "quoted"
"""The key of a goal's context under which data from outside stand: whatever they name, nobody said it."""
COUNTS_FOR = timedelta(days=1)  # How long a signature counts without a deadline
MAX_SAID = 20_000
_NAMING = re.compile(r"/|\w\.[A-Za-z]{2,}")  # What a line has that names a path or an address

PATH = re.compile(r"(?<![\w./-])/[^\s\"'`<>|,;()\[\]{}\0]+")

log = logger(__name__)


def said_in(task: Task) -> str:
    """The words of people that led to ``task``, as far as they are known; its signature was checked."""
    if task.requester == subjects.USER:
        return "\n".join([task.text, *strings_in(task.context.get("params"))])
    letter = task.context.get("letter")
    if (
        task.requester == task.assignee
        and isinstance(letter, Mapping)
        and letter.get("sender") == subjects.USER
    ):
        return task.text
    return task.said.text if task.said else ""


def strings_in(value: Any) -> list[str]:
    """Every text in a value of JSON."""
    if isinstance(value, Mapping):
        return [text for each in value.values() for text in strings_in(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in strings_in(each)]
    return [value] if isinstance(value, str) else []


def words_in(text: str, context: Mapping[str, Any]) -> str:
    """What a person says who submits ``text`` with ``context``."""
    return "\n".join([text, *strings_in({key: value for key, value in context.items() if key != QUOTED})])


def names_something(words: str) -> bool:
    """Whether ``words`` name a path or an address, so that it counts who said them."""
    return bool(_naming(words).strip())


def sign_said(bus: Bus, words: str, deadline: str = "") -> Said | None:
    """What a person said in ``words``, signed by the agent of ``bus``; None if it names nothing."""
    text = _naming(words)[:MAX_SAID]
    if not text.strip():
        return None
    until = deadline or (datetime.now(UTC) + COUNTS_FOR).isoformat()
    unsigned = Said(text=text, by=bus.name, until=until, signature="unsigned")
    return amended(unsigned, signature=bus.sign(unsigned.signed()))


def pass_on(bus: Bus, task: Task) -> Said | None:
    """What a task that follows from ``task`` carries; what no witness signed stays behind."""
    if task.said is None and bus.name in WITNESSES and (words := said_in(task)):
        return sign_said(bus, words, task.deadline)
    return task.said


class SaidChecker:
    """Checks what tasks carry, with the public keys that the admin published for the signers."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._keys: dict[str, tuple[str, ...]] = {bus.name: (bus.public_key,)}

    async def check(self, task: Task) -> Task:
        """``task``, without what a witness did not sign, or signed for an earlier time.

        Raises BusError if the signer's key cannot be read, which says nothing about the signature.
        """
        if task.said is None or await self._is_valid(task.said):
            return task
        log.warning("said_unsigned", task_id=task.task_id, requester=task.requester, by=task.said.by)
        return amended(task, said=None)

    async def _is_valid(self, said: Said) -> bool:
        until = datetime.fromisoformat(said.until)
        if said.by not in WITNESSES or (until if until.tzinfo else until.replace(tzinfo=UTC)) < datetime.now(
            UTC
        ):
            return False
        if self._signed_by_known(said) or said.by == self._bus.name:
            return self._signed_by_known(said)
        self._keys[said.by] = await read_keys(self._bus, said.by)
        return self._signed_by_known(said)

    def _signed_by_known(self, said: Said) -> bool:
        keys = self._keys.get(said.by, ())
        return any(is_signed(said.signed(), said.signature, key) for key in keys)


def is_named(path: str, task: Task) -> bool:
    """Whether the words of people that led to ``task`` name the file, or a folder it lies in."""
    words = said_in(task).replace("~/", f"{Path.home()}/")
    pure = PurePosixPath(path)
    if ".." in pure.parts:
        return False  # it leads out of what is named
    named = [pure, *(folder for folder in pure.parents if len(folder.parts) > 2)]
    if any(re.search(rf"(?<![\w./-]){re.escape(str(one))}(?!/?[\w-]|\.\w)", words) for one in named):
        return True
    # A plan has where links lead, a person perhaps not.
    said = {Path(each.rstrip(".:")).resolve() for each in PATH.findall(words)}
    return not said.isdisjoint(map(Path, named))


def is_address_named(url: str, task: Task) -> bool:
    """Whether the words of people that led to ``task`` name the host of ``url``."""
    host = urlsplit(url).hostname or ""
    return bool(
        host and re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", said_in(task), re.IGNORECASE)
    )


def is_said(text: str, task: Task) -> bool:
    """Whether a person said ``text``, or at least every line of it that names something.

    False if neither a person nor a witness submitted ``task``.
    """
    if task.requester not in (*WITNESSES, subjects.USER, task.assignee):
        return False
    words = said_in(task)
    return all(line in words for line in _naming(text).splitlines())


def _naming(words: str) -> str:
    return "\n".join(line for line in words.splitlines() if _NAMING.search(line))


# --- what is added to a goal ------------------------------------------------------------------------


class NewInstructions:
    """Reads what was added to the goal of a task since it was submitted; each text is returned once.

    The record is the conductor's alone, by the rights of the broker. What the texts name counts as said by a
    person from then on, if the signature is the conductor's.
    """

    def __init__(self, bus: Bus, task: TaskContext) -> None:
        self._bus = bus
        self._task = task
        known = task.task.context.get("instructions")
        self._known = [str(text) for text in known] if isinstance(known, list) else []

    async def read(self) -> Sequence[str]:
        """The texts that are new; none if the bus cannot be reached."""
        goal_id = self._task.task.goal_id
        if not goal_id:
            return ()
        subject = subjects.record(subjects.CONDUCTOR, subjects.INSTRUCTIONS, goal_id)
        try:
            record = await read_record(self._bus, subject, Instructions)
            if record is None:
                return ()
            told = [each.text for each in record.value.instructions if each.text.strip()]
            new = [text for text in told if text not in self._known]
            if new and record.value.said is not None:
                said = amended(self._task.task, said=record.value.said)
                self._task.restate(await SaidChecker(self._bus).check(said))
        except (BusError, ValueError) as error:
            log.warning("instructions_unread", goal_id=goal_id, reason=str(error))
            return ()
        self._known += new
        return new
