"""Projects are prepared in the jail, from registries that the person's settings name."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uv

from shared.projects import Environment, prepare
from shared.sandbox import CommandResult, run_command
from tests.support.http import HttpServer, Request
from tests.support.registries import NodeRegistry, PythonIndex, write_files
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]

BACKEND = r"""
import os, zipfile
from pathlib import Path


def _wheel(folder, requires, body):
    name = "shop-1.0-py3-none-any.whl"
    info = "shop-1.0.dist-info"
    files = {
        **body,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n"
        + "".join(f"Requires-Dist: {line}\n" for line in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(Path(folder, name), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, ["greeting>=1"], {"_shop.pth": os.path.abspath("src")})


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, ["greeting>=1"], {"shop.py": Path("src/shop.py").read_text()})
"""
"""A build backend in the project itself, so that no other has to be fetched."""
SHOP = {
    "pyproject.toml": """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "shop"
version = "1.0"
dependencies = ["greeting>=1"]
[dependency-groups]
tests = ["checker"]
""",
    "backend.py": BACKEND,
    "src/shop.py": "import greeting\nVALUE = greeting.WORD\n",
}
SHOW = "import checker, json, shop, sys; print(json.dumps([shop.VALUE, shop.__file__, sys.prefix, sys.path]))"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[PythonIndex]:
    with PythonIndex() as index:
        index.add("greeting", "1.0", {"greeting.py": "WORD = 'hello'\n"})
        index.add("checker", "1.0", {"checker.py": ""})
        for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX", "UV_FIND_LINKS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.index)
        monkeypatch.setenv("PIP_INDEX_URL", index.index)
        yield index


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeRegistry]:
    with NodeRegistry() as registry:
        monkeypatch.setenv("npm_config_registry", registry.url("/"))
        yield registry


def start(code: str) -> "subprocess.Popen[bytes]":
    """A process of Mailroom that runs ``code``."""
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)


def make_environment(person: "Person", index: PythonIndex, place: Path) -> None:
    """An environment as the person makes it, with the project installed in place."""
    env = {"UV_DEFAULT_INDEX": index.index, "PATH": os.environ["PATH"], "HOME": str(person.folder)}
    for words in (("venv", place), ("pip", "install", "--python", place, "-e", ".", "--group", "tests")):
        command = [uv.find_uv_bin(), *map(str, words)]
        subprocess.run(command, cwd=person.source, env=env, check=True, capture_output=True)


class Person:
    """A person's project, and copies of it that are prepared."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "project"
        self.folder = folder
        self.copies = 0
        self.notes: list[str] = []

    async def prepare(self, timeout: float = 60.0, limit: int = 1 << 30) -> tuple[Environment, ...]:
        self.copies += 1
        self.root = self.folder / f"copy{self.copies}" / "project"
        shutil.copytree(self.source, self.root, symlinks=True, ignore=shutil.ignore_patterns(".venv"))
        return await prepare(
            self.root,
            source=self.source,
            cache=self.folder / "environments",
            note=self._note,
            timeout=timeout,
            log=self.folder / "prepare.log",
            limit=limit,
        )

    async def run(self, environment: Environment, *words: str) -> CommandResult:
        argv = [environment.python if word == "python" else word for word in words]
        return await run_command(
            argv,
            cwd=self.root / environment.folder,
            timeout=30,
            writable=[self.root, *environment.writable],
            readable=environment.readable,
            env=environment.env,
        )

    async def _note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
async def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


async def test_python_project_is_installed_in_place(person: Person, index: PythonIndex) -> None:
    write_files(person.source, SHOP)
    (environment,) = await person.prepare()
    made = environment.preparation
    assert (made.problem, made.cached, made.ecosystem) == ("", False, "python"), made
    shown = await person.run(environment, "python", "-c", SHOW)
    value, file, prefix, path = json.loads(shown.output)
    assert value == "hello"
    assert file == str(person.root / "src/shop.py")
    assert prefix == environment.env["VIRTUAL_ENV"]
    assert not [entry for entry in path if entry.startswith(f"{sys.prefix}/")]
    assert any("pyproject.toml" in note for note in person.notes)


async def test_second_copy_is_prepared_from_the_cache(person: Person, index: PythonIndex) -> None:
    write_files(person.source, SHOP)
    await person.prepare()
    asked = len(index.asked)
    (person.source / "src/shop.py").write_text("import greeting\nVALUE = greeting.WORD * 2\n")
    started = time.monotonic()
    (environment,) = await person.prepare()
    assert time.monotonic() - started < 2
    assert environment.preparation.cached
    assert len(index.asked) == asked
    shown = await person.run(environment, "python", "-c", SHOW)
    value, file, *_ = json.loads(shown.output)
    assert value == "hellohello"
    assert file == str(person.root / "src/shop.py")


async def test_changed_manifest_makes_another_environment(person: Person, index: PythonIndex) -> None:
    write_files(person.source, SHOP)
    await person.prepare()
    index.add("more", "1.0", {"more.py": ""})
    changed = SHOP["pyproject.toml"].replace('["checker"]', '["checker", "more"]')
    (person.source / "pyproject.toml").write_text(changed)
    (environment,) = await person.prepare()
    assert not environment.preparation.cached
    assert (await person.run(environment, "python", "-c", "import more")).exit_code == 0


async def test_two_runs_at_once_share_one_build(person: Person, index: PythonIndex) -> None:
    write_files(person.source, SHOP)
    other = Person(person.folder)
    other.copies = 10
    both = await asyncio.gather(person.prepare(), other.prepare())
    assert sorted(environment.preparation.cached for (environment,) in both) == [False, True]
    for who, (environment,) in zip((person, other), both, strict=True):
        assert (await who.run(environment, "python", "-c", SHOW)).exit_code == 0


async def test_unfinished_environment_is_made_again(person: Person, index: PythonIndex) -> None:
    write_files(person.source, SHOP)
    await person.prepare()
    (mark,) = (person.folder / "environments").glob("*/*.json")
    mark.unlink()
    packages = next(mark.with_suffix("").glob("venv/lib/*/site-packages"))
    (packages / "greeting.py").unlink()
    (environment,) = await person.prepare()
    assert not environment.preparation.cached
    assert (await person.run(environment, "python", "-c", SHOW)).exit_code == 0


async def test_pytest_is_added_if_nothing_names_it(person: Person, index: PythonIndex) -> None:
    index.add("pytest", "9.9", {"pytest.py": ""})
    write_files(person.source, {**SHOP, "tests/test_shop.py": "import pytest\n"})
    (environment,) = await person.prepare()
    assert environment.preparation.notes == (
        "The tests need pytest, which no manifest names: installed as well",
    )
    assert (await person.run(environment, "python", "-c", "import pytest")).exit_code == 0


@pytest.mark.parametrize("table", ["[dependency-groups]", "[project.optional-dependencies]"])
async def test_tests_do_not_wait_for_what_development_alone_needs(
    person: Person, index: PythonIndex, table: str
) -> None:
    manifest = SHOP["pyproject.toml"].replace("[dependency-groups]\ntests", f"{table}\ndev")
    lines = manifest.replace('["checker"]', '["no-such-package", "checker"]')
    write_files(person.source, {**SHOP, "pyproject.toml": lines})
    (environment,) = await person.prepare()
    assert environment.preparation.problem == ""
    assert "Left out, since it could not be installed: no-such-package" in environment.preparation.notes
    assert (await person.run(environment, "python", "-c", SHOW)).exit_code == 0


async def test_missing_package_is_named(person: Person, index: PythonIndex) -> None:
    write_files(person.source, {"requirements.txt": "no-such-package==1\n"})
    (environment,) = await person.prepare()
    assert "no-such-package was not found in the package registry" in environment.preparation.problem
    log = Path(environment.preparation.log_path).read_text()
    assert "$ uv pip install" in log
    assert [step.exit_code for step in environment.preparation.steps] == [0, 1]


async def test_refused_host_is_named(person: Person, index: PythonIndex) -> None:
    line = "other @ http://files.example.org/other-1.0-py3-none-any.whl\n"
    write_files(person.source, {"requirements.txt": line})
    (environment,) = await person.prepare()
    assert environment.preparation.refused == ("files.example.org",)
    assert "files.example.org could not be reached" in environment.preparation.problem


async def test_build_does_not_see_other_projects(person: Person, index: PythonIndex) -> None:
    secret = person.folder / "environments" / "other" / "downloads"
    secret.mkdir(parents=True)
    (secret / "wheel").write_text("clean")
    spoil = f"import pathlib; pathlib.Path({str(secret / 'wheel')!r}).write_text('spoilt')\n"
    write_files(person.source, {**SHOP, "backend.py": spoil + BACKEND})
    (environment,) = await person.prepare()
    assert environment.preparation.problem
    assert (secret / "wheel").read_text() == "clean"


async def test_unfitting_python_is_named_with_those_that_are_here(person: Person, index: PythonIndex) -> None:
    manifest = SHOP["pyproject.toml"].replace(
        'version = "1.0"', 'version = "1.0"\nrequires-python = ">=3.99"'
    )
    write_files(person.source, {**SHOP, "pyproject.toml": manifest})
    (environment,) = await person.prepare()
    assert environment.preparation.problem.startswith(
        "The project needs Python >=3.99, and of CPython there is"
    )
    assert "3.99" in environment.preparation.cure


async def test_link_in_an_environment_is_not_followed(person: Person, index: PythonIndex) -> None:
    hidden = person.folder / "hidden"
    hidden.write_text(f"the secret of {person.folder}/copy1/project\n")
    write_files(person.source, SHOP)
    await person.prepare()
    packages = next((person.folder / "environments").glob("*/*/venv/lib/*/site-packages"))
    (packages / "x.pth").symlink_to(hidden)
    (environment,) = await person.prepare()
    view = Path(environment.env["VIRTUAL_ENV"])
    (link,) = view.glob("lib/*/site-packages/x.pth")
    assert link.is_symlink()
    assert (await person.run(environment, "cat", str(link))).exit_code != 0


async def test_killed_preparation_leaves_nothing_half(person: Person, index: PythonIndex) -> None:
    slow = "    Path('started').touch()\n    __import__('time').sleep(60)\n"
    backend = f"from pathlib import Path\nif Path('slow').exists():\n{slow}{BACKEND}"
    write_files(person.source, {**SHOP, "backend.py": backend})
    shutil.copytree(person.source, person.folder / "killed/project")
    (person.folder / "killed/project/slow").touch()
    code = f"""
import asyncio
from pathlib import Path
from shared.projects import prepare
async def note(text): pass
folder = Path({str(person.folder)!r})
asyncio.run(prepare(folder / "killed/project", source=folder / "project", cache=folder / "environments",
    note=note, timeout=60, log=folder / "killed.log"))
"""
    process = start(code)
    try:
        await eventually((person.folder / "killed/project/started").exists, 30)
    finally:
        process.kill()
        process.wait()
    assert not list((person.folder / "environments").glob("*/*.json"))
    (environment,) = await person.prepare()
    assert (environment.preparation.problem, environment.preparation.cached) == ("", False)
    assert (await person.run(environment, "python", "-c", SHOW)).exit_code == 0


async def test_environment_of_the_person_is_used_if_it_fits(person: Person, index: PythonIndex) -> None:
    write_files(person.source, SHOP)
    own = person.source / ".venv"
    make_environment(person, index, own)
    asked = len(index.asked)
    (environment,) = await person.prepare()
    assert len(index.asked) == asked
    assert str(own) in environment.preparation.interpreter
    shown = await person.run(environment, "python", "-c", SHOW)
    assert json.loads(shown.output)[1] == str(person.root / "src/shop.py")

    changed = (
        SHOP["pyproject.toml"].replace("greeting>=1", "greeting>=1,<2").replace('"checker"', '"checker>=2"')
    )
    (person.source / "pyproject.toml").write_text(changed)
    index.add("checker", "2.0", {"checker.py": ""})
    (environment,) = await person.prepare()
    assert environment.preparation.notes == ("The environment .venv is not used: it lacks checker>=2",)
    assert (await person.run(environment, "python", "-c", SHOW)).exit_code == 0


@pytest.mark.skipif(not shutil.which("cargo"), reason="cargo is not installed")
async def test_crate_without_dependencies_needs_no_network(person: Person) -> None:
    manifest = '[package]\nname = "shop"\nversion = "1.0.0"\nedition = "2021"\n'
    source = "#[test]\nfn adds() { assert_eq!(1 + 1, 2); }\n"
    write_files(person.source, {"Cargo.toml": manifest, "src/lib.rs": source})
    (environment,) = await person.prepare()
    assert (environment.preparation.problem, environment.preparation.steps) == ("", ())
    assert "1 passed" in (await person.run(environment, "cargo", "test")).output


@pytest.mark.skipif(not shutil.which("cargo"), reason="cargo is not installed")
async def test_crates_come_from_the_mirror_in_the_person_s_settings(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    crate = '[package]\nname = "greeting"\nversion = "1.0.0"\nedition = "2021"\n'
    files = {"Cargo.toml": crate, "src/lib.rs": "pub fn two() -> u8 { 2 }\n"}
    vendored = {**files, ".cargo-checksum.json": '{"files":{}}'}
    write_files(person.folder / "vendor/greeting", vendored)
    settings = (
        '[source.crates-io]\nreplace-with = "own"\n[source.own]\ndirectory = "vendor"\n'
        '[registry]\ntoken = "topsecret"\n[registries.own]\ntoken = "topsecret"\n'
    )
    write_files(person.folder / "cargo", {"config.toml": settings})
    monkeypatch.setenv("CARGO_HOME", str(person.folder / "cargo"))
    manifest = (
        '[package]\nname = "shop"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\ngreeting = "1"\n'
    )
    source = "#[test]\nfn adds() { assert_eq!(greeting::two(), 2); }\n"
    write_files(person.source, {"Cargo.toml": manifest, "src/lib.rs": source})
    for is_cached in (False, True):
        (environment,) = await person.prepare()
        assert environment.preparation.problem == ""
        assert environment.preparation.cached is is_cached
        assert environment.preparation.refused == ()
        result = await person.run(environment, "cargo", "test", "--offline")
        assert "1 passed" in result.output, result.output
    written = Path(environment.env["CARGO_HOME"], "config.toml").read_text()
    assert "replace-with" in written
    assert "topsecret" not in written


@pytest.mark.skipif(not shutil.which("mvn"), reason="Maven is not installed")
async def test_maven_asks_the_mirror_in_the_person_s_settings(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(request: Request) -> None:
        asked.append(request.path)
        request.respond(404, {}, b"")

    with HttpServer(answer) as server:
        settings = (
            '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror><id>own</id>'
            f"<mirrorOf>*</mirrorOf><url>http://me:topsecret@127.0.0.1:{server.port}/all</url></mirror></mirrors>"
            "<servers><server><id>own</id><password>topsecret</password></server></servers></settings>"
        )
        write_files(person.folder / "home/.m2", {"settings.xml": settings})
        monkeypatch.setenv("HOME", str(person.folder / "home"))
        manifest = (
            "<project><modelVersion>4.0.0</modelVersion><groupId>shop</groupId><artifactId>shop</artifactId>"
            "<version>1</version><dependencies><dependency><groupId>own</groupId><artifactId>greeting</artifactId>"
            "<version>1</version></dependency></dependencies></project>"
        )
        write_files(person.source, {"pom.xml": manifest})
        (environment,) = await person.prepare()
    assert environment.preparation.problem
    assert any(path.startswith("/all/") for path in asked), environment.preparation
    assert "topsecret" not in "".join(
        path.read_text() for path in person.folder.rglob("environments/**/settings.xml")
    )


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
async def test_node_packages_are_installed_and_kept(person: Person, registry: NodeRegistry) -> None:
    registry.add("greeting", "1.2.3", {"index.js": "module.exports = 'hello'\n"}, main="index.js")
    manifest = {"name": "shop", "version": "1.0.0", "devDependencies": {"greeting": "^1.0.0"}, "scripts": {}}
    write_files(person.source, {"package.json": json.dumps(manifest)})
    (environment,) = await person.prepare()
    assert environment.preparation.problem == ""
    assert environment.preparation.interpreter.startswith("Node ")
    code = "console.log(require('greeting'))"
    assert (await person.run(environment, "node", "-e", code)).output == "hello\n"
    asked = len(registry.asked)
    (environment,) = await person.prepare()
    assert environment.preparation.cached
    assert len(registry.asked) == asked
    assert (await person.run(environment, "node", "-e", code)).output == "hello\n"


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
async def test_changed_kept_module_is_installed_again(person: Person, registry: NodeRegistry) -> None:
    registry.add("greeting", "1.2.3", {"index.js": "module.exports = 'hello'\n"}, main="index.js")
    manifest = {"name": "shop", "version": "1.0.0", "dependencies": {"greeting": "^1.0.0"}}
    write_files(person.source, {"package.json": json.dumps(manifest)})
    (environment,) = await person.prepare()
    await person.run(environment, "sh", "-c", "echo 'module.exports = 1' > node_modules/greeting/index.js")
    (environment,) = await person.prepare()
    assert not environment.preparation.cached
    shown = await person.run(environment, "node", "-e", "console.log(require('greeting'))")
    assert shown.output == "hello\n"


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
async def test_install_script_runs_in_the_jail_alone(person: Person, registry: NodeRegistry) -> None:
    canary = person.folder / "canary"
    script = f"echo caught > {canary}; echo $HOME > home"
    registry.add(
        "greeting", "1.2.3", {"index.js": ""}, scripts={"postinstall": script}, hasInstallScript=True
    )
    manifest = {"name": "shop", "version": "1.0.0", "dependencies": {"greeting": "^1.0.0"}}
    write_files(person.source, {"package.json": json.dumps(manifest)})
    await person.prepare()
    assert not canary.exists()


async def test_missing_tool_chain_is_named(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(person.source, {"go.mod": "module example.org/shop\n\ngo 1.22\n"})
    monkeypatch.setenv("PATH", "/nowhere")
    (environment,) = await person.prepare()
    assert environment.preparation.problem == "go is not installed, which the project (Go) needs"
    assert "apt install golang-go" in environment.preparation.cure
