"""Joining an office from another host: the token, what is asked with it, and the answer.

The token holds the key of an identity that may ask for this alone. The host makes its own seeds and sends
their public keys, signed by the token's; the answer is sealed for the key of the host. So eavesdroppers, even
without TLS, get neither the rights nor the secrets.
"""

import asyncio
import base64
import ssl
from base64 import b32decode
from typing import Any

import msgspec
import nats.errors

from shared.bus.client import BusClient
from shared.bus.connecting import connect_once, is_signed, public_key, require_more_time, sign
from shared.bus.hosts import HOST_KEY, Hosts, Invitation, Membership, encryption
from shared.errors import BusUnavailable, ConfigError, Denied, Refused, StartError

PREFIX = "mrj_"  # What a token begins with
PATIENCE = 30.0  # Seconds until the office must have answered, its server's restart included
ANSWER_WAIT = 10.0  # Seconds for one answer: the office has its servers read their configuration first


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator gives to a host: the name and roles it may have, and ``seed``, which may ask for them.

    ``authority`` is the certificate of servers that speak TLS, in DER.
    """

    host: str
    roles: tuple[str, ...]
    seed: str
    authority: bytes = b""

    def __str__(self) -> str:
        return PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def read_token(text: str) -> Token:
    """The token in a text; raises ConfigError if it is none, or was cut off."""
    given = text.strip().removeprefix(PREFIX)
    try:
        if not text.strip().startswith(PREFIX):
            raise ValueError
        token = msgspec.json.decode(base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)), type=Token)
        public_key(token.seed.encode())
    except Exception:  # each library raises its own for altered input
        raise ConfigError("That is no token to join with", "Copy the whole of what was printed") from None
    return token


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A host with its public keys: its own, and one for each role that it asks for."""

    host: str
    key: str
    roles: dict[str, str]


class _Signed(msgspec.Struct, frozen=True):
    body: bytes
    signature: str


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why it is refused, or a Membership sealed for the host's key; neither: it is done."""

    refused: str = ""
    sealed: bytes = b""


def write_request(request: JoinRequest, seed: bytes) -> bytes:
    """The request as it is sent, signed with the token's seed."""
    body = msgspec.json.encode(request)
    return msgspec.json.encode(_Signed(body, sign(seed, body)))


def open_request(data: bytes, invitation: Invitation) -> JoinRequest:
    """The request that was signed with the token of ``invitation``; raises Refused for any other."""
    try:
        signed = msgspec.json.decode(data, type=_Signed)
        request = msgspec.json.decode(signed.body, type=JoinRequest)
        keys = (request.key, *request.roles.values())
        if not is_signed(signed.body, signed.signature, invitation.key) or not all(map(is_key, keys)):
            raise ValueError
    except ValueError:
        raise Refused("The request was not made with this token") from None
    return request


def is_key(text: str) -> bool:
    """Whether a text is the public key of a user: the server would refuse its whole configuration else."""
    import nkeys

    try:
        raw = b32decode(text) if len(text) == 56 else b""
    except ValueError:
        return False
    return raw[:1] == bytes([nkeys.PREFIX_BYTE_USER]) and nkeys.crc16_checksum(raw[:-2]) == raw[-2:]


def write_answer(member: Membership | None = None, *, key: str = "", refused: str = "") -> bytes:
    """What the office answers: a membership, that it was done, or why not."""
    from nacl.public import SealedBox
    from nacl.signing import VerifyKey

    if member is None:
        return msgspec.json.encode(_Answer(refused))
    box = SealedBox(VerifyKey(b32decode(key)[1:-2]).to_curve25519_public_key())
    return msgspec.json.encode(_Answer(sealed=box.encrypt(msgspec.json.encode(member))))


def open_answer(data: bytes, seed: bytes) -> Membership | None:
    """The membership in an answer for the host with this seed, if it has one.

    Raises Refused with the office's sentence, or if another key sealed it.
    """
    import nkeys
    from nacl.exceptions import CryptoError
    from nacl.public import SealedBox
    from nacl.signing import SigningKey

    answer = msgspec.json.decode(data, type=_Answer)
    if answer.refused:
        raise Refused(answer.refused)
    if not answer.sealed:
        return None
    box = SealedBox(SigningKey(bytes(nkeys.decode_seed(bytearray(seed))[1])).to_curve25519_private_key())
    try:
        return msgspec.json.decode(box.decrypt(answer.sealed), type=Membership)
    except (CryptoError, ValueError):
        raise Refused("The answer is not for this host") from None


async def ask_office(url: str, seed: bytes, subject: str, payload: bytes, *, authority: str = "") -> bytes:
    """The office's answer to a request with the key of a token, or of a host.

    It is asked again while the server is away, PATIENCE seconds at most, so a request has to mean the same
    the second time. Raises Denied if the server does not know the key, BusUnavailable without an answer.
    """
    options = {"tls": encryption(authority)} if authority else {}
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        client = BusClient()
        try:
            return await _ask_once(client, url, seed, subject, payload, options)
        except Refused:
            raise
        except ssl.SSLCertVerificationError:
            raise StartError(
                f"The server at {url} does not show the office's certificate",
                "It is another server; or the office has another certificate now: ask for a new token",
            ) from None
        except Exception as error:
            if "authorization" in str(error).lower():
                raise Denied(
                    f"The office at {url} does not know this key",
                    "It was revoked or has expired: have 'mailroom hosts invite' make another token there",
                ) from None
            await _wait_or_raise(error, url, deadline)
        finally:
            await client.close()


async def know(urls: str, hosts: Hosts) -> bool:
    """Whether each of the servers at ``urls`` that answers knows a list of hosts; some server has to."""
    known = False
    for url in urls.split(","):
        client = BusClient()
        try:
            await connect_once(client, url, hosts.probe.encode(), error_cb=_ignore)
            known = True
        except (nats.errors.Error, OSError, TimeoutError) as error:
            if "authorization" in str(error).lower():
                return False
        finally:
            await client.close()
    return known


async def _ignore(_: Exception) -> None:
    """A key that is not known yet is nothing to report."""


async def _ask_once(
    client: BusClient, url: str, seed: bytes, subject: str, payload: bytes, options: dict[str, Any]
) -> bytes:
    """The answer to one request; raises Refused if the server does not let the key ask that."""
    denied: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def note(error: Exception) -> None:
        if "permissions violation" in str(error).lower() and not denied.done():
            denied.set_result(None)

    await connect_once(client, url, seed, name=subject, error_cb=note, **options)
    asked = asyncio.ensure_future(client.request(subject, payload, timeout=ANSWER_WAIT))
    both: set[asyncio.Future[Any]] = {asked, denied}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if denied.done():
        asked.cancel()
        raise Refused(f"This key may not ask on {subject!r}")
    return (await asked).data


async def _wait_or_raise(error: Exception, url: str, deadline: float) -> None:
    if isinstance(error, nats.errors.NoRespondersError) and asyncio.get_running_loop().time() > deadline:
        raise BusUnavailable(f"The office at {url} is closed", "Open it there: 'mailroom up'") from None
    require_more_time(error, HOST_KEY, url, deadline, host=HOST_KEY)
    await asyncio.sleep(0.5)
