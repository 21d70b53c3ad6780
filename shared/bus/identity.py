"""Identities and their permissions: an NKey and a NATS account each, written as the server's configuration.

Every agent has an account of its own, which sees nothing but its imports. Permissions within one account
would not be enough: the server does not check the *reply* subject of a request, so within one account
an agent could have a stored message of its own delivered onto another's subject, and into the stream.
Across accounts such a reply lands in the account of the requester, where no stream listens.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from shared import subjects
from shared.bus import stores
from shared.bus.connecting import public_key
from shared.bus.hosts import Hosts, read_hosts
from shared.files import write_atomically
from shared.settings import Settings

_APPROVALS = (subjects.approval_asked, subjects.approval_answered)
_MEMORY_VERBS = tuple(map(subjects.memory, subjects.MEMORY_VERBS))
_SIGNED_VERBS = tuple(map(subjects.memory, subjects.MEMORY_SIGNED_VERBS))
_PEOPLE_VERBS = tuple(map(subjects.memory, subjects.MEMORY_PEOPLE_VERBS))
_WORDS = (subjects.words("*"),)
OFFICE_ACCOUNT = "OFFICE"
SYSTEM_ACCOUNT = "$SYS"
_STATISTICS = "$SYS.REQ.SERVER.PING.STATSZ"
"""The one request to the server itself that leaves its system account, for the gateway alone: numbers, and
nothing of its configuration or its clients."""
_BATCH_LIMITS = "limits { batch { max_inflight_per_stream: 10, max_inflight_total: 40, timeout: 500ms } }"
"""The open atomic batches of all clients together, and the pause after which the server gives one up.

