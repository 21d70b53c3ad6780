"""Words, negation and news: what two texts say of each other, without a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.memory.linking.text_comparison import (
    are_opposed,
    find_difference,
    is_negated,
    normalise_word,
    parse_text,
)


@pytest.mark.parametrize(
    "sentence",
    [
        "We do not deploy on Fridays",
        "We don't deploy on Fridays",
        "We don’t deploy on Fridays",
        "There is no cache",
        "Never deploy on Fridays",
        "The office is no longer in Berlin",
        "The service starts without a token",
        "Agents cannot write there",
        "NOT for production",
        "No one reviews it",
        "We do not deploy without review, never",
    ],
)
def test_a_sentence_is_negated(sentence: str) -> None:
    assert is_negated(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Nothing was found",
        "Another note about knots",
        "The notary noted it",
        "A northern node",
        "It is not only fast but small",
        "No doubt the port is open",
        "We can't wait for the release",
        "It took no more than 5 seconds",
        "See no. 4 of the list",
        "We do not deploy without review",
        "It is not true that the port is never open",
        "It neither blinks nor beeps, which is not what we want",
    ],
)
def test_a_sentence_is_not_negated(sentence: str) -> None:
    assert not is_negated(sentence)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We deploy on Fridays", "We never deploy on Fridays"),
        ("The server is up", "The server isn't running"),
        ("Broker\nThe port is open. It is 4222.", "Broker\nThe port is not open. It is 4222."),
        ("We do not use Redis. We use Kafka.", "We use Redis. We do not use Kafka."),
        ("Staging\nDeploying there is never done on a Friday", "Deployments happen on Fridays"),
    ],
)
def test_texts_are_opposed(one: str, other: str) -> None:
    assert are_opposed(one, other)
    assert are_opposed(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We deploy on Fridays", "We deploy on Fridays at noon"),
        ("We never deploy on Fridays", "We don't deploy on Fridays"),
        ("We use Redis, not Memcached", "We use Redis"),
        ("Nothing was found there", "Something was found there"),
        ("We don't deploy without review", "We deploy with a review"),
        ("The port is 4222. Do not change the host.", "The port is 4222. The host is db1."),
        (
            "Oh. It is nice. We have no time.",
            "We sing. We dance. It is late.",
        ),  # of many, one denies something
        ("Is the port not open? The port is 4222.", "The port is 4222."),
    ],
)
def test_texts_are_not_opposed(one: str, other: str) -> None:
    assert not are_opposed(one, other)
    assert not are_opposed(other, one)


@pytest.mark.parametrize(
    ("new", "old", "why"),
    [
        ("The port is 4333", "The port is 4222", "numbers"),
        ("It takes from 5 to 3 steps", "It takes from 3 to 5 steps", "numbers"),
        ("It fails two times a day", "It fails three times a day", "numbers"),
        ("The office is in Rome", "The office is in Paris", "names"),
        ("Bob gave Alice a book", "Alice gave Bob a book", "names"),
        ("We must not log the key", "We must log the key", "negation"),
        ("The user hates dark mode", "The user likes dark mode", "words"),
        ("Enable tracing everywhere", "Disable tracing everywhere", "words"),
        ("Cats chase dogs", "Dogs chase cats", "roles"),
        ("It was that", "It is this", "words"),
        ("The broker runs on port 4222 and asks for a token", "The broker runs on port 4222", "words"),
    ],
)
def test_news_is_found(new: str, old: str, why: str) -> None:
    assert find_difference(new, old) == why


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("the port is 4222.", "The port is 4222"),
        ("The broker listens on port 4222", "The port of the broker is 4222"),
        ("The port is 4222", "The port of the broker in Rome is 4222"),
        ("It fails 3 times a day", "It fails three times a day"),
        ("The user prefers dark mode", "The user likes dark mode"),
        ("The outage was caused by the cache", "The cache caused the outage"),
        ("We deployed on Fridays", "We deploy each Friday"),
    ],
)
def test_what_says_the_same_is_no_news(new: str, old: str) -> None:
    assert find_difference(new, old) == ""


def test_the_share_of_new_words_decides() -> None:
    old = "alpha beta gamma delta"
    assert find_difference(f"{old} epsilon", old, allowed=0.2) == ""  # one of five
    assert find_difference(f"{old} epsilon zeta", old, allowed=0.2) == "words"  # two of six
    assert find_difference(f"{old} epsilon zeta", old, allowed=0.5) == ""


def test_long_texts_are_the_same_only_as_a_whole() -> None:
    long = "The broker is fine. " * 1_000
    assert find_difference(long, long.upper()) == ""
    assert find_difference(long + "The end.", long) == "words"


@given(st.text(max_size=200))
def test_a_text_has_no_news_over_itself_and_is_not_opposed_to_itself(text: str) -> None:
    assert find_difference(text, text) == ""
    assert not are_opposed(text, text)
    parse_text(text)


@given(st.text(max_size=80), st.text(max_size=80))
def test_being_opposed_is_mutual(one: str, other: str) -> None:
    assert are_opposed(one, other) == are_opposed(other, one)


@given(st.lists(st.sampled_from("port broker cache build deploy office".split()), min_size=1, max_size=8))
def test_a_denial_is_opposed_to_what_it_denies(words: list[str]) -> None:
    text = " ".join(words)
    assert are_opposed(text, f"not {text}")
    assert not are_opposed(f"not {text}", f"never {text}")
    assert find_difference(f"not {text}", text) == "negation"


@pytest.mark.parametrize(
    "forms",
    [("deploy", "deploys", "deployed", "deploying"), ("cache", "caches", "caching"), ("retry", "retries")],
)
def test_forms_of_a_word_share_a_stem(forms: tuple[str, ...]) -> None:
    assert len({normalise_word(form) for form in forms}) == 1
