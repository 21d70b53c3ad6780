"""Patterns of NATS subjects, and what two of them have in common."""

import re


def pattern_of(address: str) -> str:
    """The pattern that matches what an address stands for: a whole subject takes the rest."""
    return re.sub(r"{\w+}", "*", address.replace("{subject}", ">"))


def overlap(one: str, other: str) -> str:
    """The pattern of the subjects that match both; empty if there are none."""
    left, right = one.split("."), other.split(".")
    common: list[str] = []
    for place in range(max(len(left), len(right))):
        a = left[place] if place < len(left) else ""
        b = right[place] if place < len(right) else ""
        if ">" in (a, b):
            rest = right[place:] if a == ">" else left[place:]
            return ".".join([*common, *rest]) if rest else ""
        if not a or not b or (a != b and "*" not in (a, b)):
            return ""
        common.append(b if a == "*" else a)
    return ".".join(common)