With the server's own limits (50, 10 s) one agent that opened 60 every half second let no commit of several
messages through; with these 35 of 56 passed. More at once are no help: to open a batch costs the server a
folder and several writes, to refuse one nothing. A client writes a batch in one piece, so few are open.
"""
_CLUSTER_LIMITS = "limits { batch { max_inflight_per_stream: 100, max_inflight_total: 400, timeout: 2s } }"
"""The same where each batch waits for the second of three servers, and for those between two leaders."""


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


def _eraser_sends() -> list[str]:
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


# --- the server's configuration ------------------------------------------------------------------


def write_server_config(
    path: Path,
    settings: Settings,
    agents: Sequence[str],
    keys: dict[str, str],
    *,
    store: str,
    max_store: int,
    encryption: str = "",
) -> bool:
    """Write accounts, permissions and limits for nats-server; returns whether the file changed.

    ``keys`` are the public keys of the agents, the user, the admin, the eraser, and of people by their
    identities; ``store`` is the folder of JetStream's files as the server sees it, ``max_store`` its limit
    in bytes, ``encryption`` what it says of TLS with clients.
    """
    hosts = read_hosts(settings.keys)
    text = "\n".join(
        [
            "# Written by Mailroom; changes are overwritten.",
            f"max_payload: {subjects.MAX_PAYLOAD}",
            f"jetstream {{ store_dir: {json.dumps(store)}, max_file_store: {max_store}, "
            f"sync_interval: {settings.nats_sync}, "
            f"{_BATCH_LIMITS if settings.nats_replicas == 1 else _CLUSTER_LIMITS} }}",
            encryption,
            # A host that vanished is given messages until the server notices, after three pings.
            *(['ping_interval: "3s"\nping_max: 2'] if hosts.joined else []),
            "accounts {",
            *([_system_account()] if subjects.GATEWAY in agents else []),
            _office_account(keys[subjects.ADMIN], keys[subjects.ERASER]),
            *([_hosts_account(hosts)] if hosts.probe else []),
            *(_account(name, keys[name], agents, hosts) for name in (*agents, subjects.USER)),
            *(_person_account(name, key) for name, key in keys.items() if name.startswith(subjects.PERSON)),
            "}",
            "",
        ]
    )
    if path.exists() and path.read_text() == text:
        return False
    write_atomically(path, text)
    path.chmod(0o644)
    return True


def _account_name(name: str) -> str:
    return f"A_{name}"


def _office_account(admin: str, eraser: str) -> str:
    services = [
        *subjects.SUBMIT_AS.values(),
        "tasks.submit.*",
        "task.*.*.*.*",
        "mail.*.*",
        "state.>",
        "event.>",
        "dead.*",
        "memory.write.*",
        "forgetting.*",
        "timer.>",
        "approval.>",
        "record.>",
        "seal.*",
        "archive.*",
        *(ask("*") for ask in (subjects.joining, subjects.asking)),
        "$KV.>",
        "$JS.ACK.>",
        *stores.EXPORTS,
        "$JS.API.STREAM.INFO.*",
        "$JS.API.CONSUMER.INFO.>",
        "$JS.API.CONSUMER.LIST.*",
        "$JS.API.INFO",
    ]
    streams = ["$JS.API.CONSUMER.MSG.NEXT.>", "$JS.API.DIRECT.GET.>"]
    exports = [
        *(f"{{ service: {json.dumps(subject)} }}" for subject in services),
        *(f"{{ service: {json.dumps(subject)}, response_type: stream }}" for subject in streams),
        f"{{ stream: {json.dumps(subjects.AUDIT_ALL)} }}",
    ]
    hears = [f"{subjects.ERASER_INBOX}.>", *subjects.ORDERS_OF_ERASURE]
    permissions = (
        f"publish: {{ allow: {json.dumps(_eraser_sends())} }}, subscribe: {{ allow: {json.dumps(hears)} }}"
    )
    users = f"{{ nkey: {admin} }}, {{ nkey: {eraser}, permissions: {{ {permissions} }} }}"
    head = f"    jetstream: enabled\n    users: [ {users} ]\n"
    return f"  {OFFICE_ACCOUNT} {{\n{head}{_list('exports', exports)}  }}"


def _system_account() -> str:
    only = f"accounts: [ {_account_name(subjects.GATEWAY)} ]"
    exports = [f"{{ service: {json.dumps(_STATISTICS)}, response_type: stream, {only} }}"]
    return f"  {SYSTEM_ACCOUNT} {{\n{_list('exports', exports)}  }}"


def _hosts_account(hosts: Hosts) -> str:
    """Who may ask the office: who has a token, to join, and each host that joined."""
    joining = [(each.key, subjects.joining(name)) for name, each in hosts.invited.items()]
    asks = [*joining, *((each.key, subjects.asking(name)) for name, each in hosts.joined.items())]
    imports = [_import("service", OFFICE_ACCOUNT, subject) for _, subject in asks]
    hears = 'subscribe: { allow: ["_INBOX.>"] }'
    users = f'{{ nkey: {public_key(hosts.probe.encode())}, permissions: {{ publish: {{ deny: ">" }} }} }}'
    users += "".join(
        f', {{ nkey: {key}, permissions: {{ publish: {{ allow: ["{subject}"] }}, {hears} }} }}'
        for key, subject in asks
    )
    return f"  HOSTS {{\n    users: [ {users} ]\n{_list('imports', imports)}  }}"


def _account(name: str, key: str, agents: Sequence[str], hosts: Hosts) -> str:
    """The account of an identity: a user for the office, and one for each host that has it as a role.

    It imports what any of them may use; the permissions of each user are those of its host.
    """
    rights = rights_of(name, agents)
    users = {subjects.OFFICE_HOST: key, **hosts.keys_of(name)}
    of_hosts = {host: stores.with_stores(rights_of(name, agents, host), name, host, hosts) for host in users}
    memory = _account_name(subjects.MEMORY_DAEMON)
    sends = dict.fromkeys(subject for each in of_hosts.values() for subject in each.publish)
    imports = [_import("service", OFFICE_ACCOUNT, subject) for subject in sends]
    if name not in subjects.PEOPLE and subjects.SUBMIT in rights.publish:
        # What people submit counts as what a person said.
        imports.remove(_import("service", OFFICE_ACCOUNT, subjects.SUBMIT))
        imports.append(_import("service", OFFICE_ACCOUNT, subjects.submitted_by(name), to=subjects.SUBMIT))
    answering = {subject: subject.partition(".")[0] for subject in rights.request}
    imports += [
        _import("service", _account_name(who), subject) for subject, who in answering.items() if who in agents
    ]
    if subjects.MEMORY_DAEMON in agents:
        signer = subjects.USER if name == subjects.GATEWAY else name
        imports += [
            _import("service", memory, f"{subject}.{signer}", to=subject) for subject in rights.signed_request
        ]
    renamed = {pair: None for each in of_hosts.values() for pair in _renamed(each)}
    imports += [_import("service", OFFICE_ACCOUNT, subject, to=local) for subject, local in renamed]
    if name == subjects.GATEWAY:
        imports.append(_import("service", SYSTEM_ACCOUNT, _STATISTICS, to=subjects.SERVER_STATISTICS))
    imports += [_subscription(subject) for subject in rights.subscribe]
    if rights.hear:
        tellers = [each for each in agents if each not in (*subjects.PEOPLE, subjects.MEMORY_DAEMON)]
        told = [(each, rights_of(each, agents).tell) for each in tellers]
        imports += [
            _import("stream", _account_name(each), subject) for each, tell in told for subject in tell
        ]
    exports = [f"{{ service: {json.dumps(subject)} }}" for subject in rights.serve]
    people = ", ".join(_account_name(each) for each in subjects.PEOPLE if each in (*agents, subjects.USER))
    exports += [f"{{ stream: {json.dumps(told)}, accounts: [ {people} ] }}" for told in rights.tell]
    if name == subjects.USER:
        imports += [_import("service", _account_name(agent), "$SRV.>") for agent in agents]
    else:
        # As a service: an agent answers the server, and never learns or reaches an inbox of people's.
        only = f"accounts: [ {_account_name(subjects.USER)} ]"
        exports.append(f'{{ service: "$SRV.>", response_type: stream, {only} }}')
    written = ", ".join(
        f"{{ nkey: {users[host]}, permissions: {{ {_permissions(name, each)} }} }}"
        for host, each in of_hosts.items()
    )
    lists = _list("exports", exports) + _list("imports", imports)
    return f"  {_account_name(name)} {{\n    users: [ {written} ]\n{lists}  }}"


def _permissions(name: str, rights: Rights) -> str:
    """What a user may publish and subscribe to in the account of ``name``."""
    peers = subjects.peer(name, "*")
    publish = [*rights.publish, *rights.request, *rights.signed_request, *rights.tell, "_INBOX.>", peers]
    publish += [local for _, local in _renamed(rights)]
    if name == subjects.GATEWAY:
        publish.append(subjects.SERVER_STATISTICS)
    if name == subjects.USER:
        publish.append("$SRV.>")
    else:
        # The subjects the server makes up for answers to requests from other accounts.
        publish.append("_R_.>")
    subscribe = ["_INBOX.>", "$SRV.>", peers, *rights.subscribe, *rights.hear, *rights.serve]
    return f"publish: {{ allow: {json.dumps(publish)} }}, subscribe: {{ allow: {json.dumps(subscribe)} }}"


def _person_account(name: str, key: str) -> str:
    """The account of one of the people: it asks the gateway, which learns from the broker who asks."""
    ask = _import("service", _account_name(subjects.GATEWAY), f"{subjects.API}.{name}", to=subjects.API)
    may = f'publish: {{ allow: [ "{subjects.API}" ] }}, subscribe: {{ allow: [ "_INBOX.>" ] }}'
    user = f"{{ nkey: {key}, permissions: {{ {may} }} }}"
    return f"  {_account_name(name)} {{\n    users: [ {user} ]\n{_list('imports', [ask])}  }}"


def _subscription(subject: str) -> str:
    """The import of a subject it may subscribe to: from the audit's copy, which alone crosses accounts."""
    if subject.startswith(subjects.AUDIT_PREFIX):
        return _import("stream", OFFICE_ACCOUNT, subject)
    return _import("stream", OFFICE_ACCOUNT, f"{subjects.AUDIT_PREFIX}{subject}", to=subject)


def _renamed(rights: Rights) -> list[tuple[str, str]]:
    """Requests to the server, and their names in an account where it answers for ``$JS.API`` itself."""
    return [
        *((f"$JS.API.CONSUMER.INFO.{'.'.join(d)}", subjects.position(*d)) for d in rights.durables),
        *stores.renamed(rights.publish),
        *((f"$JS.API.STREAM.INFO.{each}", subjects.listing(each)) for each in rights.listed),
    ]


def _import(kind: str, account: str, subject: str, *, to: str = "") -> str:
    local = f", to: {json.dumps(to)}" if to else ""
    return f"{{ {kind}: {{ account: {json.dumps(account)}, subject: {json.dumps(subject)} }}{local} }}"


def _list(name: str, items: Sequence[str]) -> str:
    return f"    {name}: [\n" + "".join(f"      {item}\n" for item in items) + "    ]\n"
