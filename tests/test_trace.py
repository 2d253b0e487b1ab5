"""Traces of the fake runtime: levels are stages that are done once, and what cannot be observed is said."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import zoolens
from zoolens.base.errors import DatasetError, ZoolensError
from zoolens.base.store.records import RunKind
from zoolens.base.store.series import read_series, series_names
from zoolens.base.store.store import open_store
from zoolens.faces.cli.main import cli
from zoolens.findings.tracing import load_trace, recording
from zoolens.findings.tracing.spans import Level

QUICK = {"repeats": 6, "seconds": 1.0}


@pytest.fixture
def store(home):
    with open_store() as opened:
        yield opened


def rows(store, trace, level):
    return read_series(store, trace.run.id, f"spans-{level}").to_pylist()


def test_every_level_is_traced_from_calls_in_which_nothing_deeper_was_observed(store, fake_model, data):
    (trace,) = zoolens.trace(fake_model(latency_us=300), data, level="layer", store=store, **QUICK)
    assert trace.run.kind is RunKind.TRACE
    assert [step.name for step in trace.steps] == ["decode", "preprocess", "predict", "postprocess"]
    assert {row["observed"] for row in rows(store, trace, "model")} == {"model"}
    assert {row["observed"] for row in rows(store, trace, "layer")} == {"model", "layer"}
    assert [layer.name for layer in trace.layers] == ["scores", "logits"]
    assert trace.model.median >= 300e-6
    assert 0 < trace.covered <= 1
    assert {overhead.level for overhead in trace.overheads} == {Level.PIPELINE, Level.LAYER}
    requests = [row for row in rows(store, trace, "pipeline") if row["observed"] == "pipeline"]
    whole = [row for row in requests if row["kind"] == "request"]
    steps = [row for row in requests if row["kind"] != "request"]
    assert sum(row["duration"] for row in steps) <= sum(row["duration"] for row in whole)


def test_an_empty_name_is_no_dataset_and_does_not_mean_made_up_inputs(store, fake_model):
    with pytest.raises(DatasetError, match="No dataset given"):
        zoolens.trace(fake_model(), "", level="model", store=store, **QUICK)


def test_the_same_trace_again_observes_nothing_and_a_deeper_one_only_what_is_missing(store, fake_model, data):
    model = fake_model()
    (first,) = zoolens.trace(model, data, level="model", store=store, **QUICK)
    (second,) = zoolens.trace(model, data, level="layer", store=store, **QUICK)
    (third,) = zoolens.trace(model, data, level="layer", store=store, **QUICK)
    assert first.run.id == second.run.id == third.run.id
    assert (first.layer, first.model) == (None, third.model)
    assert [layer.samples.tolist() for layer in second.layers] == [layer.samples.tolist() for layer in third.layers]
    (fresh,) = zoolens.trace(model, data, level="model", fresh=True, store=store, **QUICK)
    assert fresh.run.id != first.run.id


def test_after_a_fresh_trace_the_same_command_gives_that_one_and_not_the_first(store, fake_model, data):
    model = fake_model()
    (first,) = zoolens.trace(model, data, level="model", store=store, **QUICK)
    (fresh,) = zoolens.trace(model, data, level="model", fresh=True, store=store, **QUICK)
    (again,) = zoolens.trace(model, data, level="layer", store=store, **QUICK)
    assert again.run.id == fresh.run.id != first.run.id


def test_what_changes_the_times_changes_the_run(store, fake_model, data):
    model = fake_model()
    traces = [
        zoolens.trace(model, given, level="model", batch=batch, store=store, **QUICK)[0]
        for given, batch in ((data, 1), (data, 4), (None, 1))
    ]
    assert len({trace.run.id for trace in traces}) == 3
    assert store.runs() == []  # no trace is taken for an evaluation


def test_spans_of_an_interrupted_level_are_used_and_not_made_again(store, fake_model, data, monkeypatch):
    model = fake_model()
    monkeypatch.setattr("zoolens.findings.tracing.runner._figures", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        zoolens.trace(model, data, level="pipeline", store=store, **QUICK)
    monkeypatch.undo()
    (run,) = store.runs(kind=RunKind.TRACE)
    before = read_series(store, run.id, "spans-pipeline")
    (trace,) = zoolens.trace(model, data, level="pipeline", store=store, **QUICK)
    assert trace.run.id == run.id
    assert read_series(store, run.id, "spans-pipeline").equals(before)


def test_without_data_the_inputs_are_made_up_and_that_is_said(store, fake_model):
    (trace,) = zoolens.trace(fake_model(), level="pipeline", store=store, **QUICK)
    assert "made-up" in trace.inputs
    assert [step.name for step in trace.steps] == ["predict", "postprocess"]


def test_a_level_that_a_runtime_cannot_observe_is_named_and_the_others_are_kept(home, fake_model, data):
    words = ["trace", str(fake_model()), "-r", "fake", "-d", str(data), "--repeats", "6", "--seconds", "1"]
    result = CliRunner().invoke(cli, [*words, "--level", "library"])
    assert result.exit_code == 1
    assert "No level library: Runtime fake cannot report the kernels below its operators" in result.output
    assert "logits" in result.output
    deeper = CliRunner().invoke(cli, [*words, "--level", "system"])
    assert deeper.exit_code == 0, deeper.output
    assert "waiting for a core" in deeper.output
    assert "note: Runtime fake cannot report the kernels" in deeper.output


def test_a_model_that_crashes_is_a_sentence(home, fake_model, data):
    result = CliRunner().invoke(cli, ["trace", str(fake_model(behaviour="crash")), "-d", str(data), "-r", "fake"])
    assert result.exit_code == 1
    assert "crashed, as it was configured to" in result.output
    assert isinstance(result.exception, ZoolensError)


def test_a_trace_of_a_model_in_a_worker_tells_the_workers_share(store, fake_model, data):
    (trace,) = zoolens.trace(fake_model(latency_us=500), data, level="system", isolate=True, store=store, **QUICK)
    names = [step.name for step in trace.steps]
    assert names == ["decode", "preprocess", "predict", "model", "postprocess"]
    predict, inside = trace.steps[2], trace.steps[3]
    assert inside.inside
    assert inside.timing.median <= predict.timing.median
    assert {counter.name: counter for counter in trace.counters}["page faults, page in memory"].median is not None


def test_a_traceparent_is_taken_over(store, fake_model, data):
    header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    (trace,) = zoolens.trace(fake_model(), data, level="model", traceparent=header, store=store, **QUICK)
    spans = rows(store, trace, "model")
    assert {row["trace_id"] for row in spans} == {"0af7651916cd43dd8448eb211c80319c"}
    assert {row["parent"] for row in spans} == {0xB7AD6B7169203331}


def test_a_trace_that_a_caller_asked_for_is_never_an_earlier_one(store, fake_model, data):
    model = fake_model()
    zoolens.trace(model, data, level="model", store=store, **QUICK)
    header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    (trace,) = zoolens.trace(model, data, level="model", traceparent=header, store=store, **QUICK)
    assert {row["trace_id"] for row in rows(store, trace, "model")} == {"0af7651916cd43dd8448eb211c80319c"}
    with recording("app", store=store) as current:
        zoolens.trace(model, data, level="model", store=store, **QUICK)
    assert "model" in {row["level"] for row in current.table().to_pylist()}


def test_a_request_and_its_steps_are_compared_on_the_same_inputs(store, fake_model, data, monkeypatch):
    from zoolens.findings.tracing import measuring

    sent = []
    observe = measuring.observed_calls
    monkeypatch.setattr(
        measuring, "observed_calls", lambda call, *a, **k: (sent.append(call.args), observe(call, *a, **k))[1]
    )
    zoolens.trace(fake_model(), data, level="pipeline", batch=3, store=store, **QUICK)
    inputs = {whole: [first for first, steps in sent if (steps is None) is whole] for whole in (True, False)}
    assert inputs[True] == inputs[False] == [3 * pair for pair in range(6)]
    order = [steps is None for _, steps in sent]
    assert order[:4] == [True, False, False, True]  # each comes first in turn


def test_a_trace_inside_a_recording_is_on_its_timeline(store, fake_model, data):
    with recording("app", store=store) as current, zoolens.span("step"):
        zoolens.trace(fake_model(), data, level="model", store=store, **QUICK)
    spans = read_series(store, current.run, "spans-user").to_pylist()
    step = next(row for row in spans if row["name"] == "step")
    assert {row["parent"] for row in spans if row["level"] == "model"} == {step["span_id"]}
    assert len({row["trace_id"] for row in spans}) == 1


def test_json_has_every_figure(home, fake_model, data):
    words = ["trace", str(fake_model()), "-d", str(data), "-r", "fake", "--repeats", "6", "--seconds", "1", "--json"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    (document,) = json.loads(result.stdout)
    assert [layer["name"] for layer in document["layers"]] == ["scores", "logits"]
    assert document["predict"]["seconds"] > 0
    assert {overhead["level"] for overhead in document["overheads"]} == {"pipeline", "layer"}
    with open_store() as store:
        trace = load_trace(document["run"][:8], store=store)
        assert np.isclose(trace.model.median, document["predict"]["seconds"])
        assert "spans-layer" in series_names(store, trace.run.id)
        assert load_trace(f"{document['model']}@fake", store=store).run.id == document["run"]


def test_what_is_no_trace_is_said(store, fake_model, data):
    with pytest.raises(ZoolensError, match="no run named"):
        load_trace("abcdef", store=store)
    zoolens.trace(fake_model(), data, level="model", store=store, **QUICK)
    with pytest.raises(ZoolensError, match="no trace named 'tiny@onyx'") as caught:
        load_trace("tiny@onyx", store=store)
    assert "@fake" in caught.value.hint
    (outcome,) = zoolens.evaluate([str(fake_model())], data, cold=False, store=store)
    with pytest.raises(ZoolensError, match="is not a trace"):
        load_trace(outcome.run.id, store=store)


NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
net (float[N, T] x, float[N, T] w) => (float[N] y)
{ z = Mul (x, w)
  y = ReduceSum <keepdims = 0> (z, axes) }
"""


