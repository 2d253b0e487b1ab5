import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import DatasetRecord, ModelRecord, Run, RunKey, RunKind, StackRecord
from zoolens.findings.tracing.alignment import align_layers
from zoolens.findings.tracing.comparison import compare_traces, comparison_as_data, comparison_table, sentences
from zoolens.findings.tracing.spans import Level, SpanColumns, add_profiles
from zoolens.findings.tracing.stored import Trace
from zoolens.findings.tracing.trace_context import new_context
from zoolens.findings.tracing.trace_layers import observed_calls_of
from zoolens.inventory.runtimes.observing import OperatorTime, Profile

US = 1000


def trace(runtime, *operators, model="same", repeats=20, seed=0):
    """A trace whose operators take the given microseconds, ± some noise."""
    random = np.random.default_rng(seed)
    columns = SpanColumns(new_context(), Level.LAYER)
    profiles = []
    for _ in range(repeats):
        timed, start = [], 0
        for name, microseconds, about in operators:
            duration = int(microseconds * US * random.uniform(0.98, 1.02))
            timed.append(OperatorTime(name, duration=duration, start=start, **about))
            start += duration
        profiles.append(Profile(0, start + 10 * US, tuple(timed)))
    add_profiles(columns, profiles, [True] * repeats)
    observed = observed_calls_of(columns.table(), Level.LAYER)
    record = ModelRecord(model, "zoo:net@1", "onnx", {})
    stack = StackRecord(runtime, f"trace:{runtime}", {"version": "1"}, {})
    key = RunKey(model, "data", runtime)
    run = Run(key.id, key, datetime.now(UTC), record, DatasetRecord("data", "d", 1), stack, {}, {}, RunKind.TRACE)
    return Trace(run, 1, "", model=observed.calls, layer=observed)


def op(name, microseconds, nodes=(), **about):
    return name, microseconds, {"kind": "Conv", "nodes": tuple(nodes), **about}


A = trace("a", op("conv_relu", 410, ["conv", "relu"], kernel="brgemm", precision="bfloat16"), op("fc", 50, ["fc"]))
B = trace(
    "b",
    op("conv", 1000, ["conv"], kernel="reference"),
    op("relu", 370, ["relu"], kernel="reference", kind="Relu"),
    op("fc", 50, ["fc"]),
    op("reorder", 30, (), kind="Reorder"),
    seed=1,
)


def test_operators_that_one_side_fuses_are_one_group():
    aligned = align_layers(A, B)
    assert aligned.by == "file"
    assert [(group.nodes_a, len(group.a), len(group.b)) for group in aligned.groups] == [
        (("conv", "relu"), 1, 2),
        (("fc",), 1, 1),
    ]
    assert [layer.name for layer in aligned.only_b] == ["reorder"]


def test_groups_are_joined_until_both_sides_cover_the_same():
    left = trace("a", op("1", 1, ["a", "b"]), op("2", 1, ["c"]), op("3", 1, ["d"]))
    right = trace("b", op("1", 1, ["a"]), op("2", 1, ["b", "c"]), op("3", 1, ["d"]))
    assert [group.nodes_a for group in align_layers(left, right).groups] == [("a", "b", "c"), ("d",)]


def test_the_difference_is_named_with_its_kernels_and_an_interval():
    comparison = compare_traces(A, B)
    worst = comparison.differences[0]
    assert worst.name == "conv + relu"
    assert worst.difference == pytest.approx(960e-6, rel=0.03)
    assert worst.interval.low < worst.difference < worst.interval.high
    assert worst.sure
    assert (worst.computed_a, worst.computed_b) == ("brgemm bfloat16", "2 × reference")
    words = " ".join(sentences(comparison))
    assert re.search(r"conv \+ relu: 4\d\d µs → 1\.3\d ms \(\+9\d\d µs \[", words)
    assert "brgemm bfloat16 → 2 × reference" in words


