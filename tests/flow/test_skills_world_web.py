"""Reading web pages: which addresses are fetched, and what becomes of a page."""

import asyncio
import contextlib
import gzip
import socket
import ssl
import threading
import time
import tracemalloc
from typing import Any

import pytest

import shared.skills.web
import shared.web.fetching
from shared.errors import ActionError
from shared.skills.web import SIZE, fetch_page
from shared.web.fetching import MAX_SIZE as FETCHED
from shared.web.fetching import fetch, parse_address, require_public, resolve
from tests.flow.test_skills_world_documents import make_pdf
from tests.support.http import Request, Site

ARTICLE = f"""<html><head><title>Of  Kettles</title><style>x</style></head>
<body><nav><a href="/home#top">Home</a></nav><article><h1>Of Kettles</h1>
<p>{"Water boils at one hundred degrees at sea level. " * 6}</p>
<p>Second paragraph about boiling water, long enough to be kept by the reader.</p>
<a href="https://example.org/more">more</a> <a href="mailto:x@y.z">mail</a>
<a href="javascript:alert(1)">no</a>
</article><script>alert('x')</script></body></html>"""

Answer = tuple[int, dict[str, str], bytes]


REFUSED = [
    # loopback, in every dress
    "http://127.0.0.53:8080/",
    "http://localhost/x",
    "http://LocalHost:9000",
    "http://app.localhost/",
    "http://127.9/",
    "http://0/",
    "http://0.0.0.0:8000/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://[::1]:80/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::127.0.0.1]/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://ⓛocalhost/",
    "http:\\\\127.0.0.1\\",
    "http://127.0.0.1 /",
    "http://%31%32%37.0.0.1/",
    # private and special ranges
    "http://10.1.2.3/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://100.65.1.1/",
    "http://169.254.1.1/",
    "http://198.19.0.1/",
    "http://192.0.0.8/",
    "http://192.0.2.1/",
    "http://203.0.113.5/",
    "http://224.0.0.1/",
    "http://250.1.1.1/",
    "http://255.255.255.255/",
    "http://[fd12::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25en0]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[2002:0a00:0001::]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[::ffff:0:10.0.0.1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[2600::5efe:10.0.0.1]/",
    # metadata of clouds
    "http://169.254.169.254/computeMetadata/v1/",
    "http://2852039166/",
    "http://168.63.129.16/",
    "http://[fd00:ec2::254]/",
    "http://metadata.google.internal/",
    "http://100.100.100.200/",
    # names of inner networks
    "http://redis:6379/",
    "http://intranet/",
    "http://printer.local/",
    "http://db.corp/",
    "http://router.home.arpa/",
    "http://api.default.svc/",
    # schemes
    "file:///etc/hosts",
    "FILE://localhost/etc/hosts",
    "ftp://example.org/",
    "gopher://example.org:70/_x",
    "dict://example.org:2628/",
    "data:text/html,hi",
    "javascript:alert(1)",
    "jar:http://example.org!/",
    "//example.org/",
    "example.org",
    "",
    # header injection, user names, odd ports and hosts
    "http://example.org/%0D%0AHost:%20x",
    "http://example.org/\r\nHost: x",
    "http://example.org/%00",
    "http://example.org/%250d%250aHost:%20x",
    "http://user@example.org/",
    "http://example.org:80@10.0.0.1/",
    "http://example.org:22/",
    "http://example.org:6379/",
    "http://example.org:4222/",
    "http://metadata.goog/computeMetadata/v1/",
    "http://metadata.packet.net/metadata",
    "http://example.org:99999/",
    "http://example.org:0/",
    "http://example.org:x/",
    "http:///etc",
    "http://a..b.org/",
    "http://-a.org/",
    "http://[::1/",
    "http://1.1.1/",
]


