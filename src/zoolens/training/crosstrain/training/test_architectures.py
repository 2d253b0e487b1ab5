import pytest

from zoolens.base.errors import ModelError, UnknownName
from zoolens.training.crosstrain.training.architectures import NAMES, build, parameters, tensor_shapes
from zoolens.training.crosstrain.training.network import KINDS
from zoolens.training.pairs.semantics import ALIGNED, Semantics

KERAS = Semantics(conv_bias=True, stride="1x1").over(ALIGNED)
COLOUR = (3, 32, 32)


def built(name, semantics=ALIGNED, shape=COLOUR, classes=10):
    return build(name, semantics, shape, classes)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("padding", ["symmetric", "same"])
def test_networks_are_well_formed(name, padding):
    network = built(name, Semantics(padding=padding, dropout=0.25).over(ALIGNED))
    seen = set()
    for layer in network.layers:
        assert layer.name not in seen
        assert set(layer.inputs) <= seen
        assert set(layer.settings) == set(KINDS[layer.kind])
        seen.add(layer.name)
    assert network.input_shape == COLOUR
    assert network.classes == 10


def test_dropout_is_a_layer_only_where_something_is_dropped():
    assert not any(layer.kind == "dropout" for layer in built("vgg16").layers)
    dropped = built("vgg16", Semantics(dropout=0.5).over(ALIGNED))
    assert [layer.settings["rate"] for layer in dropped.layers if layer.kind == "dropout"] == [0.5, 0.5]


@pytest.mark.parametrize("name", ["resnet50", "densenet121"])
def test_counts_equal_torchvisions(name):
    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

    theirs = import_torchvision(with_compiler=False).models.get_model(name, weights=None, num_classes=10)
    assert parameters(built(name)) == sum(one.numel() for one in theirs.parameters())


def test_biases_before_norms_are_the_26560_of_resnet50():
    assert parameters(built("resnet50", KERAS)) - parameters(built("resnet50")) == 26_560


@pytest.mark.parametrize(("stride", "kernel"), [("1x1", 1), ("3x3", 3)])
def test_the_stride_sits_where_it_is_told(stride, kernel):
    network = built("resnet50", Semantics(stride=stride).over(ALIGNED))
    strided = [
        layer.settings["kernel"]
        for layer in network.layers
        if layer.kind == "conv" and layer.settings["stride"] == 2 and "_conv" in layer.name
    ]
    assert strided == [kernel] * 3


def test_constants_of_norms_may_stay_open():
    network = built("convnorm", Semantics(conv_bias=True, dropout=0.0, stride="3x3", padding="same"))
    norms = [layer.settings for layer in network.layers if layer.kind == "norm"]
    assert norms == [{"momentum": None, "epsilon": None}] * 4


def test_structure_may_not_stay_open():
    with pytest.raises(ValueError, match="padding"):
        built("convnorm", Semantics(conv_bias=True, dropout=0.0, stride="3x3"))


def test_unknown_architecture():
    with pytest.raises(UnknownName, match="Did you mean resnet8"):
        built("resnet9")


def test_images_too_small():
    with pytest.raises(ModelError, match="too small for vgg16"):
        built("vgg16", shape=(1, 28, 28))


def test_flattened_inputs_are_counted():
    assert tensor_shapes(built("lenet", shape=(1, 28, 28)))["dense3.kernel"] == (120, 16 * 5 * 5)
