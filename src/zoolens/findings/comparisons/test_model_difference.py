"""The likely cause names what really differs."""

import numpy as np
import pytest
from click.testing import CliRunner

import zoolens
from zoolens.faces.cli.diff import command as diff_command
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.comparisons.gate import parse_gate
from zoolens.findings.comparisons.model_difference import (
    FilesState,
    Line,
    ModelDifference,
    WeightsDifference,
    model_cause,
    sentences,
)
from zoolens.findings.measure.evaluate import evaluate

pytestmark = pytest.mark.usefixtures("trusted_models")

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Writes small networks (two convolutions and a pool) and their manifests, evaluates and compares them."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    images = np.random.default_rng(0).integers(0, 255, (24, 9, 9, 1), np.uint8)
    np.savez(tmp_path / "data.npz", x=images, y=np.arange(24) % 4)
    return Bench(tmp_path)


class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.store = zoolens.open_store()

    def network(self, name, *, pads=(1, 1, 1, 1), seed=0):
        random = np.random.default_rng(0)
        first = random.normal(size=(3, 1, 3, 3)).astype(np.float32)
        second = np.random.default_rng(seed).normal(size=(4, 3, 3, 3)).astype(np.float32)
        nodes = [
            helper.make_node("Conv", ["image", "first"], ["a"], strides=[2, 2], pads=list(pads)),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "second"], ["c"]),
            helper.make_node("GlobalAveragePool", ["c"], ["d"]),
            helper.make_node("Flatten", ["d"], ["answer"]),
        ]
        graph = helper.make_graph(
            nodes,
            "network",
            [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["n", 1, 9, 9])],
            [helper.make_tensor_value_info("answer", onnx.TensorProto.FLOAT, ["n", 4])],
            [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, self.folder / f"{name}.onnx")

    def manifest(self, name, network, *, scale=0.01, output="{}", called=None):
        path = self.folder / f"{name}.yaml"
        path.write_text(
            f"name: {called or name}\ninputs: [{{shape: [null, 1, 9, 9], color: gray, preprocess: "
            f"[{{op: normalize, scale: {scale}}}]}}]\noutputs: [{output}]\n"
            f"assets: [{{format: onnx, files: [{{location: {network}.onnx}}]}}]\n"
        )
        return str(path)

    def compare(self, a, b):
        data = str(self.folder / "data.npz")
        outcomes = evaluate([a, b], data, runtimes="onnxruntime", batches=(), cold=False, store=self.store)
        assert not any(one.errors for one in outcomes)
        return compare(a, b, store=self.store)


def test_other_padding_with_the_same_weights(bench):
    bench.network("even")
    bench.network("odd", pads=(0, 0, 2, 2))
    cause = bench.compare(bench.manifest("a", "even"), bench.manifest("b", "odd")).cause
    assert "padding" in cause
    assert "All 2 weight tensors are the same." in cause
    assert "preprocessing" not in cause


def test_other_weights_by_tensor(bench):
    bench.network("one")
    bench.network("two", seed=1)
    cause = bench.compare(bench.manifest("a", "one"), bench.manifest("b", "two")).cause
    assert "The structure is the same (" in cause
    assert "1 of 2 weight tensors have other values: second." in cause


def test_other_preprocessing_line_by_line(bench):
    bench.network("one")
    report = bench.compare(bench.manifest("a", "one"), bench.manifest("b", "one", scale=0.02))
    assert "The files are the same. The manifests differ: inputs[0].preprocess[0].scale 0.01 → 0.02." in report.cause
    assert ("manifest inputs[0].preprocess[0].scale", "0.01", "0.02") in [
        (one.what, one.a, one.b) for one in report.environment
    ]


def test_the_same_model_has_no_cause(bench):
    bench.network("one")
    same = bench.manifest("a", "one")
    assert bench.compare(same, same).cause is None


