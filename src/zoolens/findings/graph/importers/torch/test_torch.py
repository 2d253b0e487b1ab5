from __future__ import annotations

from importlib.util import find_spec
from math import prod

import numpy as np
import pytest

from zoolens.base.errors import ModelError, UnknownName
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.torch.modules import BuildPlan
from zoolens.findings.graph.importers.torch.torch_library import TIMM, TORCHVISION, TRANSFORMERS, _load, graph_of_module
from zoolens.findings.graph.ir.vocabulary import OPS
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run

torch = pytest.importorskip("torch")
if find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed", allow_module_level=True)
nn, functional = torch.nn, torch.nn.functional


def macs(graph):
    layers = [(node, node.parameter("kernel").shape) for node in graph if node.op in ("conv", "dense")]
    return sum(prod(node.shape) * prod(kernel[1:]) for node, kernel in layers)


def ops(graph):
    return [node.op for node in graph]


@pytest.mark.parametrize(
    ("name", "multiplications", "parameters"),
    [
        ("resnet50", 4_089_184_256, 25_557_032),
        ("vgg19", 19_632_062_464, 143_667_240),
        pytest.param("densenet121", 2_834_161_664, 7_978_856, marks=pytest.mark.slow),
        pytest.param("squeezenet1_0", 818_924_576, 1_248_424, marks=pytest.mark.slow),
        ("squeezenet1_1", 349_151_936, 1_235_496),
        ("regnet_y_400mf", 401_842_848, 4_344_144),  # cannot be built on the meta device
    ],
)
def test_torchvision(name, multiplications, parameters):
    graph = TORCHVISION.load(Request(name))
    assert macs(graph) == multiplications
    assert graph.parameters == graph.facts["parameters_total"] == parameters
    assert not graph.unknown


def test_names_sources_and_attributes_of_resnet():
    graph = TORCHVISION.load(Request("resnet18"))
    stem, norm, pool = graph.by_name["conv1"], graph.by_name["bn1"], graph.by_name["maxpool"]
    assert stem.attributes == {"kernel": (7, 7), "stride": (2, 2), "pads": (3, 3, 3, 3)}
    assert [one.key for one in norm.parameters] == ["bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"]
    assert norm.get("epsilon") == 1e-5
    assert (norm.axes, pool.axes) == ("NCHW", "NCHW")
    assert graph.by_name["layer1.0.add"].inputs == ("layer1.0.bn2", "maxpool")
    assert graph.by_name["layer1.0.relu#2"].source == "layer1.0.relu"


def test_default_size_is_that_of_the_weights_and_may_be_overridden():
    assert TORCHVISION.load(Request("inception_v3")).inputs[0].shape == (1, 3, 299, 299)
    assert TORCHVISION.load(Request("vit_b_16", size=(64, 64))).inputs[0].shape == (1, 3, 64, 64)
    assert TORCHVISION.load(Request("resnet18", (64, 96), {"num_classes": 7})).by_name["fc"].shape == (1, 7)


def test_parameters_that_evaluation_does_not_use_are_in_the_facts():
    graph = TORCHVISION.load(Request("inception_v3"))
    assert (graph.parameters, graph.facts["parameters_total"]) == (23_834_568, 27_161_264)


def test_attention_is_not_hidden_in_a_fast_path():
    graph = TORCHVISION.load(Request("vit_b_16"))
    attention = [node for node in graph if node.op == "attention"]
    tokens, width = 197, 64
    assert len(attention) == 12
    assert attention[0].attributes == {"heads": 12, "scale": 0.125}
    assert macs(graph) + 12 * 2 * 12 * tokens * tokens * width == 17_563_828_224


@pytest.mark.parametrize("name", [pytest.param("swin_t", marks=pytest.mark.slow), "swin_v2_t", "maxvit_t"])
def test_windowed_attention_has_no_unknown_and_one_node_per_mask(name):
    graph = TORCHVISION.load(Request(name))
    assert not graph.unknown
    assert graph.parameters == graph.facts["parameters_total"]
    assert {node.op for node in graph} <= set(OPS)


def test_timm_with_a_tag_and_another_size():
    pytest.importorskip("timm")
    assert macs(TIMM.load(Request("resnet50.a1_in1k"))) == 4_089_184_256
    graph = TIMM.load(Request("vit_tiny_patch16_224", size=(96, 96)))
    assert graph.by_name["pos_embed"].shape == (1, 37, 192)
    assert graph.facts["library"] == "timm"


