"""Why the answer of a runtime is not the exact one of its file: a lower precision, or a layer computed otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.numerics.deviation import deviation_of_finite
from zoolens.base.numerics.rounding import is_representable, rounded
from zoolens.findings.divergence.divergence_causes import Cause, Kind, Proof, label_of, number
from zoolens.findings.divergence.evaluation import exact_value, exact_values, grids_of, with_grids
from zoolens.findings.divergence.examined import Exact, ExaminedInput
from zoolens.findings.divergence.inspection import SideLayer, SideView
from zoolens.findings.divergence.kernels import kernel_of, profile_of
from zoolens.findings.divergence.quantisation import dynamic_layers
from zoolens.findings.divergence.sides import Side, reopened
from zoolens.findings.graph.ir.model import Array, Graph
from zoolens.findings.twins.activations import starting_at

_STORED: Final = ("bfloat16", "float16")  # precisions in which tensors are kept
_PROVED_AT: Final = 4  # faulty layers that a repetition is captured at
_NAMED: Final = 3  # operators of one layer
_INJECTED_BYTES: Final = 1 << 28


@dataclass(frozen=True)
class Suspect:
    """A side on the input on which its runtime differs most from the exact answer of its file."""

    side: Side
    place: int
    examined: ExaminedInput
    exact: Exact
    layers: Mapping[str, SideLayer]
    before: float  # that difference

    @property
    def floor(self) -> float:
        return self.exact.floors[self.place]

    @property
    def answer(self) -> Array:
        return self.examined.answers[self.place]

    @cached_property
    def view(self) -> SideView:
        return self.examined.view(self.side, self.place)

    @cached_property
    def faulty(self) -> tuple[str, ...]:
        """The layers that add more than rounding by themselves, in order."""
        return tuple(name for name, layer in self.layers.items() if layer.faulty)

    @property
    def broken(self) -> str | None:
        """The first layer with numbers that are not finite where exact arithmetic gives numbers."""
        return next((name for name, layer in self.layers.items() if layer.broken), None)


def causes_of_runtime(
    side: Side, place: int, examined: Sequence[ExaminedInput], exact: Mapping[int, Exact]
) -> list[Cause]:
    """Why a runtime's answer is not the exact one of its file, down to rounding."""
    worst = max(examined, key=lambda example: _added(side, place, example, exact))
    before = _added(side, place, worst, exact)
    suspect = Suspect(side, place, worst, exact[worst.index], _side_layers(worst, place), before)
    if not before > suspect.floor and not suspect.faulty and suspect.broken is None:
        return []
    return [_other_model(suspect) if side.borrowed and suspect.faulty else _of_runtime(suspect)]


def _added(side: Side, place: int, examined: ExaminedInput, exact: Mapping[int, Exact]) -> float:
    answer = side.real_answer(examined.answers[place])
    return deviation_of_finite(answer, exact[examined.index].outputs[place]).error


def _side_layers(examined: ExaminedInput, place: int) -> dict[str, SideLayer]:
    """What was seen of one side, by the names that its graph has for the layers."""
    if examined.inspection is None:
        return {}
    named = {layer.pair.names[place]: layer.sides[place] for layer in examined.inspection.layers}
    return {name: side for name, side in named.items() if side is not None}


def _of_runtime(suspect: Suspect) -> Cause:
    """A precision that is lower than the file's, or else the layers that compute something else."""
    side, view = suspect.side, suspect.view
    quantised = bool(grids_of(view.graph))
    first = next(iter(suspect.faulty), suspect.broken)
    label = layer_label(view, first) if first else None
    kernel = kernel_of(side, first, profile_of(side, view.feeds)) if first else None
    by = f" by {kernel.words}" if kernel else ""
    lower = _below_float32(kernel.precision if kernel else None, quantised)
    precision = lower or lower_precision(view, suspect.faulty) or _below_float32(side.effective.precision, quantised)
    withdrawn: list[str] = []
    if precision is not None:
        where = f"{label}{by} is its first layer that does more than round" if first else "no layer can be told"
        if suspect.broken not in (None, first):
            where += f", and {layer_label(view, suspect.broken)} the first whose numbers are not finite"
        words = f"{side.label} computes in {precision}: {where}"
        proof, tried = _in_float32(suspect)
        if proof is not None and proof.holds:
            return Cause(Kind.PRECISION, words, side.label, first, label, proof)
        withdrawn.append(f"{words}; {tried}")
    if quantised and first is None:
        return replace(_between_grids(suspect), withdrawn=tuple(withdrawn))
    if first is None:
        words = f"{side.label} is off the exact answer of its file, and no layer of it that can be read is by itself"
        return Cause(Kind.UNEXPLAINED, words, side.label, withdrawn=tuple(withdrawn))
    return _of_layers(suspect, first, by, precision, withdrawn)


