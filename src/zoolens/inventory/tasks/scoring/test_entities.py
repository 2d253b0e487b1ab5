"""Entities and their F1 are those of seqeval 1.2.2, which wrote the digests and figures below."""

import hashlib
import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.entities import (
    MOST_TYPES,
    best_constant_f1,
    entity_parts,
    f1_by_type,
    macro_f1,
    micro_f1,
    read_entities,
    tag_agreement,
)

# Letters of the tags, and what seqeval reads from all rows of at most four of them: (None) `get_entities(row)`;
# (strict) `(e.tag, e.start, e.end - 1) for e in Tokens(row, scheme).entities`.
SEQEVAL = {
    None: ("BIES", "3be29d7a72243afb"),
    "IOB1": ("IB", "7a3a935347816477"),
    "IOB2": ("IB", "54d33cadacf4b51e"),
    "IOE1": ("IE", "3d79147ce91d9b0f"),
    "IOE2": ("IE", "5e2c69ec94c5f677"),
    "IOBES": ("IBES", "ac798e1707db5863"),
    "BILOU": ("BILU", "cc5396255e9c9faa"),
}


@pytest.mark.parametrize("scheme", SEQEVAL)
def test_all_short_rows_are_read_as_seqeval_reads_them(scheme):
    letters, expected = SEQEVAL[scheme]
    tags = ["O", letters[0], *(f"{letter}-{kind}" for letter in letters for kind in "XY")]
    digest = hashlib.sha256()
    for length in range(5):
        for row in itertools.product(tags, repeat=length):
            digest.update(json.dumps(read_entities(row, scheme)).encode())
    assert digest.hexdigest()[:16] == expected


def random_rows():
    rng = random.Random(31)
    tags = ["O", "O", "O", *(f"{letter}-{kind}" for letter in "BI" for kind in ("PER", "LOC", "ORG"))]
    true = [rng.choices(tags, k=int(rng.random() * 20)) for _ in range(200)]
    predicted = [[tag if rng.random() < 0.8 else rng.choices(tags)[0] for tag in row] for row in true]
    return true, predicted


def test_f1_is_that_of_seqeval():
    """`f1_score(true, predicted, average=…)`, and with mode="strict", scheme=IOB2."""
    lenient = entity_parts(*random_rows())
    strict = entity_parts(*random_rows(), scheme="IOB2")
    assert micro_f1(lenient).value == pytest.approx(0.8024007386888273, rel=1e-14)
    assert macro_f1(lenient).value == pytest.approx(0.8025088655345592, rel=1e-14)
    assert micro_f1(strict).value == pytest.approx(0.7952822240943556, rel=1e-14)
    assert macro_f1(strict).value == pytest.approx(0.7957979052431826, rel=1e-14)
    values = {name: score.value for name, score in f1_by_type(lenient).items()}
    assert values == pytest.approx({"LOC": 0.8147100424328146, "ORG": 0.8098495212038304, "PER": 0.782967032967033})


def test_weights_repeat_inputs():
    true, predicted = random_rows()
    weights = np.random.default_rng(0).integers(0, 4, len(true))
    repeated = [
        [row for row, count in zip(rows, weights, strict=True) for _ in range(count)] for rows in (true, predicted)
    ]
    weighted, plain = entity_parts(true, predicted), entity_parts(*repeated)
    assert micro_f1(weighted, weights) == micro_f1(plain)
    assert macro_f1(weighted, weights).value == macro_f1(plain).value


def test_a_type_that_no_weighted_input_has_is_not_in_the_mean():
    parts = entity_parts([["B-A"], ["B-B"]], [["B-A"], ["O"]])
    assert (macro_f1(parts).value, macro_f1(parts).used) == (0.5, 2)
    mean = macro_f1(parts, [1, 0])
    assert (mean.value, mean.used, mean.total) == (1.0, 1, 2)
    assert f1_by_type(parts, [1, 0])["B"].reason == "There is no entity of the type B."


@pytest.mark.parametrize("rows", [[], [[]], [["O", "O"]]])
def test_without_entities_f1_is_undefined(rows):
    parts = entity_parts(rows, rows)
    assert micro_f1(parts).reason == macro_f1(parts).reason == "There is no entity, neither true nor predicted."
    assert not micro_f1(parts).defined
    assert not macro_f1(parts).defined


@pytest.mark.parametrize("tag", ["", "X-PER", "PER", "B_PER", "b-PER", "O-PER", "U-PER", "0", "Ö", "B" * 10**6])
def test_other_tags_are_refused(tag):
    with pytest.raises(ZoolensError, match="Tags must be O or one of B-TYPE, I-TYPE, E-TYPE, S-TYPE; got") as failure:
        read_entities(["O", tag])
    assert len(str(failure.value)) < 200


def test_tags_of_another_scheme_are_refused_by_a_strict_one():
    with pytest.raises(ZoolensError, match="Tags must be O or one of I-TYPE, B-TYPE; got 'S-PER'"):
        read_entities(["S-PER"], "IOB2")
    with pytest.raises(ZoolensError, match="tagging scheme"):
        read_entities(["O"], "IOB3")


def test_rows_that_do_not_match_are_refused():
    with pytest.raises(ZoolensError, match="There are 1 rows of true tags but 0"):
        entity_parts([["O"]], [])
    with pytest.raises(ZoolensError, match="have 1 and 2 tags"):
        entity_parts([["O"]], [["O", "O"]])


def test_too_many_types_are_refused():
    rows = [[f"B-{number}"] for number in range(MOST_TYPES + 1)]
    with pytest.raises(ZoolensError, match=f"At most {MOST_TYPES} types"):
        entity_parts(rows, rows)


rows = st.integers(0, 8).flatmap(
    lambda n: st.tuples(*[st.lists(st.sampled_from(["O", "B-X", "I-X", "I-Y"]), min_size=n, max_size=n)] * 2)
)


@settings(deadline=None)
@given(rows)
def test_agreement_is_symmetric_and_1_for_the_same_entities_only(pair):
    a, b = pair
    agreement = tag_agreement(a, b)
    assert agreement == tag_agreement(b, a)
    assert 0 <= agreement <= 1
    assert (agreement == 1) == (read_entities(a) == read_entities(b))


def test_agreement_of_halves():
    assert tag_agreement(["B-X", "O", "B-Y"], ["B-X", "O", "B-X"]) == 0.5
    assert tag_agreement([], []) == 1


def test_the_best_constant_tag_finds_the_entities_of_one_word_or_of_whole_rows():
    names = [["B-PER", "I-PER"], ["B-PER", "I-PER", "I-PER"], ["O", "B-PER", "O"]]
    tagged = [["I-PER"] * len(row) for row in names]
    assert best_constant_f1(names) == micro_f1(entity_parts(names, tagged)).value == 2 / 3
    assert best_constant_f1([["B-PER"], ["S-PER"]]) == 1
    rows = [["B-PER", "O", "B-LOC"], ["B-PER", "I-PER"], ["O", "B-LOC", "B-LOC"]]
    tagged = [["B-LOC"] * len(row) for row in rows]
    assert best_constant_f1(rows) == micro_f1(entity_parts(rows, tagged)).value == 6 / 13
    assert best_constant_f1([["O"], []]) == best_constant_f1([]) == 0
