"""Claims stand beside measurements, so they are in the same units or not there."""

import pytest

from zoolens.findings.index.sources.claims import claimed_figures


def figures(metric, value, unit="", dataset=None, *, ran=True):
    claim = {"metric": metric, "value": value, "unit": unit, "dataset": dataset, "source": "a paper"}
    return {name: (figure.value, figure.unit) for name, figure in claimed_figures({"claims": [claim]}, ran=ran)}


@pytest.mark.parametrize(
    ("metric", "value", "unit", "expected"),
    [
        ("top1", 0.761, "fraction", {"top1": (0.761, "fraction")}),
        ("top1", 76.1, "%", {"top1": (pytest.approx(0.761), "fraction")}),
        ("accuracy", 0.5, "", {"top1": (0.5, "fraction")}),
        ("file_size", 98, "MB", {"file_size": (98e6, "B")}),
        ("file_size", 2, "MiB", {"file_size": (2 * 2**20, "B")}),
        ("params", 25.6, "M", {"parameters": (pytest.approx(25.6e6), "")}),
        ("flops", 4, "multiply-adds", {"macs": (4, ""), "flops": (8, "")}),
        ("flops", 4, "GMACs", {"macs": (4e9, ""), "flops": (8e9, "")}),
        ("flops", 4, "GFLOPs", {"flops": (4e9, "")}),
        ("latency_p50@batch=1", 5, "ms", {"latency_p50@batch=1": (0.005, "s")}),
        ("stars", 5, "out of 6", {"stars": (5, "out of 6")}),
    ],
)
def test_a_claim_is_brought_into_the_unit_of_the_store(metric, value, unit, expected):
    assert figures(metric, value, unit) == expected


@pytest.mark.parametrize(
    ("metric", "value", "unit"),
    [("top1", 76.1, ""), ("file_size", 3, "s"), ("parameters", float("nan"), ""), ("file_size", 3, "floppies")],
)
def test_a_claim_that_cannot_be_compared_is_left_out(metric, value, unit):
    assert figures(metric, value, unit) == {}


def test_a_claim_about_data_is_the_metric_itself_only_of_a_model_that_never_ran():
    assert set(figures("top1", 0.7, dataset="ImageNet")) == {"top1@ImageNet"}
    assert set(figures("top1", 0.7, dataset="ImageNet", ran=False)) == {"top1", "top1@ImageNet"}
