"""Compares the reach that a command needs with what was granted; both are as in ApprovalRequest.reach."""

from collections.abc import Collection, Iterable

from shared.gate.reachable import DEFAULT_PORTS, matches, split_port
from shared.gate.registries import PUBLIC

HOST = "host:"
NETWORK = "network"
"""The entry of a command whose hosts are not known beforehand."""


def reach_entries(words: Iterable[str]) -> tuple[str, ...]:
    """Words of the settings, registries and hosts, as entries."""
    entries = (word if word in PUBLIC or word.startswith(HOST) else HOST + word for word in words)
    return tuple(dict.fromkeys(entries))


def covering(needed: Iterable[str], granted: Collection[str]) -> tuple[str, ...]:
    """What of ``needed`` the policy may count as granted.

    A grant for unknown hosts opens those that the person named: it covers no other host that a command names.
    """
    wanted = list(needed)
    covered = [entry for entry in wanted if is_granted(entry, granted)]
    unnamed = any(entry.startswith(HOST) and entry not in covered for entry in wanted)
    return tuple(entry for entry in covered if entry != NETWORK or not unnamed)


def select_reach(needed: Collection[str], granted: Collection[str]) -> tuple[str, ...]:
    """What of ``granted`` a command gets that needs ``needed``: that alone, or every granted host."""
    hosts = [entry for entry in granted if NETWORK in needed and entry.startswith(HOST)]
    return tuple(sorted({*(entry for entry in needed if is_granted(entry, granted)), *hosts}))


def is_granted(entry: str, granted: Collection[str]) -> bool:
    """Whether ``entry`` is among ``granted``; a host also if a pattern there means it, with its ports."""
    if entry in granted or not entry.startswith(HOST):
        return entry in granted
    name, port = split_port(entry.removeprefix(HOST))
    patterns = [each.removeprefix(HOST) for each in granted if each.startswith(HOST)]
    ports = (port,) if port else DEFAULT_PORTS
    return all(any(matches(pattern, name, each) for pattern in patterns) for each in ports)
