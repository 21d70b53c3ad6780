"""Where a path leads (the workspace, the system, a home), and what it holds: credentials, guards."""

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


_PRIVATE = re.compile(
    r"(^|/)(\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.password-store|\.mozilla|\.thunderbird|\.gcloud|\.oci"
    r"|\.electrum|\.bitcoin|\.config/(gcloud|gh|google-chrome|chromium|hub|rclone|op|doctl|BraveSoftware)"
    r"|\.local/share/keyrings|keyrings|Keychains|\.docker/config\.json|\.git-credentials|\.netrc|_netrc"
    r"|\.pgpass|\.my\.cnf|\.mylogin\.cnf|\.pypirc|\.npmrc|\.yarnrc\.yml|\.vault-token|\.terraform\.d|\.s3cfg"
    r"|\.boto|\.databrickscfg|\.dockercfg|\.gem/credentials|\.cargo/credentials(\.toml)?"
    r"|\.m2/settings(-security)?\.xml|\.composer/auth\.json|\.vnc|\.gitcookies|\.[a-z0-9]*_?history|\.lesshst"
    r"|\.viminfo|shadow-?|gshadow-?|passwd-|sudoers(\.d)?|opasswd|master\.passwd|id_(rsa|dsa|ecdsa"
    r"|ed25519)(_sk)?|[\w.-]*id_(rsa|ed25519)|krb5\.keytab|krb5cc_\w+|ntds\.dit|wallet\.dat|Login Data"
    r"|Cookies|logins\.json|key4\.db|cookies\.sqlite|kubeconfig|authorized_keys|ssl/private|letsencrypt/(live"
    r"|archive|accounts)|run/secrets|secrets/kubernetes\.io|docker\.sock|containerd\.sock|ssh_host_\w+_key"
    r"|wg\d\.conf|wireguard|NetworkManager/system-connections|wpa_supplicant\.conf|boot/grub/grub\.cfg"
    r"|mysql/(debian\.cnf|user\.MYD))(/|$)|^/proc/([^/]+)/(task/[^/]+/)?(environ|mem|maps|auxv|fd|cmdline"
    r"|root|cwd|stack)(/|$)|^/proc/(kcore|kallsyms|keys|kmsg)$|^/dev/(k?mem|port|input|kmsg)"
)
_LIKELY = re.compile(
    r"(^|/)(\.env(?!rc$)(\.(?!example$|sample$|template$|dist$|defaults?$|schema$)[\w.-]+)?|[\w.-]*\.env"
    r"|\.htpasswd|(client_)?secrets?(\.(ya?ml|json|toml|env|txt|ini|conf|enc))?|\.?credentials?(\.(ya?ml|json"
    r"|toml|env|txt|ini|csv|db))?|passwords?(\.(txt|csv|json|ya?ml|kdbx|db))?"
    r"|service[-_]?account[\w.-]*\.json|[\w.-]*tokens?\.(txt|json)|[\w.-]*(private"
    r"|secret)[-_]?key[\w.-]*|[\w.-]+\.(pem|key|p12|pfx|kdbx?|jks|keystore|ppk|nk|creds|seed|asc|gpg|age"
    r"|ovpn)|terraform\.tfstate(\.backup)?|[\w.-]*\.tfvars|\.envrc|vault\.ya?ml|\.vault_pass(\.txt)?"
    r"|wp-config\.php)$"
)
_CERTIFICATE = re.compile(
    r"(^|[/_.-])((ca-?)?certs?|certificates?|ca|(full)?chain|(ca-?)?bundle|public|pub|roots?"
    r"|intermediate|csr)"
    r"\d*\.(pem|asc|gpg)$|[_.-]pub(lic)?[_.-]?key\.pem$"
)
"""Certificates and public keys: made to be shown."""
_SOUGHT = re.compile(
    r"id_(rsa|dsa|ed25519|ecdsa|\*)|\.pem\b|\.ppk|\.kdbx|\.key\b|\.p12|\.pfx|shadow|passw|\bpass\b|secret"
    r"|credential|\.env\b|\.ssh|\.aws|\.gnupg|wallet|api.?key|private.?key|BEGIN|AKIA|token|htpasswd|\.netrc"
    r"|_history|kubeconfig",
    re.IGNORECASE,
)
_VARIABLE = re.compile(
    r"(SECRET|TOKEN|PASSW|PASSPHRASE|(^|_)PWD_|API_?KEY|PRIVATE|CREDENTIAL|ACCESS_?KEY|(^|_)KEY$|(^|_)PASS$"
    r"|AUTH$|DATABASE_URL|_DSN$|COOKIE)"
)
_STARTUP = re.compile(
    r"(^|/)(\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin"
    r"|kshrc|cshrc|tcshrc|login|logout|inputrc|xinitrc|xsession|xprofile|xsessionrc|Xresources|vimrc|gvimrc"
    r"|exrc|nanorc|emacs|screenrc|tmux\.conf|gdbinit|lldbinit|pythonrc|pystartup|perldb|irbrc|Rprofile"
    r"|gitconfig|pam_environment|forward|mailcap|wgetrc|curlrc|psqlrc|sqliterc|npmrc|condarc|netrc|rhosts"
    r"|shosts|envrc|lessfilter|dircolors)|\.emacs\.d|\.vim|\.config/(autostart|systemd|fish|git|nvim|pip"
    r"|environment\.d|i3|sway|hypr)|\.local/share/systemd|\.local/bin|bin/env|\.pip/pip\.conf|\.ssh|\.kde"
    r"|autostart|LaunchAgents|LaunchDaemons|StartupItems|cron\.(d|daily|hourly|weekly|monthly)|crontabs?|cron"
    r"|init\.d|rc\.local|rc\.d|rc\d\.d|systemd|udev|profile\.d|bash\.bashrc|environment|ld\.so\.preload"
    r"|ld\.so\.conf(\.d)?|pam\.d|update-motd\.d|modprobe\.d|modules-load\.d|sudoers(\.d)?|doas\.conf|polkit-1"
    r"|at\.(allow|deny)|xinetd\.d|inetd\.conf|apt\.conf\.d|dpkg\.cfg\.d|sitecustomize\.py|usercustomize\.py"
    r"|if-up\.d|network/if-[\w-]+\.d|logrotate\.d|incron\.d|anacrontab)(/|$)|site-packages/[^/]*\.pth$"
    r"|\.desktop$|\.(service|timer|socket)$(?<!/)"
)
_UNIT_ELSEWHERE = re.compile(r"\.(desktop|service|timer|socket)$")
_HOOK = re.compile(
    r"(^|/)(\.git/(hooks|config|info/attributes|modules)|\.husky|\.githooks)(/|$)|(^|/)hooks/(pre|post)-\w+$"
)
_REPOSITORY = re.compile(r"(^|/)\.git(/|$)")
_GUARD = re.compile(
    r"(^|/)(lancedb|jetstream|nkeys|office\.conf|\.mailroom|audit\.(jsonl|log)|mailroom\.sock"
    r"|data/(nats|keys|audit|memory|office|events|approvals)|(nats-server|seccomp[\w.-]*)\.(conf|json))(/|$)"
)
_GUARD_FILE = re.compile(
    r"(^|/)((sandbox|policy|policies|guard|guards|guardrails?|approvals?|jail|audit|seccomp|permissions"
    r"|allowlist|denylist|blocklist)(\.(ya?ml|toml|json|jsonl|conf|cfg|ini|rules|py|db|sqlite|log|sh|txt))"
    r"|[\w.-]*seccomp[\w.-]*|(sandbox|polic(y|ies)|guards?|guardrails?|jail|seccomp)/([^/]+/)*(rules?|polic(y"
    r"|ies)|guards?|limits?|allow\w*|deny\w*|block\w*|profile)\.(py|toml|ya?ml|json|conf)|\.claude(/.*)?"
    r"|\.cursorrules|AGENTS\.md|CLAUDE\.md|SOUL\.md)$"
)
_LOGS = re.compile(r"^/var/(log|run/utmp|spool)(/|$)|(^|/)(wtmp|btmp|utmp|lastlog|faillog|auth\.log)$")


