"""A hostile MCP server: what it tries fails in the jail, and each attempt is told in one sentence."""

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.errors import ActionError
from shared.mcp import session as sessions
from shared.mcp.pins import compare
from shared.mcp.session import Session
from tests.support.foe import gone, install, processes
from tests.support.waiting import eventually


async def started(folder: Path, *modes: str, **given: object) -> Session:
    session = Session("foe", await install(folder, *modes, pinned=False, **given))
    await session.start()
    return session


@pytest.fixture
async def foe(tmp_path: Path) -> AsyncIterator[Session]:
    session = await started(tmp_path, "stubborn", timeout=5.0)
    yield session
    await session.close()
    assert not processes(tmp_path)


async def use(session: Session, name: str, **params: object) -> str:
    now = await session.list_tools()
    tool = next(each for each in now.tools if each.name == name)
    return (await session.call(tool, params)).text


async def fails(session: Session, name: str, **params: object) -> str:
    """The one sentence that tells why a call failed."""
    with pytest.raises(ActionError) as told:
        await use(session, name, **params)
    assert str(told.value).count("\n") == 0
    return str(told.value)


async def test_it_changes_nothing_but_what_was_granted(foe: Session, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("alive")
    for place in (canary, tmp_path / "new", Path.home() / "mcp-was-here", Path("/etc/mcp-was-here")):
        told = await use(foe, "write", path=str(place))
        assert "refused" in told or place.is_relative_to(tmp_path)  # in a /tmp of its own it may write
        assert not place.exists() or place.read_text() == "alive"
    assert await use(foe, "write", path=str(tmp_path / "granted" / "file")) == "written"
    link = tmp_path / "granted" / "link"
    assert await use(foe, "link", path=str(link), target=str(canary)) == "linked"
    await use(foe, "write", path=str(link))
    assert await use(foe, "read", path=str(link)) != "alive"
    assert canary.read_text() == "alive"


async def test_it_reads_nothing_but_what_was_granted(foe: Session, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(exist_ok=True)
    keys = tmp_path / "state" / "mailroom.toml"
    assert keys.exists()
    for place in (keys, Path("/etc/shadow"), Path("/proc/1/environ"), Path.home() / ".bashrc"):
        assert "/home/agent" not in await use(foe, "read", path=str(place)) or str(place).startswith("/proc")
        assert "command =" not in await use(foe, "read", path=str(place))


async def test_it_reaches_no_network(foe: Session) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        heard: list[object] = []
        thread = threading.Thread(target=lambda: heard.append(listener.accept()), daemon=True)
        thread.start()
        assert "refused" in await use(foe, "connect", host="127.0.0.1", port=listener.getsockname()[1])
        assert "refused" in await use(foe, "connect", host="192.0.2.1", port=80)
        assert not heard


async def test_what_it_leaves_behind_ends_with_it(foe: Session, tmp_path: Path) -> None:
    beat = tmp_path / "granted" / "beat"
    assert await use(foe, "detach", path=str(beat)) == "detached"
    assert int((await use(foe, "fork")).split()[0]) < 256
    assert await use(foe, "echo", text="still here") == "still here"
    begun = time.monotonic()
    await foe.close()
    assert time.monotonic() - begun < 6
    assert not processes(tmp_path)
    before = beat.stat().st_size
    await asyncio.sleep(0.3)
    assert beat.stat().st_size == before


@pytest.mark.parametrize(
    ("tool", "sentence"),
    [
        ("flood", "wrote more than 16,000,000 bytes for one request"),
        ("huge", "wrote more than 16,000,000 bytes for one request"),
        ("hang", "did not answer within 5 s"),
        ("die", "ended with exit code 3; its last words: what a pity"),
    ],
)
async def test_it_is_ended_and_told(foe: Session, tmp_path: Path, tool: str, sentence: str) -> None:
    told = await fails(foe, tool)
    assert sentence in told
    assert told.startswith("The MCP server foe ")
    await gone(tmp_path)
    assert "has ended" in await fails(foe, "echo", text="hello")


@pytest.mark.parametrize(
    ("mode", "sentence"), [("mute", "did not answer within 2 s"), ("flood", "wrote more than 16,000,000")]
)
async def test_one_that_does_not_begin_is_told(
    tmp_path: Path, mode: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "START", 2.0)
    with pytest.raises(ActionError, match=f"The MCP server foe does not start: it {sentence}"):
        await started(tmp_path, mode)
    await gone(tmp_path)


async def test_what_cannot_be_seen_is_shown(foe: Session) -> None:
    text = await use(foe, "orders")
    assert text.endswith("rm -rf / \\u{202e}txt.exe\\u{200b}")
    shown = next(each for each in (await foe.list_tools()).tools if each.name == "orders").show()
    assert "\\u{202e}txt.exe\\u{200b}" in shown
    assert shown.isprintable() or all(line.isprintable() for line in shown.split("\n"))


async def test_changes_are_named(foe: Session) -> None:
    before = await foe.list_tools()
    assert list(compare(before, before)) == []
    await use(foe, "change", how="rename")
    await eventually(lambda: foe._listed is None)
    renamed = await foe.list_tools()
    assert [word for word, _ in compare(before, renamed)] == ["renamed from echo", "gone"]
    await use(foe, "change", how="Obey me")
    await eventually(lambda: foe._listed is None)
    differences = list(compare(renamed, await foe.list_tools()))
    assert differences[0][0] == "changed: echo_again"
    assert "-Say it again" in differences[0][1]
    assert "+Obey me" in differences[0][1]
    assert renamed.digest != before.digest


async def test_it_sees_no_variable_but_the_named_and_repeats_no_secret(tmp_path: Path) -> None:
    os.environ["MAILROOM_CANARY"] = "of the caller"
    secret = tmp_path / "secret"
    secret.write_text("hunter2-hunter2\n")
    session = await started(tmp_path, env={"NAMED": "yes"}, secrets={"TOKEN": str(secret)})
    try:
        text = await use(session, "environment")
    finally:
        await session.close()
        del os.environ["MAILROOM_CANARY"]
    seen = json.loads(text)
    assert seen["NAMED"] == "yes"
    assert seen["TOKEN"] == "(TOKEN)"
    assert "hunter2" not in text
    known = {"NAMED", "TOKEN", "PATH", "HOME", "TMPDIR", "LANG", "TERM", "USER", "PWD", "LC_CTYPE"}
    assert {name for name in seen if not name.endswith(("_HOME", "_ROOT", "_DIR"))} <= known
