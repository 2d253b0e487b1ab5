"""Torch models tell the times of their operators by the names of their parts, and the values between them."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import ModelError, UnsupportedAbility
from zoolens.findings.graph.importers.torch.torch_library import graph_of_module
from zoolens.inventory.runtimes.observing import OperatorTime
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, TensorSpec
from zoolens.inventory.runtimes.torch.torch_capture import ModuleObserver
from zoolens.inventory.runtimes.torch.torch_profile import _DeviceEvent, _Names, _on_device, _precision_of
from zoolens.inventory.runtimes.torch.torch_runtime import Torch

torch = pytest.importorskip("torch")

INPUTS = (TensorSpec("image", (None, 3, 8, 8), "float32"),)
SOURCE = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.relu = torch.nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.relu(self.norm(self.conv(x))) + x)

def build():
    layers = [torch.nn.Conv2d(3, 4, 3), Block(), Block(), torch.nn.Flatten(), torch.nn.Linear(144, 5)]
    return torch.nn.Sequential(*layers).eval()
"""


@pytest.fixture(scope="module")
def module():
    torch.manual_seed(0)
    space = {"__name__": "architecture"}
    exec(SOURCE, space)
    return space["build"]()


@pytest.fixture(scope="module")
def weights(module, tmp_path_factory):
    path = tmp_path_factory.mktemp("torch") / "blocks.pth"
    torch.save(module.state_dict(), str(path))
    architecture = {"library": "code", "name": "blocks", "source": SOURCE, "allowed": True}
    return ModelFiles("torch-state-dict", {"model": path}, architecture=architecture, inputs=INPUTS)


@pytest.fixture(scope="module")
def script(module, tmp_path_factory):
    path = tmp_path_factory.mktemp("torch") / "blocks.pt"
    torch.jit.save(torch.jit.trace(module, torch.zeros(1, 3, 8, 8)), str(path))
    return ModelFiles("torchscript", {"model": path}, inputs=INPUTS)


def _feeds(batch=2):
    return {"image": np.random.default_rng(0).normal(size=(batch, 3, 8, 8)).astype(np.float32)}


def _graph_names(module):
    graph = graph_of_module(module, [torch.zeros(1, 3, 8, 8)], "blocks")
    return [node.name for node in graph.nodes if node.op != "input"]


def test_operators_and_points_are_called_as_the_nodes_of_the_graph(module, weights):
    with Torch().open(weights) as session:
        (profile,) = session.profile(_feeds())
        points = session.capture_points()
    names = _graph_names(module)
    assert [node for operator in profile.operators for node in operator.nodes] == names
    assert [point.node for point in points] == names
    assert all(point.kept for point in points)
    kinds = {operator.name: operator.kind for operator in profile.operators}
    assert kinds["1.conv"] == "Conv2d"
    assert kinds["1.add"] == "aten::add"
    assert kinds["1.relu#2"] == "ReLU"


def test_layers_have_the_shapes_of_what_they_make(weights):
    with Torch().open(weights) as session:
        (profile,) = session.profile(_feeds(batch=3))
    layer = next(operator for operator in profile.operators if operator.name == "1.conv")
    assert layer.shapes == ((3, 4, 6, 6),)
    assert layer.precision == "float32"


def test_primitives_lie_within_the_layer_that_called_them(weights):
    with Torch().open(weights) as session:
        without, with_primitives = (session.profile(_feeds(), kernels=kernels)[0] for kernels in (False, True))
    assert {operator.level for operator in without.operators} == {"layer"}
    primitives = [operator for operator in with_primitives.operators if operator.level == "library"]
    assert primitives
    for primitive in primitives:
        caller = with_primitives.operators[primitive.parent]
        assert caller.start <= primitive.start
        assert primitive.start + primitive.duration <= caller.start + caller.duration
    assert "aten::conv2d" not in {primitive.name for primitive in primitives}, "it only chooses who computes"


def test_primitives_of_onednn_tell_their_implementation(tmp_path):
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch was built without oneDNN")
    network = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3), torch.nn.ReLU()).eval()
    path = tmp_path / "wide.pt"
    torch.jit.save(torch.jit.trace(network, torch.zeros(8, 16, 32, 32)), str(path))
    files = ModelFiles("torchscript", {"model": path}, inputs=(TensorSpec("image", (None, 16, 32, 32), "float32"),))
    feeds = {"image": np.ones((8, 16, 32, 32), np.float32)}
    with Torch().open(files) as session:
        (without,) = session.profile(feeds)
        (profile,) = session.profile(feeds, kernels=True)
    (primitive,) = (operator for operator in profile.operators if operator.name == "oneDNN convolution")
    caller = profile.operators[primitive.parent]
    assert caller.name == "aten::mkldnn_convolution"
    assert caller.start <= primitive.start
    assert primitive.start + primitive.duration <= caller.start + caller.duration
    assert primitive.kernel
    assert primitive.precision == "float32"
    layer = profile.operators[caller.parent]
    assert (layer.level, layer.kernel) == ("layer", f"oneDNN convolution {primitive.kernel}")
    assert not any("oneDNN" in (operator.kernel or "") for operator in without.operators), "it is a level of its own"


