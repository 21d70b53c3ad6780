"""The API's description: what clients are generated from."""

import json
import re
from collections import Counter
from typing import Any

import pytest

from services.gateway.api import TABLE
from services.gateway.routing import REFERENCE, describe

METHODS = ("get", "post", "put", "delete")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(describe(TABLE))
    return read


def test_each_operation_has_a_name_of_its_own_and_a_sentence(document: dict[str, Any]) -> None:
    operations = [item[method] for item in document["paths"].values() for method in METHODS if method in item]
    assert len(operations) == len(TABLE)
    assert max(Counter(each["operationId"] for each in operations).values()) == 1
    assert all(each["summary"] and each["responses"] for each in operations)


def test_each_reference_leads_to_a_schema(document: dict[str, Any]) -> None:
    named = set(re.findall(r'"\$ref":\s*"([^"]+)"', json.dumps(document)))
    assert named == {REFERENCE.format(name=name) for name in document["components"]["schemas"]}


@pytest.mark.parametrize(
    ("path", "contract"),
    [("/api/nexus", "Response"), ("/api/cortex", "TaskResult"), ("/api/frontier", "DiscoveryResult")],
)
def test_the_three_agents_say_which_contract_comes_and_that_it_may_take_long(
    document: dict[str, Any], path: str, contract: str
) -> None:
    for responses in (
        document["paths"][path]["post"]["responses"],
        document["paths"][f"{path}/{{task_id}}"]["get"]["responses"],
    ):
        assert f"schemas/{contract}" in json.dumps(responses["200"])
        assert "Location" in responses["202"]["headers"]


def test_what_answers_nothing_says_so(document: dict[str, Any]) -> None:
    assert set(document["paths"]["/api/v1/session"]["delete"]["responses"]) == {"204", "default"}
