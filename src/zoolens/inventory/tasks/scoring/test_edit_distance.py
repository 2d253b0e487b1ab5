"""Error rates are those of jiwer 4.0.0, which wrote the figures below."""

import hashlib
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring import edit_distance
from zoolens.inventory.tasks.scoring.edit_distance import error_parts, error_rate, levenshtein

PIECES = ["a", "b", " ", "  ", "the", "\t", "é", "e\u0301", "😀", "\n", "word ", "."]
# (errors, symbols, digest of both for each input): `process_words(reference, answer)` and `process_characters`.
JIWER = {"word": (1144, 994, "2cbd7e444d0873c6"), "character": (5265, 4787, "4962c0b00193875a")}


def texts():
    rng = random.Random(30)
    rows = []
    for _ in range(500):
        answer = "".join(rng.choices(PIECES, k=int(rng.random() * 12)))
        rows.append((answer, "a" + "".join(rng.choices(PIECES, k=int(rng.random() * 12)))))
    return [answer for answer, _ in rows], [reference for _, reference in rows]


@pytest.mark.parametrize("unit", JIWER)
def test_error_rates_are_those_of_jiwer(unit):
    errors, symbols, expected = JIWER[unit]
    parts = error_parts(*texts(), unit)
    digest = hashlib.sha256()
    for pair in zip(parts.distance.tolist(), parts.length.tolist(), strict=True):
        digest.update(json.dumps(pair).encode())
    assert (parts.distance.sum(), parts.length.sum(), digest.hexdigest()[:16]) == (errors, symbols, expected)
    assert error_rate(parts).value == errors / symbols


def plain_distance(a, b):
    """The textbook's table."""
    table = [[max(i, j) if not (i and j) else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
    return table[-1][-1]


few_symbols = st.lists(st.integers(0, 3), max_size=12)


@settings(deadline=None, max_examples=100)
@given(few_symbols, few_symbols)
def test_distances_are_those_of_the_textbook(a, b):
    assert levenshtein(np.array(a, np.uint32), np.array(b, np.uint32)) == plain_distance(a, b)


def test_weights_repeat_inputs():
    answers, references = texts()
    weights = np.random.default_rng(0).integers(0, 4, len(answers))
    repeated = [
        [row for row, count in zip(rows, weights, strict=True) for _ in range(count)] for rows in (answers, references)
    ]
    assert error_rate(error_parts(answers, references, "word"), weights) == error_rate(error_parts(*repeated, "word"))


def test_without_reference_symbols_the_rate_is_undefined():
    parts = error_parts(["word", ""], ["", " "], "word")
    assert parts.distance.tolist() == [1, 0]
    assert error_rate(parts).reason == "No reference has a word."
    assert not error_rate(parts).defined
    assert not error_rate(error_parts([], [], "character")).defined


def test_normalizations_are_named():
    answers, references = ["Hello,  World!"], ["hello world"]
    distances = {
        name: error_parts(answers, references, "word", name).distance.tolist()
        for name in ("none", "strip", "spaces", "spoken")
    }
    assert distances == {"none": [2], "strip": [2], "spaces": [2], "spoken": [0]}
    assert error_parts(["don't_stop"], ["DON'T STOP."], "character", "spoken").distance.tolist() == [0]
    assert error_parts(answers, references, "word").normalization == "spaces"
    with pytest.raises(ZoolensError, match="normalization"):
        error_parts(answers, references, "word", "spoke")


def test_long_texts_take_memory_of_one_row_and_are_refused_beyond_a_limit():
    same = "x" * 10**6
    assert error_parts([same + "a"], [same + "b"], "character").distance.tolist() == [1]
    with pytest.raises(ZoolensError, match="1,000,000 and 1,000,000 differing symbols are too long"):
        error_parts([same], ["y" * 10**6], "character")


def test_no_row_is_computed_before_a_refusal(monkeypatch):
    monkeypatch.setattr(edit_distance, "MOST_CELLS", 5)
    assert levenshtein(np.array([1], np.uint32), np.array([2, 3], np.uint32)) == 2
    with pytest.raises(ZoolensError, match="Split them"):
        levenshtein(np.array([1, 2], np.uint32), np.array([3, 4, 5], np.uint32))


def test_lone_surrogates_are_characters():
    assert error_parts(["\ud800"], ["a"], "character").distance.tolist() == [1]


def test_counts_of_texts_must_match():
    with pytest.raises(ZoolensError, match="There are 1 answers but 0 references"):
        error_parts(["a"], [], "word")
