"""Package managers of other languages and of the system."""

import re

from shared.policy.call import Call, Handler
from shared.policy.options import Options, parse_options
from shared.policy.programs.packages import LOCAL
from shared.policy.programs.rows import Step, by_words, first, row
from shared.policy.scope import Stream

_CARGO_INSTALLS = frozenset("install uninstall add remove rm login logout owner".split())


def _judge_cargo_install(call: Call, found: Options) -> None:
    words = [word.text for word in found.operands if not word.text.startswith("+")]
    if not words or words[0] not in _CARGO_INSTALLS:
        return
    rest = parse_options(found.operands[1:], "git path registry root version features")
    paths = rest.of("path") if words[0] == "install" else []
    if rest.has("git registry index") or any("://" in word for word in words[1:]):
        call.find("package.foreign")
    elif words[0] in {"login", "logout", "owner"}:
        call.find("secret.store")
    elif not rest.has("path") or words[0] != "install" or not all(LOCAL.match(word.text) for word in paths):
        call.find("package.install")


_CARGO = row(
    "manifest-path p package features target git path registry root config C",
    Step("unclear.command", has="config"),
    _judge_cargo_install,
    first(
        Step("package.publish", words=r"(\+[^ ]* )*(publish|yank)"),
        Step(words=rf"(\+[^ ]* )*({'|'.join(sorted(_CARGO_INSTALLS))})"),
        Step(
            words=r"(\+[^ ]* )*( ?$|build|b|test|t|check|c|run|r|fmt|clippy|doc|d|clean|bench|tree|metadata"
            r"|search|info|update|fetch|vendor|new|init|version|help|nextest|audit|deny|outdated|expand|fix"
            r"|generate-lockfile|locate-project|package|pkgid|rustc|rustdoc|llvm-cov|watch|machete|udeps|miri"
            r"|insta|criterion|semver-checks)"
        ),
        Step("unknown.use"),
    ),
    permute=False,
)
"""Building and testing are everyday; installing programs is asked after."""


def _judge_go_paths(call: Call, found: Options) -> None:
    call.apply(parse_options(found.operands[1:], "o"), "write o")
    for word in found.operands[1:]:
        if word.text.startswith(("/", "~")):
            call.read(word)


_GO = row(
    "C",
    Step("unclear.command", words="[^ ]* ([^ ]* )*?-(exec|toolexec|vettool|overlay)[^ ]*"),
    first(
        Step("package.install", words=r"(run|install|get) ([^ ]* )*?([\w-]+\.[\w.-]+/|[^ ]*@)[^ ]*"),
        Step("package.install", words=rf"install ([^ ]* )*?(?!-|({LOCAL.pattern[1:-1]}) )[^ ]* "),
        Step("git.config", words="env ([^ ]* )*?-[wu]"),
        Step("package.install", words="clean ([^ ]* )*?-(modcache|cache|fuzzcache)"),
        Step(
            words="|build|test|vet|fmt|run|mod|list|doc|version|env|generate|tool|help|work|clean|install|get|fix"
            "|bug|telemetry"
        ),
        Step("unknown.use"),
    ),
    _judge_go_paths,
    permute=False,
)
_HOOK = re.compile(r"invoke|exec|cmd|hook|dpkg::", re.IGNORECASE)


def _judge_hooks(call: Call, found: Options) -> None:
    """Settings that have a package manager run commands."""
    for word in found.of("o option c"):
        if _HOOK.search(word.text):
            call.run_hidden(word.text.partition("=")[2])


