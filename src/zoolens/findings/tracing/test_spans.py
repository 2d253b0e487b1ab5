import pyarrow as pa

from zoolens.findings.tracing.spans import COLUMNS, Level, SpanColumns, add_profiles, schema
from zoolens.findings.tracing.trace_context import TraceContext
from zoolens.inventory.runtimes.observing import OperatorTime, Profile

CONTEXT = TraceContext("ab" * 16, 7)


def rows(*profiles):
    columns = SpanColumns(CONTEXT, Level.LAYER)
    add_profiles(columns, profiles, [True] * len(profiles))
    return columns.table().to_pylist()


def test_a_level_includes_those_before_it():
    assert Level.LAYER.included == (Level.PIPELINE, Level.MODEL, Level.LAYER)
    assert Level.SYSTEM.included == tuple(Level)


def test_every_column_is_described_and_has_a_type():
    assert set(schema().names) == set(COLUMNS)
    assert schema().field("time").type == pa.int64()


def test_operators_hang_on_their_call_and_a_call_on_whoever_asked_for_the_trace():
    operators = (OperatorTime("a", "Conv", 30, start=110), OperatorTime("k", "gemm", 20, 115, "library", 0))
    call, layer, kernel = rows(Profile(100, 50, operators))
    assert call["parent"] == 7
    assert layer["parent"] == call["span_id"]
    assert kernel["parent"] == layer["span_id"]
    assert (kernel["level"], kernel["observed"], kernel["trace_id"]) == ("library", "layer", "ab" * 16)
    assert not any(row["synthetic"] for row in (call, layer, kernel))


def test_operators_without_a_start_are_laid_out_below_their_callers_and_marked():
    operators = (
        OperatorTime("a", "Conv", 30),
        OperatorTime("a1", "gemm", 10, None, "library", 0),
        OperatorTime("a2", "gemm", 15, None, "library", 0),
        OperatorTime("b", "Relu", 5),
    )
    call, *spans = rows(Profile(100, 50, operators))
    assert [span["time"] for span in spans] == [100, 100, 110, 130]
    assert all(span["synthetic"] for span in spans)
    assert not call["synthetic"]


def test_what_is_not_known_is_null():
    _, span = rows(Profile(0, 9, (OperatorTime("a", "Conv", 1),)))
    assert (span["kernel"], span["precision"], span["thread"], span["nodes"], span["shapes"]) == (
        None,
        None,
        None,
        [],
        [],
    )
