"""The office of compose.yaml in containers, under a name of its own."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from testcontainers.compose import DockerCompose

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0


def missing() -> str:
    """Why there can be no containers here; empty where there can."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    for command, what in (
        (["docker", "info"], "no engine answers"),
        (["docker", "compose", "version"], "no compose"),
    ):
        if subprocess.run(command, capture_output=True).returncode:
            return f"{what}: `{' '.join(command)}` fails"
    return ""


class Containers:
    """The stack under a name of its own, so that no other office is touched."""

    def __init__(self, compose: DockerCompose, url: str, gateway: str, key: Path) -> None:
        self.compose = compose
        self.url = url
        self.gateway = gateway
        self.key = key

    def run(self, *arguments: str) -> str:
        """What a `docker compose` command prints; fails the test with its errors where it fails."""
        command = [*self.compose.docker_compose_command(), *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout

    def mailroom(self, *arguments: str) -> str:
        return self.run("run", "--rm", "--no-TTY", "cli", *arguments)

    def close(self) -> None:
        """End it all, commands that still run in containers too; what is in the volumes stays."""
        self.run("--profile", "cli", "down", "--remove-orphans")

    def inside(self, service: str, script: str) -> str:
        return self.run("exec", "--no-TTY", service, "sh", "-c", script).strip()


def inspect(kind: str, name: str) -> dict[str, Any]:
    done = subprocess.run(["docker", kind, "inspect", name], capture_output=True, text=True, check=True)
    inspected: list[dict[str, Any]] = json.loads(done.stdout)
    return inspected[0]


def make_repository(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# Tiny\n\nTiny adds numbers.\n")
    (folder / "tiny.py").write_text("import os\n\n\ndef add(a, b):\n    return a + b\n")
    (folder / "test_tiny.py").write_text(
        "from tiny import add\n\n\ndef test_add():\n    assert add(1, 2) == 4\n"
    )
    git = ["git", "-C", str(folder), "-c", "user.name=Tiny", "-c", "user.email=tiny@example.org"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Add tiny"]):
        subprocess.run([*git, *arguments], check=True)
    # The containers' user is none of this machine's.
    for path in (folder.parents[1], folder.parent, folder):
        path.chmod(0o755)
