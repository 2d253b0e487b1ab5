import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.training.crosstrain.study.search.hyperspace import subspaces
from zoolens.training.crosstrain.study.study_plan import Dimension, Search


def test_halves_are_the_published_ones():
    space = (
        Dimension(name="learning_rate", low=1e-8, high=0.1),
        Dimension(name="epochs", low=1, high=50, integer=True),
    )
    found = subspaces(space, Search(split=None, overlap=0.25))
    assert [one.low for one in found] == [(), ("learning_rate",), ("epochs",), ("learning_rate", "epochs")]
    ranges = [[(axis.low, axis.high) for axis in one.axes] for one in found]
    high_rate, low_rate = (0.037500006249999995, 0.1), (1e-8, 0.06250000375)  # as they stand in the release
    assert ranges == [
        [high_rate, (20, 50)],
        [low_rate, (20, 50)],
        [high_rate, (1, 31)],
        [low_rate, (1, 31)],
    ]
    epsilon = (Dimension(name="epsilon", low=1e-8, high=1.0),)
    assert subspaces(epsilon, Search(split=None, overlap=0.25))[0].axes[0].low == 0.3750000062500001  # released too


@given(
    st.integers(-50, 50),
    st.integers(1, 60),
    st.floats(0, 0.99),
    st.booleans(),
)
def test_no_integer_falls_between_the_halves(low, width, overlap, log):
    low = abs(low) + 1 if log else low
    space = (Dimension(name="n", low=low, high=low + width, integer=True, log=log),)
    covered = {
        value
        for one in subspaces(space, Search(split=None, overlap=overlap))
        for value in range(int(one.axes[0].low), int(one.axes[0].high) + 1)
    }
    assert covered == set(range(low, low + width + 1))


def test_no_integer_is_lost_where_logarithms_round():
    """10**log10(x) is not x for many x; without an overlap the middle would be in neither half."""
    for root in range(2, 200):
        space = (Dimension(name="n", low=1, high=root * root, integer=True, log=True),)
        upper, lower = (one.axes[0] for one in subspaces(space, Search(split=("n",), overlap=0)))
        assert (lower.high, upper.low) == (root, root)


def test_logarithmic_ranges_are_halved_by_magnitude():
    space = (Dimension(name="rate", low=1e-6, high=1e-2, log=True),)
    upper, lower = (one.axes[0] for one in subspaces(space, Search(split=None, overlap=0.5)))
    assert math.isclose(lower.high, 1e-3)
    assert math.isclose(upper.low, 1e-5)
    assert (lower.low, upper.high) == (1e-6, 1e-2)


def test_only_named_dimensions_are_halved():
    space = (
        Dimension(name="a", low=0, high=1),
        Dimension(name="kind", choices=("sgd", "adam")),
        Dimension(name="b", low=0, high=8),
    )
    found = subspaces(space, Search(split=("b",), overlap=0))
    assert [(one.axes[0].low, one.axes[0].high) for one in found] == [(0, 1)] * 2
    assert [(one.axes[2].low, one.axes[2].high) for one in found] == [(4, 8), (0, 4)]
    assert len(subspaces(space, Search(split=None))) == 4
    (whole,) = subspaces(space, Search(split=()))
    assert whole.holds({"a": 0.5, "kind": "adam", "b": 8.0})
    assert not whole.holds({"a": 0.5, "kind": "adam", "b": 8.1})
    assert not whole.holds({"a": 0.5, "kind": "adam"})


@pytest.mark.parametrize(
    ("split", "words"),
    [(("rte",), "Did you mean rate"), (("kind",), "has no halves"), (None, "subspaces")],
)
def test_what_cannot_be_halved_is_said(split, words):
    many = tuple(Dimension(name=f"d{n}", low=0, high=1) for n in range(13))
    space = (Dimension(name="rate", low=0, high=1), Dimension(name="kind", choices=("a", "b")), *many)
    with pytest.raises(ZoolensError, match=words):
        subspaces(space, Search(split=split))


def test_bad_spaces_are_refused():
    one = Dimension(name="a", low=0, high=1)
    with pytest.raises(ZoolensError, match="a twice"):
        subspaces((one, one), Search())
    with pytest.raises(ZoolensError, match="no integer"):
        subspaces((Dimension(name="a", low=0.2, high=0.8, integer=True),), Search())
    with pytest.raises(ZoolensError, match="not finite"):
        subspaces((Dimension(name="a", low=0, high=math.inf),), Search())
    with pytest.raises(UnknownName):
        subspaces((one,), Search(split=("b",)))
