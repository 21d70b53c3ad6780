"""Identities: who may send, ask and hear what. ``accounts`` writes it as the server's configuration."""

from collections.abc import Sequence

import msgspec

from shared import subjects

_APPROVALS = (subjects.approval_asked, subjects.approval_answered)
_MEMORY_VERBS = tuple(map(subjects.memory, subjects.MEMORY_VERBS))
_SIGNED_VERBS = tuple(map(subjects.memory, subjects.MEMORY_SIGNED_VERBS))
_PEOPLE_VERBS = tuple(map(subjects.memory, subjects.MEMORY_PEOPLE_VERBS))
_WORDS = (subjects.words("*"),)


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """The permissions of one identity.

    It may publish and subscribe to these subjects of the office, and send requests to those of memory and of
    the gateway; ``signed_request`` get its name appended, ``serve`` are the requests it answers. ``durables``
    are those of a stream whose position it may ask for; of the streams ``listed`` it may list the subjects.
    What it may ``tell`` goes to people as it is, ``hear`` is what they get so: nothing stores that.
    """

    publish: tuple[str, ...]
    subscribe: tuple[str, ...] = ()
    request: tuple[str, ...] = ()
    signed_request: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    durables: tuple[tuple[str, str], ...] = ()
    listed: tuple[str, ...] = ()
    tell: tuple[str, ...] = ()
    hear: tuple[str, ...] = ()


def rights_of(name: str, agents: Sequence[str], host: str = subjects.OFFICE_HOST) -> Rights:
    """The rights of an identity by its name, in an office of ``agents``; of its processes on ``host``."""
    if name == subjects.USER:
        return _user_rights()
    if name == subjects.GATEWAY:
        return _gateway_rights()
    follows = (subjects.control(name), subjects.task(name, "*", "*", subjects.CANCELLED))
    publish = (*_sends_of_all(name, agents), *_sends_of_host(name, host), *_sends_of_some(name, agents))
    if name == subjects.MEMORY_DAEMON:
        signed = (f"{subject}.*" for subject in (*_SIGNED_VERBS, *_PEOPLE_VERBS))
        leases = subjects.bucket_stream(subjects.LEASES_BUCKET)
        return Rights(
            publish=(
                *publish,
                subjects.lease(name),
                _direct_get(leases, subjects.lease(name)),
                *_pulls(subjects.MEMORY, name),
                f"$JS.API.DIRECT.GET.{subjects.MEMORY}",
                _direct_get(subjects.OFFICE, subjects.GRAPH_VERSION),
            ),
            subscribe=follows,
            serve=(*_MEMORY_VERBS, *signed),
            durables=_durables(name),
        )
    return Rights(
        publish=publish,
        subscribe=(subjects.GRAPH_VERSION, *follows),
        request=(*_MEMORY_VERBS, *((subjects.MAILBOX,) if name == subjects.NEXUS else ())),
        signed_request=_SIGNED_VERBS,
        durables=_durables(name),
        listed=(subjects.OFFICE,) if name == subjects.NEXUS else (),
        tell=(subjects.thoughts(name, "*"), *(_WORDS if name == subjects.NEXUS else ())),
    )


def _sends_of_all(name: str, agents: Sequence[str]) -> list[str]:
    """What every agent may publish and ask the server for."""
    return [
        *_own_subjects(name),
        subjects.event(name, ">"),
        subjects.dead(name),
        subjects.taken(name, "*"),
        subjects.turn("*", name, "*"),
        subjects.share("*", name, "*"),
        subjects.approval_asked(name, "*"),
        subjects.record(name, "*", "*"),
        _direct_get(subjects.OFFICE, subjects.approval_asked(name, "*")),
        _direct_get(subjects.OFFICE, subjects.approval_answered(name, "*")),
        _direct_get(subjects.OFFICE, subjects.record(name, "*", "*")),
        *(subject for durable in subjects.mailboxes(name) for subject in _pulls(subjects.OFFICE, durable)),
        *(_direct_get(subjects.OFFICE, subject) for subject in _task_records(name, agents)),
        *(
            _direct_get(subjects.bucket_stream(subjects.AGENTS_BUCKET), subjects.presences("*", host))
            for host in (subjects.OFFICE_HOST, "*")
        ),
        f"$JS.API.DIRECT.GET.{subjects.bucket_stream(subjects.AGENTS_BUCKET)}",
        f"$JS.API.DIRECT.GET.{subjects.bucket_stream(subjects.TURNS_BUCKET)}",
        f"$JS.API.DIRECT.GET.{subjects.bucket_stream(subjects.BUDGETS_BUCKET)}",
        _direct_get(subjects.bucket_stream(subjects.IDENTITIES_BUCKET), subjects.identity("*")),
    ]


