"""Every error Mailroom raises on purpose.

MailroomError            one sentence with the cause and, if there is one, the cure
├── ConfigError          a profile, a setting or a playbook is wrong
├── StartError           the office or a process of it cannot start
├── NotFound             what was named does not exist
├── TooLate              what was to be changed has ended, or was decided already
├── BusError             the bus did not do what was asked
│   ├── BusUnavailable   no server, or no answer in time; trying again later can help
│   │   └── NoResponders  nobody is subscribed who could answer
│   ├── Denied           the broker does not allow it to this identity
│   ├── BusFull          the stream's store is full
│   │   └── BatchesBlocked  too many atomic commits are open
│   ├── Refused          a service answered with an error
│   └── Conflict         a commit was refused whole: something it expected has changed
├── ActionError          an action cannot be done as asked: unknown, bad parameters, service out of reach
│   ├── NotApproved      the policy denies it, or a person did not approve it
│   │   └── Unanswered   a person was asked, and did not answer in time
│   └── ModelError       the model did not answer as asked
│       ├── NoModel           no model is configured
│       ├── ModelUnavailable  it may answer later: out of reach, overloaded, too slow
│       ├── TooLong           it was sent more than it can read
│       └── BudgetSpent       the budget of the task or the day is used up
└── Verdict              how a handler ends other than by returning
    ├── TakenOver        another process has it in hand: say nothing to the server about it
    ├── Retry            deliver it again after a delay
    │   └── Postponed    as often as needed: it was not attempted
    └── Reject           never deliver it again: store a dead letter with the reason
"""


class MailroomError(Exception):
    """The root: ``str()`` of it is one sentence for a person."""

    def __init__(self, cause: str, cure: str = "") -> None:
        super().__init__(f"{cause}. {cure}".rstrip() if cure else cause)
        self.cause = cause
        self.cure = cure


class ConfigError(MailroomError):
    """A profile, a setting or a playbook is wrong."""


class StartError(MailroomError):
    """The office or a process of it cannot start."""


class NotFound(MailroomError):
    """What was named does not exist."""


class TooLate(MailroomError):
    """What was to be changed has ended, or was decided already."""


class BusError(MailroomError):
    """The bus did not do what was asked."""


class BusUnavailable(BusError):
    """No server, or no answer in time; trying again later can help."""


class NoResponders(BusUnavailable):
    """Nobody is subscribed who could answer."""


class Denied(BusError):
    """The broker does not allow it to this identity."""


class BusFull(BusError):
    """The stream's store is full: handlers wait and repeat."""


class BatchesBlocked(BusFull):
    """Too many atomic commits are open, so none can be begun; handlers wait and repeat."""


class Refused(BusError):
    """A service answered with an error."""


class Conflict(BusError):
    """A commit was refused whole, because something it expected has changed.

    ``last`` is the sequence of what was there instead, if the server told; else 0.
    """

    last = 0


class ActionError(MailroomError):
    """An action cannot be done as asked."""


class NotApproved(ActionError):
    """The policy denies it, or a person did not approve it."""


class Unanswered(NotApproved):
    """A person was asked, and did not answer in time."""


class ModelError(ActionError):
    """The model did not answer as asked."""


class NoModel(ModelError):
    """No model is configured."""


class ModelUnavailable(ModelError):
    """The model may answer later: it is out of reach, overloaded, or too slow."""


class TooLong(ModelError):
    """The model was sent more than it can read."""


class BudgetSpent(ModelError):
    """The budget of the task or of the day is used up."""


class Verdict(MailroomError):
    """How a handler may end other than by returning."""


class TakenOver(Verdict):
    """Another process works on the message: that one answers for it, and after its death the next one."""


class Retry(Verdict):
    """Deliver the message again after ``delay`` seconds (None: the bus's growing delay)."""

    def __init__(self, reason: str, delay: float | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class Postponed(Retry):
    """Deliver the message again at once, which is not counted as a failed attempt."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, delay=0.0)


class Reject(Verdict):
    """Store a dead letter with the reason; the message is not delivered again."""
