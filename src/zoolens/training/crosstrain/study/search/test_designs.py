import math
from collections import Counter
from itertools import islice

import numpy as np
from scipy.stats import qmc

from zoolens.training.crosstrain.study.search.designs import design, halton, value_at
from zoolens.training.crosstrain.study.search.hyperspace import Axis, subspaces
from zoolens.training.crosstrain.study.study_plan import Dimension, Search

SPACE = (
    Dimension(name="rate", low=1e-6, high=1e-1, log=True),
    Dimension(name="epsilon", low=0, high=1),
    Dimension(name="batch", low=1, high=12, integer=True),
    Dimension(name="kind", choices=("sgd", "adam", "lion")),
)


def test_first_points_fill_every_cell_once():
    points = np.array(list(islice(halton(3, [7, 0]), 3**4 * 5**2)))
    for column, (base, power) in enumerate([(2, 6), (3, 4), (5, 2)]):
        cells = base**power
        assert sorted((points[:cells, column] * cells).astype(int)) == list(range(cells))


def test_points_are_more_even_than_chance():
    for index in range(4):
        even = qmc.discrepancy(np.array(list(islice(halton(4, [0, index]), 64))))
        chance = [qmc.discrepancy(np.random.default_rng(seed).random((64, 4))) for seed in range(20)]
        assert even < min(chance)


def test_subspaces_share_no_point():
    """Not even where they overlap almost wholly, and not in proportion to their ranges."""
    found = subspaces(SPACE[:2], Search(split=None, overlap=0.9))
    points = [list(islice(design(Search(), one), 50)) for one in found]
    assert len({tuple(point.values()) for some in points for point in some}) == 200
    shares = {share for index in range(4) for share in islice(halton(2, [0, index]), 50)}
    assert len(shares) == 200


def test_a_seed_gives_one_design():
    (whole,) = subspaces(SPACE, Search())
    first, again, other = (list(islice(design(Search(seed=seed), whole), 5)) for seed in (3, 3, 4))
    assert first == again != other
    assert all(whole.holds(point) for point in first)
    assert len(list(islice(design(Search(seed=-1), whole), 3))) == 3


def test_integers_and_choices_do_not_clump():
    shares = [(n + 0.5) / 1200 for n in range(1200)]
    batch = Axis("batch", 1, 12, integer=True)
    assert set(Counter(value_at(batch, share) for share in shares).values()) == {100}
    kind = Axis("kind", choices=("sgd", "adam", "lion"))
    assert set(Counter(value_at(kind, share) for share in shares).values()) == {400}


def test_logarithmic_integers_follow_their_magnitude():
    axis = Axis("batch", 1, 100, integer=True, log=True)
    values = [value_at(axis, (n + 0.5) / 1000) for n in range(1000)]
    assert (values[0], values[-1]) == (1, 100)
    assert math.isclose(values.count(3), 1000 * math.log(3.5 / 2.5) / math.log(100.5 / 0.5), abs_tol=2)


def test_ends_are_kept():
    for axis in (
        Axis("a", 0.1, 0.3),
        Axis("b", 1e-8, 0.1, log=True),
        Axis("c", 5, 5, integer=True),
        Axis("d", 2.5, 2.5),
    ):
        for share in (0.0, 0.5, math.nextafter(1, 0)):
            assert axis.holds(value_at(axis, share))


def test_a_finite_space_is_gone_through_once():
    (whole,) = subspaces(SPACE[2:], Search())
    points = list(design(Search(), whole))
    assert len({tuple(point.values()) for point in points}) == len(points) == 36
    numbers = subspaces(SPACE[2:3], Search())
    assert sorted(point["batch"] for point in design(Search(design="published"), numbers[0])) == list(range(1, 13))
