import numpy as np
import pytest

from zoolens.training.crosstrain.study.analysis import surrogate
from zoolens.training.crosstrain.study.analysis.dependence import dependence, two_way
from zoolens.training.crosstrain.study.analysis.information import TooFewTrials
from zoolens.training.crosstrain.study.analysis.surrogate import fit

pytest.importorskip("sklearn.gaussian_process")


def space(n=80, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "rate": 10 ** rng.uniform(-5, -1, n),
        "batch": rng.integers(16, 512, n).astype(float),
        "optimizer": rng.choice(["adam", "sgd", "sign"], n),
    }


def bump(columns):
    return 0.3 * np.exp(-((np.log10(columns["rate"]) + 3) ** 2))


@pytest.fixture(scope="module")
def columns():
    return space()


@pytest.fixture(scope="module")
def fitted(columns):
    target = bump(columns) + 0.1 * (columns["optimizer"] == "adam")
    return fit(columns, target)


def test_the_fit_finds_what_matters(fitted):
    assert fitted.r_squared > 0.95
    rate, batch, _ = fitted.lengths
    assert batch > 5 * rate
    assert [one.log for one in fitted.inputs] == [True, False, False]


def test_r_squared_is_that_of_trials_left_out(fitted):
    """By formula and by doing it."""
    kernel = fitted.others() + fitted.noise * np.eye(fitted.n)
    centred = fitted.target - fitted.mean
    missed = []
    for i in range(fitted.n):
        rest = np.arange(fitted.n) != i
        guess = kernel[i, rest] @ np.linalg.solve(kernel[np.ix_(rest, rest)], centred[rest])
        missed.append(centred[i] - guess)
    assert fitted.r_squared == pytest.approx(1 - np.sum(np.square(missed)) / np.sum(centred**2), abs=1e-6)


def test_noise_is_not_explained():
    columns = space(seed=3)
    found = dependence(columns, np.random.default_rng(4).uniform(size=80), "Δ")
    assert found.surrogate.r_squared < 0.25
    assert not found.trusted


def test_partial_dependence_is_the_average_over_the_trials(columns, fitted):
    found = dependence(columns, bump(columns) + 0.1 * (columns["optimizer"] == "adam"), "Δ")
    curve = found.curves[0]
    others = fitted.columns[1:]
    for value, mean in zip(curve.values[::10], curve.mean[::10], strict=True):
        assert mean == pytest.approx(fitted.predict(np.full(fitted.n, value), *others).mean(), abs=1e-9)
    assert (curve.low <= curve.mean).all()
    surface = two_way(fitted, "rate", "optimizer")
    given = (np.full(fitted.n, surface.rows[3]), fitted.columns[1], np.full(fitted.n, "sgd"))
    place = list(surface.columns).index("sgd")
    assert surface.mean[3, place] == pytest.approx(fitted.predict(*given).mean(), abs=1e-9)


def test_the_curve_and_its_band_follow_the_truth(columns):
    found = dependence(columns, bump(columns), "Δ")
    curve = max(found.curves, key=lambda one: one.importance)
    assert curve.input.name == "rate"
    truth = bump({"rate": curve.values})
    assert np.abs(curve.mean - truth).max() < 0.03
    assert np.mean((truth >= curve.low) & (truth <= curve.high)) > 0.8


def test_h_tells_a_sum_from_a_product():
    rng = np.random.default_rng(5)
    a, b, c = rng.uniform(-1, 1, (3, 120))
    added = dependence({"a": a, "b": b, "c": c}, 0.3 + 0.1 * a + 0.1 * b**2, "Δ")
    multiplied = dependence({"a": a, "b": b, "c": c}, 0.3 + 0.2 * a * b, "Δ")
    assert max(one.strength for one in added.interactions) < 0.01
    strongest = multiplied.interactions[0]
    assert [one.name for one in strongest.inputs] == ["a", "b"]
    assert strongest.h > 0.9
    assert multiplied.surface.inputs == strongest.inputs


