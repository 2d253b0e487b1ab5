from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base.errors import ModelError
from zoolens.base.store.store import open_store
from zoolens.base.verdicts import NotKnown
from zoolens.faces.cli.cost import command, explained, shortened
from zoolens.findings.graph.counters.conventions import COUNTERS
from zoolens.findings.graph.counters.runner import Count
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.serialisation import pack
from zoolens.findings.graph.structures.structure import Structure

pytestmark = pytest.mark.usefixtures("trusted_models")

MODEL = "demo:lenet-wide"
MACS = 1_116_416  # 24·24·16·25 + 8·8·32·16·25 + 512·128 + 128·10


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = str(tmp_path_factory.mktemp("cost") / "store.sqlite")
    open_store(store).close()

    def call(*arguments):
        done = CliRunner().invoke(command, [*arguments, "--store", store], catch_exceptions=False)
        return done.output, done.exit_code

    return call


def test_totals_in_words(run):
    output, code = run(MODEL)
    assert code == 0
    assert "MACs        1,116,416 (1.12M)" in output
    assert "parameters  80,202" in output
    assert "two per MAC" in output  # the convention is named


def test_layers_have_their_share(run):
    output, _ = run(MODEL, "--layers")
    [conv] = [line for line in output.splitlines() if line.startswith("conv_1")]
    assert "32×8×8" in conv
    assert "73.4 %" in conv


def test_json_has_exact_figures_and_the_layers_add_up(run):
    data = json.loads(run(MODEL, "--layers", "--json")[0])
    assert data["macs"] == MACS == sum(layer["macs"] for layer in data["layers"])
    assert data["flops"] == sum(layer["flops"] for layer in data["layers"])
    assert "counters" not in data


def test_another_size_costs_more(run):
    own, larger = (
        json.loads(run(*words, "--json")[0])["macs"] for words in ((SQUEEZE,), (SQUEEZE, "--size", "448x224"))
    )
    assert own == 349_151_936
    assert 1.9 < larger / own < 2.2


SQUEEZE = "onnx:light/squeezenet"


def test_counters_are_run_and_explained(run):
    pytest.importorskip("onnx_opcounter")
    output, _ = run(MODEL, "--counters")
    assert "onnx-opcounter: MACs + 11.4k activations, + 2.82k pooling, + 512 moving data" in output
    assert "for live torch networks only" in output
    [said] = [one for one in json.loads(run(MODEL, "--counters", "--json")[0])["counters"] if one["value"] == 1_131_136]
    assert said["residual"] == 0


def test_a_size_that_is_none_is_refused(run):
    output, code = run(MODEL, "--size", "large")
    assert code == 2
    assert "write 224 or 480x640" in output


def test_a_pattern_is_refused(run):
    with pytest.raises(ModelError, match="names 12 models"):
        run("demo:*")


@pytest.fixture
def sentences(tmp_path):
    """A file with two inputs whose length is open."""
    onnx = pytest.importorskip("onnx")
    kind = onnx.TensorProto
    inputs = [onnx.helper.make_tensor_value_info(name, kind.FLOAT, ["n", "t"]) for name in ("ids", "mask")]
    nodes = [
        onnx.helper.make_node("Mul", ["ids", "mask"], ["m"]),
        onnx.helper.make_node("MatMul", ["m", "turned"], ["y"]),
        onnx.helper.make_node("Transpose", ["ids"], ["turned"]),
    ]
    outputs = [onnx.helper.make_tensor_value_info("y", kind.FLOAT, None)]
    path = tmp_path / "sentences.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", inputs, outputs)), str(path))
    return str(path)


@pytest.mark.parametrize("shapes", [["1x6"], ["ids=1x6", "mask=1×6"]])
def test_a_length_that_the_file_leaves_open_is_given(run, sentences, shapes):
    output, code = run(sentences, *(word for shape in shapes for word in ("--shape", shape)))
    assert code == 0
    assert "input 1×6 and 1×6" in output
    assert "MACs        6 (6)" in output


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ("tokens=1x6", "no input 'tokens' of 1×6"),
        ("4x6", "no input of 4×6: the inputs at batch 1 are ids 1×6, mask 1×6"),
    ],
)
def test_a_shape_that_no_input_has_is_refused(run, sentences, shape, sentence):
    with pytest.raises(ModelError, match=sentence):
        run(sentences, "--shape", "ids=1x6", "--shape", "mask=1x6", "--shape", shape)


def test_what_is_no_shape_is_refused(run):
    output, code = run(MODEL, "--shape", "ids=1x-6")
    assert code == 2
    assert "'ids=1x-6' is not a shape; write 1x128" in output


def with_unknown(monkeypatch, *arguments, macs=None, dense=True, kind="com.acme:Swirl"):
    """What the command says of a network with three operators that nobody knows behind a dense layer."""
    from zoolens.findings.graph.structures import structure
    from zoolens.findings.graph.structures.structure_sources import find_entries

    build = GraphBuilder("odd")
    value = build.add("input", [], (1, 4))
    if dense:
        value = build.add("dense", [value], (1, 8), parameters=[build.parameter("kernel", (8, 4), "k", None)])
    for _ in range(3):
        value = build.add("unknown", [value], (1, 8), source_op=kind, macs=macs)
    odd = Structure(find_entries([MODEL])[0], packed=pack(build.finish([value])))
    monkeypatch.setattr(structure, "structure_of", lambda *_, **__: [odd])
    return CliRunner().invoke(command, [MODEL, *arguments])


