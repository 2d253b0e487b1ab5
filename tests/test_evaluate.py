"""Whole evaluations: measured once, resumed, repeated, compared, reproduced, through the Python API and the store."""

import numpy as np
import pytest

import zoolens
from zoolens.base.engine import sandbox
from zoolens.base.progress import Silent
from zoolens.findings.measure import prediction_stage, stages
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.catalog.lookup import find

TIMED = {"cold": False}
QUICK = {"cold": False, "batches": ()}


def values(store, run, metric):
    return {one.scope: one.value for one in store.observations(run.id) if one.metric == metric}


def test_an_evaluation_leaves_every_kind_of_observation(home, fake_model, data):
    store = zoolens.open_store()
    (outcome,) = evaluate([str(fake_model(behaviour="label_leak"))], data, batches=(1, 8), store=store)
    assert not outcome.errors
    run = outcome.run
    found = {one.metric for one in store.observations(run.id)}
    assert {"top1", "top5", "recall", "ece", "brier", "nll", "file_size", "parameters", "throughput"} <= found
    assert {"latency_p50", "latency_p90", "latency_p99", "cold_start", "peak_memory", "clean_share"} <= found
    assert values(store, run, "top1") == {"": 1.0}
    assert set(values(store, run, "latency_p50")) == {"batch=1", "batch=1,raw", "batch=8", "batch=8,raw"}
    assert {"start", "import", "load", "compile", "first_run", "total"} == set(values(store, run, "cold_start"))
    assert store.table(run.id, "predictions").num_rows == 300
    samples = store.table(run.id, "latency-batch1")
    assert {"elapsed_ns", "run_queue_delay_ns", "context_switches", "clean"} <= set(samples.column_names)
    assert run.resolved["precision"] == "float32"


def two_headed(folder, images, *, batch=None):
    """An ONNX model with a classifier's output and an embedding, and its manifest."""
    onnx = pytest.importorskip("onnx")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    weights = np.random.default_rng(0).normal(size=(int(np.prod(images)), 4)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["image"], ["flat"]),
            helper.make_node("MatMul", ["flat", "w"], ["features"]),
            helper.make_node("Relu", ["features"], ["embedding"]),
        ],
        "heads",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [batch or "n", *images])],
        [
            helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, [batch or "n", 4]),
            helper.make_tensor_value_info("embedding", onnx.TensorProto.FLOAT, [batch or "n", 4]),
        ],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "heads.onnx")

    def manifest(name, outputs):
        path = folder / f"{name}.yaml"
        shape = ", ".join(map(str, images))
        path.write_text(
            f"name: {name}\nelement_type: float32\n"
            f"inputs: [{{shape: [null, {shape}], preprocess: [{{op: normalize, scale: 0.01}}]}}]\n"
            f"outputs: {outputs}\nassets: [{{format: onnx, files: [{{location: heads.onnx}}]}}]\n"
        )
        return str(path)

    return manifest


def test_every_declared_output_is_kept_in_the_same_row(home, tmp_path):
    labels, images = np.arange(70) % 4, np.random.default_rng(1).integers(0, 255, (70, 5, 5, 3)).astype(np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=labels)
    manifest = two_headed(tmp_path, (3, 5, 5))
    both = manifest("both", "[{name: features}, {name: embedding, task: embedding}]")
    only = manifest("only", "[{name: embedding, task: embedding}]")
    store = zoolens.open_store()
    data = f"npz:{tmp_path / 'data.npz'}"
    first, second = evaluate([both, only], data, runtimes=["onnxruntime"], store=store, batches=(), cold=False)
    assert not first.errors
    assert not second.errors
    assert [one["task"] for one in first.run.resolved["outputs"]] == ["classification", "embedding"]
    assert [one["width"] for one in first.run.resolved["outputs"]] == [4, 4]
    table, alone = (store.table(one.run.id, "predictions") for one in (first, second))
    assert "label_score" in table.column_names
    assert "out1.label_score" not in table.column_names
    assert table["out1.vector"].to_pylist() == alone["vector"].to_pylist()
    assert table["out1.digest"].to_pylist() == alone["digest"].to_pylist()
    assert "top1" in {one.metric for one in store.observations(first.run.id)}
    assert not [one for one in store.observations(second.run.id) if one.metric == "top1"]  # no classes, no accuracy
    assert zoolens.compare(second.run.id, second.run.id, store=store).answers is None


