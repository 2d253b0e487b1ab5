"""What "Discrepancies among Pre-trained Deep Neural Networks" (Montes et al., ESEC/FSE 2022) found by hand, found by
the audit: its true findings, its refuted one, and which of its cost differences are differences between counters.

The figures are those of the study and of the packages that this project pins.
"""

from importlib.util import find_spec

import pytest

from zoolens.findings.audit.audit_findings import Severity
from zoolens.findings.audit.auditing import audit_models
from zoolens.findings.graph.counters.conventions import as_counted_by
from zoolens.findings.graph.structures.structure import graph_of

for package in ("torchvision", "timm", "keras", "onnx"):  # not importorskip: importing them here takes seconds
    if find_spec(package) is None:
        pytest.skip(f"the study's networks come from {package}, which is not installed", allow_module_level=True)

pytestmark = pytest.mark.slow

INSTALLED = ("torchvision", "timm", "keras", "onnx")  # the zoos that need no environment of their own
SMALL = ("alexnet", "squeezenet1_0", "squeezenet1_1")
LARGE = ("vgg19", "resnet50", "resnet50_v2", "resnet101", "densenet121")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("study") / "store.sqlite"


@pytest.fixture(scope="module")
def audit(store):
    return audit_models(zoos=INSTALLED, archs=SMALL, store=store)


@pytest.fixture(scope="module")
def large_audit(store):
    return audit_models(zoos=INSTALLED, archs=LARGE, store=store)


def network(audit, architecture, zoo, name=None):
    row = next(row for row in audit.architectures if row.id == architecture)
    return next(one for one in row.networks if one.zoo == zoo and one.macs and name in (None, one.name))


def finding(audit, rule, architecture, ref):
    return next(
        one for one in audit.findings if (one.rule, one.architecture, one.models[0]) == (rule, architecture, ref)
    )


def test_squeezenet_costs_as_much_as_the_study_says_and_the_onnx_one_is_another(audit):
    ours, theirs = network(audit, "squeezenet1_0", "torchvision"), network(audit, "squeezenet1_0", "onnx")
    assert (ours.macs, ours.as_studied) == (818_924_576, 819_093_576)
    assert (theirs.macs, theirs.as_studied) == (349_151_936, pytest.approx(353_610_488, rel=1e-3))
    assert 2.31 <= ours.as_studied / theirs.as_studied <= 2.35
    assert 2.31 <= ours.macs / theirs.macs <= 2.35
    told = finding(audit, "naming/other architecture", "squeezenet1_0", "onnx:light/squeezenet")
    assert told.severity is Severity.HIGH
    assert "is SqueezeNet 1.1" in told.title


def test_the_hub_file_of_squeezenet_1_0_is_too_small_to_be_one(audit):
    small = [one for one in audit.findings if one.rule == "naming/file size" and one.architecture == "squeezenet1_0"]
    assert small
    assert all("squeezenet1_1" in " ".join(one.evidence) for one in small)


def test_keras_resnet50_v2_pools_its_shortcuts_and_strides_elsewhere(large_audit):
    keras = network(large_audit, "resnet50_v2", "keras")
    assert keras.macs == 3_482_255_360
    assert keras.as_studied == pytest.approx(3.49e9, rel=2e-3)
    told = finding(large_audit, "structure/stride placement", "resnet50_v2", "keras:ResNet50V2")
    assert any("max-pool on the shortcut" in line for line in told.evidence)
    assert any("stride 2 is on the 3×3" in line and "last blocks of stages 1–3" in line for line in told.evidence)


def test_torchvision_alexnet_has_64_kernels_and_no_lrn(audit):
    told = next(one for one in audit.conformance if (one.architecture, one.zoo) == ("alexnet", "torchvision"))
    words = " ".join(told.departures)
    assert "64 kernels in torchvision alexnet instead of 96" in words
    assert "no local response normalisation" in words
    assert network(audit, "alexnet", "onnx").macs == 654_560_384


def test_resnet50_is_several_networks_and_resnet101_differs_in_strides_not_in_shortcuts(large_audit):
    assert network(large_audit, "resnet50", "torchvision").macs == 4_089_184_256
    assert network(large_audit, "resnet50", "keras").macs == 3_857_973_248
    told = next(one for one in large_audit.findings if (one.rule, one.architecture) == ("shortcuts/equal", "resnet101"))
    assert "exactly 4 convolutions on shortcuts" in told.title
    assert "stride placement" in told.title


def test_vgg19_and_densenet121_cost_the_same_everywhere_but_not_in_the_studys_counters(large_audit):
    rows = {row.id: row for row in large_audit.architectures}
    assert rows["vgg19"].real_ratio == rows["densenet121"].real_ratio == 1
    assert network(large_audit, "vgg19", "keras").macs == 19_632_062_464
    assert network(large_audit, "densenet121", "onnx").macs == 2_834_161_664
    assert rows["densenet121"].studied_ratio > 1.001
    noise = {one.architecture for one in large_audit.findings if one.rule == "counting/noise"}
    assert "densenet121" in noise


def test_claimed_spreads_are_those_of_the_study(audit):
    spreads = {row.id: row.spread_first for row in audit.architectures}
    assert spreads["alexnet"] == pytest.approx(1.72, abs=0.01)
    assert spreads["squeezenet1_1"] == pytest.approx(1.84, abs=0.01)


def test_a_claim_that_is_unlike_all_others_is_named(large_audit):
    outlier = next(one for one in large_audit.findings if one.rule == "claims/outlier")
    assert (outlier.architecture, outlier.severity) == ("densenet121", Severity.HIGH)


def test_a_second_audit_reads_nothing_again(audit, store):
    again = audit_models(zoos=INSTALLED, archs=SMALL, store=store)
    assert again.facts["structures_read_now"] == 0
    assert again.findings == audit.findings


def test_all_seven_zoos(tmp_path):
    """Builds environments for MXNet and TensorFlow: minutes and two gigabytes the first time."""
    store = tmp_path / "store.sqlite"
    audit = audit_models(store=store)
    assert len(audit.shared) >= 36
    assert len(audit.zoos) >= 7
    assert not [one for one in audit.findings if one.rule == "failures/unreadable"]
    gluon, keras = network(audit, "resnet50_v2", "gluon"), network(audit, "resnet50_v2", "keras")
    assert gluon.as_studied == pytest.approx(4.12e9, rel=2e-3)
    assert gluon.as_studied / keras.as_studied == pytest.approx(1.18, abs=0.005)
    for depth, gigas in ((50, 6.5362), (101, 13.3735), (152, 20.2108)):
        slim = network(audit, f"resnet{depth}_v2", "slim")
        assert slim.macs == pytest.approx(gigas * 1e9, rel=1e-4)
        assert slim.macs / network(audit, f"resnet{depth}_v2", "keras").macs > 1.85
    assert next(row for row in audit.architectures if row.id == "resnet50").groups == 3
    told = next(one for one in audit.findings if (one.rule, one.architecture) == ("shortcuts/equal", "resnet101"))
    assert "all 6 zoos" in told.title
    equal = [row for row in audit.shared if row.studied_ratio and row.real_ratio < 1.001]
    assert len(equal) >= 20
    assert as_counted_by("onnx-opcounter", graph_of("gluon:squeezenet1.1", store=store)) == pytest.approx(
        3.53e8, rel=2e-2
    )
