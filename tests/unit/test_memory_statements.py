"""What is ended of a note is one of its statements: notes taken apart, and held against later ones."""

import functools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.memory.briefing.sections import UNRESOLVED
from services.memory.briefing.service import compose
from services.memory.linking.meaning import PairReader
from services.memory.linking.parts import PART, divide, take_apart
from services.memory.linking.supersession import Read
from services.memory.local_model import LocalEmbedder, is_complete
from services.memory.retrieval.deep_search import Reranker
from services.memory.retrieval.ranking import arrange
from shared.contracts import MemoryQuery, Node, Relation
from shared.settings import load
from tests.support.memory import NOW, World, at, edge, ids, note

LIMIT, OWNER = "A token may make 100 requests per minute.", "Sofia owns the API."


@functools.cache
def models() -> tuple[LocalEmbedder, Read]:
    found = load().models
    if not is_complete(found):  # as in the jail, where an agent runs these tests
        pytest.skip(f"no models in {found}")
    return LocalEmbedder(found), PairReader(Reranker(found)).read


@pytest.mark.parametrize(
    ("title", "body", "says"),
    [
        (f"{LIMIT} {OWNER}", "", [LIMIT, OWNER]),
        (LIMIT, f"{LIMIT} {OWNER}", [LIMIT, OWNER]),
        ("api › limits", "- 9 a minute\n- Jo owns it; 4 €", ["- 9 a minute", "- Jo owns it", "4 €"]),
        ("The hub is in Bonn, and is run by Jo", "", ["The hub is in Bonn", "The hub is run by Jo"]),
        ("Ask Dr. Blum, i.e. the vet. He is in.", "", ["Ask Dr. Blum, i.e. the vet.", "He is in."]),
        ("We buy flour and oil", "", ["We buy flour and oil"]),
        ("Deploy day is Monday", "Ines is in. So is Bo.", ["Deploy day is Monday\nInes is in. So is Bo."]),
        ("Deploy day", "It is Monday. Ask Bo.", ["It is Monday.", "Ask Bo."]),
        ("Version 4.2 is out", "", ["Version 4.2 is out"]),
    ],
)  # fmt: skip
def test_a_note_is_read_as_its_statements(title: str, body: str, says: list[str]) -> None:
    assert list(divide(Node(title=title, body=body))) == says


@pytest.mark.parametrize("place", range(3))
def test_what_is_taken_out_of_a_note_is_a_note_and_the_rest_stays_as_it_stands(place: int) -> None:
    body = f"{LIMIT} {OWNER} It runs on port 8080."
    held = note("n", LIMIT, body=body, tags=("api",), valid_from=at(0), agent="scout", session="s1")
    gone = divide(held)[place]
    rest, part = take_apart(held, {gone}, at(60))
    assert rest.body == " ".join(says for says in divide(held) if says != gone)
    assert rest.title == divide(rest)[0]
    assert (rest.id, rest.valid_to, part.title, part.valid_to) == ("n", "", gone, at(60))
    assert part.metadata == {PART: "n"}
    assert (part.source, part.tags, part.valid_from) == (held.source, held.tags, held.valid_from)


@given(st.text(max_size=200))
def test_any_note_can_be_taken_apart(text: str) -> None:
    held = Node(title="t", body=text)
    says = divide(held)
    for gone in set(says):
        if len(set(says)) > 1:
            rest, part = take_apart(held, {gone}, at(1))
            assert rest.body or rest.title
            assert part.title


def tell(*texts: str | Node) -> World:
    """A world in which these were told one after another, a minute apart, and linked each time."""
    embedder, read = models()
    world = World(embed=embedder.embed, read=read)
    for place, text in enumerate(texts):
        world.write(text if isinstance(text, Node) else note(f"n{place}", text, place))
        world.settle()
    return world


def hold(world: World) -> list[str]:
    """What holds, as texts."""
    nodes = world.view.nodes(world.view.select())
    return sorted(node.body or node.title for node in nodes if not node.valid_to)


