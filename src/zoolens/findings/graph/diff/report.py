"""`diff`: two canonical graphs in, everything that can be said about how they differ out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from zoolens.base.present.results import Result, frame
from zoolens.base.verdicts import Coverage, Gap, Outcome, Tally, Verdict, judged
from zoolens.base.verdicts.coverage import merged
from zoolens.findings.graph.cost.cost import Cost, cost
from zoolens.findings.graph.cost.held_parameters import HeldParameters, held_parameters
from zoolens.findings.graph.diff import settings
from zoolens.findings.graph.diff.activation_proofs import implied_gaps, proved_activations, without_extra
from zoolens.findings.graph.diff.alignment import Alignment, align
from zoolens.findings.graph.diff.cost_shares import INTERPLAY, with_shares
from zoolens.findings.graph.diff.diff_causes import CONSTANTS, NORM, NORM_PLACEMENT, WIRING
from zoolens.findings.graph.diff.diff_findings import Difference, differences
from zoolens.findings.graph.diff.equivalent_forms import FORMS, Form, left_aside
from zoolens.findings.graph.diff.foldable_norms import could_be_folded, prepares_input
from zoolens.findings.graph.diff.other_batches import batch_gaps
from zoolens.findings.graph.diff.place_names import place_of
from zoolens.findings.graph.diff.proved_differences import beside_batches, beside_gaps, proved
from zoolens.findings.graph.diff.sentences import sentence
from zoolens.findings.graph.diff.unknown_numbers import beside_unknown_numbers, unknown_masks, unknown_numbers
from zoolens.findings.graph.diff.unrolled_recurrence import unrolled_gaps
from zoolens.findings.graph.diff.verdict import form_words, has_shares, verdict
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.vocabulary import NO_LAYERS, NORMS
from zoolens.findings.graph.passes.folded_norms import folded_norms, scales_layer
from zoolens.findings.graph.passes.lifted_sequences import has_sequences, lift_sequences
from zoolens.findings.graph.passes.stored_values import stored_values
from zoolens.findings.graph.passes.without_norms import norm_blind as without_norms

_RUN_BOTH: Final = "`zoolens diverge` runs both on the same inputs and compares their layers."


@dataclass(frozen=True, repr=False)
class Diff(Result):
    """How two networks differ. `differences` come with the largest share of the cost gap first; costs are those of the
    networks as they are, and lower bounds where operators are not understood."""

    names: tuple[str, str]
    a: Graph
    b: Graph
    cost_a: Cost
    cost_b: Cost
    alignment: Alignment
    differences: tuple[Difference, ...]
    unproved: tuple[Difference, ...] = ()  # beside operators that are not understood, which may be the same layers
    norm_blind: str = ""  # the side without norms, if one has none and the other does: norms were then left out
    scaled: str = ""  # the side that multiplies layers with a number, which the other has in its weights
    folded: str = ""  # the side whose norms are folded where they can be: both were then compared with folded norms
    forms: tuple[str, ...] = ()  # other forms of both networks in which they were compared, in words
    gaps: tuple[Gap, ...] = ()  # what is not understood of the two networks together
    one_file: bool = False  # both sides are files of the same content, so that nothing in them needs to be understood
    stored: str = ""  # the side that stores what the other computes from weights alone: compared as stored
    held: tuple[HeldParameters | None, HeldParameters | None] = (
        None,
        None,
    )  # where a source holds more parameters than are used

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each cause, the largest share of the cost gap first. Causes that
        are not proved come last. MACs and parameters are missing where a cost is only a lower bound."""
        rows = [{"proved": True, **self._difference(one)} for one in self.differences]
        rows += [{"proved": False, **self._difference(one)} for one in self.unproved]
        return frame(rows, "Diff.frame")

    @property
    def coverage(self) -> Coverage:
        """How much of both networks was understood."""
        if self.one_file:
            return Coverage((Tally("files", 2, 2),))
        sides = self.cost_a.coverage_of(self.names[0]), self.cost_b.coverage_of(self.names[1])
        return merged((*sides, Coverage((), (*self.gaps, *self._arrangement_gap))))

    @property
    def rearranged(self) -> bool:
        """Whether all that differs is how values are arranged between layers. Reshapes and transpositions in another
        order may compute the same: that proves neither the same network nor another one."""
        # A faithful copy of Swin by onnxslim 0.1.98 was called another network before this was its own outcome.
        return bool(self.differences) and all(difference.cause == WIRING for difference in self.differences)

    @property
    def _arrangement_gap(self) -> tuple[Gap, ...]:
        if not self.rearranged:
            return ()
        places = sum(len(difference.findings) for difference in self.differences)
        return (Gap("arrangement of values that was not compared", places, _RUN_BOTH),)

    @property
    def decision(self) -> Verdict:
        """Same, different or not known, with the coverage that this rests on."""
        return judged(self.coverage, different=bool(self.differences) and not self.rearranged)

    @property
    def same(self) -> bool:
        return self.decision.outcome is Outcome.SAME

    @property
    def same_cost(self) -> bool:
        """Whether all that differs are constants which cost nothing: epsilon, padding side, biases."""
        constant = (difference.cause in CONSTANTS and not difference.macs for difference in self.differences)
        return (self.decision.known or self.rearranged) and not self.unproved and all(constant)

    @property
    def counted_whole(self) -> bool:
        """Whether both costs are totals. Where one is a lower bound, no difference has a share of the gap."""
        return self.cost_a.whole and self.cost_b.whole

    @property
    def has_shares(self) -> bool:
        """Whether the differences have shares in percent: not where they work against each other."""
        return self.counted_whole and has_shares(self.differences, self.macs_gap)

    @property
    def layers(self) -> int:
        """How many layers of the one were compared with their partners in the other."""
        both = (pair.a.node for pair in self.alignment.pairs if pair.a and pair.b)
        return sum(node.op not in NO_LAYERS for node in both)

    @property
    def macs_gap(self) -> int:
        return self.cost_b.macs - self.cost_a.macs

    @property
    def parameters_gap(self) -> int:
        """How many more parameters b has in what was compared: norms and biases do not count where they were left
        out."""
        return self.b.parameters - self.a.parameters

    @property
    def verdict(self) -> str:
        return verdict(
            self.differences,
            self.macs_gap,
            decision=self.decision,
            same_cost=self.same_cost,
            aside=form_words(
                norm_blind=self.norm_blind,
                folded=self.folded,
                scaled=self.scaled,
                forms=self.forms,
                stored=self.stored,
            ),
            unproved=len(self.unproved),
        )

    @property
    def headline(self) -> str:
        """The verdict as a sentence that stands alone; one that finds nothing says how much it looked at."""
        looked = (
            "both are one file"
            if self.one_file
            else f"{self.layers:,} {'layer' if self.layers == 1 else 'layers'} compared"
        )
        compared = f" ({looked})" if self.same else ""
        return f"{self.verdict[0].upper()}{self.verdict[1:].rstrip('.')}{compared}."

    @property
    def by_name(self) -> int:
        """Layers that both have under one name which we do not know: nothing else of them was compared."""
        both = ((pair.a.node, pair.b.node) for pair in self.alignment.pairs if pair.a and pair.b)
        return sum(a.op == "unknown" and settings.operator(a) == settings.operator(b) for a, b in both)

    def as_data(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "same": self.same,
            **self.decision.as_data(),
            "same_cost": self.same_cost,
            "verdict": self.verdict,
            "norm_blind": self.norm_blind or None,
            "folded_norms": self.folded or None,
            "scaled_layers": self.scaled or None,
            "stored_values": self.stored or None,
            "compared_forms": list(self.forms),
            "compared_by_name": self.by_name,
            "layers_compared": self.layers,
            "macs": [self.cost_a.macs, self.cost_b.macs],
            "parameters": [self.cost_a.parameters, self.cost_b.parameters],
            "parameters_held": [held.total if held else None for held in self.held],
            "differences": [self._difference(difference) for difference in self.differences],
            "not_proved": [self._difference(difference) for difference in self.unproved],
            "alignment": [list(pair.names) for pair in self.alignment.pairs],
        }

    def _difference(self, difference: Difference) -> dict[str, Any]:
        return {
            "cause": difference.cause,
            "text": difference.text,
            "macs": difference.macs if self.counted_whole else None,
            "share_of_macs_gap": difference.macs / self.macs_gap if self.has_shares else None,
            "parameters": difference.parameters if self.counted_whole else None,
            "places": [self._place(finding) for finding in difference.findings],
        }

    def _place(self, finding: Any) -> dict[str, Any]:
        place = place_of(finding.pair, self.alignment.rows[finding.row])
        name_a, name_b = finding.pair.names
        return {
            "stage": place.stage,
            "block": place.block or None,
            "path": place.path or None,
            "layer": f"{place.kind} {place.index}",
            "a": name_a,
            "b": name_b,
            "values": list(finding.values),
        }


