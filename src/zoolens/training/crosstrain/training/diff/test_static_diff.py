"""The differences that are known of the CrossedWires pairs, found in torchvision and Keras as they are installed."""

import json
from functools import cache
from importlib.util import find_spec

import pytest

from zoolens.base.engine.pool import WorkerPool
from zoolens.base.errors import ModelError, UnknownName
from zoolens.training.crosstrain.training.architectures import build, parameters
from zoolens.training.crosstrain.training.diff.recipe_diff_words import as_data, lines
from zoolens.training.crosstrain.training.diff.static_diff import compare, static_diff
from zoolens.training.crosstrain.training.live import inspection
from zoolens.training.pairs.semantics import ALIGNED, Semantics

pytestmark = pytest.mark.skipif(
    None in map(find_spec, ("torch", "keras", "tensorflow")), reason="torch, Keras or TensorFlow is not installed"
)


# Its 121 convolutions take as long as the other networks together.
pytestmark = pytest.mark.slow  # two frameworks inspect ResNet-50: 26 s. tests/test_trainer_plugin.py is quick.
DENSENET = pytest.param("densenet121", marks=pytest.mark.slow)
VGG = pytest.param("vgg16", marks=pytest.mark.slow)  # 134 million parameters


@pytest.fixture(scope="module")
def inspect():
    """Inspects sides as `static_diff` does, each once, in one process of each framework for all of them."""
    with WorkerPool(stopped="The comparison was stopped.") as processes:

        @cache
        def side(ref, input_shape=(3, 32, 32)):
            return inspection._side(inspection.question(ref, input_shape, classes=10), processes, inspection.TIMEOUT)

        yield side


@pytest.fixture(scope="module")
def published(inspect):
    return cache(lambda architecture: compare(inspect(f"torch:{architecture}"), inspect(f"keras:{architecture}")))


def item(diff, kind, what):
    [found] = [one for one in diff.of(kind) if one.what == what]
    return found


def values(diff, kind, what):
    found = item(diff, kind, what)
    return found.a, found.b


@pytest.mark.slow
def test_vgg16_has_two_dropouts_in_torch_and_none_in_keras(published):
    found = item(published("vgg16"), "dropout", "dropout layers")
    assert (found.a, found.b, found.layers) == ("2 layers, rate 0.5", "none", 2)


@pytest.mark.slow
def test_vgg16_flattens_a_map_in_torch_alone(published):
    found = item(published("vgg16"), "layout", "channels of an image come")
    assert found.evidence == "a dense layer reads a flattened map in A alone"


@pytest.mark.slow
def test_vgg16_first_dense_layer_is_49_times_larger_in_torch(published):
    found = item(published("vgg16"), "parameters", "parameters to learn")
    assert (found.a, found.b) == ("134,301,514", "33,638,218")
    assert found.evidence.startswith("difference -100,663,296: -100,663,296 in the kernel of classifier.0 | fc1")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["vgg16", "resnet50", "densenet121"])
def test_our_definitions_have_as_many_parameters_as_keras_applications(architecture, inspect):
    """Its DenseNet has no biases before norms; its ResNet has."""
    told = ALIGNED if architecture == "densenet121" else Semantics(conv_bias=True, stride="1x1").over(ALIGNED)
    ours = parameters(build(architecture, told, (3, 32, 32), 10))
    assert ours == inspect(f"keras:{architecture}").facts.parameters


@pytest.mark.slow
def test_resnet50_has_26560_extra_biases_in_keras(published):
    biases = item(published("resnet50"), "bias", "convolutions with a bias")
    assert (biases.a, biases.b, biases.layers) == ("none of 53", "53 of 53, 26,560 parameters", 53)
    total = item(published("resnet50"), "parameters", "parameters to learn")
    assert total.evidence == "difference +26,560: +26,560 in the biases of 53 convolutions"


@pytest.mark.slow
def test_resnet50_strides_in_the_3x3_in_torch_and_in_the_1x1_in_keras(published):
    one, two = values(published("resnet50"), "stride", "where blocks stride")
    assert one == "on the 3×3 (layer2.0.conv2, layer3.0.conv2, layer4.0.conv2)"
    assert two == "on the 1×1 (conv3_block1_1_conv, conv4_block1_1_conv, conv5_block1_1_conv)"


