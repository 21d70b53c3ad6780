"""Programs that keep, make and use keys and certificates: what shows no secret passes."""

from collections.abc import Sequence

from shared.policy.call import Call, Handler
from shared.policy.programs.fetching import FETCHED
from shared.policy.programs.rows import Step, first, row
from shared.policy.scope import Stream
from shared.policy.words import Word

_CONNECTS = {"s_client", "s_server", "s_time", "ocsp", "ts"}
_CERTIFICATES = {"x509", "verify", "crl"}
_PUBLIC = {"rsa", "pkey", "ec"}
_MAKES_KEYS = {"-new", "-newkey", "-key", "-keyout", "-x509", "-signkey", "-passin", "-passout"}
_LOADS = {"-engine", "-provider", "-provider-path", "-config"}
_READS = {"-in", "-inkey", "-key", "-CAfile", "-cert", "-kfile"}
_WRITES = {"-out", "-keyout", "-writerand"}
_EVERYDAY = frozenset(
    "version dgst x509 verify crl md5 sha1 sha256 asn1parse ciphers list speed prime help base64 rand".split()
)


def judge_openssl(call: Call) -> Stream | None:
    """By its command: what shows passes, what connects or handles keys does not."""
    name = call.args[0].text if call.args else ""
    words, texts = call.args[1:], {word.text for word in call.args[1:]}
    if name in _CONNECTS:
        return _judge_connection(call, name, words)
    shows = name in _CERTIFICATES or (name in _PUBLIC and "-pubin" in texts)
    shows = shows or (name == "req" and "-noout" in texts and not texts & _MAKES_KEYS)
    if name == "speed" and "-multi" in texts:
        call.find("exhaust.large")
    if texts & _LOADS:
        call.find("run.preload")
    _judge_files(call, words, shows)
    if name not in _EVERYDAY and not shows:
        call.find("unknown.use")
    return Stream(source="computed")


def _judge_connection(call: Call, name: str, words: Sequence[Word]) -> Stream:
    """With nothing to send it shows the certificate of a server and hangs up."""
    text = call.stdin.text
    if name == "s_client" and text is not None and text.strip() in {"", "Q"}:
        if any(not word.known for word in words):
            call.find("network.send")
    else:
        call.find("network.shell" if name == "s_server" or text is None else "network.remote")
    return FETCHED


def _judge_files(call: Call, words: Sequence[Word], shows: bool) -> None:
    previous = ""
    for word in words:
        if previous in _WRITES:
            call.write(word)
        elif previous in _READS and shows and previous != "-inkey":
            call.stat(word)
        elif previous in _READS or (not shows and not word.text.startswith("-")):
            call.read(word)
        previous = word.text


_GPG = row(
    "o output r recipient u keyserver homedir",
    first(
        Step(
            has="verify version print-md help list-keys k fingerprint list-public-keys dearmor",
            does="read 0:",
        ),
        Step("secret.store"),
    ),
)
PROGRAMS: dict[str, Handler] = {
    "openssl": judge_openssl,
    "gpg gpg2": _GPG,
    "ssh-keygen": row(
        "f F t b N C m E", first(Step(has="l", lacks="t"), Step(line="-F"), Step("secret.store"))
    ),
    "ssh-add": row("", first(Step(line="(-l|-V) $"), Step("secret.store"))),
}
