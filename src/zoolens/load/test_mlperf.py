import numpy as np
import pytest

from zoolens.errors import ZoolensError
from zoolens.load.mlperf import run_scenario
from zoolens.protocol.errors import Refusal, ServingError
from zoolens.protocol.messages import InferResponse
from zoolens.testing.v2_server import serving

pytest.importorskip("mlperf_loadgen")


def answer(request):
    return InferResponse("net", "1", {"logits": np.zeros((1, 3), np.float32)})


def test_a_single_stream_is_timed_by_the_load_generator(tmp_path):
    with serving(answer) as address:
        result = run_scenario(str(address), "singlestream", duration=0.3, folder=tmp_path)
    assert result.valid
    assert int(result.summary["90.0th percentile latency (ns)"]) > 0
    assert (tmp_path / "mlperf_log_summary.txt").exists()


def test_failures_make_a_run_invalid_though_the_generator_calls_it_valid():
    def refuse(request):
        raise ServingError(Refusal.OVERLOADED, "The queue is full.")

    with serving(refuse) as address:
        result = run_scenario(str(address), "SingleStream", duration=0.2)
    assert result.summary["Result is"] == "VALID"
    assert not result.valid
    assert result.failures["shed"] > 0


def test_what_is_no_scenario_is_refused():
    with pytest.raises(ZoolensError, match="SingleStream, Offline, Server"):
        run_scenario("http://127.0.0.1:1", "Fast")
    with pytest.raises(ZoolensError, match="--deadline"):
        run_scenario("http://127.0.0.1:1", "Server")