def _sends_of_host(name: str, host: str) -> list[str]:
    """What an agent may publish and ask for on one host alone: other hosts' users may not."""
    return [subjects.presences(name, host)]


def _sends_of_some(name: str, agents: Sequence[str]) -> list[str]:
    """The same of the conductor, or of all others; of those that set timers, submit goals, keep budgets."""
    if name == subjects.CONDUCTOR:
        records = (subjects.goal("*"), subjects.OFFICE_STATE)
        limits = subjects.record(subjects.GATEWAY, subjects.LIMITS, "*")
        send = [*records, *(_direct_get(subjects.OFFICE, each) for each in (*records, limits))]
    else:
        told = subjects.record(subjects.CONDUCTOR, subjects.INSTRUCTIONS, "*")
        send = [_direct_get(subjects.OFFICE, record) for record in (subjects.control(name), told)]
    if name == subjects.ENGINEER:
        # It removes old files, but not those of open goals.
        send.append(_direct_get(subjects.OFFICE, subjects.OFFICE_STATE))
    if name in subjects.TIMED:
        send += [
            subjects.timer(name, "*"),
            *_pulls(subjects.timers_stream(name), subjects.timers_durable(name)),
        ]
    if name in subjects.SUBMITTING:
        send.append(subjects.SUBMIT)
    if name == subjects.NEXUS:
        # What the front desk may read to tell people what waits for them, failed, was done and was spent
        others = [other for other in agents if other != name]
        kinds = ("spending", "letter")
        wanted = [
            subjects.goal("*"),
            subjects.dead("*"),
            *(subject(other, "*") for other in others for subject in _APPROVALS),
            *(subjects.record(other, kind, "*") for other in others for kind in kinds),
            *(
                subjects.record(other, kind, "*")
                for other in others
                if other == subjects.CORTEX
                for kind in ("night", subjects.DUE, subjects.TIMETABLE)
            ),
            subjects.PUT_ASIDE,
            subjects.dropped("*"),
            subjects.record(subjects.GATEWAY, subjects.LIMITS, "*"),
        ]
        send += [_direct_get(subjects.OFFICE, each) for each in wanted]
    if name in subjects.COUNTING:
        # Not its own: nothing may match two imports, and its records are among them.
        spent = [subjects.record(each, "spending", "*") for each in agents if each != name]
        send += [_direct_get(subjects.OFFICE, record) for record in spent]
    return send


def _user_rights() -> Rights:
    """People submit, write, and read everything; what they read they cannot change."""
    name = subjects.USER
    return Rights(
        publish=(
            *subjects.SUBMIT_AS.values(),
            *_own_subjects(name),
            subjects.approval_answered("*", "*"),
            subjects.forgetting("*"),
            subjects.archive(subjects.OFFICE),
            *_reads(),
            *_pulls(subjects.OFFICE, name),
        ),
        subscribe=(subjects.AUDIT_ALL, subjects.event("*", ">")),
        request=_MEMORY_VERBS,
        signed_request=(*_SIGNED_VERBS, *_PEOPLE_VERBS),
        hear=(*_WORDS, subjects.thoughts("*", "*")),
    )


def _gateway_rights() -> Rights:
    """It reads what people may read, and submits goals, writes mail, answers approvals and orders memories to
    be forgotten in their name. Tasks it gives in their name are for the two that keep the timetable.

    Records of what it told people elsewhere it alone writes, and seals of the log.
    """
    name = subjects.GATEWAY
    return Rights(
        publish=(
            *subjects.SUBMIT_AS.values(),
            subjects.mail("*", subjects.USER),
            *(
                subjects.task(agent, subjects.USER, "*", subjects.NEW["MEDIUM"])
                for agent in (subjects.NEXUS, subjects.CORTEX)
            ),
            subjects.memory_write(subjects.USER),
            subjects.forgetting("*"),
            subjects.approval_answered("*", "*"),
            subjects.event(name, ">"),
            *_sends_of_host(name, subjects.OFFICE_HOST),
            *(subjects.record(name, kind, "*") for kind in subjects.GATEWAY_RECORDS),
            *(subjects.seal(stream) for stream in subjects.LOG),
            subjects.shared_entry("*", "*"),
            f"$JS.API.DIRECT.GET.{subjects.bucket_stream(subjects.GATEWAY_BUCKET)}",
            subjects.lease(name),
            _direct_get(subjects.bucket_stream(subjects.LEASES_BUCKET), subjects.lease(name)),
            *_reads(),
        ),
        subscribe=(subjects.AUDIT_ALL, subjects.event("*", ">")),
        request=_MEMORY_VERBS,
        signed_request=(*_SIGNED_VERBS, *_PEOPLE_VERBS),
        serve=(subjects.MAILBOX, f"{subjects.API}.*"),
        hear=(*_WORDS, subjects.thoughts("*", "*")),
    )


