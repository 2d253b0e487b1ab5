"""The compression bound of Arora, Ge, Neyshabur and Zhang 2018, computed as its authors define it.

"Stronger generalization bounds for deep nets via a compression approach", Theorems 4.1 (fully connected) and 5.1
(convolutional; the former is its case without feature maps). With probability 1 − δ over the inputs, the error of a
*compressed* version of the network on the distribution of the inputs is at most

    share of inputs with a margin below γ  +  Õ( √( c² d² max‖f(x)‖² Σ_i β² ⌈κ_i/s_i⌉² / (μ_i² μ_i→²) / (γ² m) ) )

where m is the number of inputs, d of layers, c the activation contraction, μ_i and μ_i→ the layer and interlayer
cushions, β the spread (see `stability`), κ_i and s_i kernel width and stride. It is proved where the smoothness ρ
is at least 3d. The constants and logarithms that the authors hide in Õ are taken as 1, so this is what the bound scales
with rather than a proof; and it depends on the inputs like every other bound here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ModelError
from zoolens.contrib.arora.chain import Chain, LinearMap, chain_of
from zoolens.contrib.arora.stability import Stability, smoothness, stability
from zoolens.findings.graph.ir.model import Graph

MARGINS: Final = tuple(2.0**power for power in range(-6, 11))  # fixed beforehand: choosing among them is paid for
SAMPLES: Final = 12  # standard errors of cushions are then below 10 %


@dataclass(frozen=True)
class LayerFacts:
    name: str
    kind: str
    width: int  # channels or units, with the constant that carries biases
    cells: int  # places of the feature map
    norm: float
    cushion: float
    interlayer: float
    interlayer_error: float  # relative standard error from the random vectors
    overlap: int
    term: float  # its part of the sum


@dataclass(frozen=True)
class AroraBound:
    """The bound on the error (a share of inputs) of a compressed version: `bound` = `margin_loss` + `capacity` +
    `selection`."""

    margin: float
    margin_loss: float
    capacity: float
    selection: float  # the price of having chosen the margin from the grid; 0 where it was given
    inputs: int
    classes: int
    contraction: float
    spread: float
    smoothness: float
    largest_output: float
    layers: tuple[LayerFacts, ...]

    @property
    def bound(self) -> float:
        return self.margin_loss + self.capacity + self.selection

    @property
    def chance(self) -> float:
        return 1 - 1 / self.classes

    @property
    def vacuous(self) -> bool:
        """It promises no more than answering at random does."""
        return not self.bound < self.chance

    @property
    def covered(self) -> bool:
        """Whether the theorem's premise on smoothness was met, on the noise that was drawn."""
        return self.smoothness >= 3 * len(self.layers)

    @property
    def sentence(self) -> str:
        parts = (
            f"{_figure(self.margin_loss)} have a margin below {self.margin:g}; {_figure(self.capacity)} for capacity"
        )
        text = (
            "By Arora et al. 2018, with the constants hidden in their Õ taken as 1, the error of a compressed network "
            f"is at most {_figure(self.bound)} on data like these {self.inputs:,} inputs ({parts})."
        )
        if self.vacuous:
            text += f" That is vacuous: answers at random err {_figure(self.chance)} of the time."
        if not self.covered:
            text += f" Its premise fails too: smoothness {_figure(self.smoothness)}, {3 * len(self.layers)} needed."
        return text


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def arora_bound(
    graph: Graph,
    inputs: NDArray[Any],
    labels: NDArray[Any],
    *,
    margin: float | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> AroraBound:
    """The bound of a canonical graph with weights, on inputs as it takes them (n × …, preprocessed) and their labels.

    Without a `margin` the best of `MARGINS` is taken among those that most inputs of a better-than-random classifier
    reach, at the price of a union bound. ModelError where the theorem does not cover the network.
    """
    labels = np.asarray(labels)
    if len(inputs) != len(labels) or not len(labels):
        raise DatasetError(f"There are {len(inputs)} inputs and {len(labels)} labels: the margin needs one of each.")
    if margin is not None and not margin > 0:
        raise ValueError(f"The margin is {margin}: it must be positive.")
    chain = chain_of(graph)
    values = chain.prepared(np.asarray(inputs))
    measured = stability(chain, values, samples, seed)
    if not np.isfinite(measured.outputs).all():
        raise ModelError(f"{graph.name} gives numbers that are not finite, so it has no margin.")
    margins = _margins(measured.outputs, labels, graph)
    selection = 0.0 if margin is not None else math.sqrt(math.log(len(MARGINS)) / (2 * len(labels)))
    chosen = margin if margin is not None else _best_margin(chain, measured, margins)
    return AroraBound(
        margin=chosen,
        margin_loss=_loss(margins, chosen),
        capacity=_capacity(chain, measured, chosen, len(labels)),
        selection=selection,
        inputs=len(labels),
        classes=measured.outputs.shape[1],
        contraction=measured.contraction,
        spread=measured.spread,
        smoothness=smoothness(chain, values, _accuracies(chain, measured, chosen), seed),
        largest_output=_largest(measured),
        layers=tuple(_facts(layer, measured, at) for at, layer in enumerate(chain.layers)),
    )


def _margins(outputs: NDArray[np.float64], labels: NDArray[Any], graph: Graph) -> NDArray[np.float64]:
    """Computes by how much the right class leads the best other one."""
    classes = outputs.shape[1]
    if classes < 2 or labels.min() < 0 or labels.max() >= classes:
        raise DatasetError(
            f"The labels go from {labels.min()} to {labels.max()}, and {graph.name} has {classes} classes.",
            hint="Pass the class index of each input.",
        )
    rows = np.arange(len(labels))
    others = outputs.copy()
    others[rows, labels] = -np.inf
    return np.asarray(outputs[rows, labels] - others.max(axis=1))


def _loss(margins: NDArray[np.float64], margin: float) -> float:
    return float(np.mean(margins <= margin))


def _best_margin(chain: Chain, measured: Stability, margins: NDArray[np.float64]) -> float:
    """A margin that nearly all inputs miss would give about 1 whatever the network: that is no candidate."""
    chance = 1 - 1 / measured.outputs.shape[1]
    useful = [margin for margin in MARGINS if _loss(margins, margin) < chance] or [MARGINS[0]]
    return min(useful, key=lambda margin: _loss(margins, margin) + _capacity(chain, measured, margin, len(margins)))


def _capacity(chain: Chain, measured: Stability, margin: float, inputs: int) -> float:
    total = sum(_term(layer, measured, at) for at, layer in enumerate(chain.layers))
    return measured.contraction * len(chain.layers) * _largest(measured) / margin * math.sqrt(total / inputs)


def _largest(measured: Stability) -> float:
    return float(np.linalg.norm(measured.outputs, axis=1).max())


def _term(layer: LinearMap, measured: Stability, at: int) -> float:
    cushions = float(measured.cushions[at] * measured.interlayer[at])
    return (measured.spread * layer.overlap / cushions) ** 2 if cushions else math.inf


def _accuracies(chain: Chain, measured: Stability, margin: float) -> NDArray[np.float64]:
    """How accurately each layer must be compressed for outputs to move by less than the margin (the proof's ε_i)."""
    output = min(1.0, margin / (math.sqrt(2) * _largest(measured)))
    share = output / (4 * measured.contraction * len(chain.layers) * measured.spread)
    return share * measured.cushions * measured.interlayer


def _facts(layer: LinearMap, measured: Stability, at: int) -> LayerFacts:
    return LayerFacts(
        name=layer.name,
        kind=layer.kind,
        width=measured.widths[at],
        cells=measured.cells[at],
        norm=layer.norm,
        cushion=float(measured.cushions[at]),
        interlayer=float(measured.interlayer[at]),
        interlayer_error=float(measured.interlayer_errors[at]),
        overlap=layer.overlap,
        term=_term(layer, measured, at),
    )
