"""Compares the reach that a command needs with what was granted; both are as in ApprovalRequest.reach."""

from collections.abc import Iterable

from shared.gate.registries import PUBLIC

NETWORK = "network"
"""The entry of a command whose hosts are not known beforehand."""


def reach_entries(words: Iterable[str]) -> tuple[str, ...]:
    """Words of the settings, registries and hosts, as entries."""
    entries = (word if word in PUBLIC or word.startswith("host:") else f"host:{word}" for word in words)
    return tuple(dict.fromkeys(entries))


def covering(needed: Iterable[str], granted: Iterable[str]) -> tuple[str, ...]:
    """What of ``granted`` the policy may count for ``needed``.

    A grant for unknown hosts opens those that the person named: it covers no other host that a command names.
    """
    known = set(granted)
    unnamed = any(entry.startswith("host:") and entry not in known for entry in needed)
    return tuple(sorted(known - {NETWORK} if unnamed else known))


def select_reach(needed: Iterable[str], granted: Iterable[str]) -> tuple[str, ...]:
    """What of ``granted`` a command gets that needs ``needed``: that alone, or every granted host."""
    wanted, known = set(needed), set(granted)
    hosts = {entry for entry in known if NETWORK in wanted and entry.startswith("host:")}
    return tuple(sorted(wanted & known | hosts))
