import json
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.store.store import open_store
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.runtimes.fake import Fake

pytestmark = pytest.mark.usefixtures("trusted_models")


@pytest.fixture
def moded(monkeypatch):
    """A runtime with four modes, of which one fails and one, the quickest, is less precise."""
    microseconds = {"slow": 3000, "quick": 300, "coarse": 1}
    compiled = Fake.compile

    def compile_in_mode(self, loaded, model, options):
        if options.mode == "broken":
            raise ModelError("This mode needs a compiler.")
        return compiled(self, replace(loaded, latency_us=microseconds[options.mode]), model, options)

    monkeypatch.setattr(Fake, "compile", compile_in_mode)
    monkeypatch.setattr(Fake, "modes", ("slow", "broken", "quick", "coarse"))
    monkeypatch.setattr(Fake, "coarser_modes", ("coarse",))


@pytest.fixture
def given(tmp_path):
    (tmp_path / "weights.json").write_text(json.dumps({"classes": 3, "input": [8, 8, 3], "behaviour": "label_leak"}))
    model = tmp_path / "model.yaml"
    model.write_text(
        "zoolens: 1\nname: mine\nversion: 1.0.0\ninputs:\n- shape: [null, 8, 8, 3]\n  layout: NHWC\noutputs:\n- {}\n"
        "assets:\n- format: fake\n  files:\n  - location: weights.json\n"
    )
    data = tmp_path / "data.npz"
    np.savez(data, images=np.zeros((6, 8, 8, 3), np.uint8), labels=np.zeros(6, np.int64))
    with open_store(tmp_path / "store") as store:
        yield {"models": model, "data": f"npz:{data}", "batches": (1,), "cold": False, "store": store}


def test_the_quickest_mode_of_the_same_precision_is_evaluated_and_chosen_again(moded, given):
    (outcome,) = evaluate(mode="fastest", **given)
    assert outcome.title == "file:mine in fake (quick)"
    assert not outcome.errors
    assert "latency:batch=1" in outcome.measured
    assert "latency:batch=1" not in outcome.kept
    compared, failed = outcome.notes[-2:]
    assert compared.startswith("Mode quick was the fastest. Median latency in ms at batch 1: quick 0.3")
    assert "; slow 3" in compared
    assert failed.startswith("Mode broken was not compared: ")
    store = given["store"]
    assert [run.id for run in store.runs()] == [outcome.run.id]
    assert len(store.runs(trials=True)) == 3
    (again,) = evaluate(mode="fastest", **given)
    assert again.run.id == outcome.run.id
    assert not again.measured


def test_a_runtime_without_modes_has_nothing_to_compare(given):
    (outcome,) = evaluate(mode="fastest", **given)
    assert outcome.title == "file:mine in fake"
    (named,) = evaluate(**given)
    assert named.run.id == outcome.run.id


def test_a_mode_is_chosen_by_latency(given):
    with pytest.raises(ZoolensError, match="give a batch size"):
        evaluate(mode="fastest", **{**given, "batches": ()})
