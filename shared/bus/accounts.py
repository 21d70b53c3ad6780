"""The server's configuration: an account for each identity, with exactly its rights, and what it imports.

Every agent has an account of its own, which sees nothing but its imports. Permissions within one account
would not be enough: the server does not check the *reply* subject of a request, so within one account
an agent could have a stored message of its own delivered onto another's subject, and into the stream.
Across accounts such a reply lands in the account of the requester, where no stream listens.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from shared import subjects
from shared.bus import stores
from shared.bus.connecting import public_key
from shared.bus.hosts import Hosts, read_hosts
from shared.bus.identity import Rights, eraser_sends, rights_of
from shared.files import write_atomically
from shared.settings import Settings

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
_TENANT_STREAMS = 64
"""The most streams of a tenant: each is a folder with files that stay open. An office has about 20."""
_CLUSTER_LIMITS = "limits { batch { max_inflight_per_stream: 100, max_inflight_total: 400, timeout: 2s } }"
"""The same where each batch waits for the second of three servers, and for those between two leaders."""


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """Another office on the same server, with the public keys of its identities.

    Its accounts are named ``NAME.OFFICE`` and so on, and neither import from others' nor export to them.
    ``max_store`` is the most bytes that it may store; the server sets them aside.
    """

    name: str
    keys: Mapping[str, str]
    max_store: int


def write_server_config(
    path: Path,
    settings: Settings,
    agents: Sequence[str],
    keys: dict[str, str],
    *,
    store: str,
    max_store: int,
    encryption: str = "",
    tenants: Sequence[Tenant] = (),
) -> bool:
    """Write accounts, permissions and limits for nats-server; returns whether the file changed.

    ``keys`` are the public keys of the agents, the user, the admin, the eraser, and of people by their
    identities; ``store`` is the folder of JetStream's files as the server sees it, ``max_store`` its limit
    in bytes, ``encryption`` what it says of TLS with clients. The ``tenants`` share one half of it.
    """
    hosts = read_hosts(settings.keys)
    # Always the same: nats-server 2.15.1 takes limits over one by one in any order, and leaves some without
    # JetStream if they are over its own in between.
    own = f"{{ max_file: {max_store // 2} }}" if tenants else "enabled"
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
            _office_account(keys, own),
            *([_hosts_account(hosts)] if hosts.probe else []),
            *_accounts(keys, agents, hosts),
            *(text for each in tenants for text in _tenant_accounts(each)),
            "}",
            "",
        ]
    )
    if path.exists() and path.read_text() == text:
        return False
    write_atomically(path, text)
    path.chmod(0o644)
    return True


def _tenant_accounts(tenant: Tenant) -> Iterable[str]:
    people = (subjects.USER, subjects.ADMIN, subjects.ERASER)
    agents = [each for each in tenant.keys if each not in people and not each.startswith(subjects.PERSON)]
    limits = f"{{ max_file: {tenant.max_store}, max_mem: 0, max_streams: {_TENANT_STREAMS} }}"
    return (
        _office_account(tenant.keys, limits, f"{tenant.name}."),
        *_accounts(tenant.keys, agents, Hosts(), f"{tenant.name}."),
    )


def _accounts(
    keys: Mapping[str, str], agents: Sequence[str], hosts: Hosts, tenant: str = ""
) -> Iterable[str]:
    """The accounts of all identities but the admin; what their names begin with is ``tenant``."""
    people = [(name, key) for name, key in keys.items() if name.startswith(subjects.PERSON)]
    return (
        *(_account(name, keys[name], agents, hosts, tenant) for name in (*agents, subjects.USER)),
        *(_person_account(name, key, tenant) for name, key in people),
    )


def _account_name(name: str, tenant: str = "") -> str:
    return f"{tenant}A_{name}"


def _office_account(keys: Mapping[str, str], limits: str, tenant: str = "") -> str:
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
        f"publish: {{ allow: {json.dumps(eraser_sends())} }}, subscribe: {{ allow: {json.dumps(hears)} }}"
    )
    users = f"{{ nkey: {keys[subjects.ADMIN]} }}, "
    users += f"{{ nkey: {keys[subjects.ERASER]}, permissions: {{ {permissions} }} }}"
    head = f"    jetstream: {limits}\n    users: [ {users} ]\n"
    return f"  {tenant}{OFFICE_ACCOUNT} {{\n{head}{_list('exports', exports)}  }}"


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


def _account(name: str, key: str, agents: Sequence[str], hosts: Hosts, tenant: str) -> str:
    """The account of an identity: a user for the office, and one for each host that has it as a role.

    It imports what any of them may use; the permissions of each user are those of its host.
    """
    rights = rights_of(name, agents)
    users = {subjects.OFFICE_HOST: key, **hosts.keys_of(name)}
    of_hosts = {host: stores.with_stores(rights_of(name, agents, host), name, host, hosts) for host in users}
    office = f"{tenant}{OFFICE_ACCOUNT}"
    memory = _account_name(subjects.MEMORY_DAEMON, tenant)
    sends = dict.fromkeys(subject for each in of_hosts.values() for subject in each.publish)
    imports = [_import("service", office, subject) for subject in sends]
    if name not in subjects.PEOPLE and subjects.SUBMIT in rights.publish:
        # What people submit counts as what a person said.
        imports.remove(_import("service", office, subjects.SUBMIT))
        imports.append(_import("service", office, subjects.submitted_by(name), to=subjects.SUBMIT))
    answering = {subject: subject.partition(".")[0] for subject in rights.request}
    imports += [
        _import("service", _account_name(who, tenant), subject)
        for subject, who in answering.items()
        if who in agents
    ]
    if subjects.MEMORY_DAEMON in agents:
        signer = subjects.USER if name == subjects.GATEWAY else name
        imports += [
            _import("service", memory, f"{subject}.{signer}", to=subject) for subject in rights.signed_request
        ]
    renamed = {pair: None for each in of_hosts.values() for pair in _renamed(each)}
    imports += [_import("service", office, subject, to=local) for subject, local in renamed]
    if name == subjects.GATEWAY and not tenant:
        imports.append(_import("service", SYSTEM_ACCOUNT, _STATISTICS, to=subjects.SERVER_STATISTICS))
    imports += [_subscription(subject, office) for subject in rights.subscribe]
    if rights.hear:
        tellers = [each for each in agents if each not in (*subjects.PEOPLE, subjects.MEMORY_DAEMON)]
        told = [(each, rights_of(each, agents).tell) for each in tellers]
        imports += [
            _import("stream", _account_name(each, tenant), subject) for each, tell in told for subject in tell
        ]
    exports = [f"{{ service: {json.dumps(subject)} }}" for subject in rights.serve]
    people = ", ".join(
        _account_name(each, tenant) for each in subjects.PEOPLE if each in (*agents, subjects.USER)
    )
    exports += [f"{{ stream: {json.dumps(told)}, accounts: [ {people} ] }}" for told in rights.tell]
    if name == subjects.USER:
        imports += [_import("service", _account_name(agent, tenant), "$SRV.>") for agent in agents]
    else:
        # As a service: an agent answers the server, and never learns or reaches an inbox of people's.
        only = f"accounts: [ {_account_name(subjects.USER, tenant)} ]"
        exports.append(f'{{ service: "$SRV.>", response_type: stream, {only} }}')
    written = ", ".join(
        f"{{ nkey: {users[host]}, permissions: {{ {_permissions(name, each)} }} }}"
        for host, each in of_hosts.items()
    )
    lists = _list("exports", exports) + _list("imports", imports)
    return f"  {_account_name(name, tenant)} {{\n    users: [ {written} ]\n{lists}  }}"


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


def _person_account(name: str, key: str, tenant: str) -> str:
    """The account of one of the people: it asks the gateway, which learns from the broker who asks."""
    ask = _import(
        "service", _account_name(subjects.GATEWAY, tenant), f"{subjects.API}.{name}", to=subjects.API
    )
    may = f'publish: {{ allow: [ "{subjects.API}" ] }}, subscribe: {{ allow: [ "_INBOX.>" ] }}'
    user = f"{{ nkey: {key}, permissions: {{ {may} }} }}"
    return f"  {_account_name(name, tenant)} {{\n    users: [ {user} ]\n{_list('imports', [ask])}  }}"


def _subscription(subject: str, office: str) -> str:
    """The import of a subject it may subscribe to: from the audit's copy, which alone crosses accounts."""
    if subject.startswith(subjects.AUDIT_PREFIX):
        return _import("stream", office, subject)
    return _import("stream", office, f"{subjects.AUDIT_PREFIX}{subject}", to=subject)


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
