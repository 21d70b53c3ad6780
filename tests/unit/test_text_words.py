"""Stop words and stems."""

import pytest

from shared.text.prose import STOP_WORDS, stem


@pytest.mark.parametrize("forms", ["deploy deploys deployed deploying", "memory memories", "run running"])
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len({stem(word) for word in forms.split()}) == 1


@pytest.mark.parametrize("name", ["sha256sums", "internationalisationworks"])
def test_names_are_not_stemmed(name: str) -> None:
    assert stem(name) == name


def test_negation_is_no_stop_word() -> None:
    assert not STOP_WORDS & {"not", "no", "never"}
