import numpy as np
import pytest

from zoolens.base.protocol.address import parse_address
from zoolens.base.store.records import Provenance
from zoolens.base.store.series import read_series
from zoolens.base.store.store import open_store
from zoolens.faces.load.exchanges import Exchanges, Outcome
from zoolens.faces.load.report import _tiles
from zoolens.faces.load.results import summarise
from zoolens.faces.load.run_load import LoadRun, Target
from zoolens.faces.load.stored import ANSWERED, REQUESTS, store_run
from zoolens.testing.v2_server import NET, SERVER


def run_of(count=1000, *, shed=0.0, late=0.0):
    exchanges = Exchanges(count)
    exchanges.intended[:] = np.arange(count) / 100
    exchanges.sent[:] = exchanges.intended + late
    exchanges.started_ns = 10**18
    for row in range(count):
        refused = row % 100 < 100 * shed
        exchanges.finish(row, exchanges.intended[row] + 0.02, Outcome.SHED if refused else Outcome.ANSWERED)
    results = summarise(exchanges, loop="open", seconds=count / 100, deadline=0.05)
    target = Target(parse_address("http://127.0.0.1:8000/v2/models/net"), SERVER, NET)
    return LoadRun(target, "constant", "noise", exchanges, results)


@pytest.fixture
def stored(tmp_path):
    def store(run):
        with open_store(tmp_path / "store.db") as opened:
            kept = store_run(opened, run)
            assert read_series(opened, kept.id, REQUESTS)["time"][0].as_py() == 10**18
            return {(one.metric, one.scope): one for one in opened.observations(kept.id)}

    return store


def test_latencies_are_those_of_all_requests(stored):
    figures = stored(run_of())
    assert figures["load_latency_p99", ""].value == pytest.approx(0.02)
    assert figures["goodput", ""].value == 1
    assert figures["answered_rate", ""].value == pytest.approx(100, rel=0.01)


def test_a_server_that_sheds_has_no_latency_at_the_percentile_that_it_refused(stored):
    run = run_of(shed=0.9)
    figures = stored(run)
    assert figures["load_latency_p50", ""].provenance is Provenance.UNAVAILABLE
    assert figures["load_latency_p50", ANSWERED].value == pytest.approx(0.02)
    assert figures["goodput", ""].value == pytest.approx(0.1)
    assert next(iter(_tiles(run.results))).figure == "not answered"


def test_what_a_late_driver_measured_is_no_figure(stored):
    figures = stored(run_of(late=0.5))
    assert {one.provenance for one in figures.values()} == {Provenance.UNAVAILABLE}
    assert "late" in figures["load_latency_p50", ""].details["reason"]