def test_a_total_with_uncounted_parts_is_a_lower_bound(monkeypatch):
    done = with_unknown(monkeypatch, "--layers")
    assert done.exit_code == 0
    assert "MACs        ≥ 32 (32)" in done.output
    assert "FLOPs       ≥ 64 (64)" in done.output
    assert "intensity   not known" in done.output
    assert "3 operators of kind com.acme:Swirl are not counted" in done.output
    assert "1 of 4 layers, 32 of 32 parameters, 32 MACs of a total that is not known" in " ".join(done.output.split())
    assert "%" not in done.output  # of what is not known nothing has a share


def test_nothing_counted_is_not_nought(monkeypatch):
    output = with_unknown(monkeypatch, dense=False).output
    assert "MACs        not known" in output
    assert "FLOPs       not known" in output


def test_macs_are_whole_where_the_operators_multiply_nothing(monkeypatch):
    output = with_unknown(monkeypatch, macs=0, kind="TopK").output
    assert "MACs        32 (32)" in output
    assert "FLOPs       ≥ 64 (64)" in output
    assert "are not counted, except for the MACs" in output


def test_parameters_inside_of_loops_are_not_counted_and_that_is_said(monkeypatch):
    output = with_unknown(monkeypatch, kind="Loop whose number of steps is computed").output
    assert "parameters  ≥ 32" in output
    assert "are not counted, nor are the parameters inside" in " ".join(output.split())


def test_coverage_is_in_the_json_and_a_gate_refuses_what_is_not_known(monkeypatch):
    data = json.loads(with_unknown(monkeypatch, "--json").output)
    assert data["intensity"] is None  # a ratio of two lower bounds is no bound of anything
    covered = data["coverage"]
    assert covered["understood"]["MACs"] == {"understood": 32, "total": None, "share": None}
    assert covered["not_understood"][0]["what"] == "operator com.acme:Swirl"
    refused = with_unknown(monkeypatch, "--fail-on", "unknown")
    assert isinstance(refused.exception, NotKnown)
    assert refused.exception.exit_code == 4


def test_a_gate_passes_what_is_counted_whole(run):
    assert run(MODEL, "--fail-on", "unknown")[1] == 0


def test_what_no_rule_explains_is_said():
    counter = COUNTERS["fvcore"]
    assert explained(Count(counter, 100.0, {"multiply-accumulates": 100})) == "the same as our MACs"
    terms = {"multiply-accumulates": 100, "norms": 5, "fused": -50}
    assert explained(Count(counter, 60.0, terms)) == "MACs − 50 fused, + 5 norms, + 5 that no rule explains"


def test_a_long_name_keeps_its_beginning_and_its_end():
    name = f"encoder.{'layers.' * 20}conv2"
    assert len(shortened(name)) <= 48
    assert shortened(name).startswith("encoder.")
    assert shortened(name).endswith("conv2")


def detector(path, trips):
    """A convolution, another one in a loop, and a suppression of boxes. `trips` None: as often as an input says."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Conv", ["x", "w2"], ["y"], pads=[1] * 4), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [value("i", kind.INT64, []), value("go", kind.BOOL, []), value("x", kind.FLOAT, [1, 4, 16, 16])],
        [value("on", kind.BOOL, []), value("y", kind.FLOAT, [1, 4, 16, 16])],
    )
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["a"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Loop", ["trips", "yes", "a"], ["loop"], body=body),
        helper.make_node("Reshape", ["loop", "rows"], ["boxes"]),
        helper.make_node("Transpose", ["boxes"], ["scores"], perm=[0, 2, 1]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["kept"]),
    ]
    constants = {
        "w1": np.ones((4, 3, 3, 3), np.float32), "w2": np.ones((4, 4, 3, 3), np.float32), "yes": np.array(True),
        "rows": np.array([1, 256, 4]), "most": np.array([10]), **({"trips": np.array(trips)} if trips else {}),
    }  # fmt: skip
    inputs = [value("image", kind.FLOAT, [1, 3, 32, 32]), *([] if trips else [value("trips", kind.INT64, [])])]
    initial = [onnx.numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, [value("kept", kind.INT64, [None, 3])], initial)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return str(path)


def test_a_loop_is_counted_as_often_as_it_runs_and_a_suppression_is_named(run, tmp_path):
    output, code = run(detector(tmp_path / "three.onnx", 3))
    assert code == 0
    assert "MACs        138,240 (138k)" in output  # 16·16·4·27 + 3·16·16·4·36
    assert "1 operator of kind NonMaxSuppression is not counted, except for the MACs" in output
    assert "252 of 252 parameters, 138,240 of 138,240 MACs" in output


def test_a_loop_whose_length_the_input_decides_makes_totals_lower_bounds(run, tmp_path):
    output, code = run(detector(tmp_path / "open.onnx", None))
    assert code == 0
    assert "MACs        ≥ 27,648" in output
    assert "of kind Loop whose number of steps is computed is not counted, nor are the parameters inside" in output
    assert "108 parameters of a total that is not known" in output
