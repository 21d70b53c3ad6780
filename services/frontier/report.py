"""The report of a discovery: papers and news with what they cite."""

from collections.abc import Sequence
from pathlib import Path

from services.frontier.brief import Findings, tell_count
from shared.contracts import DiscoveryResult
from shared.skills.papers import cite_papers, judge_confidence
from shared.tasks.actions import Outcome


def report_discovery(
    findings: Findings, wanted: Sequence[str], path: Path, task_id: str, agent: str
) -> Outcome:
    """What a daily discovery found, written up at ``path``: its DiscoveryResult in data key ``discovery``."""
    papers = findings.all_papers()
    result = DiscoveryResult(
        task_id=task_id,
        agent=agent,
        query=", ".join(wanted) or "news",
        papers=tuple(papers),
        news_items=tuple(findings.news),
        citations=cite_papers(papers) + tuple(item["link"] for item in findings.news),
        summary=f"{tell_count(len(papers), 'paper')} on {tell_count(len(wanted), 'topic')} and "
        f"{tell_count(len(findings.news), 'news item')}",
        output_path=str(path),
    )
    told = [f"Not looked up: {problem}" for problem in findings.problems]
    return Outcome(
        output="\n".join([f"{result.summary}, written up in {path}", *told, *findings.notes]),
        data={
            "discovery": result.to_dict(),
            "problems": findings.problems,
            "notes": findings.notes,
            "confidence": judge_confidence(len(papers)),
        },
        evidence_refs=result.citations,
        output_paths=(str(path),),
    )
