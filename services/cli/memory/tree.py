"""A walk through the graph as an indented tree of lines."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from services.cli.screen import clean
from shared.contracts import Edge, Node, Path, Traversal, Visit

Prefix = tuple[str, str]
"""What stands before the first line of a branch, and before its further lines."""


def render_walk(walk: Traversal, changed_since: int = 0) -> Iterator[Text]:
    """Two lines a node: how it is joined to the one above and its title, then its id.

    A node whose parent was walked through but is not shown stands at the top, marked with "…". With
    ``changed_since`` only nodes that were written, or joined, after that graph version are shown, and the
    way to them.
    """
    shown = _chosen(walk, changed_since)
    ids = {visit.node.id for visit in shown}
    edges = {frozenset((edge.from_id, edge.to_id, str(edge.relation))): edge for edge in walk.edges}
    children: dict[str, list[Visit]] = {}
    for visit in shown:
        children.setdefault(visit.parent if visit.parent in ids else "", []).append(visit)
    for top in children.get("", ()):
        yield from _branch(top, children, edges, ("", ""))


def _chosen(walk: Traversal, changed_since: int) -> Sequence[Visit]:
    if not changed_since:
        return walk.visits
    joined = {
        end
        for edge in walk.edges
        if max(edge.version, edge.created_version) > changed_since
        for end in (edge.from_id, edge.to_id)
    }
    parents = {visit.node.id: visit.parent for visit in walk.visits}
    kept: set[str] = set()
    for visit in walk.visits:
        if visit.node.version > changed_since or visit.node.id in joined:
            step = visit.node.id
            while step in parents and step not in kept:
                kept.add(step)
                step = parents[step]
    return [visit for visit in walk.visits if visit.node.id in kept]


def _branch(
    top: Visit, children: dict[str, list[Visit]], edges: dict[frozenset[str], Edge], prefix: Prefix
) -> Iterator[Text]:
    """The lines of a node and of all beneath it, without recursion: a walk may be deep."""
    waiting = [(top, prefix)]
    while waiting:
        visit, (first, further) = waiting.pop()
        below = children.get(visit.node.id, ())
        yield _join(first, visit, edges)
        yield Text(f"{further}{'│ ' if below else '  '}{visit.node.id}", style="dim")
        for place, child in enumerate(reversed(below)):
            last = place == 0
            branch = (f"{further}{'└─' if last else '├─'} ", f"{further}{'   ' if last else '│  '}")
            waiting.append((child, branch))


def _join(first: str, visit: Visit, edges: dict[frozenset[str], Edge]) -> Text:
    line = Text(first)
    edge = edges.get(frozenset((visit.parent, visit.node.id, visit.relation)))
    if visit.parent and edge is None:
        line.append("… " if not first else "")
    if visit.parent:
        back = edge is not None and edge.to_id == visit.parent
        weight = f" {edge.weight:.2f}" if edge is not None else ""
        line.append(f"{'←' if back else '→'} {visit.relation}{weight} ", "cyan")
    return line.append(f"{visit.node.kind} ", "dim").append(clean(visit.node.title))


def render_path(path: Path) -> Iterator[Text]:
    """A way through the graph: its weight, then each node under the edge that leads to it."""
    steps = len(path.edges)
    yield Text(f"weight {path.weight:.3f}, {steps} step{'s' * (steps != 1)}", style="bold")
    for place, node in enumerate(path.nodes):
        edge = path.edges[place - 1] if place else None
        yield from _step(node, edge, path.nodes[place - 1].id if place else "")


def _step(node: Node, edge: Edge | None, before: str) -> Iterator[Text]:
    lead = Text("  ")
    if edge is not None:
        lead.append(f"{'→' if edge.from_id == before else '←'} {edge.relation} {edge.weight:.2f} ", "cyan")
    yield lead.append(f"{node.kind} ", "dim").append(clean(node.title))
    yield Text(f"    {node.id}", style="dim")
