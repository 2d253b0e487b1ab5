import numpy as np
import pytest

from zoolens.training.pairs.reading.probes import STRIDED_INPUT, norm_fact, padding_fact


@pytest.mark.parametrize("kept", [0.9, 0.99, 0.5])
@pytest.mark.parametrize(("ddof", "divisor"), [(0, "n"), (1, "n - 1")])
def test_statistics_after_one_step_tell_what_was_kept_and_the_divisor(kept, ddof, divisor):
    found = norm_fact("bn", 1e-5, lambda x: ((1 - kept) * x.mean(), kept + (1 - kept) * x.var(ddof=ddof)))
    assert (found.kept, found.divisor, found.epsilon) == (kept, divisor, 1e-5)


@pytest.mark.parametrize(("pads", "seen"), [((1, 1), (1, 0)), ((0, 1), (0, 1)), ((0, 0), (0, 0))])
def test_padding_is_what_the_windows_reach_beyond_the_map(pads, seen):
    rows = np.pad(STRIDED_INPUT, (pads, pads))
    starts = range(0, len(rows) - 2, 2)
    found = padding_fact(np.array([rows[start, 1:-1:2] for start in starts]), "so")
    assert (found.before, found.after) == seen
