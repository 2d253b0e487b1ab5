"""Why the answer of a runtime is not the exact one of its file: a lower precision, or a layer computed otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from zoolens.divergence.causes import Cause, Kind, Proof, label_of
from zoolens.divergence.evaluation import exact_value, exact_values, grids_of, with_grids
from zoolens.divergence.examined import Exact, Examined
from zoolens.divergence.inspection import SideLayer, SideView
from zoolens.divergence.kernels import kernel_of, profile_of
from zoolens.divergence.sides import Side, reopened
from zoolens.errors import ZoolensError
from zoolens.graph.model import Array
from zoolens.numerics.deviation import deviation
from zoolens.numerics.rounding import is_representable, rounded
from zoolens.twins.activations import starting_at

_STORED: Final = ("bfloat16", "float16")  # precisions in which tensors are kept
_PROVED_AT: Final = 4  # faulty layers that a repetition is captured at
_NAMED: Final = 3  # operators of one layer
_INJECTED_BYTES: Final = 1 << 28


def causes_of_runtime(side: Side, place: int, examined: Sequence[Examined], exact: Mapping[int, Exact]) -> list[Cause]:
    """Why a runtime's answer is not the exact one of its file, down to rounding."""
    worst = max(examined, key=lambda one: _added(side, place, one, exact))
    before, floor = _added(side, place, worst, exact), exact[worst.index].floors[place]
    layers = _side_layers(worst, place)
    broken = next((name for name, layer in layers.items() if not layer.finite), None)
    if broken is not None:
        return [_not_finite(side, broken, layers[broken])]
    faulty = [name for name, layer in layers.items() if layer.faulty]
    if not before > floor and not faulty:
        return []
    return [_of_runtime(side, place, worst, exact[worst.index], layers, faulty, before)]


def _added(side: Side, place: int, examined: Examined, exact: Mapping[int, Exact]) -> float:
    answer = side.real_answer(examined.answers[place])
    return deviation(answer, exact[examined.index].outputs[place]).error


def _side_layers(examined: Examined, place: int) -> dict[str, SideLayer]:
    layers = examined.inspection.layers if examined.inspection is not None else ()
    return {layer.pair.names[place]: side for layer in layers if (side := layer.sides[place]) is not None}


def _not_finite(side: Side, name: str, layer: SideLayer) -> Cause:
    assert side.graph is not None
    label = label_of(side.graph, name)
    whose = "though exact arithmetic gives numbers" if layer.exact_finite else "and so does exact arithmetic"
    words = f"{label} is the first layer of {side.label} that gives numbers that are not finite, {whose}"
    return Cause(Kind.NOT_FINITE, words, side.label, name, label)


def _of_runtime(
    side: Side,
    place: int,
    examined: Examined,
    exact: Exact,
    layers: Mapping[str, SideLayer],
    faulty: Sequence[str],
    before: float,
) -> Cause:
    assert side.graph is not None
    if side.borrowed and faulty:
        return _other_model(side, place, examined, exact, layers, faulty, before)
    first = faulty[0] if faulty else None
    withdrawn: list[str] = []
    view = examined.view(side, place)
    label = layer_label(view, first) if first else None
    kernel = kernel_of(side, first, profile_of(side, view.feeds)) if first else None
    by = f" by {kernel.words}" if kernel else ""
    quantised = bool(grids_of(side.graph))
    told = _below_float32(kernel.precision if kernel else None, quantised)
    said = told or lower_precision(view, faulty) or _below_float32(side.effective.precision, quantised)
    if said is not None:
        where = f"{label}{by} is its first layer that does more than round" if first else "no layer can be told"
        words = f"{side.label} computes in {said}: {where}"
        proof = _in_float32(side, place, examined, exact, faulty, before)
        if proof is not None and proof.holds:
            return Cause(Kind.PRECISION, words, side.label, first, label, proof)
        tried = "it cannot be told to compute in float32" if proof is None else f"{proof.after:.1e} is left in float32"
        withdrawn.append(f"{words}; {tried}")
    if quantised and first is None:
        cause = _between_grids(view, examined.answers[place], before, exact.floors[place])
        return replace(cause, withdrawn=tuple(withdrawn))
    if first is None:
        words = f"{side.label} is off the exact answer of its file, and no layer of it that can be read is by itself"
        return Cause(Kind.UNEXPLAINED, words, side.label, withdrawn=tuple(withdrawn))
    more = f", and {len(faulty) - 1} more layers" if len(faulty) > 1 else ""
    local = layers[first].local
    error = f"{local.error:.1e}" if local is not None else "unknown"
    words = (
        f"{side.label} computes {label}{by}{more} otherwise than the file says: given the same tensors, it is off by "
        f"{error} (floor {layers[first].local_floor:.1e})"
    )
    proof = _injected(side, view, examined.answers[place], faulty, before, exact.floors[place])
    return Cause(Kind.KERNEL, words, side.label, first, label, proof, tuple(withdrawn))