@pytest.mark.parametrize(
    ("told", "later", "left"),
    [
        (f"{LIMIT} {OWNER}", "Tom owns the API now.", LIMIT),
        (f"{OWNER} {LIMIT}", "Tom owns the API now.", LIMIT),
        (f"{LIMIT} {OWNER}", "A token may make 250 requests per minute from now on.", OWNER),
        ("Standup is at 9:30. Retro is on Fridays.", "Standup moved to 9:45.", "Retro is on Fridays."),
        ("The depot closes at 18:00.\nKeys: Ahmed.", "The depot closes at 20:00 now.", "Keys: Ahmed."),
    ],
)
def test_a_note_loses_the_statement_that_is_ended_and_no_other(told: str, later: str, left: str) -> None:
    world = tell(told, later)
    assert hold(world) == sorted([left, later])
    ended = [node for node in world.view.nodes(world.view.select()) if node.valid_to]
    (edge,) = [edge for edge in world.view.graph.edges_of("n1") if edge.relation is Relation.SUPERSEDES]
    assert [node.id for node in ended] == [edge.to_id]
    assert ended[0].metadata[PART] == "n0"


CHANGES = [
    ("Standup is at 9:30 every day.", "Standup moved to 9:45"),
    ("We deploy on Tuesdays.", "Deploy day is Thursday from now on"),
    ("Priya is on call.", "On-call: Tomasz has taken over from Priya"),
    ("Billing is owned by Dana.", "Yusuf owns billing now"),
    ("The orders service uses MySQL.", "orders has been migrated to PostgreSQL"),
    ("The rate limit is 100 requests per minute.", "We raised the rate limit to 250 requests per minute"),
    ("Our office is in Lindenstrasse 12.", "The office moved to Hafenplatz 3"),
    ("Mailgun sends our mail.", "Mail is sent by Postmark since Monday"),
]


OTHER_WORDS = [
    ("The daily is at half past nine.", "daily starts a quarter of an hour later from now on, 9:45"),
    ("Releases go out on Tuesdays.", "we ship on Thursdays these days, not on Tuesdays"),
    ("The pager is with Priya.", "Priya has handed the pager to Tomasz"),
    ("Dana looks after invoicing.", "Invoicing is in Yusuf's hands since Dana left"),
    ("Orders keeps its rows in MySQL.", "We took orders off MySQL, its rows are in PostgreSQL"),
    ("Clients get 100 calls a minute.", "Clients may make 250 calls a minute as of today"),
    ("The shop is in Kirchgasse 7.", "The shop moved to 40 Mill Road"),
    ("Parcels are sent with DHL.", "GLS picks up our parcels since Monday, DHL is out"),
]
MOVES = [
    ("The office is in Lindenstrasse 12.", "The office moved to Hafenplatz 3"),
    ("Our practice is at 14 Mill Road.", "The practice has moved to Station Street 2"),
    ("The archive is in the cellar of Domgasse 1.", "The archive moved into Neuer Wall 40"),
    ("Address of the warehouse: Kaistrasse 90", "The warehouse moved to Am Ring 17 last week"),
    ("You find the youth club in Gartenweg 5.", "the youth club has relocated, it's in Kirchplatz 9"),
]


def test_plain_changes_are_seen_among_one_another() -> None:
    world = tell(*(text for pair in CHANGES for text in pair))
    held = hold(world)
    missed = [older for older, _ in CHANGES if older in held]
    assert len(missed) <= 1, missed
    assert not {newer for _, newer in CHANGES} - set(held)


