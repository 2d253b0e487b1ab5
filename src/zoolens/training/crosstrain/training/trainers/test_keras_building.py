"""Live models, loops and limits of memory on both backends. This file's functions named `check_…` run in a process that
has Keras on one of them, all of a backend in the same one."""

import json
import os
import resource
import subprocess
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import ConstraintError
from zoolens.base.store.records import DatasetRecord
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.initial import initial_weights
from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.network import Layer, Network
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.crosstrain.training.trainers.registry import trainer_named
from zoolens.training.pairs.data.epoch_order import EpochBatches
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.semantics import ALIGNED, Semantics

pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")
# In this order; what limits the memory of the process comes last.
CHECKS = {
    "tensorflow": (
        "check_live_model", "check_other_backend", "check_windows", "check_shipped", "check_update_rules",
        "check_no_room",
    ),
    "jax": ("check_other_backend", "check_whole_epoch", "check_update_rules", "check_no_room"),
    "jax alone": ("check_live_model",),  # JAX compiles a program for every layer of it
}  # fmt: skip


ANSWERS = "TORCH_ANSWERS"  # the variable that names the file of torch's answers


def main(checks):
    """Print what each check of a backend raised, or None."""
    raised = {}
    for name in CHECKS[checks]:
        try:
            globals()[name](checks.partition(" ")[0])
            raised[name] = None
        except Exception:
            raised[name] = traceback.format_exc()
    print(json.dumps(raised))


# The quick suite trains with both in test_keras_trainer.py and test_contract.py. Here all checks of a backend take half
# a minute: JAX compiles a program for every operation.
TENSORFLOW, JAX = (pytest.param(name, marks=pytest.mark.slow) for name in ("tensorflow", "jax"))


@pytest.fixture(scope="module")
def torch_answers(tmp_path_factory):
    """The file of what torch answers: the process of the tests has imported it already."""
    torch = pytest.importorskip("torch")
    recipe, weights, images = live_case()
    answers = live_model("torch", recipe, weights)(torch.from_numpy(images.transpose(0, 3, 1, 2)))
    path = tmp_path_factory.mktemp("torch") / "answers.npy"
    np.save(path, answers.detach().numpy())
    return path


