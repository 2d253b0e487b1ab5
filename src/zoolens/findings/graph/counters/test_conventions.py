"""What counters say of a network counted by hand, and of the zoo networks whose published figures are known."""

from pathlib import Path

import pytest

from zoolens.base.errors import UnknownName
from zoolens.findings.graph.counters.conventions import COUNTERS, as_counted_by
from zoolens.findings.graph.counters.tensorflow import GROUPED
from zoolens.findings.graph.counters.terms import FUSED_ATTENTION, MACS, NO_MODULE
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.keras import KERAS
from zoolens.findings.graph.importers.onnx import ONNX
from zoolens.findings.graph.importers.torch import TORCHVISION
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.passes.canonical import canonical

MAP = 4 * 8 * 8
CONV = MAP * 27
DENSE = 40


def small(library="torchvision"):
    """3×8×8 → conv 3×3 with bias, 4 kernels → batch norm → relu → max pool 2×2 → global pool → dense 10 with bias."""
    build = GraphBuilder("small")
    image = build.add("input", [], (1, 3, 8, 8))
    conv = build.add(
        "conv", [image], (1, 4, 8, 8), kernel=(3, 3), pads=(1, 1, 1, 1), source="features.0",
        parameters=[
            build.parameter("kernel", (4, 3, 3, 3), "features.0.weight"),
            build.parameter("bias", (4,), "features.0.bias"),
        ],
    )  # fmt: skip
    statistics = [build.parameter(role, (4,), f"n.{role}") for role in ("scale", "shift", "mean", "variance")]
    norm = build.add("batch_norm", [conv], (1, 4, 8, 8), epsilon=1e-5, source="features.1", parameters=statistics)
    active = build.add("relu", [norm], (1, 4, 8, 8), source="features.2")
    pool = build.add("max_pool", [active], (1, 4, 4, 4), kernel=(2, 2), stride=(2, 2), source="features.3")
    mean = build.add("global_avg_pool", [pool], (1, 4), source="")
    parameters = [build.parameter("kernel", (10, 4), "head.weight"), build.parameter("bias", (10,), "head.bias")]
    scores = build.add("dense", [mean], (1, 10), source="head", parameters=parameters)
    return build.finish([scores], {"library": library})


BY_HAND = {
    "fvcore": CONV + DENSE + 2 * MAP + 64,
    "torch": 2 * (CONV + DENSE),
    "ptflops": CONV + DENSE + MAP + 10,
    "thop": CONV + DENSE + 4 * MAP,  # the global pool is called as a function: thop does not hear of it
    "calflops": 2 * (CONV + DENSE) + MAP + 2 * MAP + MAP + MAP + 64,
    "torchinfo": CONV + DENSE + MAP + 10 + 8,
    "onnx-tool": CONV + DENSE + MAP + 10 + 31 * MAP + MAP + MAP + 64 + 16,
    "onnx-opcounter": CONV + DENSE + 2 * MAP + MAP + 64 + 4,
    "tensorflow": 2 * (CONV + DENSE) + MAP + 10 + 2 * MAP + 24 + MAP + 64,
}


def test_there_is_a_figure_by_hand_for_every_counter():
    assert set(BY_HAND) == set(COUNTERS)


@pytest.mark.parametrize("name", BY_HAND)
def test_the_terms_of_a_counter_add_up_to_what_it_says(name):
    graph = small()
    terms = COUNTERS[name].convention(graph).predicted(graph)
    assert sum(terms.values()) == BY_HAND[name]
    assert terms[MACS] == CONV + DENSE


def test_counters_that_charge_two_for_one_are_halved():
    assert as_counted_by("torch", small()) == CONV + DENSE
    assert as_counted_by("tensorflow", small()) == BY_HAND["tensorflow"] / 2


def test_the_fused_batch_norm_of_tf_slim_counts_for_nothing():
    keras, slim = (as_counted_by("tensorflow", small(library)) for library in ("keras", "slim"))
    assert keras - slim == (2 * MAP + 24) / 2


def test_an_unknown_counter_is_named():
    with pytest.raises(UnknownName, match="fvcor"):
        as_counted_by("fvcor", small())


def test_products_that_a_counter_does_not_see_are_a_negative_term():
    build = GraphBuilder("blind")
    image = build.add("input", [], (1, 8, 4, 4))
    kernel = build.parameter("kernel", (8, 2, 1, 1), "c.weight")
    conv = build.add("conv", [image], (1, 8, 4, 4), kernel=(1, 1), groups=4, source="c", parameters=[kernel])
    tokens = [build.add("reshape", [conv], (1, 2, 4, 16), source="a") for _ in range(3)]
    mixed = build.add("attention", tokens, (1, 2, 4, 16), heads=2, source="a")
    kernel = build.parameter("kernel", (16, 16), "a.out.weight")
    projected = build.add("dense", [mixed], (1, 2, 4, 16), source="a", parameters=[kernel])
    graph = build.finish([projected])
    grouped, attended, dense = 8 * 16 * 2, 2 * (2 * 4 * 4 * 16), 2 * 4 * 16 * 16

    def terms(name):
        return COUNTERS[name].convention(graph).predicted(graph)

    assert terms("fvcore")[FUSED_ATTENTION] == -attended
    assert terms("thop")[NO_MODULE] == -attended - dense  # `a` multiplies by the weight of `a.out` without calling it
    assert terms("tensorflow")[GROUPED] == -grouped
    assert sum(terms("torch").values()) == 2 * (grouped + attended + dense)


def test_squeezenet_as_the_study_of_2022_counted_it():
    pytest.importorskip("torch")
    graph = canonical(TORCHVISION.load(Request("squeezenet1_0")))
    assert as_counted_by("fvcore", graph) == 819_093_576
    assert as_counted_by("torch", graph) == 818_924_576
    assert as_counted_by("ptflops", graph) == as_counted_by("torchinfo", graph) == 823_270_824


def test_an_onnx_file_as_the_study_of_2022_counted_it():
    onnx = pytest.importorskip("onnx")
    path = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    graph = ONNX.load(Request(str(path)))
    assert as_counted_by("onnx-opcounter", graph) == 353_610_488


def test_resnet50v2_as_the_study_of_2022_counted_it():
    pytest.importorskip("keras")
    graph = canonical(KERAS.load(Request("ResNet50V2")))
    assert as_counted_by("tensorflow", graph) * 2 == 6_992_475_632
