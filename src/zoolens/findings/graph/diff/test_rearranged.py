"""A shortcut that only one side has, and blocks in another order: one sentence each, by hand and in real networks."""

from types import MethodType

import pytest

from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.block_order import cycles
from zoolens.findings.graph.diff.conftest import Sketch, resnet
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.passes.canonical import canonical


def bottlenecks(*widths, without=(), strides=()):
    """Residual blocks of one outer width; those numbered in `without` have no shortcut, others may pool on theirs."""
    net = Sketch(size=32)
    net.conv(16)
    net.pool()
    for number, width in enumerate(widths, 1):
        entry, step = net.last, 2 if number in strides else 1
        net.conv(width, 1)
        net.conv(width, 3, step)
        main = net.conv(16, 1, act=None)
        if number not in without:
            net.add("add", main, net.pool(1, 2, 0, of=entry) if step > 1 else entry)
        net.add("relu")
    net.head()
    return net.finish()


def fires(*widths):
    """Fire modules, whose place decides how many channels their neighbours are given."""
    net = Sketch(size=32)
    net.conv(16, norm=False)
    net.pool()
    for width in widths:
        entry = net.conv(width, 1, norm=False)
        net.concat(net.conv(4 * width, 1, of=entry, norm=False), net.conv(4 * width, 3, of=entry, norm=False))
    net.conv(10, 1, norm=False)
    net.head()
    return net.finish()


def told(a, b):
    found = diff(a, b)
    assert sum(one.macs for one in found.differences) == found.macs_gap
    assert sum(one.parameters for one in found.differences) == found.parameters_gap
    return [one.text for one in found.differences]


@pytest.mark.parametrize(
    ("without", "place"),
    [((1,), "block 1"), ((2,), "block 2"), ((3,), "the last block"), ((1, 2, 3), "all blocks")],
)
def test_a_shortcut_of_one_side_is_a_shortcut(without, place):
    whole, opened = bottlenecks(8, 8, 8), bottlenecks(8, 8, 8, without=without)
    assert told(whole, opened) == [f"{place} of stage 1: shortcut removed in b"]
    assert told(opened, whole) == [f"{place} of stage 1: shortcut added in b"]


def test_a_wider_block_without_shortcut_differs_in_both():
    found = diff(bottlenecks(8, 8, 8), bottlenecks(8, 12, 8, without=(2,)))
    assert {one.cause for one in found.differences} == {diff_causes.WIDTH, diff_causes.SHORTCUT}


def test_layers_that_both_sides_have_are_no_block_without_a_shortcut():
    both = bottlenecks(8, 8, 8, without=(1,))
    assert diff(both, both).same
    assert told(both, bottlenecks(8, 8, 8, without=(1, 3))) == ["the last block of stage 1: shortcut removed in b"]


@pytest.mark.parametrize(
    ("order", "texts"),
    [
        ((4, 12, 8, 20), ["block 2 of stage 1 and block 3 of stage 1: swapped in b"]),
        ((12, 8, 4, 20), ["block 1 of stage 1 and block 3 of stage 1: swapped in b"]),
        (
            (8, 4, 20, 12),
            [
                "block 1 of stage 1 and block 2 of stage 1: swapped in b",
                "block 3 of stage 1 and block 4 of stage 1: swapped in b",
            ],
        ),
        ((8, 12, 4, 20), ["blocks 1–3 of stage 1: in another order in b"]),
        ((20, 4, 8, 12), ["all blocks of stage 1: in another order in b"]),
    ],
)
def test_blocks_in_another_order(order, texts):
    assert told(bottlenecks(4, 8, 12, 20), bottlenecks(*order)) == texts
    assert diff(bottlenecks(4, 8, 12, 20), bottlenecks(*order)).verdict == "different networks: block order"


def test_what_swapped_blocks_are_given_is_booked_on_their_order():
    found = diff(fires(4, 8, 12), fires(4, 12, 8))
    assert [one.cause for one in found.differences] == [diff_causes.ORDER]
    assert found.differences[0].macs == found.macs_gap != 0


def test_a_block_of_another_width_is_not_another_order():
    found = diff(bottlenecks(4, 8, 12), bottlenecks(8, 8, 12))
    assert {one.cause for one in found.differences} == {diff_causes.WIDTH}


def test_a_stride_that_moved_is_still_a_placement():
    found = diff(bottlenecks(8, 8, 8, strides=(2,)), bottlenecks(8, 8, 8, strides=(3,)))
    assert diff_causes.STRIDE_PLACEMENT in {one.cause for one in found.differences}
    assert diff_causes.ORDER not in {one.cause for one in found.differences}


def test_a_projection_goes_with_its_shortcut():
    plain = diff(resnet((2, 2)), resnet((2, 2), without=((1, 0),)))
    assert [one.text for one in plain.differences] == [
        "block 1 of stage 2: shortcut removed in b (with 1 convolution on it)"
    ]
    assert plain.differences[0].macs == plain.macs_gap < 0


def test_cycles_of_a_permutation():
    assert list(cycles([0, 2, 1, 4, 5, 3])) == [(1, 2), (3, 4, 5)]


# --- networks of torchvision with one change


def imported(module):
    import torch

    from zoolens.findings.graph.importers.torch.torch_library import graph_of_module

    device = next(module.parameters()).device
    return canonical(graph_of_module(module.eval(), [torch.zeros(1, 3, 224, 224, device=device)], "changed"))


