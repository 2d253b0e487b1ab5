from __future__ import annotations

import pytest

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store
from zoolens.findings.audit.claim_verdicts import Judgement, MeasuredAccuracy, Sampling, judge, sampling_of, verdicts
from zoolens.findings.audit.claims import ClaimRow

MOBILENET = ClaimRow("folder:mobilenet", "top1", 0.718, "fraction", "ImageNet-1K", "README")
MODEL = ModelRecord("m", "folder:mobilenet@1.0.0", "onnx", {})
STACK = StackRecord("s", "onnxruntime", {"version": "1.0"}, {})


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "judge.db") as opened:
        yield opened


def measure(store, dataset, value=0.699, low=0.670, high=0.727):
    run = store.begin_run(MODEL, dataset, STACK)
    observation = Observation("top1", value, unit="fraction", low=low, high=high, n=dataset.size)
    store.finish_stage(run.id, "accuracy", [observation])
    return store.run(run.id)


def dataset(name, size=1000, **details):
    return DatasetRecord(f"{name} {size} {details}", name, size, details)


def test_a_claim_inside_the_interval_is_consistent():
    verdict = judge(MOBILENET, MeasuredAccuracy(0.699, 0.670, 0.727, 1000, Sampling.RANDOM))
    assert verdict.judgement is Judgement.CONSISTENT
    assert verdict.sentence == "claims 71.8 %, measured 69.9 % [67.0, 72.7] on 1,000 images: consistent"


@pytest.mark.parametrize(("low", "high"), [(0.72, 0.76), (0.60, 0.71)])
def test_a_claim_outside_the_interval_is_not(low, high):
    verdict = judge(MOBILENET, MeasuredAccuracy((low + high) / 2, low, high, 1000, Sampling.WHOLE))
    assert verdict.judgement is Judgement.INCONSISTENT
    assert verdict.sentence.endswith(": not consistent")


def test_a_rounded_claim_is_given_its_last_digit():
    assert judge(MOBILENET, MeasuredAccuracy(0.74, 0.7184, 0.76, 9, Sampling.WHOLE)).judgement is Judgement.CONSISTENT
    assert judge(MOBILENET, MeasuredAccuracy(0.74, 0.7186, 0.76, 9, Sampling.WHOLE)).judgement is Judgement.INCONSISTENT


def test_a_subset_of_unknown_selection_neither_supports_nor_refutes(store):
    measure(store, dataset("imagenet_val", 725), 0.777, 0.745, 0.806)
    (verdict,) = verdicts(store, [MOBILENET])
    assert verdict.judgement is Judgement.NOT_COMPARABLE
    assert verdict.sentence == (
        "claims 71.8 %, measured 77.7 % [74.5, 80.6] on 725 images of imagenet_val: not comparable "
        "(nothing says that these are a random sample of ImageNet-1K)"
    )


@pytest.mark.parametrize(
    ("data", "trusted", "expected"),
    [
        (dataset("ILSVRC2012 ImageNet val", 50_000), (), Sampling.WHOLE),
        (dataset("my_photos", 50_000), (), Sampling.UNKNOWN),
        (dataset("imagenet_val", 725), (), Sampling.UNKNOWN),
        (dataset("imagenet (first 1000)"), ("imagenet",), Sampling.UNKNOWN),
        (dataset("imagenet (1000 of seed 3)"), (), Sampling.UNKNOWN),
        (dataset("imagenet (1000 of seed 3)"), ("imagenet",), Sampling.RANDOM),
        (dataset("sample"), ("sample",), Sampling.RANDOM),
        (dataset("imagenet (1000 of seed 3)", drawn_from=50_000), (), Sampling.RANDOM),
        (dataset("imagenet (1000 of seed 3)", drawn_from=2_000), (), Sampling.UNKNOWN),
        (dataset("my_photos (1000 of seed 3)", drawn_from=50_000), (), Sampling.UNKNOWN),
        (dataset("imagenet (first 1000)", drawn_from=50_000), (), Sampling.UNKNOWN),
    ],
)
def test_how_the_inputs_were_taken(store, data, trusted, expected):
    assert sampling_of(measure(store, data), MOBILENET, trusted) is expected


def test_verdicts_are_of_the_models_own_runs_and_of_its_first_claim(store):
    run = measure(store, dataset("sample"))
    claims = [
        MOBILENET,
        ClaimRow("folder:mobilenet", "top1", 0.9, "fraction", "ImageNet-1K at 288×288", "README"),
        ClaimRow("folder:mobilenet", "params", 3.5e6, "", "", "README"),
        ClaimRow("folder:other", "top1", 0.7, "fraction", "ImageNet-1K", "README"),
    ]
    (verdict,) = verdicts(store, claims, trusted=["sample"])
    assert (verdict.claim, verdict.run, verdict.judgement) == (MOBILENET, run.id, Judgement.CONSISTENT)


def test_a_model_that_was_not_evaluated_has_no_verdict(store):
    assert verdicts(store, [MOBILENET]) == []
