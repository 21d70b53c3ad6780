"""Prints the figures of the code; ends with exit code 1 if one is over its limit, or for an import circle.

Run it as ``python -m tests.house``. Product code is ``services`` and ``shared``. How many lines and modules
each package may have is in house.toml; ``python -m tests.house --lower`` lowers that to what there is.
"""

import ast
import importlib
import re
import statistics
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import grimp
import rustworkx

from shared.agent.base import Agent

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("services", "shared")
LONG_MODULE, LONG_FUNCTION = 250, 40
"""Lines over which a module and a function count as long."""
LIMITS = {"largest module": 500, "largest function": 60, "longest MRO": 3, "same module name": 3}
"""What nothing may exceed."""
BUDGET = ROOT / "house.toml"

Size = tuple[int, int]
"""The lines and the modules of a package."""


class Figure(NamedTuple):
    """A name, a number, and where that number comes from."""

    name: str
    number: int
    where: str = ""


def list_modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def measure_modules() -> list[Figure]:
    """The number of modules, their lines (as ``wc -l`` counts), and the module that has most of them."""
    lines = {path: path.read_bytes().count(b"\n") for path in list_modules()}
    largest = max(lines, key=lines.__getitem__)
    return [
        Figure("modules", len(lines)),
        Figure("lines", sum(lines.values())),
        Figure(
            "long modules", sum(each > LONG_MODULE for each in lines.values()), f"over {LONG_MODULE} lines"
        ),
        Figure("largest module", lines[largest], str(largest.relative_to(ROOT))),
    ]


def measure_functions() -> list[Figure]:
    """The number of functions, their lines, each from its ``def`` to its last, and the largest."""
    sizes = [
        Figure("largest function", node.end_lineno - node.lineno + 1, f"{path.relative_to(ROOT)} {node.name}")
        for path in list_modules()
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    ]
    lines = [figure.number for figure in sizes]
    return [
        Figure("functions", len(sizes), f"half have at most {statistics.median(lines):g} lines"),
        Figure("long functions", sum(each > LONG_FUNCTION for each in lines), f"over {LONG_FUNCTION} lines"),
        max(sizes, key=lambda figure: figure.number),
    ]


def measure_names() -> Figure:
    """The name that most modules have, beside ``__init__`` and ``__main__``, which Python asks for."""
    names = Counter(path.name for path in list_modules() if not path.name.startswith("__"))
    name, number = names.most_common(1)[0]
    return Figure("same module name", number, name)


def agent_classes() -> Iterator[type[Agent]]:
    """The classes that the agents of ``services`` run as."""
    for path in sorted((ROOT / "services").glob("*/profile.yaml")):
        module = importlib.import_module(f"services.{path.parent.name}.__main__")
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, Agent) and found.__module__ == module.__name__:
                yield found


def measure_inheritance() -> Figure:
    """The length of the longest method resolution order of an agent's class; ``object`` counts."""
    longest = max(agent_classes(), key=lambda found: len(found.__mro__))
    return Figure("longest MRO", len(longest.__mro__), longest.__name__)


def read_imports() -> "rustworkx.PyDiGraph[str, None]":
    """Which module imports which, also within functions and for type hints alone.

    Importing a module from outside its package runs the package's ``__init__`` first, so that counts too.
    """
    imports = grimp.build_graph(*PACKAGES, cache_dir=None)
    graph: rustworkx.PyDiGraph[str, None] = rustworkx.PyDiGraph(multigraph=False)
    nodes = {module: graph.add_node(module) for module in sorted(imports.modules)}
    for importer, node in nodes.items():
        for imported in imports.find_modules_directly_imported_by(importer):
            loaded = {imported, *_packages_entered(importer, imported)}
            graph.add_edges_from_no_data([(node, nodes[each]) for each in sorted(loaded)])
    return graph


def _packages_entered(importer: str, imported: str) -> Iterator[str]:
    parts = imported.split(".")
    packages = (".".join(parts[:depth]) for depth in range(1, len(parts)))
    return (package for package in packages if not f"{importer}.".startswith(f"{package}."))


def find_circles(graph: "rustworkx.PyDiGraph[str, None]") -> list[tuple[int, list[str]]]:
    """For each set of modules that import each other: its size, and its shortest circle as a path."""
    found = []
    for members in rustworkx.strongly_connected_components(graph):
        if len(members) > 1:
            part = graph.subgraph(members)
            paths = (
                [start, *rustworkx.dijkstra_shortest_paths(part, end, target=start)[start]]
                for start, end in part.edge_list()
            )
            found.append((len(members), [part[node] for node in min(paths, key=len)]))
    return found


def measure_packages() -> dict[str, Size]:
    """The size of each package: a folder of ``services`` or ``shared``; what lies beside these is one."""
    lines: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for path in list_modules():
        top, *inner = path.relative_to(ROOT).parent.parts
        package = "/".join([top, *inner[:1]])
        lines[package] += path.read_bytes().count(b"\n")
        modules[package] += 1
    return {package: (lines[package], modules[package]) for package in sorted(lines)}


def read_budget() -> dict[str, Size]:
    """The size that each package may have."""
    return {name: (lines, modules) for name, (lines, modules) in tomllib.loads(BUDGET.read_text()).items()}


def find_growth(sizes: Mapping[str, Size], budget: Mapping[str, Size]) -> list[str]:
    """A sentence for each package that is larger than its budget, or has none."""
    return [
        f"{name} has {lines} lines in {modules} modules, over {may[0]} and {may[1]}: "
        f"make it smaller, or change its line in {BUDGET.name} and say why"
        for name, (lines, modules) in sizes.items()
        if lines > (may := budget.get(name, (0, 0)))[0] or modules > may[1]
    ]


def lower_budget(text: str, sizes: Mapping[str, Size]) -> str:
    """The budget ``text`` with every number lowered to what there is; none is raised, no comment is lost."""

    def lower(line: re.Match[str]) -> str:
        lines, modules = sizes.get(line[1], (0, 0))
        return f'"{line[1]}" = [{min(lines, int(line[2]))}, {min(modules, int(line[3]))}]'

    return re.sub(r'^"(.+)" = \[(\d+), (\d+)\]', lower, text, flags=re.MULTILINE)


def find_over(figures: Iterable[Figure]) -> list[Figure]:
    """The figures that are over their limit."""
    return [figure for figure in figures if figure.number > LIMITS.get(figure.name, figure.number)]


def main() -> int:
    sizes = measure_packages()
    if "--lower" in sys.argv:
        BUDGET.write_text(lower_budget(BUDGET.read_text(), sizes))
    circles = find_circles(read_imports())
    figures = [*measure_modules(), measure_names(), *measure_functions(), measure_inheritance()]
    for figure in (*figures, Figure("import circles", len(circles))):
        print(f"{figure.name:<16} {figure.number:>6}  {figure.where}".rstrip())
    over = find_over(figures)
    for figure in over:
        print(
            f"{figure.name} is {figure.number}, over {LIMITS[figure.name]}: {figure.where}", file=sys.stderr
        )
    for size, path in circles:
        print(f"{size} modules import each other, for example {' -> '.join(path)}", file=sys.stderr)
    grown = find_growth(sizes, read_budget())
    for sentence in grown:
        print(sentence, file=sys.stderr)
    return 1 if circles or over or grown else 0


if __name__ == "__main__":
    sys.exit(main())