def test_the_same_evaluation_again_measures_nothing(home, fake_model, data, monkeypatch):
    model = str(fake_model())
    (first,) = evaluate([model], data, **TIMED)
    monkeypatch.setattr(
        "zoolens.findings.measure.jobs.Job.open", lambda self: pytest.fail("the model was opened again")
    )
    (second,) = evaluate([model], data, **TIMED)
    assert second.run.id == first.run.id
    assert second.measured == ()
    assert set(second.kept) == set(first.measured)


def test_another_batch_size_adds_to_the_run(home, fake_model, data):
    model = str(fake_model())
    (first,) = evaluate([model], data, **TIMED)
    (second,) = evaluate([model], data, batches=(1, 4), **TIMED)
    assert second.run.id == first.run.id
    assert second.measured == ("latency:batch=4",)


def test_fresh_makes_a_new_attempt(home, fake_model, data):
    model = str(fake_model())
    (first,) = evaluate([model], data, **QUICK)
    (second,) = evaluate([model], data, fresh=True, **QUICK)
    assert second.run.id != first.run.id
    assert second.run.key.attempt == 1


def test_predictions_resume_where_they_stopped(home, fake_model, data, monkeypatch):
    """Stopped in the middle, the second run predicts only the rest, and all answers equal an undisturbed run's."""
    store = zoolens.open_store()
    model = str(fake_model())
    monkeypatch.setattr(prediction_stage, "SECONDS_BETWEEN_PARTS", 0.0)
    seen = []

    class StopAfterFour(Silent):
        def advance(self, steps):
            seen.append(steps)
            if len(seen) == 5:  # the first call tells how much was done before
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate([model], data, store=store, progress=StopAfterFour(), **QUICK)
    (run,) = store.runs()
    done = sum(part.rows for part in store.parts(run.id, "predictions"))
    assert 0 < done < 300
    (outcome,) = evaluate([model], data, store=store, **QUICK)
    resumed = store.table(outcome.run.id, "predictions")
    (undisturbed,) = evaluate([model], data, store=store, fresh=True, **QUICK)
    assert resumed.equals(store.table(undisturbed.run.id, "predictions"))
    assert resumed["index"].to_pylist() == list(range(300))


def test_changed_weights_and_changed_data_are_other_runs(home, fake_model, data, tmp_path):
    (first,) = evaluate([str(fake_model(seed=1))], data, **QUICK)
    (second,) = evaluate([str(fake_model(seed=2))], data, **QUICK)
    np.savez(tmp_path / "other.npz", x=np.zeros((30, 8, 8), np.uint8), y=np.arange(30) % 10)
    (third,) = evaluate([str(fake_model(seed=2))], tmp_path / "other.npz", **QUICK)
    assert len({first.run.id, second.run.id, third.run.id}) == 3


def test_a_model_that_cannot_run_is_not_excused_by_its_namesake(home, fake_model, data, tmp_path):
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    good, bad = (fake_model("net", folder=folder) for folder in folders)
    (bad.parent / "net.json").unlink()
    outcomes = {outcome.run is not None: outcome for outcome in evaluate([str(good), str(bad)], data, **QUICK)}
    assert not outcomes[True].errors
    assert outcomes[False].failed
    assert "b/net.json does not exist" in outcomes[False].errors[0]
    assert outcomes[False].skipped is None


def test_a_description_is_not_part_of_the_models_identity(home, fake_model, data):
    model = fake_model()
    (first,) = evaluate([str(model)], data, **QUICK)
    model.write_text(model.read_text() + "description: better words\n")
    (second,) = evaluate([str(model)], data, **QUICK)
    assert second.run.id == first.run.id


def test_nan_outputs_are_an_error_and_other_models_still_run(home, fake_model, data):
    bad, good = fake_model("bad", behaviour="nan"), fake_model("good")
    outcomes = evaluate([str(bad), str(good)], data, **QUICK)
    assert "NaN or infinity" in outcomes[0].errors[0]
    assert not outcomes[1].errors


