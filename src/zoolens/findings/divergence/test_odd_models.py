"""Models on which a comparison is easily wrong and looks right: not finite, random, with several outputs, of whole
numbers, with a softmax on one side only."""

import json
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.numerics.deviation import Deviation
from zoolens.findings.divergence.alignment import NodePair
from zoolens.findings.divergence.divergence_causes import Kind
from zoolens.findings.divergence.divergence_page import html
from zoolens.findings.divergence.divergence_words import as_data, headline, lines
from zoolens.findings.divergence.diverging import diverge_jobs
from zoolens.findings.divergence.gates import parse_divergence_gate
from zoolens.findings.divergence.inspection import InspectedLayer, SideLayer, worst_layer
from zoolens.findings.divergence.small_parts import SmallPart
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.testing.damaged_onnx import KINDS, damaged_copies, with_file, wrong_resize

onnx = pytest.importorskip("onnx")
helper = pytest.importorskip("onnx.helper")
numpy_helper = pytest.importorskip("onnx.numpy_helper")

pytestmark = pytest.mark.usefixtures("trusted_models")

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
BASE = find("demo:resnet-tiny")  # its manifest: pictures of 28×28, ten classes


def weights(*shape, seed=0):
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return (values / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


@pytest.fixture
def network(tmp_path):
    """Writes a small network: dense, ReLU, more operators, dense; and further operators behind the answer."""

    def write(name, middle=(), behind=(), outputs=("logits",), **tensors):
        nodes = [
            helper.make_node("Flatten", ["input"], ["flat"], name="flat"),
            helper.make_node("Gemm", ["flat", "w1", "b1"], ["dense"], name="dense", transB=1),
            helper.make_node("Relu", ["dense"], ["relu"], name="relu"),
            *middle,
            helper.make_node("Gemm", ["middle" if middle else "relu", "w2", "b2"], ["logits"], name="last", transB=1),
            *behind,
        ]
        constants = {
            "w1": weights(16, 784), "b1": weights(16), "w2": weights(10, 16), "b2": weights(10), **tensors
        }  # fmt: skip
        graph = helper.make_graph(
            nodes,
            name,
            [helper.make_tensor_value_info("input", FLOAT, ["batch", 28, 28])],
            [helper.make_tensor_value_info(output, FLOAT, ["batch", 10]) for output in outputs],
            initializer=[numpy_helper.from_array(np.asarray(values), key) for key, values in constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path = tmp_path / f"{name}.onnx"
        onnx.save(model, str(path))
        return with_file(BASE, path)

    return write


@pytest.fixture
def data():
    return open_dataset("demo", limit=3)


def roots_of_negative_numbers(node=helper.make_node):
    return (node("Sub", ["relu", "tenth"], ["less"], name="less"), node("Sqrt", ["less"], ["middle"], name="root"))


def test_numbers_that_are_not_finite_on_one_side_are_a_difference_and_not_rounding(network, data, plain_job):
    plain, broken = network("plain"), network("roots", roots_of_negative_numbers(), tenth=np.float32(0.1))
    divergence = diverge_jobs(plain_job(plain), plain_job(broken), data)
    assert divergence.differs
    assert "the cause is structure" in headline(divergence)
    assert [cause.label for cause in divergence.causes] == ["less (sub)", "root (sqrt)"]
    assert all(cause.proved for cause in divergence.causes)
    assert any("root (sqrt) is the first place with numbers that are not finite" in note for note in divergence.notes)
    assert any("finite on one side only" in line for line in lines(divergence))
    assert any("B says no number" in line for line in lines(divergence))
    json.dumps(as_data(divergence), allow_nan=False)
    assert "Infinity" not in html(divergence)


def test_numbers_that_the_file_makes_infinite_on_both_sides_are_named_and_agree(network, data, plain_job):
    broken = network("roots", roots_of_negative_numbers(), tenth=np.float32(0.1))
    divergence = diverge_jobs(plain_job(broken), plain_job(broken), data)
    assert not divergence.differs
    assert headline(divergence).endswith("hold the same numbers; 3 of 3 answers are not finite.")
    assert any("root (sqrt) is the first place" in note for note in divergence.notes)
    assert not any("Observing" in note for note in divergence.notes)
    assert parse_divergence_gate("not_finite > 0").verdict(divergence)[0]
    assert divergence.answers.accuracy == (0.0, 0.0)
    assert not divergence.agrees


def test_masks_of_minus_infinity_are_no_fault_and_hide_none(network, data, plain_job):
    """A softmax behind a mask is finite again; a faulty layer behind it is still found."""
    mask = np.where(np.arange(16) < 4, -np.inf, 0).astype(np.float32)[None]
    masked = network(
        "masked",
        (
            helper.make_node("Add", ["relu", "mask"], ["less"], name="less"),
            helper.make_node("Softmax", ["less"], ["middle"], name="soft", axis=1),
        ),
        mask=mask,
    )
    same = diverge_jobs(plain_job(masked), plain_job(masked), data)
    assert not same.differs
    assert same.notes == ()

    def fault(name, value):
        return value * np.float32(1.01) if name == "logits" else value

    divergence = diverge_jobs(plain_job(masked), plain_job(masked, fault), data)
    (cause,) = divergence.causes
    assert (cause.kind, cause.layer, cause.proved) == (Kind.KERNEL, "logits", True)


def test_an_output_beside_the_main_one_is_compared_too(network, data, plain_job):
    behind = [helper.make_node("Mul", ["logits", "factor"], ["second"], name="second")]
    a, b = (
        network(name, behind=behind, outputs=("logits", "second"), factor=np.full((1, 10), factor, np.float32))
        for name, factor in (("half", 0.5), ("more", 0.6))
    )
    divergence = diverge_jobs(plain_job(a), plain_job(b), data)
    assert divergence.differs
    assert divergence.answers.max_error == 0
    assert divergence.output.name == "second"
    assert [(cause.label, cause.proved) for cause in divergence.causes] == [("second (affine)", True)]
    assert any(line.startswith("Output second: differs by up to") for line in lines(divergence))
    assert parse_divergence_gate("relative_error > 0.1").verdict(divergence)[0]
    assert not diverge_jobs(plain_job(a), plain_job(a), data).differs


def test_a_side_that_answers_by_chance_is_told(network, data, plain_job):
    plain = network("plain")
    generator = np.random.default_rng(0)

    def chance(name, value):
        return value + generator.standard_normal(value.shape).astype(np.float32) if name == "dense" else value

    divergence = diverge_jobs(plain_job(plain), plain_job(plain, chance), data)
    assert [(cause.kind, cause.side) for cause in divergence.causes] == [(Kind.RANDOM, "B")]
    assert headline(divergence).startswith("B gives another answer to the same input each time")


def test_the_same_file_twice_is_equal(network, data, plain_job):
    plain = network("plain")
    divergence = diverge_jobs(plain_job(plain), plain_job(plain), data)
    assert (
        headline(divergence) == "The two are equal: 3 layers and all answers that were compared hold the same numbers."
    )
    assert divergence.agrees


def test_small_numbers_that_may_differ_are_no_agreement(network, data, plain_job):
    plain = network("plain")
    divergence = diverge_jobs(plain_job(plain), plain_job(plain), data)
    row, *others = divergence.answers.rows
    rounded = replace(row, error=1e-9, deviation=Deviation(1e-9))
    part = SmallPart(axis=1, place=11, error=1e-3, size=0.002)
    answers = replace(divergence.answers, rows=(rounded, *others), small_part=part)
    unclear = replace(divergence, answers=answers)
    assert headline(unclear).startswith(
        "Compared as whole tensors, 3 layers and all answers differ by no more than rounding;"
    )
    assert not unclear.agrees
    assert replace(unclear, answers=replace(answers, small_part=replace(part, error=1e-9))).agrees


def test_logits_and_probabilities_of_the_same_weights_are_compared_as_scores(network, data, plain_job):
    behind = [helper.make_node("Softmax", ["logits"], ["scores"], name="soft", axis=1)]
    logits = network("logits")

    def probabilities(**tensors):
        written = network(f"scores{len(tensors)}", behind=behind, outputs=("scores",), **tensors)
        output = written.manifest.outputs[0].model_copy(update={"scores": "probabilities"})
        return replace(written, manifest=written.manifest.model_copy(update={"outputs": (output,)}))

    same = diverge_jobs(plain_job(logits), plain_job(probabilities()), data)
    assert same.answers.compared == "scores"
    assert not same.differs
    other = diverge_jobs(plain_job(logits), plain_job(probabilities(w2=1.1 * weights(10, 16))), data)
    (cause,) = other.causes
    assert (cause.kind, cause.label, cause.proved) == (Kind.WEIGHTS, "last (dense)", True)


def test_two_places_that_differ_are_both_named(network, data, plain_job):
    changed = network("two", w1=1.1 * weights(16, 784), w2=1.1 * weights(10, 16))
    divergence = diverge_jobs(plain_job(network("plain")), plain_job(changed), data)
    assert [(cause.label, cause.proved) for cause in divergence.causes] == [
        ("dense (dense)", True), ("last (dense)", True)
    ]  # fmt: skip


def test_layers_that_are_connected_otherwise_are_named(network, data, plain_job):
    def joined(first, second, make=helper.make_node):
        ways = [make("Tanh", ["relu"], ["t"], name="t"), make("Exp", ["relu"], ["e"], name="e")]
        return [*ways, make("Sub", [first, second], ["middle"], name="middle")]

    jobs = [plain_job(network(first, joined(first, second))) for first, second in ("te", "et")]
    (cause,) = diverge_jobs(*jobs, data, examined=1).causes
    assert (cause.kind, cause.layer, cause.proved) == (Kind.STRUCTURE, "middle", True)
    assert "it is given its inputs in another order" in cause.words


def test_a_place_that_moves_no_answer_is_mentioned_beside_the_cause(network, data, plain_job):
    """The bias keeps one unit dead on all inputs, so that what it is multiplied with has no effect."""
    bias = weights(16)
    bias[3] = -1000
    moved = weights(10, 16).copy()
    moved[:, 3] += 1
    first = weights(16, 784).copy()
    first[5] *= 1.2
    plain, changed = network("plain", b1=bias), network("dead", b1=bias, w1=first, w2=moved)
    divergence = diverge_jobs(plain_job(plain), plain_job(changed), data)
    assert [cause.label for cause in divergence.causes] == ["dense (dense)"]


def test_whole_numbers_are_no_subject_to_rounding(tmp_path, plain_job):
    """The numbers of tokens: disturbed by a rounding, they would be other tokens."""
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["vectors"], name="vectors"),
        helper.make_node("ReduceMean", ["vectors"], ["mean"], name="mean", axes=[1], keepdims=0),
        helper.make_node("Gemm", ["mean", "w"], ["logits"], name="last", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "text",
        [helper.make_tensor_value_info("tokens", INT64, ["batch", 12])],
        [helper.make_tensor_value_info("logits", FLOAT, ["batch", 10])],
        initializer=[
            numpy_helper.from_array(values, name)
            for name, values in {"table": 9 * weights(500, 8), "w": weights(10, 8)}.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "text.onnx"))
    generator = np.random.default_rng(0)
    tokens, labels = generator.integers(0, 500, (4, 12)), generator.integers(0, 10, 4)
    np.savez(tmp_path / "tokens.npz", x=tokens, y=labels)
    entry = with_file(BASE, tmp_path / "text.onnx")
    given = entry.manifest.inputs[0].model_copy(
        update={"modality": "array", "shape": (None, 12), "layout": "NC", "dtype": "int64", "color": None,
                "preprocess": ()}
    )  # fmt: skip
    entry = replace(entry, manifest=entry.manifest.model_copy(update={"inputs": (given,)}))

    def fault(name, value):
        return value * np.float32(1.001) if name == "mean" else value

    dataset = open_dataset(f"npz:{tmp_path / 'tokens.npz'}")
    divergence = diverge_jobs(plain_job(entry), plain_job(entry, fault), dataset)
    (cause,) = divergence.causes
    assert (cause.kind, cause.layer, cause.proved) == (Kind.KERNEL, "mean", True)
    assert divergence.floor < 1e-4


def test_a_changed_epsilon_is_called_that_and_not_other_weights(network, data, plain_job, tmp_path):
    norm = {key: np.abs(weights(16, seed=place)) + 0.1 for place, key in enumerate(("scale", "shift", "mean", "var"))}
    middle = [helper.make_node("BatchNormalization", ["relu", *norm], ["middle"], name="norm")]
    entry = network("normed", middle, **norm)
    (damage,) = damaged_copies(entry, tmp_path, {"epsilon changed": KINDS["epsilon changed"]})
    divergence = diverge_jobs(plain_job(entry), plain_job(damage.entry), data)
    (cause,) = divergence.causes
    assert (cause.kind, cause.proved) == (Kind.STRUCTURE, True)
    assert "epsilon" in cause.words


def test_each_deviation_of_a_layer_is_that_of_its_own_worst_input():
    pair = NodePair("x", "x")

    def layer(between, local):
        side = SideLayer(Deviation(local), 1e-5, Deviation(local), 1e-5)
        return InspectedLayer(pair, Deviation(between), 1e-5, side, None)

    worst = worst_layer([layer(1e-6, 1e-2), layer(1e-3, 1e-6)])
    assert worst.between.error == 1e-3
    assert worst.a.local.error == 1e-2
    assert worst.beyond
    assert worst.faulty == ("A",)


def test_another_input_and_other_weights_are_proved_together(network, data, plain_job):
    changed = network("both", w2=1.1 * weights(10, 16))
    resized = wrong_resize(changed)
    divergence = diverge_jobs(plain_job(network("plain")), plain_job(resized), data)
    assert [(cause.kind, cause.proved) for cause in divergence.causes] == [
        (Kind.PREPROCESSING, True), (Kind.WEIGHTS, True)
    ]  # fmt: skip
    assert "the cause is preprocessing and weights." in headline(divergence)