def _other_model(
    side: Side,
    place: int,
    examined: Examined,
    exact: Exact,
    layers: Mapping[str, SideLayer],
    faulty: Sequence[str],
    before: float,
) -> Cause:
    """A side that is held against the graph of the other: which of the layers compute something else."""
    view = examined.view(side, place)
    learned = [name for name in layers if any(view.graph.by_name[member].parameters for member in view.members(name))]
    proof = _injected(side, view, examined.answers[place], faulty, before, exact.floors[place])
    label = layer_label(view, faulty[0])
    if set(faulty) <= set(learned):
        rest = len(layers) - len(learned)
        words = (
            f"{side.label} has other weights than the graph it is held against, in {len(faulty)} of {len(learned)} "
            f"layers with weights, from {label} on; the {rest} layers without weights compute the same"
        )
        return Cause(Kind.WEIGHTS, words, side.label, faulty[0], label, proof)
    words = f"{side.label} computes another network than the graph it is held against, from {label} on"
    return Cause(Kind.STRUCTURE, words, side.label, faulty[0], label, proof)


def _between_grids(view: SideView, answer: Array, before: float, floor: float) -> Cause:
    """A quantised file whose layers are all right within half a step: the runtime rounds to the grids of the file in
    its own way, or not at all, which is proved by computing the file in real numbers."""
    side = view.side
    real = exact_value(with_grids(view.graph, {}), view.inputs, side.output).reshape(-1)
    after = deviation(side.real_answer(answer), real).error
    words = (
        f"{side.label} rounds otherwise than the grids of its quantised file say; no layer that can be read is off by "
        "more than half a step on average"
    )
    proof = Proof("the file computed in real numbers, without its grids", before, after, floor)
    return Cause(Kind.QUANTISATION, words, side.label, proof=proof)


def layer_label(view: SideView, name: str) -> str:
    """What a layer is called: all operators that the runtime computes between two tensors that it shows."""
    members = view.members(name) or (name,)
    shown = " + ".join(label_of(view.graph, member) for member in members[:_NAMED])
    return f"{shown} + {len(members) - _NAMED} more" if len(members) > _NAMED else shown


def _below_float32(told: str | None, quantised: bool) -> str | None:
    """What a runtime tells of its precision, where it is lower than the file asks for: the integers of a quantised file
    are what the file says."""
    expected = {"float32", "float64", *(("int8", "uint8", "int16") if quantised else ())}
    lower = [part for part in (told or "").split("+") if part and part not in expected]
    return "+".join(lower) or None


def lower_precision(view: SideView, faulty: Sequence[str]) -> str | None:
    """The precision in which a layer was computed, as its numbers show: each of them is one that this precision can
    hold, or the layer computed from rounded tensors comes much nearer."""
    if not faulty or faulty[0] in grids_of(view.graph):
        return None
    name = faulty[0]
    givers = [giver for giver in view.givers(name) if giver in view.side.points]
    values, _ = view.side.capture(view.feeds, (name, *givers))
    for precision in _STORED:
        if is_representable(values[name], precision) and np.count_nonzero(values[name]) > 8:
            return precision
    given = {giver: values[giver] if giver in values else view.inputs[giver] for giver in view.givers(name)}
    segment = starting_at(view.graph, given, (name,))
    exact = deviation(values[name], exact_value(segment, given, name)).error
    # tf32 and float16 keep the same bits of a number of common size: graphics processors have the first.
    for precision in ("bfloat16", "tf32" if view.side.job.options.device != "cpu" else "float16"):
        weights = {
            key: rounded(array, precision).astype(np.float64)
            for node in segment.nodes
            for key in (tensor.key for tensor in node.parameters if tensor.role == "kernel")
            if (array := np.asarray(segment.weights[key])).dtype.kind == "f"
        }
        lower = replace(segment, weights={**segment.weights, **weights})
        fed = {giver: rounded(value, precision).astype(np.float64) for giver, value in given.items()}
        if deviation(values[name], exact_value(lower, fed, name)).error < exact / 4:
            return precision
    return None


def _in_float32(
    side: Side, place: int, examined: Examined, exact: Exact, faulty: Sequence[str], before: float
) -> Proof | None:
    """The side again, told to compute in float32; None where it cannot be told."""
    if not side.job.runtime.can("force_precision") or side.job.options.precision == "float32":
        return None
    try:
        again = reopened(side, precision="float32")
    except ZoolensError:
        return None
    try:
        feeds = examined.feeds[place]
        after = deviation(again.real_answer(again.answer(feeds)), exact.outputs[place]).error
        floor = exact.floors[place]
        view = examined.view(again, place)
        for name in faulty[:_PROVED_AT]:
            givers = tuple(giver for giver in view.givers(name) if giver in again.points)
            values, _ = again.capture(feeds, (name, *givers))
            local, local_floor = view.local(name, values)
            if local is not None and local.verdict(local_floor) == "beyond":
                after = max(after, local.error)
    finally:
        again.close()
    words = f"{side.label} told to compute in float32"
    return Proof(words, before, after, floor)


def _injected(
    side: Side, view: SideView, answer: Array, faulty: Sequence[str], before: float, floor: float
) -> Proof | None:
    """The exact evaluation with the values of these layers taken from the runtime: it must give the runtime's answer,
    for then nothing else in the runtime is needed to explain it. None where they do not fit into memory."""
    sizes = sum(int(np.prod(view.graph.by_name[name].shape)) for name in faulty)
    if 8 * sizes > _INJECTED_BYTES:
        return None
    values, _ = side.capture(view.feeds, tuple(faulty))
    moved = next(
        value for node, value in exact_values(view.graph, view.inputs, values) if node.name == side.output
    ).reshape(-1)
    after = deviation(side.real_answer(answer), moved).error
    layers = "this layer" if len(faulty) == 1 else f"these {len(faulty)} layers"
    words = (
        f"the exact evaluation with the values of {layers} taken from {side.label}, against what {side.label} answers"
    )
    return Proof(words, before, after, floor)
