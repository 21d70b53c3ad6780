"""The token of the commands at this machine: who can read the office's keys needs no other."""

import hmac
from pathlib import Path

from shared import subjects
from shared.access.secrets import TOKEN_PREFIX, make_secret
from shared.errors import StartError
from shared.files import write_atomically
from shared.settings import Settings

NAME = f"{subjects.USER}.token"
"""The file beside the key of ``user``: who shows what is in it acts as who holds that key."""


def keep_command_token(config: Settings) -> None:
    """Write the token, a file of mode 0600, unless there is one; raises StartError if it cannot."""
    path = config.keys / NAME
    if read_command_token(config):
        return
    try:
        write_atomically(path, make_secret(TOKEN_PREFIX), mode=0o600)
    except OSError as error:
        raise StartError(
            f"The token {path} cannot be written: {error.strerror}", "Make its folder writable"
        ) from None


def read_command_token(config: Settings) -> str:
    """The token; empty if there is none, or if it may not be read here."""
    try:
        return Path(config.keys / NAME).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def is_command_token(config: Settings, secret: str) -> bool:
    """Whether ``secret`` is the token; it is read each time, so that a new file counts at once."""
    known = read_command_token(config)
    return bool(known) and hmac.compare_digest(known.encode(), secret.encode(errors="surrogatepass"))
