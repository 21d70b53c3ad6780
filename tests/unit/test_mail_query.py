"""What mail a message asks for: words, senders and days."""

from datetime import UTC, datetime

import pytest

from services.nexus.tools.letters import MailWanted, parse_wanted

NOW = datetime(2026, 3, 18, 14, 5, tzinfo=UTC)
"""A Wednesday."""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("find the mail from Ana about the invoice", {"senders": ("Ana",), "words": ("invoice",)}),
        ("any mail from the bank?", {"senders": ("bank",)}),
        ("search my mail for tickets", {"words": ("tickets",)}),
        ("has the landlord replied yet?", {"senders": ("landlord",)}),
        ("find Tom's mail on the tyre prices", {"senders": ("Tom",), "words": ("tyre", "prices")}),
        ("the email where Mrs Okafor sent the allergy list", {"senders": ("Okafor",), "words": ("allergy",)}),
        ("what did Ana Maria write?", {"senders": ("Ana Maria",)}),
        ("read me the last email", {}),
        ("any new mail?", {"unread": True}),
        ("unread messages from the supplier", {"senders": ("supplier",), "unread": True}),
        ("is there a new letter from the authorities", {"senders": ("authorities",)}),
        ("what did scout write me yesterday?", {"senders": ("scout",), "since": "17", "before": "18"}),
        ("mails that came in since Friday", {"since": "13"}),
        ("mails on Tuesday", {"since": "17", "before": "18"}),
        (
            "find emails from last week that mention the budget",
            {"words": ("budget",), "since": "9", "before": "16"},
        ),
        ("who wrote me over the weekend", {"since": "14", "before": "16"}),
    ],
)
def test_words_senders_and_days(text: str, wanted: dict[str, object]) -> None:
    days = {name: f"2026-03-{wanted[name]:0>2}" for name in ("since", "before") if name in wanted}
    assert parse_wanted(text, NOW) == MailWanted(**{**wanted, **days})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "since", "before"),
    [
        ("mails from January please", "2026-01-01", "2026-02-01"),
        ("what did Ana write in december", "2025-12-01", "2026-01-01"),
        ("mail since October", "2025-10-01", ""),
        ("mail of last month", "2026-02-01", "2026-03-01"),
    ],
)
def test_months_are_those_that_began(text: str, since: str, before: str) -> None:
    found = parse_wanted(text, NOW)
    assert (found.since, found.before) == (since, before)
