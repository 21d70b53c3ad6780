"""Rules about imports, and what breaks them."""

import functools
import re
import sys

import msgspec

from services.critic.imports import Import

THIRD_PARTY = "<third party>"
"""Stands among the objects of a rule for every package from elsewhere that is not of the standard library."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What all rules have: how it was stated, and where (``file:line``)."""

    text: str = ""
    source: str = ""
    typing: bool = False
    """Whether imports for a type checker alone count."""
    ignored: tuple[tuple[str, str], ...] = ()
    """Imports that the rule itself excepts, as patterns of importer and imported."""
    subjects: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


class Forbidden(Rule, frozen=True, kw_only=True):
    """None of ``subjects`` imports any of ``objects``."""

    def breaks(self, found: Import) -> bool:
        """Whether an import breaks the rule; what lies inside both belongs to the deeper one."""
        subject = _deepest(found.importer, self.subjects)
        target = _named(found, self.objects)
        if not subject or not target:
            return False
        if is_within(target, subject):
            return not is_within(found.importer, target)
        return not is_within(found.imported, subject)


class AllowedOnly(Rule, frozen=True, kw_only=True):
    """``subjects`` import themselves and ``objects``, and nothing else of the repository.

    Packages from elsewhere are bound too if ``objects`` names one of them.
    """

    outside: bool = False

    def breaks(self, found: Import) -> bool:
        """Whether an import breaks the rule; the standard library is always allowed."""
        subject = _deepest(found.importer, self.subjects)
        if not subject or _named(found, self.objects):
            return False
        if found.internal:
            return not is_within(found.imported, subject) and not is_within(subject, found.imported)
        return self.outside and not _is_standard(found)


class Protected(Rule, frozen=True, kw_only=True):
    """Nothing but ``subjects`` imports ``objects``."""

    def breaks(self, found: Import) -> bool:
        """Whether an import breaks the rule; a module may always import its own parts."""
        target = _named(found, self.objects)
        if not target or _deepest(found.importer, self.subjects):
            return False
        return not is_within(found.importer, target)


class Layers(Rule, frozen=True, kw_only=True):
    """No layer imports one above it; ``levels`` go from the top down.

    The members of a level in ``closed`` do not import each other either; a single such level makes them
    independent of one another.
    """

    levels: tuple[tuple[str, ...], ...]
    closed: frozenset[int] = frozenset()

    def breaks(self, found: Import) -> bool:
        """Whether an import goes upwards, or across a closed level."""
        importer, imported = self._place(found.importer), self._place(found.imported)
        if importer is None or imported is None or not found.internal:
            return False
        if importer[0] == imported[0]:
            return importer[0] in self.closed and importer[1] != imported[1]
        return imported[0] < importer[0]

    def _place(self, module: str) -> tuple[int, str] | None:
        named = [(level, name) for level, names in enumerate(self.levels) for name in names]
        places = [place for place in named if is_within(module, place[1])]
        return max(places, key=lambda place: len(place[1]), default=None)


AnyRule = Forbidden | AllowedOnly | Protected | Layers


def is_within(module: str, name: str) -> bool:
    """Whether ``module`` is ``name`` or a part of it."""
    return module == name or module.startswith(f"{name}.")


def is_broken_by(rule: AnyRule, found: Import) -> bool:
    """Whether ``found`` breaks ``rule``, exceptions considered."""
    if found.typing and not rule.typing:
        return False
    # import-linter sees of a package from elsewhere only its outermost name
    names = {found.imported, found.imported if found.internal else found.imported.split(".", maxsplit=1)[0]}
    excepted = any(
        compile_pattern(left).fullmatch(found.importer) and any(map(compile_pattern(right).fullmatch, names))
        for left, right in rule.ignored
    )
    return not excepted and rule.breaks(found)


@functools.cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """import-linter's patterns: ``*`` is one part of a name, ``**`` one or more of them."""
    parts = {"*": "[^.]+", "**": r"[^.]+(?:\.[^.]+)*"}
    return re.compile(r"\.".join(parts.get(part, re.escape(part)) for part in pattern.split(".")))


def _deepest(module: str, names: tuple[str, ...]) -> str:
    """The deepest of ``names`` that ``module`` belongs to; empty for none."""
    return max((name for name in names if is_within(module, name)), key=len, default="")


def _named(found: Import, names: tuple[str, ...]) -> str:
    if THIRD_PARTY in names and not found.internal and not _is_standard(found):
        return THIRD_PARTY
    return _deepest(found.imported, names)


def _is_standard(found: Import) -> bool:
    """Whether the imported package belongs to the language itself."""
    name = found.imported.split(".", maxsplit=1)[0]
    if found.file.endswith(".py"):
        return name in sys.stdlib_module_names
    if found.file.endswith(".go"):
        return "." not in found.imported.split("/", maxsplit=1)[0]
    return name.startswith("node:")
