import pytest

from zoolens.findings.queries.language.errors import QueryError
from zoolens.findings.queries.language.quantities import FRACTIONS, quantity
from zoolens.findings.queries.language.syntax import Quantity
from zoolens.findings.queries.language.units import UNITS, is_fraction, larger_is_better


@pytest.mark.parametrize(
    ("text", "metric", "value"),
    [
        ("200 MB", "memory", 200e6), ("200MB", "memory", 200e6), ("200 mb", "memory", 200e6), ("1 KiB", "memory", 1024),
        ("1.5 GiB", "file_size", 1.5 * 2**30), ("200M", "memory", 200e6), ("2e8", "memory", 2e8),
        ("1_000 kB", "size", 1e6),
        ("10 ms", "latency_p95", 0.01), ("10ms", "latency", 0.01), ("5 us", "latency", 5e-6), ("5 µs", "latency", 5e-6),
        ("5 μs", "latency", 5e-6), ("7 ns", "latency", 7e-9), ("2 min", "cold_start", 120), ("0.1 ms", "latency", 1e-4),
        ("2 GFLOPS", "flops", 2e9), ("2GFLOPs", "flops", 2e9), ("2G", "flops", 2e9), ("2 gflop", "flops", 2e9),
        ("3 GMACS", "macs", 3e9), ("25M", "parameters", 25e6), ("60K", "parameters", 60_000), ("3 mJ", "energy", 0.003),
        ("100 inputs/s", "throughput", 100), ("100 fps", "throughput", 100), ("100/s", "throughput", 100),
        ("1k", "throughput", 1_000), ("70%", "accuracy", 0.7), ("-1%", "accuracy_drop", -0.01), ("0.7", "top1", 0.7),
        ("5 MB", "anything", 5e6), ("5 ms", "anything", 0.005),
    ],
)  # fmt: skip
def test_units_become_the_stores_units(text, metric, value):
    found = quantity(text, metric)
    assert (found.value, found.relative) == (value, False)


def test_units_are_kept_in_their_canonical_spelling():
    assert [quantity(text, "x").unit for text in ("1 mb", "1US", "2 gflops", "1 ×", "3", "4 Fps")] == [
        "MB", "µs", "GFLOPS", "x", "", "inputs/s",
    ]  # fmt: skip


def test_a_per_cent_is_of_the_reference_except_of_fractions():
    assert quantity("20%", "memory") == Quantity(0.2, "%", relative=True)
    assert quantity("95%", "accuracy") == Quantity(0.95, "%")
    assert quantity("95% OF REFERENCE", "accuracy") == Quantity(0.95, "%", relative=True)
    assert quantity("20% of ref", "memory") == Quantity(0.2, "%", relative=True)
    assert quantity("2x", "memory") == Quantity(2.0, "x", relative=True)
    assert quantity("0.5 OF REFERENCE", "latency") == Quantity(0.5, "", relative=True)


def test_numbers_are_in_the_stores_unit_already():
    assert quantity(200e6, "memory") == Quantity(200e6)
    assert quantity(3, "parameters") == Quantity(3.0)


@pytest.mark.parametrize(
    ("text", "metric", "told"),
    [
        ("10 ms", "memory", "ms counts seconds, but memory is in bytes."),
        ("7B", "parameters", "A billion is written 7G."),
        ("2 GMACS", "flops", "One multiply-add is two operations"),
        ("5 MB", "accuracy", "accuracy is in fractions of 1"),
        ("5M", "latency@batch=1", "latency@batch=1 is in seconds"),
        ("5 m", "latency", "Write ms, M, MB or min."),
        ("5 mms", "latency", "Did you mean ms?"),
        ("5 MBs", "memory", "Did you mean MB?"),
        ("5 parsecs", "latency", "Units: %, x, min"),
        ("1,000 MB", "memory", "Write 1_000 or 1000."),
        ("70", "accuracy", "Write 70% or 0.7."),
        ("170%", "accuracy", "between 0% and 100%"),
        ("200 MB OF REFERENCE", "memory", "MB is not a share"),
        ("20% OF IT", "memory", "Write OF REFERENCE"),
        ("1e400", "memory", "too large"),
        ("1e300 TB", "memory", "too large"),
        ("5 MB 6", "memory", "Unexpected '6'"),
        ("lots", "memory", "Expected a quantity"),
        ("", "memory", "Expected a quantity, found the end"),
    ],
)
def test_what_is_no_quantity_is_put_right(text, metric, told):
    with pytest.raises(QueryError) as caught:
        quantity(text, metric)
    assert told in str(caught.value)


def test_a_number_that_is_not_finite_is_refused():
    with pytest.raises(QueryError, match="too large"):
        quantity(float("inf"), "memory")
    with pytest.raises(QueryError, match="not a number"):
        quantity(float("nan"), "memory")


def test_fractions_are_told_by_name():
    assert {"accuracy", "top1", "top5", "equivalence", "accuracy_drop", "ece"} <= FRACTIONS
    assert is_fraction("Top1")
    assert is_fraction("clean_share@batch=1")
    assert is_fraction("my_share")
    assert not is_fraction("memory")


def test_more_is_better_of_what():
    assert larger_is_better("accuracy")
    assert larger_is_better("throughput@batch=8")
    assert not any(map(larger_is_better, ("memory", "accuracy_drop", "ece")))


def test_every_unit_is_found_by_its_own_name():
    for name in UNITS:
        assert quantity(f"1 {name}", "anything").unit == name