@pytest.mark.parametrize("url", REFUSED)
def test_refused_before_any_name_is_resolved(url: str) -> None:
    with pytest.raises(ActionError, match="is not fetched: ") as error:
        require_public(parse_address(url), ())
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("url", "as_asked", "pair"),
    [
        ("https://example.org", "https://example.org/", "example.org:443"),
        ("HTTP://Example.ORG:80/a?b=c%20d#e", "http://example.org/a?b=c%20d", "example.org:80"),
        ("https://example.org.:8443/", "https://example.org:8443/", "example.org:8443"),
        (
            "https://bücher.example.org/",
            "https://xn--bcher-kva.example.org/",
            "xn--bcher-kva.example.org:443",
        ),
        ("http://1.1.1.1/", "http://1.1.1.1/", "1.1.1.1:80"),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]/", "[2606:4700::1111]:443"),
    ],
)
def test_public_addresses_pass(url: str, as_asked: str, pair: str) -> None:
    place = parse_address(url)
    require_public(place, ())
    assert (place.url, place.pair) == (as_asked, pair)


async def test_a_name_that_resolves_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # the one thing that cannot be had here for real: a public name server with such an entry
    async def answer(*_: Any, **__: Any) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in ("1.1.1.1", "10.0.0.7")
        ]

    monkeypatch.setattr(shared.web.fetching, "look_up_host", answer)
    with pytest.raises(
        ActionError, match=r"rebind.example.org resolves to 10\.0\.0\.7, which is not a public address"
    ):
        await resolve(parse_address("http://rebind.example.org/"), ())
    assert await resolve(parse_address("http://rebind.example.org/"), ("rebind.example.org:80",)) == (
        "1.1.1.1",
        "10.0.0.7",
    )


async def test_a_page_is_read(site: Site) -> None:
    site.pages["/a"] = (200, {"Content-Type": "text/html; charset=utf-8"}, ARTICLE.encode())
    page = await fetch_page(site.url("/a"), timeout=5, allowed=site.allowed)
    assert page.title == "Of Kettles"
    assert "Water boils at one hundred degrees" in page.text
    assert "Second paragraph" in page.text
    assert "alert" not in page.text
    assert page.links == (site.url("/home"), "https://example.org/more")
    assert page.url == site.url("/a")


async def test_without_an_exception_the_local_server_is_never_asked(site: Site) -> None:
    site.pages["/a"] = (200, {}, b"x")
    for allowed in ((), ("127.0.0.1:1",), ("127.0.0.1",)):
        with pytest.raises(ActionError, match="not a public address"):
            await fetch_page(site.url("/a"), timeout=5, allowed=allowed)
    assert site.asked == []


async def test_the_host_is_named_though_the_address_is_pinned(site: Site) -> None:
    site.pages["/a"] = (200, {"Content-Type": "text/plain; charset=latin-1"}, b"caf\xe9")
    page = await fetch_page(site.url("/a", "localhost"), timeout=5, allowed=site.allowed)
    assert page.text == "café"
    assert [(each.path, each.host) for each in site.asked] == [("/a", f"localhost:{site.port}")]


async def test_redirects_are_followed_and_checked_each(site: Site) -> None:
    site.pages["/a"] = (302, {"Location": "/b"}, b"")
    site.pages["/b"] = (307, {"Location": site.url("/c", "localhost")}, b"")
    site.pages["/c"] = (200, {"Content-Type": "text/plain"}, b"there")
    page = await fetch_page(site.url("/a"), timeout=5, allowed=site.allowed)
    assert (page.url, page.text) == (site.url("/c", "localhost"), "there")
    for target in (
        "http://169.254.169.254/",
        "file:///etc/hosts",
        "http://127.0.0.1:1/",
        "//10.0.0.1/",
        "http:\\\\10.0.0.1",
    ):
        site.pages["/out"] = (302, {"Location": target}, b"")
        with pytest.raises(ActionError, match="is not fetched: "):
            await fetch_page(site.url("/out"), timeout=5, allowed=site.allowed)
    site.pages["/loop"] = (301, {"Location": "/loop"}, b"")
    with pytest.raises(ActionError, match="redirects more than 5 times"):
        await fetch_page(site.url("/loop"), timeout=5, allowed=site.allowed)