def eraser_sends() -> list[str]:
    """What the eraser may publish and ask for, in the account of the streams themselves.

    It reads, erases single messages of three streams, stores what is left of them on their subjects, and
    records that. It neither writes to memory's log, where orders come from, nor changes a stream.
    """
    leases = subjects.bucket_stream(subjects.LEASES_BUCKET)
    streams = (*subjects.LOG, subjects.FORGETTING)
    verbs = ("STREAM.INFO", "DIRECT.GET", "STREAM.MSG.GET", "STREAM.MSG.DELETE")
    return [
        *(f"$JS.API.{verb}.{stream}" for stream in streams for verb in verbs),
        *(f"$JS.API.DIRECT.GET.{stream}.>" for stream in streams),
        f"$JS.API.CONSUMER.LIST.{subjects.OFFICE}",
        f"$JS.API.DIRECT.GET.{subjects.bucket_stream(subjects.AGENTS_BUCKET)}",
        _direct_get(leases, subjects.lease(subjects.ERASER)),
        subjects.lease(subjects.ERASER),
        *subjects.OFFICE_SUBJECTS,
        subjects.peer(subjects.ERASER, "*"),
    ]


def _reads() -> list[str]:
    """Requests for all that is stored, and for the state of what stores it."""
    return [
        *(f"$JS.API.{verb}.{stream}" for stream in subjects.LOG for verb in ("STREAM.INFO", "DIRECT.GET")),
        f"$JS.API.STREAM.INFO.{subjects.FORGETTING}",
        f"$JS.API.DIRECT.GET.{subjects.OFFICE}.>",
        f"$JS.API.DIRECT.GET.{subjects.bucket_stream(subjects.AGENTS_BUCKET)}",
        f"$JS.API.DIRECT.GET.{subjects.bucket_stream(subjects.BUDGETS_BUCKET)}",
        f"$JS.API.CONSUMER.LIST.{subjects.OFFICE}",
        f"$JS.API.CONSUMER.INFO.{subjects.OFFICE}.*",
        f"$JS.API.CONSUMER.INFO.{subjects.MEMORY}.*",
        "$JS.API.INFO",
    ]


def _task_records(name: str, agents: Sequence[str]) -> list[str]:
    """The tasks that ``name`` takes part in, whatever their step.

    Nothing may match two of them: the server would answer once for each import that a request matches, as for
    what an agent asks of itself.
    """
    others = (*agents, subjects.USER)
    return [
        subjects.task(name, "*", "*", "*"),
        *(subjects.task(other, name, "*", "*") for other in others if other != name),
    ]


def _own_subjects(name: str) -> list[str]:
    return [
        *(subjects.task("*", name, "*", step) for step in subjects.BY_REQUESTER),
        *(subjects.task(name, "*", "*", step) for step in subjects.BY_ASSIGNEE),
        subjects.mail("*", name),
        subjects.memory_write(name),
    ]


def _pulls(stream: str, durable: str) -> list[str]:
    return [f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}", f"$JS.ACK.{stream}.{durable}.>"]


def _durables(name: str) -> tuple[tuple[str, str], ...]:
    """The durables of an agent whose unfinished messages its processes hand back, with their streams."""
    timers = (
        ((subjects.timers_stream(name), subjects.timers_durable(name)),) if name in subjects.TIMED else ()
    )
    writes = ((subjects.MEMORY, name),) if name == subjects.MEMORY_DAEMON else ()
    return (*((subjects.OFFICE, durable) for durable in subjects.mailboxes(name)), *timers, *writes)


def _direct_get(stream: str, subject: str) -> str:
    return f"$JS.API.DIRECT.GET.{stream}.{subject}"
