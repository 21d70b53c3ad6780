"""The chart in deploy/helm: rendered by Helm's own library, valid for four Kubernetes, and confined."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm"
VALUES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "another server, ingress": {
        "nats": {"url": "nats://nats.example.org:4333"},
        "gateway": {
            "publicUrl": "https://office.example.org/",
            "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "office-tls"},
        },
        "environment": {"MAILROOM_BRAIN": "openai:qwen3"},
        "environmentFrom": [{"secretRef": {"name": "brain"}}],
        "imagePullSecrets": [{"name": "registry"}],
    },
    "without the jail": {"jail": {"enabled": False}, "networkPolicies": {"enabled": False}},
}
VERSIONS = 4  # How many of the latest minor versions of Kubernetes it has to be valid for


@pytest.fixture(scope="module", params=VALUES)
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")
    rendered = helm.Chart.load(str(CHART)).render(VALUES[request.param], name="office", namespace="office")
    found = [each for text in rendered.values() for each in yaml.safe_load_all(text) if each]
    assert len(found) > 15
    return found


def pods(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for each in objects:
        if "template" in each["spec"]:
            yield each["metadata"]["name"].removeprefix("office-"), each["spec"]["template"]["spec"]


def test_it_passes_helms_own_lint() -> None:
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")
    found = helm.lint(str(CHART), VALUES["another server, ingress"], strict=True)
    wrong = [each for each in found["messages"] if each["severity"] not in ("INFO", 1)]
    assert not wrong, wrong


def test_it_is_valid_for_the_latest_versions_of_kubernetes(objects: list[dict[str, Any]]) -> None:
    schemas = pytest.importorskip("kubernetes_validate.utils", reason="kubernetes-validate is not installed")
    versions = sorted({schemas.major_minor(each) for each in schemas.all_versions()})[-VERSIONS:]
    assert len(versions) == VERSIONS
    for version in versions:
        for each in objects:
            schemas.validate(each, version, strict=True)


def test_every_pod_is_confined_and_has_one_key(objects: list[dict[str, Any]]) -> None:
    for name, pod in pods(objects):
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost"), name
        (container,) = pod["containers"]
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"], name
        assert confined["allowPrivilegeEscalation"] is False, name
        assert confined["capabilities"] == {"drop": ["ALL"]}, name
        assert container["resources"]["limits"]["memory"], name
        assert container["resources"]["requests"]["memory"], name
        if confined.get("procMount") == "Unmasked":
            assert pod["hostUsers"] is False, name
        keys = [each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each]
        key = {"nats": "mailroom-nats", "provision": "mailroom-key-admin"}.get(name, f"mailroom-key-{name}")
        assert keys == [key], name


def test_an_agent_reaches_the_server_and_nothing_else(objects: list[dict[str, Any]]) -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "NetworkPolicy"}
    if not policies:
        return
    assert policies["office-nothing"]["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policies["office-nothing"]
    ports = [[port["port"] for port in each["ports"]] for each in policies["office-agents"]["egress"]]
    assert ports in ([[53, 53], [4222]], [[53, 53], [4333]])
    (outside,) = policies["office-outside"]["egress"]
    assert "10.0.0.0/8" in outside["to"][0]["ipBlock"]["except"]
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in objects
        if "template" in each["spec"]
    }
    assert labels["office-memory"]["mailroom/outside"] == "false"
    assert labels["office-engineer"]["mailroom/outside"] == "true"
