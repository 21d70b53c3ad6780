"""Attempts to get past the gate, while a canary on the machine's loopback listens; none arrives."""

import asyncio
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.sandbox import Reach
from tests.flow.gates import ASK, Canary, reach_of, serve_mirror
from tests.flow.jailing import python, shell
from tests.support.http import HttpServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")


@pytest.fixture
def canary() -> Iterator[Canary]:
    canary = Canary()
    yield canary
    canary.close()


@pytest.fixture
def mirror(canary: Canary) -> Iterator[HttpServer]:
    with serve_mirror(canary.port) as server:
        yield server


TARGETS = [
    "127.0.0.1:{port}",
    "localhost:{port}",
    "LOCALHOST.:{port}",
    "[::1]:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "[::ffff:7f00:1]:{port}",
    "[64:ff9b::7f00:1]:{port}",
    "[2002:7f00:1::]:{port}",
    "0.0.0.0:{port}",
    "[::]:{port}",
    "127.1:{port}",
    "2130706433:{port}",
    "0x7f.0.0.1:{port}",
    "0177.0.0.1:{port}",
    "10.0.0.1:80",
    "169.254.169.254:80",
    "168.63.129.16:80",
    "100.64.0.1:80",
    "224.0.0.1:80",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("granted", [False, True], ids=["not granted", "granted, but not in the settings"])
async def test_private_addresses_are_refused_in_every_form(
    tmp_path: Path, canary: Canary, target: str, granted: bool
) -> None:
    target = target.format(port=canary.port)
    code = f"""{ASK}
print(connect({target!r}))
print(ask(b"GET http://{target}/ HTTP/1.0\\r\\n\\r\\n"))
"""
    hosts = (target.replace(".:", ":") if granted else "example.org",)
    result = await python(code, tmp_path, reach=Reach(hosts=hosts))
    assert "HTTP/1.1 4" in result.output or "HTTP/1.1 502" in result.output
    assert " 200 " not in result.output
    assert not any(each.allowed for each in result.connections)
    assert canary.visits == 0


@pytest.mark.parametrize(
    "target",
    [
        "user@127.0.0.1:{mirror}@127.0.0.1:{port}",
        "127.0.0.1:{mirror}@127.0.0.1:{port}",
        "127.0.0.1:{mirror}#127.0.0.1:{port}",
        "127.0.0.1:{mirror}/127.0.0.1:{port}",
        "127.0.0.1:{mirror} 127.0.0.1:{port}",
        "127.0.0.1:{mirror}\\x00127.0.0.1:{port}",
        "127.0.0.1:{mirror}\\x0b127.0.0.1:{port}",
        "127.0.0.1\\xad:{port}",
        "[127.0.0.1]:{port}",
        "127.0.0.1:{port}",
        "127.0.0.1:0{port}",
        "127.0.0.1:-1",
        "127.0.0.1:99999",
        "127.0.0.1",
        ":{port}",
        "",
    ],
)
async def test_addresses_on_which_parsers_disagree_lead_nowhere(
    tmp_path: Path, canary: Canary, mirror: HttpServer, target: str
) -> None:
    target = target.format(port=canary.port, mirror=mirror.port)
    code = f"""{ASK}
print(ask("CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode("latin-1"))[:60])
host = b"Host: 127.0.0.1:{canary.port}\\r\\n\\r\\n"
print(ask("GET http://{target}/ HTTP/1.0\\r\\n".encode("latin-1"), host)[:60])
"""
    await python(code, tmp_path, reach=reach_of(f"127.0.0.1:{mirror.port}"))
    assert canary.visits == 0


async def test_a_redirect_to_a_private_address_is_a_new_request(
    tmp_path: Path, canary: Canary, mirror: HttpServer
) -> None:
    code = f"""
import urllib.error, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{"http": "http://127.0.0.1:61128"}}))
import os
os.environ.pop("NO_PROXY"), os.environ.pop("no_proxy")
try:
    print(opener.open("http://127.0.0.1:{mirror.port}/away", timeout=20).read())
except urllib.error.HTTPError as error:
    print(error.code, error.read())
"""
    result = await python(code, tmp_path, reach=reach_of(f"127.0.0.1:{mirror.port}"))
    assert result.output.startswith("403 b"), result.output
    assert [(each.port, each.allowed) for each in result.connections] == [
        (mirror.port, True),
        (canary.port, False),
    ]
    assert canary.visits == 0


async def test_a_second_request_on_the_same_connection_is_not_passed_on(
    tmp_path: Path, canary: Canary, mirror: HttpServer
) -> None:
    first = f"GET http://127.0.0.1:{mirror.port}/one HTTP/1.1\\r\\n\\r\\n"
    code = f"""{ASK}
print(ask(b"{first}", b"GET /two HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n",
    b"GET http://127.0.0.1:{canary.port}/ HTTP/1.1\\r\\n\\r\\n"))
"""
    result = await python(code, tmp_path, reach=reach_of(f"127.0.0.1:{mirror.port}"))
    assert '"path": "/one"' in result.output
    assert "two" not in result.output
    assert "other.example" not in result.output
    assert result.connections[0].sent == 0
    assert canary.visits == 0


@pytest.mark.parametrize(
    "fields",
    [
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked\\r\\nContent-Length: 5",
        "Content-Length: 5\\r\\nContent-Length: 50",
        "Content-Length: +5",
        "Content-Length: 5, 5",
        "Content-Length : 5",
        "X: 1\\nContent-Length: 50",
        " Content-Length: 50",
        "Upgrade\\r\\nX: 1",
    ],
)
async def test_bodies_on_which_servers_disagree_are_refused(
    tmp_path: Path, mirror: HttpServer, fields: str
) -> None:
    code = f"""{ASK}
print(ask(b"POST http://127.0.0.1:{mirror.port}/ HTTP/1.1\\r\\n{fields}\\r\\n\\r\\n"
    b"0\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n"))
"""
    result = await python(code, tmp_path, reach=reach_of(f"127.0.0.1:{mirror.port}"))
    assert result.output.startswith("HTTP/1.1 4"), result.output


async def test_no_other_way_leads_out(tmp_path: Path, canary: Canary) -> None:
    six = Canary(socket.AF_INET6)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    udp.settimeout(0.2)
    code = f"""
import socket
def attempt(what, *arguments):
    try:
        print("REACHED", what(*arguments))
    except OSError as error:
        print(type(error).__name__)
attempt(socket.create_connection, ("127.0.0.1", {canary.port}), 2)
attempt(socket.create_connection, ("::1", {six.port}), 2)
attempt(socket.create_connection, ("192.0.2.1", 80), 2)
attempt(socket.create_connection, ("1.1.1.1", 53), 2)
attempt(socket.getaddrinfo, "example.org", 80)
for address in (("127.0.0.1", {udp.getsockname()[1]}), ("1.1.1.1", 53), ("192.0.2.53", 53)):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.settimeout(0.3)
    attempt(sender.sendto, b"query", address)
    attempt(sender.recv, 100)
attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW)
attempt(socket.socket, 16, socket.SOCK_RAW)
"""
    result = await python(code, tmp_path, reach=reach_of("example.org"))
    with pytest.raises(TimeoutError):
        udp.recv(10)
    udp.close()
    six.close()
    # A datagram to the jail's own loopback is sent, and nobody receives it.
    assert [line for line in result.output.splitlines() if "REACHED" in line] in ([], ["REACHED 5"])
    assert (canary.visits, six.visits) == (0, 0)


async def test_a_proxy_of_the_commands_own_gains_nothing(tmp_path: Path, canary: Canary) -> None:
    code = f"""{ASK}
import threading
listener = socket.create_server(("127.0.0.1", 8080))
def relay():
    client, _ = listener.accept()
    with socket.create_connection(("127.0.0.1", 61128)) as gate:
        gate.sendall(client.recv(65536))
        client.sendall(gate.recv(65536))
    client.close()
threading.Thread(target=relay, daemon=True).start()
with socket.create_connection(("127.0.0.1", 8080)) as own:
    own.sendall(b"CONNECT 127.0.0.1:{canary.port} HTTP/1.1\\r\\n\\r\\n")
    print(own.recv(1000))
"""
    result = await python(code, tmp_path, reach=reach_of("example.org"))
    assert "403 Forbidden" in result.output, result.output
    assert canary.visits == 0


async def test_the_socket_in_the_jail_is_no_second_entrance(tmp_path: Path, canary: Canary) -> None:
    code = f"""
import os, socket
print(sorted(os.listdir("/run")))
with socket.socket() as own:
    own.bind(("127.0.0.1", 0))
    own.listen()
    for attempt in range(3):
        try:
            with socket.socket(socket.AF_UNIX) as gate:
                gate.connect("/run/gate.sock")
                socket.send_fds(gate, [b"."], [own.fileno()])
                gate.sendall(b"CONNECT 127.0.0.1:{canary.port} HTTP/1.1\\r\\n\\r\\n")
                gate.settimeout(1)
                print(gate.recv(100))
        except OSError as error:
            print(type(error).__name__)
try:
    os.unlink("/run/gate.sock")
except OSError as error:
    print(type(error).__name__)
"""
    result = await python(code, tmp_path, reach=reach_of("example.org"))
    lines = result.output.splitlines()
    assert lines[0] == "['gate.sock']"
    assert set(lines[1:]) <= {
        "b''",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "TimeoutError",
        "BrokenPipeError",
        "OSError",
    }
    assert canary.visits == 0


async def test_other_commands_sockets_are_not_to_be_found(tmp_path: Path) -> None:
    # The command's own connection is listed by the gate's path for the moment until the gate has taken it.
    count = (
        "for each in 1 2 3 4 5; do n=$(grep -c mailroom /proc/net/unix); [ $n = 0 ] && break; sleep 0.2; done"
    )
    script = f"ls -d /tmp/mailroom* 2>&1; find / -xdev -type s 2>/dev/null; {count}; echo $n"
    both = await asyncio.gather(*(shell(script, tmp_path, reach=reach_of("example.org")) for _ in range(2)))
    for result in both:
        assert "/tmp/mailroom-gate" not in result.output
        assert result.output.splitlines()[-1] == "0"


async def test_a_command_without_reach_has_neither_socket_nor_proxy(tmp_path: Path) -> None:
    result = await shell("ls /run; env | grep -ic proxy; (: > /dev/tcp/127.0.0.1/61128) 2>&1", tmp_path)
    assert "gate" not in result.output
    assert "0\n" in result.output


async def test_more_bytes_than_allowed_end_the_connection(tmp_path: Path, mirror: HttpServer) -> None:
    code = f"""{ASK}
print(len(ask(b"GET http://127.0.0.1:{mirror.port}/much HTTP/1.0\\r\\n\\r\\n")))
print(len(ask(b"GET http://127.0.0.1:{mirror.port}/endless HTTP/1.0\\r\\n\\r\\n")))
print(ask(b"GET http://127.0.0.1:{mirror.port}/ HTTP/1.0\\r\\n\\r\\n"))
"""
    reach = reach_of(f"127.0.0.1:{mirror.port}", max_bytes=5_000_000)
    result = await python(code, tmp_path, reach=reach)
    much, endless, *_ = result.output.splitlines()
    assert int(much) > 3_000_000
    assert int(endless) < 2_100_000
    assert [each.allowed for each in result.connections] == [True, False, False]
    assert "more than 5,000,000 bytes" in result.connections[1].why
    assert sum(each.received + each.sent for each in result.connections) <= 5_000_000


async def test_a_huge_head_is_not_read(tmp_path: Path, mirror: HttpServer) -> None:
    code = f"""{ASK}
print(ask(b"GET http://127.0.0.1:{mirror.port}/ HTTP/1.0\\r\\n", *[b"X: " + b"a" * 60000] * 40)[-30:])
print(ask(b"GET http://127.0.0.1:{mirror.port}/after HTTP/1.0\\r\\n\\r\\n"))
"""
    result = await python(code, tmp_path, reach=reach_of(f"127.0.0.1:{mirror.port}"))
    assert '"path": "/after"' in result.output
    assert len(result.connections) == 1


async def test_many_connections_neither_break_the_gate_nor_delay_the_end(
    tmp_path: Path, mirror: HttpServer
) -> None:
    code = f"""{ASK}
held = []
try:
    for _ in range(400):
        held.append(socket.create_connection(("127.0.0.1", 61128), timeout=5))
except OSError as error:
    print(type(error).__name__)
for each in held:
    each.close()
import time
time.sleep(0.5)
for _ in range(300):
    connect("evil.example:443")
print(ask(b"GET http://127.0.0.1:{mirror.port}/after HTTP/1.0\\r\\n\\r\\n"))
"""
    result = await python(code, tmp_path, 60.0, reach=reach_of(f"127.0.0.1:{mirror.port}"))
    assert '"path": "/after"' in result.output, result.output
    assert len(result.connections) == 301
    assert result.seconds < 30


async def test_the_report_is_bounded(tmp_path: Path) -> None:
    code = f"{ASK}\nfor number in range(1200):\n    connect(f'host{{number}}.example:443')"
    result = await python(code, tmp_path, 90.0, reach=reach_of("example.org"))
    assert len(result.connections) == 1000
    assert result.connections[998].host == "host998.example"
    assert result.connections[999].why == "1,000 or more connections were asked for"