def is_private(path: str) -> bool:
    """Whether it certainly names credentials or private records, in any folder."""
    return bool(_PRIVATE.search(path)) and not path.endswith((".pub", "/known_hosts"))


def is_likely_secret(path: str) -> bool:
    """Whether it is called as files of credentials are (``.env``, ``*.pem``), not as what is shown to all."""
    return bool(_LIKELY.search(path)) and not _CERTIFICATE.search(path)


def is_sought(text: str) -> bool:
    """Whether a pattern looks for credentials."""
    return bool(_SOUGHT.search(text))


def is_secret_variable(name: str) -> bool:
    """Whether a variable of this name usually holds credentials."""
    return bool(_VARIABLE.search(name.upper()))


def runs_later(path: str, inside: bool) -> bool:
    """Whether what is written there runs later by itself; ``inside`` the workspace: if tools load it."""
    if _HOOK.search(path):
        return True
    if inside:
        return path.rsplit("/", 1)[-1] in {".envrc", "sitecustomize.py", "usercustomize.py"}
    return bool(_STARTUP.search(path) or _UNIT_ELSEWHERE.search(path))


def is_repository(path: str) -> bool:
    """Whether it is in git's own folder."""
    return bool(_REPOSITORY.search(path))


def may_guard(path: str) -> bool:
    """Whether it is called as what guards agents is: a policy, a sandbox's or an audit's file."""
    return bool(_GUARD_FILE.search(path))


def guards(path: str) -> bool:
    """Whether it is a state of the office: keys, the bus, the memory, the audit, the policy."""
    return bool(_GUARD.search(path) or _LOGS.search(path))