def diff(a: Graph, b: Graph, *, names: tuple[str, str] = ("a", "b"), exported: bool = True) -> Diff:
    """How two canonical graphs differ, and what their sources hold beside them. `exported`: an exporter may have folded
    norms and numbers into layers, or written them in other forms. Two networks in code are compared as they are: a norm
    that only one side has is a difference."""
    held = (held_parameters(a), held_parameters(b))
    found = _diff(a, b, names, exported)
    return replace(found, held=held, forms=(*found.forms, *left_aside(a, b)))


def _diff(a: Graph, b: Graph, names: tuple[str, str], exported: bool) -> Diff:
    """Compare in the form in which exporters leave a network, if one side has it.

    If one has no norms at all and the other has, norms and biases are left out. If one has folded those that can be
    folded, they are folded in both, unless norms differ all the same. Other forms that compute the same are tried.
    Values that one computes from weights alone and the other stores are compared as stored.
    """
    costs = (cost(a), cost(b))
    a, b = _with_used_inputs(a), _with_used_inputs(b)
    if exported and (has_sequences(a) or has_sequences(b)):
        # TensorFlow convolves over sequences as over maps of height 1, and so do its exports.
        a, b = lift_sequences(a), lift_sequences(b)
    by_norms, forms = (_by_norms, FORMS) if exported else (_compared, ())
    compared = by_norms(a, b, names, costs)
    fewer = None if compared.same else without_extra((a, b), compared.alignment)
    if fewer is not None:
        a, b = fewer
        compared = by_norms(a, b, names, costs)
    compared = _in_nearest_form(compared, a, b, by_norms, forms)
    if compared.same:
        return compared
    kept = stored_values(a), stored_values(b)
    side = _storing_side((a, b), kept)
    if side is None:
        return compared
    stored = _in_nearest_form(by_norms(*kept, names, costs), *kept, by_norms, forms)
    costly = (difference for difference in stored.differences if difference.cause != INTERPLAY or difference.macs)
    gaps = tuple(dict.fromkeys((*stored.gaps, *unknown_masks(a, b, names))))
    stored = replace(stored, differences=tuple(costly), gaps=gaps, stored=names[side])  # what is stored is no weight
    return stored if _is_nearer(stored, compared) else compared


