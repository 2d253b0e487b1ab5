"""A static comparison as lines for a terminal and as data for JSON."""

from __future__ import annotations

from typing import Any

from zoolens.base.store.json_columns import json_value
from zoolens.findings.graph.diff.phrases import plural
from zoolens.training.crosstrain.training.diff.recipe_findings import KINDS, Item, StaticDiff

_TITLES = {
    "layers": "Layers", "parameters": "Parameters", "bias": "Biases", "dropout": "Dropout", "stride": "Strides",
    "padding": "Padding", "norm": "Batch norm", "init": "Initial weights", "head": "Classifier head", "loss": "Loss",
    "optimizer": "Optimizers", "schedule": "Schedules", "layout": "Layout",
}  # fmt: skip


def as_data(diff: StaticDiff) -> dict[str, Any]:
    return {
        "a": {"name": diff.a, "network": diff.networks[0], "versions": dict(diff.versions[0])},
        "b": {"name": diff.b, "network": diff.networks[1], "versions": dict(diff.versions[1])},
        "differences": json_value(diff.items),
        "same": json_value(diff.same),
    }


def lines(diff: StaticDiff, *, evidence: bool = True) -> list[str]:
    """Grouped by kind: what differs, each side's value, how many layers, and how it is known; then what is equal."""
    text = [f"A  {diff.a}  {_origin(diff, 0)}", f"B  {diff.b}  {_origin(diff, 1)}"]
    for kind in KINDS:
        items = diff.of(kind)
        if items:
            text += ["", _TITLES[kind]]
            for item in items:
                text += _item(item, evidence=evidence)
    return [*text, "", *_summary(diff)]


def _origin(diff: StaticDiff, side: int) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in diff.versions[side].items())
    return f"{diff.networks[side]} ({versions})"


def _item(item: Item, *, evidence: bool) -> list[str]:
    count = f" ({plural(item.layers, 'layer')})" if item.layers else ""
    text = [f"  {item.what}{count}", f"    A {item.a}", f"    B {item.b}"]
    return [*text, f"      {item.evidence}"] if evidence and item.evidence else text


def _summary(diff: StaticDiff) -> list[str]:
    equal = ["Nothing that was compared is equal."]
    if diff.same:
        equal = [f"Equal: {'; '.join(f'{same.what} {same.value}' for same in diff.same)}."]
    return [*equal, f"{plural(len(diff.items), 'difference')}, {len(diff.same)} settings equal."]
