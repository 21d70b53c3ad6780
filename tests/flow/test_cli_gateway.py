"""Commands that ask the gateway: its own machine, another one, and what they say if it cannot be asked."""

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import msgspec
import pytest

from services.cli.api import find_login, login_path
from shared import settings, subjects
from shared.access.credentials import find_address, keep_command_token, read_command_token, write_address
from shared.access.scopes import Scope, read_owner_name
from shared.contracts import ResultOutcome, TaskStatus
from tests.flow.test_approvals import answered, ask
from tests.flow.test_cli import heard, stand_in
from tests.support.access import Tokens
from tests.support.server import Server, environment, run_mailroom

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("office_gateway")]


class Elsewhere:
    """Another machine, on which no office runs."""

    def __init__(self, folder: Path) -> None:
        self.variables = environment(folder / "elsewhere")
        self.config = settings.load(self.variables)

    def run(self, *arguments: str, text: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        return run_mailroom({**self.variables, **more}, *arguments, text=text)

    def says(self, *arguments: str, **more: str) -> str:
        """The error of a command, on one line."""
        done = self.run(*arguments, **more)
        assert done.returncode == 1, done.stdout
        return " ".join(done.stderr.split())


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    return Elsewhere(tmp_path)


@pytest.fixture
def stranger() -> Iterator[str]:
    """A web server that is no gateway."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_on_its_machine_a_command_acts_as_user_with_the_token_beside_its_key(
    office_server: Server,
) -> None:
    token = office_server.config.keys / "user.token"
    assert token.stat().st_mode & 0o777 == 0o600
    async with office_server.connection("engineer") as engineer:
        request = await ask(engineer, goal_id="")
        done = office_server.mailroom("approvals", "grant", request.approval_id, "--note", "go")
        assert done.returncode == 0, done.stderr
        given = await answered(engineer, request)
    assert given is not None
    assert (given.sender, given.person, given.note) == (subjects.USER, "", "go")
    asked = json.loads(office_server.mailroom("approvals", "list", "--all", "--json").stdout)
    (found,) = [each for each in asked if each["approval_id"] == request.approval_id]
    assert (found["state"], found["answered_by"]) == ("granted", "")


def test_another_machine_signs_in_with_a_token_until_it_is_revoked(
    office_server: Server, elsewhere: Elsewhere
) -> None:
    url, tokens = find_address(office_server.config), Tokens(office_server.config)
    secret = tokens.add("laptop", Scope.READ)
    done = elsewhere.run("login", f"{url}/", "--json", text=f"{secret}\n")
    assert json.loads(done.stdout) == {"url": url, "person": "laptop", "scopes": ["read"]}
    assert login_path(elsewhere.config).stat().st_mode & 0o777 == 0o600
    assert elsewhere.run("kpi", "--json").returncode == 0
    assert "needs the scope submit" in elsewhere.says("approvals", "grant", "nothing")
    assert "There is no goal or task 'nothing'" in elsewhere.says("show", "nothing")
    tokens.revoke("laptop")
    refused = elsewhere.says("kpi")
    assert "does not take the token" in refused
    assert "mailroom login" in refused
    assert f"do not ask {url} any more" in elsewhere.run("logout").stdout
    assert "asked no other machine" in elsewhere.run("logout").stdout
    assert "No office is running" in elsewhere.says("kpi")


def test_a_token_is_printed_once_and_works(office_server: Server) -> None:
    def run(*arguments: str) -> str:
        done = office_server.mailroom(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "mailroom token add" in run("token", "list")
    secret = run("token", "add", "nightly", "--scope", "read,submit", "--expires", "12h").strip()
    assert secret.startswith("mr_")
    listed = run("token", "list")
    assert secret not in listed
    assert "nightly  read, submit; expires " in listed
    (row,) = json.loads(run("token", "list", "--json"))
    assert (row["name"], row["scopes"], row["expired"]) == ("nightly", ["read", "submit"], False)
    assert json.loads(run("token", "revoke", "nightly", "--json")) == {"name": "nightly", "revoked": True}
    assert office_server.mailroom("token", "revoke", "nightly").returncode == 1
    assert office_server.mailroom("token", "add", "Not A Name").returncode == 1


def test_a_link_signs_in_and_sign_out_ends_all(office_server: Server) -> None:
    made = json.loads(office_server.mailroom("web", "--json").stdout)
    assert (made["person"], made["minutes"]) == (read_owner_name(), 10)
    url, _, code = made["link"].partition("/login#")
    assert url == find_address(office_server.config)
    answer = httpx2.post(f"{url}/api/v1/session", json={"link": code})
    assert answer.json()["person"] == read_owner_name()
    assert "There is no person 'eve'" in office_server.mailroom("web", "--as", "eve").stderr
    assert "1 session of" in office_server.mailroom("web", "--sign-out").stdout


def test_the_token_of_this_machine_is_shown_to_no_other(office_server: Server, elsewhere: Elsewhere) -> None:
    keys = office_server.config.keys
    secret = (keys / "user.token").read_text()

    def shown(keys: Path, url: str) -> str:
        return find_login(msgspec.structs.replace(office_server.config, key_dir=keys, url=url)).token

    assert shown(keys, "http://localhost:8642") == secret
    assert shown(keys, "https://office.example.org") == ""
    dealt = elsewhere.config.state_dir / "dealt"  # as a container has it
    dealt.mkdir(parents=True)
    (dealt / "user.token").write_text(secret)
    assert shown(dealt, "http://gateway:8642") == secret


def test_the_token_of_an_office_that_starts_is_read_after_it_is_made(
    office_server: Server, elsewhere: Elsewhere
) -> None:
    running = elsewhere.config.state_dir / "run" / "office.json"
    running.parent.mkdir(parents=True)
    instance = {"url": office_server.url, "pid": os.getpid(), "started_at": "2026-11-29T12:00:00Z"}
    running.write_text(json.dumps(instance))
    with ThreadPoolExecutor() as pool:
        found = pool.submit(find_login, elsewhere.config)
        with pytest.raises(TimeoutError):  # it waits for the address
            found.result(timeout=0.3)
        keep_command_token(elsewhere.config)
        elsewhere.config.gateway.mkdir(parents=True)
        write_address(elsewhere.config.gateway, "http://127.0.0.1:1")
        assert found.result(timeout=5).token == read_command_token(elsewhere.config) != ""


def test_a_token_is_not_sent_in_the_clear_to_another_machine(elsewhere: Elsewhere) -> None:
    url = "http://office.example.org"
    assert "can read a token that is sent over http://" in elsewhere.says("login", url)
    asked = elsewhere.run("login", url, "--insecure", text="x\n")
    assert "cannot be reached" in asked.stderr
    assert not login_path(elsewhere.config).exists()


def test_a_wrong_token_is_not_kept(office_server: Server, elsewhere: Elsewhere) -> None:
    done = elsewhere.run("login", find_address(office_server.config), text="mr_wrong\n")
    assert done.returncode == 1
    assert not login_path(elsewhere.config).exists()
    assert elsewhere.run("login", "office.example.org", text="x\n").returncode == 2


def test_an_address_that_is_no_gateway_is_named(elsewhere: Elsewhere, stranger: str) -> None:
    for wrong in ("http://x:abc", "http://[::1", "ftp://a", "office.example.org"):
        assert "is no address of a gateway. Write it as in" in elsewhere.says("tasks", MAILROOM_URL=wrong)
        assert elsewhere.run("login", wrong, text="x\n").returncode == 2
    assert "cannot be reached" in elsewhere.says("tasks", MAILROOM_URL="http://127.0.0.1:9")
    assert "is no gateway of Mailroom" in elsewhere.says("tasks", MAILROOM_URL=stranger)


def test_without_a_gateway_a_command_says_so(fresh_office_server: Server) -> None:
    done = fresh_office_server.mailroom("kpi")
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert "is open, but its gateway does not run" in said
    assert "mailroom up" in said
    assert fresh_office_server.mailroom("submit", "Look around", "--json").returncode == 0


def test_what_another_command_has_just_done_counts(office_server: Server) -> None:
    for number in range(3):
        done = office_server.mailroom("submit", "Count", "--id", f"just-{number}", "--json")
        assert done.returncode == 0, done.stderr
        shown = office_server.mailroom("show", f"just-{number}")
        assert "waits for the conductor" in " ".join(shown.stderr.split())


async def test_a_goal_is_followed_to_its_end_though_the_gateway_is_killed(
    fresh_office_server: Server,
) -> None:
    office = fresh_office_server
    office.start_gateway()
    async with heard(office, subjects.SUBMIT) as following:
        process = office.start_mailroom("submit", "Look around", "--wait")
        goal_id = json.loads((await following())[0])["goal_id"]
        async with stand_in(office, goal_id) as conductor:
            await conductor.take_up()
            assert process.stdout is not None
            assert goal_id in await asyncio.to_thread(process.stdout.readline)
            await asyncio.sleep(0.5)
            office.kill_gateway()
            await asyncio.sleep(0.5)
            await conductor.finish(TaskStatus.COMPLETED, outcome=ResultOutcome.DONE)
            shown, errors = await asyncio.to_thread(process.communicate, timeout=20)
    assert (process.returncode, errors.count("on the bus instead")) == (0, 1)
    assert "✓ done in" in shown


def test_only_what_can_do_without_the_gateway_does(fresh_office_server: Server) -> None:
    done = fresh_office_server.mailroom("submit", "Look around", "--id", "own")
    assert "this works on the bus instead" in done.stderr
    assert "Submitted as own" in done.stdout
    refused = fresh_office_server.mailroom("retry", "own")
    assert refused.returncode == 1
    assert "its gateway does not run" in " ".join(refused.stderr.split())


def test_from_another_machine_goals_are_acted_on_as_far_as_the_token_may(
    office_server: Server, elsewhere: Elsewhere
) -> None:
    url, tokens = find_address(office_server.config), Tokens(office_server.config)
    elsewhere.run("login", url, text=tokens.add("reader", Scope.READ))
    assert "needs the scope submit" in elsewhere.says("submit", "Look around")
    assert "needs the scope submit" in elsewhere.says("cancel", "nothing")
    elsewhere.run("login", url, text=tokens.add("worker", Scope.SUBMIT))
    done = elsewhere.run("submit", "Look around", "--json")
    assert json.loads(done.stdout)["status"] == "submitted"
    assert "There is no goal 'nothing'" in elsewhere.says("retry", "nothing")
    assert "There is no goal 'a/b'" in elsewhere.says("cancel", "a/b")
    asked = elsewhere.says("ask", "Who wrote ./services?")  # a goal sends what it names, a question does not
    assert f"on this machine, and the office at {url} is on another" in asked