@pytest.mark.parametrize(("older", "newer"), [*OTHER_WORDS, *MOVES])
def test_what_changes_in_other_words_is_ended_or_asked_about(older: str, newer: str) -> None:
    world = tell(older, newer)
    relations = {edge.relation for edge in world.view.graph.edges_of("n1")}
    assert relations & {Relation.SUPERSEDES, Relation.CONTRADICTS}
    assert newer in hold(world)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The payment gateway talks to Adyen, and is owned by Joao", "We write the payment gateway in Go"),
        ("The payment gateway is owned by Joao", "We decided to write the payment gateway in Go"),
        ("Samira works on Mondays", "Samira does not work on Fridays"),
        ("The API supports JSON", "The API does not support XML"),
        ("The clinic is open on Saturdays", "The clinic is not open on Sundays"),
        ("We ship to Norway", "We do not ship to Iceland"),
        ("Samira does not work on Fridays", "Samira works on Mondays"),
        ("The desk is 2.40 m long", "The desk is 240 cm long"),
        ("The parcel weighs 1.2 kg", "The parcel weighs 1200 g"),
        ("The cable is 3 m long", "The cable is 300 cm long"),
        ("The rope is 5 m long", "The rope is 500 cm long"),
        ("The tank holds 0.5 l", "The tank holds 500 ml"),
        ("Standup is at 9:30", "Should we move standup to 10?"),
        ("Dana owns billing", "Could Yusuf take over billing?"),
        ("Dana owns billing", "If Dana leaves, Yusuf would take over billing"),
        ("Billing is owned by Dana", "If Dana leaves, Yusuf takes over"),
        ("Dana runs support", "Should Dana ever quit, Yusuf would run support"),
        ("The shop closes at 18:00", "If the staff agrees, the shop would close at 19:00"),
        ("The backups go to Frankfurt", "In case Frankfurt floods, the backups would go to Dublin"),
        ("The timeout is 90 s", "The timeout is 1.5 min"),
        ("Logs are kept for 14 days", "Logs are kept for two weeks"),
        ("The cache holds 2 GB", "The cache holds 2000 MB"),
        ("A shift lasts 8 hours", "A shift lasts 480 minutes"),
        ("Uploads may have 1.5 GB", "Uploads may have 1500 MB"),
    ],
)  # fmt: skip
def test_neighbours_end_nothing(older: str, newer: str) -> None:
    world = tell(older, newer)
    assert hold(world) == sorted([older, newer])


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Samira works on Mondays", "Samira does not work on Fridays"),
        ("The API supports JSON", "The API does not support XML"),
        ("The clinic is open on Saturdays", "The clinic is not open on Sundays"),
        ("We ship to Norway", "We do not ship to Iceland"),
        ("Deploys are allowed on Tuesdays", "Deploys are not allowed on Fridays"),
    ],
)
def test_the_negation_of_something_else_contradicts_nothing(older: str, newer: str) -> None:
    edges: Sequence[object] = tell(older, newer).view.graph.edges_of("n1")
    assert not [edge for edge in edges if getattr(edge, "relation", None) is Relation.CONTRADICTS]


UNSURE = [
    (
        "Our practice is at 14 Mill Road.",
        "The practice has moved to Station Street 2",
        "Where is our practice?",
    ),
    ("Warehouse: Kaistrasse 90", "The warehouse moved to Am Ring 17 last week", "Where is the warehouse?"),
    ("The retro is led by Ines.", "Omar will be leading the retro from what I hear", "Who leads the retro?"),
    ("The cat eats dry food.", "the cat gets tuna", "What does the cat eat?"),
    ("Releases are signed by Noor.", "the release has Piet's signature", "Who signs releases?"),
]


@pytest.mark.parametrize(("older", "newer", "question"), UNSURE)
def test_where_it_is_not_sure_the_newer_one_is_first_and_the_older_is_marked(
    older: str, newer: str, question: str
) -> None:
    world = tell(older, newer)
    assert hold(world) == sorted([older, newer])
    embedder, _ = models()
    query = MemoryQuery(text=question)
    hits = arrange(world.view.search(query, embedder.embed([question])[0], NOW), query, world.view.vectors)
    assert [(hit.node.title, hit.questioned_by) for hit in hits] == [(newer, ""), (older, "n1")]
    scout = note("scout", "Scout", kind="agent")
    world.write(scout, edges=[edge(each, "scout") for each in ("n0", "n1")])
    shown = ids(compose(world.view, "scout", NOW))
    assert {section for section, nodes in shown.items() if "n0" in nodes} == {UNRESOLVED}
