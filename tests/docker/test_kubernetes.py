"""The chart of deploy/helm, rendered and run: its pods by `podman kube play`, in which a goal ends."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.containers import ROOT, missing
from tests.support.server import run_mailroom
from tests.support.waiting import wait_for
from tests.unit.test_helm import pods, render

pytestmark = pytest.mark.timeout(1800)
PATIENCE = 300.0
IMAGES = "localhost/mailroom-test"
# Podman 4 has no unmasked /proc, and maps no volumes for `hostUsers: false`: test_compose.py tries the jail.
VALUES: dict[str, Any] = {
    "image": {"registry": IMAGES, "tag": "now"},
    "agents": {"critic": {"image": "agents"}},
    "nats": {"image": "docker.io/library/nats:2.15-alpine"},
    "jail": {"enabled": False},
}


def podman(*arguments: str, check: bool = True, text: str | None = None) -> str:
    done = subprocess.run(
        ["podman", *arguments], capture_output=True, text=True, input=text, timeout=PATIENCE
    )
    assert not (check and done.returncode), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """The names of the pods of an office, which run."""
    try:
        podman("run", "--rm", "--network=none", "docker.io/library/nats:2.15-alpine", "--version")
    except (OSError, AssertionError) as error:
        pytest.skip(f"podman runs no container here: {error}")
    if reason := missing():
        pytest.skip(reason)
    objects = render(VALUES)
    take_images()
    secrets = make_keys(tmp_path_factory.mktemp("office"))
    played = [*as_podman_takes_it(objects, secrets)]
    try:
        podman("kube", "play", "-", text=yaml.safe_dump_all(played))
        yield {name for name, _ in pods(objects)}
    finally:
        podman("kube", "down", "-", text=yaml.safe_dump_all(played), check=False)
        made = podman("volume", "ls", "--quiet").split()
        podman("volume", "rm", "--force", *(name for name in made if name.startswith("office-")), check=False)


def take_images() -> None:
    """Build the images with Docker, and hand them to Podman under the names of a registry."""
    own = {**os.environ, "MAILROOM_IMAGE": "mailroom-test"}
    command = ["docker", "compose", "build", "--quiet", "keys", "memory"]
    subprocess.run(command, cwd=ROOT, env=own, check=True, capture_output=True)
    for name, image in (("agents", "mailroom-test-agents"), ("mailroom", "mailroom-test")):
        subprocess.run(["docker", "tag", image, f"{IMAGES}/{name}:now"], check=True)
        podman("pull", "--quiet", f"docker-daemon:{IMAGES}/{name}:now")


def make_keys(folder: Path) -> dict[str, Path]:
    """What docs/operate.md has people make secrets of: the folder of each, by its name."""
    config, deal = folder / "nats", folder / "deal"
    arguments = ("--only", "keys", "--state-dir", folder, "--config-dir", config, "--store", "/nats/store")
    own = {**os.environ, "MAILROOM_NATS_MAX_STORE": "1000000000"}
    done = run_mailroom(own, "provision", *map(str, arguments), "--deal", str(deal))
    assert done.returncode == 0, done.stderr
    made = {"mailroom-nats": config, **{f"mailroom-key-{each.name}": each for each in deal.iterdir()}}
    for each in made.values():
        each.chmod(0o755)
        for path in each.iterdir():
            path.chmod(0o444)  # the user of the pods is none of this machine's
    return made


def as_podman_takes_it(objects: list[dict[str, Any]], secrets: dict[str, Path]) -> Iterator[dict[str, Any]]:
    """Each pod by itself, named as the service by which others find it, with what Podman 4 has not.

    It has no parts of a volume (`subPath`): each is a claim. A folder that is empty at first is one for all
    pods that name it alike. Secrets it hands over undecoded: they are folders of this machine.
    """
    claims = set()
    played = []
    for name, pod in pods(objects):
        volumes = {each.pop("name"): each for each in pod["volumes"]}
        mounted = []
        for number, mount in enumerate(pod["containers"][0]["volumeMounts"]):
            own = {"persistentVolumeClaim": {"claimName": f"office-{name}-own"}}
            volume = volumes.get(mount["name"], own)
            if "secret" in volume:
                volume = {"hostPath": {"path": str(secrets[volume["secret"]["secretName"]])}}
            if "persistentVolumeClaim" in volume:
                part = mount.pop("subPath", "").replace("/", "-")
                claim = f"{volume['persistentVolumeClaim']['claimName']}-{part}".rstrip("-")
                claims.add(claim)
                volume = {"persistentVolumeClaim": {"claimName": claim}}
            mount["name"] = f"office-{name}-{number}"
            mounted.append({"name": mount["name"], **volume})
        metadata = {"name": f"office-{name}"}
        spec = {**pod, "volumes": mounted}
        played.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    for claim in sorted(claims):
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    yield from played


def mailroom(*arguments: str, check: bool = True) -> str:
    return podman("exec", "office-gateway-gateway", "mailroom", *arguments, check=check)


def test_a_goal_ends_in_pods_that_get_their_messages(cluster: set[str]) -> None:
    agents = cluster - {"eraser", "nats", "provision"}

    def ready() -> set[str]:
        """The agents that pass the probe by which Kubernetes calls their pod ready."""
        found = set()
        for name in agents:
            container = f"office-{name}-{'agent' if name not in ('gateway', 'memory') else name}"
            probe = "find /state/run -name '*.pulling' -newermt '-12 seconds' | grep -q . && echo ready"
            if podman("exec", container, "sh", "-c", probe, check=False).strip() == "ready":
                found.add(name)
        return found

    wait_for(lambda: ready() == agents, PATIENCE)
    about = ("assignee=engineer", "action=write_file", "path=note.txt", "content=hello")
    named = [word for pair in about for word in ("--context", pair)]
    ended = json.loads(mailroom("submit", "--wait", "--json", *named, "Write a note"))
    assert ended["status"] == "completed", ended


def test_commands_are_refused_with_the_reason_where_the_cluster_has_no_jail(cluster: set[str]) -> None:
    about = ("assignee=engineer", "action=run_shell", "command=ls")
    named = [word for pair in about for word in ("--context", pair)]
    ended = json.loads(mailroom("submit", "--wait", "--json", *named, "List it", check=False))
    assert "the jail does not work here" in json.dumps(ended)
