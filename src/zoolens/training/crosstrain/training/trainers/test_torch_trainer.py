"""The torch trainer against arithmetic done by hand and against torch's own layers used directly."""

import json
import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from zoolens.base.errors import ConstraintError, ModelError, UnknownName
from zoolens.training.crosstrain.training.architectures import NAMES, build, parameters, tensor_shapes
from zoolens.training.crosstrain.training.initial import initial_weights
from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.recipe import Optimizer, Recipe
from zoolens.training.crosstrain.training.trainers.torch_building import (
    build_module,
    build_shipped,
    install,
    named_tensors,
)
from zoolens.training.crosstrain.training.trainers.torch_loops import GraphLoop, explained_compilation
from zoolens.training.crosstrain.training.trainers.torch_semantics import read_semantics
from zoolens.training.crosstrain.training.trainers.torch_trainer import Torch
from zoolens.training.crosstrain.training.weights import read_weights
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.semantics import ALIGNED, Semantics


def striped(count, side=8, channels=1, classes=3):
    """Class k has brighter rows from 2k on: quickly learnt."""
    generator = np.random.default_rng(count)
    labels = generator.integers(0, classes, count).astype(np.int32)
    images = generator.integers(0, 120, (count, side, side, channels), np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[2 * label : 2 * label + 2] += 120
    return images, labels


DATA = TrainData(*striped(96), *striped(40), 3)


def job(tmp_path, semantics=None, **changes):
    runs = {key: changes.pop(key) for key in ("loop", "keep_weights", "capture", "device") if key in changes}
    recipe = Recipe(**{"architecture": "mlp", "learning_rate": 0.01, "batch_size": 20, "epochs": 2, **changes})
    told = (semantics or Semantics()).over(recipe.wanted)
    settings = {"loop": "eager", "threads": 1, **runs}
    return Job(recipe=recipe, framework="torch", semantics=told, data=tmp_path, output=tmp_path, **settings)


def train(told, data=DATA, weights=None):
    seen = []
    trained = Torch().train(told, data, weights, seen.append)
    assert tuple(seen) == trained.outcome.epochs
    return trained


@pytest.mark.parametrize("architecture", ["mlp", "convnorm", "resnet8"])
def test_it_learns_and_counts_exactly(tmp_path, architecture):
    trained = train(job(tmp_path, architecture=architecture, epochs=6))
    outcome = trained.outcome
    assert outcome.status == "finished"
    assert outcome.steps == 6 * 5
    assert outcome.epochs[-1].loss < outcome.epochs[0].loss
    assert outcome.epochs[-1].correct == (trained.predictions == DATA.test_y).sum() > 30
    assert outcome.parameters == parameters(build(architecture, ALIGNED, (1, 8, 8), 3))
    assert outcome.versions["torch"].partition("+")[0] == torch.__version__.partition("+")[0]


@pytest.mark.parametrize("weights", ["own", "shared"])
def test_the_same_job_gives_the_same_numbers(tmp_path, weights):
    told = job(tmp_path, architecture="convnorm", keep_weights=True, mode="library", semantics=Semantics(dropout=0.3))
    given = None
    if weights == "shared":
        network = build("convnorm", Semantics(conv_bias=True).over(ALIGNED), (1, 8, 8), 3)
        given = initial_weights(network, ALIGNED, 0)
    first, second = train(told, weights=given), train(told, weights=given)
    assert [one.loss for one in first.outcome.epochs] == [one.loss for one in second.outcome.epochs]
    for name, array in first.weights.items():
        np.testing.assert_array_equal(array, second.weights[name])


def test_another_seed_gives_others(tmp_path):
    first, second = (train(job(tmp_path, mode="library", seed=seed)).outcome for seed in (0, 1))
    assert first.epochs[0].loss != second.epochs[0].loss


def softmax(logits):
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def mlp_by_hand(weights, images, labels):
    """Loss and gradients of the MLP in float64."""
    x = images.transpose(0, 3, 1, 2).reshape(len(images), -1) / 255
    inputs, grads, layers = [x], {}, ("dense1", "dense2", "logits")
    for layer in layers:
        values = inputs[-1] @ weights[f"{layer}.kernel"].T + weights[f"{layer}.bias"]
        inputs.append(np.maximum(values, 0) if layer != "logits" else values)
    probabilities = softmax(inputs[-1])
    loss = -np.log(probabilities[np.arange(len(labels)), labels]).mean()
    delta = (probabilities - np.eye(probabilities.shape[1])[labels]) / len(labels)
    for number in (2, 1, 0):
        grads[f"{layers[number]}.kernel"], grads[f"{layers[number]}.bias"] = delta.T @ inputs[number], delta.sum(0)
        delta = (delta @ weights[f"{layers[number]}.kernel"]) * (inputs[number] > 0)
    return loss, grads


def adam_by_hand(weights, grads, rate, epsilon, rule, count=1):
    """The first update, from empty moments."""
    updated = {}
    for name, value in weights.items():
        first, second = 0.1 * grads[name], 0.001 * grads[name] ** 2
        mean, root = first / (1 - 0.9**count), np.sqrt(second / (1 - 0.999**count))
        if rule == "inside":
            root, mean = np.sqrt(second), mean * np.sqrt(1 - 0.999**count)
        updated[name] = value - rate * mean / (root + epsilon)
    return updated


@pytest.mark.parametrize("rule", ["outside", "inside"])
def test_a_step_is_what_a_hand_computes(tmp_path, rule):
    from zoolens.training.pairs.data.epoch_order import batches

    told = job(
        tmp_path, Semantics(adam_rule=rule), precision="float64", capture=(1,), optimizer=Optimizer(epsilon=1e-3)
    )
    network = build("mlp", ALIGNED, (1, 8, 8), 3)
    weights = {name: array.astype(np.float64) for name, array in initial_weights(network, ALIGNED, 7).items()}
    outcome = train(told, weights=weights).outcome
    assert outcome.steps == 1
    assert (outcome.semantics.adam_rule, outcome.semantics.adam_epsilon) == (rule, 1e-3)
    found = read_weights(tmp_path / "capture-1.safetensors")
    epoch = batches(DATA, told.recipe, 1)
    loss, grads = mlp_by_hand(weights, epoch.x[:20], epoch.y[:20])
    updated = adam_by_hand(weights, grads, 0.01, 1e-3, rule)
    np.testing.assert_allclose(found["loss"], loss, rtol=1e-12)
    for name, gradient in grads.items():
        np.testing.assert_allclose(found[f"gradient/{name}"], gradient, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(found[f"first/{name}"], 0.1 * gradient, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(found[f"second/{name}"], 0.001 * gradient**2, rtol=1e-9, atol=1e-18)
        np.testing.assert_allclose(found[f"tensor/{name}"], updated[name], rtol=1e-9)


def test_weight_decay_is_added_to_the_gradient_under_both_rules(tmp_path):
    """Where epsilon is nothing the two rules are one, and so are the decayed weights after several steps."""
    ends = []
    for rule in ("outside", "inside"):
        optimizer = Optimizer(epsilon=0, weight_decay=0.3)
        told = job(
            tmp_path, Semantics(adam_rule=rule), precision="float64", optimizer=optimizer, keep_weights=True, seed=1
        )
        ends.append(train(told).weights)
    np.testing.assert_allclose(ends[0]["dense1.kernel"], ends[1]["dense1.kernel"], rtol=1e-6, atol=1e-9)


def test_captures_have_every_layer_and_tensor(tmp_path):
    told = job(tmp_path, architecture="resnet8", capture=(2, 6), epochs=5)
    outcome = train(told).outcome
    assert outcome.steps == 6  # in the second epoch
    network = build("resnet8", ALIGNED, (1, 8, 8), 3)
    shapes = tensor_shapes(network)
    for step in (2, 6):
        found = read_weights(tmp_path / f"capture-{step}.safetensors")
        for layer in network.layers:
            assert found[f"activation/{layer.name}"].shape[1:] == layer.shape
        for name, shape in shapes.items():
            kinds = (
                ("statistic",) if name.endswith((".mean", ".variance")) else ("gradient", "tensor", "first", "second")
            )
            assert all(found[f"{kind}/{name}"].shape == shape for kind in kinds)
    assert found["activation/input"].shape[0] == 20


def test_training_ends_with_the_last_capture_at_the_end_of_an_epoch(tmp_path):
    outcome = train(job(tmp_path, epochs=2, capture=(5,))).outcome
    assert (outcome.steps, len(outcome.epochs)) == (5, 1)


def test_capturing_changes_nothing(tmp_path):
    plain = train(job(tmp_path, architecture="convnorm", epochs=1, keep_weights=True)).weights
    seen = train(job(tmp_path, architecture="convnorm", epochs=1, keep_weights=True, capture=(1, 5))).weights
    for name, array in plain.items():
        np.testing.assert_array_equal(array, seen[name])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("padding", ["symmetric", "same"])
def test_every_layer_has_the_shape_that_was_drawn(name, padding):
    network = build(name, Semantics(padding=padding).over(ALIGNED), (3, 33, 32), 7)
    with torch.device("meta"):
        module = build_module(network)
        seen = {}

        class Watching(torch.fx.Interpreter):
            def run_node(self, node):
                value = super().run_node(node)
                seen[node.meta.get("layer")] = value
                return value

        Watching(module).run(torch.zeros(2, 3, 33, 32))
    for layer in network.layers:
        assert tuple(seen[layer.name].shape) == (2, *layer.shape)
    assert {key: tuple(value.shape) for key, value in named_tensors(module, network).items()} == tensor_shapes(network)


def test_same_pads_bottom_and_right():
    """A kernel of ones over ones counts the pixels it sees: fewer at the bottom and right, none missing at the top."""
    network = build("convnorm", Semantics(padding="same").over(ALIGNED), (1, 8, 8), 3)
    module = build_module(network)
    conv = module.get_submodule("conv2")
    torch.nn.init.ones_(conv[1].weight)
    with torch.no_grad():
        counts = conv(torch.ones(1, 16, 8, 8))[0, 0] / 16
    assert counts[0, 0] == 9
    assert counts[-1, -1] == 4
    assert read_semantics(module).padding == "same"


def test_library_mode_has_torchs_own_defaults(tmp_path):
    found = train(job(tmp_path, architecture="convnorm", mode="library", epochs=1)).outcome.semantics
    norm, adam = torch.nn.BatchNorm2d(1), torch.optim.Adam([torch.zeros(1)])
    assert found.norm_momentum == 1 - norm.momentum
    assert found.norm_epsilon == norm.eps
    assert found.adam_epsilon == adam.defaults["eps"]
    decided = (found.init, found.bias_init, found.conv_bias, found.padding, found.adam_rule)
    assert decided == ("torch_uniform", "uniform", True, "symmetric", "outside")


def test_semantics_reach_the_live_objects(tmp_path):
    told = Semantics(
        norm_momentum=0.99, norm_epsilon=1e-3, init="glorot_uniform", bias_init="uniform", conv_bias=True, dropout=0.2,
        padding="same", adam_rule="inside", adam_epsilon=1e-7,
    )  # fmt: skip
    found = train(job(tmp_path, told, architecture="resnet8", epochs=1)).outcome.semantics
    assert found.model_dump(exclude_none=True) == told.model_dump(exclude_none=True)


@pytest.mark.parametrize("stride", ["1x1", "3x3"])
def test_the_bottlenecks_stride_is_read(stride):
    with torch.device("cpu"):
        module = build_module(build("resnet50", Semantics(stride=stride).over(ALIGNED), (3, 32, 32), 10))
    assert read_semantics(module).stride == stride


def test_what_torchvision_ships():
    """VGG's dropouts; its 130 million weights in dense layers are not drawn for that."""
    with torch.device("meta"):
        vgg = build_shipped("vgg16", (3, 32, 32), 10)
    vgg.classifier[0] = vgg.classifier[3] = torch.nn.Linear(1, 1)
    found = read_semantics(vgg.to_empty(device="cpu"))
    assert (found.dropout, found.norm_momentum, found.conv_bias) == (0.5, None, None)


@pytest.mark.slow
def test_a_shipped_network_trains(tmp_path):
    data = TrainData(*striped(8, 32, 3), *striped(4, 32, 3), 3)
    outcome = train(job(tmp_path, architecture="resnet50", mode="library", epochs=1, batch_size=8), data).outcome
    assert outcome.status == "finished"
    assert outcome.parameters == 23_528_522 - 7 * 2049  # 3 classes, not 10
    found = outcome.semantics
    assert (found.stride, found.conv_bias, found.norm_momentum, found.padding) == ("3x3", False, 0.9, "symmetric")
    with pytest.raises(ModelError, match="colour images"):
        train(job(tmp_path, architecture="resnet50", mode="library"))
    with pytest.raises(ModelError, match="mode: aligned"):
        train(job(tmp_path, architecture="vgg16", mode="library", capture=(1,)), data)


def test_a_loss_that_is_not_finite_is_a_result(tmp_path):
    told = job(tmp_path, optimizer=Optimizer(name="sgd"), learning_rate=1e30, epochs=4)
    trained = train(told)
    assert trained.outcome.status == "non-finite"
    assert trained.outcome.message == "The loss of step 2 is not finite."
    assert trained.outcome.epochs[-1].loss is None
    assert len(trained.outcome.epochs) == 1
    assert len(trained.predictions) == 40


def test_a_last_update_that_breaks_the_network_is_noticed(tmp_path):
    told = job(tmp_path, optimizer=Optimizer(name="sgd"), learning_rate=1e38, epochs=1, batch_size=96)
    outcome = train(told).outcome
    assert (outcome.status, outcome.epochs[0].loss is None) == ("non-finite", False)
    assert "after step 1" in outcome.message


def test_sgd_with_momentum_is_torchs(tmp_path):
    told = job(tmp_path, optimizer=Optimizer(name="sgd", momentum=0.9), capture=(1, 2))
    train(told)
    one, two = (read_weights(tmp_path / f"capture-{step}.safetensors") for step in (1, 2))
    np.testing.assert_array_equal(one["first/dense1.kernel"], one["gradient/dense1.kernel"])
    expected = 0.9 * one["first/dense1.kernel"] + two["gradient/dense1.kernel"]
    np.testing.assert_allclose(two["first/dense1.kernel"], expected, rtol=1e-5, atol=1e-9)
    assert "second/dense1.kernel" not in one


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What a process says that does nothing but train: the outcome of a batch whose layers want a gigabyte where only
    700 MB are left; the losses of a small job; whether torch's compiler was imported by then, also by torchvision; and
    whether functions of optimizers are still marked as if the compiler knew of them."""
    code = (
        "import json, resource, sys, numpy as np, psutil, torch\n"
        "from pathlib import Path\n"
        "from zoolens.training.crosstrain.training.trainers.test_torch_trainer import Torch, TrainData, job\n"
        "from zoolens.training.crosstrain.training.trainers.test_torch_trainer import striped, train\n"
        "from zoolens.training.crosstrain.training.trainers.torch_building import import_torchvision\n"
        "from zoolens.inventory.frameworks.placeholder_modules import without_torch_compiler\n"
        "torch.set_num_threads(1)\n"
        "images, labels = striped(20_000)\n"
        "data = TrainData(images, labels, images[:9], labels[:9], 3)\n"
        "told = job(Path('.'), architecture='resnet8', batch_size=20_000, epochs=1)\n"
        "limit = psutil.Process().memory_info().vms + (700 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))\n"
        "outcome = Torch().train(told, data, None, print).outcome\n"
        "resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "losses = [epoch.loss for epoch in train(job(Path(sys.argv[1]))).outcome.epochs]\n"
        "with without_torch_compiler():\n"
        "    import_torchvision(with_compiler=False)\n"
        "imported = 'torch._dynamo' in sys.modules\n"
        "marked = '__dynamo_disable' in vars(torch.optim.Optimizer.zero_grad.__wrapped__)\n"
        "print(json.dumps([outcome.status, outcome.message, losses, imported, marked]))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path_factory.mktemp("alone"))]
    done = subprocess.run(
        command, env=os.environ | Torch.variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_out_of_memory_is_a_result(alone):
    assert alone[:2] == ["out-of-memory", "The memory of cpu is not enough."]


def test_nothing_imports_the_compiler_where_nothing_is_compiled(alone, tmp_path):
    losses, imported, marked = alone[2:]
    assert losses == [epoch.loss for epoch in train(job(tmp_path)).outcome.epochs]
    assert not imported
    assert not marked


def test_settings_of_the_process_are_put_back(tmp_path):
    before = torch.get_num_threads()
    train(job(tmp_path, epochs=1).model_copy(update={"threads": before + 1}))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "tpu"}, "no device 'tpu'"),
        ({"device": "cpu:1"}, "no device 'cpu:1'"),
        ({"device": "cuda:999"}, "no device 'cuda:999'"),
        ({"precision": "tf32"}, "no TF32"),
        pytest.param(
            {"device": "cuda"}, "no device 'cuda'",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device"),
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_in_words(tmp_path, changes, words):
    with pytest.raises((ModelError, ConstraintError), match=words):
        train(job(tmp_path, **changes))


def test_unknown_architecture(tmp_path):
    with pytest.raises(UnknownName, match="resnet20"):
        train(job(tmp_path, architecture="resnet21"))


def test_bfloat16_trains_close_to_float32(tmp_path):
    before = torch.backends.mkldnn.enabled
    half, full = (train(job(tmp_path, precision=one)).outcome for one in ("bfloat16", "float32"))
    assert half.epochs[0].loss != full.epochs[0].loss
    assert half.epochs[0].loss == pytest.approx(full.epochs[0].loss, rel=0.05)
    assert torch.backends.mkldnn.enabled == before


@pytest.mark.parametrize("spoil", [{"dense1.kernel": np.zeros((3, 3))}, {"other.kernel": np.zeros(1)}, {}])
def test_weights_that_do_not_fit(spoil):
    network = build("mlp", ALIGNED, (1, 8, 8), 3)
    weights = {**initial_weights(network, ALIGNED, 0), **spoil}
    if not spoil:
        del weights["logits.bias"]
    with pytest.raises(ModelError, match="do not fit mlp"):
        install(build_module(network), network, weights)


@pytest.mark.slow
def test_compiled_is_eager_up_to_rounding(tmp_path):
    eager = train(job(tmp_path, architecture="convnorm", loop="eager")).outcome
    try:
        compiled = train(job(tmp_path, architecture="convnorm", loop="compiled")).outcome
    except ModelError as error:
        if platform.machine() == "x86_64":
            raise
        pytest.skip(f"COMPILED TRAINING IS NOT TESTED on this processor: {error}")
    assert [one.loss for one in compiled.epochs] == pytest.approx([one.loss for one in eager.epochs], rel=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("schedule", [{}, {"name": "cosine", "warmup": 1}])
@pytest.mark.parametrize(
    "optimizer",
    [
        Optimizer(),
        Optimizer(name="sgd", momentum=0.9, nesterov=True),
        Optimizer(name="adamw", weight_decay=0.1),
        Optimizer(name="rmsprop", momentum=0.5, centered=True, epsilon=1e-3),
        Optimizer(name="adagrad", weight_decay=0.01),
        Optimizer(name="lion", weight_decay=0.1),
    ],
)
@pytest.mark.parametrize("rule", ["outside", "inside"])
def test_a_recorded_step_is_an_eager_one_up_to_rounding(tmp_path, optimizer, rule, schedule):
    """96 samples in batches of 20: the last one is smaller, and taken outside the graph."""
    told = {"architecture": "convnorm", "device": "cuda", "optimizer": optimizer, "epochs": 3, "schedule": schedule}
    other = {"adam_rule": "inside", "root_rule": "under", "momentum_rate": "past", "reduction": "sum"}
    switched = Semantics(**other) if rule == "inside" else Semantics()
    recorded, eager = (train(job(tmp_path, switched, loop=loop, **told)).outcome for loop in ("compiled", "eager"))
    assert recorded.steps == eager.steps == 15
    assert [one.loss for one in recorded.epochs] == pytest.approx([one.loss for one in eager.epochs], rel=1e-3)


def test_norms_of_a_recorded_step_count_at_once_unless_they_use_the_count():
    usual, cumulative = torch.nn.BatchNorm2d(2), torch.nn.BatchNorm2d(2, momentum=None)
    module = torch.nn.Sequential(usual, torch.nn.Dropout(), cumulative)
    loop = GraphLoop.__new__(GraphLoop)
    loop._machine = SimpleNamespace(module=module, torch=torch)
    images = torch.ones(4, 2, 3, 3)
    for _ in range(3):
        with loop._counting_at_once():
            assert usual.num_batches_tracked is None
            module(images)
    assert [int(norm.num_batches_tracked) for norm in (usual, cumulative)] == [3, 3]
    assert "0.num_batches_tracked" in module.state_dict()


def _fail(path):
    """An assertion in a file of this name."""
    exec(compile("assert False, 'stride 1==64'", str(path), "exec"))


def test_faults_of_code_that_the_compiler_wrote_are_told_and_ours_are_not(tmp_path):
    words = r"torch\.compile wrote fails on this processor: stride 1==64\..*loop eager"
    with pytest.raises(ModelError, match=words), explained_compilation(torch, "compiled", "cpu"):
        _fail("/tmp/torchinductor_me/fu/written.py")
    with pytest.raises(AssertionError, match="stride"), explained_compilation(torch, "compiled", "cpu"):
        _fail("/src/zoolens/ours.py")
    with pytest.raises(AssertionError, match="stride"), explained_compilation(torch, "eager", "cpu"):
        _fail("/tmp/torchinductor_me/fu/written.py")


def test_no_compiler_is_told():
    with (
        pytest.raises(ModelError, match=r"torch\.compile does not work here: .*C\+\+ compiler.*loop eager"),
        explained_compilation(torch, "compiled", "cpu"),
    ):
        raise torch._dynamo.exc.BackendCompilerFailed(len, torch._inductor.exc.InvalidCxxCompiler(), None)


@pytest.mark.slow
def test_where_there_is_no_compiler_torch_says_so_as_we_expect(tmp_path):
    """In a process of its own: torch looks for the compiler when it is imported."""
    code = (
        "from pathlib import Path\n"
        "from zoolens.training.crosstrain.training.trainers.test_torch_trainer import ModelError, job, train\n"
        "try: train(job(Path('.'), loop='compiled', epochs=1))\n"
        "except ModelError as error: print(error)\n"
    )
    around = {**os.environ, "CXX": "/nonexistent/g++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=around, timeout=120, check=False
    )
    assert "torch.compile does not work here" in done.stdout, done.stderr
    assert "loop eager" in done.stdout


@pytest.mark.parametrize("side", [8, 9, 27, 28, 32])
@pytest.mark.parametrize("architecture", ["convnorm", "resnet8"])
@pytest.mark.parametrize("padding", ["same", "symmetric"])
def test_padding_is_read_whatever_the_size_of_the_images(architecture, side, padding):
    """On an odd side, padding as TensorFlow does is symmetric, too."""
    network = build(architecture, Semantics(padding=padding).over(ALIGNED), (1, side, side), 3)
    assert read_semantics(build_module(network)).padding == padding


def test_a_decay_of_nothing_has_no_name(tmp_path):
    assert train(job(tmp_path, epochs=1)).outcome.semantics.weight_decay is None
    with_decay = job(tmp_path, epochs=1, optimizer=Optimizer(weight_decay=0.1))
    assert train(with_decay).outcome.semantics.weight_decay == "coupled"
    assert "weight_decay" not in Semantics().model_dump()  # so that trainings without it keep their keys
