"""What can be said of a stitched model without looking at its answers, beside what was measured.

Both are about a few inputs of the data. The analytic bound surely holds for them, and is mostly far too large. The
noise estimate puts noise as large as each piece's own difference behind it, one piece at a time: it bounds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.base.store.json_columns import json_value
from zoolens.base.store.records import Run
from zoolens.findings.comparisons.origins import open_inputs
from zoolens.findings.graph.ir.model import Array, Graph
from zoolens.findings.twins.noise_estimate import NoiseEstimate, noise_estimate, relative_difference
from zoolens.findings.twins.pieces import Piece
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.runtimes.runtime import TensorSpec

INPUTS: Final = 16
DRAWS: Final = 4
_LARGEST: Final = 10.0  # noise of more than that is no different from noise alone


class TwinBound(Protocol):
    """What a plug-in of `zoolens.twin_bounds` says of a stitched model's outputs, on the inputs it was given."""

    @property
    def meaning(self) -> str: ...

    @property
    def value(self) -> float: ...

    @property
    def measured(self) -> float: ...

    @property
    def looseness(self) -> float: ...

    @property
    def vacuous(self) -> bool: ...

    @property
    def unchanged(self) -> float | None: ...

    @property
    def reasons(self) -> tuple[str, ...]: ...


_SAID_OF_BOUND: Final = ("meaning", "value", "measured", "looseness", "vacuous", "unchanged", "reasons")
_SAID_OF_NOISE: Final = ("meaning", "magnitude", "agreement", "agreement_error", "draws")


@dataclass(frozen=True)
class Theory:
    """`noise` has one estimate for each piece, in their order. Where something cannot be said, `refused` says why."""

    bound: TwinBound | None
    noise: tuple[NoiseEstimate, ...]
    inputs: int
    refused: tuple[str, ...] = ()

    @property
    def noise_agreement(self) -> float | None:
        """The agreement if every piece changed other answers: one, less the sum of what each is estimated to change."""
        known = [estimate.agreement for estimate in self.noise if estimate.agreement is not None]
        return max(0.0, 1 - sum(1 - agreement for agreement in known)) if known else None


def theory_of(original: Graph, donor: Graph, twin: Graph, pieces: Sequence[Piece], inputs: Array) -> Theory:
    """The bound and the estimates for these inputs; what an operator makes impossible is said, not raised."""
    refused: list[str] = []
    bound: TwinBound | None = None
    noise: tuple[NoiseEstimate, ...] = ()
    try:
        bound = plugins.load(plugins.TWIN_BOUNDS, "layerwise")(original, twin, inputs)
    except ZoolensError as error:
        refused.append(f"No analytic bound: {error}")
    try:
        noise = tuple(_noise(original, donor, piece, inputs) for piece in pieces)
    except ZoolensError as error:
        refused.append(f"No noise estimate: {error}")
    return Theory(bound, noise, len(inputs), tuple(refused))


def _noise(original: Graph, donor: Graph, piece: Piece, inputs: Array) -> NoiseEstimate:
    size = relative_difference(original, piece.common.a, donor, piece.common.b, inputs)
    return noise_estimate(original, piece.common.a, min(size, _LARGEST), inputs, draws=DRAWS)


def some_inputs(run: Run, given: Input, graph: Graph, count: int = INPUTS) -> Array:
    """Inputs of the data a run was made on, spread evenly over it, ready to be fed to the graph."""
    prepare = build_prepare(given, TensorSpec("input", (None, *graph.inputs[0].shape[1:]), "float32"))
    with closing(open_inputs(run)) as dataset:
        decoded = dataset.decoded_with(given.decoder)
        chosen = np.linspace(0, len(decoded) - 1, min(count, len(decoded))).astype(int)
        return np.stack([prepare(decoded.read(int(index)).value) for index in chosen])


def as_data(theory: Theory) -> dict[str, Any]:
    """The theory as plain JSON-able values, with None for infinity."""
    bound = theory.bound
    data = {
        "inputs": theory.inputs,
        "refused": theory.refused,
        "analytic_bound": None if bound is None else {name: getattr(bound, name) for name in _SAID_OF_BOUND},
        "noise_estimate": [{name: getattr(estimate, name) for name in _SAID_OF_NOISE} for estimate in theory.noise],
        "noise_agreement": theory.noise_agreement,
    }
    return json_value(data)  # type: ignore[no-any-return]
