"""Steps of two linear layers in plain numpy beside each other. `make mutants` runs these.

A's weight is (2, 3) and B's (3, 2), so that the map between them turns it.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.numerics.rounding import FACTOR
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.live.live_training import NotSwitchable
from zoolens.training.pairs.lockstep.departures import PairedSteps, _disturbed_batch, _in_order, _ratio
from zoolens.training.pairs.lockstep.floors import LEAST
from zoolens.training.pairs.loop.trainable_sides import TrainableSide
from zoolens.training.pairs.mapping.gate_tensors import BiasSum
from zoolens.training.pairs.mapping.origins import Origin
from zoolens.training.pairs.mapping.parameter_map import Move, ParameterMap

A, B = ("fc.weight", "fc.bias"), ("dense/kernel", "dense/bias")
MAP = ParameterMap(
    (
        Move(Origin(A[0], (2, 3), (1, 0)), Origin(B[0], (3, 2), (0, 1)), "kernel", ("fc", "dense"), ""),
        Move(Origin(A[1], (2,), (0,)), Origin(B[1], (2,), (0,)), "bias", ("fc", "dense"), ""),
    ),
    (),
    (),
)
START = {A[0]: np.array([[1.0, -2.0, 0.5], [0.25, 1.5, -1.0]], np.float32), A[1]: np.array([0.5, -0.5], np.float32)}


class Linear(TrainableSide):
    """A dense layer, half the mean square and plain SGD. `rates`: of weight and bias; nought: not learned. `scale`: of
    the loss. `draws`: noise on the answers, by the seed. `coarse`: what float32 alone adds to them. `fails`: what a
    step in float64 raises."""

    def __init__(self, names, *, rates=(0.1, 0.1), scale=1.0, draws=0.0, coarse=0.0, precision="float32",
                 switchable=True, fails=None):  # fmt: skip
        self.names, self._turned = names, names is B
        self._rates, self._scale, self._draws, self._fails = rates, scale, draws, fails
        self._switchable, self.precision = switchable, precision
        self.values = {names[0]: np.zeros((3, 2) if self._turned else (2, 3), np.float32), names[1]: np.zeros(2)}
        self._coarse, self.began, self.kept = coarse, [], []

    def begin(self, seed, *, fresh=True):
        self.began.append((seed, fresh))
        self._generator = np.random.default_rng(seed)

    def tensors(self):
        return {name: array.copy() for name, array in self.values.items()}

    def assign(self, values):
        self.values |= {name: array.copy() for name, array in values.items()}

    def settings(self):
        return {"precision": self.precision}

    def switch(self, name, value):
        assert name == "precision"
        if not self._switchable:
            raise NotSwitchable("no")
        self.precision = value

    def captured_step(self, batch, *, keep=True):
        self.kept.append(keep)
        if self._fails is not None and self.precision == "float64":
            raise self._fails
        x, kernel, bias = (
            np.asarray(array, self.precision)
            for array in (batch.inputs[0], self.values[self.names[0]], self.values[self.names[1]])
        )
        kernel = kernel.T if self._turned else kernel
        answers = x @ kernel.T + bias + (self._coarse if self.precision == "float32" else 0.0)
        answers = answers + (self._draws * self._generator.standard_normal(answers.shape)).astype(answers.dtype)
        error = answers - batch.targets.astype(answers.dtype)
        down = self._scale * error / len(x)
        gradients = [down.T @ x, down.sum(0)]
        gradients[0] = gradients[0].T if self._turned else gradients[0]
        capture = {"activation/" + ("dense" if self._turned else "fc"): answers, "output/0": answers,
                   "loss": np.asarray(self._scale * np.sum(error**2) / 2 / len(x))}  # fmt: skip
        for name, gradient, rate in zip(self.names, gradients, self._rates, strict=True):
            if rate:
                capture[f"gradient/{name}"] = gradient
                self.values[name] = (self.values[name] - rate * gradient).astype(self.precision)
        capture |= {f"tensor/{name}": self.values[name].copy() for name in self.names}
        return capture if keep else {}


Linear.__abstractmethods__ = frozenset()  # steps call nothing else of a side


def batches(count=3, seed=0, size=5):
    drawn = np.random.default_rng(seed).standard_normal
    return [
        TrainingBatch((drawn((size, 3)).astype(np.float32),), drawn((size, 2)).astype(np.float32)) for _ in range(count)
    ]


def paired(a=None, b=None, *, steps=(1, 2), **more):
    return PairedSteps(a or Linear(A), b or Linear(B), MAP, batches(), steps, START, **more)


def compared(pair):
    a, b = pair.run_a(), pair.run_b()
    pair.measure_floors(a, "a", range(2))
    pair.measure_floors(b, "b", range(2))
    return pair.compared(a, b)


def blind(found):
    return sum(row.blind for row in found.rows)


def test_a_faithful_pair_departs_nowhere():
    found = compared(paired())
    assert [row.step for row in found.rows] == [1] * 7 + [2] * 7
    assert [row.place for row in found.rows] == [*range(7), *range(7)]
    assert {row.verdict() for row in found.rows} == {"within"}
    assert (found.departure, found.weights_agree, found.changed, found.lost) == (None, True, frozenset(A), ())


def test_another_learning_rate_shows_in_the_first_changed_tensor():
    found = compared(paired(b=Linear(B, rates=(0.2, 0.2))))
    assert found.departure.sides == (found.departure.apart,)
    assert found.departure.position == (1, 5)
    assert (found.departure.kind, found.departure.name) == ("tensor", A[0])
    assert found.departure.ratio == pytest.approx(2.0, rel=1e-3)
    assert found.departure.floor < found.departure.apart.error
    assert not found.weights_agree
    assert (len(found.rows), blind(found)) == (14, 0)


def test_of_a_later_step_the_change_of_a_tensor_has_no_ratio():
    found = compared(paired(b=Linear(B, rates=(0.2, 0.2)), steps=(2, 3)))
    assert found.departure.position == (2, 0)
    pair = paired(b=Linear(B, rates=(0.2, 0.2)), steps=(2,))
    a, b = pair.run_a(), pair.run_b()
    others = [f"{kind}/{name}" for kind in ("gradient",) for name in A]
    pair.floors = {(2, ("activation", "fc")): 2.0, (2, ("output", "0")): 2.0, (2, ("loss", "")): 2.0}
    pair.floors |= {(2, tuple(name.split("/", 1))): 2.0 for name in others}
    found = pair.compared(a, b)
    assert (found.departure.kind, found.departure.ratio) == ("tensor", None)
    assert (len(found.rows), blind(found)) == (7, 5)


def test_a_scaled_loss_has_its_factor():
    found = compared(paired(b=Linear(B, scale=2.0)))
    assert (found.departure.kind, found.departure.name, found.departure.position) == ("loss", "", (1, 2))
    assert found.departure.ratio == pytest.approx(2.0)


def test_gradients_that_depart_count_where_the_tensor_hardly_changes():
    """The gradients are twice as large, and half the rate makes the same weights of them."""
    found = compared(paired(b=Linear(B, scale=2.0, rates=(0.05, 0.05))))
    assert found.weights_agree
    still = compared(paired(Linear(A, rates=(1e-12, 1e-12)), Linear(B, scale=2.0, rates=(1e-12, 1e-12))))
    assert not still.weights_agree  # nothing has changed by more than rounding
    assert still.changed == frozenset()


def test_quantities_that_rounding_moves_by_their_size_tell_nothing():
    pair = paired(steps=(1,))
    a, b = pair.run_a(), pair.run_b()
    pair.floors = {(1, ("tensor", name)): 1.0 for name in A}
    found = pair.compared(a, b)
    assert (len(found.rows), blind(found), found.lost) == (7, 2, A)
    pair.floors |= {(1, ("gradient", name)): 1.0 for name in A}
    assert pair.compared(a, b).lost == ()  # nothing but rounding in their gradients
    pair.floors[1, ("loss", "")] = 1.0
    assert pair.compared(a, b).lost == A


# --- floors


def test_floors_are_the_farthest_of_the_disturbed_runs():
    pair = paired(steps=(1,))
    exact = pair.run_a()
    pair.measure_floors(exact, "a", range(1, 2))
    noisy = pair.run_a(1)[1]["output/0"]
    moved = np.sqrt(np.mean((noisy - exact[1]["output/0"]) ** 2)) / np.sqrt(np.mean(exact[1]["output/0"] ** 2))
    assert pair.floors[1, ("output", "0")] == pytest.approx(FACTOR * moved, rel=1e-2)
    assert (1, ("tensor", A[0])) in pair.floors
    before = dict(pair.floors)
    pair.measure_floors(exact, "a", range(2, 4))
    assert all(pair.floors[key] >= floor for key, floor in before.items())
    assert pair.floors != before


def test_floors_of_b_have_the_names_of_a():
    pair = paired(steps=(1,))
    pair.measure_floors(pair.run_b(), "b", range(1, 3))
    assert set(pair.floors) == {
        (1, key) for key in (("activation", "fc"), ("output", "0"), ("loss", ""), *((k, n) for k in (
            "gradient", "tensor") for n in A))
    }  # fmt: skip
    assert all(LEAST <= floor < 1e-3 for floor in pair.floors.values())


def test_a_margin_makes_floors_wider_but_never_blind():
    pair = paired(margin=10.0)
    pair.floors = {(1, ("loss", "")): 1e-3, (2, ("loss", "")): 0.5, (3, ("loss", "")): 1.5}
    assert [pair._floor(step, ("loss", "")) for step in (1, 2, 3)] == pytest.approx([1e-2, 0.99, 1.5])
    assert pair._floor(1, ("output", "0")) == pytest.approx(10 * LEAST)
    pair.floors[1, ("output", "0")] = 1.0
    assert pair._floor(1, ("output", "0")) == 1.0


def test_the_run_in_float64_counts_with_the_first_disturbed_run():
    side = Linear(A)
    pair = paired(side, steps=(1,))
    exact = pair.run_exactly("a")
    assert exact[1]["output/0"].dtype == np.float64
    assert side.precision == "float32"
    assert pair.run_exactly("b")[1]["output/0"].dtype == np.float64
    biased = paired(Linear(A, fails=ValueError("no")), steps=(1,))
    assert biased.run_exactly("a") is None
    assert biased.a.precision == "float32"
    biased.measure_floors(biased.run_a(), "a", range(1))
    assert biased.floors


def test_an_error_of_float32_that_no_disturbance_shows_is_in_the_floor():
    pair = paired(Linear(A, coarse=0.1), Linear(B, coarse=0.1), steps=(1,))
    answers = 1, ("output", "0")
    pair.measure_floors(pair.run_a(), "a", range(1, 3))
    assert pair.floors[answers] < 1e-4
    pair.measure_floors(pair.run_a(), "a", range(0))
    assert pair.floors[answers] > 1e-2
    pair.floors.clear()
    pair.measure_floors(pair.run_b(), "b", range(0))
    assert pair.floors[answers] > 1e-2
    pair.floors.clear()
    pair.measure_floors(pair.run_a(), "a", range(1, 1))
    assert pair.floors == {}


def test_a_side_that_cannot_compute_in_float64_has_no_exact_run():
    assert paired(Linear(A, switchable=False)).run_exactly("a") is None
    assert paired(b=Linear(B, precision="float64")).run_exactly("b") is None


# --- runs


def test_every_run_begins_from_the_same_weights_and_seed():
    side = Linear(A)
    pair = paired(side, steps=(2,))
    first, second = pair.run_a(), pair.run_a()
    assert list(first) == [2]
    assert np.array_equal(first[2]["tensor/fc.weight"], second[2]["tensor/fc.weight"])
    assert side.began == [(0, False), (0, False)]
    moved = pair.run_b()
    assert np.allclose(moved[2]["tensor/dense/kernel"], first[2]["tensor/fc.weight"].T, atol=1e-6)


def test_a_disturbed_run_has_its_answers_in_the_order_of_the_samples():
    pair = paired()
    exact, noisy = pair.run_a(), pair.run_a(3)
    for step in (1, 2):
        for name, array in exact[step].items():
            assert np.allclose(noisy[step][name], array, atol=1e-3), name
            assert not np.array_equal(noisy[step][name], array), name
    assert np.array_equal(pair.run_a(3)[1]["loss"], noisy[1]["loss"])
    assert not np.array_equal(pair.run_b(3)[1]["loss"], pair.run_b()[1]["loss"])


def test_only_the_steps_that_are_compared_are_kept():
    side = Linear(A)
    pair = paired(side, steps=(2,))
    assert [[*pair.run_a()], [*pair.run_a(1)]] == [[2], [2]]
    assert side.kept == [False, True, False, True]  # and none behind the last


@pytest.mark.parametrize("side", ["A", "B"])
def test_second_biases_are_set_back_after_every_step(side):
    of_a, of_b = Origin(A[1], (2,), (0,)), Origin(B[1], (2,), (0,))
    layers = "fc", "dense"
    sums = {"sums": (BiasSum(of_a, of_b, layers),)} if side == "A" else {"added": (BiasSum(of_b, of_a, layers),)}
    pair = PairedSteps(Linear(A), Linear(B), replace(MAP, **sums), batches(), (1, 2), START, single_biases=True)
    assert pair.second_biases == side
    captures, names = (pair.run_a(), A) if side == "A" else (pair.run_b(), B)
    for step in (1, 2):
        assert np.array_equal(captures[step][f"tensor/{names[1]}"], START[A[1]])
    assert not np.allclose(captures[2][f"tensor/{names[0]}"], captures[1][f"tensor/{names[0]}"])
    other = pair.run_b()[2][f"tensor/{B[1]}"] if side == "A" else pair.run_a()[2][f"tensor/{A[1]}"]
    assert not np.array_equal(other, START[A[1]])
    assert paired().second_biases == ""


def test_b_may_have_batches_of_its_own():
    other = batches(seed=1)
    assert compared(paired(batches_b=other)).departure.position == (1, 0)
    assert compared(paired(batches_b=batches())).departure is None
    assert np.array_equal(paired(batches_b=other).run_a()[1]["loss"], paired().run_a()[1]["loss"])


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5)])
def test_a_side_that_draws_is_found(a, b):
    pair = paired(Linear(A, draws=a), Linear(B, draws=b), steps=(2,))  # the first step tells, whichever are compared
    assert pair.draws_at_random("a") is bool(a)
    assert pair.draws_at_random("b") is bool(b)


def test_draws_as_small_as_roundings_are_none():
    assert not paired(Linear(A, draws=1e-5)).draws_at_random("a")


def test_a_tensor_that_one_side_does_not_learn_is_named():
    pair = paired(b=Linear(B, rates=(0.1, 0.0)))
    assert pair.unlearned(pair.run_a(), pair.run_b()) == (A[1],)
    same = paired()
    assert same.unlearned(same.run_a(), same.run_b()) == ()


# --- parts


def test_a_disturbed_batch_is_the_same_one_in_another_order():
    numbers = np.arange(4, dtype=np.int64)
    batch = TrainingBatch((batches(size=4)[0].inputs[0], numbers), numbers, ends_epoch=True)
    order = np.array([2, 0, 3, 1])
    found = _disturbed_batch(batch, np.random.default_rng(0), order)
    assert found.inputs[1].tolist() == found.targets.tolist() == order.tolist()
    assert np.allclose(found.inputs[0], batch.inputs[0][order], rtol=1e-5)
    assert not np.array_equal(found.inputs[0], batch.inputs[0][order])
    assert found.inputs[0].flags["C_CONTIGUOUS"]
    assert found.ends_epoch


def test_answers_return_to_the_order_of_their_samples():
    order = np.array([2, 0, 1])
    given = np.array([20, 0, 10])
    assert _in_order("output/0", given, order).tolist() == [0, 10, 20]
    assert _in_order("activation/fc", given, order).tolist() == [0, 10, 20]
    assert _in_order("gradient/w", given, order).tolist() == [20, 0, 10]
    rows = np.array([[4, 5], [40, 50], [0, 1], [6, 7], [2, 3], [9, 9]])  # two rows of each sample
    assert _in_order("output/0", rows, order).tolist() == [[0, 1], [6, 7], [2, 3], [9, 9], [4, 5], [40, 50]]
    assert _in_order("output/0", np.arange(4), order).tolist() == [0, 1, 2, 3]
    assert _in_order("output/0", np.asarray(7), order) == 7


@pytest.mark.parametrize(
    ("a", "b", "slack", "factor"),
    [
        ([1.0, 2.0], [3.0, 6.0], 1e-9, 3.0),
        ([1.0, 2.0], [3.0, 6.1], 1e-9, None),
        ([1.0, 2.0], [3.0, 6.1], 0.1, 15.2 / 5),
        ([1.0, 2.0], [-1.0, -2.0], 1e-9, -1.0),
        ([0.0, 0.0], [1.0, 2.0], 9.0, None),
        ([1.0, 2.0], [0.0, 0.0], 9.0, None),
        ([1.0, math.nan], [1.0, 2.0], 9.0, None),
        ([1.0, 2.0], [1.0, math.inf], 9.0, None),
        ([1.0, 2.0], [[1.0, 2.0]], 9.0, None),
        ([[1.0], [2.0]], [[2.0], [4.0]], 0.0, 2.0),
    ],
)
def test_the_factor_between_two_arrays(a, b, slack, factor):
    found = _ratio(np.array(a, np.float32), np.array(b, np.float32), slack)
    assert found == (None if factor is None else pytest.approx(factor, rel=1e-6))
