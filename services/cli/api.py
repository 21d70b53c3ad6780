"""The gateway's API as commands ask it: its address, their token, its events, and its errors as sentences."""

import http.client
import socket
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import msgspec

from shared import settings, subjects
from shared.access.credentials import find_address, login_path, public_address, read_command_token
from shared.contracts import TOKEN, TaskResult, TaskStatus
from shared.errors import BusUnavailable, Denied, MailroomError, NotFound, Refused, StartError
from shared.files import write_atomically
from shared.settings import Settings
from shared.text.display import clean

T = TypeVar("T")
PREFIX = "/api/v1"
TIMEOUT = 60.0  # Seconds that an answer may take: some read the whole log
GATEWAY_WAIT = 10.0  # Seconds that the gateway of an open office is waited for: after a crash it starts again
POLL_INTERVAL = 0.1
Query = Mapping[str, str | int | bool | Sequence[str]]


class Login(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gateway, and the token to show it; ``is_here`` if its office's bus can be used from this machine."""

    url: str
    token: str
    is_here: bool = False


class GatewayAway(BusUnavailable):
    """The gateway of an office on this machine cannot be reached, which does not say that its bus cannot."""


class _Problem(msgspec.Struct, frozen=True):
    detail: str = ""
    cure: str = ""
    title: str = ""
    status: int = 0


class _Answer(NamedTuple):
    status: int
    kind: str
    body: bytes


def get(
    path: str,
    kind: type[T],
    query: Query | None = None,
    *,
    timeout: float = TIMEOUT,
    login: Login | None = None,
    is_fresh: bool = True,
) -> T:
    """What the gateway answers on ``path``, what is behind ``/api/v1``; if ``is_fresh`` with all that the log
    holds by now.

    Raises MailroomError with the gateway's sentence, StartError if no office runs, GatewayAway if the gateway
    of this machine cannot be reached, BusUnavailable if another cannot, or does not answer within ``timeout``
    seconds.
    ``login`` is a gateway to ask instead of the one that is found.
    """
    found = login or find_login(settings.load())
    return _ask(found, "GET", _with_query(path, query), kind, None, timeout, is_fresh)


def post(
    path: str, kind: type[T], body: object = None, *, timeout: float = TIMEOUT, login: Login | None = None
) -> T:
    """The same of what is changed; ``body`` is sent as JSON."""
    found = login or find_login(settings.load())
    return _ask(found, "POST", path, kind, {} if body is None else body, timeout)


def delete(path: str, *, login: Login | None = None) -> None:
    """Remove something; raises what ``get`` raises."""
    _ask(login or find_login(settings.load()), "DELETE", path, object, None, TIMEOUT)


def perform(action: str, params: Mapping[str, Any], text: str, *, timeout: float = TIMEOUT) -> TaskResult:
    """The result of an action that nexus or cortex did; ``text`` says what is wanted.

    Raises MailroomError with the reason if it is not completed.
    """
    body = {"text": text, "params": params}
    result = post(f"/actions/{action}", TaskResult, body, timeout=timeout)
    if result.status is not TaskStatus.COMPLETED:
        raise MailroomError(clean(result.error_message or f"It ended as {result.status}"))
    return result


def parse_address(url: str) -> SplitResult:
    """The parts of a gateway's address; raises MailroomError if it is none."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise MailroomError(
            f"{url[:80]!r} is no address of a gateway", "Write it as in https://office.example.org"
        )
    return parts


def is_loopback(host: str | None) -> bool:
    """Whether it names this machine."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def segment(text: str) -> str:
    """``text`` as one part of a path."""
    return quote(text, safe="")


def goal_path(name: str) -> str:
    """The path of a goal by its id, or its beginning or end; raises NotFound for what can be none."""
    if not TOKEN.fullmatch(name):
        raise NotFound(f"There is no goal {name[:130]!r}", "'mailroom tasks --all' lists the goals")
    return f"/goals/{name}"


def _with_query(path: str, query: Query | None) -> str:
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in (query or {}).items()
        if value not in ("", ())
    }
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _ask(
    login: Login,
    method: str,
    path: str,
    kind: type[T],
    body: object,
    timeout: float,
    is_fresh: bool = True,
) -> T:
    data = None if body is None else msgspec.json.encode(body)
    try:
        connection = _request(
            login, method, path, data, timeout, {"Mailroom-Fresh": "yes"} if is_fresh and data is None else {}
        )
        try:
            response = connection.getresponse()
            answer = _Answer(response.status, response.getheader("Content-Type", ""), response.read())
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        raise _to_unavailable(login, error, timeout) from None
    if answer.status >= 400:
        raise _to_error(login, answer)
    try:
        return msgspec.json.decode(answer.body or b"null", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _other_version(login) from None


def _request(
    login: Login, method: str, path: str, data: bytes | None, timeout: float, more: Mapping[str, str]
) -> http.client.HTTPConnection:
    """Send a request; ``more`` are headers."""
    parts = parse_address(login.url)
    host = parts.hostname or ""
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, parts.port, timeout=timeout)
    headers = {"Authorization": f"Bearer {login.token}", "Accept": "application/json"}
    headers |= more if data is None else {**more, "Content-Type": "application/json"}
    try:
        connection.request(method, f"{parts.path.rstrip('/')}{PREFIX}{path}", data, headers)
    except BaseException:
        connection.close()
        raise
    return connection