def _of_layers(suspect: Suspect, first: str, by: str, precision: str | None, withdrawn: list[str]) -> Cause:
    """Layers that compute something else than the file says, proved by taking their values over."""
    side, layer = suspect.side, suspect.layers[first]
    label = layer_label(suspect.view, first)
    more = f", and {len(suspect.faulty) - 1} more layers," if len(suspect.faulty) > 1 else ""
    off = f"it is off by {number(layer.local.error)} (floor {number(layer.local_floor)})" if layer.local else ""
    kind = Kind.KERNEL
    words = f"{side.label} computes {label}{by}{more} otherwise than the file says: given the same tensors, {off}"
    if precision in _STORED and _keeps(side, precision):
        kind = Kind.PRECISION
        words = (
            f"{side.label} computes in {precision}, in which its file keeps its weights: given the same tensors, "
            f"{label}{by}{more} is off by {number(layer.local.error) if layer.local else 'an unknown amount'}, where "
            f"float32 would be by up to {number(layer.local_floor)}"
        )
    elif _rounded_by_file(suspect):
        kind = Kind.QUANTISATION
        words = (
            f"{side.label}'s file rounds what goes into {label}{by}{more} to 8 bits while it runs, by a scale "
            f"of its own for each call, and the reference does not: given the same tensors, {off}"
        )
    if suspect.broken is not None:
        kind = Kind.NOT_FINITE
        broken = layer_label(suspect.view, suspect.broken)
        words = (
            f"{broken}{by if suspect.broken == first else ''} is the first layer of {side.label} with numbers that are "
            "not finite, where exact arithmetic gives numbers"
        )
        if suspect.broken != first:
            words += f"; before it, {label}{by} is the first that does more than round"
    proof, tried = _injected(suspect, tuple(dict.fromkeys((*suspect.faulty, suspect.broken or first))))
    return Cause(kind, words, side.label, first, label, proof, (*withdrawn, *([tried] if proof is None else [])))


def _keeps(side: Side, precision: str) -> bool:
    """Whether all kernels of the file are numbers of this precision: then to compute in it is what the file says."""
    if side.raw is None or side.borrowed:
        return False
    keys = {tensor.key for node in side.raw.nodes for tensor in node.parameters if tensor.role == "kernel"}
    kernels = [np.asarray(side.raw.weights[key]) for key in keys if key in side.raw.weights]
    return bool(kernels) and all(is_representable(kernel, precision) for kernel in kernels)


def _rounded_by_file(suspect: Suspect) -> bool:
    """Whether every layer that is off is one whose inputs the file itself quantises while it runs."""
    rounding = dynamic_layers(suspect.side.job.asset.format, suspect.side.job.paths)
    graph = suspect.view.graph
    for name in suspect.faulty:
        sources = {graph.by_name[member].source for member in suspect.view.members(name)}
        if sources.isdisjoint(rounding):
            return False
    return True


def _other_model(suspect: Suspect) -> Cause:
    """A side that is held against the graph of the other: which of the layers compute something else."""
    side, view, faulty = suspect.side, suspect.view, suspect.faulty
    learned = [name for name in suspect.layers if _has_weights(view, name)]
    proof, _ = _injected(suspect, faulty)
    label = layer_label(view, faulty[0])
    if set(faulty) <= set(learned):
        rest = len(suspect.layers) - len(learned)
        words = (
            f"{side.label} has other weights than the graph it is held against, in {len(faulty)} of {len(learned)} "
            f"layers with weights, from {label} on; the {rest} layers without weights compute the same"
        )
        return Cause(Kind.WEIGHTS, words, side.label, faulty[0], label, proof)
    words = f"{side.label} computes another network than the graph it is held against, from {label} on"
    return Cause(Kind.STRUCTURE, words, side.label, faulty[0], label, proof)


def _has_weights(view: SideView, name: str) -> bool:
    return any(view.graph.by_name[member].parameters for member in view.members(name))


def _between_grids(suspect: Suspect) -> Cause:
    """A quantised file whose layers are all right within half a step: the runtime rounds to the grids of the file in
    its own way, or not at all, which is proved by computing the file in real numbers."""
    side, view = suspect.side, suspect.view
    real = exact_value(with_grids(view.graph, {}), view.inputs, side.output).reshape(-1)
    after = deviation_of_finite(side.real_answer(suspect.answer), real).error
    words = (
        f"{side.label} rounds otherwise than the grids of its quantised file say; no layer that can be read is off by "
        "more than half a step on average"
    )
    proof = Proof("the file computed in real numbers, without its grids", suspect.before, after, suspect.floor)
    return Cause(Kind.QUANTISATION, words, side.label, proof=proof)


def layer_label(view: SideView, name: str) -> str:
    """What a layer is called: all operators that the runtime computes between two tensors that it shows."""
    members = view.members(name) or (name,)
    shown = " + ".join(label_of(view.graph, member) for member in members[:_NAMED])
    return f"{shown} + {len(members) - _NAMED} more" if len(members) > _NAMED else shown


