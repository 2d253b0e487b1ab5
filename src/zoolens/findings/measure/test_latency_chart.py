import json

import numpy as np
import pytest

from zoolens.base.present.charts import for_file
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.measure.latency import LatencySamples, samples_kind
from zoolens.findings.measure.latency_chart import (
    latency_distribution,
    latency_distribution_chart,
    latency_distributions,
)
from zoolens.inventory.runtimes.timing.interference import Waiting


def sampled(microseconds, clean, *, watched=True):
    times = (np.asarray(microseconds) * 1000).astype(np.int64)
    none = np.zeros(len(times), np.int64)
    return LatencySamples(times, Waiting(none, none), np.asarray(clean, bool), watched)


def test_bars_count_every_call_and_the_undisturbed_ones():
    times = np.r_[np.full(90, 50), np.full(10, 5000)]
    distribution = latency_distribution(sampled(times, times < 100), 4)
    assert (sum(distribution.raw), sum(distribution.clean)) == (100, 90)
    assert (distribution.batch, distribution.disturbed) == (4, False)
    assert distribution.clean_quantiles[2].value == pytest.approx(50e-6)
    assert distribution.raw_quantiles[2].value == pytest.approx(5e-3)
    assert "90 of 100 calls (90 %)" in latency_distribution_chart(distribution).spec["title"]["subtitle"]


def test_too_few_clean_calls_are_said_and_lines_are_of_all():
    distribution = latency_distribution(sampled(np.linspace(50, 90, 30), np.arange(30) < 5), 1)
    chart = latency_distribution_chart(distribution)
    assert "too few" in chart.spec["title"]["subtitle"]
    assert len(chart.spec["layer"][1]["data"]["values"]) == 3
    unwatched = latency_distribution(sampled([50], [True], watched=False), 1)
    assert "does not report" in latency_distribution_chart(unwatched).spec["title"]["subtitle"]


@pytest.mark.parametrize("times", [[50], [0], [50] * 40, [1, 10_000_000]])
def test_one_call_equal_calls_and_far_ones_are_drawn(times):
    distribution = latency_distribution(sampled(times, [True] * len(times)), 1)
    assert sum(distribution.raw) == len(times)
    json.dumps(for_file(latency_distribution_chart(distribution)), allow_nan=False)


def test_a_run_has_one_for_each_batch_size(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        run = write_run(store, "net", one_hot([0, 1]), [0, 1])
        for batch in (16, 2):
            store.add_part(run.id, samples_kind(batch), 0, sampled([50, 60], [True, True]).table(batch))
        assert [each.batch for each in latency_distributions(store, run)] == [2, 16]
