"""The front desk: how a question was routed, what was known, what was answered."""

from shared.contracts.base import Contract, Envelope, require_text, require_unit


class RoutingDecision(Contract, frozen=True, kw_only=True):
    """Where a message goes: ``route`` is an agent, ``nexus`` itself, or ``tool:<name>``."""

    route: str
    rationale: str
    tool_name: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("route", self.route, 100)


class ContextItem(Contract, frozen=True, kw_only=True):
    """One remembered thing in a context packet, with the memory node that says so."""

    text: str
    evidence_id: str
    score: float = 0.0


class ContextPacket(Contract, frozen=True, kw_only=True):
    """What memory knows about a message, what it does not, and what is taken for granted."""

    query: str
    bullets: tuple[ContextItem, ...] = ()
    unknowns: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("query", self.query)


class Question(Envelope, frozen=True, kw_only=True, tag="question.v1"):
    """Something a person asks the front desk; the Response comes back by mail."""

    text: str
    user_session_id: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("text", self.text)


class Response(Envelope, frozen=True, kw_only=True, tag="response.v1"):
    """The answer to a message; ``citations`` are memory ids, task ids or addresses."""

    text: str
    citations: tuple[str, ...] = ()
    route_used: str = "nexus"
    context_used: ContextPacket | None = None
    confidence: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("text", self.text)
        require_text("route_used", self.route_used, 100)
        require_unit("confidence", self.confidence)
