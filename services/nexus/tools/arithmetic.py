"""Arithmetic, percentages and units."""

import ast
import math
import operator
import re
from collections.abc import Callable
from datetime import date
from typing import Any

from services.nexus.routing.request import Request
from services.nexus.tools.clock import tell_clock
from services.nexus.tools.tool import Answer, Tool, ToolContext, Words, ask_back
from shared.language.sayings import read_sayings
from shared.language.times.days import find_days
from shared.language.times.time_phrases import CARDINALS

WAYS = read_sayings(__file__, "arithmetic")

_NUMBER = r"(?:\d+(?:\.\d+)?|\.\d+)"
_WORDS = (
    (r"(?<=\d),(?=\d{3}\b)", ""),
    (r"[×✕x](?=\s*\d)(?<=\d.|.\s)", "*"),
    (r"÷", "/"),
    (rf"({_NUMBER})\s*dozen\b", r"(\1*12)"),
    (
        rf"\b(?:split|share|divide)\s+(?:up\s+)?\D{{0,12}}?({_NUMBER})\s*[a-z]*\s+(?:(?:equally|evenly)\s+)?(?:between|among(?:st)?|by|into|across)"
        rf"\s+(?:the\s+)?({_NUMBER})",
        r"\1 / \2",
    ),
    (r"\b(?:times|multiplied by)\b", "*"),
    (r"\b(?:divided by|over)\b", "/"),
    (r"\bplus\b", "+"),
    (r"\bminus\b", "-"),
    (r"\^|\bto the power of\b", "**"),
    (
        r"(?<=[\d)])\s*,?\s+(?:(?:euros?|dollars?|pounds?|cents?|pence|bucks|each)\s*,?\s*)?(?=[-+*/]\s*[\d(])",
        " ",
    ),
    (rf"\+\s*({_NUMBER})\s*(?:%|percent\b|per cent\b)(?!\s*of)", r"* (1 + \1/100)"),
    (rf"(?<=[\d)])\s+-\s*({_NUMBER})\s*(?:%|percent\b|per cent\b)(?!\s*of)", r" * (1 - \1/100)"),
    (r"\bsquared\b", "**2"),
    (r"\bcubed\b", "**3"),
)
_SMALL = {word: str(number) for word, number in CARDINALS.items()} | {
    "zero": "0",
    "seventy": "70",
    "eighty": "80",
    "hundred": "100",
}
_PERCENT_OF = re.compile(
    rf"(?P<share>{_NUMBER})\s*(?:%|percent|per cent)\s*(?:of|from|on)\s*\D{{0,12}}?(?P<whole>{_NUMBER})"
)
_PERCENT_ADDED = re.compile(
    rf"add\s+(?P<share>{_NUMBER})\s*(?:%|percent)[^\d]*?\bto\s+\D{{0,8}}?(?P<whole>{_NUMBER})"
)
_PERCENT_OFF = re.compile(
    rf"(?P<share>{_NUMBER})\s*(?:%|percent)\s*(?:off|discount|less|reduction)?\s*(?:on|off"
    rf"|from)\s*\D{{0,12}}?(?P<whole>{_NUMBER})"
)
_PERCENT_IS = re.compile(
    rf"(?:what\s+)?percent(?:age)?\s+(?:of\s+(?P<whole>{_NUMBER})\s+is\s+(?P<part>{_NUMBER})"
    rf"|is\s+(?P<part2>{_NUMBER})\s+of\s+(?P<whole2>{_NUMBER}))"
)
_PERCENT_CHANGE = re.compile(rf"from\s+\D{{0,5}}?(?P<old>{_NUMBER})\s+to\s+\D{{0,5}}?(?P<new>{_NUMBER})")
_SUM = re.compile(
    rf"\b(?P<what>sum|total|average|mean)\b[^\d]*(?P<numbers>{_NUMBER}(?:(?:\s*,\s*|\s+and\s+|\s*,\s*and\s+"
    rf"|\s+){_NUMBER})+)"
)
_SHARE_OF = re.compile(rf"(?P<top>\d+)\s*/\s*(?P<bottom>[1-9]\d*)\s+of\s+\D{{0,8}}?(?P<whole>{_NUMBER})")
_PART_OF = re.compile(
    rf"(?P<part>{_NUMBER})\s+(?:out\s+)?of\s+(?:the\s+)?(?P<whole>{_NUMBER})\b.*\b(?:percent|per\s?cent)"
)
_AREA = re.compile(
    rf"(?P<a>{_NUMBER})\s*(?P<unit>[a-z]+)?\s+by\s+(?P<b>{_NUMBER})\s*(?P<unit2>[a-z]+)?\b.*\b(?:area|square|surface|floor)|\barea\b.*?(?P<a2>{_NUMBER})\s*(?P<unit3>[a-z]+)?\s+by\s+(?P<b2>{_NUMBER})"
)
_ROOT = re.compile(rf"square root of\s*(?P<number>{_NUMBER})")
_FRACTION = re.compile(
    rf"\b(?:a\s+)?(?P<part>half|third|quarter|fifth|tenth)\s+of\s+\D{{0,5}}?(?P<whole>{_NUMBER})"
    rf"|\b(?P<grown>double|triple|twice)\s+(?P<base>{_NUMBER})"
)
_PARTS = {
    "half": 1 / 2,
    "third": 1 / 3,
    "quarter": 1 / 4,
    "fifth": 1 / 5,
    "tenth": 1 / 10,
    "double": 2.0,
    "triple": 3.0,
    "twice": 2.0,
}
_UNIT = r"(?:°\s?[CF]|[a-zA-Zµ]+(?:\s?/\s?[a-z]+|\s?(?:squared|square|cubed|cubic)\s?[a-z]+)?)"
_CONVERT = re.compile(
    rf"(?P<number>{_NUMBER}|an?)\s*(?P<unit>{_UNIT})(?:\s+(?P<more>{_NUMBER})\s*(?P<more_unit>[a-z]+)?)?\s+(?:in(?:to)?|to|as)\s+(?P<target>{_UNIT})"
)
_TOLD_FIRST = re.compile(
    rf"\b(?P<number>{_NUMBER})\s*(?P<unit>{_UNIT})(?:\s+(?P<more>{_NUMBER})\s*(?P<more_unit>[a-z]+)?)?\s*[,;:?]?\s+"
    rf"(?:(?:so|and|then)\s+)?how\s+(?:many|much)\s+(?P<target>{_UNIT})\b"
)
"""The amount before the question: "it is 3.2 hectares, how many acres is that"."""
_HOW_MANY = re.compile(
    rf"how\s+(?:many|much|long)\s+(?P<target>{_UNIT})\s+(?:are|is|there|do|does|in|make|go|fit"
    rf"|\s)+\s*(?P<number>{_NUMBER}|an?|the"
    rf"|one)\s*(?P<unit>{_UNIT})(?:\s+(?P<more>{_NUMBER})\s*(?P<more_unit>[a-z]+)?)?"
)
_UNITS = {
    "f": "degF",
    "°f": "degF",
    "fahrenheit": "degF",
    "c": "degC",
    "°c": "degC",
    "celsius": "degC",
    "mph": "mile/hour",
    "kmh": "km/hour",
    "cups": "cup",
    "feet": "foot",
    "pounds": "pound",
    "tonne": "tonne",
    "tonnes": "tonne",
    "mb": "megabyte",
    "gb": "gigabyte",
    "kb": "kilobyte",
    "tb": "terabyte",
    "stones": "stone",
    "stone": "stone",
    "litres": "liter",
    "ounces": "ounce",
    "h": "hour",
    "min": "minute",
    "mins": "minute",
    "hrs": "hour",
}
_EXPRESSION = re.compile(r"[-+(]*\s*\d[\d\s.+*/()%-]*")
_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
MOST = 10**15  # Numbers beyond are not computed with: a power of a power can take minutes


