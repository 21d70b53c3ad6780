"""What paths and names say about content: credentials, what runs by itself later, what guards the agents."""

import re

_PRIVATE = re.compile(
    r"(^|/)("
    r"\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.password-store|\.mozilla|\.thunderbird|\.gcloud|\.oci"
    r"|\.electrum|\.bitcoin"
    r"|\.config/(gcloud|gh|google-chrome|chromium|hub|rclone|op|doctl|BraveSoftware)"
    r"|\.local/share/keyrings|keyrings"
    r"|Keychains|\.docker/config\.json|\.git-credentials|\.netrc|_netrc|\.pgpass|\.my\.cnf"
    r"|\.mylogin\.cnf|\.pypirc"
    r"|\.npmrc|\.yarnrc\.yml|\.vault-token|\.terraform\.d|\.s3cfg|\.boto|\.databrickscfg|\.dockercfg"
    r"|\.gem/credentials"
    r"|\.cargo/credentials(\.toml)?|\.m2/settings(-security)?\.xml|\.composer/auth\.json|\.vnc|\.gitcookies"
    r"|\.[a-z0-9]*_?history|\.lesshst|\.viminfo|shadow-?|gshadow-?|passwd-|sudoers(\.d)?|opasswd"
    r"|master\.passwd"
    r"|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|[\w.-]*id_(rsa|ed25519)|krb5\.keytab|krb5cc_\w+|ntds\.dit|wallet\.dat"
    r"|Login Data|Cookies|logins\.json|key4\.db|cookies\.sqlite|kubeconfig|authorized_keys"
    r"|ssl/private|letsencrypt/(live|archive|accounts)|run/secrets|secrets/kubernetes\.io|docker\.sock"
    r"|containerd\.sock"
    r"|ssh_host_\w+_key|wg\d\.conf|wireguard|NetworkManager/system-connections|wpa_supplicant\.conf"
    r"|boot/grub/grub\.cfg|mysql/(debian\.cnf|user\.MYD)"
    r")(/|$)"
    r"|^/proc/([^/]+)/(task/[^/]+/)?(environ|mem|maps|auxv|fd|cmdline|root|cwd|stack)(/|$)"
    r"|^/proc/(kcore|kallsyms|keys|kmsg)$"
    r"|^/dev/(k?mem|port|input|kmsg)"
)
_LIKELY = re.compile(
    r"(^|/)(\.env(?!rc$)(\.(?!example$|sample$|template$|dist$|defaults?$|schema$)[\w.-]+)?"
    r"|[\w.-]*\.env|\.htpasswd"
    r"|(client_)?secrets?(\.(ya?ml|json|toml|env|txt|ini|conf|enc))?|\.?credentials?(\.(ya?ml|json"
    r"|toml|env|txt|ini|csv|db))?"
    r"|passwords?(\.(txt|csv|json|ya?ml|kdbx|db))?|service[-_]?account[\w.-]*\.json"
    r"|[\w.-]*token(\.(txt|json))|tokens?"
    r"|[\w.-]*(private|secret)[-_]?key[\w.-]*|[\w.-]+\.(pem|key|p12|pfx|kdbx?|jks|keystore|ppk|nk"
    r"|creds|seed|asc|gpg|age|ovpn)"
    r"|terraform\.tfstate(\.backup)?|[\w.-]*\.tfvars|\.envrc|vault\.ya?ml|\.vault_pass(\.txt)?"
    r"|wp-config\.php)$"
)
_CERTIFICATE = re.compile(
    r"(^|[/_.-])((ca-?)?certs?|certificates?|ca|(full)?chain|(ca-?)?bundle|public|pub|roots?|intermediate|csr)"
    r"\d*\.(pem|asc|gpg)$|[_.-]pub(lic)?[_.-]?key\.pem$"
)
"""Certificates and public keys: made to be shown."""
_SOUGHT = re.compile(
    r"id_(rsa|dsa|ed25519|ecdsa|\*)|\.pem\b|\.ppk|\.kdbx|\.key\b|\.p12|\.pfx|shadow|passwd|password"
    r"|secret|credential|"
    r"\.env\b|\.ssh|\.aws|\.gnupg|wallet|api.?key|private.?key|BEGIN|AKIA|token|htpasswd|\.netrc"
    r"|_history|kubeconfig",
    re.IGNORECASE,
)
_VARIABLE = re.compile(
    r"(SECRET|TOKEN|PASSW|PASSPHRASE|(^|_)PWD_|API_?KEY|PRIVATE|CREDENTIAL|ACCESS_?KEY|(^|_)KEY$|(^"
    r"|_)PASS$|AUTH$|"
    r"DATABASE_URL|_DSN$|COOKIE)"
)
_STARTUP = re.compile(
    r"(^|/)(\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile"
    r"|zlogin|kshrc"
    r"|cshrc|tcshrc|login|logout|inputrc|xinitrc|xsession|xprofile|xsessionrc|Xresources|vimrc|gvimrc"
    r"|exrc|nanorc|emacs"
    r"|screenrc|tmux\.conf|gdbinit|lldbinit|pythonrc|pystartup|perldb|irbrc|Rprofile|gitconfig"
    r"|pam_environment|forward"
    r"|mailcap|wgetrc|curlrc|psqlrc|sqliterc|npmrc|condarc|netrc|rhosts|shosts|envrc|lessfilter|dircolors)"
    r"|\.emacs\.d|\.vim|\.config/(autostart|systemd|fish|git|nvim|pip|environment\.d|i3|sway|hypr)"
    r"|\.local/share/systemd"
    r"|\.local/bin|bin/env|\.pip/pip\.conf|\.ssh|\.kde|autostart|LaunchAgents|LaunchDaemons|StartupItems"
    r"|cron\.(d|daily|hourly|weekly|monthly)|crontabs?|cron|init\.d|rc\.local|rc\.d|rc\d\.d|systemd"
    r"|udev|profile\.d"
    r"|bash\.bashrc|environment|ld\.so\.preload|ld\.so\.conf(\.d)?|pam\.d|update-motd\.d|modprobe\.d"
    r"|modules-load\.d"
    r"|sudoers(\.d)?|doas\.conf|polkit-1|at\.(allow|deny)|xinetd\.d|inetd\.conf|apt\.conf\.d|dpkg\.cfg\.d"
    r"|sitecustomize\.py|usercustomize\.py|if-up\.d|network/if-[\w-]+\.d|logrotate\.d|incron\.d"
    r"|anacrontab)(/|$)"
    r"|site-packages/[^/]*\.pth$|\.desktop$|\.(service|timer|socket)$(?<!/)"
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
    r"(^|/)((sandbox|policy|policies|guard|guards|guardrails?|approvals?|jail|audit|seccomp"
    r"|permissions|allowlist|denylist|blocklist)"
    r"(\.(ya?ml|toml|json|jsonl|conf|cfg|ini|rules|py|db|sqlite|log|sh|txt))|[\w.-]*seccomp[\w.-]*"
    r"|(sandbox|polic(y|ies)|guards?|guardrails?|jail|seccomp)/([^/]+/)*"
    r"(rules?|polic(y|ies)|guards?|limits?|allow\w*|deny\w*|block\w*|profile)\.(py|toml|ya?ml|json|conf)"
    r"|\.claude(/.*)?|\.cursorrules|AGENTS\.md|CLAUDE\.md|SOUL\.md)$"
)
_GUARD_NAME = re.compile(
    r"nats|mailroom|audit|sshd|systemd|init\b|syslog|critic|nexus|conductor|supervis|guard|sandbox|policy|jail"
    r"|falco|osquery|crowdstrike|wazuh|seccomp|landlock|apparmor",
    re.IGNORECASE,
)
_LOGS = re.compile(r"^/var/(log|run/utmp|spool)(/|$)|(^|/)(wtmp|btmp|utmp|lastlog|faillog|auth\.log)$")


