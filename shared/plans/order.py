"""The order of a plan's steps: which wait for which, and which wait for each other for ever."""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from shared.contracts import TaskStep
from shared.errors import ActionError

K = TypeVar("K", int, str)


def find_circle(waits_for: Mapping[K, Iterable[K]]) -> tuple[K, ...]:
    """Keys in a circle, each before the one it waits for and the first again at the end; empty for none."""
    try:
        TopologicalSorter(waits_for).prepare()
    except CycleError as error:
        return tuple(reversed(error.args[1]))  # the sorter lists what is waited for first
    return ()


def sort_steps(steps: Sequence[TaskStep]) -> TopologicalSorter[int]:
    """A prepared sorter over the step numbers; raises ActionError that names the steps of a circle."""
    waits_for = {step.step_number: step.dependencies for step in steps}
    if circle := find_circle(waits_for):
        names = {step.step_number: f"{step.step_number} ({step.action[:40]!r})" for step in steps}
        raise ActionError(
            f"The steps can never be done: {' waits for '.join(names[number] for number in circle)}",
            "Remove one of these dependencies",
        )
    sorter = TopologicalSorter(waits_for)
    sorter.prepare()
    return sorter


def group_steps(steps: Sequence[TaskStep]) -> tuple[tuple[int, ...], ...]:
    """The step numbers in groups: those of one can run at once, and each group after the one before."""
    sorter = sort_steps(steps)
    groups = []
    while sorter.is_active():
        group = tuple(sorted(sorter.get_ready()))
        groups.append(group)
        sorter.done(*group)
    return tuple(groups)
