"""What agents found out."""

from typing import Any

import msgspec

from shared.contracts.base import (
    Envelope,
    generate_iso_timestamp,
    require_name,
    require_text,
    require_timestamp,
    require_token,
)


class DiscoveryResult(Envelope, frozen=True, kw_only=True, tag="discovery_result.v1"):
    """Papers and news found for a query; ``citations`` are arXiv ids and addresses."""

    task_id: str
    completed_at: str = msgspec.field(default_factory=generate_iso_timestamp)
    agent: str
    query: str
    papers: tuple[dict[str, Any], ...] = ()
    news_items: tuple[dict[str, Any], ...] = ()
    citations: tuple[str, ...] = ()
    summary: str = ""
    output_path: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("task_id", self.task_id)
        require_timestamp("completed_at", self.completed_at)
        require_name("agent", self.agent)
        require_text("query", self.query)


class AgentReport(Envelope, frozen=True, kw_only=True, tag="agent_report.v1"):
    """A summary an agent writes for people, such as a research brief or an execution summary."""

    report_id: str
    agent: str
    report_type: str
    summary: str
    findings: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("report_id", self.report_id)
        require_name("agent", self.agent)
        require_text("report_type", self.report_type, 200)
        require_text("summary", self.summary)
