"""Order: which steps of a plan can be done when."""

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from shared.contracts import TaskStep
from shared.errors import ActionError


def sort_steps(steps: Sequence[TaskStep]) -> TopologicalSorter[int]:
    """A sorter over the step numbers, ready to be asked; raises ActionError that names steps in a circle."""
    sorter = TopologicalSorter({step.step_number: step.dependencies for step in steps})
    try:
        sorter.prepare()
    except CycleError as error:
        names = {step.step_number: f"{step.step_number} ({step.action[:40]!r})" for step in steps}
        # The sorter lists a circle from what is waited for to who waits.
        circle = " waits for ".join(names[number] for number in reversed(error.args[1]))
        raise ActionError(
            f"The steps can never be done: {circle}", "Take one of these dependencies out"
        ) from None
    return sorter


def group_steps(steps: Sequence[TaskStep]) -> tuple[tuple[int, ...], ...]:
    """The step numbers in groups: those of one group can be done at once, each group after the one before."""
    sorter = sort_steps(steps)
    groups = []
    while sorter.is_active():
        group = tuple(sorted(sorter.get_ready()))
        groups.append(group)
        sorter.done(*group)
    return tuple(groups)
