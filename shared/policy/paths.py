"""Where a path leads: into the workspace, the system, a home, a device."""

import re
from enum import Enum, auto
from posixpath import normpath

from shared.policy.expansion import UNKNOWN

WORKSPACE = "/workspace"  # Represents the workspace if none is named
HOME = "/home/~"  # Represents the home of the user who runs the command
LONGEST = 4096  # Bytes of a path; Linux takes no longer one (PATH_MAX)


class Place(Enum):
    """Whose a path is."""

    WORKSPACE = auto()
    SCRATCH = auto()  # beneath /tmp: the jail has its own
    NOWHERE = auto()  # /dev/null, the standard streams
    DEVICE = auto()
    KERNEL = auto()  # /proc, /sys
    SYSTEM = auto()
    HOME = auto()
    ELSEWHERE = auto()
    UNKNOWN = auto()


_NOWHERE = re.compile(r"/dev/(null|stdin|stdout|stderr|tty|zero|u?random|full|fd(/\d+)?)$|/proc/self/fd/\d+$")
_TOP = {
    "dev": Place.DEVICE, "proc": Place.KERNEL, "sys": Place.KERNEL, "home": Place.HOME, "Users": Place.HOME,
    "root": Place.HOME, "tmp": Place.SCRATCH,
    **dict.fromkeys(
        "bin boot etc lib lib32 lib64 libx32 lost+found media mnt opt run sbin snap srv usr var nix "
        "System Library Applications private Volumes initrd.img vmlinuz swapfile".split(), Place.SYSTEM),
}  # fmt: skip
_PUBLIC = re.compile(
    r"/(usr/(local/)?)?(s?bin|lib(32|64|x32)?|libexec|games)(/|$)|/usr/(local/)?(src|share|include)(/"
    r"|$)|/var/www(/|$)"
    r"|/(opt|srv|mnt|media|Volumes|nix|snap)/.|/proc/(?!key-users)([\w.]+|self/\w+|net/\w+|sys/[\w/-]+)$"
    r"|/sys/(block|devices/system|class/(block|hwmon|thermal|power_supply|net))(/[\w/.-]+)?$"
    r"|/etc/([\w*-]*-?release|issue|hostname|timezone|services|protocols|shells|debian_version|passwd"
    r"|group|fstab|mtab"
    r"|networks|ssh/sshd?_config|motd|localtime|magic|mime\.types|hosts|login\.defs|profile|(resolv"
    r"|nsswitch|host|sysctl|ld\.so"
    r"|locale)\.(conf|gen)|apt/sources\.list|default/[\w-]+|(nginx|apache2|httpd)/[\w./-]+\.conf)$"
    r"|/var/log/(?!auth|secure|audit|sudo|btmp|wtmp|faillog|lastlog|journal|private)[\w./-]+$"
)
"""Files that describe the machine and no person; the jail shows few of them."""


def resolve(text: str, cwd: str | None) -> str | None:
    """The absolute path of ``text``, without ``..``; None if it is known only at run time."""
    if text.startswith(UNKNOWN) or len(text) > LONGEST:
        return None
    if not text.startswith("/"):
        if cwd is None:
            return None
        text = f"{cwd}/{text}"
    path = normpath(text)
    return path[1:] if path.startswith("//") else path


def place(path: str | None, workspace: str) -> Place:
    """Whose ``path`` (resolved) is; ``workspace`` is absolute."""
    if path is None:
        return Place.UNKNOWN
    if path == workspace or path.startswith(workspace + "/"):
        return Place.WORKSPACE
    if path.startswith(("/dev/", "/proc/")):
        if _NOWHERE.match(path):
            return Place.NOWHERE
        if path.startswith("/dev/shm/"):  # noqa: S108 - a place that is judged, not used
            return Place.SCRATCH
    if path.startswith("/var/tmp/"):  # noqa: S108 - as above
        return Place.SCRATCH
    top = path[1:].split("/", 1)[0]
    if not top or "*" in top or "?" in top or "[" in top:
        return Place.SYSTEM
    return _TOP.get(top, Place.ELSEWHERE)


def is_public(path: str) -> bool:
    """Whether it is a file of the system that all users may read."""
    return bool(_PUBLIC.match(path))


def is_hidden_home(path: str) -> bool:
    """Whether it is a dotfile, or in a dotted folder, of a user's home, or anything in root's."""
    if path.startswith("/root"):
        return True
    return "/." in path or ("/*" in path and path.count("/") <= 2)
