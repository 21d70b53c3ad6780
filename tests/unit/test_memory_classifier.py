"""Memory's classifiers: the files, what they take, and whose vectors they are given."""

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from services.memory import classifier as module
from services.memory.classifier import MAX_ROWS, NAMES, Classifiers, open_classifier
from services.memory.local_model import MODEL_NAME
from services.nexus.routing.following import read_features
from shared import settings
from shared.errors import ActionError
from shared.memory import ClassifyQuery
from tests.bench.weights import EXAMPLES, fingerprint
from tests.support.classifying import open_models

TEXT = "remind me to water the figs at 9"


def classify(name: str, texts: tuple[str, ...] = (), *features: dict[str, float]) -> list[dict[str, float]]:
    return open_models()[1].classify(ClassifyQuery(classifier=name, texts=texts, features=features))


def test_every_classifier_can_be_fitted_anew() -> None:
    assert set(NAMES) == set(EXAMPLES)


@pytest.mark.parametrize("name", NAMES)
def test_a_classifier_was_fitted_to_the_examples_as_they_are(name: str) -> None:
    told = open_classifier(name).description
    assert told.fitted_to == fingerprint(name), f"run 'make weights ARGS={name}'"
    assert told.model in ("", MODEL_NAME)


def test_a_message_is_for_some_tool_with_all_its_probability() -> None:
    (scores,) = classify("desk", (TEXT,), read_features(TEXT))
    assert max(scores, key=lambda name: scores[name]) == "reminder_set"
    assert math.isclose(sum(scores.values()), 1, rel_tol=1e-4)


def test_one_text_is_that_of_all_rows_and_is_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder, classifiers = open_models()
    asked: list[Any] = []
    monkeypatch.setattr(
        embedder, "embed", lambda texts: asked.append(texts) or np.ones((len(texts), 384), np.float32)
    )
    monkeypatch.setattr(classifiers, "_kept", {})
    rows = classify("following", ("and then?",), {"alone": -1.0}, {"alone": -2.0}, {"alone": -2.0})
    assert rows[0]["log_odds"] > rows[1]["log_odds"] == rows[2]["log_odds"]
    classify("following", ("and then?",), {"alone": -1.0})
    assert asked == [["and then?"]]


def test_no_more_texts_are_kept_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    _, classifiers = open_models()
    for number in range(5):
        classify("playbooks", (f"look at it {number}",))
    assert len(classifiers._kept) <= 2


def test_what_was_not_fitted_counts_nothing_and_what_is_not_named_is_nought() -> None:
    (plain,) = classify("certainty", (), {"mark": 2.0})
    (more,) = classify("certainty", (), {"mark": 2.0, "the moon": 9.0, "near": 0.0})
    assert plain == more


@pytest.mark.parametrize(
    ("name", "texts", "features", "reason"),
    [
        ("../desk", (TEXT,), (), "There is no classifier '../desk'"),
        ("desk", (TEXT,), (), "desk cannot read 1 texts and 0 features"),
        ("desk", (), ({"word a": 1.0},), "Give texts and features"),
        ("kinds", (), (), "kinds cannot read 0 texts"),
        ("kinds", (TEXT,), ({"a": 1.0},), "Give texts:"),
        ("certainty", (TEXT,), ({"mark": 1.0},), "Give features:"),
        ("following", (TEXT, TEXT), ({"alone": 1.0},) * 3, "as many of both, or one text"),
        ("following", (TEXT, TEXT, TEXT), ({"alone": 1.0},), "cannot read 3 texts and 1 features"),
        ("certainty", (), ({"mark": 1.0},) * (MAX_ROWS + 1), f"at most {MAX_ROWS:,}"),
    ],
)
def test_rows_that_a_classifier_does_not_take_are_refused(
    name: str, texts: tuple[str, ...], features: tuple[dict[str, float], ...], reason: str
) -> None:
    with pytest.raises(ActionError, match=reason):
        classify(name, texts, *features)


class OtherEmbedder:
    """A model that the classifiers were not fitted to; it must not be asked."""

    model_name = "openai:other"


def test_vectors_of_another_model_are_not_used(tmp_path: Path) -> None:
    classifiers = Classifiers(cast(Any, OtherEmbedder()), settings.load().models)
    try:
        query = ClassifyQuery(classifier="playbooks", texts=("run the tests of PATH",))
        assert classifiers.classify(query) == open_models()[1].classify(query)
        wrong = np.zeros((1, 3072), np.float32)
        found = classifiers.score_vectors("kinds", ["We decided on oak."], wrong)
        assert (
            found.tolist()
            == open_classifier("kinds").score(vectors=open_models()[0].embed(["We decided on oak."])).tolist()
        )
    finally:
        classifiers.close()
    without = Classifiers(cast(Any, OtherEmbedder()), tmp_path)
    with pytest.raises(ActionError, match=r"The embedding model is missing.*Fetch it with"):
        without.classify(query)
