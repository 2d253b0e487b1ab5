import pytest

import zoolens
from zoolens.base.errors import UnsupportedAbility
from zoolens.findings.graph.cost.test_cost import small
from zoolens.findings.measure import operators as timing

pytestmark = pytest.mark.usefixtures("trusted_models")


@pytest.fixture
def store(tmp_path):
    with zoolens.open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def test_each_operator_is_timed_once_and_kept(store, monkeypatch):
    pytest.importorskip("onnxruntime")
    table = timing.latency_table([small()], store)
    assert len(table.seconds) == 5
    assert not table.failed
    assert store.runs() == []  # no evaluation: it is listed only when asked for
    monkeypatch.setattr(timing, "_sampled", lambda *_: pytest.fail("it was timed again"))
    assert timing.latency_table([small(), small()], store) == table


def test_a_runtime_that_does_not_run_onnx_says_so(store):
    with pytest.raises(UnsupportedAbility, match="ONNX"):
        timing.latency_table([small()], store, runtime="litert")
