"""A temperature is named only if it explains the whole difference."""

import numpy as np
import pytest

from zoolens.findings.comparisons.compare import compare_runs
from zoolens.findings.comparisons.conftest import write_run
from zoolens.findings.comparisons.equivalence import equiv

N, CLASSES = 120, 12
LOGITS = 4 * np.random.default_rng(0).standard_normal((N, CLASSES))
LABELS = np.arange(N) % CLASSES


def probabilities(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def compared(store):
    def run(name, logits):
        return write_run(store, name, probabilities(logits), LABELS)

    first = run("first", LOGITS)
    return lambda other: compare_runs(store, first, run("second", other))


@pytest.mark.parametrize("factor", [2.0, 0.4, 1.1, 7.5])
def test_a_temperature_is_named(compared, factor):
    shift = np.random.default_rng(1).standard_normal((N, 1))  # which no softmax sees
    found = compared(factor * LOGITS + shift)
    assert found.temperature.factor == pytest.approx(factor, rel=1e-4)
    assert f"× {factor:.4g}, which is a temperature of {1 / factor:.4g}" in found.cause
    assert "the answers are the same" in found.cause


def _other(kind):
    changed = 2 * LOGITS
    if kind == "one class":
        changed[:, 3] += 0.05
    elif kind == "one input":
        changed[7] = changed[7] + 0.3 * np.sin(np.arange(CLASSES))
    elif kind == "curved":
        changed = 2 * LOGITS - 0.05 * LOGITS**2 * np.sign(LOGITS)
    elif kind == "answers":
        changed = -LOGITS
    elif kind == "nothing":
        changed = LOGITS
    elif kind == "rounding":
        changed = LOGITS * (1 + 1e-6)
    return changed


@pytest.mark.parametrize("kind", ["one class", "one input", "curved", "answers", "nothing", "rounding"])
def test_what_a_temperature_does_not_explain_wholly_is_none(compared, kind):
    found = compared(_other(kind))
    assert found.temperature is None
    assert "temperature" not in (found.cause or "")


def test_equiv_notes_it(store):
    for name, logits in (("a", LOGITS), ("b", 0.5 * LOGITS)):
        write_run(store, name, probabilities(logits), LABELS)
    (on,) = equiv("zoo:a", "zoo:b", store=store).on
    assert any("temperature of 2" in note for note in on.fit.notes)
