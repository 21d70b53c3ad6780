"""A model's summary of papers and news: statements, each checked against the sources that were found."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shared.llm.protocol import Message
from shared.reasoning.model import ModelSession
from shared.skills.papers import abstract_url
from shared.web.quoting import clean, quote

NUMBER = re.compile(r"\[(\d+(?:\s*[,;–-]\s*\d+)*)\]")
ADDRESS = re.compile(r"https?://\S+|\barxiv:\s*\S+|\b\d{4}\.\d{4,5}(?:v\d+)?\b", re.IGNORECASE)
MAX_READ = 8_000
"""Characters of a paper's text that a model reads."""
MAX_STATEMENTS = 12
"""Statements of a summary."""


class Claim(msgspec.Struct, kw_only=True):
    """One statement, and the numbers of the sources it rests on."""

    statement: str
    sources: list[int]


class Synthesis(msgspec.Struct, kw_only=True):
    """What the sources say, taken together."""

    claims: list[Claim]


async def synthesize(
    models: ModelSession,
    topic: str,
    sources: Mapping[int, Mapping[str, Any]],
    texts: Mapping[str, str] | None = None,
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Statements about ``topic`` with the numbers of the ``sources`` they rest on.

    ``texts`` are the full texts of papers by their arXiv ids; of other sources the model reads the abstract.
    A statement that cites what is not among them, or nothing, is sent back to the model; raises ModelError
    if it insists.
    """
    listed = [
        f"{number}. {item['title']}\n{_material(item, texts or {})}\n" for number, item in sources.items()
    ]
    asked = (
        f"Summarise what these sources say about {topic!r} in at most {MAX_STATEMENTS} statements of a "
        "sentence each. "
        "Give with each the numbers of the sources it rests on, and put no number or address of a source "
        "into the statement that is not among them. Say only what they say.\n\n"
    )
    message = Message(role="user", text=asked + quote("the sources", "\n".join(listed)))
    answer = await models.ask_model_for(
        [message], Synthesis, lambda synthesis: check_citations(synthesis, sources)
    )
    return tuple(
        (clean(claim.statement, 600), tuple(dict.fromkeys(claim.sources))) for claim in answer.claims
    )


def _material(item: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    abstract = clean(str(item.get("abstract") or item.get("summary") or ""), 1_500)
    whole = texts.get(str(item.get("arxiv_id", "")), "")
    return f"{abstract}\nIts text: {clean(whole, MAX_READ)}" if whole else abstract


def check_citations(synthesis: Synthesis, sources: Mapping[int, Mapping[str, Any]]) -> str | None:
    """What is wrong with the citations, as the model is told; None if each is a source."""
    if not 1 <= len(synthesis.claims) <= MAX_STATEMENTS:
        return f"Give 1 to {MAX_STATEMENTS} claims"
    known = _addresses(sources)
    for claim in synthesis.claims:
        groups = NUMBER.findall(claim.statement)
        written = [int(number) for group in groups for number in re.findall(r"\d+", group)]
        wrong = [number for number in (*claim.sources, *written) if number not in sources]
        if wrong or not claim.sources:
            have = f"cites {wrong}" if wrong else "cites nothing"
            return f"{claim.statement[:80]!r} {have}; the sources are {', '.join(map(str, sources))}"
        for address in ADDRESS.findall(claim.statement):
            plain = _without_prefix(address).rstrip(".,;)")
            if not plain or not any(plain in one for one in known):
                return f"{claim.statement[:80]!r} names {address!r}, which is none of the sources"
    return None


def _addresses(sources: Mapping[int, Mapping[str, Any]]) -> set[str]:
    """The ids and addresses under which the sources may be named."""
    return {
        address.casefold()
        for item in sources.values()
        for address in (
            (str(item["arxiv_id"]), abstract_url(item)) if "arxiv_id" in item else (str(item["link"]),)
        )
    }


def find_unsourced(text: str, evidence: Sequence[str]) -> list[str]:
    """The papers and addresses that ``text`` names and that are not among ``evidence``, each once."""
    known = {reference.casefold() for reference in evidence}
    known |= {f"https://arxiv.org/abs/{one.partition(':')[2]}" for one in known if one.startswith("arxiv:")}
    named = dict.fromkeys(address.rstrip(".,;:)]>") for address in ADDRESS.findall(text))
    return [address for address in named if not any(_without_prefix(address) in one for one in known)]


def _without_prefix(address: str) -> str:
    return re.sub(r"^arxiv:\s*", "", address.casefold())
