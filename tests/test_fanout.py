"""Work that is shared out gives what it gives on this machine: the same keys, figures, predictions and graphs.

The executor here pretends that its threads are other machines. A real cluster is in test_ray.py.
"""

import math
import pickle
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from pydantic import TypeAdapter

import zoolens
from zoolens import port
from zoolens.base import plugins
from zoolens.base.engine.executors.current_executor import running_on
from zoolens.base.engine.executors.executor import TITLE
from zoolens.base.engine.executors.local import Local
from zoolens.base.engine.machine import gpu_names
from zoolens.base.errors import AssetError, ConstraintError, Lost, ModelError, UnknownName, ZoolensError
from zoolens.base.progress import Silent
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store
from zoolens.base.store.transfer import _written, merge_run, pack_run
from zoolens.findings.divergence import diverging_elsewhere
from zoolens.findings.divergence.divergence_causes import Proof
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.structures import export_pool, fanout
from zoolens.findings.graph.structures.structure import structure_of
from zoolens.findings.index.opener import build_index
from zoolens.findings.measure import shards
from zoolens.findings.measure.plan import Outcome
from zoolens.findings.measure.prediction_stage import predict_slice
from zoolens.findings.measure.suspicions import ALL_THE_SAME, ROW_SUM, SUMS_TO_ONE
from zoolens.findings.tracing import trace_jobs
from zoolens.findings.tracing.recorder import recording
from zoolens.findings.tracing.trace_plan import TracePlan
from zoolens.inventory import catalog
from zoolens.inventory.fleet import arrival
from zoolens.inventory.fleet.travel import Travel
from zoolens.training.crosstrain.training import fanout as training_fanout
from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.node import train_here
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.pairs.loop.single_run import SingleRun
from zoolens.training.port.training import seeds_elsewhere

TIMED = ("latency", "throughput", "cold", "memory", "energy", "time", "seconds")


class Pretended(Local):
    """Another machine, which is this one."""

    elsewhere = True
    capacity = 2


class OneByOne(Pretended):
    """Runs jobs in their order."""

    capacity = 1


def facts(store):
    """Everything that is no timing, by run."""
    found = {}
    for run in store.runs(trials=True):
        stages = store.observations_by_stage(run.id)
        observations = {
            (stage, one.metric, one.scope): (one.value, one.low, one.high, one.n, one.unit, one.provenance)
            for stage, several in stages.items()
            for one in several
            if not any(word in one.metric for word in TIMED)
        }
        resolved = {name: value for name, value in run.resolved.items() if name not in ("evaluated", "evaluated_order")}
        predictions = store.table(run.id, "predictions").to_pylist() if "predictions" in store.kinds(run.id) else None
        found[run.id] = (run.ref, run.key, dict(run.stages), observations, resolved, predictions)
    return found


def test_an_evaluation_elsewhere_finds_the_same_and_goes_on_where_it_was(tmp_path):
    models, options = (
        ["demo:mlp-*", "demo:lenet-int8"],
        {"limit": 20, "runtimes": ["onnxruntime"], "cold": False, "batches": ()},
    )
    pytest.importorskip("onnxruntime")
    with open_store(tmp_path / "here.sqlite") as here, open_store(tmp_path / "there.sqlite") as there:
        zoolens.evaluate(models, "demo", store=here, **options)
        with running_on(Pretended()):
            first = zoolens.evaluate(models, "demo", store=there, **options)
            again = zoolens.evaluate(models, "demo", store=there, **options)
        assert facts(there) == facts(here)
        assert all(outcome.measured for outcome in first)
        assert [outcome.measured for outcome in again] == [()] * len(first)


class Shown(Silent):
    """Progress that keeps the names of stages and how far each came."""

    def __init__(self):
        self.stages = []

    def begin(self, title, stage, total, unit=""):
        self.stages.append([title, stage, total, 0])

    def advance(self, steps):
        self.stages[-1][3] += steps


def test_the_stages_of_an_evaluation_elsewhere_are_shown_here(tmp_path):
    pytest.importorskip("onnxruntime")
    progress = Shown()
    options = {"limit": 20, "runtimes": ["onnxruntime"], "cold": False, "batches": ()}
    with running_on(Pretended()):
        zoolens.evaluate("demo:mlp-small", "demo", store=tmp_path / "store.sqlite", progress=progress, **options)
    assert progress.stages[0][:3] == ["on local", "evaluating", 1]
    assert ["predictions", 20, 20] in [stage[1:] for stage in progress.stages]
    assert all("mlp-small" in title for title, *_ in progress.stages[1:])


