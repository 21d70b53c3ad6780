"""A page of another origin, in the browser of somebody signed in: it can neither post, stream nor frame."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shared.contracts import generate_id
from tests.browser.pages import Desk, until

PAGE = Path(__file__).with_name("elsewhere.html")


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(PAGE.read_bytes())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of a web server of somebody else on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_foreign_page_reaches_nothing(
    desk: Desk, ada: httpx2.AsyncClient, elsewhere: int, host: str
) -> None:
    """For cookies another port is the same site: they are sent, and must not be enough."""
    context = await desk.context()
    text = f"Sent from elsewhere {generate_id()[-8:]}"
    page = await context.new_page()
    desk.faults.watch_no_longer(context)
    framed: list[str] = []
    page.on("framenavigated", lambda frame: frame != page.main_frame and framed.append(frame.url))
    await page.goto(f"http://{host}:{elsewhere}/?office={desk.url}&text={text}")
    await until(page, "window.found.done === true && window.found.stream !== undefined")
    found = await page.evaluate("window.found")
    assert found["json"] in ("blocked", 403)
    assert found["read"] == "blocked"
    assert found["end"] in ("blocked", 403)
    assert found["stream"] == "blocked"
    assert not any(frame.url.startswith(desk.url) for frame in page.frames), framed
    assert (await ada.get("/goals", params={"text": text})).json()["goals"] == []
    still = await context.new_page()
    assert (await (await still.request.get(f"{desk.url}/api/v1/session")).json())["person"]
