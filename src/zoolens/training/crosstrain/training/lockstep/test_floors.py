import numpy as np

from zoolens.base.numerics.rounding import FACTOR, ONE_ROUNDING, ROUNDINGS
from zoolens.training.crosstrain.training.lockstep.course import course
from zoolens.training.crosstrain.training.lockstep.floors import disturbed, floors


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
    keys = [("activation", "logits"), ("gradient", "conv1.kernel"), ("activation", "nowhere")]
    few = floors(runner, reference, keys, range(1))
    more = floors(runner, reference, keys, range(1, 3), few)
    assert all(more[step][key] >= few[step][key] for step in (1, 2) for key in keys)
    assert few[1]["activation", "logits"] > FACTOR * ONE_ROUNDING == few[1]["activation", "nowhere"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("noise")] == []
