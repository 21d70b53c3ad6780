"""Calls that only ask a program what it is and what it can do."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.policy.call import Call

_ASKS = {"--help", "--version", "--usage", "-V"}
_ASKS_SHORTLY = {*_ASKS, "-h", "-?", "help", "version"}
_WITH_COMMANDS = frozenset(
    "git gh glab docker podman docker-compose kubectl oc helm terraform tofu pulumi aws gcloud az npm yarn "
    "pnpm cargo go pip pip3 uv poetry pdm pipx gem bundle composer conda mamba dotnet apt apt-get brew snap "
    "dnf yum systemctl nats mailroom heroku fly flyctl vercel netlify firebase redis-cli rustup".split()
)
"""Programs whose first words are commands with a help of their own."""
_SHORT_HELP = frozenset(
    "nc ncat netcat socat ssh scp sftp rsync curl wget openssl tcpdump nmap docker podman kubectl helm "
    "terraform ffmpeg crontab ssh-keygen ssh-add gpg gdb strace ltrace perf valgrind sudo su systemctl "
    "journalctl mount umount iptables ip nft lsof fuser parted fdisk mkfs node nodejs python python3 ruby "
    "perl php make cmake gcc git npm pip cargo go java psql mysql sqlite3 redis-cli aws gcloud az gh screen "
    "tmux".split()
)
"""Programs that take -h for help: with others it is an option like any other (``bash -h``)."""
_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "yash", "posh", "fish", "csh", "tcsh"}
_PROGRAM = re.compile(r"[a-z][\w.+-]*").fullmatch
_COMMAND = re.compile(r"[a-z][a-z0-9-]*").fullmatch
_RUNS = {"run", "exec", "x", "tool"}


def is_help(call: "Call", known: bool) -> bool:
    """Whether a program is asked for its help or version, and for nothing else."""
    words = [word.text for word in call.args]
    if not words or any(word.hidden or word.odd for word in call.args):
        return False
    if len(words) == 1:
        if not known:
            return words[0] in {"--help", "--version"} and _PROGRAM(call.name) is not None
        if call.name in _SHELLS:
            return words[0] in {"--help", "--version"}
        return words[0] in _ASKS or (call.name in _SHORT_HELP and words[0] in _ASKS_SHORTLY)
    last = words[-1]
    asks = last in {"--help", "-h", "-help"} or (last == "help" and call.name in {"aws", "gcloud"})
    if call.name not in _WITH_COMMANDS or not asks:
        return False
    commands = words[:-1]
    return all(_COMMAND(word) for word in commands) and (len(commands) == 1 or commands[0] not in _RUNS)