async def test_size_and_time_are_bounded(site: Site) -> None:
    def endless(request: Request) -> None:
        request.start_response(200, {"Content-Type": "text/plain"})
        try:
            while True:
                request.wfile.write(b"x" * 65_536)
        except OSError:
            return

    release = threading.Event()
    site.pages["/endless"] = endless
    site.pages["/slow"] = lambda _: release.wait(10) and None
    with pytest.raises(ActionError, match=f"larger than {SIZE:,} bytes"):
        await fetch_page(site.url("/endless"), timeout=10, allowed=site.allowed)
    with pytest.raises(ActionError, match=r"did not answer within 0\.2 s"):
        await fetch_page(site.url("/slow"), timeout=0.2, allowed=site.allowed)
    release.set()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((404, {}, b""), "answers with HTTP status 404"),
        ((500, {}, b""), "answers with HTTP status 500"),
        ((204, {}, b""), "answers with HTTP status 204"),
        ((302, {}, b""), "answers with HTTP status 302"),
        ((200, {"Content-Type": "application/pdf"}, b"%PDF"), "damaged or not a pdf"),
        ((200, {"Content-Type": "application/zip"}, b"PK"), "not a page of text"),
        ((200, {"Content-Type": "image/png"}, b"x"), "not a page of text"),
        ((200, {"Content-Encoding": "br"}, b"x"), "compressed as br"),
        ((200, {"Content-Encoding": "gzip"}, b"not gzip at all"), "cannot be unpacked"),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 9_000)[:-9]), "ends before"),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(b"\0" * 50_000_000)), "is larger than"),
    ],
)
async def test_what_is_no_page_is_told_in_a_sentence(site: Site, answer: Answer, reason: str) -> None:
    site.pages["/a"] = answer
    with pytest.raises(ActionError, match=reason):
        await fetch_page(site.url("/a"), timeout=5, allowed=site.allowed)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<",
        b"\0\xff" * 100,
        b"<html>",
        b"<html><body>few words</body></html>",
        b"few words",
        b"\0\0few words<br>and more",
        b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hosts">]><p>few words &x;</p>',
        b"<a href='http://['>x</a>",
    ],
)
async def test_odd_pages_do_not_break_the_reader(site: Site, body: bytes) -> None:
    site.pages["/a"] = (200, {"Content-Type": "text/html"}, body)
    page = await fetch_page(site.url("/a"), timeout=5, allowed=site.allowed)
    assert ("few words" in page.text) == (b"few words" in body)


async def test_a_page_made_to_keep_the_reader_busy_is_given_up(site: Site) -> None:
    # libxml2 compares every attribute of a tag with all before it
    body = b"<p " + b" ".join(b"a%d" % number for number in range(100_000)) + b">x"
    site.pages["/a"] = (200, {"Content-Type": "text/html"}, body)
    began = time.monotonic()
    with pytest.raises(ActionError, match="it takes too long"):
        await fetch_page(site.url("/a"), timeout=1, allowed=site.allowed)
    assert time.monotonic() - began < 5


async def test_without_a_jail_only_small_pages_are_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_jail() -> str:
        return "no user namespaces"

    monkeypatch.setattr(shared.skills.web, "check_jail", no_jail)
    site.pages["/a"] = (200, {"Content-Type": "text/html"}, ARTICLE.encode())
    assert (await fetch_page(site.url("/a"), timeout=5, allowed=site.allowed)).title == "Of Kettles"
    for body in (b"<p>x" * 40_000, b"<p " + b"a=1 " * 10_000 + b">x", b"x" * 1_100_000):
        site.pages["/a"] = (200, {"Content-Type": "text/html"}, body)
        with pytest.raises(ActionError, match="no jail to read it in"):
            await fetch_page(site.url("/a"), timeout=5, allowed=site.allowed)


async def test_the_character_set_the_server_names_goes_before_what_the_page_says(site: Site) -> None:
    body = "<meta charset=utf-8><title>Чайник</title><p>Вода кипит при ста градусах".encode("cp1251")
    site.pages["/a"] = (200, {"Content-Type": 'text/html; charset="windows-1251"'}, body)
    page = await fetch_page(site.url("/a"), timeout=5, allowed=site.allowed)
    assert (page.title, page.text) == ("Чайник", "Вода кипит при ста градусах")


