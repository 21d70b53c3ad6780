"""curl and wget: what they fetch, send and save."""

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from shared.policy.call import Call
from shared.policy.checks import names_effect
from shared.policy.expansion import UNKNOWN
from shared.policy.options import Options
from shared.policy.programs.rows import Step, row
from shared.policy.scope import Stream
from shared.policy.words import Word

FETCHED = Stream(source="network")

_METADATA = re.compile(
    r"169\.254\.|metadata\.google|metadata\.azure|100\.100\.100\.200|fd00:ec2|metadata\.internal"
    r"|instance-data",
    re.IGNORECASE,
)

_LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "[::1]"}  # noqa: S104 - what is judged

_HOST = re.compile(r"(?:(?:https?|wss?)://)?([\w.-]+|\[::1\])(?=[:/?]|$)")
_NUMBER = re.compile(r"[\d.]+|0x[\da-f.x]+|[\da-f:]+").fullmatch
_SCRIPT = re.compile(
    r"\.(sh|bash|zsh|py|pl|rb|js|mjs|php|lua|ps1|exe|bin|run|elf|so|dll|deb|rpm|apk|jar|whl|appimage"
    r"|msi|dmg|pkg|bat|service)$",
    re.IGNORECASE,
)

_CURL = (
    "A b c C d D e E F H K L0 m o P Q r t T u U w x X y Y z data data-raw data-binary data-urlencode "
    "data-ascii form form-string upload-file json request header output user user-agent referer cookie "
    "cookie-jar config proxy connect-timeout max-time retry retry-delay resolve connect-to write-out range "
    "cacert cert key capath proxy-user url url-query unix-socket abstract-unix-socket interface limit-rate "
    "dump-header netrc-file output-dir max-filesize max-redirs noproxy pinnedpubkey preproxy quote proto "
    "trace trace-ascii stderr oauth2-bearer engine variable expand-data telnet-option mail-from mail-rcpt "
    "hsts etag-save etag-compare doh-url dns-servers"
)

_SENDS = "d F T data data-raw data-binary data-urlencode data-ascii form form-string upload-file json Q quote t telnet-option mail-rcpt expand-data url-query"  # noqa: E501


_SAVES = "o output c cookie-jar D dump-header trace trace-ascii stderr output-dir etag-save hsts"
_READS = "K config b cookie netrc-file cert key E"
_SPECIAL = (
    "engine unix-socket abstract-unix-socket proxy x preproxy connect-to resolve doh-url n netrc u user "
    "oauth2-bearer"
)
"""Options that change the peer, or the identity it is shown."""


def judge_curl(call: Call) -> Stream | None:
    """Fetching data from a public address is everyday; sending, inner addresses and scripts are not."""
    found = call.options(_CURL)
    _judge_files(call, found)
    if found.has(_SPECIAL):
        call.find("network.fetch")
    addresses = [*found.operands, *found.of("url")]
    if addresses and all((own := _HOST.match(word.text)) and own[1] in _LOCAL for word in addresses):
        _judge_told(call, found, addresses)
    else:
        _judge_sent(call, found)
    for word in addresses:
        judge_address(call, word, looks=found.has("I head"))
        if found.has("O remote-name remote-name-all J"):
            _judge_saved(call, Word(word.text.split("?")[0].rsplit("/", 1)[-1] or "index.html"))
    for word in found.of("o output"):
        _judge_saved(call, word)
    return FETCHED


def _judge_files(call: Call, found: Options) -> None:
    """The files of this machine that its options name."""
    for word in found.of(_SAVES):
        if word.text not in {"-", "/dev/null"}:
            call.write(word, output=FETCHED)
    for word in found.of(_READS):
        call.read(Word(word.text.split(":")[0] or word.text))
        if word.text != "cookies.txt":
            call.find("network.fetch")


def _judge_saved(call: Call, word: Word) -> None:
    call.write(word, output=FETCHED)
    if _SCRIPT.search(word.text):
        call.find("network.fetch")


