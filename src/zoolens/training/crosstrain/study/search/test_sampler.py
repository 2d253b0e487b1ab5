import logging
import sys

import pytest

from zoolens.base.errors import MissingDependency
from zoolens.training.crosstrain.study.search.hyperspace import Axis
from zoolens.training.crosstrain.study.search.sampler import next_point

AXES = (Axis("x", 0.0, 1.0), Axis("n", 3, 3, integer=True), Axis("kind", choices=("a", "b")))
ANSWERED = [
    ({"x": x, "n": 3, "kind": kind}, x * (1 - x) + (0.5 if kind == "b" else 0))
    for x in (0.0, 0.15, 0.3, 0.7, 0.85, 1.0)
    for kind in ("a", "b")
]


def test_promise_is_followed_and_what_runs_or_failed_is_avoided():
    first = next_point(AXES, ANSWERED, [], seed=1)
    assert first["kind"] == "b"
    assert 0.3 < first["x"] < 0.7
    assert next_point(AXES, ANSWERED, [], seed=1) == first
    second = next_point(AXES, ANSWERED, [first], seed=1)
    assert second["kind"] == "a" or abs(second["x"] - first["x"]) > 0.05
    assert all(axis.holds(second[axis.name]) for axis in AXES)


@pytest.mark.parametrize(
    "axis", [Axis("n", 1, 1000, integer=True, log=True), Axis("n", 0, 90, integer=True), Axis("n", 0, 9, integer=True)]
)
def test_integers_are_climbed_to_their_end(axis):
    """Many are searched as a continuum and rounded, few step by step."""
    shares = [0.02, 0.2, 0.4, 0.6, 0.8, 0.9]
    steps = sorted({int(axis.high**share) if axis.log else int(axis.high * share) for share in shares})
    found = next_point((axis,), [({"n": n}, n / axis.high) for n in steps], [], seed=0)
    assert axis.holds(found["n"])
    assert found["n"] > steps[-1]


def test_optuna_says_nothing(caplog, capsys):
    with caplog.at_level(logging.INFO):
        next_point(AXES, ANSWERED, [], seed=1)
    assert (caplog.text, *capsys.readouterr()) == ("", "", "")


def test_missing_optuna_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingDependency, match="crosstrain"):
        next_point(AXES, ANSWERED, [], seed=1)