async def test_what_follows_the_end_of_packed_text_is_not_read(site: Site) -> None:
    def follow(request: Request) -> None:
        request.start_response(200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"})
        request.wfile.write(gzip.compress(b"plain words"))
        with contextlib.suppress(OSError):
            while True:
                request.wfile.write(b"x" * 65_536)

    site.pages["/a"] = follow
    assert (await fetch(site.url("/a"), timeout=5, allowed=site.allowed)).body == b"plain words"


async def test_a_closed_port_and_a_server_without_tls_are_told(site: Site) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        pair = f"127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(ActionError, match="cannot be fetched"):
        await fetch_page(f"http://{pair}/", timeout=5, allowed=(pair,))
    with pytest.raises(ActionError, match="cannot be fetched"):
        await fetch_page(site.url("/a").replace("http:", "https:"), timeout=5, allowed=site.allowed)


async def test_what_a_server_compresses_unasked_is_unpacked(site: Site) -> None:
    body = gzip.compress(b"plain words")
    site.pages["/a"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, body)
    assert (await fetch_page(site.url("/a"), timeout=5, allowed=site.allowed)).text == "plain words"


async def test_proxies_of_the_environment_are_not_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{closed.getsockname()[1]}")
        site.pages["/a"] = (200, {"Content-Type": "text/plain"}, b"direct")
        assert (await fetch(site.url("/a"), timeout=5, allowed=site.allowed)).body == b"direct"


async def test_a_name_is_resolved_once_and_the_next_address_is_tried(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a name server that answers inside, and something else the second time it is asked
    with socket.socket() as closed:
        closed.bind(("127.0.0.2", site.port))
        answers = [["127.0.0.2", "127.0.0.1"], ["10.0.0.7"]]

        async def answer(host: str, port: int, **_: Any) -> list[Any]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in answers.pop(0)]

        monkeypatch.setattr(shared.web.fetching, "look_up_host", answer)
        name = f"rebind.example.org:{site.port}"
        site.pages["/a"] = (200, {"Content-Type": "text/plain"}, b"pinned")
        page = await fetch_page(f"http://{name}/a", timeout=5, allowed=(name,))
    assert page.text == "pinned"
    assert [(each.path, each.host) for each in site.asked] == [("/a", name)]
    assert answers == [["10.0.0.7"]]


@pytest.mark.parametrize("charset", ["idna", "punycode", "IDNA-", "punycode_", "undefined", "no-such", "hex"])
async def test_a_charset_that_is_none_does_not_break_the_reader(site: Site, charset: str) -> None:
    site.pages["/a"] = (200, {"Content-Type": f"text/plain; charset={charset}"}, b"words" * 200_000)
    assert "words" in (await fetch_page(site.url("/a"), timeout=5, allowed=site.allowed)).text


async def test_tls_is_asked_for_under_the_name_though_the_address_is_pinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # without a certificate of its own the server hears the name and then has to give up
    asked: list[str] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _, name, __: asked.append(name)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]

    async def answer(_: str, port: int) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(shared.web.fetching, "look_up_host", answer)
    async with server:
        with pytest.raises(ActionError, match="cannot be fetched"):
            await fetch(
                f"https://kettle.example.org:{port}/", timeout=5, allowed=(f"kettle.example.org:{port}",)
            )
    assert asked == ["kettle.example.org"]


async def test_a_name_or_port_that_is_not_public_is_not_even_looked_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(*_: Any) -> list[Any]:
        raise AssertionError("looked up")

    monkeypatch.setattr(shared.web.fetching, "look_up_host", answer)
    for url in (
        "http://intranet/",
        "http://example.org:22/",
        "http://x.internal/",
        "http://169.254.169.254/",
    ):
        site.pages["/out"] = (302, {"Location": url}, b"")
        with pytest.raises(ActionError, match="is not fetched: "):
            await fetch(url, timeout=5)


async def test_unpacking_takes_no_more_memory_than_the_limit(site: Site) -> None:
    bomb = gzip.compress(b"\0" * 60_000_000)
    site.pages["/bomb"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, bomb)
    tracemalloc.start()
    try:
        with pytest.raises(ActionError, match="is larger than"):
            await fetch(site.url("/bomb"), timeout=5, allowed=site.allowed)
        assert tracemalloc.get_traced_memory()[1] < 4 * FETCHED
    finally:
        tracemalloc.stop()


async def test_a_pdf_on_the_web_is_read(site: Site) -> None:
    site.pages["/a"] = (200, {"Content-Type": "application/pdf"}, make_pdf("A paper speaks"))
    page = await fetch_page(site.url("/a"), timeout=5, allowed=site.allowed)
    assert page.text.strip() == "A paper speaks"
