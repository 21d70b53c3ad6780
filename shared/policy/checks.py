"""Checks that hold for every program, whatever its name."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.policy.paths import resolve
from shared.policy.scope import Stream
from shared.policy.secrets import is_private, is_secret_variable, is_sought
from shared.policy.words import Word

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
_RUNNERS = {"run", "exec", "x", "tool"}


def is_help(call: "Call", known: bool) -> bool:
    """Whether a program is asked for its help or version, and for nothing else."""
    words = [word.text for word in call.args]
    if not words or any(word.hidden or word.obfuscated for word in call.args):
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
    return all(_COMMAND(word) for word in commands) and (len(commands) == 1 or commands[0] not in _RUNNERS)


_DRY_RUN_OPTIONS = {
    "npm yarn pnpm cargo poetry composer docker-compose semantic-release release-it goreleaser cz "
    "bump2version bumpversion standard-version wrangler firebase serverless": {"--dry-run"},
    "aws": {"--dryrun", "--dry-run"},
    "apt apt-get aptitude": {"-s", "--simulate", "--dry-run", "--just-print", "--no-act"},
    "dnf yum": {"--assumeno"},
    "brew rclone": {"--dry-run", "-n"},
    "zypper": {"--dry-run", "-D"},
    "logrotate": {"-d", "--debug"},
}
_DRY_RUNS = {name: options for names, options in _DRY_RUN_OPTIONS.items() for name in names.split()}
"""Programs that hold to it, by the options; pip does not: it may run what it fetches."""


def is_dry_run(call: "Call") -> bool:
    """Whether a program is only to say what it would do."""
    options = _DRY_RUNS.get(call.name)
    if options is None:
        return False
    texts = [word.text for word in call.args]
    return any(text in options for text in texts)


_WHOLE = frozenset("cat sort gsort uniq tac nl column fold pr fmt expand rev less more tee ts".split())
"""Programs whose output is their input, in another order or dress."""
_PARTS = frozenset("grep egrep fgrep awk gawk mawk cut sed head tail wc read comm join uniq diff".split())
"""Programs that pick lines or columns."""
_FITS_MOST = re.compile(r"-\w*v\w*|(?!-)[^A-Za-z]*[A-Za-z]?[^A-Za-z]*").fullmatch
"""A pattern that leaves most lines: turned round, or without two letters."""


def is_listing(stream: Stream) -> bool:
    """Whether all of something is shown that only parts may be shown of."""
    return stream.source in {"environment", "history"} or stream.source.startswith("/")


def judge_listing_use(call: "Call") -> bool:
    """Judge what takes a listing; whether it is still a listing afterwards."""
    source = call.stdin.source
    if call.name in _WHOLE:
        return source != "history" and not (source.startswith("/") and call.name in {"sort", "uniq"})
    texts = [word.text for word in call.args]
    if "grep" in call.name or call.name in {"rg", "ag", "ack"}:
        sought = any(is_sought(text) or is_secret_variable(text) for text in texts)
        if sought or (not source.startswith("/") and any(_FITS_MOST(text) for text in texts)):
            call.find("secret.search")
    elif source == "environment" and not (call.name == "wc" or (call.name == "cut" and "-f1" in texts)):
        call.find("secret.environment")
    elif source.startswith("/") and call.name not in _PARTS:
        call.find("read.system", source)
    return False


_TEXTUAL = frozenset(
    "echo printf print grep ggrep egrep fgrep rgrep rg ag ack zgrep pcregrep git gh glab hub hg svn jj "
    "awk gawk mawk nawk sed gsed test [ [[ expr find gfind fd fdfind locate mlocate plocate ls "
    "gls dir vdir exa eza lsd stat du tree readlink realpath basename dirname file man apropos whatis "
    "which type help export declare typeset local readonly alias trap case read set : true false "
    "mailroom python python3 perl ruby node php lua sh bash dash zsh ksh eval xargs "
    "parallel env sudo ssh crontab unset tldr mkdir touch".split()
)
"""Programs whose words are text, names or commands of their own, and are judged as that."""
_OUTPUT = re.compile(
    r"--?(?!no[-_])(?:[a-z0-9]+[-_])*(?:out(?:put)?|dest(?:ination)?|target|save|write|dump|report|log)"
    r"(?:[-_]?(?:to|as|dir|directory|folder|file|path|name|root))?"
)
"""Long options that name an output."""
_OUTSIDE = ("/", "~", "..")
_CHOOSES = frozenset("df findmnt lsblk ps systemctl journalctl".split())
"""Programs whose --output names columns or a form."""
_PATH_LIKE = re.compile(r"(?:~[\w-]*|\.\.)?/[^\s=@,:{}()\"'|;<>]+")


def judge_named_secrets(call: "Call") -> None:
    """A program that is given a file of credentials is not to have it, whatever it does with it."""
    if call.name in _TEXTUAL:
        return
    for word in call.args:
        if "/" in word.text:
            for text in _PATH_LIKE.findall(word.text):
                path = resolve(text, call.scope.cwd) or text
                if is_private(path):
                    call.find("secret.file", path)


def judge_output_options(call: "Call") -> None:
    """An option that names an output is one, whatever else is known of the program."""
    if call.name in _CHOOSES or (call.name in _TEXTUAL and call.name != "git"):
        return
    for index, word in enumerate(call.args):
        name, sign, value = word.text.partition("=")
        if not name.startswith("-") or not _OUTPUT.fullmatch(name.lower()):
            continue
        if sign:
            target = Word(value)
        elif index + 1 < len(call.args):
            target = call.args[index + 1]
        else:
            continue
        if target.text.startswith(_OUTSIDE):
            call.write(target)


_PLAIN_WORD = re.compile(r"[a-z][a-z_-]*").fullmatch
_ACTS = re.compile(
    r"(^|[_-])(re|un|de|dis|over)?(delet|destroy|remov|purg|drop|kill|wip|format|eras|flush|prun|terminat"
    r"|exec|shell|sudo|root|passw|secret|token|cred|key|install|deploy|publish|apply|run|start|stop|reset|abl"
    r"|enabl|clear|nuk|shred|writ|halt|boot|shutdown|off|down|up|mount|inject|exploit|attack|payload|listen"
    r"|connect|bind|serv|send|upload|download|fetch|clon|encrypt|decrypt|dump|load|eval|login|user|admin|all"
    r"|forc|bash|sh|zsh|python|perl|spawn|daemon|disk|devic|network|firewall|hack|evil|mal|malwar|virus"
    r"|backdoor|rat|miner|mine|bomb|crypt|leak|exfil|spy|scan|crack|dos|flood|fork|stress|hook|grant|revok"
    r"|chmod|chown|tamper|poison|clean|fresh|undo|revert|rollback|roll|downgrad|upgrad|drain|evict|detach"
    r"|trash|expir|overwrit|rewrit|truncat|prod|production|unlink|vacuum|rotat|cancel|abort|suspend|ban|merg"
    r"|push|pay|infect|sweep|hijack|obliterat|nuk|transfer|mov|mv|rm|migrat|restor|releas|ship|invok|trigger"
    r"|schedul|cron|regist|unregist|policy|polkit|guard|audit|jail|sandbox|seccomp|approv|trust|allow|permit"
    r"|bypass|skip|silenc|mut|freez|panic|crash|kernel|bios|flash|partition|raid|volum|snapshot|backup"
    r"|cluster|node|pod|instanc|bucket|databas|db|tabl|schema|tunnel|proxy|expos|sniff|keylog|screenshot"
    r"|clipboard|broadcast|escalat|privileg)(e|s|es|ed|er|ing|d|y|able|ion|or|t|ll|te|ation)?($|[_-])"
)
_STANDS_FOR_ANY = re.compile(
    r"-|foo|bar|baz|qux|quux|((my|your|some|the|a|any|other|long)[-_]?)?(command|cmd|prog|program)\d?"
).fullmatch
"""Names under which manuals speak of programs: there are none that are called so."""


def judge_unknown(call: "Call") -> None:
    """Asked after, unless its words are nothing but plain ones: those leave it nothing to reach for."""
    words = [word.text for word in call.args]
    plain = all(_PLAIN_WORD(text) and not _ACTS.search(text) for text in [call.name, *words]) and bool(words)
    nobody = bool(_STANDS_FOR_ANY(call.name)) and not words
    if not (plain or nobody) or any(word.hidden or word.obfuscated for word in call.args):
        call.find("unknown.program", call.name)
    position = next((at for at, word in enumerate(call.args) if call.is_program(word.text)), None)
    if position is not None:
        # It may be one more program that runs another.
        call.run(call.args[position:])
    for word in call.args:
        text = word.text.partition("=")[2] if word.text.startswith("-") and "=" in word.text else word.text
        call.read(Word(text, word.glob, word.obfuscated))
        if text.startswith(("/dev/tcp", "/dev/udp")):
            call.find("network.shell")


_EFFECTS = frozenset(
    "drop destroy wipe purge fresh flush nuke downgrade rollback erase truncate teardown undeploy reset "
    "delete uninstall obliterate publish deploy release unpublish yank shutdown decommission terminate "
    "overwrite sqlflush flushdb dropdb dropall promote evict revoke provision deprovision".split()
)
_CHECKS = frozenset("test tests check lint spec help list show status dry plan preview".split())
"""Words in the names of tasks that only check or show."""
_VALUED = frozenset("-k -m -t -g -n -p -c -o -f --grep --filter --name --match --tag --message".split())
"""Options whose value only names something."""
_FILE = re.compile(r"[^:]*(/[^:]*|\.[a-z]{1,6})$")
_TASK_PARTS = re.compile(r"[:._-]+|(?<=[a-z])(?=[A-Z])")


def names_effect(text: str) -> bool:
    """Whether a task is called as those are that destroy, reset or publish something; files are no tasks."""
    if text.startswith("-") or _FILE.match(text):
        return False
    parts = [part.lower() for part in _TASK_PARTS.split(text)]
    return parts[0] not in _CHECKS and not _EFFECTS.isdisjoint(parts)


def judge_script_name(call: "Call", path: str) -> None:
    """Ask if the name of a script is that of such a task (``deploy.sh``); a test of one is named so too."""
    stem = path.rsplit("/", 1)[-1].split(".", 1)[0]
    if names_effect(stem) and "test" not in stem:
        call.find("task.effect")


def judge_tasks(call: "Call", words: Sequence[Word]) -> None:
    """Ask if one of ``words`` names such a task."""
    previous = ""
    for word in words:
        if previous not in _VALUED and names_effect(word.text):
            call.find("task.effect")
        previous = word.text