def test_transformers_by_class_and_by_type():
    pytest.importorskip("transformers")
    small = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    vit = TRANSFORMERS.load(Request("ViTForImageClassification", (64, 64), small))
    assert vit.inputs[0].name == "pixel_values"
    assert ops(vit).count("attention") == 2
    bert = TRANSFORMERS.load(Request("bert", arguments=small))
    assert bert.inputs[0].shape == (1, 128)
    assert ops(bert).count("embedding") == 3


@pytest.mark.parametrize("importer", [TORCHVISION, TIMM, TRANSFORMERS])
def test_an_unknown_name_is_said(importer):
    with pytest.raises(UnknownName, match="resnet5O"):
        importer.load(Request("resnet5O"))


def test_weights_of_the_library_are_not_fetched():
    with pytest.raises(ModelError, match="pretrained"):
        TIMM.load(Request("resnet18", arguments={"pretrained": True}))
    for arguments in ({"architecture": "resnet18", "model_args": {"checkpoint_path": "evil.pth"}}, {}):
        with pytest.raises(ModelError, match=r"argument model_args\.checkpoint_path|another library"):
            TRANSFORMERS.load(Request("timm_wrapper", arguments=arguments))


def test_a_network_that_cannot_be_built_is_one_sentence():
    with pytest.raises(ModelError, match=r"^resnet18 cannot be built: .*colour") as caught:
        TORCHVISION.load(Request("resnet18", arguments={"colour": "red"}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("importer", "name", "size"),
    [(TORCHVISION, "shufflenet_v2_x0_5", 32), (TORCHVISION, "mobilenet_v3_small", 32), (TIMM, "ghostnet_050", 32)],
)
def test_weights_come_along_and_compute_the_same(importer, name, size):
    request = Request(name, (size, size), weights=True)
    graph = importer.load(request)
    again = importer.load(request)
    feed = {graph.inputs[0].name: np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)}
    (found,), (repeated,) = run(graph, feed).values(), run(again, feed).values()
    np.testing.assert_array_equal(found, repeated)  # seeded
    assert found.std() > 1e-3  # a network whose scales are all 0 would prove nothing
    bare = importer.load(Request(name, (size, size)))
    assert bare.nodes == graph.nodes
    assert not bare.weights