async def work_out(context: ToolContext, request: Request, words: Words) -> Answer:
    """The result, with what was computed; what counts days or weeks to a date is the clock's."""
    try:
        result = compute(request.text)
    except (ArithmeticError, ValueError) as error:
        return ask_back(f"That cannot be computed: {error}")
    if result:
        return Answer(text=result)
    if find_days(request.text, date.today()):  # noqa: DTZ011 - whether one is named, whatever the day
        return await tell_clock(context, request, words)
    return ask_back("I could not read that as a sum. For example: 12% of 340, or 5 miles in km")


def compute(text: str) -> str:
    """The result of the sum in ``text``, as ``12% of 340 = 40.8``; empty if there is none."""
    lower = text.lower().strip()
    for word, number in _SMALL.items():
        lower = re.sub(rf"\b{word}\b(?!\s+(?:of the|more))", number, lower)
    lower = re.sub(r"\b([2-9]0) ([1-9])\b", lambda found: str(int(found[1]) + int(found[2])), lower)
    for pattern, sign in _WORDS:
        lower = re.sub(pattern, sign, lower)
    return _compute_share(lower) or _convert(lower) or _compute_list(lower) or _compute_expression(lower)


def _compute_share(text: str) -> str:
    if found := _PERCENT_ADDED.search(text):
        share, whole = float(found["share"]), float(found["whole"])
        return f"{_show(whole)} + {_show(share)}% = {_show(whole * (1 + share / 100))}"
    if ("discount" in text or " off" in text) and (found := _PERCENT_OFF.search(text)):
        share, whole = float(found["share"]), float(found["whole"])
        return f"{_show(whole)} - {_show(share)}% = {_show(whole * (1 - share / 100))}"
    if found := _PERCENT_OF.search(text):
        share, whole = float(found["share"]), float(found["whole"])
        return f"{_show(share)}% of {_show(whole)} = {_show(share * whole / 100)}"
    if found := _SHARE_OF.search(text):
        part = float(found["whole"]) * int(found["top"]) / int(found["bottom"])
        return f"{found['top']}/{found['bottom']} of {found['whole']} = {_show(part)}"
    if found := _PART_OF.search(text):
        part, whole = float(found["part"]), float(found["whole"])
        return f"{_show(part)} is {_show(100 * part / whole)}% of {_show(whole)}"
    if found := _AREA.search(text):
        one, two = float(found["a"] or found["a2"]), float(found["b"] or found["b2"])
        unit = found["unit2"] or found["unit"] or found["unit3"] or ""
        return f"{_show(one)} by {_show(two)} = {_show(one * two)} {f'square {unit}' if unit else ''}".strip()
    if found := _PERCENT_IS.search(text):
        part, whole = float(found["part"] or found["part2"]), float(found["whole"] or found["whole2"])
        return f"{_show(part)} is {_show(100 * part / whole)}% of {_show(whole)}"
    if "percent" in text or "%" in text:
        if found := _PERCENT_CHANGE.search(text):
            old, new = float(found["old"]), float(found["new"])
            return f"From {_show(old)} to {_show(new)} is {_show(100 * (new - old) / old)}%"
        if found := re.search(rf"({_NUMBER}) as a percent", text):
            return f"{found[1]} = {_show(100 * float(found[1]))}%"
    if found := _FRACTION.search(text):
        name, base = found["part"] or found["grown"], float(found["whole"] or found["base"])
        return f"{name} of {_show(base)} = {_show(_PARTS[name] * base)}"
    return ""