SLICED = {"limit": 100, "runtimes": ["onnxruntime"], "cold": False, "batches": (), "trust": True}


@pytest.fixture
def stores(tmp_path):
    with open_store(tmp_path / "here.sqlite") as here, open_store(tmp_path / "there.sqlite") as there:
        yield here, there


def test_a_dataset_in_slices_gives_the_same_run(stores):
    """Also where the run was stopped before, and nothing is done twice."""
    pytest.importorskip("onnxruntime")
    here, there = stores
    model = "demo:lenet-narrow"
    zoolens.evaluate(model, "demo", store=here, **SLICED)
    executor = Counted()
    with running_on(executor):
        (outcome,) = zoolens.evaluate(model, "demo", store=there, shards=3, **SLICED)
    assert executor.functions == ["predict_here"] * 3 + ["evaluate_here"]
    assert not outcome.errors
    assert "predictions" in outcome.measured
    assert facts(there) == facts(here)
    assert [part.rows for part in there.parts(outcome.run.id, "predictions")] == [32, 32, 36]
    with running_on(Pretended()):
        (again,) = zoolens.evaluate(model, "demo", store=there, shards=3, **SLICED)
    assert again.measured == ()


@pytest.mark.slow  # two evaluations
def test_slices_go_on_where_a_run_stopped_and_one_that_fails_is_made_good(stores, monkeypatch):
    pytest.importorskip("onnxruntime")
    here, there = stores
    (ours,) = zoolens.evaluate("demo:lenet-narrow", "demo", store=here, **SLICED)
    packed = pack_run(here, ours.run)
    whole = here.table(ours.run.id, "predictions")
    run = merge_run(there, {**packed, "stages": {}, "parts": []})
    there.add_part(run.id, "predictions", 0, whole.slice(0, 10))
    asked = []

    def some(context, start, stop):
        asked.append((start, stop))
        if len(asked) == 3:
            raise ModelError("The last slice fails.")
        predict_slice(context, start, stop)

    monkeypatch.setattr(shards, "predict_slice", some)
    with running_on(OneByOne()):
        (outcome,) = zoolens.evaluate("demo:lenet-narrow", "demo", store=there, shards=4, **SLICED)
    assert asked == [(10, 42), (42, 74), (74, 100)]
    assert [part.rows for part in there.parts(run.id, "predictions")] == [10, 32, 32, 26]
    assert not outcome.errors
    theirs = there.table(run.id, "predictions")
    assert theirs.column("index").to_pylist() == whole.column("index").to_pylist()
    assert theirs.column("digest").to_pylist() == whole.column("digest").to_pylist()


def test_what_is_not_shared_out_in_slices_is_said(tmp_path):
    for given, words in (
        ({"fresh": True}, "fresh run"),
        ({"accuracy": False}, "Without accuracy"),
        ({"shards": 0}, "0 slices"),
    ):
        with running_on(Pretended()), pytest.raises(ZoolensError, match=words):
            zoolens.evaluate("demo:lenet-narrow", "demo", store=tmp_path / "s.sqlite", **{"shards": 2, **given})


def test_slices_end_where_batches_do():
    for done, size, batch, count in ((0, 100, 32, 3), (10, 100, 32, 4), (0, 5, 32, 3), (7, 7, 1, 2), (0, 1000, 7, 13)):
        bounds = [shards._bounds(done, size, batch, shard, count) for shard in range(count)]
        assert bounds[0][0] == done
        assert bounds[-1][1] == size
        assert all(before[1] == after[0] for before, after in pairwise(bounds))
        assert all((stop - done) % batch == 0 for _, stop in bounds if stop < size)


def test_what_slices_tell_holds_for_all_of_them():
    def told(digest, **facts):
        table = pa.table({"digest": pa.array([digest], pa.uint64())})
        known = {SUMS_TO_ONE: True, ROW_SUM: None, ALL_THE_SAME: True}
        return {"facts": {**known, **facts}, "parts": [{"table": _written(table)}]}

    assert shards._facts([told(1), told(1)]) == {SUMS_TO_ONE: True, ROW_SUM: None, ALL_THE_SAME: True}
    assert not shards._facts([told(1), told(2)])[ALL_THE_SAME]
    assert not shards._facts([told(1), told(1, **{SUMS_TO_ONE: False})])[SUMS_TO_ONE]
    assert shards._facts([told(1, **{ROW_SUM: 100.0}), told(1, **{ROW_SUM: 100.01})])[ROW_SUM] == 100.0
    assert shards._facts([told(1, **{ROW_SUM: 100.0}), told(1, **{ROW_SUM: 90.0})])[ROW_SUM] is None


