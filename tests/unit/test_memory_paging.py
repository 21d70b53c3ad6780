"""A page is cut where a message would be too large, and goes on from there."""

from services.memory.__main__ import fit_page
from shared.contracts import Node, NodePage

PAGE = NodePage(
    nodes=tuple(Node(id=f"n{n}", title="x", body="y" * 1_000) for n in range(5)), next="n4", version=7
)


def test_a_small_page_stays_as_it_is():
    assert fit_page(PAGE) is PAGE


def test_a_large_page_is_cut_and_leads_on():
    cut = fit_page(PAGE, most=3_000)
    assert [node.id for node in cut.nodes] == ["n0", "n1"]
    assert (cut.next, cut.version) == ("n1", 7)


def test_one_node_is_shown_however_large_it_is():
    cut = fit_page(PAGE, most=10)
    assert [node.id for node in cut.nodes] == ["n0"]
    assert cut.next == "n0"
