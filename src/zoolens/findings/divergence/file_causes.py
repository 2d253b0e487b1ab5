"""Why the exact answers of two files differ: other inputs, other weights, another structure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from zoolens.base.phrases import first_few
from zoolens.base.verdicts import Outcome
from zoolens.findings.divergence.alignment import EQUAL, Aligned, aligned_by_name, as_file
from zoolens.findings.divergence.compression import rounded_weights
from zoolens.findings.divergence.divergence_causes import Cause, Kind, Proof, label_of
from zoolens.findings.divergence.evaluation import exact_values, grids_of
from zoolens.findings.divergence.examined import (
    Exact,
    ExaminedInput,
    exact_output,
    relative_difference,
)
from zoolens.findings.divergence.exchange import Exchange
from zoolens.findings.divergence.file_differences import FileDifference, common_rounding, differences
from zoolens.findings.divergence.holes import sinks_of
from zoolens.findings.divergence.input_causes import fed_to, inputs_differ, preprocessing
from zoolens.findings.divergence.sides import Side
from zoolens.findings.divergence.weight_causes import other_weights, quantised
from zoolens.findings.graph.diff.diff_causes import CONNECTIONS
from zoolens.findings.graph.diff.phrases import plural
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.ir.file_operators import is_file_operator
from zoolens.findings.graph.ir.model import Graph

_LISTED: Final = 5  # differences that are named one by one
_ALSO: Final = 3  # places that differ without moving an answer, which are named
_UNPAIRED: Final = ("missing", "extra")


def causes_of_files(
    a: Side, b: Side, graphs: Aligned, examined: Sequence[ExaminedInput], exacts: Mapping[int, Exact]
) -> list[Cause]:
    """Why the exact answers differ: other inputs, other weights, another structure. They are looked for on the worst
    input; one place of the files alone is the cause only if it is on every examined input."""
    exact = exacts[examined[0].index]
    before = relative_difference(exact.outputs[1], exact.outputs[0])
    if exact.same_scores or (not before and not sinks_of(graphs.b)):
        return []
    if not before > exact.file_floor:
        return _below_rounding(a, b, graphs, examined, exacts)
    ours = fed_to(b, graphs, exact.inputs[0])
    by_input = ours is not None and inputs_differ(exact.inputs, graphs)
    swapped = exact.outputs[1]  # what B's file answers to A's input
    if ours is not None and by_input:
        swapped = exact_output(graphs.b, b.output, ours)
    definition = relative_difference(swapped, exact.outputs[0])
    causes: list[Cause] = []
    if by_input and definition < before:
        proof = Proof("B's file given the input tensor of A", before, definition, exact.file_floor)
        if proof.holds or relative_difference(exact.outputs[1], swapped) > exact.file_floor:
            causes.append(replace(preprocessing(a, b, exact.inputs, graphs), proof=proof))
        if proof.holds:
            return causes
    target = swapped if causes else exact.outputs[1]
    others: list[Exact] = []
    if not by_input and exact.scores is None:
        others = [exacts[example.index] for example in examined[1:]]
    definitions = _definitions(Exchange(a, b, graphs, exact, target, others))
    if not by_input and not all(cause.proved for cause in definitions):
        definitions = _by_names(a, b, examined, exacts) or definitions
    return [*(_together(cause, definitions) for cause in causes), *definitions]


def _below_rounding(
    a: Side, b: Side, graphs: Aligned, examined: Sequence[ExaminedInput], exacts: Mapping[int, Exact]
) -> list[Cause]:
    """What the files say differently where it moves the answer by less than rounding may. Exact answers are not
    rounded, so that a changed weight is found and proved all the same; only what is proved is said."""
    exact = exacts[examined[0].index]
    if graphs.a is graphs.b or exact.scores is not None or inputs_differ(exact.inputs, graphs):
        return []
    others = [exacts[example.index] for example in examined[1:]]
    causes = _definitions(Exchange(a, b, graphs, exact, exact.outputs[1], others))
    return causes if all(cause.proved for cause in causes) else []


def _by_names(a: Side, b: Side, examined: Sequence[ExaminedInput], exacts: Mapping[int, Exact]) -> list[Cause]:
    """The causes found in the graphs as the files have them, if nodes have the same names: then it is known what is
    connected to what. Nothing where that proves nothing either."""
    if a.raw is None or b.raw is None or a.borrowed or b.borrowed:
        return []
    graphs = aligned_by_name(a.raw, b.raw)
    if graphs is None or _other_widths(graphs):
        return []
    if any(grids_of(side.graph) for side in (a, b) if side.graph is not None):
        return []
    a = replace(a, graph=as_file(graphs.a))
    b = replace(b, graph=as_file(graphs.b))
    worst, *others = (_in_file_axes(a, b, example, exacts[example.index]) for example in examined)
    causes = _definitions(Exchange(a, b, graphs, worst, worst.outputs[1], others))
    return causes if all(cause.proved for cause in causes) else []


def _other_widths(graphs: Aligned) -> bool:
    """Whether tensors of one place have other shapes: then all that is behind them would be exchanged, too, and the
    proof would say nothing."""
    for pair in graphs.pairs:
        theirs = graphs.b.by_name[pair.b]
        for ours in graphs.a.by_name[pair.a].parameters:
            partner = theirs.parameter(ours.role)
            if partner is not None and partner.shape != ours.shape:
                return True
    return False


def _in_file_axes(a: Side, b: Side, example: ExaminedInput, exact: Exact) -> Exact:
    assert a.graph is not None
    assert b.graph is not None
    inputs = a.real_inputs(example.feeds[0]), b.real_inputs(example.feeds[1])
    output_a = exact_output(a.graph, a.output, inputs[0])
    output_b = exact_output(b.graph, b.output, inputs[1])
    return replace(exact, inputs=inputs, outputs=(output_a, output_b), scores=None)


def _together(preprocessing: Cause, definitions: Sequence[Cause]) -> Cause:
    """The cause in the inputs where the files differ too: proved if both together remove the difference."""
    proofs = [cause.proof for cause in definitions if cause.proof is not None]
    if preprocessing.proof is None or not proofs or not all(proof.holds for proof in proofs):
        return preprocessing
    words = f"{preprocessing.proof.words}, and what the files say differently exchanged too"
    return replace(preprocessing, proof=replace(preprocessing.proof, words=words, after=proofs[0].after))


def not_finite_in_files(
    sides: Sequence[Side], examined: Sequence[ExaminedInput], exacts: Mapping[int, Exact]
) -> list[str]:
    """The first layer that gives numbers that are not finite by what the file says, where its exact answer has some."""
    remarks = []
    for place, side in enumerate(sides):
        for example in examined:
            if side.borrowed or np.isfinite(exacts[example.index].outputs[place]).all():
                continue
            assert side.graph is not None
            exact = exacts[example.index]
            broken = np.isnan if np.isnan(exact.outputs[place]).any() else np.isinf  # infinities alone may be a mask
            values = exact_values(side.graph, exact.inputs[place])
            node = next(node for node, value in values if broken(value).any())
            where = "the input tensor itself" if node.op == "input" else label_of(side.graph, node.name)
            remarks.append(
                f"{side.label}: exact arithmetic does not give finite numbers either: {where} is the first place with "
                "numbers that are not finite, by what the file says."
            )
            break
    return remarks


def _definitions(exchange: Exchange) -> list[Cause]:
    """What the files say differently: one place that explains all, or what all places together are."""
    graphs = exchange.graphs
    unpaired = () if graphs.named else _UNPAIRED  # by name, what only one file has is a consequence of connections
    every = [
        difference
        for difference in differences(graphs, exchange.inputs)
        if difference.kind in unpaired or (difference.kind not in _UNPAIRED and difference.effect > EQUAL)
    ]
    if not every and any(difference.cause == CONNECTIONS for difference in diff(graphs.a, graphs.b).differences):
        return [_other_structure(graphs, "connections of layers cannot be exchanged one by one")]
    if not every:
        words = "The exact answers of the two files differ, but nothing in the files was found to"
        return [Cause(Kind.UNEXPLAINED, words)]
    for difference in every[:_LISTED]:
        place = [other for other in every if other is difference or _same_operator(graphs, other, difference)]
        proof = exchange.proof(place)
        if proof.holds and exchange.holds_elsewhere(place):
            return [_definition(graphs, difference, proof, _also(graphs, every, place))]
    proof = exchange.proof(every)
    kinds = {difference.kind for difference in every}
    if "quantisation" in kinds and kinds <= {"quantisation", "weights"}:
        return [quantised(exchange, every, proof)]
    learned = _learned_layers(graphs)
    # A table of constants, such as the rotations of positions, is no weight that a type may have rounded.
    weights = [
        difference for difference in every if difference.kind == "weights" and not _is_constant(graphs, difference)
    ]
    rest = [difference for difference in every if difference not in weights]
    rounding = common_rounding(weights) if len(weights) > 1 else None
    many = (not rest and rounding is not None) or len(weights) > _LISTED or 2 < len(weights) == learned
    many = many and not any(difference.kind in _UNPAIRED for difference in rest)
    # Exchanging places proves nothing where a converter has arranged layers anew.
    halved = None if many and proof.holds else rounded_weights(exchange.a, exchange.b, exchange.exact, every)
    if halved is not None:
        return [halved]
    if many:
        together = other_weights(exchange, every, weights, learned, proof, rounding)
        return [*_listed(graphs, rest, proof), together]
    if math.isinf(proof.after):
        return [_other_structure(graphs)]
    return _listed(graphs, every, proof)


def _learned_layers(graphs: Aligned) -> int:
    """How many layers of A have weights. Tables of constants are none."""
    nodes = [graphs.a.by_name[pair.a] for pair in graphs.pairs]
    return sum(bool(node.parameters) and node.op != "constant" for node in nodes)


def _listed(graphs: Aligned, every: Sequence[FileDifference], proof: Proof) -> list[Cause]:
    """One cause for each place; for places that repeat from block to block, such as the tables of rotations, one for
    all."""
    alike: dict[tuple[str, str], list[FileDifference]] = {}
    for difference in every:
        alike.setdefault(_alike(graphs, difference), []).append(difference)
    causes = []
    for places in list(alike.values())[:_LISTED]:
        also = f", and so in {plural(len(places) - 1, 'more place')}" if len(places) > 1 else ""
        causes.append(_definition(graphs, places[0], proof, also))
    if len(alike) <= _LISTED:
        return causes
    more = sum(len(places) for places in list(alike.values())[_LISTED:])
    return [*causes[:-1], replace(causes[-1], words=f"{causes[-1].words}; {more} more places differ")]


def _alike(graphs: Aligned, difference: FileDifference) -> tuple[str, str]:
    graph, name = _place_of(graphs, difference)
    if _is_constant(graphs, difference):
        # Importers number the tables of a network through: constant110 in one block, constant226 in the next.
        label = re.sub(r"\d+", "*", label_of(graph, name))
        return f"{label} {graph.by_name[name].shape}", difference.words
    if difference.kind == "attribute":
        return graph.by_name[name].op, difference.words
    return name, difference.words


def _is_constant(graphs: Aligned, difference: FileDifference) -> bool:
    return difference.a is not None and graphs.a.by_name[difference.a].op == "constant"


def _same_operator(graphs: Aligned, one: FileDifference, other: FileDifference) -> bool:
    """Whether two differences are in outputs of one operator of the file, such as the states and the last state."""
    if one.a is None or other.a is None:
        return False
    first, second = graphs.a.by_name[one.a], graphs.a.by_name[other.a]
    return is_file_operator(first) and bool(first.source) and first.source == second.source


def _also(graphs: Aligned, every: Sequence[FileDifference], place: Sequence[FileDifference]) -> str:
    """Other places that differ, which moved no examined answer beyond rounding."""
    names = [_place_of(graphs, difference) for difference in every if difference not in place]
    if not names:
        return ""
    shown = first_few([label_of(graph, name) for graph, name in names], _ALSO)
    return f"; they also differ in {shown}, which moves none of the examined answers beyond rounding"


def _place_of(graphs: Aligned, difference: FileDifference) -> tuple[Graph, str]:
    graph, name = (graphs.a, difference.a) if difference.a is not None else (graphs.b, difference.b)
    assert name is not None
    if difference.kind != "connections":
        return graph, name
    # The layer that was left out, rather than the one that it fed.
    lost = [given for given in graph.by_name[name].inputs if given in graphs.only_a]
    return graph, next(iter(lost), name)


def _definition(graphs: Aligned, difference: FileDifference, proof: Proof, also: str = "") -> Cause:
    graph, name = _place_of(graphs, difference)
    label = label_of(graph, name)
    kind = Kind.WEIGHTS if difference.kind == "weights" else Kind.STRUCTURE
    in_b = ""
    if _is_constant(graphs, difference) and difference.b is not None:
        other = graphs.b.by_name[difference.b]
        in_b = f", in B {other.source or other.name}"
    return Cause(kind, f"The files differ in {label}{in_b}: {difference.words}{also}", None, name, label, proof)


def _other_structure(
    graphs: Aligned, why: str = "their parts do not fit into each other, so that none was exchanged"
) -> Cause:
    """Two networks of which no part can be exchanged for the other's, so that nothing can be proved by doing it."""
    found = diff(graphs.a, graphs.b, names=("A", "B"))
    different = found.decision.outcome is Outcome.DIFFERENT
    what = "hold networks of different structure" if different else "arrange their layers differently"
    words = f"The files {what} (`zoolens diff` lists it: {found.verdict.rstrip('.')})"
    return Cause(Kind.STRUCTURE if different else Kind.UNEXPLAINED, words, withdrawn=(why,))
