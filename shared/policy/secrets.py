"""What paths and names say about content: credentials, startup files, what guards the agents."""

import re

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