def test_a_fresh_attempt_elsewhere_is_numbered_by_the_store_that_asked(tmp_path):
    """Also where the same content was measured under another name, of which the node is told nothing."""
    pytest.importorskip("onnxruntime")
    options = {"limit": 20, "runtimes": ["onnxruntime"], "cold": False, "batches": ()}
    manifest = catalog.find("demo:lenet-narrow").folder / "lenet-narrow.yaml"
    with open_store(tmp_path / "store.sqlite") as store:
        (first,) = zoolens.evaluate([manifest], "demo", store=store, **options)
        with running_on(Pretended()):
            attempts = [
                zoolens.evaluate(["demo:lenet-narrow"], "demo", store=store, fresh=True, **options)[0] for _ in range(2)
            ]
        assert [outcome.run.key.attempt for outcome in (first, *attempts)] == [0, 1, 2]
        assert all(outcome.run.key.model == first.run.key.model and outcome.measured for outcome in attempts)


MERGE_MANY = """
import pickle, sys
from pathlib import Path
from zoolens.base.store.store import open_store
from zoolens.base.store.transfer import merge_run

packed = pickle.loads(Path(sys.argv[2]).read_bytes())
with open_store(sys.argv[1]) as store:
    print(*(merge_run(store, packed, fresh=True).key.attempt for _ in range(5)))
"""


def test_fresh_attempts_that_two_processes_merge_at_once_have_numbers_of_their_own(tmp_path):
    """As `--fresh --on` does when what two drivers had measured elsewhere arrives."""
    model, dataset = ModelRecord("m", "zoo:m", "onnx", {}), DatasetRecord("d", "d", 3)
    path = tmp_path / "store.sqlite"
    with open_store(path) as store:
        run = store.begin_run(model, dataset, StackRecord("s", "onnxruntime", {}, {}))
        store.add_part(run.id, "predictions", 0, pa.table({"index": [0, 1, 2]}))
        store.finish_stage(run.id, "size", [Observation("file_size", 1.0)])
        (tmp_path / "packed").write_bytes(pickle.dumps(pack_run(store, store.run(run.id))))
    command = [sys.executable, "-c", MERGE_MANY, str(path), str(tmp_path / "packed")]
    drivers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    attempts = [int(number) for driver in drivers for number in driver.communicate(timeout=60)[0].split()]
    assert sorted(attempts) == list(range(1, 11))
    with open_store(path) as store:
        runs = store.runs(model="zoo:m")
        assert len(runs) == 11
        assert all(len(store.table(one.id, "predictions")) == 3 for one in runs)
        assert all(len(store.observations(one.id)) == 1 for one in runs)


