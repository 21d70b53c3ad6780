"""Package managers: what the workspace names may be installed, anything else is asked after."""

import re
from collections.abc import Sequence

from shared.policy.call import Call, Handler
from shared.policy.checks import judge_tasks
from shared.policy.options import Options, parse_options
from shared.policy.paths import Place
from shared.policy.programs.rows import Step, by_words, first, row
from shared.policy.scope import Stream
from shared.policy.words import Word

FOREIGN = re.compile(
    r"(git\+|hg\+|svn\+|bzr\+)?[a-z+]+://|^git@|^(github|gitlab|bitbucket|gist):"
    r"|^[\w.-]+/[\w.-]+(#\S+)?$|@ (https?|git|file):|\.(tgz|tar\.gz|whl|zip|deb|rpm)$",
    re.IGNORECASE,
)
LOCAL = re.compile(
    r"^(\.{1,2}(/[\w./-]*)?(\[[\w,-]*\])?|(\./)?[\w.-]+/([\w./*-]*)|[\w./-]*\.whl|\.\[[\w,-]+\])$"
)
_NPM_FINE = (
    "ci,test,t,tst,run,run-script,start,stop,restart,ls,list,ll,la,outdated,audit,view,info,show,"
    "search,find,why,explain,explore,doctor,fund,docs,pack,root,prefix,bin,help,help-search,version,"
    "v,ping,repo,bugs,query,prune,dedupe,ddp,rebuild,sbom,completion,lint,build,dev,format,check,"
    "node,typecheck,coverage,clean,bundle,compile,workspaces,workspace,licenses,pkg get,dist-tag ls,"
    "owner ls,access list,team ls,org ls,config get,config list,get,run lint,run test,cache ls,"
    "cache verify"
)
_NPM_LOOKS = {"root", "prefix", "bin", "ls", "list", "ll", "la", "outdated", "view", "config", "get"}
_NPM_RULES = {
    "": _NPM_FINE,
    "package.publish": (
        "publish,unpublish,deprecate,dist-tag,owner,access,team,star,unstar,org,hook,stage,trust"
    ),
    "secret.store": "token,profile,whoami,login,adduser,logout",
    "package.install": "init,create,link,unlink,uninstall,remove,rm,un,update,upgrade,up,set-script,audit "
    "fix,cache "
    "clean,store prune,import,patch,global,policies,set",
    "git.config": "config,set config",
}
_TOOLS = frozenset(
    "tsc eslint prettier jest vitest mocha nyc c8 webpack vite rollup esbuild parcel next nuxt astro "
    "svelte-check svelte-kit ts-node tsx nodemon stylelint playwright cypress tailwindcss postcss babel swc "
    "typedoc jsdoc depcheck npm-check knip madge husky lint-staged commitlint markdownlint cspell turbo nx "
    "lerna rimraf2 concurrently cross-env http-server2 serve2 storybook prisma drizzle-kit knex sequelize "
    "mkdirp ng vue-tsc biome oxlint standard xo ava tap karma gulp grunt ruff black mypy flake8 isort pylint "
    "pytest pyright bandit pre-commit tox nox coverage sphinx-build mkdocs twine build hatch uvicorn "
    "gunicorn flask django-admin celery alembic ipython jupyter safety pip-audit vulture interrogate "
    "pydocstyle yamllint codespell rspec rubocop rake rails jekyll bundle2 phpunit phpstan".split()
)


def _judge_installed(call: Call, packages: list[Word], files: list[Word], named: bool) -> None:
    for word in files:
        if FOREIGN.search(word.text) and not LOCAL.match(word.text):
            call.find("package.foreign")
        elif call.place(word) not in {Place.WORKSPACE, Place.UNKNOWN}:
            call.find("package.install")
        elif (
            call.path(word) in call.scope.files
            and call.scope.files[call.path(word) or ""].source == "network"
        ):
            call.find("run.download")
    for word in packages:
        if LOCAL.match(word.text) and call.place(word) is Place.WORKSPACE:
            if any(call.path(word) == folder for folder in call.scope.fetched):
                call.find("run.download")
        elif FOREIGN.search(word.text):
            call.find("package.foreign")
        elif word.text not in {"pip", "setuptools", "wheel", "-U"}:
            call.find("package.install")
    if not packages and not named and not files:
        call.find("unknown.use")


def _judge_pip_install(call: Call, found: Options) -> None:
    if found.operands and found.operands[0].text in {"install", "download", "wheel", "add"}:
        files = found.of("r requirement c constraint e editable")
        _judge_installed(call, found.operands[1:], files, found.has("r requirement e editable"))
        if found.has("user break-system-packages"):
            call.find("package.install")


PIP = row(
    "r requirement c constraint e editable i index-url extra-index-url f find-links t target d dest prefix "
    "root src python platform log cache-dir no-binary only-binary proxy trusted-host cert client-cert "
    "upgrade-strategy w wheel-dir config-settings report format path timeout retries build-option "
    "global-option exists-action abi implementation python-version",
    Step(
        "package.foreign",
        has="i index-url extra-index-url f find-links trusted-host proxy global-option build-option",
        words="(?!(show|list|freeze|check) ).*",
    ),
    Step(does="create t target prefix root d dest w wheel-dir log report src"),
    _judge_pip_install,
    first(
        Step("package.install", words="uninstall|cache (purge|remove)"),
        Step("git.config", words="config (set|edit|unset)"),
        Step(
            words="|install|download|wheel|add|list|show|freeze|check|help|search|index|inspect|debug|hash|config"
            "|cache|completion|compile|tree|sync|lock|venv|version|--version"
        ),
        Step("unknown.use"),
    ),
)
"""pip and its like: requirements of the workspace and the workspace itself may be installed."""


