"""Other values in many layers of two files: quantisation, rounding or another training, and which layers cost most."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.present.figures import percent
from zoolens.findings.divergence.alignment import Aligned
from zoolens.findings.divergence.divergence_causes import Cause, Kind, Proof, label_of
from zoolens.findings.divergence.examined import relative_difference
from zoolens.findings.divergence.exchange import Exchange
from zoolens.findings.divergence.file_differences import FileDifference, Rounding
from zoolens.findings.graph.weights.weight_diff import SUFFIXES, WeightDiff, weight_diff
from zoolens.findings.graph.weights.weight_words import headline

_COSTLY: Final = 3  # layers that are named
_RESTORED: Final = 80  # layers that are restored one at a time
_NUMBER: Final = re.compile(r"(?<=[./])\d+(?=[./])")  # of a block: w1 and w2 are matrices of two kinds
_MOST_BYTES: Final = 1 << 30  # of both files together, whose values are compared with the steps of their types


def quantised(exchange: Exchange, every: list[FileDifference], proof: Proof) -> Cause:
    """Quantised against real: which layers cost most, by restoring them one at a time; of many, those that move their
    own value most."""
    graphs = exchange.graphs
    most_effective = sorted(every, key=lambda difference: -difference.effect)
    places = [(difference.a, [difference]) for difference in most_effective[:_RESTORED] if difference.a is not None]
    costs = _costs(exchange, every, places, proof)
    shown = ", ".join(f"{label_of(graphs.a, name)} {percent(share, 0)}" for share, name in costs[:_COSTLY])
    grids = sum(difference.kind == "quantisation" for difference in every)
    words = f"One file is quantised: {grids} values lie on grids, and {len(every)} places differ in all"
    if shown:
        tried = f" ({_RESTORED} were tried)" if len(every) > _RESTORED else ""
        words += f"; these cost most, by the share of the difference that restoring one alone removes{tried}: {shown}"
    first = costs[0][1] if costs else every[0].a
    assert first is not None
    return Cause(Kind.QUANTISATION, words, None, first, label_of(graphs.a, first), proof)


def other_weights(
    exchange: Exchange,
    every: Sequence[FileDifference],
    weights: Sequence[FileDifference],
    learned: int,
    proof: Proof,
    rounding: Rounding | None,
) -> Cause:
    """Other values in many layers: what they are, as far as the types of both files tell, and what they cost. `every`:
    all that the files say differently, which `proof` is about."""
    graphs = exchange.graphs
    first = weights[0].a
    assert first is not None
    label = label_of(graphs.a, first)
    begins = f"{len(weights)} of {learned} layers, from {label} on ({weights[0].words})"
    words = f"The files have other weights in {begins}: another training, or another precision of the file"
    kind = Kind.WEIGHTS
    if rounding is not None:
        words = f"{rounding.side}'s file keeps weights rounded to {rounding.precision} in {begins}"
    elif (known := _known_of_weights(exchange)) is not None:
        kind, said = known
        words = f"The files have other weights in {begins}. {said.rstrip('.')}"
    costs = _costs(exchange, every, list(_repeated_layers(graphs, weights)), proof)
    if costs:
        shown = ", ".join(f"{name} {percent(share, 0)}" for share, name in costs[:_COSTLY])
        words += f". These cost most, by the share of the difference that restoring one kind alone removes: {shown}"
    return Cause(kind, words, None, first, label, proof)


def _known_of_weights(exchange: Exchange) -> tuple[Kind, str] | None:
    """What lies between the weights of both files, and what is said of them; None where their types are not known."""
    paths = [side.job.paths.get("model") for side in (exchange.a, exchange.b)]
    known = [path for path in paths if path is not None and path.suffix in SUFFIXES]
    if len(known) < len(paths) or sum(path.stat().st_size for path in known) > _MOST_BYTES:
        return None
    try:
        found = weight_diff(*known)
    except ZoolensError:
        return None
    return kind_of_weights(found), headline(found, alone=False)


def kind_of_weights(found: WeightDiff) -> Kind:
    """Quantisation, if one file's weights rounded again are the other's. Where they cannot be rounded again, as
    those of K types, a light training before the rounding would look the same."""
    return Kind.QUANTISATION if found.is_rounding and found.repeated else Kind.WEIGHTS


def kind_of_layer(label: str) -> str:
    """The label of a layer with * for the number of its block."""
    return _NUMBER.sub("*", label)


def _repeated_layers(
    graphs: Aligned, weights: Sequence[FileDifference]
) -> Iterator[tuple[str, Sequence[FileDifference]]]:
    """Layers of one kind in all blocks; none where nothing repeats."""
    kinds: dict[str, list[FileDifference]] = {}
    for difference in weights:
        if difference.a is not None:
            kinds.setdefault(kind_of_layer(label_of(graphs.a, difference.a)), []).append(difference)
    if len(kinds) < len(weights) and len(kinds) <= _RESTORED:
        yield from kinds.items()


def _costs(
    exchange: Exchange,
    every: Sequence[FileDifference],
    places: Sequence[tuple[str, Sequence[FileDifference]]],
    proof: Proof,
) -> list[tuple[float, str]]:
    """The share of the difference that is gone where these places are as in A, the largest first."""
    real = exchange.exact.outputs[0]
    costs: list[tuple[float, str]] = []
    for name, restored in places:
        others = [other for other in every if other not in restored]
        answer = exchange.answer(others, exchange.exact)
        if answer is not None and proof.before:
            left = relative_difference(answer[0], real)
            costs.append(((proof.before - left) / proof.before, name))
    return sorted(costs, key=lambda cost: -cost[0])