def models():
    pytest.importorskip("torch")
    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

    try:
        return import_torchvision(with_compiler=False).models
    except ImportError:
        pytest.skip("torchvision is not installed")


@pytest.fixture
def without_numbers():
    """Networks are built and run without weights: only their layers are compared."""
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        yield


def without_shortcut(block):
    """The block of a ResNet as it would be without its shortcut."""
    import torch

    layers = [block.conv1, block.bn1, block.relu, block.conv2, block.bn2, block.relu]
    return torch.nn.Sequential(*layers, *([block.conv3, block.bn3, block.relu] if hasattr(block, "conv3") else []))


@pytest.mark.usefixtures("without_numbers")
@pytest.mark.parametrize(
    ("name", "layer", "number", "text"),
    [
        ("resnet18", "layer2", 1, "the last block of stage 2: shortcut removed in b"),
        ("resnet34", "layer3", 2, "block 3 of stage 3: shortcut removed in b"),
        ("resnet50", "layer3", 0, "block 1 of stage 3: shortcut removed in b (with 1 convolution on it)"),
    ],
)
def test_a_resnet_without_one_shortcut(name, layer, number, text):
    build = getattr(models(), name)
    changed = build()
    getattr(changed, layer)[number] = without_shortcut(getattr(changed, layer)[number])
    assert told(imported(build()), imported(changed)) == [text]


@pytest.mark.usefixtures("without_numbers")
def test_a_mobilenet_without_one_shortcut():
    changed = models().mobilenet_v2()
    changed.features[3].use_res_connect = False
    assert told(imported(models().mobilenet_v2()), imported(changed)) == [
        "the last block of stage 2: shortcut removed in b"
    ]


@pytest.mark.parametrize(("attends", "block"), [(True, 4), (False, 3)])
def test_a_transformer_without_one_shortcut(attends, block):
    """The norm that begins a block without shortcut looks like the end of the block before."""

    def changed(self, x):
        y, _ = self.self_attention(*[self.ln_1(x)] * 3, need_weights=False)
        return self.mlp(self.ln_2(y + x)) if attends else y + self.mlp(self.ln_2(y))

    build = models().VisionTransformer
    sizes = {"image_size": 224, "patch_size": 32, "num_layers": 3, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32}
    network = build(**sizes)
    layer = network.encoder.layers[1]
    layer.forward = MethodType(changed, layer)
    assert told(imported(build(**sizes)), imported(network)) == [f"block {block} of stage 1: shortcut removed in b"]


@pytest.mark.parametrize(
    ("stage", "number", "attends", "place"),
    [
        (1, 0, True, "block 1 of stage 1"),
        (1, 1, True, "block 3 of stage 1"),  # its windows are shifted
        (3, 1, True, "block 3 of stage 2"),  # with several heads, whose bias by position is gathered from a table
        (3, 1, False, "the last block of stage 2"),
    ],
)
def test_a_transformer_of_windows_without_one_shortcut(stage, number, attends, place):
    """What comes after the windows are put together is a map again, with nothing beside it that says so."""

    def changed(self, x):
        attended = self.attn(self.norm1(x))
        return attended + self.mlp(self.norm2(attended)) if attends else self.mlp(self.norm2(attended + x))

    sizes = {"patch_size": [8, 8], "embed_dim": 16, "depths": [2, 2, 2], "num_heads": [1, 2, 2], "window_size": [7, 7]}
    network, whole = (models().SwinTransformer(**sizes, stochastic_depth_prob=0.0) for _ in "ab")
    layer = network.features[stage][number]
    layer.forward = MethodType(changed, layer)
    assert told(imported(whole), imported(network)) == [f"{place}: shortcut removed in b"]


def test_a_transformer_of_windows_with_norms_last_without_one_shortcut():
    """The norm at the end of the layers before is no part of the block, although the block has one like it."""

    def changed(self, x):
        attended = self.norm1(self.attn(x))
        return attended + self.norm2(self.mlp(attended))

    swin = models().swin_transformer
    sizes = {"patch_size": [8, 8], "embed_dim": 16, "depths": [2, 2], "num_heads": [1, 2], "window_size": [7, 7]}
    parts = {"block": swin.SwinTransformerBlockV2, "downsample_layer": swin.PatchMergingV2}
    network, whole = (models().SwinTransformer(**sizes, **parts, stochastic_depth_prob=0.0) for _ in "ab")
    layer = network.features[3][0]
    layer.forward = MethodType(changed, layer)
    assert told(imported(whole), imported(network)) == ["block 1 of stage 2: shortcut removed in b"]


@pytest.mark.usefixtures("without_numbers")
def test_networks_of_other_kinds_share_no_blocks():
    """A VGG is no ResNet whose shortcuts were removed."""
    found = diff(imported(models().vgg11_bn()), imported(models().resnet18()))
    assert diff_causes.SHORTCUT not in {one.cause for one in found.differences}


@pytest.mark.usefixtures("without_numbers")
def test_a_mobilenet_with_swapped_blocks():
    changed = models().mobilenet_v3_large()
    features = list(changed.features)
    features[8], features[9] = features[9], features[8]
    changed.features = type(changed.features)(*features)
    assert told(imported(models().mobilenet_v3_large()), imported(changed)) == [
        "block 2 of stage 4 and block 3 of stage 4: swapped in b"
    ]
