"""A small index whose every figure is known, through the real classes, in memory."""

import numpy as np
import pytest

from zoolens.base.store.records import DatasetRecord, Provenance
from zoolens.findings.index.index import Index
from zoolens.findings.index.signatures.semantic import open_semantic
from zoolens.findings.index.tables.rows import Figure, Row

PROBES, CLASSES = 1000, 10
MB, MS = 1e6, 1e-3

# name -> runtime, answers unlike big's, memory in MB, latency in ms
MODELS = {
    "big": ("onnxruntime", 0, 100, 10),
    "near": ("onnxruntime", 20, 60, 6),
    "small": ("onnxruntime", 60, 15, 2),
    "small/litert": ("litert", 62, 10, 1.5),
    "tiny": ("onnxruntime", 200, 5, 1),
    "silent": ("onnxruntime", 30, None, 3),
    "twin": ("onnxruntime", 10, 50, 5),
}


@pytest.fixture
def make_index():
    def make(models=MODELS, probes=PROBES, name="probes", seed=0):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, CLASSES, probes).astype(np.int32)
        reference = truth.copy()
        reference[::10] = (truth[::10] + 1) % CLASSES  # right on 90 %
        semantic = open_semantic(None, dataset=name, probes=probes)
        rows = []
        for label, (runtime, differing, memory, latency) in models.items():
            answers = reference.copy()
            answers[1 : 1 + differing] = (reference[1 : 1 + differing] + 2) % CLASSES
            correct = answers == truth
            semantic.insert(f"run-{label}", answers, correct)
            rows.append(_row(label, runtime, memory, latency, float(correct.mean())))
        rows.append(_claimed())
        return Index(rows, dataset=DatasetRecord(f"fingerprint of {name}", name, probes), semantic=semantic)

    return make


def _row(label, runtime, memory, latency, accuracy):
    name = label.partition("/")[0]
    figures = {"latency_p50@batch=1": Figure(latency * MS, "s"), "top1": Figure(accuracy, "fraction")}
    if memory is not None:
        figures["peak_memory@process"] = Figure(memory * MB, "B")
    attributes = {"zoo": "toys", "name": name, "runtime": runtime, "task": "classification", "dataset": "probes"}
    if name == "twin":
        attributes["twin_of"] = "toys:big"
    return Row(f"run-{label}", f"model-{name}", f"toys:{name}@1.0", attributes, figures, signature=True)


def _claimed():
    """Known by its zoo's word only."""
    figures = {
        "peak_memory@process": Figure(1 * MB, "B", Provenance.CLAIMED),
        "top1": Figure(0.99, "fraction", Provenance.CLAIMED),
    }
    return Row("claim", "model-claimed", "other:claimed", {"zoo": "other", "name": "claimed"}, figures)


@pytest.fixture
def index(make_index):
    return make_index()