@pytest.mark.parametrize(
    ("architecture", "norms"), [("resnet50", 53), pytest.param("densenet121", 121, marks=pytest.mark.slow)]
)
def test_batch_norms_keep_other_shares_and_have_other_epsilons(architecture, norms, published):
    kept = item(published(architecture), "norm", "share of the old statistics that a step keeps")
    assert (kept.a, kept.b, kept.layers) == ("0.9", "0.99", norms)
    epsilon = item(published(architecture), "norm", "epsilon")
    assert (epsilon.a, epsilon.b, epsilon.layers) == ("1e-05", "1.001e-05", norms)


def test_batch_norms_divide_the_running_variance_otherwise(published):
    assert values(published("resnet50"), "norm", "running variance divides by") == ("n - 1", "n")


@pytest.mark.parametrize(
    ("architecture", "initialiser", "layers"),
    [("resnet50", "kaiming_normal (fan out)", 53),
     pytest.param("vgg16", "kaiming_normal (fan out)", 13, marks=pytest.mark.slow),
     pytest.param("densenet121", "kaiming_normal (fan in)", 120, marks=pytest.mark.slow)],
)  # fmt: skip
def test_kernels_are_kaiming_normal_in_torch_and_glorot_uniform_in_keras(architecture, initialiser, layers, published):
    found = item(published(architecture), "init", "kernels of convolutions")
    assert (found.a, found.b, found.layers) == (initialiser, "glorot_uniform", layers)
    assert "declared GlorotUniform" in found.evidence


@pytest.mark.parametrize("architecture", [VGG, "resnet50", DENSENET])
def test_adam_puts_epsilon_inside_the_bias_correction_in_keras(architecture, published):
    found = item(published(architecture), "optimizer", "adam: epsilon is")
    assert found.a == "added to the corrected root"
    assert found.b == "added to the uncorrected root, inside the bias correction"
    assert "A: 1× its size at every step" in found.evidence
    for acts in ("31.6× its size at step 1", "3.24× at step 100", "1.26× at step 1000"):
        assert acts in found.evidence
    assert values(published(architecture), "optimizer", "adam: default epsilon") == ("1e-08", "1e-07")


@pytest.mark.parametrize(
    ("what", "torch", "keras"),
    [
        ("rmsprop: epsilon is", "added to the root", "added under the root"),
        ("rmsprop: default rho", "0.99", "0.9"),
        ("rmsprop: after a change of the learning rate momentum", "follows the new rate at once", "keeps the old rate"),
        ("adagrad: epsilon is", "added to the root", "added under the root"),
        ("adagrad: default initial accumulator", "0", "0.1"),
        ("adagrad: default epsilon", "1e-10", "1e-07"),
        ("adamw: default weight decay", "0.01", "0.004"),
        ("sgd: after a change of the learning rate momentum", "follows the new rate at once", "keeps the old rate"),
        ("lion is", "not in the library", "in the library"),
    ],
)
def test_other_optimizers_differ_where_they_are_known_to(published, what, torch, keras):
    assert values(published("resnet50"), "optimizer", what) == (torch, keras)


@pytest.mark.parametrize(
    ("kind", "what", "torch", "keras"),
    [
        ("loss", "cross-entropy: label smoothing of class numbers", "yes", "no, of one-hot labels alone"),
        ("loss", "binary cross-entropy: takes", "logits", "probabilities"),
        ("loss", "binary cross-entropy: label smoothing", "none", "towards one half"),
        ("schedule", "the schedule: goes on", "when it is told to, mostly once an epoch",
         "of its own, at every step of the optimizer"),
        ("schedule", "the schedule: a warm-up begins at", "0.333 of the rate",
         "its initial_learning_rate, which has no default and is mostly 0"),
        ("schedule", "the schedule: after its end a cosine", "rises again", "stays"),
        ("schedule", "the schedule: a boundary of 2 lowers the rate", "after 2 units", "after 3 units"),
    ],
)  # fmt: skip
def test_losses_and_schedules_differ_where_they_are_known_to(published, kind, what, torch, keras):
    assert values(published("resnet50"), kind, what) == (torch, keras)


def test_what_losses_and_schedules_have_in_common_is_said(published):
    same = {one.what: one.value for one in published("resnet50").same}
    assert same["cross-entropy: label smoothing spreads over"] == "all classes"
    assert same["binary cross-entropy: reduction over samples and outputs"] == "mean"
    assert same["squared error: reduction over samples and outputs"] == "mean"
    assert same["the schedule: a cosine is halfway at"] == "0.5 of the rate"


