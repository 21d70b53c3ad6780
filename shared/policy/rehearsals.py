"""Calls that only say what they would do (``--dry-run``)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.policy.call import Call

_OPTIONS = {
    "npm yarn pnpm cargo poetry composer docker-compose semantic-release release-it goreleaser cz "
    "bump2version bumpversion standard-version wrangler firebase serverless": {"--dry-run"},
    "aws": {"--dryrun", "--dry-run"},
    "apt apt-get aptitude": {"-s", "--simulate", "--dry-run", "--just-print", "--no-act"},
    "dnf yum": {"--assumeno"},
    "brew rclone": {"--dry-run", "-n"},
    "zypper": {"--dry-run", "-D"},
    "logrotate": {"-d", "--debug"},
}
_REHEARSES = {name: options for names, options in _OPTIONS.items() for name in names.split()}
"""Programs that hold to it, by the options; pip does not: it may run what it fetches."""


def is_rehearsal(call: "Call") -> bool:
    """Whether a program is only to say what it would do."""
    options = _REHEARSES.get(call.name)
    if options is None:
        return False
    texts = [word.text for word in call.args]
    return any(text in options for text in texts)
