"""``$((...))``: the number where it is made of numbers alone."""

import ast
import math
import operator
import re
from collections.abc import Callable

from shared.policy.expansion import UNKNOWN

_NUMERIC = re.compile(r"[\d\s()+*/%<>&|^~-]{1,64}").fullmatch
_LENGTH = re.compile(r"\$\{#([A-Za-z_]\w*)\}")
_NAME = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?")
_LARGEST = 2**40


def _remainder(left: int, right: int) -> int:
    return int(math.fmod(left, right))  # towards zero, as the shell has it, not as Python has


_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda left, right: (left - _remainder(left, right)) // right,
    ast.Mod: _remainder,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}


def evaluate(text: str, value: Callable[[str], str]) -> str | None:
    """The number that ``text`` between the parentheses is, None where only running it would tell.

    ``value`` gives a variable's text.
    """
    counted = _LENGTH.sub(lambda match: _count(value(match[1])), text)
    plain = _NAME.sub(lambda match: f"({value(match[1])})", counted).replace("/", "//").strip()
    if not _NUMERIC(plain) or "**" in plain:
        return None
    try:
        number = _compute(ast.parse(plain, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return str(number)


def _count(value: str) -> str:
    return UNKNOWN if UNKNOWN in value else str(len(value))


def _compute(node: ast.expr) -> int:
    number: int
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        number = node.value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number = _compute(node.operand) * (-1 if isinstance(node.op, ast.USub) else 1)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        number = _OPERATIONS[type(node.op)](_compute(node.left), _compute(node.right))
    else:
        raise ValueError
    if abs(number) > _LARGEST:
        raise ValueError
    return number