def test_what_optimizers_have_in_common_is_said(published):
    same = {one.what: one.value for one in published("resnet50").same if one.kind == "optimizer"}
    assert same["adamw: weight decay is"] == "decoupled from the gradient"
    assert same["sgd: with nesterov a step is"] == "the gradient and the momentum that has it, once more"
    assert same["rmsprop: default centered"] == "off"


@pytest.mark.parametrize("architecture", [VGG, "resnet50", DENSENET])
def test_same_padding_is_at_the_bottom_and_right_in_keras(architecture, published):
    one, two = values(
        published(architecture), "padding", "what a padded 3×3 layer with stride 2 reads beyond an even map"
    )
    assert one.startswith("top and left")
    assert two.startswith("bottom and right (padding='same')")


def test_the_softmax_is_in_the_network_in_keras_and_in_the_loss_in_torch(published):
    diff = published("resnet50")
    assert values(diff, "loss", "the network answers") == ("logits", "probabilities")
    assert values(diff, "loss", "takes") == ("logits", "probabilities")
    assert values(diff, "head", "after the last block")[1] == "global average pool → dense 2048→10 → softmax"
    assert ("loss", "reduction over a batch", "mean") in [(one.kind, one.what, one.value) for one in diff.same]


@pytest.mark.slow
def test_densenet121_is_the_same_network_but_for_constants(published):
    diff = published("densenet121")
    assert {one.kind for one in diff.items}.isdisjoint({"parameters", "bias", "dropout", "stride"})
    assert [one.what for one in diff.of("layers")] == ["number of padding layers"]


def test_no_difference_is_repeated_for_every_layer(published):
    text = lines(published("resnet50"))
    assert len(text) < 220
    assert sum("1.001e-05" in line for line in text) == 1


def test_the_answer_is_json(published):
    document = json.loads(json.dumps(as_data(published("resnet50"))))
    assert document["a"]["network"] == "torchvision.models.resnet50"
    assert {one["kind"] for one in document["differences"]} >= {"stride", "bias", "norm", "init", "optimizer", "loss"}


@pytest.mark.parametrize("framework", ["keras", pytest.param("jax", marks=pytest.mark.slow)])
def test_small_architectures_are_built_from_each_framework_s_default_layers(inspect, framework):
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    diff = compare(*(inspect(f"{side}:convnorm", input_shape=(1, 28, 28)) for side in ("torch", framework)))
    strided = item(diff, "padding", "padding of 3×3 convolutions with stride 2")
    assert (strided.a, strided.b, strided.layers) == (
        "padding 1 on every side",
        "padding 1 at bottom and right only",
        2,
    )
    assert values(diff, "norm", "epsilon") == ("1e-05", "0.001")
    assert values(diff, "init", "biases of convolutions") == ("uniform ±1/√(fan in)", "zeros")


def test_a_side_does_not_differ_from_itself(inspect):
    diff = compare(*(inspect.__wrapped__("torch:resnet8") for _ in "ab"))  # built and read twice
    assert not diff.items
    assert {one.kind for one in diff.same} >= {"layers", "parameters", "norm", "init", "loss", "optimizer", "layout"}


def test_unknown_names_are_refused_with_close_ones():
    with pytest.raises(UnknownName, match="resnet50"):
        static_diff("torch:resnet5", "keras:resnet50")
    with pytest.raises(UnknownName, match="torch"):
        static_diff("torhc:resnet50", "keras:resnet50")
    with pytest.raises(ModelError, match="names no architecture"):
        static_diff("torch", "keras:resnet50")
    with pytest.raises(ModelError, match="names no framework"):
        static_diff("torch:resnet50", "resnet50")


@pytest.mark.parametrize("framework", ["torch", "keras"])
def test_images_for_which_there_is_no_memory(inspect, framework):
    with pytest.raises(ModelError, match=f"not enough memory to build {framework}:mlp for images of 9999×9999"):
        inspect(f"{framework}:mlp", input_shape=(9999, 9999, 9999))


def test_images_that_a_shipped_network_cannot_take_are_refused():
    with pytest.raises(ModelError, match="three channels"):
        static_diff("torch:vgg16", "keras:vgg16", input_shape=(1, 28, 28))


def test_what_a_library_refuses_is_said_with_the_side_s_name(inspect):
    with pytest.raises(ModelError, match="torch:vgg16: "):
        inspect("torch:vgg16", input_shape=(3, 16, 16))