def is_private(path: str) -> bool:
    """Whether it names credentials or private records for certain, wherever it lies."""
    return bool(_PRIVATE.search(path)) and not path.endswith((".pub", "/known_hosts"))


def is_likely_secret(path: str) -> bool:
    """Whether it is called as files of credentials are (``.env``, ``*.pem``), not as what is shown to all."""
    return bool(_LIKELY.search(path)) and not _CERTIFICATE.search(path)


def is_sought(text: str) -> bool:
    """Whether a pattern looks for credentials."""
    return bool(_SOUGHT.search(text))


def is_secret_variable(name: str) -> bool:
    """Whether a variable of this name is where credentials are kept."""
    return bool(_VARIABLE.search(name.upper()))


def runs_later(path: str, inside: bool) -> bool:
    """Whether what is written there runs by itself later; ``inside`` the workspace: what tools pick up."""
    if _HOOK.search(path):
        return True
    if inside:
        return path.rsplit("/", 1)[-1] in {".envrc", "sitecustomize.py", "usercustomize.py"}
    return bool(_STARTUP.search(path) or _UNIT_ELSEWHERE.search(path))


def is_repository(path: str) -> bool:
    """Whether it is in the folder where git keeps what it knows."""
    return bool(_REPOSITORY.search(path))


def may_guard(path: str) -> bool:
    """Whether it is called as what guards agents is: a policy, a sandbox's or an audit's file."""
    return bool(_GUARD_FILE.search(path))


def guards_by_name(name: str) -> bool:
    """Whether a process or a variable is called as what guards or runs the office."""
    return bool(_GUARD_NAME.search(name))


def guards(path: str) -> bool:
    """Whether it is a state of the office: keys, the bus, the memory, the audit, the policy."""
    return bool(_GUARD.search(path) or _LOGS.search(path))