def test_a_constant_model_is_measured_and_called_suspicious(home, fake_model, data):
    (outcome,) = evaluate([str(fake_model(behaviour="constant", seed=3))], data, **QUICK)
    assert outcome.run is not None
    assert "answers class 3" in outcome.warnings[0]
    assert outcome.failed


def test_a_fixed_batch_is_honoured_for_accuracy_and_refused_for_other_latencies(home, fake_model, data):
    store = zoolens.open_store()
    model = fake_model(batch=7, behaviour="label_leak")
    model.write_text(model.read_text().replace("[null, 8, 8]", "[7, 8, 8]"))
    (outcome,) = evaluate([str(model)], data, batches=(7, 2), store=store, **TIMED)
    assert values(store, outcome.run, "top1") == {"": 1.0}
    refused = next(one for one in store.observations(outcome.run.id) if one.scope == "batch=2")
    assert refused.value is None
    assert refused.provenance == "unavailable"
    assert refused.details["reason"]


def test_comparison_is_paired_and_exact(home, fake_model, data):
    store = zoolens.open_store()
    (right,) = evaluate([str(fake_model("right", behaviour="label_leak"))], data, store=store, **QUICK)
    (noise,) = evaluate([str(fake_model("noise"))], data, store=store, **QUICK)
    answers = zoolens.compare(right.run.id, noise.run.id, store=store).answers
    predictions = stages.stored_predictions(store, noise.run)
    wrong = int((~predictions.correct).sum())
    assert (answers.n, answers.only_a, answers.only_b, answers.both_wrong) == (300, wrong, 0, 0)
    assert answers.top1_change == pytest.approx(-wrong / 300)
    assert answers.difference.low <= answers.top1_change <= answers.difference.high
    assert answers.p_value < 1e-6
    assert len(answers.disagreements) == wrong
    same = zoolens.compare(right.run.id, right.run.id, store=store)
    assert (same.answers.p_value, same.answers.agreement, same.answers.identical_outputs) == (1.0, 1.0, 1.0)
    assert same.cause is None


def test_runs_on_other_data_are_not_compared(home, fake_model, data):
    store = zoolens.open_store()
    model = str(fake_model())
    (a,) = evaluate([model], data, store=store, **QUICK)
    (b,) = evaluate([model], data, limit=100, store=store, **QUICK)
    with pytest.raises(zoolens.ZoolensError, match="only runs on the same inputs"):
        zoolens.compare(a.run.id, b.run.id, store=store)


def test_a_run_is_reproduced_from_the_store_alone(home, fake_model, data):
    store = zoolens.open_store()
    (outcome,) = evaluate([str(fake_model())], data, limit=120, seed=5, store=store, **QUICK)
    assert outcome.run.dataset.details["drawn_from"] > 120  # tells a seeded choice from the whole of a dataset
    again = zoolens.reproduce(outcome.run.id, store=store)
    assert again.holds
    assert again.again.key.attempt == 1
    assert again.report.answers.identical_outputs == 1.0


def test_a_changed_model_is_not_passed_off_as_reproduced(home, fake_model, data):
    store = zoolens.open_store()
    (outcome,) = evaluate([str(fake_model(seed=1))], data, store=store, **QUICK)
    fake_model(seed=2)
    with pytest.raises(zoolens.ZoolensError, match="not the model that run"):
        zoolens.reproduce(outcome.run.id, store=store)


def test_constraints_select_and_explain(home, fake_model, data):
    (outcome,) = evaluate([str(fake_model())], data, require="memory>=9000GB", **QUICK)
    assert "memory" in outcome.errors[0]
    (outcome,) = evaluate([str(fake_model())], data, require="cores>=1", **QUICK)
    assert not outcome.errors


def test_isolated_and_in_process_give_the_same_answers(home, fake_model, data):
    store = zoolens.open_store()
    model = str(fake_model())
    (inside,) = evaluate([model], data, store=store, **QUICK)
    (outside,) = evaluate([model], data, store=store, isolate=True, **QUICK)
    assert zoolens.compare(inside.run.id, outside.run.id, store=store).answers.identical_outputs == 1.0


def test_observations_as_dataframe(home, fake_model, data):
    store = zoolens.open_store()
    evaluate([str(fake_model(behaviour="label_leak"))], data, store=store, **QUICK)
    frame = store.frame()
    row = frame[frame.metric == "top1"].iloc[0]
    assert (row.value, row.n) == (1.0, 300)


