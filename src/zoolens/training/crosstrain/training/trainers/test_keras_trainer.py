"""Both backends as a study uses them, each in its process; numbers against arithmetic done here and against torch."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import ConstraintError, ModelError
from zoolens.training.crosstrain.training.architectures import build, parameters
from zoolens.training.crosstrain.training.initial import initial_weights
from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.recipe import Optimizer, Recipe
from zoolens.training.crosstrain.training.trainers.keras_building import HABITS
from zoolens.training.crosstrain.training.weights import read_weights, write_weights
from zoolens.training.pairs.data.epoch_order import batches
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.semantics import Semantics

pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")
BACKENDS = ("tensorflow", "jax")
SHAPE = (2, 12, 12)  # channels, height, width
CLASSES = 4


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Images whose mean tells their class, so that there is something to learn; 90 = 2 batches of 40 and a rest."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", 90), ("test", 37)):
        labels = (np.arange(count) % CLASSES).astype(np.int32)
        noise = rng.integers(0, 60, (count, *SHAPE[1:], SHAPE[0]))
        arrays[f"{part}_x"] = (noise + 60 * labels[:, None, None, None]).astype(np.uint8)
        arrays[f"{part}_y"] = labels
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder, TrainData(**arrays, classes=CLASSES)


def recipe(**settings):
    told = {"architecture": "mlp", "learning_rate": 0.01, "batch_size": 40, "epochs": 2, "seed": 3}
    return Recipe(**told | settings)


def job(told, framework, data, output, **settings):
    settings = {"threads": 1, **settings}
    return Job(recipe=told, framework=framework, semantics=told.wanted, data=data[0], output=output, **settings)


def shared(told, folder):
    network = build(told.architecture, told.wanted.over(HABITS), SHAPE, CLASSES)
    weights = initial_weights(network, told.wanted, told.seed)
    write_weights(folder / "first.safetensors", weights)
    return folder / "first.safetensors", weights


def captured(workers, told, framework, data, folder, *steps, **settings):
    weights, _ = shared(told, folder)
    output = folder / framework
    outcome, _ = workers.train(job(told, framework, data, output, weights=weights, capture=steps, **settings))
    assert outcome.status == "finished", outcome.message
    assert outcome.steps == max(steps)
    return [read_weights(output / f"capture-{step}.safetensors") for step in steps]


def programs():
    """What JAX has compiled and kept for processes of one thread."""
    return set((Path(os.environ["JAX_COMPILATION_CACHE_DIR"]) / "threads-1").glob("*-cache"))


def mlp_step(weights, x, y):
    """Loss and gradients of the MLP by hand, in float64."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    rows = x.transpose(0, 3, 1, 2).reshape(len(x), -1) / 255
    before, after = [rows], []
    for layer in ("dense1", "dense2", "logits"):
        after.append(before[-1] @ w[f"{layer}.kernel"].T + w[f"{layer}.bias"])
        before.append(np.maximum(after[-1], 0))
    scores = after[-1] - after[-1].max(1, keepdims=True)
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    loss = -np.log(chances[np.arange(len(y)), y]).mean()
    back = (chances - np.eye(CLASSES)[y]) / len(y)
    gradients = {}
    for place, layer in reversed(list(enumerate(("dense1", "dense2", "logits")))):
        gradients |= {f"{layer}.kernel": back.T @ before[place], f"{layer}.bias": back.sum(0)}
        if place:
            back = back @ w[f"{layer}.kernel"] * (after[place - 1] > 0)
    return loss, gradients


def updated(rule, weight, gradient, decay):
    """Adam as its authors write it, with the epsilon of the tests; one step."""
    gradient = gradient + decay * weight.astype(np.float64)
    first, second = 0.1 * gradient, 0.001 * gradient**2
    if rule == "outside":
        step = first / 0.1 / (np.sqrt(second / 0.001) + 1e-3)
    else:
        step = first * np.sqrt(0.001) / 0.1 / (np.sqrt(second) + 1e-3)
    return weight - 0.01 * step, first, second


@pytest.mark.parametrize("framework", BACKENDS)
@pytest.mark.parametrize("rule", ["outside", "inside"])
def test_a_step_of_the_mlp_is_what_arithmetic_says(workers, data, tmp_path, framework, rule):
    told = recipe(
        precision="float64",
        optimizer=Optimizer(epsilon=1e-3, weight_decay=0.1),
        semantics=Semantics(adam_rule=rule),
    )
    (found,) = captured(workers, told, framework, data, tmp_path, 1)
    _, weights = shared(told, tmp_path)
    epoch = batches(data[1], told, 1)
    loss, gradients = mlp_step(weights, epoch.x[:40], epoch.y[:40])
    assert found["loss"] == pytest.approx(loss, rel=1e-12)
    for name, gradient in gradients.items():
        tensor, first, second = updated(rule, weights[name], gradient, 0.1)
        assert np.allclose(found[f"gradient/{name}"], gradient, rtol=1e-9, atol=1e-14)
        assert np.allclose(found[f"first/{name}"], first, rtol=1e-9, atol=1e-14)
        assert np.allclose(found[f"second/{name}"], second, rtol=1e-9, atol=1e-18)
        # on TensorFlow, Keras' own Adam takes its betas in float32 whatever the precision
        assert np.allclose(found[f"tensor/{name}"], tensor, rtol=0, atol=1e-9 if rule == "outside" else 1e-6)