def test_the_order_of_trials_is_nothing(columns):
    target = bump(columns)
    order = np.random.default_rng(6).permutation(len(target))
    again = fit({name: column[order] for name, column in columns.items()}, target[order])
    once = fit(columns, target)
    assert again.lengths == once.lengths
    np.testing.assert_array_equal(again.weights, once.weights)


@pytest.fixture
def few_are_many(monkeypatch):
    """Lower limits on how many trials are fitted and learnt from: the time of a fit grows with their cube."""
    monkeypatch.setattr(surrogate, "MOST", 100)
    monkeypatch.setattr(surrogate, "MOST_LEARNT_FROM", 50)


@pytest.mark.usefixtures("few_are_many")
def test_incomplete_trials_are_left_out_and_many_are_sampled():
    columns = space(160)
    target = bump(columns)
    target[:5] = np.nan
    columns["batch"][5] = np.nan
    columns["optimizer"][6] = ""
    found = fit(columns, target)
    assert found.n == 100
    assert found.left_out == 60
    assert "" not in found.inputs[2].levels


@pytest.mark.usefixtures("few_are_many")
def test_a_hyperparameter_without_effect_is_seen_to_have_none_in_a_sorted_grid():
    """Every second trial of this grid has the same level of "idle", and half of them are learnt from."""
    rates = np.repeat(np.geomspace(1e-5, 1e-1, 50), 2)
    columns = {"idle": np.tile(["no", "yes"], 50), "rate": rates}
    noise = np.random.default_rng(0).normal(0, 0.01, len(rates))
    idle, rate = fit(columns, bump(columns) + noise).lengths
    assert idle > 10 * rate


def test_one_hyperparameter_has_a_curve_and_no_interaction():
    found = dependence({"rate": np.linspace(0, 1, 30)}, np.linspace(0, 1, 30) ** 2, "Δ")
    assert len(found.curves) == 1
    assert found.interactions == ()
    assert found.surface is None


def test_a_constant_target_is_no_crash_and_no_fit():
    found = dependence({"rate": np.linspace(0, 1, 30)}, np.full(30, 0.2), "Δ")
    assert found.surrogate.r_squared == 0
    np.testing.assert_allclose(found.curves[0].mean, 0.2)


def test_too_few_trials_are_refused_in_words():
    with pytest.raises(TooFewTrials, match=r"complete ones: 3, at least 20"):
        fit({"x": np.arange(3.0)}, np.arange(3.0))


def test_it_sees_a_hyperparameter_on_the_scale_that_it_is_told():
    rate = np.linspace(1.0, 30.0, 40)
    target = np.sin(3 * np.log(rate))
    linear, log = fit({"rate": rate}, target), fit({"rate": rate}, target, log={"rate"})
    assert not linear.inputs[0].log
    assert log.inputs[0].log
    np.testing.assert_allclose(log.predict(np.array([2.0, 7.0])), np.sin(3 * np.log([2.0, 7.0])), atol=0.02)
    found = dependence({"rate": rate}, target, "Δ", log={"rate"})
    np.testing.assert_allclose(np.diff(np.log(found.curves[0].values)), np.log(30) / 40)


@pytest.mark.slow
@pytest.mark.parametrize("jumps", [False, True])
def test_the_band_holds_most_of_the_true_curve_and_is_no_interval_of_95_percent(jumps):
    """As docs/bounds.md says: between 75 and 100 % of the points, over studies of 60 trials."""
    random = np.random.default_rng(0)

    def response(x, y):
        return (0.2 * (x > 0.5) if jumps else 0.1 * np.sin(3 * x)) + 0.05 * y

    covered = []
    for _ in range(8):
        x, y = random.random((2, 60))
        found = dependence({"x": x, "y": y}, response(x, y) + random.normal(0, 0.03, 60), "d", log=())
        curve = next(one for one in found.curves if one.input.name == "x")
        true = np.array([response(value, y).mean() for value in curve.values])
        covered.append(np.mean((curve.low <= true) & (true <= curve.high)))
    assert np.mean(covered) > 0.7