def judge_npm(call: Call) -> Stream | None:
    """npm, yarn, pnpm: what the lock file names may be installed; scripts of the workspace may run."""
    found = call.options(
        "w workspace prefix C cwd filter F registry tag otp dir loglevel omit include userconfig script-shell"
    )
    words = found.operands
    action = words[0].text if words else "install"
    if found.has("registry userconfig script-shell node-options"):
        call.find("package.foreign")
    if found.has("g global location") and action not in _NPM_LOOKS:
        call.find("package.system")
    for word in found.of("prefix C cwd dir"):
        if call.place(word) is not Place.WORKSPACE:
            call.find("package.install")
    if action in {"exec", "x", "dlx"}:
        _judge_tool(call, words[1:])
        return None
    if action in {"install", "i", "add", "isntall", "in"}:
        for word in words[1:]:
            foreign = FOREIGN.search(word.text) and not word.text.startswith("@")
            call.find("package.foreign" if foreign else "package.install")
        return None
    if action in {"config", "get", "c"} and any(
        re.search(r"_auth|_password|token", word.text, re.IGNORECASE) for word in words[1:]
    ):
        call.find("secret.store")
    if call.path(Word("package.json")) in call.scope.files:
        call.find("run.written", "package.json")
    if action in {"run", "run-script"}:
        judge_tasks(call, words[1:2])
    return _NPM(call)


_NPM = by_words("unknown.use", _NPM_RULES, "w workspace prefix C cwd filter")


def _judge_tool(call: Call, words: Sequence[Word]) -> None:
    if not words:
        return
    name = words[0].text
    if FOREIGN.search(name) and not re.match(r"@[\w.-]+/[\w.-]+$", name):
        call.find("package.foreign")
    elif name.partition("@")[0] not in _TOOLS or "@" in name[1:]:
        call.find("package.install")
    judge_tasks(call, words[1:])
    for word in words[1:]:
        call.read(word)


def _judge_sources(call: Call, words: Sequence[Word], otherwise: str = "") -> None:
    """Packages by where they come from; ``otherwise`` is the rule if that is a registry."""
    for word in words:
        if rule := "package.foreign" if FOREIGN.search(word.text) else otherwise:
            call.find(rule)


def judge_runner(call: Call) -> None:
    """npx, uvx, pipx run: tools of everyday are known, others may be anybody's."""
    found = parse_options(call.args, "p package c call from with python index-url spec", permute=False)
    call.apply(found, "script c call")
    _judge_sources(call, found.of("from with spec p package"), "package.install")
    words = found.operands
    if call.name == "pipx" and words:
        action, words = words[0].text, words[1:]
        if action != "run":
            if action not in {"list", "environment", "completions"}:
                call.find("package.install")
                _judge_sources(call, words)
            return
    unasked = call.name in {"npx", "bunx"} and found.has("y yes") and words
    if unasked and words[0].text.partition("@")[0] not in _TOOLS:
        call.find("package.install")
    _judge_tool(call, words)


def judge_uv(call: Call) -> Stream | None:
    """uv, poetry, pdm, pipenv, hatch, rye: run runs a program, add installs one."""
    found = parse_options(call.args, _UV, permute=False)
    action, words = (found.operands[0].text, found.operands[1:]) if found.operands else ("", [])
    if found.has("index index-url default-index"):
        call.find("package.foreign")
    if action == "run":
        return _judge_uv_run(call, words)
    if action == "pip":
        call.args = call.args[list(call.args).index(found.operands[0]) + 1 :]
        PIP(call)
    elif action in {"tool", "x"} and words and words[0].text == "run":
        _judge_tool(call, words[1:])
    elif action in _UV_INSTALLS:
        call.find("package.publish" if action in {"publish", "upload"} else "package.install")
        _judge_sources(call, words)
    elif action and action not in _UV_FINE:
        call.find("unknown.use")
    return None


def _judge_uv_run(call: Call, words: Sequence[Word]) -> Stream | None:
    found = parse_options(words, _UV_RUN, permute=False)
    _judge_sources(call, found.of("with"), "package.install")
    if found.has("index"):
        call.find("package.foreign")
    if modules := found.of("m module"):
        return call.run([Word("python3"), Word("-m"), *modules, *found.operands])
    if found.operands and found.operands[0].text.endswith(".py"):
        return call.run([Word("python3"), *found.operands])
    return call.run(found.operands) if found.operands else None


_UV = (
    "project directory C with p python extra group only-group config-file index index-url default-index "
    "env-file"
)
_UV_RUN = "with p python extra group only-group m module env-file project directory with-requirements index"
_UV_INSTALLS = frozenset(
    "add tool self publish remove uninstall config source cache python plugin shell upload".split()
)
_UV_FINE = frozenset(
    "sync lock install build check show tree export version venv init list graph verify env search outdated "
    "fmt format lint test help about --version info update dep clean status new debug requirements".split()
)
PROGRAMS: dict[str, Handler] = {
    "pip pip2 pip3": PIP,
    "npm yarn pnpm cnpm tnpm bower": judge_npm,
    "npx bunx uvx pipx pnpx dlx": judge_runner,
    "uv poetry pdm pipenv hatch rye pixi flit": judge_uv,
}