@pytest.mark.parametrize("framework", BACKENDS)
def test_momentum_is_torchs_buffer(workers, data, tmp_path, framework):
    told = recipe(precision="float64", optimizer=Optimizer(name="sgd", momentum=0.9))
    one, two = captured(workers, told, framework, data, tmp_path, 1, 2)
    name = "dense2.kernel"
    assert np.allclose(one[f"first/{name}"], one[f"gradient/{name}"])
    assert np.allclose(two[f"first/{name}"], 0.9 * one[f"gradient/{name}"] + two[f"gradient/{name}"])
    assert np.allclose(two[f"tensor/{name}"], one[f"tensor/{name}"] - 0.01 * two[f"first/{name}"])
    assert not any(key.startswith("second/") for key in two)


# Both backends build their layers by the same code, and JAX compiles each of them: it follows in the slow tests.
@pytest.mark.parametrize("framework", ["tensorflow", pytest.param("jax", marks=pytest.mark.slow)])
@pytest.mark.parametrize("architecture", [pytest.param("lenet", marks=pytest.mark.slow), "convnorm"])
def test_all_frameworks_compute_the_same_when_told_the_same(workers, data, tmp_path, architecture, framework):
    """Strides with symmetric padding, pools, norms, flatten: in float64 nothing but rounding is left, apart from the
    running variance, which torch takes with n − 1."""
    pytest.importorskip("torch")
    told = recipe(architecture=architecture, precision="float64", weights="shared", batch_size=24)
    reference = captured(workers, told, "torch", data, tmp_path, 1, 3, loop="eager")
    for ours, theirs in zip(captured(workers, told, framework, data, tmp_path, 1, 3), reference, strict=True):
        assert ours.keys() == theirs.keys()
        for name, values in theirs.items():
            tolerance = 0.05 if name.endswith(".variance") else 1e-8
            assert np.allclose(ours[name], values, rtol=tolerance, atol=1e-8), name


