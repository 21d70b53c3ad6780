"""A standing set of facts and questions, by which it is measured how well memory's model tells them apart."""

import asyncio
import operator

from shared.errors import MailroomError
from shared.memory import Memory
from shared.queries.learning_metrics import Share, compute_share

FACTS = (
    (
        "The staging server is called heron and stands in Frankfurt.",
        "What is the name of the staging machine?",
    ),
    ("Invoices are sent on the third working day of each month.", "When do customers get their invoices?"),
    ("Mira Okafor owns the billing service.", "Who is responsible for billing?"),
    ("We chose Postgres over MySQL because of its partial indexes.", "Why did we not take MySQL?"),
    ("The mobile app supports Android 11 and later.", "Which Android versions can run the app?"),
    ("Backups are kept for 90 days in a bucket in Dublin.", "How long are backups stored?"),
    ("Releases are cut from the branch named stable.", "From which branch is a release made?"),
    (
        "The rate limit of the public API is 600 requests a minute.",
        "How many calls a minute may a client make?",
    ),
    ("Tomasz prefers reviews of less than 200 lines.", "How large does Tomasz like a change to be?"),
    ("Feature flags are removed two weeks after a launch.", "When are old feature flags cleaned up?"),
    ("The search outage in May was caused by a full disk.", "What led to the search incident?"),
    ("Customer data never leaves the European region.", "Where may data of customers be stored?"),
    (
        "The design system is documented at the page called Atlas.",
        "Where do I find the component guidelines?",
    ),
    ("Passwords are hashed with argon2.", "How are passwords protected?"),
    ("The support team works from eight to six, Central European Time.", "When can support be reached?"),
    ("New hires get a laptop with Fedora on it.", "Which system do new colleagues' computers have?"),
    (
        "The nightly import reads 4 million rows from the warehouse.",
        "How much data does the import read at night?",
    ),
    ("Ines decides about the budget for tools.", "Who approves spending on software?"),
    (
        "The old admin panel is switched off at the end of September.",
        "Until when does the old admin panel run?",
    ),
    ("Error messages are translated by the agency Lingo.", "Who does the translations?"),
)
"""What is planted, each with a question in other words."""
EVENTS = (
    "Run the tests",
    "Check up on the repository",
    "Inspect the code",
    "Read the history",
    "Compare the folders",
)
NOISE = tuple(
    f"{what} of project {number} (2026-0{number % 9 + 1}-11). What was found: nothing that needs work. "
    f"It was asked: {what} of /srv/project{number}"
    for number in range(12)
    for what in EVENTS
)
"""What an office notes of its own work, among which the facts are to be found."""
BEST = 5
"""A fact is recalled if it is among so many of the nearest."""
WAIT = 20.0
"""Seconds that memory has for it; it takes a tenth of a second."""


async def measure_recall(memory: Memory) -> Share | None:
    """The share of the planted facts that memory's model has among the BEST nearest to their questions.

    Nothing is stored. None if memory does not answer.
    """
    texts = [*(fact for fact, _ in FACTS), *NOISE]
    try:
        async with asyncio.timeout(WAIT):
            vectors = await memory.embed(*texts, *(question for _, question in FACTS))
    except (MailroomError, TimeoutError):
        return None
    held, asked = vectors[: len(texts)], vectors[len(texts) :]
    found = []
    for place, question in enumerate(asked):
        scores = [sum(map(operator.mul, question, vector)) for vector in held]
        found.append(("", sum(score > scores[place] for score in scores) < BEST))
    share = compute_share(found)
    return share and Share(good=share.good, total=share.total, share=share.share)
