import numpy as np
import pytest

from zoolens.findings.endpoints.told_distance import Vocabulary, tells_enough, told_distance
from zoolens.inventory.runtimes.openai.endpoint_answers import NextToken, ToldToken

PIECES = [b"a", b" a", b"\xf0\x9f", b"\xe2", b"<end>", b"b"]
SHOWN = ["a", "a", "\ufffd", "\ufffd", "", "b"]
OWN = np.array([0.5, 0.2, 0.1, 0.05, 0.05, 0.1])


@pytest.fixture
def vocabulary():
    return Vocabulary.of(PIECES, SHOWN)


def told(*entries, chosen=0):
    return NextToken(entries[chosen][0], None, tuple((token, float(np.log(chance))) for token, chance in entries))


def text(content):
    return ToldToken(None, content)


def number(value):
    return ToldToken(value, b"")


def test_the_models_own_distribution_is_no_distance_away(vocabulary):
    by_number = told(*((number(place), chance) for place, chance in enumerate(OWN)))
    assert told_distance(by_number, OWN, vocabulary) == pytest.approx(0)
    assert told_distance(told((number(0), 0.5), (number(1), 0.2)), OWN, vocabulary) == pytest.approx(0)


def test_numbers_are_told_apart_and_the_rest_is_one(vocabulary):
    swapped = told((number(0), 0.2), (number(1), 0.5))
    assert told_distance(swapped, OWN, vocabulary) == pytest.approx(0.3)
    assert told_distance(told((number(0), 0.9)), OWN, vocabulary) == pytest.approx(0.4)


def test_an_unlikely_token_alone_is_no_agreement(vocabulary):
    """What is not told is no likelier than what is, but for the chosen token, which is told in any case."""
    rare = ((number(3), 0.05), (number(4), 0.05))
    assert told_distance(told(*rare), OWN, vocabulary) == pytest.approx(0.45 + 0.15 + 0.05 + 0.05)
    chosen = told((number(0), 0.5), (number(4), 0.05), chosen=1)
    assert told_distance(chosen, OWN, vocabulary) == pytest.approx(0)
    only = told((number(4), 0.05))
    assert told_distance(only, OWN, vocabulary) == pytest.approx(0)
    often = told(*((text(b"<end>"), 0.01) for _ in range(5)))
    assert told_distance(often, OWN, vocabulary) > 0.8
    assert not tells_enough(only, 20, 0.02)
    assert tells_enough(only, 1, 0.02)
    assert tells_enough(told((number(0), 0.99)), 20, 0.02)


def test_blank_tokens_are_told_apart_among_the_likely():
    blanks = Vocabulary.of([b"\n", b" ", b"\t", b"b"], ["\n", " ", "\t", "b"])
    own = np.array([0.5, 0.1, 0.2, 0.2])
    assert told_distance(told((text(b"\n"), 0.5), (text(b"b"), 0.2)), own, blanks) == pytest.approx(0)
    assert told_distance(told((text(b" "), 0.5), (text(b"\n"), 0.1)), own, blanks) > 0.1
    assert blanks.class_of(text(b"")) == blanks.class_of(text(b" "))


def test_texts_that_cannot_be_told_apart_are_one(vocabulary):
    assert told_distance(told((text(b"a"), 0.5), (text(b" a"), 0.2)), OWN, vocabulary) == pytest.approx(0)
    assert told_distance(told((text("\ufffd".encode()), 0.15)), OWN, vocabulary) == pytest.approx(0)
    assert told_distance(told((ToldToken(None, b"\xe2", exact=True), 0.15)), OWN, vocabulary) == pytest.approx(0)


def test_a_special_token_is_nothing_in_a_text_and_has_a_name_among_the_likely(vocabulary):
    assert vocabulary.class_of(text(b"")) == vocabulary.class_of(text(b"<end>")) == vocabulary.class_of(number(4))


def test_a_token_that_the_model_does_not_have_counts_fully(vocabulary):
    assert told_distance(told((text(b"zebra"), 1.0)), OWN, vocabulary) == pytest.approx(1)
    assert told_distance(told((number(99), 1.0)), OWN, vocabulary) == pytest.approx(1)


def test_nothing_told_is_not_known(vocabulary):
    assert told_distance(NextToken(text(b"a")), OWN, vocabulary) is None