def _compute_list(text: str) -> str:
    if found := _ROOT.search(text):
        return f"√{found['number']} = {_show(math.sqrt(float(found['number'])))}"
    if found := _SUM.search(text):
        numbers = [float(number) for number in re.findall(_NUMBER, found["numbers"])]
        mean = found["what"] in ("average", "mean")
        return f"The {found['what']} is {_show(sum(numbers) / (len(numbers) if mean else 1))}"
    return ""


def _convert(text: str) -> str:
    found = _HOW_MANY.search(text) or _CONVERT.search(text) or _TOLD_FIRST.search(text)
    if not found:
        return ""
    import pint

    units: pint.UnitRegistry[float] = pint.UnitRegistry()
    try:
        quantity: Any = units.Quantity(_number(found["number"]), _unit(found["unit"]))
        if found["more"]:
            default = "inch" if _unit(found["unit"]) == "foot" else "minute"
            quantity += units.Quantity(float(found["more"]), _unit(found["more_unit"] or default))
        result = quantity.to(_unit(found["target"]))
    except (pint.errors.PintError, AttributeError, ValueError, TypeError, AssertionError, KeyError):
        return ""
    more = f" {found['more']} {found['more_unit'] or ''}".rstrip() if found["more"] else ""
    return f"{found['number']} {found['unit']}{more} = {_show(float(result.magnitude))} {found['target']}"


def _unit(name: str) -> str:
    name = re.sub(r"\b(square|squared)\s+(\w+)", r"\2**2", name.strip().lower())
    return _UNITS.get(name, name)


def _number(text: str) -> float:
    return float(text) if text[0].isdigit() or text[0] == "." else 1.0


def _compute_expression(text: str) -> str:
    candidates = sorted(_EXPRESSION.findall(text), key=len, reverse=True)
    for candidate in candidates[:3]:
        shown = re.sub(r"(?<![\d.])0+(?=\d)", "", candidate.strip().rstrip("+-*/%(. "))
        if not re.search(r"\d\s*[-+*/%]", shown):
            continue
        try:
            tree = ast.parse(shown, mode="eval")
        except SyntaxError:  # "1.2.3 - 4" is a version, not a number
            continue
        return f"{shown} = {_show(_evaluate(tree.body))}"
    return ""


def _evaluate(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if abs(number) < MOST:
            return number
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, power = _evaluate(left), _evaluate(right)
            if abs(base) > MOST or abs(power) > 100 or abs(base) ** abs(power) > 10**60:
                raise ValueError("the number is too large")
            return float(base**power)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(left), _evaluate(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(operand))
    raise ValueError("it is no sum")


def _show(number: float) -> str:
    rounded = round(number, 6 if abs(number) < 1 else 4)
    return f"{int(rounded):,}" if rounded == int(rounded) and abs(rounded) < MOST else f"{rounded:,}"


ARITHMETIC = Tool(
    name="arithmetic",
    description="computes sums and percentages, and converts units",
    needs=WAYS["needed"],
    says=WAYS["says"],
    run=work_out,
)
