"""Sources below an answer: names, and never an id by itself."""

import pytest

from services.cli.output.answers import print_sources
from shared.contracts import ContextItem, ContextPacket, Response

KNOWN, UNKNOWN = "019a7f3e-1c2d-7abc-8def-0123456789ab", "019a7f3e-1c2e-7abc-8def-0123456789ab"
DIGEST = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("citation", "why", "told"),
    [
        ("arxiv:2601.00001v1", False, "\nSources:\n  arxiv:2601.00001v1\n"),
        ("https://example.org/a", False, "\nSources:\n  https://example.org/a\n"),
        ("report.md", False, "\nSources:\n  report.md\n"),
        (UNKNOWN, False, ""),
        (DIGEST, False, ""),
        (KNOWN, False, ""),
        (KNOWN, True, "Sources:\n  The crane driver is Oskar. (019a7f3e-1c2d-7abc)\n"),
        (UNKNOWN, True, "Sources:\n  019a7f3e-1c2e-7abc\n"),
    ],
)
def test_sources_are_names(citation: str, why: bool, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    bullet = ContextItem(text="The crane driver is Oskar.", evidence_id=KNOWN, score=0.5)
    packet = ContextPacket(query="who", bullets=(bullet,))
    answer = Response(text="Oskar.", citations=(citation,), context_used=packet, confidence=0.5)
    print_sources(answer, why=why)
    assert capsys.readouterr().out.endswith(told)
    assert told or not capsys.readouterr().out