def test_a_changed_manifest_is_not_passed_off_as_reproduced(home, fake_model, data):
    """The stored manifest would still run, and answer as it did."""
    manifest = fake_model()
    store = zoolens.open_store()
    (outcome,) = evaluate([str(manifest)], data, store=store, **QUICK)
    described = manifest.read_text()
    manifest.write_text(described.replace("scores: logits", "scores: logits\n    name: null"))
    again = zoolens.reproduce(outcome.run.id, store=store)  # what is said anew, and means the same
    assert again.holds
    manifest.write_text(
        described.replace("color: gray", "color: gray\n    preprocess: [{op: normalize, mean: [0.5], std: [0.5]}]")
    )
    with pytest.raises(zoolens.ZoolensError, match=r"The manifest of file:fake.* is not the one that run .*preprocess"):
        zoolens.reproduce(outcome.run.id, store=store)
    manifest.write_text(described.replace("scores: logits", "scores: probabilities"))
    with pytest.raises(zoolens.ZoolensError, match=r"outputs\[0\]\.scores logits → probabilities"):
        zoolens.reproduce(outcome.run.id, store=store)
    manifest.write_text(described.replace("name: fake", "name: other"))
    assert zoolens.reproduce(outcome.run.id, store=store).notes == ()
    manifest.unlink()
    again = zoolens.reproduce(outcome.run.id, store=store)
    assert again.holds
    assert "manifest is not found" in again.notes[0]


def test_runs_without_predictions_are_compared_and_reproduced_by_their_timings(home, fake_model, data):
    store = zoolens.open_store()
    (a,) = evaluate([str(fake_model("a"))], data, accuracy=False, store=store, **TIMED)
    (b,) = evaluate([str(fake_model("b", seed=2))], data, accuracy=False, store=store, **TIMED)
    report = zoolens.compare(a.run.id, b.run.id, store=store)
    assert report.answers is None
    assert "latency_p50" in {figure.metric for figure in report.figures}
    assert zoolens.reproduce(a.run.id, store=store).holds


def test_a_figure_that_is_gone_is_not_reproduced():
    from zoolens.base.store.records import Observation
    from zoolens.findings.comparisons.reproduce import verdicts

    then = [Observation("top1", 0.8, low=0.7, high=0.9), Observation("own", 2.0), Observation("never", None)]
    now = [Observation("top1", 0.85), Observation("never", 3.0)]
    assert [(one.then.metric, one.inside) for one in verdicts(then, now)] == [("top1", True), ("own", False)]


def test_the_same_content_under_two_names_is_found_under_both(home, fake_model, data, tmp_path, monkeypatch):
    """Model and data copied elsewhere, named relatively, and the first copy deleted: the run is still reproduced."""
    import shutil

    store = zoolens.open_store()
    model = fake_model("orig")
    (first,) = evaluate([str(model)], data, store=store, **QUICK)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    fake_model("copy", folder=elsewhere)
    shutil.move(data, elsewhere / "moved.npz")
    monkeypatch.chdir(elsewhere)
    (second,) = evaluate(["./copy.yaml"], "moved.npz", store=store, **QUICK)
    assert second.run.id == first.run.id
    assert second.run.ref.startswith("file:copy")
    (tmp_path / "orig.json").unlink()
    monkeypatch.chdir(tmp_path)
    assert zoolens.reproduce(first.run.id, store=store).holds


def test_a_failing_metric_stops_nothing_else(home, fake_model, data, monkeypatch):
    from zoolens.base import plugins

    def broken(predictions):
        raise RuntimeError("no such luck")

    load = plugins.load
    monkeypatch.setattr(plugins, "load", lambda group, name: broken if name == "topk" else load(group, name))
    (outcome,) = evaluate([str(fake_model())], data, **TIMED)
    assert "no such luck" in outcome.errors[0]
    assert {"metric:calibration", "size", "latency:batch=1"} <= set(outcome.measured)