def _to_unavailable(login: Login, error: Exception, timeout: float) -> BusUnavailable:
    if isinstance(error, TimeoutError):
        return BusUnavailable(f"The gateway at {login.url} does not answer within {timeout:g} s")
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    kind = GatewayAway if login.is_here else BusUnavailable
    return kind(f"The gateway at {login.url} cannot be reached: {reason}")


def _to_error(login: Login, answer: _Answer) -> MailroomError:
    if not answer.kind.startswith("application/problem+json"):
        return MailroomError(
            f"What answers at {login.url} with {answer.status} is no gateway of Mailroom",
            "Correct MAILROOM_URL, or sign in with 'mailroom login'",
        )
    try:
        problem = msgspec.json.decode(answer.body, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _other_version(login)
    cause, cure = problem.detail or problem.title, problem.cure
    match problem.status or answer.status:
        case 401:
            return Denied(
                f"The gateway at {login.url} does not take the token of this command",
                "Make one there with 'mailroom token add NAME', and sign in here with 'mailroom login URL'",
            )
        case 403:
            return Denied(cause, cure)
        case 404 | 405 if "/openapi.json" in cure:
            return _other_version(login)
        case 404:
            return NotFound(cause, cure)
        case 409:
            return Refused(cause, cure)
        case 429 | 503:
            return BusUnavailable(cause, cure)
    return MailroomError(cause, cure)


def _other_version(login: Login) -> MailroomError:
    from importlib.metadata import version

    return MailroomError(
        f"The gateway at {login.url} answers otherwise than mailroom {version('mailroom')} expects",
        "Bring both to the same version",
    )


# --- events -----------------------------------------------------------------------------------------


class EventStream:
    """An answer that goes on: its server-sent events up to one named ``last``, decoded by ``kinds``.

    Others are passed over. ``body`` is sent as JSON, by POST; the gateway does that once for each ``key``.
    Reading raises what ``get`` raises, also for an event ``problem`` and an early end, and BusUnavailable if
    nothing comes for ``timeout`` seconds. It may be closed from another thread.
    """

    def __init__(
        self,
        path: str,
        kinds: Mapping[str, type[Any]],
        last: str,
        *,
        query: Query | None = None,
        body: object = None,
        key: str = "",
        timeout: float = TIMEOUT,
        login: Login | None = None,
    ) -> None:
        self._login, self._timeout = login or find_login(settings.load()), timeout
        self._kinds, self._last = kinds, last
        data = None if body is None else msgspec.json.encode(body)
        method, headers = "GET" if data is None else "POST", {"Accept": "text/event-stream"}
        headers |= {"Idempotency-Key": key} if key else {}
        try:
            self._connection = _request(self._login, method, _with_query(path, query), data, timeout, headers)
            self._socket: socket.socket = self._connection.sock
            self._response = self._connection.getresponse()
            if self._response.status >= 400:
                kind = self._response.getheader("Content-Type", "")
                raise _to_error(self._login, _Answer(self._response.status, kind, self._response.read()))
        except (OSError, http.client.HTTPException) as error:
            raise _to_unavailable(self._login, error, timeout) from None

    def __iter__(self) -> Iterator[Any]:
        event = ""
        try:
            while line := self._response.readline():
                name, _, value = line.rstrip(b"\r\n").partition(b": ")
                if name == b"event":
                    event = value.decode()
                elif name == b"data" and event == "problem":
                    kind = "application/problem+json"
                    raise _to_error(self._login, _Answer(500, kind, value))
                elif name == b"data" and event in self._kinds:
                    yield msgspec.json.decode(value, type=self._kinds[event])
                    if event == self._last:
                        return
            raise ConnectionResetError("it ended its answer early")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise _other_version(self._login) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _to_unavailable(self._login, error, self._timeout) from None
        finally:
            self._connection.close()

    def close(self) -> None:
        """Have the reader end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    async def events(self) -> AsyncGenerator[Any, None]:
        """The same events beside other work: a thread of its own reads them."""
        import asyncio
        import threading

        loop = asyncio.get_running_loop()
        events: asyncio.Queue[tuple[Any, BaseException | None]] = asyncio.Queue()

        def put(event: object, error: BaseException | None = None) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody reads on
                loop.call_soon_threadsafe(events.put_nowait, (event, error))

        def read() -> None:
            try:
                for event in self:
                    put(event)
                put(None, StopAsyncIteration())
            except Exception as error:
                put(None, error)

        threading.Thread(target=read, daemon=True).start()
        try:
            while True:
                event, error = await events.get()
                if isinstance(error, StopAsyncIteration):
                    return
                if error is not None:
                    raise error
                yield event
        finally:
            self.close()


# --- which gateway ----------------------------------------------------------------------------------


def read_login(config: Settings) -> Login | None:
    """The gateway that a person signed in to; None without one."""
    try:
        return msgspec.json.decode(login_path(config).read_bytes(), type=Login)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise MailroomError(f"{login_path(config)} cannot be read: {error}", "Delete it") from None


def keep_login(config: Settings, login: Login) -> None:
    """Keep it in a file of mode 0600."""
    try:
        write_atomically(login_path(config), msgspec.json.encode(login), mode=0o600)
    except OSError as error:
        raise MailroomError(
            f"{login_path(config)} cannot be written: {error.strerror}", "Make its folder writable"
        ) from None


def find_login(config: Settings, wait: float = GATEWAY_WAIT) -> Login:
    """The gateway that is asked, and the token for it.

    ``MAILROOM_URL``, else that of ``mailroom login``, else that of the office of the state directory, which
    is waited for while it starts, ``wait`` seconds at most. The token of an office on this machine is shown
    to no other machine; a container that was dealt one has no office of its own. Raises StartError if no
    office runs, GatewayAway if it runs without a gateway.
    """
    known = read_login(config)
    if not config.url:
        if known is not None:
            return known
        address = _wait_for_address(config, wait)  # First: an office that starts makes its token meanwhile
        return Login(url=address, token=read_command_token(config), is_here=True)
    url = config.url.rstrip("/")
    if known is not None and known.url == url:
        return known
    has_office = (config.keys / f"{subjects.ADMIN}.nk").exists()
    may_show = is_loopback(parse_address(url).hostname) or not has_office
    token = read_command_token(config) if may_show else ""
    return Login(url=url, token=token, is_here=bool(token))


class _MadeLink(msgspec.Struct, frozen=True):
    person: str
    code: str


def create_link(
    config: Settings, person: str = "", page: str = "", *, wait: float = GATEWAY_WAIT
) -> tuple[str, str]:
    """A link that signs ``person`` (default: the one at the gateway's machine) in, and whom it signs in.

    It leads to ``page``, such as ``/goals/ID`` (empty: the inbox), and works once, within ten minutes. The
    code is behind ``#``, which browsers do not send, so that no server logs it. Raises StartError if no
    gateway runs, MailroomError if there is no such person.
    """
    login = find_login(config, wait)
    made = post("/links", _MadeLink, {"person": person}, login=login)
    address = public_address(config, login.url) if login.is_here else login.url
    to = f"?next={quote(page)}" if page else ""
    return f"{address}/login{to}#{made.code}", made.person


def require_here(config: Settings, path: str, cure: str) -> None:
    """Raise MailroomError if another office is asked than that of this machine, which alone has ``path``."""
    if url := find_office_elsewhere(config):
        raise MailroomError(f"{path} is of this machine, and the office that is asked is that of {url}", cure)


def find_office_elsewhere(config: Settings) -> str:
    """The address of the gateway that is asked, if its office is on another machine; else empty."""
    if not config.url and read_login(config) is None:
        return ""
    login = find_login(config)
    return "" if login.is_here else login.url


def _wait_for_address(config: Settings, wait: float) -> str:
    try:
        return find_address(config)
    except StartError:
        return _wait_for_start(config, wait)


def _wait_for_start(config: Settings, wait: float) -> str:
    # What knows the office imports the bus, which takes as long as all the rest of a command.
    from services.cli.connection import find_url
    from shared.bus.connecting import find_instance

    find_url(config)
    if find_instance(config) is None:
        raise GatewayAway(
            f"No gateway runs in {config.state_dir}, and commands ask it",
            "Start the office with 'mailroom up', or name a gateway with MAILROOM_URL",
        )
    deadline = time.monotonic() + wait
    while True:
        try:
            return find_address(config)
        except StartError:
            if time.monotonic() >= deadline:
                raise GatewayAway(
                    f"The office in {config.state_dir} is open, but its gateway does not run",
                    f"See why in {config.logs}, and start it again with 'mailroom up'",
                ) from None
        time.sleep(POLL_INTERVAL)
