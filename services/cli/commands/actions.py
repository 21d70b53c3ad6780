"""Actions of agents that commands run: each as a task of the person's, whose result is waited for."""

from typing import Any

from services.cli.connection import run_connected
from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_task, submission_entry, task_steps
from shared.contracts import Task, TaskResult, TaskStatus, generate_task_id
from shared.errors import BusUnavailable, MailroomError
from shared.queries.records import Listener
from shared.text.display import clean

TIMEOUT = 20.0
"""Seconds until an agent must have answered; if it runs, it takes a tenth of a second."""
POLL_INTERVAL = 0.5
"""Seconds between reads if no message arrives."""


def perform_action(
    agent: str, action: str, params: dict[str, Any], text: str, *, timeout: float = TIMEOUT
) -> TaskResult:
    """The result of an action; raises MailroomError with the reason if it is not completed.

    ``text`` is the text of the task: it says what is wanted. ``timeout`` is in seconds.
    """
    task = Task(
        task_id=generate_task_id(),
        text=text,
        assignee=agent,
        requester=subjects.USER,
        context={"action": action, "params": params},
    )
    result = run_connected(lambda bus: _run(bus, task, timeout))
    if result.status is not TaskStatus.COMPLETED:
        raise MailroomError(clean(result.error_message or f"It ended as {result.status}"))
    return result


async def _run(bus: Bus, task: Task, timeout: float) -> TaskResult:
    async def read_result() -> TaskResult | None:
        state = await read_task(bus, task)
        return state.result if state else None

    listener = Listener(bus, POLL_INTERVAL)
    await listener.subscribe(task_steps(task))
    await bus.commit([submission_entry(task)])
    try:
        return await listener.wait_for(read_result, timeout)
    except TimeoutError:
        raise BusUnavailable(
            f"{task.assignee} has not answered within {timeout:g} s; the task stays in its mailbox",
            "See with 'mailroom status' whether it runs",
        ) from None
