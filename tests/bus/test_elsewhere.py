"""Seals on a NATS server that is none of the office's."""

import asyncio
import json
import os
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nats
import nkeys
import pytest

from services.cli.supervisor.programs import find_server, free_port, is_listening
from services.gateway import sealing
from shared import settings
from shared.bus.elsewhere import read_elsewhere, store_elsewhere
from shared.contracts import Seal
from shared.errors import BusError, BusUnavailable, ConfigError
from shared.queries.seals import name_of
from shared.trail.seals import make_seal, read_kept
from tests.support.server import environment

CONFIG = """
authorization { users: [
  { user: office, password: secret, permissions: { publish: ["seals.office", "seals.none"] } }
  { user: admin, password: admin }
] }
"""


@contextmanager
def serving(folder: Path, config: str) -> Iterator[int]:
    """A server with JetStream and this configuration; its port."""
    port = free_port()
    store = f'port: {port}\njetstream {{ store_dir: "{folder / "store"}" }}\n'
    (folder / "conf").write_text(store + config)
    program = find_server(settings.load(environment(folder)))
    with subprocess.Popen([program, "--config", folder / "conf"], stderr=subprocess.DEVNULL) as process:
        try:
            while not is_listening(port):
                assert process.poll() is None
                os.sched_yield()
            yield port
        finally:
            process.kill()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with serving(tmp_path, CONFIG) as port:
        yield port


def by_password(folder: Path) -> tuple[str, str, str]:
    """A configuration, what stands before the host of an address, and what after the subject."""
    return "authorization { users: [{ user: office, password: secret }] }", "office:secret@", ""


def by_nkey(folder: Path) -> tuple[str, str, str]:
    seed, public = make_key(nkeys.PREFIX_BYTE_USER)
    (folder / "office.nk").write_bytes(seed)
    return f"authorization {{ users: [{{ nkey: {public} }}] }}", "", f"?nkey={folder / 'office.nk'}"


def by_credentials(folder: Path) -> tuple[str, str, str]:
    operator, operator_id = make_key(nkeys.PREFIX_BYTE_OPERATOR)
    account, account_id = make_key(nkeys.PREFIX_BYTE_ACCOUNT)
    _, system_id = make_key(nkeys.PREFIX_BYTE_ACCOUNT)
    user, user_id = make_key(nkeys.PREFIX_BYTE_USER)
    every = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    stored = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
    limits = {"limits": {**every, **stored, "wildcards": True}}
    at_will = {**dict.fromkeys(("subs", "data", "payload"), -1), "pub": {}, "sub": {}}
    token = make_token(account, user_id, "user", at_will)
    (folder / "office.creds").write_text(
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.decode()}\n------END USER NKEY SEED------\n"
    )
    accounts = "\n".join(
        f"{each}: {make_token(operator, each, 'account', own)}"
        for each, own in ((account_id, limits), (system_id, {}))
    )
    config = (
        f"operator: {make_token(operator, operator_id, 'operator', {})}\nsystem_account: {system_id}\n"
        f"resolver: MEMORY\nresolver_preload: {{\n{accounts}\n}}"
    )
    return config, "", f"?creds={folder / 'office.creds'}"


def make_key(kind: int) -> tuple[bytes, str]:
    """A new key of NATS: its seed, and its public part."""
    seed = nkeys.encode_seed(os.urandom(32), kind)
    return seed, nkeys.from_seed(seed).public_key.decode()


def make_token(issuer: bytes, about: str, kind: str, claims: dict[str, object]) -> str:
    """A JWT as nsc writes it."""
    key = nkeys.from_seed(issuer)
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    nats_claims = {**claims, "type": kind, "version": 2}
    body = {
        "jti": "1",
        "iat": 1,
        "iss": key.public_key.decode(),
        "sub": about,
        "name": kind,
        "nats": nats_claims,
    }
    parts = [urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (head, body)]
    signed = key.sign(b".".join(parts))
    return b".".join((*parts, urlsafe_b64encode(signed).rstrip(b"="))).decode()


