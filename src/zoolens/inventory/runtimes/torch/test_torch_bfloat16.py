"""Networks that are kept in bfloat16: what is cast, and what they answer."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import UnsupportedAbility
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, TensorSpec
from zoolens.inventory.runtimes.torch.torch_bfloat16 import network_in_bfloat16
from zoolens.inventory.runtimes.torch.torch_runtime import Torch, TorchSession
from zoolens.testing import models

torch = pytest.importorskip("torch")


class Scaled(torch.nn.Module):
    """Numbers with a table that is no part of the weights, and the place of the largest answer."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.BatchNorm1d(4)
        self.linear = torch.nn.Linear(4, 300)
        self.register_buffer("table", torch.arange(4) / 3, persistent=False)

    def forward(self, values):
        scores = self.linear(self.inner(values) + self.table.to(values.dtype))
        return scores, scores.argmax(-1) + 2**25 + 1


def session(module):
    given = (TensorSpec("values", (None, 4), "float32"),)
    named = (TensorSpec("scores", (None, 300), "float32"), TensorSpec("best", (None,), "int64"))
    return TorchSession(torch, module, module, given, named, Options(mode="bfloat16"))


def test_weights_are_cast_and_tables_that_a_network_makes_itself_are_not():
    module = network_in_bfloat16(torch, Scaled().eval())
    assert {
        name: value.dtype for name, value in module.state_dict().items() if value.is_floating_point()
    } == dict.fromkeys(
        ["inner.weight", "inner.bias", "inner.running_mean", "inner.running_var", "linear.weight", "linear.bias"],
        torch.bfloat16,
    )
    assert module.inner.num_batches_tracked.dtype == torch.int64
    assert module.table.dtype == torch.float32


def test_weights_that_a_network_of_transformers_names_stay_in_float32():
    class Named(Scaled):
        _keep_in_fp32_modules = ("linear",)
        _keep_in_fp32_modules_strict = ("inner.running_*", "linear.bias")

    module = network_in_bfloat16(torch, Named().eval())
    assert {name for name, value in module.state_dict().items() if value.dtype == torch.float32} == {
        "inner.running_mean",
        "inner.running_var",
        "linear.bias",
    }


def test_answers_are_those_of_torch_as_float32_and_whole_numbers_stay_exact():
    module = network_in_bfloat16(torch, Scaled().eval())
    values = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    with torch.inference_mode():
        scores, best = module(torch.from_numpy(values).to(torch.bfloat16))
    opened = session(module)
    answers = opened.predict({"values": values})
    np.testing.assert_array_equal(answers["scores"], scores.float().numpy())
    np.testing.assert_array_equal(answers["best"], best.numpy())
    assert opened.effective().precision == "bfloat16"


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (models.torchscript, Options(mode="bfloat16", device="cuda"), "names the type of each number"),
        (models.torch_state_dict, Options(mode="bfloat16", device="cuda", precision="float32"), "computes in bfloat16"),
        (models.torch_state_dict, Options(mode="bfloat16"), "run in mode bfloat16 on cpu"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, kind, options, words):
    files: ModelFiles = models.cached(kind, tmp_path)
    with pytest.raises(UnsupportedAbility, match=words):
        Torch().open(files, options)
