import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferResponse
from zoolens.faces.load.mlperf import SCENARIOS, Scenario, _settings, _too_short, run_scenario
from zoolens.testing.v2_server import serving

pytest.importorskip("mlperf_loadgen")


def answer(request):
    return InferResponse("net", "1", {"logits": np.zeros((1, 3), np.float32)})


def test_a_single_stream_is_timed_by_the_load_generator(tmp_path):
    with serving(answer) as address:
        result = run_scenario(str(address), Scenario("singlestream", duration=0.3), folder=tmp_path)
    assert result.valid
    assert int(result.summary["90.0th percentile latency (ns)"]) > 0
    assert (tmp_path / "mlperf_log_summary.txt").exists()


def test_failures_make_a_run_invalid_though_the_generator_calls_it_valid():
    def refuse(request):
        raise ServingError(Refusal.OVERLOADED, "The queue is full.")

    with serving(refuse) as address:
        result = run_scenario(str(address), Scenario("SingleStream", duration=0.2))
    assert result.summary["Result is"] == "VALID"
    assert not result.valid
    assert result.failures["shed"] > 0


def test_what_is_no_scenario_is_refused():
    with pytest.raises(ZoolensError, match="SingleStream, MultiStream, Offline, Server"):
        run_scenario("http://127.0.0.1:1", Scenario("Fast"))
    with pytest.raises(ZoolensError, match="--deadline"):
        run_scenario("http://127.0.0.1:1", Scenario("Server"))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_asks_for_as_many_queries_as_its_percentile_needs(scenario):
    import mlperf_loadgen

    settings = _settings(mlperf_loadgen, Scenario(scenario, latency_bound=0.1))
    assert settings.min_query_count == {"SingleStream": 64, "Offline": 1}.get(scenario, 662)


def test_an_offline_run_that_was_over_too_soon_is_run_again():
    assert _too_short("Offline", {"Min duration satisfied": "NO"})
    assert not _too_short("Offline", {"Min duration satisfied": "Yes"})
    assert not _too_short("Server", {"Min duration satisfied": "NO"})


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["Offline", "MultiStream"])
def test_a_quick_server_gets_a_valid_run_by_default(scenario):
    with serving(answer) as address:
        assert run_scenario(str(address), Scenario(scenario, duration=0.5)).valid
