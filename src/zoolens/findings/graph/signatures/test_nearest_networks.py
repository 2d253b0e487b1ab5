from __future__ import annotations

from dataclasses import replace

import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.audit.papers import paper
from zoolens.findings.audit.papers.compile import compile_paper
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Parameter
from zoolens.findings.graph.passes.without_norms import norm_blind
from zoolens.findings.graph.signatures.known_networks import KnownNetwork, from_document, shipped, to_document
from zoolens.findings.graph.signatures.nearest_networks import (
    NEAR,
    nearest,
    same_kinds_of_layers,
    same_learned_layers,
    similarity,
)
from zoolens.findings.graph.signatures.signatures import signature, without_width


def network(name, **choices):
    """A paper's network; `defaults` replace the settings of its convolutions."""
    one = paper(name)
    if "defaults" in choices:
        one = replace(one, defaults=choices.pop("defaults"))
    return compile_paper(one, **choices)


NAMES = ["squeezenet1_0", "squeezenet1_1", "resnet18", "resnet34", "mobilenet_v1_1.0", "mobilenet_v2_1.0", "vgg11"]


@pytest.fixture(scope="module")
def known():
    return [KnownNetwork(paper(name).name, "paper", signature(network(name)), name) for name in NAMES]


def test_norms_biases_image_size_and_classes_do_not_matter():
    reference = signature(network("mobilenet_v2_1.0")).digest
    assert signature(network("mobilenet_v2_1.0", size=96, classes=10)).digest == reference
    assert signature(norm_blind(network("mobilenet_v2_1.0"))).digest == reference
    assert signature(network("mobilenet_v2_1.0", defaults={"act": "relu6", "bias": "yes"})).digest == reference


def test_image_size_does_not_matter_where_a_map_is_flattened():
    assert signature(network("vgg11", size=64)).digest == signature(network("vgg11")).digest


def test_the_order_of_nodes_and_of_branches_does_not_matter():
    def drawn(swapped):
        build = GraphBuilder("two branches")
        given = build.add("input", [], (1, 3, 8, 8))
        widths = (5, 4) if swapped else (4, 5)
        convs = [
            build.add("conv", [given], (1, w, 8, 8), kernel=(1, 1), parameters=[Parameter("kernel", (w, 3, 1, 1))])
            for w in widths
        ]
        joined = build.add("concat", convs, (1, 9, 8, 8), axis=1)
        last = [Parameter("kernel", (7, 9, 1, 1))]
        return build.finish([build.add("conv", [joined], (1, 7, 8, 8), kernel=(1, 1), parameters=last)])

    assert signature(drawn(False)).digest == signature(drawn(True)).digest


def test_a_network_is_found_and_its_sisters_come_next(known):
    first, second = nearest(network("squeezenet1_1", size=227), known, 2)
    assert (first.name, first.exact, first.similarity, first.differences) == ("SqueezeNet 1.1", True, 1.0, ())
    assert second.name == "SqueezeNet 1.0"
    assert not second.exact
    assert NEAR < second.similarity < 0.9
    assert "conv 3×3/2 3→64 instead of conv 7×7/2 3→96" in second.differences


def test_other_activations_are_said_and_are_not_equal(known):
    first = nearest(network("mobilenet_v1_1.0", defaults={"act": "relu6", "norm": "batch"}), known, 1)[0]
    assert first.name == "MobileNet v1"
    assert not first.exact
    assert first.differences == ("relu6 instead of relu",)


def test_another_width_of_the_same_layers_is_recognised(known):
    first = nearest(network("mobilenet_v1_1.0", width=0.5), known, 1)[0]
    assert first.name == "MobileNet v1"
    assert 0.8 <= first.similarity < 0.9
    assert first.differences == ("the same layers with 0.5 × the width",)


def test_another_depth_is_said_in_layers(known):
    matches = {match.name: match for match in nearest(network("resnet34"), known, 3)}
    assert matches["ResNet-18"].similarity < 0.7
    assert any("more conv 3×3 256→256" in text for text in matches["ResNet-18"].differences)


def test_pre_activation_is_not_the_same_network():
    a, b = signature(network("resnet50_v2")), signature(network("resnet50"))
    assert a.digest != b.digest
    assert similarity(a, b) < 0.9


def test_an_unrelated_network_is_near_nothing(known):
    build = GraphBuilder("tiny")
    value = build.add("input", [], (1, 1, 28, 28))
    kernel = [Parameter("kernel", (20, 1, 5, 5))]
    value = build.add("conv", [value], (1, 20, 24, 24), kernel=(5, 5), parameters=kernel)
    value = build.add("flatten", [value], (1, 11520))
    value = build.add("dense", [value], (1, 10), parameters=[Parameter("kernel", (10, 11520))])
    assert nearest(build.finish([value]), known, 1)[0].similarity < 0.3


def test_all_that_are_equal_are_listed_even_beyond_n(known):
    twice = [*known, replace(known[0], zoo="other")]
    assert [match.ref for match in nearest(network(NAMES[0]), twice, 1)] == [
        "other:SqueezeNet 1.0",
        "paper:SqueezeNet 1.0",
    ]


def test_stages_have_depth_and_width():
    assert signature(network("resnet18")).stages == ((2, 1, 64), (4, 4, 64), (8, 5, 128), (16, 5, 256), (32, 5, 512))


def test_the_table_of_known_networks_survives_writing_and_reading(known):
    read = from_document(to_document(known, {"torch": "2"}))
    assert sorted(one.ref for one in read) == sorted(one.ref for one in known)
    by_name = {one.name: one.signature for one in known}
    assert all(one.signature == by_name[one.name] for one in read)
    assert all(dict(one.signature.links) == dict(by_name[one.name].links) for one in read)


def test_a_table_of_another_version_is_refused(known):
    with pytest.raises(ModelError, match="another version"):
        from_document({**to_document(known, {}), "version": 0})


def test_widths_are_told_from_kinds():
    assert without_width("conv 3×3/2 3→64") == "conv 3×3/2"
    assert without_width("global_avg_pool") == "global_avg_pool"
    assert without_width("max_pool 3×3/2") == "max_pool 3×3/2"


def test_dense_layers_that_an_optimiser_made_convolutions_and_layers_over_places_are_of_the_same_kind():
    known = next(network.signature for network in shipped() if network.ref == "timm:gmlp_ti16_224")
    small = {"dense 196→196": "dense 16→16", "dense 384→128": "conv 1×1 384→128"}
    assert small.keys() <= known.layers.keys()
    optimised = replace(known, layers={small.get(layer, layer): count for layer, count in known.layers.items()})
    assert not same_learned_layers(known, optimised)
    assert same_kinds_of_layers(known, optimised)
    assert not same_kinds_of_layers(known, replace(optimised, layers={**optimised.layers, "dense 16→16": 29}))
    assert not same_kinds_of_layers(known, replace(optimised, activations={"relu": 30}))