def _in_nearest_form(
    compared: Diff, a: Graph, b: Graph, compare: Callable[..., Diff], forms: Sequence[tuple[str, Form]]
) -> Diff:
    """The diff of both in other forms that compute the same, each taken where it shows fewer differences."""
    for words, form in forms:
        if compared.same:
            return compared
        other = form(a, b)
        if other == (a, b):
            continue
        formed = compare(*other, compared.names, (compared.cost_a, compared.cost_b))
        if _is_nearer(formed, compared):
            (a, b), compared = other, replace(formed, forms=(*compared.forms, words))
    return compared


def _with_used_inputs(graph: Graph) -> Graph:
    """Drops inputs that nothing uses, which exporters leave behind; a network with no other keeps them."""
    idle = {node.name for node in graph.inputs if not graph.consumers[node.name] and node.name not in graph.outputs}
    if not idle or len(idle) == len(graph.inputs):
        return graph
    return replace(graph, nodes=tuple(node for node in graph.nodes if node.name not in idle))


def _by_norms(a: Graph, b: Graph, names: tuple[str, str], costs: tuple[Cost, Cost]) -> Diff:
    blind = _without_norms(a, b, names)
    if blind:
        return _compared(without_norms(a), without_norms(b), names, costs, norm_blind=blind)
    side, ops = _folded_side(a, b)
    if ops:
        scaled = names[1 - side] if ops == {"mul"} else ""
        folded = "" if scaled else names[side]
        compared = _compared(folded_norms(a, ops), folded_norms(b, ops), names, costs, folded=folded)
        compared = replace(compared, scaled=scaled)
        reported = (*compared.differences, *compared.unproved)
        if not any(difference.cause in (NORM, NORM_PLACEMENT) for difference in reported):
            return compared
    return _compared(a, b, names, costs)


def _storing_side(graphs: tuple[Graph, Graph], kept: tuple[Graph, Graph]) -> int | None:
    """The side that computes fewer values from weights alone, or keeps fewer as constants; None where both do as
    many."""
    fixed = []
    for graph, stored in zip(graphs, kept, strict=True):
        computed = len(graph) - len(stored)
        fixed.append(computed + _constants(graph))
    if fixed[0] == fixed[1]:
        return None
    return int(fixed[0] > fixed[1])


