"""Which hosts a session may reach, and to which addresses the gate connects."""

import asyncio
import socket
import time
from typing import Any

import pytest

from shared.gate import Session
from shared.gate.addresses import Refused, matches, parse_authority, require_granted, resolve
from shared.gate.proxy import Proxy


@pytest.mark.parametrize(
    ("pattern", "host", "port", "expected"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 22, False),
        ("example.org:22", "example.org", 22, True),
        ("example.org:22", "example.org", 443, False),
        ("example.org", "www.example.org", 443, False),
        ("example.org", "example.org.evil.net", 443, False),
        ("*.example.org", "www.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("*.0.0.1", "127.0.0.1", 80, False),
        ("EXAMPLE.org.", "example.org", 443, True),
        ("[::1]:8080", "::1", 8080, True),
        ("[2001:db8::1]", "2001:db8::1", 443, True),
        ("192.0.2.1:81", "192.0.2.1", 81, True),
    ],
)
def test_a_pattern_means_its_host_and_ports_alone(pattern: str, host: str, port: int, expected: bool) -> None:
    assert matches(pattern, host, port) is expected


@pytest.mark.parametrize(
    ("authority", "expected"),
    [
        ("example.org:443", ("example.org", 443)),
        ("EXAMPLE.org.:443", ("example.org", 443)),
        ("[::1]:443", ("::1", 443)),
        ("[0:0:0:0:0:0:0:1]:443", ("::1", 443)),
        ("example.org", ("example.org", 80)),
    ],
)
def test_an_authority_is_normalised(authority: str, expected: tuple[str, int]) -> None:
    assert parse_authority(authority, 80) == expected


@pytest.mark.parametrize(
    "authority",
    ["", ":443", "a@b:443", "a b:443", "a:0", "a:65536", "a:1:2", "a/b:1", "[::1", "\u00e4.org:1"],
)
def test_a_malformed_authority_is_refused(authority: str) -> None:
    with pytest.raises(Refused):
        parse_authority(authority)


def test_what_is_not_granted_is_refused() -> None:
    with pytest.raises(Refused, match="not among the hosts"):
        require_granted(Session(["example.org"], [], 1), "example.net", 443)


class Resolver:
    """A name server that answers differently each time."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def __call__(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, 1, 6, "", (address, port)) for address in self.answers.pop(0)]


async def resolved(monkeypatch: pytest.MonkeyPatch, resolver: Resolver, private: list[str]) -> list[str]:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolver)
    return await resolve(Session(["example.org"], private, 1), "example.org", 443)


async def test_a_name_is_resolved_once_and_its_addresses_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = Resolver(["93.184.215.14"], ["127.0.0.1"])
    assert await resolved(monkeypatch, resolver, []) == ["93.184.215.14"]
    assert len(resolver.answers) == 1


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "100.64.1.1",
        "::1",
        "fe80::1",
        "::ffff:8.8.8.8",
        "224.0.0.1",
    ],
)
async def test_one_private_address_of_several_refuses_the_name(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    with pytest.raises(Refused, match="not a public address"):
        await resolved(monkeypatch, Resolver(["93.184.215.14", address]), [])
    assert await resolved(monkeypatch, Resolver([address]), ["example.org"]) == [address]


async def test_connections_of_a_command_share_one_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve_slowly(host: str, *args: Any, **more: Any) -> Any:
        asked.append(host)
        if len(asked) == 1:
            raise socket.gaierror
        time.sleep(0.05)
        return real(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_slowly)
    host = "localhost:1"
    proxy = Proxy(Session(hosts=[host], private=[host], max_bytes=1))
    with pytest.raises(Refused, match="cannot be resolved"):
        await proxy.resolve("localhost", 1, is_needed=True)
    found = await asyncio.gather(*(proxy.resolve("localhost", 1, is_needed=True) for _ in range(20)))
    assert "127.0.0.1" in found[0]
    assert len(asked) == 2