@pytest.mark.parametrize("how", [by_password, by_nkey, by_credentials])
async def test_seals_are_stored_and_read_back_with_each_kind_of_credentials(
    tmp_path: Path, how: Callable[[Path], tuple[str, str, str]]
) -> None:
    config, user, query = how(tmp_path)
    with serving(tmp_path, config) as port:
        address = f"nats://{user}127.0.0.1:{port}/seals.office{query}"
        files = {"user_credentials": tmp_path / "office.creds", "nkeys_seed": tmp_path / "office.nk"}
        given = {name: str(path) for name, path in files.items() if path.is_file()}
        client = await nats.connect(f"nats://{user}127.0.0.1:{port}", **given)
        with pytest.raises(BusError, match=r"No stream of 127.0.0.1 has seals.office"):
            await read_elsewhere(address)
        await client.jetstream().add_stream(name="SEALS", subjects=["seals.*"])
        assert await read_elsewhere(address) == []
        for number in range(600):
            await client.publish("seals.other", b"another")
            await client.publish("seals.office", b"%d" % number)
        await client.flush()
        await store_elsewhere(address, b"a seal", "1")
        await client.close()
        assert await read_elsewhere(address) == [*(b"%d" % number for number in range(600)), b"a seal"]
        for other in (f"nats://127.0.0.1:{port}/seals.office", f"nats://x:y@127.0.0.1:{port}/seals.office"):
            with pytest.raises(BusUnavailable, match=r"No connection to 127\.0\.0\.1"):
                await read_elsewhere(other)


async def test_a_file_of_credentials_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    for query in (f"?creds={tmp_path / 'none'}", f"?nkey={tmp_path / 'none'}"):
        with pytest.raises(ConfigError, match=r"The credentials .* cannot be read: No such file"):
            await store_elsewhere(f"nats://127.0.0.1:1/seals{query}", b"", "1")


async def make_stream(port: int) -> "nats.NATS":
    client = await nats.connect(f"nats://admin:admin@127.0.0.1:{port}")
    await client.jetstream().add_stream(name="SEALS", subjects=["seals.office"])
    return client


async def test_a_seal_is_kept_once_it_was_stored(port: int) -> None:
    client = await make_stream(port)
    address = f"nats://office:secret@127.0.0.1:{port}/seals.office"
    await store_elsewhere(address, b"a seal", "1")
    await store_elsewhere(address, b"a seal", "1")
    stored = await client.jetstream().get_last_msg("SEALS", "seals.office")
    assert (stored.seq, stored.data) == (1, b"a seal")
    await client.close()


async def test_what_is_not_stored_is_told(port: int) -> None:
    client = await make_stream(port)
    with pytest.raises(BusError, match=r"No stream of 127.0.0.1 takes seals.none"):
        await store_elsewhere(f"nats://office:secret@127.0.0.1:{port}/seals.none", b"", "1")
    with pytest.raises(BusUnavailable, match=r"may this user publish there"):
        await store_elsewhere(f"nats://office:secret@127.0.0.1:{port}/other", b"", "1", timeout=0.3)
    with pytest.raises(BusUnavailable, match=r"may this user read there"):
        await read_elsewhere(f"nats://office:secret@127.0.0.1:{port}/seals.office", timeout=0.3)
    with pytest.raises(BusUnavailable, match=r"No connection to 127.0.0.1"):
        await store_elsewhere(f"nats://office:wrong@127.0.0.1:{port}/seals.office", b"", "1")
    with pytest.raises(BusUnavailable, match=r"No connection to 127.0.0.1"):
        await store_elsewhere("nats://127.0.0.1:1/seals.office", b"", "1")
    for address in ("nats://127.0.0.1", "nats:///x", "nats://127.0.0.1/a.*"):
        with pytest.raises(ConfigError, match="no address"):
            await store_elsewhere(address, b"", "1")
    await client.close()


def test_no_secret_of_a_witness_is_shown() -> None:
    assert name_of("nats://office:secret@host:4222/seals?creds=/run/x") == "nats://host:4222/seals"
    assert name_of("https://u:p@host/seals") == "https://host/seals"
    assert name_of("/mnt/seals") == "/mnt/seals"
    assert name_of("mailto:ada@example.org") == "mailto:ada@example.org"


async def test_the_file_of_the_gateway_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "OWN_SIZE", 20_000)
    monkeypatch.setattr(sealing, "OWN_KEPT", 5)
    path, last = tmp_path / "seals", list[Seal]()
    first = make_seal("MEMORY", None, [b"x" * 32], "gateway")
    sealing._append(path, first.to_json() + b"\n")
    for number in range(100):
        last.append(make_seal("OFFICE", last[-1] if last else None, [b"%032d" % number], "gateway"))
        sealing._append(path, last[-1].to_json() + b"\n")
        await asyncio.to_thread(sealing._shorten, path)
    assert path.stat().st_size < 25_000
    kept = read_kept(path)
    assert kept[-1] == last[-1]
    assert first in kept