def _below_float32(reported: str | None, quantised: bool) -> str | None:
    """What a runtime tells of its precision, where it is lower than the file asks for: the integers of a quantised file
    are what the file says."""
    expected = {"float32", "float64"}
    if quantised:
        expected |= {"int8", "uint8", "int16"}
    lower = [part for part in (reported or "").split("+") if part and part not in expected]
    return "+".join(lower) or None


def lower_precision(view: SideView, faulty: Sequence[str]) -> str | None:
    """Return the precision in which a layer was computed, as its numbers show.

    Either each of them is one that this precision can hold, or the layer computed from rounded tensors comes much
    nearer.
    """
    if not faulty or faulty[0] in grids_of(view.graph):
        return None
    name = faulty[0]
    givers = [giver for giver in view.givers(name) if giver in view.side.points]
    values, _ = view.side.capture(view.feeds, (name, *givers))
    shown = values[name]
    numbers = np.count_nonzero(np.isfinite(shown) & (shown != 0))
    for precision in _STORED:
        if is_representable(shown, precision) and numbers > 8:
            return precision
    known = {**view.inputs, **values}
    given = {giver: known[giver] for giver in view.givers(name)}
    segment = starting_at(view.graph, given, (name,))
    exact = deviation_of_finite(shown, exact_value(segment, given, name)).error
    # tf32 and float16 keep the same bits of a number of common size: graphics processors have the first.
    for precision in ("bfloat16", "tf32" if view.side.job.options.device != "cpu" else "float16"):
        lower = replace(segment, weights={**segment.weights, **_rounded_kernels(segment, precision)})
        fed = {giver: rounded(value, precision).astype(np.float64) for giver, value in given.items()}
        if deviation_of_finite(shown, exact_value(lower, fed, name)).error < exact / 4:
            return precision
    return None


def _rounded_kernels(graph: Graph, precision: str) -> dict[str, Array]:
    kernels = {}
    for node in graph.nodes:
        for tensor in node.parameters:
            if tensor.role != "kernel":
                continue
            array = np.asarray(graph.weights[tensor.key])
            if array.dtype.kind == "f":
                kernels[tensor.key] = rounded(array, precision).astype(np.float64)
    return kernels


def _in_float32(suspect: Suspect) -> tuple[Proof | None, str]:
    """The side again, told to compute in float32, and what came of it in words; None where it cannot be told."""
    side = suspect.side
    if side.job.options.precision == "float32":
        return None, "it was told to compute in float32 already"
    if not side.job.runtime.can("force_precision"):
        return None, f"{side.job.runtime.full_name} cannot be told to compute in float32"
    try:
        again = reopened(side, precision="float32")
    except ZoolensError as error:
        return None, f"it could not be opened in float32 ({error.message.rstrip('.')})"
    try:
        feeds = suspect.examined.feeds[suspect.place]
        after = deviation_of_finite(again.real_answer(again.answer(feeds)), suspect.exact.outputs[suspect.place]).error
        view = suspect.examined.view(again, suspect.place)
        for name in suspect.faulty[:_PROVED_AT]:
            givers = tuple(giver for giver in view.givers(name) if giver in again.points)
            values, _ = again.capture(feeds, (name, *givers))
            local, local_floor = view.local(name, values)
            if local is not None and local.verdict(local_floor) == "beyond":
                after = max(after, local.error)
    finally:
        again.close()
    proof = Proof(f"{side.label} told to compute in float32", suspect.before, after, suspect.floor)
    return proof, f"{number(after)} is left in float32"


def _injected(suspect: Suspect, layers: Sequence[str]) -> tuple[Proof | None, str]:
    """The exact evaluation with the values of these layers taken from the runtime: it must give the runtime's answer,
    for then nothing else in the runtime is needed to explain it. None, and why, where they do not fit into memory."""
    side, view = suspect.side, suspect.view
    size = 8 * sum(int(np.prod(view.graph.by_name[name].shape)) for name in layers)
    if size > _INJECTED_BYTES:
        return None, (
            f"the values of these {len(layers)} layers take {size / 1e6:,.0f} MB, so that they were not put into the "
            "exact evaluation"
        )
    values, _ = side.capture(view.feeds, tuple(layers))
    evaluation = exact_values(view.graph, view.inputs, values)
    moved = next(value for node, value in evaluation if node.name == side.output)
    after = deviation_of_finite(side.real_answer(suspect.answer), moved.reshape(-1)).error
    which = "this layer" if len(layers) == 1 else f"these {len(layers)} layers"
    words = (
        f"the exact evaluation with the values of {which} taken from {side.label}, against what {side.label} answers"
    )
    return Proof(words, suspect.before, after, suspect.floor), ""
