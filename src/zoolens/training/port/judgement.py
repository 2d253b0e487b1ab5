"""The verdict on a port: what proves two networks different, and what was not understood of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from zoolens.base.verdicts import Coverage, Gap, Tally, Verdict, judged
from zoolens.findings.graph.diff.diff_causes import WIRING, LayerFinding
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import OPAQUE
from zoolens.training.pairs.mapping.parameter_map import COMPUTED_TOGETHER, ParameterMap
from zoolens.training.port.agreement import PortAgreement

_LEAVES: Final = frozenset({"input", "parameter", "constant"})
_MASKS: Final = frozenset({"compare", "where", "minimum", "maximum", "reshape", "expand", "constant", "transpose"})
_MORE_INPUTS: Final = "Name a dataset with --data, whose samples are then the inputs."


def check_verdict(diff: Diff, map_: ParameterMap, agreement: PortAgreement) -> Verdict:
    """The verdict on two networks: their structure, their tensors and their answers."""
    coverage = Coverage(
        (_layers(diff), _tensors(map_), _inputs(agreement)),
        (
            *_unknown_layers(diff),
            *_written_out(diff),
            *_masks(diff),
            *_unmoved(map_),
            *answer_gaps(agreement),
            *branch_gaps(diff, agreement),
        ),
    )
    return judged(coverage, different=_differ(diff, map_, agreement))


def moved_verdict(map_: ParameterMap, agreement: PortAgreement) -> Verdict:
    """The verdict on moved weights: whether B answers as A does, with all that A has learned."""
    coverage = Coverage(
        (_tensors(map_), _inputs(agreement)), (*_unmoved(map_), *answer_gaps(agreement), *agreement.branches)
    )
    return judged(coverage, different=answers_differ(map_, agreement))


def _differ(diff: Diff, map_: ParameterMap, agreement: PortAgreement) -> bool:
    if agreement.forms or any(_proves(difference, diff) for difference in diff.differences):
        return True
    if any(border.agree is False for border in agreement.borders):
        return True
    return answers_differ(map_, agreement)


def answers_differ(map_: ParameterMap, agreement: PortAgreement) -> bool:
    """Whether the answers prove a difference: with weights that are not the same they prove none. Where the same input
    gets several answers on one side and one on the other, no answer of A can be that of B."""
    if len(agreement.random) == 1:
        return True
    return agreement.agree is False and map_.lossless


def _proves(difference: Difference, diff: Diff) -> bool:
    """Whether a difference of structure makes two networks different. Values that are arranged otherwise do not by
    themselves: the answers tell. Nor does a layer that only one side shows, where the other has an unknown one."""
    if difference.cause == WIRING or _is_of_masks(difference, diff) or any(_written_out(diff)):
        return False
    if not difference.findings:
        return not any(node.op in OPAQUE for graph in (diff.a, diff.b) for node in graph)
    return any(_is_known(finding, diff) for finding in difference.findings)


def _is_known(finding: LayerFinding, diff: Diff) -> bool:
    a, b = finding.pair.a, finding.pair.b
    if a is not None and b is not None:
        return a.node.op not in OPAQUE and b.node.op not in OPAQUE
    return not any(node.op in OPAQUE for graph in (diff.a, diff.b) for node in graph)


def _is_of_masks(difference: Difference, diff: Diff) -> bool:
    """Whether a difference lies only in how masks of attention are made."""
    masks = [_mask_makers(graph) for graph in (diff.a, diff.b)]
    nodes = [
        (side, layer.node)
        for finding in difference.findings
        for side, layer in enumerate((finding.pair.a, finding.pair.b))
        if layer is not None
    ]
    return bool(nodes) and all(node.name in masks[side] and node.op in _MASKS for side, node in nodes)


def _mask_makers(graph: Graph) -> set[str]:
    """Nodes of which everything that uses them is a mask of attention."""
    found: set[str] = set()
    for node in reversed(graph.nodes):
        users = graph.consumers[node.name]
        if users and all(_takes_as_mask(user, node.name, found) for user in users):
            found.add(node.name)
    return found


def _takes_as_mask(user: Node, name: str, masks: set[str]) -> bool:
    return user.name in masks or (user.op == "attention" and name in user.inputs[3:])


def _layers(diff: Diff) -> Tally:
    layers = [node for graph in (diff.a, diff.b) for node in graph if node.op not in _LEAVES]
    return Tally("layers", sum(node.op not in OPAQUE for node in layers), len(layers))


def _tensors(map_: ParameterMap) -> Tally:
    moved = {("A", move.a.tensor) for move in map_.moves} | {("B", move.b.tensor) for move in map_.moves}
    moved |= {("A", fold.bias.tensor) for fold in map_.folds} | {("A", each.bias.tensor) for each in map_.sums}
    moved |= {(letter, name) for letter, names in zip("AB", map_.unused, strict=True) for name in names}
    alone = {("A", tensor.tensor) for tensor in map_.only_a} | {("B", tensor.tensor) for tensor in map_.only_b}
    neutral = {("B", tensor.tensor) for tensor in map_.only_b if tensor.neutral is not None}
    return Tally("tensors", len((moved - alone) | neutral), len(moved | alone))


def _inputs(agreement: PortAgreement) -> Tally:
    judged_ = 0 if agreement.agree is None else agreement.inputs
    return Tally("inputs", judged_, agreement.inputs)


def _unknown_layers(diff: Diff) -> Iterator[Gap]:
    remedy = "What an unknown layer answers was compared on a few inputs only; write it with layers that are known."
    for letter, graph in (("A", diff.a), ("B", diff.b)):
        for node in graph:
            if node.op in OPAQUE and node.op != "output_of":
                name = node.get("source_op") or node.op
                yield Gap(f"layer {node.source or node.name} of {letter} ({name})", 1, remedy)


def _masks(diff: Diff) -> Iterator[Gap]:
    if any(_is_of_masks(difference, diff) for difference in diff.differences):
        yield Gap("masks of attention that are made in another way", 1, _MORE_INPUTS)


def _written_out(diff: Diff) -> Iterator[Gap]:
    """Steps that may be those of a recurrent layer: one side has such layers, and the other has none and uses a kernel
    several times. A loop in its code looks like that, and may compute the same."""
    graphs = {"A": diff.a, "B": diff.b}
    recurrent = {letter for letter, graph in graphs.items() if any(node.op == "recurrent_layer" for node in graph)}
    if len(recurrent) != 1:
        return
    letter = "B" if "A" in recurrent else "A"
    kernels = Counter(
        tensor.key for node in graphs[letter] for tensor in node.parameters if tensor.role == "kernel" and tensor.key
    )
    if max(kernels.values(), default=0) > 1:
        what = f"the steps of {letter}, which may be a recurrent layer that its code writes out"
        yield Gap(what, 1, "Write them with the framework's recurrent layer.")


def _unmoved(map_: ParameterMap) -> Iterator[Gap]:
    """Tensors of which it is not known where they belong."""
    remedy = "Say what belongs together with --map NAME_IN_A=NAME_IN_B."
    for letter, tensors in (("A", map_.only_a), ("B", map_.only_b)):
        for tensor in tensors:
            if tensor.why == COMPUTED_TOGETHER:
                yield Gap(f"tensor {tensor.tensor} of {letter}, which was not moved", 1, remedy)


def answer_gaps(agreement: PortAgreement) -> Iterator[Gap]:
    """Why the answers tell nothing, where they do not."""
    if len(agreement.random) > 1:
        yield Gap("answers that change although the input does not", 1, "Switch off what is random in evaluation.")
    elif agreement.why == "not finite":
        yield Gap("answers that are not finite on both sides", 1, "Give it weights and inputs with finite answers.")
    elif agreement.agree is None and not agreement.random:
        what = f"answers that rounding alone moves by up to {agreement.floor:.1e}"
        yield Gap(what, 1, "Compare in float32, or with trained weights.")


def branch_gaps(diff: Diff, agreement: PortAgreement) -> Sequence[Gap]:
    """Branches that no input took, and numbers that leave torch where only zeros were followed."""
    leaving = [
        Gap(
            f"what {letter} computes from numbers that leave torch in its own forward",
            1,
            "Put that part into a module of its own.",
        )
        for letter, graph in (("A", diff.a), ("B", diff.b))
        if graph.facts.get("leaves_torch")
    ]
    return (*leaving, *agreement.branches)
