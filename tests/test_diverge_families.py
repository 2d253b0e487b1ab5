"""Damaged copies of small networks of three families: `diverge` names the damaged layer; faithful pairs raise no alarm.

The table in docs/diverge.md comes from here: `pytest -m slow tests/test_diverge_families.py -s`.
"""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

from zoolens.catalog.lookup import find
from zoolens.datasets.opening import open_dataset
from zoolens.divergence.diverging import diverge_jobs
from zoolens.measure.jobs import RunOptions, plan_jobs
from zoolens.testing.damaged_onnx import with_file
from zoolens.testing.network_damages import DAMAGES
from zoolens.testing.small_networks import CLASSES, FAMILIES, FEATURES, STEPS, TOKENS, VOCABULARY

onnx = pytest.importorskip("onnx")
INPUTS = {
    "image": {"shape": (None, 3, 16, 16), "layout": "NCHW", "dtype": "float32"},
    "tokens": {"shape": (None, TOKENS), "layout": "NC", "dtype": "int64"},
    "series": {"shape": (None, STEPS, FEATURES), "layout": "NTC", "dtype": "float32"},
}


def samples(name, count=6):
    generator = np.random.default_rng(7)
    if name == "tokens":
        tokens = generator.integers(1, VOCABULARY, (count, TOKENS))
        return np.where(np.arange(TOKENS) < generator.integers(4, TOKENS, (count, 1)), tokens, 0)
    return generator.standard_normal((count, *INPUTS[name]["shape"][1:])).astype(np.float32)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Writes a network, changed or not, and gives its entry and its data."""
    folder = tmp_path_factory.mktemp("families")
    made = Counter()

    def write(family, network, change=None, name=""):
        model = FAMILIES[family][network]()
        if change is not None:
            change(model)
        given = model.graph.input[0].name
        made[network] += 1
        path = folder / f"{name or network}-{made[network]}.onnx"
        onnx.save(model, str(path))
        data = folder / f"{given}.npz"
        if not data.exists():
            np.savez(data, x=samples(given), y=np.arange(6) % CLASSES)
        entry = with_file(find("demo:resnet-tiny"), path)
        declared = {"modality": "array", "color": None, "preprocess": (), "name": None, **INPUTS[given]}
        inputs = (entry.manifest.inputs[0].model_copy(update=declared),)
        return replace(entry, manifest=entry.manifest.model_copy(update={"inputs": inputs})), f"npz:{data}"

    return write


def job(entry, runtime="onnxruntime"):
    jobs, skipped = plan_jobs([entry], RunOptions(runtimes=(runtime,)))
    assert jobs, skipped
    return jobs[0]


def is_named(found, damage):
    """Whether the first cause names the damaged layer, is proved, and no other layer is accused."""
    causes = found.causes
    names = [{cause.layer or "", (cause.label or "").rpartition(" (")[0].removesuffix("_node")} for cause in causes]
    return bool(names) and all(name & damage.tensors for name in names) and all(cause.proved for cause in causes)


def said(found):
    return [(cause.kind.value, cause.label, cause.proved) for cause in found.causes] or found.notes[:2]


@pytest.mark.slow
def test_damages_in_three_families(small):
    tally = defaultdict(Counter)
    for damage in DAMAGES:
        entry, data = small(damage.family, damage.network)
        copy, _ = small(damage.family, damage.network, damage.change)
        found = diverge_jobs(job(entry), job(copy), open_dataset(data), examined=1)
        right = is_named(found, damage)
        tally[damage.family].update(damages=1, named=right)
        print(f"{damage.network} | {damage.kind} | {'named' if right else 'MISSED'} | {said(found)}")
    for family, counts in tally.items():
        print(f"| {family} | {counts['damages']} | {counts['named']} |")
    for counts in tally.values():
        assert counts["named"] >= 0.95 * counts["damages"]
    assert sum(counts["damages"] for counts in tally.values()) >= 60
