"""Package managers: what the workspace names may be installed, anything else is asked after."""

import re

from shared.policy.call import Call, Handler
from shared.policy.checks import judge_tasks
from shared.policy.options import parse_options
from shared.policy.paths import Place
from shared.policy.programs.rows import by_words
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
_PIP = (
    "r requirement c constraint e editable i index-url extra-index-url f find-links t target d dest prefix "
    "root src python platform log cache-dir no-binary only-binary proxy trusted-host cert client-cert "
    "upgrade-strategy w wheel-dir config-settings report format path timeout retries build-option "
    "global-option exists-action abi implementation python-version"
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


def judge_pip(call: Call) -> None:
    """pip and its like: requirements of the workspace and the workspace itself may be installed."""
    found = call.options(_PIP)
    words = list(found.operands)
    if call.name == "uv" and words and words[0].text == "pip":
        words = words[1:]
    action = words[0].text if words else ""
    if action not in {"show", "list", "freeze", "check"} and found.has(
        "i index-url extra-index-url f find-links trusted-host proxy global-option build-option"
    ):
        call.find("package.foreign")
    call.apply(found, "create t target prefix root d dest w wheel-dir log report src")
    if action in {"install", "download", "wheel", "add"}:
        _judge_installed(
            call,
            words[1:],
            [*found.of("r requirement c constraint e editable")],
            found.has("r requirement e editable"),
        )
        if found.has("user break-system-packages"):
            call.find("package.install")
    elif action == "uninstall":
        call.find("package.install")
    elif action == "config" and len(words) > 1 and words[1].text in {"set", "edit", "unset"}:
        call.find("git.config")
    elif action == "cache" and len(words) > 1 and words[1].text in {"purge", "remove"}:
        call.find("package.install")
    elif action not in [
        "",
        *"list show freeze check help search index inspect debug hash config cache completion "
        "compile tree sync wheel lock venv version --version".split(),
    ]:
        call.find("unknown.use")


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
            if FOREIGN.search(word.text) and not word.text.startswith("@"):
                call.find("package.foreign")
            else:
                call.find("package.install")
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


def _judge_tool(call: Call, words: list[Word]) -> None:
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


def judge_runner(call: Call) -> Stream | None:
    """npx, uvx, pipx run: tools of everyday are known, others may be anybody's."""
    found = parse_options(call.args, "p package c call from with python index-url spec", permute=False)
    call.apply(found, "script c call")
    for word in [*found.of("from with spec p package")]:
        call.find("package.foreign" if FOREIGN.search(word.text) else "package.install")
    words = found.operands
    if call.name == "pipx" and words:
        if words[0].text in {"list", "environment", "completions"}:
            return None
        if words[0].text != "run":
            call.find("package.install")
            for word in words[1:]:
                if FOREIGN.search(word.text):
                    call.find("package.foreign")
            return None
        words = words[1:]
    if (
        call.name in {"npx", "bunx"}
        and found.has("y yes")
        and words
        and words[0].text.partition("@")[0] not in _TOOLS
    ):
        call.find("package.install")
    _judge_tool(call, words)
    return None


def judge_uv(call: Call) -> Stream | None:
    """uv, poetry, pdm, pipenv, hatch, rye: run runs a program, add installs one."""
    found = parse_options(
        call.args,
        "project directory C with p python extra group only-group config-file index index-url "
        "default-index env-file",
        permute=False,
    )
    words = found.operands
    action = words[0].text if words else ""
    if found.has("index index-url default-index"):
        call.find("package.foreign")
    if action == "run":
        inner = parse_options(
            words[1:],
            "with p python extra group only-group m module env-file project directory "
            "with-requirements index",
            permute=False,
        )
        for word in inner.of("with"):
            call.find("package.foreign" if FOREIGN.search(word.text) else "package.install")
        if inner.has("index"):
            call.find("package.foreign")
        if inner.of("m module"):
            return call.run([Word("python3"), Word("-m"), *inner.of("m module"), *inner.operands])
        if inner.operands and inner.operands[0].text.endswith(".py"):
            return call.run([Word("python3"), *inner.operands])
        return call.run(inner.operands) if inner.operands else None
    if action == "pip":
        call.args = call.args[list(call.args).index(words[0]) + 1 :]
        judge_pip(call)
        return None
    if action in {"tool", "x"} and words[1:] and words[1].text == "run":
        _judge_tool(call, words[2:])
        return None
    if (
        action
        in "add tool self publish remove uninstall config source cache python plugin shell upload".split()
    ):
        call.find("package.publish" if action in {"publish", "upload"} else "package.install")
        for word in words[1:]:
            if FOREIGN.search(word.text):
                call.find("package.foreign")
    elif action not in [
        "",
        *"sync lock install build check show tree export version venv init list graph verify "
        "env search outdated fmt format lint test help about --version info update dep clean "
        "status new debug requirements".split(),
    ]:
        call.find("unknown.use")
    return None


PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys("pip pip2 pip3".split(), judge_pip),
    **dict.fromkeys("npm yarn pnpm cnpm tnpm bower".split(), judge_npm),
    **dict.fromkeys("npx bunx uvx pipx pnpx dlx".split(), judge_runner),
    **dict.fromkeys("uv poetry pdm pipenv hatch rye pixi flit".split(), judge_uv),
}
