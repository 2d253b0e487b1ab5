"""Stores that earlier versions wrote: nothing is measured again, and every figure is what it was.

`data/store-before-tasks.zip` was written when data said nothing but classes, `data/store-tasks.zip` by the first
version that judges boxes, masks, labels, numbers, tags, spans and speech. `scripts/write_store_fixtures.py` says how. A
test that fails here means that users' runs are lost or change: do not write the fixtures again.
"""

import json
import math
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from write_store_fixtures import HERE, SETTINGS, pinned_identity

from zoolens.base import plugins
from zoolens.base.store.checking import check_store
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.measure.answers import run_predictions
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.run_data import judged_figure
from zoolens.findings.measure.stages import stored_predictions
from zoolens.findings.measure.task_metrics import judgement_of
from zoolens.inventory.tasks.task import task_named

DATA = Path(__file__).parent / "data"
FIXTURES = ("store-before-tasks", "store-tasks")
SHOWN = {  # as `zoolens runs` shows them
    "store-before-tasks": {
        "leak": "85.0 % [70.9, 92.9]",
        "hash": "12.5 % [5.5, 26.1]",
        "quantity": "–",
        "point": "–",
        "numbers": "–",
        "sentiment": "100.0 % [91.2, 100.0]",
        "vectors": "–",
    },
    "store-tasks": {
        "detector": "ap 31.9 % [27.8, 36.2]",
        "segmenter": "miou 85.9 % [84.3, 87.4]",
        "several": "map 57.9 % [44.6, 70.2]",
        "quantity": "mae 1.22 [1.06, 1.40]",
        "vectors": "spearman 33.5 % [-4.5, 63.0]",
        "tagger": "f1 33.3 % [25.1, 42.7]",
        "finder": "f1 41.2 % [30.0, 53.3]",
        "voices": "frame_auc 100.0 %",
    },
}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    def unpack(name):
        folder = tmp_path_factory.mktemp(name)
        with zipfile.ZipFile(DATA / f"{name}.zip") as archive:
            archive.extractall(folder)
        return folder

    return {name: unpack(name) for name in FIXTURES}


@pytest.fixture(params=FIXTURES)
def fixture(request, unpacked, tmp_path, home):
    """A copy, which the test may change."""
    return Path(shutil.copytree(unpacked[request.param], tmp_path / request.param))


def told(fixture):
    return json.loads((fixture / "runs.json").read_text(encoding="utf-8"))


def as_json(observations):
    return json.loads(json.dumps([vars(each) for each in observations], default=dict))


def test_nothing_is_measured_again(fixture):
    for package in ("onnxruntime", "tokenizers"):
        pytest.importorskip(package)
    with open_store(fixture / "store.sqlite") as store, pinned_identity():
        assert check_store(store).damage == ()
        for known in told(fixture):
            (outcome,) = evaluate(
                [str(fixture / known["manifest"])],
                known["data"].replace(HERE, str(fixture)),
                runtimes=[known["runtime"]],
                store=store,
                **SETTINGS,
            )
            assert outcome.errors == (), known["manifest"]
            assert (outcome.run.id, outcome.measured) == (known["run"], ()), known["manifest"]
            assert as_json(store.observations(known["run"])) == known["observations"]
        assert len(store.runs()) == len(told(fixture))


def test_todays_metrics_give_the_figures_of_then(fixture):
    with open_store(fixture / "store.sqlite") as store:
        for known in told(fixture):
            run = store.run(known["run"])
            figures = {(each["metric"], each["scope"]): each["value"] for each in known["observations"]}
            for metric, value in recomputed(store, run):
                assert figures[metric, ""] == pytest.approx(value, rel=1e-9, abs=1e-12), (known["manifest"], metric)


def recomputed(store, run):
    """Figures of the whole run from its stored answers."""
    if task_named(run.resolved["outputs"][0]["task"]).discrete:
        predictions = stored_predictions(store, run)
        for name in plugins.names(plugins.METRICS):
            for found in plugins.load(plugins.METRICS, name)(predictions):
                if found.scope == "" and found.value is not None:
                    yield found.metric, found.value
        return
    predictions = run_predictions(store, run)
    judged = judgement_of(predictions)
    if judged is not None:
        once = np.ones((1, int(predictions.known.sum())), np.int64)
        for metric, value in zip(judged.metrics, judged.aggregate(once)[0], strict=True):
            if not math.isnan(value):
                yield metric.name, value


def test_lists_show_the_figures_of_then(fixture):
    with open_store(fixture / "store.sqlite") as store:
        runs = {known["manifest"].removesuffix(".yaml"): store.run(known["run"]) for known in told(fixture)}
        shown = {name: judged_figure(run, store.observations(run.id)) for name, run in runs.items()}
        assert shown == SHOWN[fixture.name]


@pytest.mark.slow
def test_old_runs_are_compared(fixture):
    with open_store(fixture / "store.sqlite") as store:
        for run in store.runs():
            same = compare(run.id, run.id, store=store)
            assert [each.agreement for each in same.vectors] == [1.0] * len(same.vectors)
            assert same.vectors or same.answers.agreement == 1.0
