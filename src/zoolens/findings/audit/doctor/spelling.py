"""Normalisations that are equal on paper and differ in a quantised input.

(x − 127.5) / 127.5 and x × (1 / 127.5) − 1 are the same mathematics. Where the input is quantised at a scale of
1 / 127.5, every other pixel falls exactly between two integers, and the last bit of float32 decides which one it gets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.manifests.schema_steps import Normalize
from zoolens.inventory.preprocess.normalisation import pixel_tables
from zoolens.inventory.runtimes.runtime import TensorSpec


def spelling_note(manifest: Manifest, tensor: TensorSpec) -> str | None:
    """A warning where another spelling of the manifest's normalisation gives the quantised input other integers."""
    declared = manifest.inputs[0]
    steps = [step for step in declared.preprocess if isinstance(step, Normalize)]
    if declared.modality != "image" or not tensor.quantised or np.dtype(tensor.dtype).itemsize != 1 or len(steps) != 1:
        return None
    channels = max(len(steps[0].mean), len(steps[0].std))
    changed = {spelling: _changed(steps[0], spelling, channels, tensor) for spelling in spellings(steps[0])}
    other = max(changed, key=lambda spelling: changed[spelling], default=None)
    if other is None or not changed[other]:
        return None
    return (
        f"the input is quantised, and the same normalisation written as {_words(other)} gives "
        f"{changed[other]} of 256 pixel values another integer, because they fall between two. Write it as the "
        "reference implementation does: some answers depend on it."
    )


def spellings(step: Normalize) -> Iterator[Normalize]:
    """Other ways to write (pixel × scale − mean) / deviation."""
    for scale in (1.0, 1 / 255, 1 / 127.5):
        yield _scaled(step, scale / step.scale)
    if len(set(step.std)) == 1:
        yield _scaled(step, 1 / step.std[0])


def _scaled(step: Normalize, by: float) -> Normalize:
    """Numerator and denominator times the same figure."""
    changes = {
        "scale": step.scale * by,
        "mean": tuple(mean * by for mean in step.mean),
        "std": tuple(std * by for std in step.std),
    }
    return step.model_copy(update=changes)


def _changed(step: Normalize, other: Normalize, channels: int, tensor: TensorSpec) -> int:
    """How many of the 256 pixel values become another integer in some channel."""
    dtype = np.dtype(tensor.dtype)
    first, second = (
        np.array([np.frombuffer(table, dtype) for table in pixel_tables([step], channels, tensor, dtype)])
        for step in (step, other)
    )
    return int(np.count_nonzero((first != second).any(axis=0)))


def _words(step: Normalize) -> str:
    mean, std = ("/".join(f"{value:.6g}" for value in values) for values in (step.mean, step.std))
    return f"scale {step.scale:.6g}, mean {mean}, deviation {std}"
