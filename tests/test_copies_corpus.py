"""Optimised, quantised and half-precision copies of many networks against their sources, by `diff` and `identify`.

Exports and copies are kept in the folder of tests/test_export_corpus.py (ZOOLENS_EXPORT_CORPUS, default
.export-corpus), so that a run that was interrupted goes on. `python tests/test_copies_corpus.py` prints the table of
docs/graph.md.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import zoolens
from export_corpus.copies import KINDS, make
from export_corpus.networks import Network
from test_export_corpus import FOLDER, exported
from zoolens.base.errors import ZoolensError
from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx import ONNX
from zoolens.findings.graph.passes.canonical import canonical

NETWORKS = tuple(
    Network(*one)
    for one in (
        ("torchvision", "resnet18", 64), ("torchvision", "mobilenet_v2", 64), ("torchvision", "mobilenet_v3_small", 64),
        ("torchvision", "efficientnet_b0", 64), ("torchvision", "shufflenet_v2_x0_5", 64),
        ("torchvision", "squeezenet1_1", 64), ("torchvision", "regnet_y_400mf", 64), ("torchvision", "mnasnet0_5", 64),
        ("torchvision", "densenet121", 64), ("torchvision", "convnext_tiny", 64), ("torchvision", "swin_t", 64),
        ("torchvision", "googlenet", 64), ("timm", "vit_tiny_patch16_224", 64), ("timm", "nf_resnet26", 64),
        ("timm", "mixer_s16_224", 64), ("timm", "edgenext_xx_small", 64), ("timm", "ghostnet_100", 64),
        ("timm", "convnextv2_atto", 64), ("timm", "poolformer_s12", 64), ("timm", "levit_128s", 128),
        ("timm", "lcnet_050", 64), ("timm", "seresnet50", 64), ("timm", "repvgg_a0", 64),
        ("timm", "xcit_nano_12_p16_224", 64), ("timm", "gmlp_ti16_224", 64), ("timm", "resnetv2_50", 64),
        ("timm", "mobilevit_xxs", 128), ("keras", "MobileNet", 64), ("keras", "MobileNetV2", 64),
        ("keras", "EfficientNetB0", 64), ("keras", "ResNet50", 64),
    )
)  # fmt: skip


@cache
def graph_of(path: Path):
    return canonical(ONNX.load(Request(str(path))))


def copy_of(network: Network, kind: str) -> tuple[Path, Path]:
    """Source and copy; a copy that its maker cannot make is kept as .error, and skipped."""
    source = exported(network, network.exporters[0])
    target = FOLDER / f"{source.stem}--{kind}.onnx"
    error = target.with_suffix(".error")
    if not target.exists() and not error.exists():
        try:
            make(kind, source, target)
        except Exception as reason:
            error.write_text(f"{type(reason).__name__}: {reason}"[:300])
    if error.exists():
        pytest.skip(f"not made: {error.read_text()[:150]}")
    return source, target


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_its_source_or_it_is_not_known(network, kind):
    source, copy = (graph_of(path) for path in copy_of(network, kind))
    found = zoolens.diff(source, copy, names=("source", "copy"))
    assert found.same or found.same_cost or found.decision.outcome is Outcome.NOT_KNOWN, [
        found.verdict,
        *(one.text for one in found.differences[:5]),
    ]
    named = [zoolens.identify(graph, "model", names=[f"{network.name}.onnx"]) for graph in (source, copy)]
    outcomes = [one.verdict.outcome if one.verdict else None for one in named]
    assert outcomes[1] in (outcomes[0], Outcome.NOT_KNOWN), [one.judgement.sentence for one in named if one.judgement]


def words(network: Network, kind: str) -> str:
    try:
        source, copy = (graph_of(path) for path in copy_of(network, kind))
        found = zoolens.diff(source, copy, names=("source", "copy"))
    except pytest.skip.Exception:
        return "not made"
    except ZoolensError as error:
        return f"refused: {error.message[:40]}"
    if found.same:
        return "folded" if found.folded or found.norm_blind else "stored" if found.stored else "same"
    if found.decision.outcome is Outcome.NOT_KNOWN:
        return "not known"
    return "same but constants" if found.same_cost else "DIFFERENT"


def main() -> None:
    print(f"| network | {' | '.join(KINDS)} |")
    print(f"| --- |{' --- |' * len(KINDS)}")
    total: Counter[str] = Counter()
    for network in NETWORKS:
        row = [words(network, kind) for kind in KINDS]
        total.update(row)
        print(f"| `{network}` | {' | '.join(row)} |", flush=True)
        graph_of.cache_clear()
    print(f"\n{dict(total)}")


if __name__ == "__main__":
    main()