def _judge_sent(call: Call, found: Options) -> None:
    """What is sent to another machine."""
    asked = found.has("G get") and all(word.known and "@" not in word.text for word in found.of(_SENDS))
    if (found.has(_SENDS) and not asked) or _methods(found) - {"GET", "HEAD", "OPTIONS"}:
        call.find("network.send")
    told = found.of("H header A user-agent e referer b")
    if any("$" in word.text or not word.known for word in told):
        call.find("network.send")
    _judge_given(call, found)


def _judge_given(call: Call, found: Options) -> None:
    """The files whose content is sent."""
    for word in found.of(_SENDS):
        for part in re.findall(r"[@<]([^;,]+)", word.text):
            call.read(Word(part))


def _judge_told(call: Call, found: Options, addresses: list[Word]) -> None:
    """Requests to a server on this machine: data stays here, but a request may delete some."""
    _judge_given(call, found)
    acts = bool(found.has(_SENDS) or _methods(found))
    paths = [part for word in addresses for part in word.text.split("?")[0].split("/")]
    if "DELETE" in _methods(found) or (acts and any(names_effect(part) for part in paths)):
        call.find("cloud.change")


def _methods(found: Options) -> set[str]:
    return {word.text.upper() for word in found.of("X request")}


def _split_address(text: str) -> SplitResult | None:
    """The parts of an address, None if it is none."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        # Only its use shows that a port is none.
        return parts if (parts.port or 0) >= 0 else None
    except ValueError:
        return None


def _is_global(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        return False


def judge_address(call: Call, word: Word, looks: bool = False) -> None:
    """A literal public https address, or one of this very machine's own servers, is everyday.

    ``looks``: nothing but its headers is asked for.
    """
    text = word.text
    if not word.known:
        call.find("network.send" if not text.startswith(UNKNOWN) else "network.fetch", text)
        return
    parts = _split_address(text)
    if parts is None or not parts.hostname:
        call.find("network.fetch", text)
        return
    if parts.scheme == "file":
        call.read(Word(parts.path))
        return
    host = parts.hostname
    if parts.scheme not in {"http", "https", "ws", "wss"}:
        call.find("network.fetch", text)
    if _METADATA.search(host):
        call.find("network.private", text)
    elif host in _LOCAL:
        if parts.port in {2375, 2376, 10250, 6443, 2379}:
            call.find("network.private", text)
    elif (parts.scheme != "https" and not looks) or parts.username or word.glob or "{" in text:
        call.find("network.fetch", text)
    elif _NUMBER(host):
        call.find("network.fetch" if _is_global(host) else "network.private", text)
    elif (
        "." not in host
        or host.endswith((".internal", ".local", ".onion", ".lan", ".corp"))
        or len(parts.query) > 200
    ):
        call.find("network.fetch", text)


def _judge_wget_saved(call: Call, found: Options) -> None:
    for word in found.of("O output-document"):
        if word.text not in {"-", "/dev/stdout"}:
            _judge_saved(call, word)
    folder = next((word.text + "/" for word in found.of("P directory-prefix")), "")
    for word in found.operands:
        judge_address(call, word)
        if not found.has("O output-document spider"):
            name = word.text.split("?")[0].rstrip("/").rsplit("/", 1)[-1]
            _judge_saved(call, Word(folder + (name or "index.html")))


WGET = row(
    "O P o a i U e t T Q l A R D B w output-document directory-prefix output-file append-output input-file "
    "user-agent execute tries timeout header post-data post-file body-data body-file method referer "
    "load-cookies save-cookies user password http-user http-password use-askpass proxy-user level accept "
    "reject domains base wait limit-rate",
    Step(does="write o a output-file append-output save-cookies; read i input-file load-cookies"),
    Step("network.fetch", given="i input-file load-cookies"),
    Step(
        "network.send",
        given="post-data body-data post-file body-file",
        does="read post-data body-data post-file body-file",
    ),
    Step("unclear.command", has="use-askpass e execute"),
    Step("network.fetch", has="r m mirror recursive user password header method no-check-certificate"),
    _judge_wget_saved,
    output=FETCHED,
)
"""As curl, into a file of the address's name if none is given."""