def test_values_are_copied_before_they_are_overwritten(module, weights):
    feeds = _feeds()
    with Torch().open(weights) as session:
        captured = session.capture(feeds, ["1.norm", "1.relu", "1.add", "1.relu#2"])
    with torch.inference_mode():
        image = module[0](torch.from_numpy(feeds["image"]))
        normed = module[1].norm(module[1].conv(image))
    np.testing.assert_allclose(captured.tensors["1.norm"], normed.numpy(), rtol=1e-5, atol=1e-6)
    assert (captured.tensors["1.norm"] < 0).any(), "the ReLU behind it works in place"
    np.testing.assert_array_equal(captured.tensors["1.relu"], np.maximum(captured.tensors["1.norm"], 0))
    np.testing.assert_array_equal(captured.tensors["1.relu#2"], np.maximum(captured.tensors["1.add"], 0))


class Casting(torch.nn.Module):
    """A norm as transformers writes it: casts that change nothing are no tensors of their own."""

    def forward(self, x):
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return x.to(torch.float32).contiguous().reshape(x.shape) * 2


def test_points_have_the_names_of_the_importer():
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), Casting(), torch.nn.Linear(4, 3))
    example = torch.zeros(1, 5, 4)
    graph = graph_of_module(network, [example], "casting")
    with torch.inference_mode():
        _, shown = ModuleObserver(torch, network).run([example], None)
    made = {node.name: node.shape for node in graph.nodes if node.op != "input"}
    assert {name: tuple(value.shape) for name, value in shown.items()} == made


def test_a_script_is_observed_without_its_modules(module, script):
    feeds = _feeds()
    with Torch().open(script) as session:
        (profile,) = session.profile(feeds)
        points = [point.name for point in session.capture_points()]
        captured = session.capture(feeds, ["1.norm", "relu"])
        answer = session.predict(feeds)["output0"]
    names = [operator.name for operator in profile.operators]
    assert names == points
    assert {"1.conv", "2.norm", "4"} <= set(names)
    assert (captured.tensors["1.norm"] < 0).any()
    np.testing.assert_array_equal(captured.tensors["relu"], np.maximum(captured.tensors["1.norm"], 0))
    np.testing.assert_array_equal(captured.outputs["output0"], answer)


def test_a_point_that_is_not_there(weights):
    with Torch().open(weights) as session, pytest.raises(ModelError, match=r"'9\.conv' inside the model cannot"):
        session.capture(_feeds(), ["9.conv"])


def test_hooks_are_gone_after_observing(weights):
    with Torch().open(weights) as session:
        session.profile(_feeds())
        session.capture(_feeds(), ["1.conv"])
        parts = list(session._module.modules())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in parts)


@pytest.mark.slow  # compiles twice
def test_a_compiled_network_shows_its_own_kernels(weights):
    feeds = _feeds()
    with Torch().open(weights, Options(mode="compiled")) as session:
        (profile,) = session.profile(feeds)
        answer = session.predict(feeds)["output0"]
        captured = session.capture(feeds, ["1.conv", "output0"])
    assert any("fused" in operator.name for operator in profile.operators)
    assert captured.tensors["1.conv"].shape == (2, 4, 6, 6)
    np.testing.assert_allclose(captured.tensors["output0"], answer, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(captured.tensors["output0"], captured.outputs["output0"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_that_is_said(weights):
    with pytest.raises(ModelError, match="torch cannot run on cuda:1 here"):
        Torch().open(weights, Options(device="cuda:1"))
    with pytest.raises(UnsupportedAbility, match="mode cuda-graphs on cpu"):
        Torch().open(weights, Options(mode="cuda-graphs"))


def test_a_layer_on_a_device_has_the_precision_of_the_kernel_that_computes():
    """On an H200 cuDNN first changed the order of axes, which took longer than the product in TF32 itself."""
    kernels = [
        _DeviceEvent("void cudnn::engines_precompiled::nchwToNhwcKernel<float, float>", 100, 55, "cuda:0", 1),
        _DeviceEvent("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc", 160, 47, "cuda:0", 2),
    ]
    host = OperatorTime("conv", "Conv2d", 300, 90, precision="float32")

    layer = _on_device(host, kernels, _Names())
    moved = _on_device(host, kernels[:1], _Names())

    assert (layer.start, layer.duration, layer.precision) == (100, 102, "tf32")
    assert layer.kernel == kernels[1].name
    assert (moved.kernel, moved.precision) == (kernels[0].name, "float32")


@pytest.mark.parametrize(
    ("kernel", "stored", "precision"),
    [
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x128_32x3_nn_align4>", "float32", "tf32"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>", "float32", "float32"),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_nn", None, "bfloat16"),
    ],
)
def test_precisions_are_told_by_the_names_of_kernels(kernel, stored, precision):
    assert _precision_of(kernel, stored) == precision
