"""Live models and loops, in processes of their own: this file's functions named `check_…` run there."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zoolens.crosstrain.training.job import Job
from zoolens.crosstrain.training.network import Layer, Network
from zoolens.crosstrain.training.order import EpochBatches
from zoolens.crosstrain.training.recipe import Recipe
from zoolens.crosstrain.training.semantics import Semantics

pytest.importorskip("keras")


def in_process(backend, *checks):
    calls = "; ".join(f"t.{check}()" for check in checks)
    code = f"from zoolens.crosstrain.training.trainers import test_keras_building as t; {calls}"
    variables = {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


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


def check_windows():
    """Below zero everywhere, so that a border of zeros would win."""
    from zoolens.crosstrain.training.trainers.keras_building import build_model

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


def check_whole_epoch():
    from zoolens.crosstrain.training.trainers.keras_adam import make_optimizer
    from zoolens.crosstrain.training.trainers.keras_building import build_model
    from zoolens.crosstrain.training.trainers.keras_jax import JaxLoop

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


def check_shipped():
    """Of FACTS: strides in the 1×1, biases before norms, epsilon 1.001e-5, momentum .99, no dropout."""
    from zoolens.crosstrain.training.trainers.keras_adam import make_optimizer
    from zoolens.crosstrain.training.trainers.keras_building import shipped_model
    from zoolens.crosstrain.training.trainers.keras_semantics import resolved

    recipe = Recipe(architecture="resnet50", mode="library", learning_rate=0.1, batch_size=5, epochs=1)
    built = shipped_model("resnet50", (3, 32, 32), 10)
    assert sum(int(np.prod(variable.shape)) for variable in built.model.trainable_variables) == 23_555_082
    assert resolved(built, make_optimizer(recipe, Semantics())) == Semantics(
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


def test_windows_pad_as_told_and_a_shipped_network_tells_its_semantics():
    in_process("tensorflow", "check_windows", "check_shipped")


def test_a_whole_epoch_in_one_program_is_the_same_training():
    in_process("jax", "check_whole_epoch")
