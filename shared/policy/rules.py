"""The rules by their ids, read from rules.toml, and what of them applies to a call of a program."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from shared.contracts import CommandVerdict
from shared.policy.scope import Word

FILE = Path(__file__).with_name("rules.toml")


class Rule(msgspec.Struct, frozen=True, gc=False):
    """A row of rules.toml, which says what its fields are."""

    verdict: CommandVerdict
    why: str
    stops: str = ""
    lets: str = ""
    on: Mapping[str, str] = {}
    reach: str = ""


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on ``command``, the stable id of the ``rule`` that decided, and why in one sentence.

    ``reach``: what the command has to reach over the network: "python", "javascript", "rust", "go", "java",
    "debian" for their registries, "host:NAME", "network" for hosts that are not known beforehand.
    """

    command: str
    verdict: CommandVerdict
    rule: str
    why: str
    reach: tuple[str, ...] = ()


RULES: dict[str, Rule] = msgspec.toml.decode(FILE.read_bytes(), type=dict[str, Rule])  # Every rule by its id

_VALUED = {
    "git": "-C -c --git-dir --work-tree --namespace --exec-path --config-env",
    "docker podman nerdctl": "-H --host -c --context -l --log-level --config",
    "kubectl oc helm": "-n --namespace --context --cluster --kubeconfig --kube-context -s --server",
    "aws": "--profile --region --output --endpoint-url",
    "gcloud gsutil az": "--project --account --subscription -o --output",
    "npm pnpm yarn bun": "-C --prefix --cwd --dir -w --workspace --filter",
    "cargo": "-Z --config -C --color",
    "uv poetry pdm": "--directory --project -C -p --python",
    "go mvn mvnw gradle gradlew make": "-C -f --file -p",
    "terraform tofu": "-chdir",
    "gh": "-R --repo",
    "nats": "-s --server --creds --nkey --context",
    "pip pip2 pip3": "--python --proxy --log",
    "systemctl loginctl launchctl": "-H --host -M --machine -t --type -p --property",
    "apt apt-get aptitude dnf yum zypper": "-o -t --target-release -c",
    "docker-compose pulumi terragrunt cdk": "-f --file -p --project-name --stack",
    "ip nft ufw nmcli timedatectl": "-f --family -n --netns -b",
    "brew bundle composer conda mamba gem rustup deno dotnet twine pipenv hatch hg svn vault rclone "
    "pre-commit zfs zpool btrfs cryptsetup virsh vagrant flutter dart mix cabal stack opam pod wrangler "
    "firebase heroku fly vercel netlify corepack": "",
}
"""Programs with commands of their own, and the options with a value that may stand before one."""


def _by_name(table: Mapping[str, str]) -> dict[str, str]:
    return {name: value for names, value in table.items() for name in names.split()}


_GLOBALS = {name: frozenset(options.split()) for name, options in _by_name(_VALUED).items()}
_OPTIONS = re.compile(r"\{([A-Za-z][\w +-]*)\}")


def _index() -> dict[str, list[tuple[str, str, str]]]:
    index: dict[str, list[tuple[str, str, str]]] = {}
    for name, rule in RULES.items():
        for program, pattern in _by_name(rule.on).items():
            index.setdefault(program, []).append((name, rule.reach, pattern))
    return index


_BY_PROGRAM = _index()


def matching(program: str, args: Sequence[Word]) -> Iterator[tuple[str, str]]:
    """The rules that apply to a call, each with what has to be reached, by the program and its words."""
    rows = _BY_PROGRAM.get(program)
    if rows:
        valued = _GLOBALS.get(program)
        words = [word.text.replace(" ", "\u00b7").replace("\n", "\u00b7") for word in args]
        start = 0
        while (
            valued is not None
            and start < len(words)
            and words[start].startswith(("-", "+"))
            and words[start] != "-"
        ):
            start += 2 if words[start] in valued else 1
        line = f" {' '.join([*words[start:], *words[:start]])} "
        for name, reach, pattern in rows:
            if not pattern or _search(pattern)(line):
                yield name, reach


@cache
def _search(pattern: str) -> Callable[[str], object]:
    return re.compile(_OPTIONS.sub(_options, pattern), re.DOTALL).search


def _options(match: re.Match[str]) -> str:
    parts = [f"-[A-Za-z]*{one}" if len(one) == 1 else rf"--?{one}(?![\w-])" for one in match[1].split()]
    return f"(?<= )(?:{'|'.join(parts)})"
