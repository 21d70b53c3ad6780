"""The gate: what a command with reach gets through it, and that the command is otherwise unchanged."""

import asyncio
import base64
import contextlib
import json
import socket
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.contracts import Connection
from shared.errors import ActionError
from shared.sandbox import Reach, run_command
from tests.flow.gates import ASK, Canary, reach_of, serve_mirror
from tests.flow.jailing import python, shell
from tests.support.http import HttpServer, Site

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")

NOWHERE = Reach(hosts=("nowhere.example",))


@pytest.fixture
def canary() -> Iterator[Canary]:
    canary = Canary()
    yield canary
    canary.close()


@pytest.fixture
def mirror(canary: Canary) -> Iterator[HttpServer]:
    with serve_mirror(canary.port) as server:
        yield server


async def test_a_plain_request_goes_to_the_granted_host_alone(tmp_path: Path, mirror: HttpServer) -> None:
    reach = reach_of(f"127.0.0.1:{mirror.port}")
    head = (
        f"POST http://127.0.0.1:{mirror.port}/x?y=1 HTTP/1.1\\r\\nHost: evil.example\\r\\n"
        "Connection: keep-alive\\r\\nProxy-Authorization: Basic eDp5\\r\\n"
        "X-Own: 1\\r\\nContent-Length: 3\\r\\n\\r\\nabc"
    )
    result = await python(f"{ASK}\nprint(ask(b'{head}'))", tmp_path, reach=reach)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("HTTP/1.0 200")
    seen = json.loads(result.output.partition("\r\n\r\n")[2])
    assert (seen["path"], seen["body"]) == ("/x?y=1", "abc")
    headers = {name.lower(): value for name, value in seen["headers"].items()}
    assert headers == {
        "host": f"127.0.0.1:{mirror.port}",
        "x-own": "1",
        "content-length": "3",
        "connection": "close",
    }
    (connection,) = result.connections
    assert (connection.host, connection.port, connection.allowed) == ("127.0.0.1", mirror.port, True)
    assert connection.sent == 3
    assert connection.received > 100


async def test_a_tunnel_carries_bytes_both_ways_until_both_sides_end(
    tmp_path: Path, mirror: HttpServer
) -> None:
    code = f"""{ASK}
target = "127.0.0.1:{mirror.port}"
print(ask(f"CONNECT {{target}} HTTP/1.1\\r\\n\\r\\n".encode(), b"GET /inner HTTP/1.0\\r\\n\\r\\n", half=True))
"""
    result = await python(code, tmp_path, reach=reach_of(f"127.0.0.1:{mirror.port}"))
    assert "200 Connection established" in result.output
    assert '"path": "/inner"' in result.output
    assert [(each.port, each.allowed) for each in result.connections] == [(mirror.port, True)]
    assert result.connections[0].sent == len("GET /inner HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 37", 37),
        ("kill -9 $$", -9),
        ("kill -TERM $$", -15),
        ("exec no-such-program", 127),
    ],
)
async def test_the_exit_code_is_the_commands_own(tmp_path: Path, script: str, code: int) -> None:
    result = await shell(script, tmp_path, reach=NOWHERE)
    assert result.exit_code == code
    assert result.connections == ()


async def test_output_environment_and_signals_are_the_commands_own(tmp_path: Path) -> None:
    script = "echo out; echo err >&2; pwd; ls /proc/self/fd | wc -l; env; grep ^Sig /proc/self/status"
    with_reach = await shell(script, tmp_path, separate_errors=True, reach=NOWHERE)
    without = await shell(script, tmp_path, separate_errors=True)
    assert with_reach.errors == without.errors == "err\n"
    added = set(with_reach.output.splitlines()) - set(without.output.splitlines())
    assert set(without.output.splitlines()) <= set(with_reach.output.splitlines())
    assert {line.partition("=")[0].lower() for line in added} == {
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("npm_config_proxy", "npm_config_https_proxy", "npm_config_noproxy", "cargo_http_proxy"),
        *("ssl_cert_file", "requests_ca_bundle", "pip_cert", "node_extra_ca_certs", "cargo_http_cainfo"),
        *("git_ssl_cainfo", "curl_ca_bundle"),
    }


async def test_a_program_that_does_not_exist_is_refused_as_without_reach(tmp_path: Path) -> None:
    with pytest.raises(ActionError, match="not installed"):
        await run_command(["no-such-program"], cwd=tmp_path, timeout=5, reach=NOWHERE)


async def test_commands_at_the_same_time_have_gates_of_their_own(tmp_path: Path, mirror: HttpServer) -> None:
    code = f"{ASK}\nprint(ask(b'GET http://127.0.0.1:{mirror.port}/ HTTP/1.0\\r\\n\\r\\n')[:30])"
    granted, other = await asyncio.gather(
        python(code, tmp_path, reach=reach_of(f"127.0.0.1:{mirror.port}")),
        python(code, tmp_path, reach=NOWHERE),
    )
    assert "200 OK" in granted.output
    assert "403 Forbidden" in other.output
    assert (
        other.connections[0].why == f"127.0.0.1:{mirror.port} is not among the hosts this command may reach"
    )


