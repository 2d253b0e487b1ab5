"""The classification extension: instead of an output, its largest values as "value:index:label"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from zoolens.base.protocol.messages import Tensor
from zoolens.inventory.manifests.schema_steps import DropLeading, OutputStep, Select

Labels = Mapping[int, str]  # by the index in the output as the model gives it


def raw_labels(names: Sequence[str], postprocess: Sequence[OutputStep]) -> Labels:
    """Class names by index in the model's own output. A manifest names classes after its postprocessing, which may
    drop or reorder them."""
    selections = [step for step in postprocess if isinstance(step, Select | DropLeading)]
    labels: dict[int, str] = {}
    for place, name in enumerate(names):
        index: int | None = place
        for step in reversed(selections):
            if index is None:
                break
            if isinstance(step, DropLeading):
                index += step.count
            else:
                index = step.indices[index] if index < len(step.indices) else None
        if index is not None:
            labels[index] = name
    return labels


def largest(output: Tensor, count: int, labels: Labels, batched: bool) -> Tensor:
    """The `count` largest values of each row. Values that are not a number come last."""
    rows = output.reshape(len(output), -1) if batched else output.reshape(1, -1)
    count = min(count, rows.shape[1])
    answers = np.empty((len(rows), count), object)
    for place, row in enumerate(rows):
        order = np.argsort(-row.astype(np.float64), kind="stable")[:count]  # equal values by index; NaN sorts last
        for position, index in enumerate(order):
            text = f"{float(row[index]):f}:{index}"
            label = labels.get(int(index))
            if label is not None:
                text = f"{text}:{label}"
            answers[place, position] = text.encode()
    return answers if batched else answers[0]