def test_answers_that_are_no_classes_have_a_distance_that_can_be_gated(bench):
    bench.network("one")
    bench.network("two", seed=1)
    embedding = "{task: embedding}"
    a, b = bench.manifest("a", "one", output=embedding), bench.manifest("b", "two", output=embedding)
    report = bench.compare(a, b)
    (found,) = report.vectors
    assert report.answers is None
    assert (found.task, found.n, found.agreeing) == ("embedding", 24, 0)
    assert found.median_distance > 0.01
    assert "second" in report.cause
    assert parse_gate("disagreement > 2%").verdict(report)[0]
    equal = bench.compare(a, a)
    assert equal.vectors[0].max_distance == 0
    assert not parse_gate("disagreement > 0%").verdict(equal)[0]


def test_files_that_are_gone_are_said_to_be(bench):
    bench.network("one")
    bench.network("two", seed=1)
    a, b = bench.manifest("a", "one"), bench.manifest("b", "two")
    report = bench.compare(a, b)
    (bench.folder / "two.onnx").unlink()
    again = compare(report.a.id, report.b.id, store=bench.store)
    assert "not here any more" in again.cause


def test_two_manifests_of_one_name_are_two_networks(bench):
    """As when a candidate's manifest is a copy of the model's with another file in it."""
    bench.network("even")
    bench.network("odd", pads=(0, 0, 2, 2))
    ours, theirs = bench.manifest("a", "even", called="net"), bench.manifest("b", "odd", called="net")
    report = bench.compare(ours, theirs)
    assert report.a.key.model != report.b.key.model
    assert "padding" in report.cause
    assert CliRunner().invoke(diff_command, [ours, theirs]).exit_code == 1


def test_one_model_in_two_formats(bench):
    """The files differ, and the manifest is one."""
    outcomes = evaluate(
        ["demo:mlp-small"], "demo", limit=20, runtimes=["onnxruntime", "litert"], batches=(), cold=False,
        store=bench.store,
    )  # fmt: skip
    assert not any(one.errors for one in outcomes)
    report = compare("demo:mlp-small", "demo:mlp-small", runtimes=["onnxruntime", "litert"], store=bench.store)
    cause = model_cause(bench.store, report.a, report.b)
    assert "A is onnx, B is tflite. By structure: the same network up to the arrangement of values, and" in cause


def test_weights_that_are_not_read_by_tensor_are_said_to_be_compared_as_a_whole(bench):
    for seed in (1, 2):
        (bench.folder / f"{seed}.json").write_text(f'{{"classes": 4, "seed": {seed}, "input": [9, 9, 1]}}')
        (bench.folder / f"{seed}.yaml").write_text(
            f"name: fake{seed}\ninputs: [{{shape: [null, 9, 9, 1], layout: NHWC, color: gray}}]\noutputs: [{{}}]\n"
            f"assets: [{{format: fake, files: [{{location: {seed}.json}}]}}]\n"
        )
    models = [str(bench.folder / f"{seed}.yaml") for seed in (1, 2)]
    evaluate(models, str(bench.folder / "data.npz"), runtimes="fake", batches=(), cold=False, store=bench.store)
    cause = compare(*models, store=bench.store).cause
    assert "Weights of fake files such as these are compared as a whole, not by tensor." in cause


def test_sentences_are_made_of_findings_alone():
    weights = WeightsDifference(tensors=(4, 5), changed=("a", "b", "c", "d"), common=0, shared_names=4, same=False)
    found = ModelDifference(
        ("onnx", "onnx"), (Line("inputs[0].shape", "1", "2"),), FilesState.CHANGED, None, "no.", weights
    )
    assert list(sentences(found)) == [
        "The structures cannot be compared: no.",
        "4 of 4 weight tensors have other values: a, b, c, ….",
        "The manifests differ: inputs[0].shape 1 → 2.",
    ]
    unread = ModelDifference(("fake", "fake"), (), FilesState.CHANGED, None, "no.")
    assert list(sentences(unread))[-1] == "The structure, the weights or the constants in the files differ."
    assert list(sentences(ModelDifference(("onnx", "tflite"), (), FilesState.ABSENT))) == [
        "The files that ran are not here any more, so that they cannot be compared."
    ]
