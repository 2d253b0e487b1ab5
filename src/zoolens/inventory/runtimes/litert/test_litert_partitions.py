"""XNNPACK's operators are matched with those of the file, and with none where that cannot be known."""

from __future__ import annotations

from dataclasses import replace

from zoolens.inventory.runtimes.litert.litert_partitions import file_operators
from zoolens.inventory.runtimes.litert.litert_profiler import OperatorEvent
from zoolens.inventory.runtimes.litert.tflite_file import TfliteGraph, TfliteOperator

CONVOLUTION, RESHAPE, ADD, CUSTOM, WHILE = 3, 22, 0, 32, 119


def graph(*operators):
    """Operators as (code, inputs, outputs); tensors are numbers, and 0 is the input."""
    made = tuple(TfliteOperator(code, tuple(inputs), tuple(outputs), "", None) for code, inputs, outputs in operators)
    return TfliteGraph((), (0,), (), made)


def xnnpack(*tags):
    return [OperatorEvent(tag, 1000, True, index) for index, tag in enumerate(tags)]


def test_what_xnnpack_leaves_out_and_renames():
    file = graph((CONVOLUTION, [0], [1]), (RESHAPE, [1], [2]), (CONVOLUTION, [2], [3]), (ADD, [3, 2], [4]))
    events = xnnpack("Convolution (NHWC, F32) IGEMM", "Fully Connected (NC, F32) GEMM", "Copy (NC)", "Add (ND)")
    assert file_operators(file, events) == [0, 2, None, 3]


def test_sets_are_formed_as_litert_forms_them():
    """The convolution of the second branch does not wait for the custom operator of the first, which stands before."""
    file = graph(
        (CUSTOM, [0], [1]),
        (CONVOLUTION, [1], [2]),
        (CONVOLUTION, [0], [3]),
        (CUSTOM, [3], [4]),
        (CONVOLUTION, [2, 4], [5]),
    )
    own = [OperatorEvent("CUSTOM", 1000, False, 0), OperatorEvent("CUSTOM", 1000, False, 3)]
    convolution = "Convolution (NHWC, F32) IGEMM"
    events = [own[0], *xnnpack(convolution, convolution), own[1], *xnnpack(convolution)]
    assert file_operators(file, events) == [0, 1, 2, 3, 4]
    other = graph(
        (CONVOLUTION, [0], [1]),
        (CUSTOM, [1], [2]),
        (CONVOLUTION, [2], [3]),
        (CONVOLUTION, [0], [4]),
    )
    events = [*xnnpack(convolution, convolution), OperatorEvent("CUSTOM", 1000, False, 1), *xnnpack(convolution)]
    assert file_operators(other, events) == [0, 3, 1, 2]


def test_where_counts_differ_nothing_is_claimed():
    file = graph((CONVOLUTION, [0], [1]), (CONVOLUTION, [1], [2]), (ADD, [2, 1], [3]))
    events = xnnpack("Convolution (NHWC, F32) IGEMM", "Add (ND)")
    assert file_operators(file, events) == [None, 2]
    assert file_operators(file, [*events, *events]) == [None] * 4
    subgraph = [OperatorEvent("ADD", 1000, False, None)]
    assert file_operators(file, subgraph) == [None]


def test_what_a_loop_runs_is_no_partition_of_the_main_graph():
    convolution = "Convolution (NHWC, F32) IGEMM"
    body = [replace(event, inner=True) for event in xnnpack(convolution)]
    file = graph((CONVOLUTION, [0], [1]), (WHILE, [1], [2]), (CONVOLUTION, [2], [3]))
    events = [*xnnpack(convolution), OperatorEvent("WHILE", 1000, False, 1), *body, *body, *xnnpack(convolution)]
    assert file_operators(file, events) == [0, 1, None, None, 2]