def test_a_model_whose_process_died_is_opened_again(home, fake_model, data, monkeypatch):
    """The next stage and the next run get a new process."""
    from zoolens.findings.measure import job_runner as module
    from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession

    real = module.measure_batch_latency

    def dies_once(context, batch):
        if batch == 2:
            session = context.subject().session
            assert isinstance(session, IsolatedSession)
            session._worker.stop()
        return real(context, batch)

    monkeypatch.setattr(module, "measure_batch_latency", dies_once)
    (outcome,) = evaluate([str(fake_model())], data, batches=(1, 2, 3), isolate=True, **TIMED)
    assert len(outcome.errors) == 1
    assert {"latency:batch=1", "latency:batch=3"} <= set(outcome.measured)


def test_facts_measured_under_other_conditions_do_not_mix(home, fake_model, data, monkeypatch):
    from zoolens.inventory.runtimes.fake import FakeSession
    from zoolens.inventory.runtimes.runtime import Effective

    model = str(fake_model())
    evaluate([model], data, **TIMED)
    monkeypatch.setattr(FakeSession, "effective", lambda self: Effective("numpy", "float32", threads=7))
    (outcome,) = evaluate([model], data, batches=(1, 4), **TIMED)
    assert "threads 1 and now 7" in outcome.errors[0]
    assert "--fresh" in outcome.errors[0]
    (fresh,) = evaluate([model], data, batches=(1, 4), fresh=True, **TIMED)
    assert not fresh.errors


def test_postprocessing_code_is_judged_like_any_answer(home, fake_model, data):
    """Logits that are all negative once made top-1 zero; an answer of the wrong shape is explained."""
    store = zoolens.open_store()
    model = fake_model(behaviour="label_leak")
    plain = model.read_text()
    code = "code:\n  postprocess: |\n    def postprocess(outputs):\n        return {}\n"
    model.write_text(plain + code.format("outputs['logits'] - 5"))
    (outcome,) = evaluate([str(model)], data, allow_code=True, store=store, **QUICK)
    assert values(store, outcome.run, "top1") == {"": 1.0}
    model.write_text(plain + code.format("outputs['logits'].argmax(1)"))
    (outcome,) = evaluate([str(model)], data, allow_code=True, store=store, **QUICK)
    assert "not a score for each class" in outcome.errors[0]


