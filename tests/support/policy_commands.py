"""Commands to try the policy with, read from the file beside this one."""

from pathlib import Path


def _read() -> dict[str, dict[str, list[str]]]:
    groups: dict[str, dict[str, list[str]]] = {}
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    for block in text.split("\n== ")[1:]:
        heading, *lines = block.split("\n")
        group, name = heading.split()
        groups.setdefault(group, {})[name] = [line.replace("␤", "\n") for line in lines if line.strip()]
    return groups


_GROUPS = _read()
STOPPED = _GROUPS["stopped"]
HELD = _GROUPS["held"]
REACHING = _GROUPS["reaching"]["network"]
EVERYDAY = _GROUPS["everyday"]["work"]