_SYSTEM = row(
    "t o c target-release option a",
    _judge_hooks,
    first(
        Step(
            words="|list|search|show|info|policy|depends|rdepends|showpkg|madison|pkgnames|stats|help|config"
            "|--version|doctor|outdated|deps|leaves|home|desc|formulae|casks|repolist|provides|whatprovides|history"
            "|check-update|repoquery|changelog|moo|file|find|tree|uses|dump"
        ),
        Step("package.system"),
    ),
    Step("package.foreign", operand=".*://.*"),
)
"""apt, dnf, brew and the like: looking is everyday."""
_LONG_FLAGS = frozenset("install remove purge erase upgrade force-all unpack configure eval freshen".split())
_ACTS = {
    "dpkg": frozenset("i r P install remove purge unpack configure".split()),
    "rpm": frozenset("e U F install erase upgrade eval freshen".split()),
}
_ACTS_OF_OTHERS = frozenset("RUDr")
_LOOKS = {name: frozenset("lLsSqQpaicIW") for name in ("dpkg", "dpkg-query", "rpm")}
_LOOKS_OF_OTHERS = frozenset("Qsilqkemo" + "F")


def judge_flag_manager(call: Call) -> None:
    """pacman, dpkg, rpm and the like: their flags say what they do."""
    found = call.options("t o c target-release option a")
    _judge_hooks(call, found)
    flags = {flag for flag in found.flags if len(flag) == 1 or flag in _LONG_FLAGS}
    looks, acts = _LOOKS.get(call.name, _LOOKS_OF_OTHERS), _ACTS.get(call.name, _ACTS_OF_OTHERS)
    installs = call.name == "rpm" and "i" in flags and "q" not in flags
    syncs = call.name in {"pacman", "yay", "paru"} and "S" in flags and not flags & {"s", "i", "g"}
    if flags & acts or not flags & (looks | {"version", "help"}) or installs or syncs:
        call.find("package.system")


def _judge_sources(call: Call, _found: Options) -> None:
    if call.options("v source").has("source clear-sources s"):
        call.find("package.foreign")


_GEM = row(
    "v version source g gemfile path d working-dir",
    _judge_sources,
    first(
        Step("package.publish", words="push|yank|publish|owner"),
        Step("package.install", words="install [^ ]* ", program="cabal stack vcpkg conan nuget"),
        Step(
            words="|install|check|list|show|outdated|info|validate|dump-autoload|audit|update|test|build|run|format"
            "|compile|deps.get|restore|analyze|doc|clean|licenses|why|platform|env|version|--version|fund|depends"
            "|search|status|package|dialyzer|credo|pub|ghci|repl|exec2|fmt|lint|hex.info|help",
            program="bundle bundler composer mix pod carthage dart flutter swift dotnet nuget stack cabal "
            "rebar3 lein conan vcpkg",
        ),
        Step(
            words="|list|search|info|environment|env|which|contents|dependency|outdated|specification|help|query"
            "|stale|check|show"
        ),
        Step("package.install"),
    ),
)
"""gem, composer, cpan and the like."""


def judge_bundle(call: Call) -> Stream | None:
    """bundle exec runs a program; else it is as gem is."""
    found = call.options("v version source g gemfile path d working-dir")
    if not found.operands or found.operands[0].text != "exec":
        return _GEM(call)
    _judge_sources(call, found)
    return call.run([word for word in call.args if word.text != "exec"])


_CONDA = by_words(
    "package.install",
    {
        "": "list,info,search,env list,env export,config "
        "--show,activate,deactivate,doctor,compare,package,notices"
    },
)


PROGRAMS: dict[str, Handler] = {
    "cargo": _CARGO,
    "go": _GO,
    "apt apt-get apt-cache aptitude dnf yum zypper apk brew snap flatpak port pkg nix-env nix guix "
    "xbps-install opkg tdnf microdnf choco winget scoop swupd eopkg": _SYSTEM,
    "emerge pacman yay paru dpkg dpkg-query rpm xbps-query": judge_flag_manager,
    "easy_install cpan cpanm pecl pear luarocks opam rustup nvm fnm pyenv rbenv asdf sdk volta ghcup mise "
    "conan vcpkg gem composer mix pod dart flutter dotnet nuget stack cabal rebar3 lein sdkmanager tlmgr "
    "helmfile swift carthage": _GEM,
    "bundle bundler": judge_bundle,
    "conda mamba micromamba": _CONDA,
}