class Branches(nn.Module):
    """What libraries do between their layers, in small."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding="same", groups=1)
        self.scale = nn.Parameter(torch.rand(8, 1, 1))
        self.drop = nn.Dropout(0.5)
        self.kernel = nn.Parameter(torch.randn(8, 4, 1, 1))
        self.register_buffer("order", torch.randperm(8))

    def forward(self, x):
        y = functional.pad(x, (0, 1, 2, 1))
        y = functional.max_pool2d(self.conv(y), 3, 2, ceil_mode=True)
        y = y * self.scale + 0.5 * y
        first, second = y.chunk(2, dim=1)
        y = torch.stack([first, torch.roll(second, 1, 3)], dim=2).flatten(1, 2)
        standard = (self.kernel - self.kernel.mean((1, 2, 3), keepdim=True)) / self.kernel.std((1, 2, 3), keepdim=True)
        y = functional.conv2d(y, standard, groups=2)[:, self.order]
        y = functional.relu_(functional.avg_pool2d(y, 3, 1, 1))
        mask = torch.zeros(y.shape[-2:], device=y.device)
        mask[1:] = 2.0
        tokens = self.drop((y - mask).flatten(2).transpose(1, 2))
        tokens[:, 0] += 1
        return functional.normalize(torch.einsum("btc,bsc->bts", tokens, tokens), dim=-1).mean(-1, keepdim=True)


def test_a_live_module_computes_the_same_as_its_graph():
    torch.manual_seed(0)
    module = Branches()
    x = torch.randn(1, 3, 9, 8)
    graph = graph_of_module(module, (x,), "branches", weights=True)
    assert module.training  # as it was
    with torch.inference_mode():
        expected = module.eval()(x).numpy()
    np.testing.assert_allclose(run(graph, {"x": x.numpy()})[graph.outputs[0]], expected, rtol=1e-4, atol=1e-6)
    assert graph.by_name["conv"].get("pads") == (1, 1, 1, 1)
    assert graph.by_name["drop"].get("rate") == 0.5
    assert [node.parameters[0].key for node in graph if node.op == "affine"] == ["scale"]
    assert {one.key for node in graph if node.op == "conv" for one in node.parameters} >= {"kernel (computed)"}
    assert graph.parameters == sum(one.numel() for one in module.parameters())
    assert not graph.unknown


@pytest.mark.parametrize(
    ("settings", "gathers"),
    [
        ({"kernel_size": 4, "stride": 4}, 0),  # windows that do not overlap are an arrangement
        ({"kernel_size": (2, 4), "stride": (2, 4)}, 0),
        ({"kernel_size": 3, "stride": 2, "padding": (1, 0)}, 2),
        ({"kernel_size": 2, "dilation": (2, 3)}, 2),
    ],
)
def test_windows_that_are_unfolded_are_their_pixels(settings, gathers):
    module, x = nn.Sequential(nn.Conv2d(3, 5, 1), nn.Unfold(**settings)).eval(), torch.randn(1, 3, 8, 12)
    graph = graph_of_module(module, (x,), "unfolding", weights=True)
    with torch.inference_mode():
        expected = module(x).numpy()
    for one in (graph, canonical(graph)):
        np.testing.assert_allclose(run(one, {one.inputs[0].name: x.numpy()})[one.outputs[0]], expected, rtol=1e-5)
    assert ops(canonical(graph)).count("gather") == gathers
    assert not graph.unknown


def test_what_is_not_known_is_named():
    class Sorting(nn.Module):
        def forward(self, x):
            return torch.sort(x)

    graph = graph_of_module(Sorting(), (torch.randn(1, 5),), "sorting")
    assert [node.op for node in graph] == ["input", "unknown", "output_of"]
    assert graph.unknown[0].get("source_op") == "aten.sort"


def test_writing_through_a_view_that_cannot_be_followed_is_refused():
    class Writing(nn.Module):
        def forward(self, x):
            y = x + 1
            y.view(-1).relu_()
            return y

    with pytest.raises(ModelError, match="in place"):
        graph_of_module(Writing(), (torch.randn(1, 5),), "writing")


class Enlarging(nn.Module):
    def forward(self, x):
        return functional.interpolate(x, size=(1 << 19, 1 << 19))


def loaded(build, size=(8, 8)):
    return _load("torch", "torch", lambda _: BuildPlan(build, lambda _: {"x": (1, 3, *size)}), Request("large"))


def test_what_is_too_large_is_not_tried_with_numbers():
    devices = []

    def build():
        devices.append(torch.empty(0).device.type)
        return Enlarging()

    with pytest.raises(ModelError, match="no real layer has"):
        loaded(build)
    with pytest.raises(ModelError, match="'x' would have the shape"):
        loaded(build, size=(1 << 20, 1 << 20))
    assert devices == ["meta", "meta"]


def test_a_network_that_needs_numbers_gets_them():
    class Choosing(nn.Module):
        def forward(self, x):
            return x if x.sum().item() else functional.relu(x)

    assert ops(loaded(Choosing))[-1] == "relu"


def test_a_module_that_fails_is_one_sentence():
    with pytest.raises(ModelError, match=r"^dense cannot be traced: .*shapes"):
        graph_of_module(nn.Linear(4, 2), (torch.randn(1, 5),), "dense")


def test_the_encoder_whose_states_a_decoder_begins_with_is_counted():
    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.LSTM(3, 5), nn.LSTM(3, 5)

        def forward(self, x, y):
            return self.decoder(y, self.encoder(x)[1])[0]

    graph = canonical(graph_of_module(Translator(), (torch.randn(7, 1, 3), torch.randn(2, 1, 3)), "translator"))
    assert (cost(graph).macs, graph.parameters) == ((7 + 2) * 20 * (3 + 5), 2 * 20 * (3 + 5 + 2))


def test_recurrent_layers_that_project_their_states():
    module = nn.LSTM(3, 5, num_layers=2, proj_size=2, bidirectional=True)
    products = sum(tensor.numel() for name, tensor in module.named_parameters() if name.startswith("weight"))
    graph = graph_of_module(module, (torch.randn(7, 1, 3),), "projecting")
    assert cost(graph).macs == 7 * products