def _constants(graph: Graph) -> int:
    """Tensors that an importer could tell from learned ones: they were computed from no weights."""
    return sum(node.op == "constant" and bool(node.parameters) for node in graph)


def _is_nearer(candidate: Diff, other: Diff) -> bool:
    """Whether a form that computes the same shows fewer differences. What is proved in one form only is not proved."""
    if candidate.same or (candidate.same_cost and not other.same_cost):
        return True
    outcomes = [each.decision.outcome for each in (candidate, other)]
    if Outcome.DIFFERENT in outcomes and outcomes[0] is not outcomes[1]:
        return outcomes[1] is Outcome.DIFFERENT
    found = [len(each.differences) + len(each.unproved) for each in (candidate, other)]
    return found[0] < found[1]


def _compared(
    a: Graph, b: Graph, names: tuple[str, str], costs: tuple[Cost, Cost], *, norm_blind: str = "", folded: str = ""
) -> Diff:
    alignment = align(a, b)
    found, open_ = proved(proved_activations(differences(alignment, a, b)), a, b)
    unrolled = unrolled_gaps(a, b, names)
    batches = batch_gaps(a, b, names)
    numbers = unknown_numbers(a, b, names)
    if unrolled:
        found, open_ = beside_gaps(found, open_)
    if batches:
        found, open_ = beside_batches(found, open_)
    if numbers:
        found, open_ = beside_unknown_numbers(found, open_, a, b)
    if all(each.whole for each in costs) and not (unrolled or batches or numbers):
        found = with_shares(found, alignment, a, b)
    worded, unproved = (
        [replace(difference, text=sentence(difference, alignment, names, len(part))) for difference in part]
        for part in (found, open_)
    )
    ranked = tuple(sorted(worded, key=_rank))
    gaps = (*unrolled, *batches, *numbers, *implied_gaps(alignment))
    return Diff(
        names, a, b, *costs, alignment, ranked, tuple(unproved), norm_blind=norm_blind, folded=folded, gaps=gaps
    )


def _rank(difference: Difference) -> tuple[bool, int, bool, int]:
    """The largest share of the cost gap comes first, what nobody explains last."""
    cause = difference.cause
    return cause == INTERPLAY, -abs(difference.macs), cause in CONSTANTS, -abs(difference.parameters)


def _without_norms(a: Graph, b: Graph, names: tuple[str, str]) -> str:
    """The side without norms, where an exporter may have folded them; "" otherwise. Whether they were folded or never
    there (VGG-16 and VGG-16 with batch norm) cannot be told from the structure."""
    if has_norms(a) == has_norms(b):
        return ""
    normed, plain, name = (b, a, names[0]) if has_norms(b) else (a, b, names[1])
    return name if could_be_folded(normed, plain) else ""


def _folded_side(a: Graph, b: Graph) -> tuple[int, frozenset[str]]:
    """Which side lacks the norms of some kind of layer altogether, and of which kinds; or, where both have those, which
    has fewer scales behind layers."""
    kinds = tuple(_with_batch_norm(graph) for graph in (a, b))
    scales = tuple(_scales(graph) for graph in (a, b))
    for side in (1, 0):
        lacking = kinds[1 - side] - kinds[side]
        if lacking and not kinds[side] - kinds[1 - side]:
            return side, frozenset(lacking)
    for side in (1, 0):
        fewer = scales[1 - side] - scales[side]
        if fewer and not scales[side] - scales[1 - side]:
            return side, frozenset(fewer)
    return 0, frozenset()


def _scales(graph: Graph) -> Counter[str]:
    """How many layers of each kind have a scale behind them; "mul" where it is one number."""
    kinds = Counter(node.op for node in graph if settings.normed(node) == "affine")
    muls = (node for node in graph if node.op == "mul" and graph.sole_consumer(node.inputs[0]) is node)
    kinds["mul"] = sum(scales_layer(node, graph.by_name[node.inputs[0]]) for node in muls)
    return kinds


def _with_batch_norm(graph: Graph) -> set[str]:
    """The kinds of layers with a batch norm of their own; "batch_norm" where one stands by itself."""
    return {
        node.op
        for node in graph
        if settings.normed(node) == "batch" or (node.op == "batch_norm" and not prepares_input(node, graph))
    }


def has_norms(graph: Graph) -> bool:
    return any(settings.normed(node) or (node.op in NORMS and node.op != "affine") for node in graph)
