"""Projects prepared from the real registries, through the gate. Not part of ``make test``."""

import json
import shutil
import socket
from pathlib import Path

import pytest

from shared.projects import Environment, prepare
from shared.sandbox import CommandResult, run_command
from tests.support.registries import write_files


async def prepare_in(folder: Path, host: str) -> Environment:
    """The environment of the only project in ``folder / "shop"``; skips the test if ``host`` is unknown."""
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        pytest.skip(f"{host} cannot be resolved here")

    async def note(text: str) -> None:
        pass

    shop = folder / "shop"
    places = {"source": shop, "cache": folder / "cache", "log": folder / "prepare.log"}
    (environment,) = await prepare(shop, note=note, timeout=100, **places)
    assert environment.preparation.problem == "", environment.preparation
    return environment


async def run(environment: Environment, folder: Path, *argv: str) -> CommandResult:
    return await run_command(
        argv,
        cwd=folder / "shop",
        timeout=60,
        writable=[folder / "shop", *environment.writable],
        readable=environment.readable,
        env=environment.env,
    )


async def test_python_package_with_an_extension(tmp_path: Path) -> None:
    manifest = """
[build-system]
requires = ["setuptools", "setuptools-scm"]
build-backend = "setuptools.build_meta"
[project]
name = "shop"
dynamic = ["version"]
[dependency-groups]
test = ["pytest"]
[tool.setuptools]
py-modules = []
ext-modules = [{name = "shop", sources = ["shop.c"]}]
[tool.setuptools_scm]
"""
    source = """
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "shop", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_shop(void) { return PyModule_Create(&module); }
"""
    test = "import shop\nfrom importlib.metadata import version\n"
    test += "def test_it():\n    assert version('shop') == '0.0.0'\n"
    write_files(tmp_path / "shop", {"pyproject.toml": manifest, "shop.c": source, "test_shop.py": test})
    for _ in range(2):
        environment = await prepare_in(tmp_path, "pypi.org")
        result = await run(environment, tmp_path, environment.python, "-m", "pytest", "-q")
        assert "1 passed" in result.output
    assert environment.preparation.cached


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
@pytest.mark.parametrize("manager", ["npm", "pnpm@9.15.9", "yarn@1.22.22", "yarn@4.9.4"])
async def test_node_managers(tmp_path: Path, manager: str) -> None:
    manifest = {"name": "shop", "dependencies": {"left-pad": "1.3.0"}}
    manifest |= {"packageManager": manager} if "@" in manager else {}
    files = {
        "package.json": json.dumps(manifest),
        ".yarnrc.yml": "nodeLinker: node-modules\n",
    }
    write_files(tmp_path / "shop", files)
    environment = await prepare_in(tmp_path, "registry.npmjs.org")
    result = await run(environment, tmp_path, "node", "-e", "console.log(require('left-pad')('x', 3))")
    assert result.output == "  x\n"
    assert environment.preparation.tool.startswith(manager.partition("@")[0])
