"""The profile `cluster` of compose.yaml: three servers, one of which is killed; then new certificates."""

import json
from collections.abc import Iterator

import pytest

from services.cli.supervisor.cluster import NAMES
from tests.docker.conftest import open_office
from tests.support.containers import PATIENCE, Containers
from tests.support.waiting import wait_for

pytestmark = pytest.mark.timeout(1800)
SERVICES = (*NAMES, "watch", "memory", "conductor", "engineer", "critic", "scout", "gateway")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    folder = tmp_path_factory.mktemp("cluster")
    with open_office(folder, *SERVICES, MAILROOM_NATS_REPLICAS="3", COMPOSE_PROFILES="cluster") as running:
        yield running


def test_goals_end_though_the_leader_is_killed_and_certificates_change(cluster: Containers) -> None:
    assert check_up(cluster) == "completed"
    leader, following = servers(cluster)
    assert {leader, *following} == set(NAMES)
    cluster.run("kill", leader)
    assert check_up(cluster) == "completed"
    assert servers(cluster)[0] != leader
    cluster.run("start", leader)
    wait_for(lambda: len(servers(cluster)[1]) == 2, PATIENCE)

    # As docs/cluster.md has it; then each server comes back among those with new certificates.
    before = certificates(cluster)
    rotate = ("mailroom", "cluster", "rotate", "--config-dir", "/nats/config")
    cluster.run("run", "--rm", "--no-TTY", "keys", *rotate)
    cluster.run("kill", "--signal", "HUP", *NAMES)
    assert not set(before) & set(certificates(cluster))
    for name in NAMES:
        cluster.run("restart", name)
        wait_for(lambda: len(servers(cluster)[1]) == 2, PATIENCE)
    assert check_up(cluster) == "completed"
    verify = ("--entrypoint", "mailroom", "backup", "audit", "verify", "--replica", "all")
    told = cluster.run("run", "--rm", "--no-TTY", *verify)
    assert told.count("whole") == 2 * len(NAMES), told


def check_up(cluster: Containers) -> str:
    told = cluster.mailroom("submit", "--wait", "--json", "Check up on the repository at /repos/tiny")
    return str(json.loads(told)["status"])


def servers(cluster: Containers) -> tuple[str, list[str]]:
    """Which server leads OFFICE, and which others follow."""
    replicas = json.loads(cluster.mailroom("status", "--json"))["servers"]
    leads = [each["server"] for each in replicas if "OFFICE" in each["leads"]]
    following = [each["server"] for each in replicas if each["current"] and each["server"] not in leads]
    return "".join(leads), following


def certificates(cluster: Containers) -> list[str]:
    """What the servers show each other from their next connection on."""
    return [cluster.inside("nats", f"cat /nats/config/certificates/{name}.pem") for name in NAMES]