UPDATES = {
    "rmsprop": {
        "schedule": {"name": "step", "every": 1, "factor": 0.5}, "loss": "binary_cross_entropy",
        "label_smoothing": 0.1, "semantics": Semantics(reduction="sum"),
        "optimizer": Optimizer(name="rmsprop", momentum=0.9, centered=True, epsilon=1e-3, weight_decay=0.01),
    },
    "sgd": {
        "schedule": {"name": "cosine", "warmup": 1}, "semantics": Semantics(momentum_rate="past"),
        "label_smoothing": 0.1, "optimizer": Optimizer(name="sgd", momentum=0.9, nesterov=True),
    },
    "adagrad": {
        "loss": "mse", "optimizer": Optimizer(name="adagrad", weight_decay=0.01),
        "semantics": Semantics(root_rule="under", root_epsilon=1e-3, adagrad_start=0.1, weight_decay="independent"),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "update",
    [pytest.param(name, marks=[pytest.mark.slow] if name in ("rmsprop", "adagrad") else []) for name in UPDATES],
)  # test_keras_building.py holds the rule of each against arithmetic
def test_all_frameworks_update_alike_when_told_the_same(workers, data, tmp_path, update):
    pytest.importorskip("torch")
    told = recipe(precision="float64", weights="shared", batch_size=24, **UPDATES[update])
    steps = (2, 4, 6)  # the fourth batch is the last one of its epoch, and smaller
    reference = captured(workers, told, "torch", data, tmp_path, *steps, loop="eager")
    assert update != "rmsprop" or "average/logits.kernel" in reference[0]
    for framework in BACKENDS:
        for ours, theirs in zip(captured(workers, told, framework, data, tmp_path, *steps), reference, strict=True):
            assert ours.keys() == theirs.keys()
            for name, values in theirs.items():  # Keras keeps the learning rate in float32
                assert np.allclose(ours[name], values, rtol=1e-5, atol=1e-7), (framework, name)


@pytest.mark.slow  # the contract of trainers asks for it, too (test_contract.py)
@pytest.mark.parametrize("framework", BACKENDS)
def test_a_job_repeats_itself_to_the_last_bit(workers, data, tmp_path, framework):
    told = recipe(mode="library", semantics=Semantics(dropout=0.2))
    heard = []
    outcome, predictions = workers.train(job(told, framework, data, tmp_path / "one"), heard.append)
    compiled = programs()
    again, same = workers.train(job(told, framework, data, tmp_path / "two"))
    assert compiled or framework != "jax"
    assert programs() == compiled  # nothing was compiled a second time
    assert outcome.status == "finished"
    assert outcome.steps == 6
    assert heard == list(outcome.epochs)
    assert outcome.epochs[-1].correct == (predictions == data[1].test_y).sum()
    assert outcome.epochs[-1].total == 37
    assert [epoch.loss for epoch in outcome.epochs] == [epoch.loss for epoch in again.epochs]
    assert np.array_equal(predictions, same)


@pytest.mark.parametrize("framework", ["tensorflow", pytest.param("jax", marks=pytest.mark.slow)])
def test_what_keras_decides_is_read_from_its_layers(workers, data, tmp_path, framework):
    told = recipe(architecture="convnorm", mode="library", epochs=1, batch_size=45)
    outcome, _ = workers.train(job(told, framework, data, tmp_path, keep_weights=True))
    assert outcome.semantics == Semantics(
        norm_momentum=0.99,
        norm_epsilon=1e-3,
        init="glorot_uniform",
        bias_init="zeros",
        conv_bias=True,
        dropout=0.0,
        padding="same",
        adam_rule="inside",
        adam_epsilon=1e-7,
    )
    network = build("convnorm", told.wanted.over(HABITS), SHAPE, CLASSES)
    weights = read_weights(tmp_path / "weights.safetensors")
    assert {name: array.shape for name, array in weights.items()} == {
        name: array.shape for name, array in initial_weights(network, told.wanted, 0).items()
    }
    assert outcome.parameters == parameters(network)
    assert not np.array_equal(weights["conv1_norm.mean"], np.zeros(16))


@pytest.mark.parametrize("framework", BACKENDS)
def test_a_loss_that_is_not_finite_is_a_result(workers, data, tmp_path, framework):
    told = recipe(learning_rate=1e30, optimizer=Optimizer(name="sgd"))
    outcome, predictions = workers.train(job(told, framework, data, tmp_path))
    assert outcome.status == "non-finite"
    assert outcome.message == "The loss of step 2 is not finite."
    assert outcome.epochs[-1].loss is None
    assert len(outcome.epochs) == 1
    assert len(predictions) == 37


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_half_precision_trains_and_leaves_the_next_job_alone(workers, data, tmp_path, framework):
    plain, half, double = (recipe(batch_size=90, precision=kind) for kind in ("float32", "bfloat16", "float64"))
    before, _ = workers.train(job(plain, framework, data, tmp_path / "before"))
    rough, _ = workers.train(job(half, framework, data, tmp_path / "half"))
    workers.train(job(double, framework, data, tmp_path / "double"))
    after, _ = workers.train(job(plain, framework, data, tmp_path / "after"))
    assert rough.status == "finished"
    assert rough.epochs[0].loss == pytest.approx(before.epochs[0].loss, rel=0.05)
    assert rough.epochs[0].loss != before.epochs[0].loss
    assert [epoch.loss for epoch in after.epochs] == [epoch.loss for epoch in before.epochs]


def test_jax_says_why_it_has_no_eager_loop(workers, data, tmp_path):
    with pytest.raises(ConstraintError, match="no eager loop"):
        workers.train(job(recipe(), "jax", data, tmp_path, loop="eager"))


@pytest.mark.parametrize(
    ("architecture", "batch_size"), [pytest.param("convnorm", 40, marks=pytest.mark.slow), ("mlp", 1000)]
)
def test_a_graph_of_all_steps_is_the_eager_loop(workers, data, tmp_path, architecture, batch_size):
    """Dropout, statistics of norms, decay and the smaller last batch: in float64 only rounding is left."""
    told = recipe(
        architecture=architecture,
        mode="library",
        epochs=1,
        precision="float64",
        batch_size=batch_size,
        semantics=Semantics(dropout=0.3),
        optimizer=Optimizer(weight_decay=1e-3),
    )
    loops = ("eager", "compiled")
    losses = []
    for loop in loops:
        asked = job(told, "tensorflow", data, tmp_path / loop, loop=loop, keep_weights=True)
        losses.append([epoch.loss for epoch in workers.train(asked)[0].epochs])
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    eager, graph = (read_weights(tmp_path / loop / "weights.safetensors") for loop in loops)
    for name, values in eager.items():
        assert np.allclose(graph[name], values, rtol=0, atol=1e-8), name


@pytest.mark.parametrize("framework", BACKENDS)
def test_weights_of_another_network_are_refused(workers, data, tmp_path, framework):
    path, weights = shared(recipe(), tmp_path)
    with pytest.raises(ModelError, match="dense1"):
        workers.train(job(recipe(architecture="convnorm"), framework, data, tmp_path, weights=path))
    write_weights(path, {**weights, "dense2.kernel": np.zeros((3, 5), np.float32)})
    with pytest.raises(ModelError, match=r"dense2\.kernel has the shape 3×5 in the weights and 128×128"):
        workers.train(job(recipe(), framework, data, tmp_path, weights=path))
