"""The chart in deploy/helm: rendered by Helm's own library, valid for four Kubernetes, and confined."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm"
KEDA = {"enabled": True, "prometheus": "http://prometheus:9090"}
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
    "by load": {"keda": KEDA | {"matchers": 'namespace="office"'}},
    "without the jail": {"jail": {"enabled": False}, "networkPolicies": {"enabled": False}},
}
VERSIONS = 4  # How many of the latest minor versions of Kubernetes it has to be valid for


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")
    rendered = helm.Chart.load(str(CHART)).render(values, name="office", namespace="office")
    return [each for text in rendered.values() for each in yaml.safe_load_all(text) if each]


@pytest.fixture(scope="module", params=VALUES)
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    found = render(VALUES[request.param])
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
    own = [each for each in objects if not each["apiVersion"].startswith("keda.sh/")]
    for version in versions:
        for each in own:
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


def test_ready_is_what_gets_its_messages_and_alive_what_runs(objects: list[dict[str, Any]]) -> None:
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    for name, pod in pods(objects):
        if name in ("eraser", "nats", "provision"):
            continue
        told = [pod["containers"][0][probe]["exec"]["command"][-1] for probe in probes]
        assert ["pulling" in each for each in told] == [False, False, True], name
        assert ["alive" in each for each in told] == [True, True, False], name


def test_keda_scales_by_figures_that_the_gateway_has() -> None:
    objects = render(VALUES["by load"])
    scaled = {
        each["spec"]["scaleTargetRef"]["name"]: each for each in objects if each["kind"] == "ScaledObject"
    }
    assert set(scaled) == {"office-critic", "office-engineer", "office-scout"}
    named = (ROOT / "docs" / "metrics.md").read_text()
    for each in objects:
        if each["kind"] == "Deployment":
            # KEDA's autoscaler and the chart would take turns at setting it.
            assert ("replicas" in each["spec"]) == (each["metadata"]["name"] not in scaled)
    for name, each in scaled.items():
        assert each["spec"]["minReplicaCount"] < each["spec"]["maxReplicaCount"]
        (trigger,) = each["spec"]["triggers"]
        assert trigger["type"] == "prometheus"
        assert trigger["metadata"]["serverAddress"] == KEDA["prometheus"]
        assert float(trigger["metadata"]["threshold"]) > 0
        query = trigger["metadata"]["query"]
        about = f'agent="{name.removeprefix("office-")}",namespace="office"'
        figures = re.findall(r"(mailroom_\w+)\{([^}]*)\}", query)
        assert figures == [("mailroom_queue_depth", about), ("mailroom_tasks_working", about)]
        assert all(f"| `{figure}` | agent" in named for figure, _ in figures)


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
