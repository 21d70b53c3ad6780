"""curl, wget and their like: hosts they reach, what they send, and what they save."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from shared.policy.call import Call, Handler
from shared.policy.expansion import UNKNOWN
from shared.policy.scope import NOTHING, Stream, Word
from shared.policy.words import Options

FETCHED = Stream(source="network")
_METADATA = re.compile(
    r"169\.254\.|metadata\.google|metadata\.azure|100\.100\.100\.200|fd00:ec2|metadata\.internal"
    r"|instance-data"
)
_LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 - what is judged
_CURL = (
    "A b c C d D e E F H K m o P Q r t T u U w x X y Y z data data-raw data-binary data-urlencode data-ascii "
    "form form-string upload-file json request header output user user-agent referer cookie cookie-jar "
    "config proxy connect-timeout max-time retry retry-delay resolve connect-to write-out range cacert cert "
    "key capath url url-query unix-socket abstract-unix-socket interface limit-rate dump-header netrc-file "
    "output-dir max-filesize max-redirs noproxy quote proto trace trace-ascii stderr oauth2-bearer"
)
_WGET = (
    "O P o a i U e t T Q l A R D B w output-document directory-prefix output-file append-output input-file "
    "user-agent execute tries timeout header post-data post-file body-data body-file method referer "
    "load-cookies save-cookies user password http-user http-password level accept reject domains base wait "
    "limit-rate use-askpass"
)
_SENDS = (
    "d F T data data-raw data-binary data-urlencode data-ascii form form-string upload-file json Q quote t "
    "post-data post-file body-data body-file"
)
_HEADERS = "H header A user-agent e referer b cookie u user"
_READS = "K config b cookie netrc-file cert key E i input-file post-file body-file upload-file load-cookies"
_SAVES = "c cookie-jar D dump-header trace trace-ascii stderr a append-output output-file save-cookies"


def judge_address(call: Call, word: Word) -> bool:
    """Note the host that an address names; whether it is this machine."""
    text = word.text
    if not word.known:
        known = re.match(r"(?:\w+://)?([\w.-]+\.\w+(?::\d+(?=/))?)(?=[:/])", text)
        hidden = text.partition(UNKNOWN)[0]
        call.find("network.send", text) if word.computed and hidden else call.need(
            f"host:{known[1]}" if known else "network"
        )
        return False
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if text.lower().startswith("file:"):
        call.read(Word(parts.path))
        return True
    if _METADATA.search(host):
        call.find("network.private", text)
    local = host in _LOCAL or host.endswith(".localhost")
    if not local:
        call.need(f"host:{_with_port(host, port)}" if host else "network")
        if _is_inside(host):
            call.find("network.private", text)
    return local


def _with_port(host: str, port: int | None) -> str:
    """The host as an entry of reach has it: without the ports that such an entry means by itself."""
    name = f"[{host}]" if ":" in host else host
    return name if port in (None, 80, 443) else f"{name}:{port}"


def _is_inside(host: str) -> bool:
    try:
        return not ip_address(host).is_global and not host.startswith(
            ("203.0.113.", "192.0.2.", "198.51.100.")
        )
    except ValueError:
        return bool(re.fullmatch(r"0x[\da-f.x]+|\d{8,}|0\d+(\.\d+)*", host))


def judge_fetch(call: Call) -> Stream:
    """curl, wget: an address is fetched, perhaps sent to, perhaps saved."""
    found = call.options(_WGET if call.name == "wget" else _CURL)
    sent = [part for word in found.of(_SENDS) for part in re.findall(r"[@<]([^;,]+)", word.text)]
    for text in [*(word.text for word in found.of(_READS)), *sent]:
        call.read(Word(text.split(":")[0] or text))
    for word in found.of(_SAVES + (" o" if call.name == "wget" else "")):
        call.write(word, output=FETCHED)
    if found.has("unix-socket abstract-unix-socket"):
        call.find("network.private", call.title)
    if found.has("e execute use-askpass") and call.name == "wget":
        call.find("unclear.command")
    addresses = [*found.operands, *found.of("url")]
    if call.name == "wget" and found.has("i input-file"):
        call.need("network")
    local = [judge_address(call, word) for word in addresses]
    if not all(local):
        # What is sent to another machine: files and what commands print; a plain text is the caller's own
        given = found.of(_SENDS)
        asked = found.has("G get") and all(word.known and "@" not in word.text for word in given)
        methods = {word.text.upper() for word in found.of("X request method")} - {"GET", "HEAD", "OPTIONS"}
        told = any("$" in word.text or word.computed or (not word.known) for word in found.of(_HEADERS))
        if (given and not asked) or methods or told:
            call.find("network.send")
    _judge_saved(call, found, addresses)
    return FETCHED if addresses else Stream()


def _judge_saved(call: Call, found: Options, addresses: list[Word]) -> None:
    wget = call.name == "wget"
    for word in found.of("O output-document" if wget else "o output"):
        if word.text not in {"-", "/dev/stdout", "/dev/null"}:
            call.write(word, output=FETCHED)
    if wget and found.has("O output-document spider"):
        return
    if wget or call.name == "aria2c" or found.has("O remote-name remote-name-all J"):
        folder = next((word.text.rstrip("/") + "/" for word in found.of("P directory-prefix output-dir")), "")
        for word in addresses:
            name = word.text.split("?")[0].rstrip("/").rsplit("/", 1)[-1]
            call.write(Word(folder + (name or "index.html")), output=FETCHED)


def judge_other(call: Call) -> Stream:
    """Programs that fetch one address or more: each is a host."""
    for word in call.options("o O d i s source output").operands:
        if re.match(r"\w+://|[\w-]+\.[\w.-]+(/|:|$)|localhost", word.text):
            judge_address(call, word)
            if call.name in {"aria2c", "axel"}:
                call.write(Word(word.text.rsplit("/", 1)[-1]), output=FETCHED)
        elif call.name in {"http", "https", "xh"} and "@" in word.text:
            call.find("network.send")
    call.judge_outputs()
    return FETCHED


def judge_copy(call: Call) -> Stream | None:
    """scp, rsync: a remote source is fetched, a remote target is sent to."""
    found = call.options("P i F l o c S J e rsh exclude include filter files-from log-file p port")
    call.apply(found, "script e rsh")
    words = found.operands
    remote = [re.match(r"(?:[\w.-]+@)?([\w.-]{2,}):(?!/?\\)|rsync://", word.text) for word in words]
    for word, match in zip(words, remote, strict=True):
        if match:
            call.need(f"host:{match[1]}" if match[1] else "network")
        elif word is not words[-1]:
            call.read(word, deep=True)
    if remote and remote[-1] and not found.has("n dry-run"):
        call.find("network.send")
    elif words and any(remote):
        call.write(words[-1], output=FETCHED)
        call.scope.fetched.add(call.path(words[-1]) or "")
    elif len(words) > 1 and found.has("delete del delete-after delete-before delete-during delete-excluded"):
        call.write(words[-1])
        call.delete(words[-1], deep=True)
    elif len(words) > 1:
        call.write(words[-1])
    return None


def judge_openssl(call: Call) -> Stream | None:
    """It reads and writes keys, or connects."""
    if call.args and call.args[0].text == "s_client":
        call.need("network")
        if call.stdin is not NOTHING:
            call.find("network.send")
        return FETCHED
    found = call.options("out keyout in passin days subj newkey inkey config")
    call.apply(found, "read in inkey config; read :; write out keyout")
    return Stream(None, None, "computed")


def judge_lookup(call: Call) -> Stream:
    """Names that are looked up and pinged are sent to others: what a command prints is not for them."""
    if any(not word.known and (word.computed or "." in word.text) for word in call.args):
        call.find("network.send")
    return FETCHED


PROGRAMS: dict[str, Handler] = {
    "curl wget curlie": judge_fetch,
    "aria2c axel http https xh fetch lynx links w3m elinks wscat websocat ab hey wrk httpie": judge_other,
    "scp rsync": judge_copy,
    "openssl": judge_openssl,
    "ping ping6 dig nslookup host drill": judge_lookup,
}