def test_isolated_runs_are_runs_of_their_own(home, fake_model, data):
    model = str(fake_model())
    (inside,) = evaluate([model], data, **QUICK)
    (outside,) = evaluate([model], data, isolate=True, **QUICK)
    assert inside.run.id != outside.run.id


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ([("Softmax", ["scores"], ["p"], {}), ("Mul", ["p", "hundred"], ["answer"], {})], "every row adds up to 100"),
        ([("LogSoftmax", ["scores"], ["answer"], {"axis": 0})], "gets another answer alone than in a batch"),
        ([("Identity", ["scores"], ["answer"], {})], None),
    ],
)
def test_declared_logits_that_are_percentages_or_mix_a_batch_are_no_tick(home, tmp_path, last, said):
    onnx = pytest.importorskip("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    weights = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32) / 100
    nodes = [("Flatten", ["image"], ["flat"], {}), ("MatMul", ["flat", "w"], ["scores"], {}), *last]
    graph = helper.make_graph(
        [helper.make_node(op, given, made, **attributes) for op, given, made, attributes in nodes],
        "odd",
        [helper.make_tensor_value_info("image", real, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("answer", real, ["n", 4])],
        [onnx.numpy_helper.from_array(value, name) for name, value in (("w", weights), ("hundred", np.float32(100)))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "odd.onnx")
    images = np.random.default_rng(1).integers(0, 255, (60, 8, 8), np.uint8)
    np.savez(tmp_path / "data.npz", x=images, y=(images.reshape(60, -1) @ weights).argmax(axis=1))
    (tmp_path / "odd.yaml").write_text(
        "name: odd\ninputs: [{shape: [null, 1, 8, 8], color: gray}]\noutputs: [{scores: logits}]\n"
        "assets: [{format: onnx, files: [{location: odd.onnx}]}]\n"
    )
    (outcome,) = evaluate(
        str(tmp_path / "odd.yaml"), str(tmp_path / "data.npz"), runtimes="onnxruntime", batches=(), cold=False
    )
    assert bool(outcome.warnings) is (said is not None)
    assert said is None or any(said in one for one in outcome.warnings)


def test_logits_that_are_probabilities_already_are_no_tick(home, tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    weights = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32) / 100
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["image"], ["flat"]),
            helper.make_node("MatMul", ["flat", "w"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["answer"]),
        ],
        "doubled",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("answer", onnx.TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "doubled.onnx"
    )
    images = np.random.default_rng(1).integers(0, 255, (60, 8, 8), np.uint8)
    np.savez(tmp_path / "data.npz", x=images, y=(images.reshape(60, -1) @ weights).argmax(axis=1))
    (tmp_path / "wrong.yaml").write_text(
        "name: wrong\ninputs: [{shape: [null, 1, 8, 8], color: gray}]\noutputs: [{scores: logits}]\n"
        "assets: [{format: onnx, files: [{location: doubled.onnx}]}]\n"
    )
    store, data = zoolens.open_store(), str(tmp_path / "data.npz")
    for _ in range(2):  # also where everything was measured before
        (outcome,) = evaluate(
            str(tmp_path / "wrong.yaml"), data, runtimes="onnxruntime", batches=(), cold=False, store=store
        )
        assert ["every row of its answers adds up to 1" in one for one in outcome.warnings] == [True]
    (right,) = evaluate(
        str(tmp_path / "doubled.onnx"), data, runtimes="onnxruntime", batches=(), cold=False, store=store
    )
    assert not any("adds up" in one for one in right.warnings)  # the draft has seen the softmax


def test_trusted_and_sandboxed_runs_are_the_same_run(home):
    """The sandbox is a fact of a run and no part of its key: answers are equal bit by bit, and times mean the same."""
    store = zoolens.open_store()
    chosen = {"runtimes": ["onnxruntime"], "limit": 60, "batches": (), "cold": False, "store": store}
    (sandboxed,) = evaluate(["demo:mlp-small"], "demo", **chosen)
    (trusted,) = evaluate(["demo:mlp-small"], "demo", trust=True, **chosen)
    assert trusted.run.id == sandboxed.run.id
    assert not trusted.measured
    assert store.run(sandboxed.run.id).resolved["sandbox"] == sandbox.describe()
    (again,) = evaluate(["demo:mlp-small"], "demo", trust=True, fresh=True, **chosen)
    assert store.run(again.run.id).resolved["sandbox"] == sandbox.TRUSTED
    digests = [store.table(one.run.id, "predictions").column("digest").to_pylist() for one in (sandboxed, again)]
    assert digests[0] == digests[1]


def test_plain_data_stays_in_our_process(home, fake_model, data):
    (outcome,) = evaluate([str(fake_model())], data, **QUICK)
    assert outcome.run.resolved["sandbox"] == sandbox.PLAIN


def test_copies_in_the_data_are_noted(home, fake_model, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (30, 8, 8), np.uint8)
    images[20:] = images[:10]
    np.savez(tmp_path / "copies.npz", x=images, y=(images[:, 0, 0] % 10).astype(np.int64))
    for _ in range(2):  # measured, and found measured
        (outcome,) = evaluate(
            [str(fake_model(behaviour="label_leak"))], tmp_path / "copies.npz", batches=(), cold=False
        )
        assert [note for note in outcome.notes if note.startswith("10 of 30 inputs are copies of others")]


def _candidates(store, reference, data):
    answer = zoolens.query(f"CORR {reference} WITHIN 0% DATA '{data.stem}'", store=store)
    return {match.ref.partition("@")[0] for match in answer.matches}, " ".join(answer.notes)


def test_a_file_that_changed_and_was_not_evaluated_again_is_no_candidate(home, fake_model, data):
    store = zoolens.open_store()
    for name, seed in (("reference", 1), ("steady", 2), ("altered", 3)):
        evaluate([str(fake_model(name, seed=seed))], data, store=store, **QUICK)
    found, notes = _candidates(store, "reference", data)
    assert found == {"file:steady", "file:altered"}
    fake_model("altered", seed=4)
    found, notes = _candidates(store, "reference", data)
    assert found == {"file:steady"}
    assert "file:altered@1.0.0 has another file than the one that was measured, and is left out" in notes
    fake_model("altered", seed=3)  # as it was measured
    assert _candidates(store, "reference", data)[0] == {"file:steady", "file:altered"}


def test_a_copy_of_another_model_is_known_only_on_the_data_it_was_evaluated_on(home, fake_model, data, tmp_path):
    import shutil

    store = zoolens.open_store()
    other = tmp_path / "other.npz"
    arrays = dict(np.load(data))
    np.savez(other, **{name: array[:120] for name, array in arrays.items()})
    for name, seed in (("reference", 1), ("replaced", 2), ("source", 3)):
        for used in (data, other):
            evaluate([str(fake_model(name, seed=seed))], used, store=store, **QUICK)
    shutil.copy(tmp_path / "source.json", tmp_path / "replaced.json")
    evaluate([str(tmp_path / "replaced.yaml")], data, store=store, **QUICK)
    found, _ = _candidates(store, "reference", other)
    assert "file:replaced" not in found  # of the old content there, nothing of the new one is claimed
    assert found <= {"file:source"}


def test_a_metric_of_ours_that_was_revised_is_computed_anew_from_the_stored_answers(
    home, fake_model, data, monkeypatch
):
    model = str(fake_model(behaviour="label_leak"))
    with monkeypatch.context() as before:
        before.setattr("zoolens.findings.measure.carryover._REVISIONS", {})
        (old,) = evaluate([model], data, batches=(), cold=False)
    (new,) = evaluate([model], data, batches=(), cold=False)
    assert new.run.key.attempt == old.run.key.attempt + 1
    assert tuple(new.measured) == ("metric:calibration",)
    (again,) = evaluate([model], data, batches=(), cold=False)
    assert (again.run.id, tuple(again.measured)) == (new.run.id, ())


def test_an_accuracy_that_rests_on_guesses_is_marked_and_can_be_refused(request, tmp_path):
    import shutil

    pytest.importorskip("onnxruntime")
    command = request.getfixturevalue("zoolens")  # the name is the module's here
    folder = find("demo:lenet-narrow").folder
    bare = tmp_path / "bare.onnx"
    shutil.copy(folder / "lenet-narrow.onnx", bare)
    options = ("--data", "demo", "--limit", 40, "--no-cold", "--latency-seconds", 0.1, "-r", "onnxruntime")
    done = command("eval", bare, *options, "--fail-on", "guessed")
    assert done.returncode == 4
    said = " ".join((done.stdout + done.stderr).split())
    assert "? file:bare" in said
    assert "✓" not in said
    assert "its accuracy rests on guesses (grey images without a channel axis; images are resized to 28×28" in said
    assert "zoolens doctor" in said
    assert "] (guessed)" in said
    assert "] (guessed)" in command("runs", "--wide").stdout
    assert "rests on guesses" in command("compare", "last", "last").stdout
    assert command("eval", bare, *options).returncode == 0
    assert command("manifest", "init", bare, "-o", tmp_path / "own.yaml").returncode == 0
    written = (tmp_path / "own.yaml").read_text()
    assert "? file:bare" in command("eval", tmp_path / "own.yaml", *options).stderr  # nobody has checked it yet
    checked = written[: written.index("attributes:")]
    (tmp_path / "own.yaml").write_text(checked)
    done = command("eval", tmp_path / "own.yaml", *options, "--fail-on", "guessed")
    assert done.returncode == 0, done.stderr
    assert "✓ file:bare" in done.stderr
    assert "(guessed)" not in command("runs", "--wide").stdout


def test_names_that_tables_print_are_names_for_compare(home, fake_model, data, tmp_path):
    store = zoolens.open_store()
    for name, seed in (("one", 1), ("two", 2)):
        evaluate([str(fake_model(name, seed=seed))], data, store=store, **QUICK)
    report = zoolens.compare("file:one", "file:two@1.0.0", store=store)
    assert [run.ref for run in (report.a, report.b)] == ["file:one@1.0.0", "file:two@1.0.0"]
    fake_model("one", seed=3)
    with pytest.raises(zoolens.ZoolensError, match="as it is now, was not evaluated"):
        zoolens.compare("file:one", "file:two", store=store)
    with pytest.raises(zoolens.ZoolensError, match="no run or model named 'file:three'"):
        zoolens.compare("file:three", "file:two", store=store)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    evaluate([str(fake_model("two", folder=elsewhere, seed=4))], data, store=store, **QUICK)
    with pytest.raises(zoolens.ZoolensError, match="'file:two' could be any of"):
        zoolens.compare("file:two", "file:one", store=store)
