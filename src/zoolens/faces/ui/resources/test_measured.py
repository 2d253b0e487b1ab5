"""/measured without a browser."""

import pytest

pytest.importorskip("starlette")

import numpy as np

from zoolens.base.store.records import Observation
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.resources.measured import MOST_POINTS
from zoolens.faces.ui.test_app import client, home
from zoolens.findings.comparisons.conftest import one_hot, write_run

__all__ = ["client", "home"]  # fixtures
LABELS = np.arange(20) % 4


def measured_run(store, runtime, top1, attempt=0, **details):
    run = write_run(store, "a", one_hot(LABELS, 4), LABELS, runtime=runtime)
    run = run if not attempt else store.begin_run(run.model, run.dataset, run.stack, attempt=attempt)
    found = Observation("top1", top1, unit="fraction", low=top1 - 0.1, high=top1 + 0.1, details=details)
    store.finish_stage(run.id, "metric:topk", [found])
    return run


def test_each_environment_has_its_newest_figure_and_those_before_it(home, client):
    first = measured_run(home, "one", 0.5)
    again = measured_run(home, "one", 0.6, attempt=1)
    other = measured_run(home, "two", 0.7)
    (figure,) = client().get(f"{PREFIX}/measured/{first.ref}").json()["figures"]
    assert (figure["metric"], figure["title"], figure["dataset"]) == ("top1", "Top-1 accuracy", first.dataset.name)
    assert figure["stacks_in_all"] == 2
    rows = {row["points"][-1]["run"]: row for row in figure["stacks"]}
    assert set(rows) == {again.id, other.id}
    assert [point["run"] for point in rows[again.id]["points"]] == [first.id, again.id]
    newest = rows[again.id]["points"][-1]["figure"]
    assert (newest["value"], newest["low"], newest["high"]) == pytest.approx((0.6, 0.5, 0.7))


def test_a_small_history_has_the_newest_runs_and_says_how_many_there_are(home, client):
    runs = [measured_run(home, "one", 0.5, attempt=attempt) for attempt in range(MOST_POINTS + 3)]
    (figure,) = client().get(f"{PREFIX}/measured/{runs[0].ref}").json()["figures"]
    (stack,) = figure["stacks"]
    assert stack["runs"] == len(runs)
    assert [point["run"] for point in stack["points"]] == [run.id for run in runs[3:]]


def test_a_model_that_nobody_knows_is_refused(client):
    assert client().get(f"{PREFIX}/measured/zoo:nothing").status_code == 404