def test_what_cannot_be_evaluated_is_an_outcome_with_its_reason(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store, running_on(Pretended()):
        outcomes = zoolens.evaluate(["demo:mlp-*"], "demo", runtimes=["no-such-runtime"], store=store)
    assert outcomes
    assert all("no-such-runtime" in outcome.errors[0] for outcome in outcomes)


@pytest.mark.slow
def test_a_diagnosis_elsewhere_is_the_same(tmp_path, fake_model, data):
    model = fake_model()
    ours = zoolens.doctor(model, data, store=tmp_path / "here.sqlite")
    with running_on(Pretended()):
        theirs = zoolens.doctor(model, data, store=tmp_path / "there.sqlite")
    assert len(ours.trials) > 3
    assert theirs == ours
    with open_store(tmp_path / "here.sqlite") as here, open_store(tmp_path / "there.sqlite") as there:
        assert facts(there) == facts(here)


def test_structures_read_elsewhere_are_the_same(tmp_path):
    pytest.importorskip("onnx")
    with open_store(tmp_path / "here.sqlite") as here, open_store(tmp_path / "there.sqlite") as there:
        ours = structure_of(["onnx:light/squeezenet", "demo:*"], store=here)
        with running_on(Pretended()):
            theirs = structure_of(["onnx:light/squeezenet", "demo:*"], store=there)
    assert [(one.ref, one.run, one.packed, one.error) for one in theirs] == [
        (one.ref, one.run, one.packed, one.error) for one in ours
    ]
    assert any(one.packed for one in theirs)


class Counted(Pretended):
    """Keeps the names of the functions that it runs."""

    def __init__(self):
        super().__init__()
        self.functions = []

    def submit_telling(self, function, job, tell, **needs):
        self.functions.append(function.rpartition(":")[2])
        return super().submit_telling(function, job, tell, **needs)


def test_an_index_is_built_from_structures_that_were_read_elsewhere(tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    options = {"limit": 20, "runtimes": ["onnxruntime"], "cold": False, "batches": ()}
    with open_store(tmp_path / "store.sqlite") as store, running_on(executor := Counted()):
        zoolens.evaluate(["demo:lenet-narrow"], "demo", store=store, trust=True, **options)
        (row,) = build_index(store, refresh=True).rows
    assert executor.functions == ["evaluate_here", "export_here"]
    assert row.figures["flops"].value > 0


def described(trace):
    """Everything of a trace that is no time: which run, which levels, which layers, what is missing."""
    resolved = {name: value for name, value in trace.run.resolved.items() if name != "details"}
    layers = [(layer.name, layer.kind, layer.nodes) for layer in trace.layers]
    stages = dict(trace.run.stages)
    return trace.run.id, trace.run.ref, trace.batch, trace.inputs, resolved, layers, stages, dict(trace.missing)


@pytest.mark.slow  # six traces
def test_a_trace_elsewhere_is_the_same_and_goes_on_where_it_was(tmp_path):
    pytest.importorskip("onnxruntime")
    options = {"runtimes": "onnxruntime", "repeats": 2, "seconds": 0.1, "trust": True}
    with open_store(tmp_path / "here.sqlite") as here, open_store(tmp_path / "there.sqlite") as there:
        ours = zoolens.trace("demo:mlp-small", store=here, **options)
        with running_on(Pretended()):
            (model,) = zoolens.trace("demo:mlp-small", store=there, level="model", **options)
            progress = Shown()
            theirs = zoolens.trace("demo:mlp-small", store=there, progress=progress, **options)
            (again,) = zoolens.trace("demo:mlp-small", store=there, fresh=True, **options)
            with recording("app", store=there) as record:
                (inside,) = zoolens.trace("demo:mlp-small", store=there, level="model", **options)
        assert [described(trace) for trace in theirs] == [described(trace) for trace in ours]
        assert ours[0].layers
        # The level that was there is not traced again.
        assert theirs[0].model == model.model
        assert [stage for _, stage, *_ in progress.stages] == ["tracing", "layer"]
        assert [trace.run.key.attempt for trace in (*theirs, again, inside)] == [0, 1, 2]
        assert "predict" in record.table().column("name").to_pylist()


def test_what_cannot_be_traced_elsewhere_is_said_as_it_is_here(tmp_path):
    said = []
    for kind in (Local, Pretended):
        for asked in ({"runtimes": "no-such-runtime"}, {"data": str(tmp_path / "absent.npz")}):
            with running_on(kind()), pytest.raises(ZoolensError) as error:
                zoolens.trace("demo:mlp-small", store=tmp_path / "store.sqlite", **asked)
            said.append((type(error.value), error.value.message, error.value.hint))
    assert said[:2] == said[2:]


@pytest.mark.parametrize("kind", [AssetError, Lost, ConstraintError])  # lacks a file, is gone, has another version
def test_a_node_that_fails_one_model_does_not_end_the_traces_of_others(tmp_path, monkeypatch, kind):
    titles, asked = [], []

    def reachable(paths, hint):
        asked.append(paths)
        if len(asked) == 1:
            raise kind("The node has no /models/first.")

    def traced(entries, *_):
        return [Outcome(entry.ref) for entry in entries]

    class Titled(OneByOne):
        def submit_telling(self, function, job, tell, **options):
            titles.append(job[TITLE])
            return super().submit_telling(function, job, tell, **options)

    monkeypatch.setattr(arrival, "check_reachable", reachable)
    monkeypatch.setattr(trace_jobs, "trace_entries", traced)
    with open_store(tmp_path / "store.sqlite") as store, running_on(Titled()):
        outcomes = list(trace_jobs.carry_out(TracePlan("demo:mlp-*"), store, Silent()))
    assert titles == [outcome.title for outcome in outcomes]
    assert len(titles) > 1
    assert [bool(outcome.errors) for outcome in outcomes] == [True] + [False] * (len(titles) - 1)
    assert "has no /models/first" in outcomes[0].errors[0]


@pytest.mark.slow  # three comparisons
def test_a_comparison_elsewhere_finds_the_same(tmp_path):
    pytest.importorskip("onnxruntime")
    options = {"limit": 20, "runtimes": ["onnxruntime"], "cold": False, "batches": ()}
    with open_store(tmp_path / "store.sqlite") as store:
        (outcome,) = zoolens.evaluate(["demo:lenet-torch"], "demo", store=store, **options)
        run = outcome.run
        ours = zoolens.diverge(run, "demo:lenet-int8@onnxruntime", examined=1, store=store)
        progress = Shown()
        with running_on(Pretended()):
            theirs = zoolens.diverge(run, "demo:lenet-int8@onnxruntime", examined=1, store=store, progress=progress)
        assert theirs == ours
        assert ours.layers
        assert len(progress.stages) > 1
        assert store.run("last") == store.run(run.id)


def test_what_cannot_be_compared_elsewhere_is_said_as_it_is_here(tmp_path):
    said = []
    for kind in (Local, Pretended):
        for a, data in (
            ("demo:no-such", "demo"),
            ("demo:mlp-small@no-such", "demo"),
            ("last", None),
            ("demo:mlp-small", "x"),
        ):
            with running_on(kind()), pytest.raises(ZoolensError) as error:
                zoolens.diverge(a, "demo:mlp-small@onnxruntime", data, store=tmp_path / "store.sqlite")
            said.append((type(error.value), error.value.message, error.value.hint))
    assert said[:4] == said[4:]


def test_numbers_that_are_not_finite_and_relative_paths_travel(tmp_path, monkeypatch):
    assert TypeAdapter(Proof).dump_python(Proof("x", math.inf, math.nan, 0.0), mode="json")["before"] == math.inf
    (tmp_path / "net.onnx").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert (
        diverging_elsewhere._absolute("net.onnx@onnxruntime:threads=1") == f"{tmp_path}/net.onnx@onnxruntime:threads=1"
    )
    assert diverging_elsewhere._absolute("demo:lenet-torch@onnxruntime") == "demo:lenet-torch@onnxruntime"


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for part, count in (("train", 64), ("test", 20)):
        labels = generator.integers(0, 3, count).astype(np.int32)
        np.save(folder / f"{part}_x.npy", generator.integers(0, 100, (count, 8, 8, 1)).astype(np.uint8))
        np.save(folder / f"{part}_y.npy", labels)
    recipe = Recipe(architecture="mlp", learning_rate=0.01, batch_size=16, epochs=2)

    def make(name, **changes):
        return Job(
            recipe=recipe, framework="torch", semantics=recipe.wanted, data=folder, output=tmp_path / name,
            loop="eager", threads=1, keep_weights=True,
        ).model_copy(update=changes)  # fmt: skip

    return make


@pytest.mark.slow  # torch is imported twice; the tests above and below go the same way with other work
def test_a_training_elsewhere_learns_the_same(job):
    pytest.importorskip("torch")
    with Workers() as workers:
        ours, answers = workers.train(job("here"))
    epochs = []
    with running_on(Pretended()), Workers() as workers:
        theirs, their_answers = workers.train(job("there"), epochs.append)
        unknown = job("x").recipe.model_copy(update={"architecture": "resnet7"})
        with pytest.raises(UnknownName, match="resnet8"):
            workers.train(job("x", recipe=unknown))
    assert np.array_equal(answers, their_answers)
    assert [epoch.loss for epoch in ours.epochs] == [epoch.loss for epoch in theirs.epochs]
    assert tuple(epochs) == theirs.epochs
    assert (job("there").output / "weights.safetensors").read_bytes() == (
        job("here").output / "weights.safetensors"
    ).read_bytes()


NETWORKS = """
import torch
from torch import nn


def made(rate):
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.ReLU(), nn.Linear(8, 10))
    return network, torch.optim.SGD(network.parameters(), lr=rate), nn.CrossEntropyLoss()


def slow():
    return made(0.05)


def quick():
    return made(0.2)
"""


def trained(result):
    """The figures of a paired training, by seed."""
    return [
        [(run.first_loss, run.losses, run.steps, run.correct, run.total) for run in pair.runs]
        + [pair.held_out_losses, pair.churn]
        for pair in result.seeds
    ]


@pytest.mark.slow  # torch is imported by ten processes
def test_seeds_that_are_trained_elsewhere_are_the_same_and_kept(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "nets.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    asked = {"inputs": ["1x28x28"], "limits": (120, 50), "batch": 40}
    stores = {name: tmp_path / f"{name}.sqlite" for name in ("here", "there")}
    ours = port.train("nets.py:slow", "nets.py:quick", **asked, seeds=2, store=stores["here"])
    executor, progress = Counted(), Shown()
    with running_on(executor):
        theirs = port.train("nets.py:slow", "nets.py:quick", **asked, seeds=2, store=stores["there"], progress=progress)
    assert executor.functions == ["train_seed_here"] * 2
    assert ["on local", "training", 2, 2] in progress.stages

    assert trained(theirs) == trained(ours)
    assert (theirs.noise, theirs.notes, theirs.settings) == (ours.noise, ours.notes, ours.settings)
    trials = {}
    for name, path in stores.items():
        with open_store(path) as store:
            trials[name] = {study: {one.name for one in store.trials(study)} for study in store.studies_with_trials()}
    assert trials["there"] == trials["here"]


def test_a_node_that_would_train_something_else_refuses():
    decided = {"data": "abc", "sides": [{"versions": {"torch": "2.0"}}], "epochs": 1}
    seeds_elsewhere.check_same(seeds_elsewhere.digests_of(decided), decided)
    with pytest.raises(ConstraintError, match="would train something else: data, sides differ there"):
        seeds_elsewhere.check_same(seeds_elsewhere.digests_of(decided), {**decided, "data": "abd", "sides": []})
    with pytest.raises(ConstraintError, match="draws other first weights"):
        seeds_elsewhere.check_start("a", "b")


def test_objects_of_this_process_are_not_trained_elsewhere():
    with running_on(Pretended()), pytest.raises(ZoolensError, match="Objects of this process cannot be trained"):
        port.train(lambda: None, "nets.py:quick", inputs=["1x28x28"])


def test_a_run_travels_with_its_answers():
    run = SingleRun(1.5, (1.0, math.nan), 6, 0.1, None, np.arange(6, dtype=np.float32).reshape(3, 2), 2, 3)
    again = seeds_elsewhere.run_of(seeds_elsewhere.run_fields(run))
    assert np.array_equal(again.answers, run.answers)
    assert again.answers.dtype == run.answers.dtype
    assert repr(replace(again, answers=None)) == repr(replace(run, answers=None))


def test_a_machine_of_another_kind_does_not_train_in_the_name_of_ours(job):
    other = {"cpu": "abacus", "cores": 1, "architecture": "wood"}
    with pytest.raises(ConstraintError, match="another kind of machine: cpu"):
        train_here({"job": job("x").model_dump(mode="json"), "weights": None, "machine": other})


def test_a_gpu_of_another_kind_does_not_train_in_the_name_of_ours(job, tmp_path, monkeypatch):
    def machine_with(gpu):
        """NVIDIA's tool, which this machine need not have."""
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho '{gpu}'\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
        gpu_names.cache_clear()

    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    try:
        machine_with("NVIDIA H200")
        message = training_fanout._message(job("x", device="cuda"), Travel(Silent()))
        on_the_cpu = training_fanout._message(job("x"), Travel(Silent()))
        machine_with("NVIDIA A100")
        with pytest.raises(ConstraintError, match=r"gpus \['NVIDIA A100'\] instead of \['NVIDIA H200'\]"):
            train_here(message)
        assert on_the_cpu["machine"] == training_fanout._message(job("x"), Travel(Silent()))["machine"]
    finally:
        gpu_names.cache_clear()


def test_a_structure_is_not_read_by_other_packages_or_from_another_file(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(b"one")
    library = plugins.registered(plugins.GRAPH_LIBRARIES)["torchvision"].value
    by_library = fanout._described(export_pool.ExportJob("alexnet", library, Request("alexnet")))
    assert "torchvision" in by_library["packages"]
    by_library["packages"] = dict.fromkeys(by_library["packages"], "0.0.1")
    from_file = fanout._described(
        export_pool.ExportJob("net", "zoolens.findings.graph.importers.onnx:ONNX", Request(str(path)))
    )
    path.write_bytes(b"two")
    first, second = fanout.export_here({"jobs": [by_library, from_file], "timeout": 10.0, "paths": []})
    assert first["circumstantial"]
    assert "has other packages: " in first["error"]
    assert second["circumstantial"]
    assert second["error"].endswith(f"has another file under {path}.")
