"""What comes after the last block: how the map becomes a vector, and the vector an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zoolens.findings.graph.diff.phrases import window
from zoolens.training.crosstrain.training.diff.recipe_findings import Finding, compared
from zoolens.training.crosstrain.training.diff.recipe_layers import TITLES, title_of
from zoolens.training.pairs.reading.side_facts import LayerFact, SideFacts

_BODY: Final = frozenset({"conv", "batch_norm", "add", "concat", "max_pool", "avg_pool"})


def heads(a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    yield compared("head", "after the last block", *(_head(facts) for facts in (a, b)))


def _head(facts: SideFacts) -> str:
    last = max((number for number, layer in enumerate(facts.layers) if layer.op in _BODY), default=-1)
    steps = [text for layer in facts.layers[last + 1 :] if (text := _step(layer))]
    return " → ".join(steps[1:] if steps and steps[0] == "relu" else steps)


def _step(layer: LayerFact) -> str:
    """A word for a layer of the head; nothing for what only arranges, and for dropout, which has its own section."""
    if title_of(layer) == TITLES["mean"]:
        return "global average pool"
    if layer.op == "adaptive_avg_pool":
        return f"average pool to {window(layer.shape[1:])}"
    if layer.op in ("flatten", "reshape"):
        return f"flatten {window(layer.given)}" if any(extent > 1 for extent in layer.given[1:]) else ""
    if layer.op == "dense":
        return f"dense {layer.given[-1]}→{layer.shape[-1]}"
    return "" if layer.op in ("dropout", "pad") else layer.op


def flattened(facts: SideFacts) -> int:
    """Layers that read a map of several places as one vector, in the framework's own order."""
    flats = (layer for layer in facts.layers if layer.op in ("flatten", "reshape") and len(layer.shape) == 1)
    return sum(any(extent > 1 for extent in flat.given[1:]) for flat in flats)
