"""The gateway's API as commands ask it: its address, their token, and its errors as sentences."""

import http.client
import time
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import msgspec

from shared import settings, subjects
from shared.access.credentials import find_address, read_command_token
from shared.contracts import TaskResult, TaskStatus
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


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway, and the token to show it."""

    url: str
    token: str


class _Problem(msgspec.Struct, frozen=True):
    detail: str = ""
    cure: str = ""
    title: str = ""


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
) -> T:
    """What the gateway answers on ``path``, what is behind ``/api/v1``, with all that the log holds by now.

    Raises MailroomError with the gateway's sentence, StartError if none runs, BusUnavailable if it does not
    answer within ``timeout`` seconds. ``login`` is a gateway to ask instead of the one that is found.
    """
    given = {name: _as_text(value) for name, value in (query or {}).items() if value not in ("", ())}
    whole = f"{path}?{urlencode(given, doseq=True)}" if given else path
    return _ask(login or find_login(settings.load()), "GET", whole, kind, None, timeout)


def post(path: str, kind: type[T], body: object = None, *, timeout: float = TIMEOUT) -> T:
    """The same of what is changed; ``body`` is sent as JSON."""
    return _ask(find_login(settings.load()), "POST", path, kind, {} if body is None else body, timeout)


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


def _as_text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _ask(login: Login, method: str, path: str, kind: type[T], body: object, timeout: float) -> T:
    data = None if body is None else msgspec.json.encode(body)
    try:
        answer = _exchange(login, method, path, data, timeout)
    except TimeoutError:
        raise BusUnavailable(f"The gateway at {login.url} does not answer within {timeout:g} s") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise BusUnavailable(f"The gateway at {login.url} cannot be reached: {reason}") from None
    if answer.status >= 400:
        raise _to_error(login, answer)
    try:
        return msgspec.json.decode(answer.body or b"null", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _other_version(login) from None


def _exchange(login: Login, method: str, path: str, data: bytes | None, timeout: float) -> _Answer:
    parts = parse_address(login.url)
    host = parts.hostname or ""
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, parts.port, timeout=timeout)
    headers = {"Authorization": f"Bearer {login.token}", "Accept": "application/json"}
    # What another command has just done counts.
    headers |= {"Mailroom-Fresh": "yes"} if data is None else {"Content-Type": "application/json"}
    try:
        connection.request(method, f"{parts.path.rstrip('/')}{PREFIX}{path}", data, headers)
        answer = connection.getresponse()
        return _Answer(answer.status, answer.getheader("Content-Type", ""), answer.read())
    finally:
        connection.close()


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
    match answer.status:
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
        case 503:
            return BusUnavailable(cause, cure)
    return MailroomError(cause, cure)


def _other_version(login: Login) -> MailroomError:
    from importlib.metadata import version

    return MailroomError(
        f"The gateway at {login.url} answers otherwise than mailroom {version('mailroom')} expects",
        "Bring both to the same version",
    )


# --- which gateway ----------------------------------------------------------------------------------


def login_path(config: Settings) -> Path:
    """The file in which ``mailroom login`` keeps the gateway of another machine."""
    return config.state_dir / "login.json"


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


def find_login(config: Settings) -> Login:
    """The gateway that is asked, and the token for it.

    ``MAILROOM_URL``, else that of ``mailroom login``, else that of the office of the state directory, which
    is waited for while it starts. The token of an office on this machine is shown to no other machine; a
    container that was dealt one has no office of its own. Raises StartError if none runs.
    """
    known = read_login(config)
    if config.url:
        url = config.url.rstrip("/")
        if known is not None and known.url == url:
            return known
        has_office = (config.keys / f"{subjects.ADMIN}.nk").exists()
        is_here = is_loopback(parse_address(url).hostname)
        return Login(url=url, token=read_command_token(config) if is_here or not has_office else "")
    return known or Login(url=_wait_for_address(config), token=read_command_token(config))


def require_here(config: Settings, path: str, cure: str) -> None:
    """Raise MailroomError if another office is asked than that of this machine, which alone has ``path``."""
    if not config.url and read_login(config) is None:
        return
    login, own = find_login(config), read_command_token(config)
    if not own or login.token != own:
        raise MailroomError(
            f"{path} is of this machine, and the office that is asked is that of {login.url}", cure
        )


def _wait_for_address(config: Settings) -> str:
    try:
        return find_address(config)
    except StartError:
        return _wait_for_start(config)


def _wait_for_start(config: Settings) -> str:
    # What knows the office imports the bus, which takes as long as all the rest of a command.
    from services.cli.connection import find_url
    from shared.bus.connecting import find_instance

    find_url(config)
    if find_instance(config) is None:
        raise StartError(
            f"No gateway runs in {config.state_dir}, and commands ask it",
            "Start the office with 'mailroom up', or name a gateway with MAILROOM_URL",
        )
    deadline = time.monotonic() + GATEWAY_WAIT
    while True:
        try:
            return find_address(config)
        except StartError:
            if time.monotonic() >= deadline:
                raise StartError(
                    f"The office in {config.state_dir} is open, but its gateway does not run",
                    f"See why in {config.logs}, and start it again with 'mailroom up'",
                ) from None
        time.sleep(POLL_INTERVAL)
