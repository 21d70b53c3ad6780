"""MCP servers over HTTP: checked addresses, bounded answers, signing in, tokens for their owner alone."""

import asyncio
import stat
import sys
from pathlib import Path

import httpx2
import pytest

from services.cli.commands import mcp as commands
from shared import settings
from shared.errors import ActionError
from shared.mcp.config import ServerConfig
from shared.mcp.pins import Tool
from shared.mcp.pipes import Life
from shared.mcp.remote import _make_transport, tokens_path
from shared.mcp.session import Session
from shared.settings import Settings
from tests.support.forking import ROOT
from tests.support.mcp_elsewhere import elsewhere
from tests.support.server import environment

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    return settings.load(environment(tmp_path / "state"))


async def started(config: Settings, url: str, **given: object) -> Session:
    session = Session("far", ServerConfig(url=url, timeout=20.0, **given), settings=config)
    await session.start()
    return session


async def find(session: Session, label: str) -> Tool:
    return next(each for each in (await session.list_tools()).tools if each.label == label)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_resources_and_prompts(config: Settings, mode: str) -> None:
    async with elsewhere() as (url, _):
        session = Session("far", ServerConfig(url=url), settings=config, mode=mode)
        await session.start()
        try:
            assert (await session.call(await find(session, "double"), {"number": 21})).text == "42"
            note = await session.call(await find(session, "read_resource"), {"uri": "note://one"})
            assert note.text == "A note"
            greeting = await session.call(await find(session, "prompt_greet"), {"name": "Ada"})
            assert greeting.text == "Say hello to Ada"
        finally:
            await session.close()


async def test_an_answer_without_end_is_cut(config: Settings) -> None:
    async with elsewhere() as (url, _):
        session = await started(config, url)
        with pytest.raises(ActionError, match="more than 16,000,000 bytes"):
            await session.call(await find(session, "huge"), {})
        await session.close()


async def test_a_redirect_to_another_private_address_is_not_followed(config: Settings) -> None:
    async with elsewhere() as (inner, _), elsewhere(leads_to=inner) as (url, _):
        with pytest.raises(ActionError, match="The MCP server far does not start"):
            await started(config, url.replace("/mcp", "/led"))


async def test_no_request_goes_to_an_address_that_was_not_chosen() -> None:
    async with elsewhere() as (url, _):
        life = Life("far", lambda: None)
        transport = _make_transport(set(), life)
        async with httpx2.AsyncClient(transport=transport) as client:
            for address in (url, url.replace("127.0.0.1", "localhost"), "http://169.254.169.254/token"):
                with pytest.raises(ActionError, match="is not fetched"):
                    await client.post(address, json={})


async def test_one_that_is_out_of_reach_is_told(config: Settings) -> None:
    with pytest.raises(ActionError, match="The MCP server far does not start"):
        await started(config, "http://127.0.0.1:9/mcp")


async def test_signing_in(config: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with elsewhere(lifetime=3) as (url, authority):
        with pytest.raises(ActionError, match="mailroom mcp login far"):
            await started(config, url)
        await sign_in(config, url, monkeypatch)
        path = tokens_path(config, "far")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        session = await started(config, url)
        assert (await session.call(await find(session, "double"), {"number": 2})).text == "4"
        await session.close()
        before = set(authority.tokens)
        await asyncio.sleep(3.1)  # they expire: the refresh token brings another
        session = await started(config, url)
        assert (await session.call(await find(session, "double"), {"number": 3})).text == "6"
        await session.close()
        assert authority.tokens
        assert not authority.tokens.keys() & before
        assert authority.signed_in == 1
        authority.tokens.clear()
        authority.refreshing.clear()
        with pytest.raises(ActionError, match="mailroom mcp login far"):
            await started(config, url)


async def test_processes_share_tokens_that_are_replaced_at_each_renewal(
    config: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with elsewhere(lifetime=2) as (url, authority):
        await sign_in(config, url, monkeypatch)
        command = (sys.executable, "-m", "tests.support.mcp_elsewhere", url, "3")
        variables = environment(config.state_dir)
        both = [
            await asyncio.create_subprocess_exec(
                *command, cwd=ROOT, env=variables, stderr=asyncio.subprocess.PIPE
            )
            for _ in range(2)
        ]
        for process in both:
            _, errors = await process.communicate()
            assert process.returncode == 0, errors.decode()[-2_000:]
        assert authority.renewed >= 3
        assert authority.signed_in == 1
        assert authority.refused == 0


async def test_a_scope_that_is_missing_is_told_and_asked_for(
    config: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with elsewhere(lifetime=600) as (url, authority):
        await sign_in(config, url, monkeypatch)
        session = await started(config, url)
        double = await find(session, "double")
        authority.demanded = "more"
        with pytest.raises(ActionError, match="sign in for more: mailroom mcp login far"):
            await session.call(double, {"number": 2})
        await session.close()
        await sign_in(config, url, monkeypatch)
        session = await started(config, url)
        assert (await session.call(double, {"number": 2})).text == "4"
        await session.close()
        assert authority.signed_in == 2


async def sign_in(config: Settings, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command does, with a browser that says yes."""

    def browse(address: str) -> None:
        asyncio.run_coroutine_threadsafe(visit(address), loop).result()

    async def visit(address: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            assert (await browser.get(address)).status_code == 200

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(commands.webbrowser, "open", browse)
    monkeypatch.setattr(commands.settings, "load", lambda: config)
    server = ServerConfig(url=url)
    pin = await asyncio.to_thread(commands._use, "far", server, Session.list_tools, signs_in=True)
    assert pin.find(Tool(name="double"))
