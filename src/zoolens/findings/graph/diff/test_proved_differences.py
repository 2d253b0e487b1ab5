"""What is not understood is never a difference and never agreement."""

import pytest

from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.conftest import Sketch
from zoolens.findings.graph.diff.diff_page import html
from zoolens.findings.graph.diff.report import diff


def network(fused=None, *, kernels=(3, 3, 3), act="relu", size=16, sorts=False):
    """Four convolutions. That at the place `fused` is one operator that nobody knows, its activation included."""
    net = Sketch(size=size)
    net.conv(8)
    for place, k in enumerate(kernels):
        if place == fused:
            weights = [net.build.parameter("value", (8, 8, k, k), "")]
            net.last = net.build.add(
                "unknown", [net.last], net.shape(), source_op="vendor:Fused", name="u", parameters=weights
            )
        else:
            net.conv(8, k, act=act)
    if sorts:
        net.add("unknown", source_op="Sort", macs=0)
    net.head()
    return net.finish()


def outcome(a, b):
    return diff(a, b).decision.outcome


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (network(), network(1)),  # one operator stands for a convolution and its activation
        (network(1), network()),
        (network(1), network(1)),  # one name on both sides says nothing of what it computes
        (network(0), network(2)),
        (network(kernels=(3, 5, 3)), network(1)),  # what it has in its place may be 5×5
        (network(0), network(kernels=(3, 3, 5))),  # the 5×5 may be in it, and what looks like its partner not
        (network(kernels=(3, 3)), network(1, kernels=(3, 3, 3))),  # it may do nothing at all
        (network(sorts=True), network(sorts=True)),
    ],
)
def test_operators_that_are_not_understood_leave_it_open(a, b):
    found = diff(a, b)
    assert found.decision.outcome is Outcome.NOT_KNOWN
    assert not found.same
    assert not found.same_cost
    assert not found.differences
    assert found.headline.startswith("Not known whether it is the same network. ")
    assert "Understood: " in found.headline


@pytest.mark.parametrize(
    ("a", "b", "cause"),
    [
        (network(), network(1, kernels=(3, 3, 5)), diff_causes.KERNEL),
        (network(kernels=(7, 3, 3)), network(1, kernels=(5, 3, 3)), diff_causes.KERNEL),
        (network(), network(0, act="elu"), diff_causes.ACTIVATION),
        (network(), network(1, size=24), diff_causes.INPUT_SIZE),
        (network(sorts=True), network(sorts=True, kernels=(3, 3, 5)), diff_causes.KERNEL),
        (network(kernels=(3, 3)), network(0, kernels=(3, 3, 3, 3, 3)), diff_causes.DEPTH),  # one convolution too many
    ],
)
def test_what_is_understood_may_prove_a_difference(a, b, cause):
    found = diff(a, b)
    assert found.decision.outcome is Outcome.DIFFERENT
    assert [one.cause for one in found.differences] == [cause]
    assert found.headline.startswith(f"Different networks: {cause}. Understood: ")


def test_a_difference_that_is_proved_has_no_share_of_a_cost_that_is_not_counted_whole():
    found = diff(network(), network(1, kernels=(3, 3, 5)))
    data = found.as_data()
    assert data["outcome"] == "different"
    assert not data["coverage"]["whole"]
    assert [(one["macs"], one["share_of_macs_gap"]) for one in data["differences"]] == [(None, None)]
    assert [one["cause"] for one in data["not_proved"]] == [diff_causes.DEPTH, diff_causes.OPERATOR]
    assert "% of the" not in found.headline
    page = html(found)
    assert "≥ " in page
    assert "Not proved, beside operators that are not understood" in page


def test_the_same_is_said_with_the_number_of_layers():
    found = diff(network(), network())
    assert found.headline == "The same network (10 layers compared)."
    assert found.as_data()["outcome"] == "same"
    assert found.as_data()["coverage"]["understood"]["layers"] == {"understood": 20, "total": 20, "share": 1.0}


def test_the_gaps_say_what_would_make_it_known():
    found = diff(network(), network(1), names=("ours", "theirs"))
    (gap,) = found.coverage.gaps
    assert gap.what == "operator vendor:Fused in theirs"
    assert gap.remedy