@pytest.fixture(scope="module", params=(TENSORFLOW, JAX))
def raised(request, torch_answers):
    """By check: what it raised."""
    code = (
        f"from zoolens.training.crosstrain.training.trainers import test_keras_building as t; t.main('{request.param}')"
    )
    variables = trainer_named(request.param.partition(" ")[0]).variables
    variables = {**variables, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", ANSWERS: str(torch_answers)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def live_model(framework, recipe, weights):
    data = DatasetRecord("d", "d", 1, {"classes": 4, "image": [8, 8, 1]})
    return trainer_named(framework)().live_model(SideRecipe(framework, recipe, ALIGNED, data), weights)


def live_case():
    recipe = Recipe(architecture="convnorm", learning_rate=1, batch_size=1, epochs=1)
    weights = initial_weights(build("convnorm", ALIGNED, (1, 8, 8), 4), ALIGNED, 3)
    return recipe, weights, np.random.default_rng(0).random((5, 8, 8, 1), np.float32)


def check_live_model(backend):
    recipe, weights, images = live_case()
    theirs = np.load(os.environ[ANSWERS])
    ours = np.asarray(live_model(backend, recipe, weights)(images, training=False))
    assert np.allclose(ours, theirs, atol=1e-4), (ours, theirs)
    assert ours.std() > 0.01


def tiny_job(framework):
    recipe = Recipe(architecture="mlp", learning_rate=0.01, batch_size=40, epochs=1, weights="shared")
    return Job(recipe=recipe, framework=framework, semantics=recipe.wanted, data=Path(), output=Path())


def check_other_backend(backend):
    """Keras chooses its backend once; whoever asks for the other one is told."""
    (other,) = {"tensorflow", "jax"} - {backend}
    job = tiny_job(other)
    for ask in (
        lambda: trainer_named(other)().train(job, None, None, print),
        lambda: live_model(other, job.recipe, {}),
    ):
        with pytest.raises(ConstraintError, match=f"needs Keras on {other}; Keras runs on {backend} in this process"):
            ask()


def window(values, kind, kernel, stride, padding):
    """What a window answers over one channel, place by place."""
    size = len(values)
    if padding == "same":
        out = -(-size // stride)
        total = max((out - 1) * stride + kernel - size, 0)
        border = (total // 2, total - total // 2)
    else:
        border = (kernel // 2,) * 2 if padding == "symmetric" else (0, 0)
    fill = -np.inf if kind == "max_pool" else 0.0
    padded = np.pad(values, (border, border), constant_values=fill)
    counted = np.pad(np.ones_like(values), (border, border), constant_values=float(padding == "symmetric"))
    starts = range(0, len(padded) - kernel + 1, stride)
    cells = [[np.s_[i : i + kernel, j : j + kernel] for j in starts] for i in starts]
    if kind == "max_pool":
        return np.array([[padded[cell].max() for cell in row] for row in cells])
    return np.array([[padded[cell].sum() / counted[cell].sum() for cell in row] for row in cells])


def check_windows(_):
    """Below zero everywhere, so that a border of zeros would win."""
    from zoolens.training.crosstrain.training.trainers.keras_building import build_model

    image = -1 - np.random.default_rng(0).random((6, 6)).astype(np.float32)
    for kind in ("max_pool", "avg_pool"):
        for padding in ("symmetric", "same", "valid"):
            for kernel, stride in ((3, 2), (3, 1), (2, 2)):
                wanted = window(image, kind, kernel, stride, padding)
                told = {"kernel": kernel, "stride": stride, "padding": padding}
                layers = (Layer("input", "input", (), (1, 6, 6)), Layer("pool", kind, ("input",), (1, 3, 3), told))
                found = np.asarray(build_model(Network("one", layers)).model(image[None, :, :, None]))[0, :, :, 0]
                assert found.shape == wanted.shape, (kind, told)
                assert np.allclose(found, wanted, atol=1e-6), (kind, told)


def check_whole_epoch(_):
    from zoolens.training.crosstrain.training.trainers.keras_building import build_model
    from zoolens.training.crosstrain.training.trainers.keras_jax import JaxLoop
    from zoolens.training.crosstrain.training.trainers.keras_optimizers import make_optimizer

    layers = (
        Layer("input", "input", (), (1, 4, 4)),
        Layer("flatten", "flatten", ("input",), (16,)),
        Layer("norm", "norm", ("flatten",), (16,), {"momentum": None, "epsilon": None}),
        Layer("dropout", "dropout", ("norm",), (16,), {"rate": 0.3}),
        Layer("logits", "dense", ("dropout",), (3,), {"units": 3, "bias": True}),
    )
    rng = np.random.default_rng(1)
    epoch = EpochBatches(rng.integers(0, 256, (22, 4, 4, 1)).astype(np.uint8), rng.integers(0, 3, 22, np.int32), 5)
    recipe = Recipe(architecture="mlp", learning_rate=0.1, batch_size=5, epochs=1)
    job = Job(recipe=recipe, framework="jax", semantics=Semantics(), data=Path(), output=Path())
    model = build_model(Network("one", layers)).model
    found = []
    for whole in (True, False):
        optimizer = make_optimizer(recipe, Semantics())
        optimizer.build(model.trainable_variables)
        loop = JaxLoop(model, optimizer, job, whole_epoch=whole)
        found.append((np.concatenate([loop.epoch(epoch), loop.epoch(epoch)]), loop.predict(epoch.x)[0]))
    (scanned, one), (stepped, two) = found
    assert len(scanned) == 10
    assert np.allclose(scanned, stepped, rtol=1e-5)
    assert np.array_equal(one, two)
    assert len(set(scanned)) == 10  # and the state went on


def check_update_rules(backend):
    """Each optimizer of recipes takes three steps in float64, eagerly, and each loss is called: what they compute is
    what numpy does."""
    import keras

    from zoolens.training.crosstrain.training import test_schedule as schedules
    from zoolens.training.crosstrain.training.trainers import test_losses as losses
    from zoolens.training.crosstrain.training.trainers import test_update_rules as rules
    from zoolens.training.crosstrain.training.trainers.keras_jax import jax_settings
    from zoolens.training.crosstrain.training.trainers.keras_losses import make_losses
    from zoolens.training.crosstrain.training.trainers.keras_optimizers import make_optimizer, optimizer_semantics
    from zoolens.training.crosstrain.training.trainers.keras_tensorflow import tensorflow_settings
    from zoolens.training.crosstrain.training.trainers.keras_training import keras_settings
    from zoolens.training.pairs.optimizers.keras_slots import slots
    from zoolens.training.pairs.optimizers.optimizer_rules import keras_rule

    def steps(case):
        recipe, semantics = rules.told(case)
        number = keras.Variable(rules.VALUE, dtype="float64")
        optimizer = make_optimizer(recipe, semantics, rules.rates_of(case))
        optimizer.build([number])
        coupled = recipe.optimizer.weight_decay if semantics.weight_decay == "coupled" else 0.0
        assert optimizer_semantics(optimizer, recipe, coupled) == rules.updated_semantics(semantics, recipe), case
        for gradient in rules.GRADIENTS:
            given = keras.ops.convert_to_tensor(gradient, dtype="float64")
            optimizer.apply([given + coupled * number], [number])
            kept = {name: np.asarray(slot) * factor for name, (slot, factor) in slots(optimizer, 0).items()}
            yield np.asarray(number.value), kept

    settings = jax_settings if backend == "jax" else tensorflow_settings
    job = tiny_job(backend)
    job = job.model_copy(update={"recipe": job.recipe.model_copy(update={"precision": "float64"})})
    with settings(job), keras_settings(job):
        for case in rules.CASES:
            rules.check(case, steps(case), tolerance=2e-6)  # Keras keeps the rate, and TensorFlow the betas, in float32
        schedules.check_keras(keras)
        for case in losses.CASES:
            given = keras.ops.convert_to_tensor(losses.LOGITS, dtype="float64")
            found = make_losses(losses.job(*case, framework=backend))(given, keras.ops.convert_to_tensor(losses.LABELS))
            np.testing.assert_allclose(np.asarray(found), losses.by_hand(*case), rtol=1e-9, err_msg=str(case))
    whole, sparing = keras.optimizers.AdamW(), keras.optimizers.AdamW()
    sparing.exclude_from_weight_decay(var_names=["bias"])
    assert (keras_rule(whole).varied, keras_rule(sparing).varied) == ((), ("weight_decay",))


def check_shipped(_):
    """Of FACTS: strides in the 1×1, biases before norms, epsilon 1.001e-5, momentum .99, no dropout."""
    from zoolens.training.crosstrain.training.trainers.keras_building import shipped_model
    from zoolens.training.crosstrain.training.trainers.keras_optimizers import make_optimizer, optimizer_semantics
    from zoolens.training.crosstrain.training.trainers.keras_semantics import resolved

    recipe = Recipe(architecture="resnet50", mode="library", learning_rate=0.1, batch_size=5, epochs=1)
    built = shipped_model("resnet50", (3, 32, 32), 10)
    assert sum(int(np.prod(variable.shape)) for variable in built.model.trainable_variables) == 23_555_082
    update = optimizer_semantics(make_optimizer(recipe, Semantics()), recipe, 0.0)
    assert resolved(built).over(update) == Semantics(
        norm_momentum=0.99,
        norm_epsilon=1.001e-5,
        init="glorot_uniform",
        bias_init="zeros",
        conv_bias=True,
        dropout=0.0,
        stride="1x1",
        padding="symmetric",
        adam_rule="inside",
        adam_epsilon=1e-7,
    )
    assert built.model.layers[-1].activation.__name__ == "linear"


def check_no_room(backend):
    """A process that may grow by 1 GB is asked for a dense layer of 1.5 GB, after it has worked on a small one."""
    trainer = trainer_named(backend)()

    def train(side):
        x, y = np.zeros((2, side, side, 3), np.uint8), np.zeros(2, np.int32)
        return trainer.train(tiny_job(backend), TrainData(x, y, x, y, 4), None, lambda _: None).outcome

    assert train(8).status == "finished"
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30),) * 2)
    outcome = train(1000)
    assert (outcome.status, outcome.message) == ("out-of-memory", "The memory of cpu is not enough.")
    assert train(8).status == "finished"


@pytest.mark.parametrize("raised", [TENSORFLOW, pytest.param("jax alone", marks=pytest.mark.slow)], indirect=True)
def test_a_live_model_answers_as_torch_does_with_the_same_weights(raised):
    assert raised["check_live_model"] is None, raised["check_live_model"]


def test_the_wrong_backend_is_told(raised):
    assert raised["check_other_backend"] is None, raised["check_other_backend"]


def test_no_room_is_an_outcome(raised):
    assert raised["check_no_room"] is None, raised["check_no_room"]


def test_steps_of_every_optimizer_and_losses_are_what_arithmetic_says(raised):
    assert raised["check_update_rules"] is None, raised["check_update_rules"]


@pytest.mark.parametrize("raised", [TENSORFLOW], indirect=True)
def test_windows_pad_as_told(raised):
    assert raised["check_windows"] is None, raised["check_windows"]


@pytest.mark.parametrize("raised", [TENSORFLOW], indirect=True)
def test_a_shipped_network_tells_its_semantics(raised):
    assert raised["check_shipped"] is None, raised["check_shipped"]


@pytest.mark.parametrize("raised", [JAX], indirect=True)
def test_a_whole_epoch_in_one_program_is_the_same_training(raised):
    assert raised["check_whole_epoch"] is None, raised["check_whole_epoch"]
