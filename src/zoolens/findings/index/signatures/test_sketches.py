"""Sketches bound the agreement from above, always, and estimate it well."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from zoolens.findings.index.signatures import sketches
from zoolens.findings.index.signatures.sketches import agreement_at_most, differing, ones, sketch

labels = st.integers(1, 150).flatmap(lambda n: st.tuples(*[arrays(np.int64, n, elements=st.integers(0, 4))] * 2))


@given(pair=labels, share=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_the_bound_holds_for_any_answers_and_any_part_of_the_probes(pair, share):
    a, b = pair
    bits = max(1, int(share * len(a)))
    apart = differing(sketch(a, bits)[None], sketch(b, bits))
    assert agreement_at_most(apart, len(a))[0] >= np.mean(a == b)


def test_equal_labels_have_equal_bits_and_different_ones_half():
    random = np.random.default_rng(0)
    a, b = random.integers(0, 1000, (2, 20_000))
    apart = int(differing(sketch(a, 20_000)[None], sketch(b, 20_000))[0])
    assert 0.48 < apart / np.count_nonzero(a != b) < 0.52
    assert differing(sketch(a, 20_000)[None], sketch(a, 20_000))[0] == 0


def test_counting_bits_without_numpy_2(monkeypatch):
    words = np.random.default_rng(2).integers(0, 1 << 63, (5, 3), np.uint64)
    expected = [sum(int(word).bit_count() for word in row) for row in words]
    assert ones(words).tolist() == expected
    monkeypatch.delattr(sketches.np, "bitwise_count", raising=False)
    assert ones(words).tolist() == expected
