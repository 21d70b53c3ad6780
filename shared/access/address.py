"""Where the gateway listens, as it says itself in its folder."""

import os

import msgspec

from shared.errors import StartError
from shared.files import write_atomically
from shared.settings import Settings


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where the gateway of this state directory listens, as ``listening.json`` in its folder says."""

    url: str
    pid: int


def write_address(config: Settings, url: str) -> None:
    """Say that this process listens at ``url``; raises OSError."""
    listening = msgspec.json.encode(Listening(url=url, pid=os.getpid()))
    write_atomically(config.gateway / "listening.json", listening)


def find_address(config: Settings) -> str:
    """The address of the running gateway of this state directory; raises StartError if there is none."""
    try:
        found = msgspec.json.decode((config.gateway / "listening.json").read_bytes(), type=Listening)
        os.kill(found.pid, 0)
    except (OSError, msgspec.MsgspecError) as error:
        if isinstance(error, PermissionError):  # it runs, as another user
            return found.url
        raise StartError(
            f"No gateway is running in {config.state_dir}", "Start the office with 'mailroom up'"
        ) from None
    return found.url


def public_address(config: Settings, address: str) -> str:
    """What people type to reach the gateway at ``address``: ``gateway_public_url``, else one of
    ``gateway_hosts`` with https, if any.
    """
    if config.gateway_public_url:
        return config.gateway_public_url.rstrip("/")
    named = (host for host in config.gateway_hosts if host.startswith("https://"))
    return next(named, address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:"))
