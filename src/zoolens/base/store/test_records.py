"""Keys are pinned to their exact values: one that changed would make every stored run another one."""

import hashlib
from datetime import UTC, datetime

import pytest

from zoolens.base.store.json_columns import JsonText
from zoolens.base.store.records import (
    DatasetRecord,
    ModelRecord,
    Observation,
    Provenance,
    Run,
    RunKey,
    RunKind,
    StackRecord,
    Stage,
    StageState,
    fingerprint,
    is_disturbed,
    unavailable,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.5, None, True]}, '{"a":[1.5,null,true],"b":1}'),
        ("größe", '"größe"'),
        ([JsonText('{"b": 1, "a": 2}')], '[{"a":2,"b":1}]'),  # as read from a store, where JSON is parsed late
        ({"when": datetime(2026, 1, 2, tzinfo=UTC)}, '{"when":"2026-01-02 00:00:00+00:00"}'),
    ],
)
def test_a_fingerprint_is_the_digest_of_canonical_json(value, text):
    assert fingerprint(value) == hashlib.sha256(text.encode()).hexdigest()


def test_names_that_are_no_unicode_have_a_fingerprint_too():
    assert fingerprint("\udcff") == hashlib.sha256(b'"\xed\xb3\xbf"').hexdigest()


def test_a_runs_key_is_pinned():
    assert RunKey("m", "d", "s").id == hashlib.sha256(b'["m","d","s",0]').hexdigest()[:16]
    assert RunKey("m", "d", "s", 2).id == hashlib.sha256(b'["m","d","s",2]').hexdigest()[:16]


@pytest.mark.parametrize(
    ("scope", "details", "expected"),
    [
        ("batch=1", {}, False),
        ("batch=1", {"disturbed": True}, True),
        ("batch=1,raw", {"disturbed": True}, False),
        ("batch=1", {"note": "fewer than 20 undisturbed samples"}, True),  # as older runs have it
        ("batch=1", {"note": "something else"}, False),
    ],
)
def test_a_disturbed_timing_is_told_by_its_mark_or_its_note(scope, details, expected):
    assert is_disturbed(Observation("latency_p50", 1.0, scope=scope, details=details)) is expected


def test_what_could_not_be_had_says_why():
    assert unavailable("energy", "no counter") == Observation(
        "energy", None, provenance=Provenance.UNAVAILABLE, details={"reason": "no counter"}
    )
    assert unavailable("energy", "no counter", "batch=1", "J") == Observation(
        "energy", None, "batch=1", "J", provenance=Provenance.UNAVAILABLE, details={"reason": "no counter"}
    )


def run(identity=None, resolved=None, stages=None):
    return Run(
        "0123",
        RunKey("m", "d", "s"),
        datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        ModelRecord("m", "zoo:net", "onnx", {}),
        DatasetRecord("d", "photos", 5),
        StackRecord("s", "fake", identity or {}, {}),
        resolved or {},
        stages or {},
    )


def test_a_run_prints_as_one_line():
    assert repr(run()) == "<Run 0123: zoo:net on photos, fake, 2026-01-02 03:04; nothing yet>"
    stages = {"size": "done", "predictions": "done", "latency": "failed: " + "x" * 100}
    told = run({"version": 1.5}, {"origin": {"ref": "mine"}}, stages)
    assert repr(told) == (
        f"<Run 0123: mine on photos, fake 1.5, 2026-01-02 03:04; 2 stages done, latency: failed: {'x' * 52}>"
    )


def test_what_a_run_says_of_itself():
    plain = run()
    assert (plain.stack.version, plain.origin, plain.kind) == (None, {}, RunKind.EVALUATION)
    assert (plain.ref, plain.evaluated, plain.precision) == ("zoo:net", "", None)
    told = run(resolved={"evaluated": "2026-01-02", "precision": "float32"})
    assert (told.evaluated, told.precision) == ("2026-01-02", "float32")
    assert run({"version": 2}).stack.version == "2"


def test_a_stage_is_done_or_says_why_not():
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert str(StageState(True, None, {}, now)) == "done"
    assert str(StageState(False, "no data", {}, now)) == "failed: no data"


def test_a_stage_for_each_of_several_things_says_for_which():
    assert Stage.LATENCY.of("batch=8") == "latency:batch=8"
    names = ["predictions", "latency:batch=1", "metric:topk", "latency:batch=8", "latency"]
    assert Stage.LATENCY.parts(names) == {"batch=1": "latency:batch=1", "batch=8": "latency:batch=8"}
