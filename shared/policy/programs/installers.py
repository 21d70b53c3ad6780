"""Package managers of other languages and of the system."""

import re

from shared.policy.call import Call, Handler
from shared.policy.options import parse_options
from shared.policy.programs.packages import LOCAL
from shared.policy.programs.rows import by_words
from shared.policy.scope import Stream


def judge_cargo(call: Call) -> None:
    """cargo and go: building and testing are everyday; installing programs is asked after."""
    found = parse_options(
        call.args, "manifest-path p package features target git path registry root config C", permute=False
    )
    words = [word.text for word in found.operands if not word.text.startswith("+")]
    action = words[0] if words else ""
    if found.has("config"):
        call.find("unclear.command")
    if action in {"install", "uninstall", "add", "remove", "rm", "login", "logout", "owner"}:
        rest = parse_options(found.operands[1:], "git path registry root version features")
        local = (
            action == "install"
            and rest.has("path")
            and all(LOCAL.match(word.text) for word in rest.of("path"))
        )
        if rest.has("git registry index") or any("://" in word for word in words[1:]):
            call.find("package.foreign")
        elif action in {"login", "logout", "owner"}:
            call.find("secret.store")
        elif not local:
            call.find("package.install")
    elif action in {"publish", "yank"}:
        call.find("package.publish")
    elif action not in [
        "",
        *"build b test t check c run r fmt clippy doc d clean bench tree metadata search info "
        "update fetch vendor new init version help nextest audit deny outdated expand fix "
        "generate-lockfile locate-project package pkgid rustc rustdoc llvm-cov watch machete "
        "udeps miri insta criterion semver-checks".split(),
    ]:
        call.find("unknown.use")


def judge_go(call: Call) -> None:
    """go: see cargo."""
    found = parse_options(call.args, "C", permute=False)
    words = [word.text for word in found.operands]
    action = words[0] if words else ""
    rest = words[1:]
    for word in parse_options(found.operands[1:], "o").of("o"):
        call.write(word)
    if any(word.startswith(("-exec", "-toolexec", "-vettool", "-overlay")) for word in rest):
        call.find("unclear.command")
    if (
        action in {"run", "install", "get"} and any(re.match(r"[\w-]+\.[\w.-]+/|.*@", word) for word in rest)
    ) or (action == "install" and not all(LOCAL.match(word) or word.startswith("-") for word in rest)):
        call.find("package.install")
    elif action == "env" and any(word in {"-w", "-u"} for word in rest):
        call.find("git.config")
    elif action == "clean" and any(word in {"-modcache", "-cache", "-fuzzcache"} for word in rest):
        call.find("package.install")
    elif action not in [
        "",
        *"build test vet fmt run mod list doc version env generate tool help work clean "
        "install get fix bug telemetry".split(),
    ]:
        call.find("unknown.use")
    for word in found.operands[1:]:
        if word.text.startswith(("/", "~")):
            call.read(word)


def judge_system_packages(call: Call) -> None:
    """apt, dnf, brew and the like: looking is everyday."""
    found = call.options("t o c target-release option a")
    for word in found.of("o option c"):
        if re.search(r"invoke|exec|cmd|hook|dpkg::", word.text, re.IGNORECASE):
            call.run_hidden(word.text.partition("=")[2])
    action = found.operands[0].text if found.operands else ""
    pacman = call.name in {"pacman", "yay", "paru", "dpkg", "rpm", "emerge", "dpkg-query", "xbps-query"}
    if pacman:
        flags = {
            flag
            for flag in found.flags
            if len(flag) == 1
            or flag in "install remove purge erase upgrade force-all unpack configure eval freshen".split()
        }
        looks = (
            {"l", "L", "s", "S", "q", "Q", "p", "a", "i", "c", "I", "W"}
            if call.name in {"dpkg", "dpkg-query", "rpm"}
            else {"Q", "s", "i", "l", "q", "k", "e", "m", "o", "F"}
        )
        acts = {
            "dpkg": {"i", "r", "P", "install", "remove", "purge", "unpack", "configure"},
            "rpm": {"e", "U", "F", "install", "erase", "upgrade", "eval", "freshen"},
        }.get(call.name, {"R", "U", "D", "r"})
        if call.name == "rpm" and "i" in flags and "q" not in flags:
            acts = acts | {"i"}
        if (
            flags & acts
            or not flags & (looks | {"version", "help"})
            or (call.name in {"pacman", "yay", "paru"} and "S" in flags and not flags & {"s", "i", "g"})
        ):
            call.find("package.system")
        return
    if action not in [
        "",
        *"list search show info policy depends rdepends showpkg madison pkgnames stats help "
        "config --version doctor outdated deps leaves home desc formulae casks repolist "
        "provides whatprovides history check-update repoquery changelog moo file find tree "
        "uses dump".split(),
    ]:
        call.find("package.system")
    if any("://" in word.text for word in found.operands):
        call.find("package.foreign")


def judge_gem(call: Call) -> Stream | None:
    """gem, bundle, composer, cpan and the like."""
    words = [word.text for word in call.options("v version source g gemfile path d working-dir").operands]
    action = words[0] if words else ""
    if call.options("v source").has("source clear-sources s"):
        call.find("package.foreign")
    if call.name in {"bundle", "bundler"} and action == "exec":
        rest = [word for word in call.args if word.text != "exec"]
        return call.run(rest)
    if action in {"push", "yank", "publish", "owner"}:
        call.find("package.publish")
    elif (
        call.name
        in "bundle bundler composer mix pod carthage dart flutter swift dotnet nuget stack "
        "cabal rebar3 lein conan vcpkg".split()
        and action
        in [
            "",
            *"install check list show outdated info validate dump-autoload audit update test "
            "build run format compile deps.get restore analyze doc clean licenses why platform "
            "env version --version fund depends search status package dialyzer credo pub ghci "
            "repl exec2 fmt lint hex.info help".split(),
        ]
    ):
        if (
            len(words) > 1
            and action == "install"
            and call.name in {"cabal", "stack", "vcpkg", "conan", "nuget"}
        ):
            call.find("package.install")
    elif action in [
        "",
        *"list search info environment env which contents dependency outdated specification "
        "help query stale check show".split(),
    ]:
        return None
    else:
        call.find("package.install")
    return None


_CONDA = by_words(
    "package.install",
    {
        "": "list,info,search,env list,env export,config "
        "--show,activate,deactivate,doctor,compare,package,notices"
    },
)


PROGRAMS: dict[str, Handler] = {
    "cargo": judge_cargo,
    "go": judge_go,
    **dict.fromkeys(
        "apt apt-get apt-cache aptitude dnf yum zypper apk brew snap flatpak port pkg emerge pacman yay "
        "paru dpkg dpkg-query rpm nix-env nix guix xbps-install xbps-query opkg tdnf microdnf choco "
        "winget scoop swupd eopkg".split(),
        judge_system_packages,
    ),
    **dict.fromkeys(
        "easy_install cpan cpanm pecl pear luarocks opam rustup nvm fnm pyenv rbenv asdf sdk volta ghcup "
        "mise conan vcpkg gem bundle bundler composer mix pod dart flutter dotnet nuget stack cabal "
        "rebar3 lein sdkmanager tlmgr helmfile swift carthage".split(),
        judge_gem,
    ),
    **dict.fromkeys("conda mamba micromamba".split(), _CONDA),
}
