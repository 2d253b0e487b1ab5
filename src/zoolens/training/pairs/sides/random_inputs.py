"""Random inputs for networks that are compared: numbers around zero, large ones, and whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Graph
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.network_sides import InputShape

SAMPLES: Final = 2  # inputs
_LARGE: Final = 16.0
_PADDED: Final = 3  # one part in so many of a row of whole numbers
_TOKENS: Final = 10  # values of whole-number inputs, where no embedding says how many it has


def random_inputs(inputs: Sequence[InputShape], graphs: Sequence[Graph], seed: int) -> list[Array]:
    """One batch of one: numbers around zero, or whole numbers that every embedding has.

    Of odd seeds, numbers are large and whole numbers end in zeros. Large ones reach the bends of activations that small
    ones do not, such as the 6 of ReLU6; zeros are what networks that mask their padding leave out.
    """
    generator = np.random.default_rng(seed)
    drawn = [_drawn(given, place, graphs, generator) for place, given in enumerate(inputs)]
    return [_unusual(array) for array in drawn] if seed % 2 else drawn


def _unusual(array: Array) -> Array:
    if array.dtype.kind == "f":
        return array * np.float32(_LARGE)
    array[..., array.shape[-1] - array.shape[-1] // _PADDED :] = 0
    return array


def _drawn(given: InputShape, place: int, graphs: Sequence[Graph], generator: np.random.Generator) -> Array:
    if given.kind == "float":
        return generator.standard_normal((1, *given.shape)).astype(np.float32)
    tables = [
        table.shape[0]
        for graph in graphs
        for user in graph.consumers[graph.inputs[place].name]
        if (table := user.parameter("table")) is not None
    ]
    return generator.integers(0, min(tables, default=_TOKENS), (1, *given.shape))