def test_a_difference_that_repetitions_do_not_tell_is_called_unclear():
    comparison = compare_traces(A, trace("b", op("x", 410, ["conv", "relu"]), op("fc", 50, ["fc"]), seed=5))
    rows = comparison_table(comparison).rows
    unsure = [row for row, difference in zip(rows[:-1], comparison.differences, strict=True) if not difference.sure]
    assert unsure
    assert all("(unclear)" in row[3] for row in unsure)
    assert "the repetitions do not show which of them is slower" in next(sentences(comparison))
    assert {row[4] for row in rows} == {"–"}  # a share of a difference that may be chance says nothing


def test_nested_layers_meet_at_the_innermost_that_are_known():
    nested = trace(
        "b",
        op("block", 500, ["conv", "relu"], kind="Module"),
        op("inner conv", 300, ["conv"], parent=0),
        op("inner relu", 100, ["relu"], parent=0, kind="Relu"),
    )
    aligned = align_layers(trace("a", op("conv", 300, ["conv"]), op("relu", 100, ["relu"])), nested)
    assert [group.nodes_a for group in aligned.groups] == [("conv",), ("relu",)]
    (beside,) = aligned.only_b
    assert beside.name == "block"
    assert beside.timing.median == pytest.approx(100e-6, rel=0.2)


def test_a_runtime_that_does_not_name_operators_is_compared_by_kind_and_that_is_said():
    comparison = compare_traces(A, trace("b", op("conv", 900), op("fc", 40)))
    assert comparison.by == "kind"
    assert "b does not report which operators" in " ".join(sentences(comparison))
    assert comparison_as_data(comparison)["matched_by"] == "kind"


def test_kinds_of_two_frameworks_meet_in_their_family():
    ours = trace("a", op("x", 300, kind="FusedConv"), op("y", 20, kind="Gemm"))
    names = (("p", "aten::_convolution"), ("q", "aten::mm"), ("r", "fusion"))
    theirs = trace("b", *(op(name, 900, kind=kind) for name, kind in names))
    data = comparison_as_data(compare_traces(ours, theirs))
    pairs = {row["name"]: (row["a"] is not None, row["b"] is not None) for row in data["differences"]}
    assert pairs == {"convolution": (True, True), "matrix product": (True, True), "fusion": (False, True)}


def test_a_trace_without_layers_is_refused_in_a_sentence():
    with pytest.raises(ZoolensError, match="has no layers"):
        compare_traces(A, Trace(A.run, 1, "", model=A.model))


def test_other_batches_are_said():
    assert "batch of 1 is compared with a batch of 8" in " ".join(sentences(compare_traces(A, replace(B, batch=8))))


def test_files_that_are_gone_are_compared_by_kind():
    other = trace("b", op("conv", 900, ["Conv_0"]), model="another")
    comparison = compare_traces(A, other)
    assert comparison.by == "kind"
    assert comparison.reason


def test_few_repetitions_do_not_tell_which_call_is_slower():
    few = compare_traces(*(trace(name, op("x", 410 + 90 * seed, ["x"]), repeats=3, seed=seed)
                           for seed, name in enumerate("ab")))  # fmt: skip
    assert not few.call.sure
    assert comparison_as_data(few)["predict"]["low"] is None
    assert "[−∞, +∞]" in " ".join(sentences(few))


def test_other_machines_threads_and_inputs_are_said():
    machine = {"machine": {"cpu": "another"}, "options": {"threads": 4}}
    stack = replace(B.run.stack, identity={**B.run.stack.identity, **machine})
    words = " ".join(sentences(compare_traces(A, replace(B, run=replace(B.run, stack=stack), inputs="noise"))))
    assert "made on different machines" in words
    assert "The first ran with its own number of threads, the second with 4 threads." in words
    assert "The inputs differ:  and noise." in words


def test_operators_without_a_layer_of_their_own_have_an_interval_also_where_no_call_was_clean():
    disturbed = replace(B, layer=replace(B.layer, clean=np.zeros(len(B.layer.clean), bool)))
    rows = compare_traces(A, disturbed).differences
    assert all(np.isfinite([row.interval.low, row.interval.high]).all() for row in rows)
