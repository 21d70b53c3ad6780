"""Rules about imports, and what breaks them."""

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


class Forbid(Rule, frozen=True, kw_only=True):
    """None of ``subjects`` imports any of ``objects``."""

    subjects: tuple[str, ...]
    objects: tuple[str, ...]

    def breaks(self, found: Import) -> bool:
        """Whether an import breaks the rule; what lies inside both belongs to the deeper one."""
        subject = _within(found.importer, self.subjects)
        target = _named(found, self.objects)
        if not subject or not target:
            return False
        if beneath(target, subject):
            return not beneath(found.importer, target)
        return not beneath(found.imported, subject)


class Only(Rule, frozen=True, kw_only=True):
    """``subjects`` import themselves and ``objects``, and nothing else of the repository.

    Packages from elsewhere are bound too where ``objects`` names one of them.
    """

    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    outside: bool = False

    def breaks(self, found: Import) -> bool:
        """Whether an import breaks the rule; the standard library is always allowed."""
        subject = _within(found.importer, self.subjects)
        if not subject or _named(found, self.objects):
            return False
        if found.internal:
            return not beneath(found.imported, subject) and not beneath(subject, found.imported)
        return self.outside and not _is_standard(found)


class Sole(Rule, frozen=True, kw_only=True):
    """Nothing but ``subjects`` imports ``objects``."""

    subjects: tuple[str, ...]
    objects: tuple[str, ...]

    def breaks(self, found: Import) -> bool:
        """Whether an import breaks the rule; a module may always import its own parts."""
        target = _named(found, self.objects)
        if not target or _within(found.importer, self.subjects):
            return False
        return not beneath(found.importer, target)


class Layers(Rule, frozen=True, kw_only=True):
    """No layer imports one above it; ``levels`` go from the top down.

    The members of a level in ``closed`` do not import each other either.
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
        places = [
            (level, name)
            for level, names in enumerate(self.levels)
            for name in names
            if beneath(module, name)
        ]
        return max(places, key=lambda place: len(place[1]), default=None)


class Independent(Rule, frozen=True, kw_only=True):
    """The ``members``, or the parts of a ``parent``, do not import one another."""

    parent: str = ""
    members: tuple[str, ...] = ()

    def breaks(self, found: Import) -> bool:
        """Whether one member imports another."""
        importer, imported = self._member(found.importer), self._member(found.imported)
        return found.internal and bool(importer and imported) and importer != imported

    def _member(self, module: str) -> str:
        if self.parent:
            inner = module.removeprefix(f"{self.parent}.")
            return inner.split(".", maxsplit=1)[0] if inner != module else ""
        return max((name for name in self.members if beneath(module, name)), key=len, default="")


AnyRule = Forbid | Only | Sole | Layers | Independent


def beneath(module: str, name: str) -> bool:
    """Whether ``module`` is ``name`` or a part of it."""
    return module == name or module.startswith(f"{name}.")


def applies(rule: AnyRule, found: Import) -> bool:
    """Whether ``found`` breaks ``rule``, exceptions considered."""
    if found.typing and not rule.typing:
        return False
    # import-linter sees of a package from elsewhere only its outermost name
    names = {found.imported, found.imported if found.internal else found.imported.split(".", maxsplit=1)[0]}
    excepted = any(
        _matches(found.importer, left) and any(_matches(name, right) for name in names)
        for left, right in rule.ignored
    )
    return not excepted and rule.breaks(found)


def _matches(module: str, pattern: str) -> bool:
    """import-linter's patterns: ``*`` is one part of a name, ``**`` any number of them."""
    return _match(module.split("."), pattern.split("."))


def _match(parts: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_match(parts[taken:], pattern[1:]) for taken in range(1, len(parts) + 1))
    return bool(parts) and pattern[0] in ("*", parts[0]) and _match(parts[1:], pattern[1:])


def _within(module: str, names: tuple[str, ...]) -> str:
    """The deepest of ``names`` that ``module`` belongs to; empty for none."""
    return max((name for name in names if beneath(module, name)), key=len, default="")


def _named(found: Import, names: tuple[str, ...]) -> str:
    if THIRD_PARTY in names and not found.internal and not _is_standard(found):
        return THIRD_PARTY
    return _within(found.imported, names)


def _is_standard(found: Import) -> bool:
    name = found.imported.split(".", maxsplit=1)[0]
    if found.file.endswith(".py"):
        return name in sys.stdlib_module_names
    return (
        "." not in found.imported.split("/", maxsplit=1)[0]
        if found.file.endswith(".go")
        else name.startswith("node:")
    )