async def test_the_certificates_of_the_machine_are_there(tmp_path: Path) -> None:
    code = "import os, ssl; c = ssl.create_default_context(); print(c.cert_store_stats()['x509_ca'] > 0)"
    result = await python(code, tmp_path, reach=NOWHERE)
    if Path("/etc/ssl/certs/ca-certificates.crt").exists():
        assert result.output == "True\n"


async def test_pip_installs_from_a_mirror_through_the_gate(tmp_path: Path) -> None:
    wheel = tmp_path / "pebble-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pebble.py", "SIZE = 7\n")
        archive.writestr("pebble-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pebble\nVersion: 1\n")
        archive.writestr(
            "pebble-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("pebble-1.0.dist-info/RECORD", "")
    with Site() as site:
        site.page("/simple/pebble/", f'<a href="/files/{wheel.name}">{wheel.name}</a>', kind="text/html")
        site.page(f"/files/{wheel.name}", wheel.read_bytes(), kind="application/octet-stream")
        script = (
            f"{sys.executable} -m pip install -q --isolated --disable-pip-version-check --target there "
            f"--index-url {site.url('/simple')} pebble && {sys.executable} -c "
            "'import sys; sys.path.insert(0, \"there\"); import pebble; print(pebble.SIZE)'"
        )
        result = await shell(script, tmp_path, 60.0, reach=reach_of(site.pair))
    assert result.output.splitlines()[-1] == "7", result.output
    assert all(each.allowed and each.port == site.port for each in result.connections)
    assert result.connections


class Upstream:
    """A company's proxy, which notes what it is asked for and tunnels it all to one port."""

    def __init__(self, port: int) -> None:
        self.heads: list[str] = []
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.heads.append(client.recv(65_536).decode())
                with socket.create_connection(("127.0.0.1", self._target)) as target:
                    client.sendall(b"HTTP/1.1 200 OK\r\nVia: own\r\n\r\n")
                    target.sendall(client.recv(65_536))
                    while more := target.recv(65_536):
                        client.sendall(more)
                client.close()

    def close(self) -> None:
        self._listener.close()


async def test_the_machines_own_proxy_is_used_and_its_password_stays_outside(
    tmp_path: Path, mirror: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream(mirror.port)
    monkeypatch.setenv("https_proxy", f"http://me:s%3Acret@127.0.0.1:{upstream.port}")
    monkeypatch.setenv("no_proxy", "direct.example,.corp.example")
    code = f"""{ASK}
import os
for host in ("public.example", "direct.example", "git.corp.example", "evil.example"):
    request = f"CONNECT {{host}}:443 HTTP/1.1\\r\\n\\r\\n".encode()
    print(ask(request, b"GET /inner HTTP/1.0\\r\\n\\r\\n", half=True).partition("\\r\\n")[0])
print([value for value in os.environ.values() if "cret" in value])
"""
    hosts = ("public.example", "direct.example", "*.corp.example")
    result = await python(code, tmp_path, reach=Reach(hosts=hosts))
    upstream.close()
    through, direct, below, evil, secrets = result.output.splitlines()
    assert through == "HTTP/1.1 200 Connection established"
    assert "502" in direct
    assert "502" in below
    assert "403" in evil
    assert secrets == "[]"
    (head,) = upstream.heads
    assert head.startswith("CONNECT public.example:443 HTTP/1.1\r\n")
    assert f"Basic {base64.b64encode(b'me:s:cret').decode()}" in head
    assert result.connections[0].received > 50


async def test_what_was_refused_says_why(tmp_path: Path) -> None:
    result = await python(f"{ASK}\nprint(connect('evil.example:443'))", tmp_path, reach=NOWHERE)
    status, _, rest = result.output.partition("\r\n")
    assert status == "HTTP/1.1 403 Forbidden: evil.example:443 is not among the hosts this command may reach"
    assert "Mailroom's gate: evil.example:443 is not among" in rest
    assert result.connections == (
        Connection(
            host="evil.example",
            port=443,
            allowed=False,
            why="evil.example:443 is not among the hosts this command may reach",
            seconds=result.connections[0].seconds,
        ),
    )


async def test_a_name_that_cannot_be_resolved_is_said(tmp_path: Path) -> None:
    result = await python(f"{ASK}\nprint(connect('nowhere.example:443'))", tmp_path, reach=NOWHERE)
    assert "502 Bad Gateway: nowhere.example cannot be resolved" in result.output
    assert not result.connections[0].allowed


async def test_a_host_that_does_not_listen_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    result = await python(
        f"{ASK}\nprint(connect('127.0.0.1:{port}'))", tmp_path, reach=reach_of(f"127.0.0.1:{port}")
    )
    assert "502 Bad Gateway" in result.output
    assert f"127.0.0.1:{port} cannot be reached" in result.connections[0].why


@pytest.mark.parametrize("host", ["", "http://example.org", "a b", "example.org/x", "*", "*.", "a@b", "x:y"])
def test_a_malformed_host_is_refused(host: str) -> None:
    with pytest.raises(ActionError, match="is not a host"):
        Reach(hosts=(host,))
