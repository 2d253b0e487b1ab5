"""What a quantised file implies is read in every way that it may mean."""

from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.diff.activation_proofs import without_extra
from zoolens.findings.graph.diff.alignment import align
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.passes.implied_activations import implies_activations, readings


def network(activation, **attributes):
    builder = GraphBuilder("net")
    x = builder.add("input", (), (1, 4))
    kernels = [builder.parameter("kernel", (4, 4), key, None) for key in "ab"]
    first = builder.add("dense", (x,), (1, 4), parameters=[kernels[0]])
    middle = builder.add(activation, (first,), (1, 4), **attributes) if activation else first
    return builder.finish([builder.add("dense", (middle,), (1, 4), parameters=[kernels[1]])])


def test_an_implied_relu_may_be_limited_or_none_and_a_plain_one_is_what_it_is():
    plain, implied = network("relu"), network("relu", implied=True)
    assert (implies_activations(plain), implies_activations(implied)) == (False, True)
    assert readings(plain) == (plain,)
    ops = [[node.op for node in reading if node.op != "input"] for reading in readings(implied)]
    assert ops == [["dense", "relu", "dense"], ["dense", "relu6", "dense"], ["dense", "dense"]]


def test_what_is_implied_is_no_difference_and_what_is_stated_is():
    implied = network("relu", implied=True)
    for other in (network("relu"), network("relu6"), network("")):
        assert diff(other, implied).same
        assert diff(implied, other).same
    assert not diff(network("relu6"), network("relu")).same
    assert not diff(network("silu"), implied).same


def stack(activation, **attributes):
    builder = GraphBuilder("net")
    value = builder.add("input", (), (1, 4))
    for key in "abcd":
        value = builder.add("dense", (value,), (1, 4), parameters=[builder.parameter("kernel", (4, 4), key, None)])
        value = builder.add(activation, (value,), (1, 4), **attributes) if activation else value
    return builder.finish([value])


def test_whether_somebody_removed_most_of_what_is_implied_is_not_known():
    implied = stack("relu", implied=True)
    assert diff(stack("relu"), implied).same
    for pair in ((stack(""), implied), (implied, stack(""))):
        found = diff(*pair)
        assert found.decision.outcome is Outcome.NOT_KNOWN
        assert "4 × ReLU that a quantised range implies" in found.headline


def test_a_name_that_both_files_use_is_dropped_on_the_side_that_has_no_partner_for_it():
    def named(*activations):
        builder = GraphBuilder("net")
        value = builder.add("input", (), (1, 4))
        for key, name in zip("abc", activations, strict=True):
            kernel = builder.parameter("kernel", (4, 4), key, None)
            value = builder.add("dense", (value,), (1, 4), parameters=[kernel], name=f"dense_{key}")
            value = builder.add("relu", (value,), (1, 4), name=name, implied=True) if name else value
        return builder.finish([value])

    a, b = named("one", "two", None), named(None, "one", None)
    fewer = without_extra((a, b), align(a, b))
    assert [[node.name for node in graph if node.op == "relu"] for graph in fewer] == [["two"], ["one"]]
