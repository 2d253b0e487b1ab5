import numpy as np

from zoolens.base.numerics.rounding import ROUNDINGS
from zoolens.training.crosstrain.training.lockstep.course import course, disturbed
from zoolens.training.pairs.lockstep.floors import LEAST, widest


def test_weights_are_disturbed_by_a_few_roundings():
    weights = {"a.kernel": np.full(1000, 0.3, np.float32), "a.shift": np.zeros(4, np.float32),
               "a.variance": np.ones(4, np.float32)}  # fmt: skip
    found = disturbed(weights, 0)
    ulps = np.abs(found["a.kernel"] - weights["a.kernel"]) / np.spacing(np.float32(0.3))
    assert ROUNDINGS / 2 < ulps.max() <= 2 * ROUNDINGS
    assert found["a.kernel"].dtype == np.float32
    for name in ("a.shift", "a.variance"):
        np.testing.assert_array_equal(found[name], weights[name])
    assert (disturbed(weights, 1)["a.kernel"] != found["a.kernel"]).any()


def test_more_runs_only_raise_the_floors(recipe, workers, tmp_path):
    runner = course(recipe(), (1, 2), tmp_path, workers, threads=1)
    told = runner.recipe.wanted
    reference = runner.run("reference", "torch", told, precision="float64")
    few = runner.floors(reference, range(1))
    more = runner.floors(reference, range(1, 3))
    both = widest(few, more)
    assert all(both[key] == max(few[key], more[key]) for key in few)
    assert few != both != more
    assert few[1, ("activation", "logits")] > LEAST
    assert all(floor >= LEAST for floor in few.values())
    assert runner.floors(reference, range(1)) is few  # none is measured twice
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("noise")] == []


def test_a_floor_that_one_run_did_not_measure_is_the_least():
    assert widest({(1, ("loss", "")): 1e-3}, {(1, ("output", "0")): 1e-9}) == {
        (1, ("loss", "")): 1e-3, (1, ("output", "0")): LEAST
    }  # fmt: skip
