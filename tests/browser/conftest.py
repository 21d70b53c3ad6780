"""A real office with its gateway, and a browser that is signed in there; one for all tests of this folder."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from services.gateway.assets import is_complete, read_manifest
from shared.contracts import generate_id
from tests.browser.pages import AXE, Desk, Session, find_chromium, launch, new_context, sign_in
from tests.support.gateway import RunningGateway
from tests.support.slow import install_slow_agent

AGENTS = ("conductor", "engineer", "scout", "critic", "nexus", "memory", "slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these tests share an event loop, and with it the office."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def chromium() -> None:
    if not find_chromium():
        pytest.skip("there is no Chromium: on Debian, apt-get install chromium")


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def office(chromium: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    """The whole office with its gateway. Tests leave behind what they make; they look for their own alone."""
    folder = tmp_path_factory.mktemp("office")
    running = RunningGateway(folder, MAILROOM_APPROVALS="reach=member", **install_slow_agent(folder))
    running.office.environment["MAILROOM_GATEWAY_PORT"] = str(free_port())  # the same after a restart
    if not is_complete(running.config.assets, read_manifest()):
        pytest.skip("the dashboard's libraries are not installed: python -m services.gateway.assets")
    try:
        await running.open(*AGENTS)
        yield running
    finally:
        await running.close()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser(chromium: None) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await launch(playwright)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def session(browser: Browser, office: RunningGateway) -> Session:
    """What a browser keeps that is signed in: signing in is limited to some attempts in a minute."""
    return await sign_in(browser, office.config, office.url)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def shared_page(browser: Browser, office: RunningGateway, session: Session) -> AsyncIterator[Page]:
    """The page that tests load again, one after the other."""
    context = await new_context(browser, office.url, session)
    yield await context.new_page()
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def desk(
    browser: Browser, office: RunningGateway, session: Session, shared_page: Page
) -> AsyncIterator[Desk]:
    """A person's browser; after the test no page of it may have asked another host or written an error."""
    desk = Desk(browser, office.url, session, shared_page)
    yield desk
    await desk.close()


@pytest_asyncio.fixture(loop_scope="session")
async def ada(office: RunningGateway) -> AsyncIterator[httpx2.AsyncClient]:
    """A script of Ada's, to do what other people do meanwhile."""
    client = office.client(name=f"ada-{generate_id()[-8:]}")
    client.base_url = f"{office.url}/api/v1"
    async with client:
        yield client


@pytest.fixture(scope="session")
def axe() -> None:
    if not AXE.is_file():
        pytest.skip(f"{AXE} is missing: make setup fetches it, if there is a registry of npm")
