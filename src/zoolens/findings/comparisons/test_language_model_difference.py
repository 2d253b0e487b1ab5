"""Two files of a language model: the cause is quantisation where nothing else lies between them."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.comparisons.model_difference import model_cause
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.runtimes.llamacpp.gguf_copy import copy_gguf
from zoolens.testing import language_models

for package in ("xllamacpp", "tokenizers", "gguf"):
    pytest.importorskip(package)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Evaluates copies of the tiny model whose matrices have these types, and are changed so."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_CACHE", str(tmp_path / "cache"))
    source = language_models.gguf(tmp_path).path()
    (tmp_path / "text.txt").write_text("AB BA CAB.\nABBA\n" * 4)

    def evaluated(**copies):
        paths = []
        for name, (type_, change) in copies.items():
            paths.append(tmp_path / f"{name}.gguf")
            copy_gguf(source, paths[-1], lambda tensor, type_=type_: _type(tensor, type_), change)
        with open_store(tmp_path / "store") as store:
            evaluate([str(path) for path in paths], f"passages:{tmp_path / 'text.txt'}", store=store)
            return store, store.runs()

    return evaluated


def _type(tensor, wanted):
    return wanted if len(tensor.shape) == 2 and tensor.shape[-1] % 32 == 0 else "F32"


def _trained(tensor, values):
    return (values + np.random.default_rng(1).normal(0, 0.3, values.shape)).astype(np.float32)


@pytest.mark.slow
def test_quantisation_is_named_as_the_cause(runs, tmp_path):
    _, (a, b) = runs(first=("F32", None), second=("Q4_0", None))
    with open_store(tmp_path / "store") as store:
        told = model_cause(store, a, b)
        assert "The structure is the same" in told
        assert "Nothing but quantisation lies between the weights of A and B: 13 of 20 tensors" in told
        report = compare(a.id, b.id, store=store)
    assert "Nothing but quantisation" in report.cause
    assert "A computed in int8+float32+float16, B in float32+float16." in report.cause
    assert "--precision float32" not in report.cause  # llama.cpp refuses it for quantised files


@pytest.mark.slow  # minutes of timing at two context lengths
def test_another_training_is_not_called_quantisation(runs, tmp_path):
    _, (a, b) = runs(first=("F32", None), second=("Q4_0", _trained))
    with open_store(tmp_path / "store") as store:
        told = model_cause(store, a, b)
    assert "values that no rounding gives: another training" in told
    assert "Nothing but quantisation" not in told