@pytest.fixture
def open_shape(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    model = onnx.parser.parse_model(NETWORK)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "axes"))
    onnx.save(model, tmp_path / "open.onnx")
    return str(tmp_path / "open.onnx")


def shaped(model, *arguments):
    words = ["trace", model, "-r", "onnxruntime", "--level", "model", "--repeats", "3", "--trust", "--json", *arguments]
    return CliRunner().invoke(cli, words)


def test_shapes_that_a_file_leaves_open_are_given(home, open_shape):
    (one,) = json.loads(shaped(open_shape, "--shape", "1x300000").stdout)
    (other,) = json.loads(shaped(open_shape, "--shape", "x=1x8", "--shape", "w=1x8", "--batch", "4").stdout)
    assert one["run"] != other["run"]
    assert "1×300000" in one["inputs"]
    assert "w 1×8, x 1×8" in other["inputs"]
    # It was fed with as many numbers as were asked for.
    assert one["predict"]["seconds"] > 2 * other["predict"]["seconds"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--shape", "y=1x8"), "There is no input called 'y': the inputs are x ?×?, w ?×?"),
        (("--shape", "1x8x8"), "There is no input with 3 axes"),
        (("--shape", "x=1x8x8"), "The input x takes ?×?, which 1×8×8 does not fit"),
        (("--shape", "1x100000000"), "has more than"),
        (("--shape", "1x8", "--data", "demo"), "The inputs of a dataset have shapes of their own"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(home, open_shape, arguments, sentence):
    done = shaped(open_shape, *arguments)
    assert done.exit_code
    assert sentence in f"{done.output}{done.exception or ''}"
