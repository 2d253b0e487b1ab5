"""The gap between the costs of two networks, split over the causes; the shares add up to the gap exactly.

A layer without a partner is booked whole on its cause. Of two aligned layers, the ratio of costs is a product of
factors (resolution × output width × input width ÷ groups × kernel area), so its logarithm is a sum; the logarithmic
mean of the two costs turns each summand into multiply-accumulates (LMDI, the additive split without a remainder that
does not depend on the order of the factors). The factors that a layer does not set itself, its resolution and its
input width, are booked where they come from: every value carries the causes of its resolution and width with it.
What is left by rounding of extents goes to the cause that is already there; whole numbers by largest remainder.
What no cause explains is the input size's where that differs (a table of positions has a row for every token), else
the order of blocks' (the same block is given more channels elsewhere).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import floor, log
from typing import Final

from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.diff.alignment import Alignment, LayerPair
from zoolens.findings.graph.diff.diff_causes import INPUT_SIZE, ORDER, TABLE
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.diff.extent_origins import NOBODY, Logs, combined, kernel_factors, origins, owner_of
from zoolens.findings.graph.ir.model import Graph, Node

INTERPLAY = "interplay"  # costs that no single difference explains
_COST_ASPECTS: Final = ("spatial", "kernel", "width", "groups")


def with_shares(differences: Sequence[Difference], alignment: Alignment, a: Graph, b: Graph) -> list[Difference]:
    """Give every difference its share of the cost, and add one for the cost that none of them explains."""
    books = Books(differences, alignment, a, b)
    _give_rest(books, differences)
    macs = _whole_numbers(books.macs, len(differences))
    parameters = _whole_numbers(books.parameters, len(differences))
    numbered = enumerate(differences)
    shared = [replace(each, macs=macs[number], parameters=parameters[number]) for number, each in numbered]
    left = Difference(INTERPLAY, (), macs=macs[NOBODY], parameters=parameters[NOBODY])
    return [*shared, left] if left.macs or left.parameters else shared


def _give_rest(books: Books, differences: Sequence[Difference]) -> None:
    """Books what nobody explains on the input size, else on the order of blocks, else on a table of further tokens:
    each of them changes what equal layers are given."""
    causes = [difference.cause for difference in differences]
    heir = next((cause for cause in (INPUT_SIZE, ORDER, TABLE) if cause in causes), None)
    if heir is None:
        return
    for sums in (books.macs, books.parameters):
        _add(sums, {causes.index(heir): sums.pop(NOBODY, 0.0)})


class Books:
    """Sums per difference, filled pair by pair."""

    def __init__(self, differences: Sequence[Difference], alignment: Alignment, a: Graph, b: Graph) -> None:
        self.owner = _owners(differences)
        self.macs: Logs = {}
        self.parameters: Logs = {}
        self.cost_a = {layer.name: layer.macs for layer in cost(a).layers}
        self.cost_b = {layer.name: layer.macs for layer in cost(b).layers}
        self.learned_a, self.learned_b = _learned_once(a), _learned_once(b)
        self.origins = origins(alignment, a, b, self.owner)
        for pair in alignment.pairs:
            self._book(pair)

    def _book(self, pair: LayerPair) -> None:
        if pair.a and pair.b:
            self._book_two(pair, pair.a.node, pair.b.node)
            return
        whole = self.owner.get(pair.names, {}).get("whole", NOBODY)
        if pair.a:
            name = pair.a.node.name
            _add(self.macs, {whole: -float(self.cost_a[name])})
            _add(self.parameters, {whole: -float(sum(self.learned_a[name].values()))})
        elif pair.b:
            name = pair.b.node.name
            _add(self.macs, {whole: float(self.cost_b[name])})
            _add(self.parameters, {whole: float(sum(self.learned_b[name].values()))})

    def _book_two(self, pair: LayerPair, a: Node, b: Node) -> None:
        cost_a = self.cost_a[a.name]
        cost_b = self.cost_b[b.name]
        own = self.owner.get(pair.names, {})
        kernel = kernel_factors(a, b, own, self.origins)
        spatial = self.origins.spatial_b.get(b.name, {})
        _add(self.macs, split(cost_a, cost_b, combined([kernel, spatial]), own))
        width = self.origins.width_b.get(b.name, {})
        sizes_a = self.learned_a[a.name]
        sizes_b = self.learned_b[b.name]
        for role in dict.fromkeys((*sizes_a, *sizes_b)):
            sizes = sizes_a.get(role, 0), sizes_b.get(role, 0)
            _add(self.parameters, _role_split(role, *sizes, kernel, width, own))


def _role_split(role: str, size_a: int, size_b: int, kernel: Logs, width: Logs, own: Mapping[str, int]) -> Logs:
    if "sharing" in own and not (size_a and size_b):
        return {own["sharing"]: float(size_b - size_a)}
    if role == "kernel":
        return split(size_a, size_b, kernel, own)
    if size_a and size_b:
        return split(size_a, size_b, width, own)
    aspect = "norm" if role.startswith("norm_") or role in ("scale", "shift") else "bias"
    return {own.get(aspect, NOBODY): float(size_b - size_a)}


def split(cost_a: float, cost_b: float, logs: Logs, own: Mapping[str, int]) -> Logs:
    """Splits the difference of two costs over the causes: each logarithm times the logarithmic mean. What logarithms
    leave open is booked, never lost."""
    if not cost_a or not cost_b:
        if cost_b - cost_a:
            return {owner_of(_COST_ASPECTS, own, NOBODY): float(cost_b - cost_a)}
        return {}
    total = log(cost_b / cost_a)
    mean = (cost_b - cost_a) / total if cost_b != cost_a else float(cost_a)
    open_ = total - sum(logs.values())
    if abs(open_) > 1e-9:
        strongest = max(logs, key=lambda key: abs(logs[key]), default=NOBODY)
        logs = combined([logs, {owner_of(_COST_ASPECTS, own, strongest): open_}])
    return {key: mean * value for key, value in logs.items()}


def _owners(differences: Iterable[Difference]) -> dict[tuple[str | None, str | None], dict[str, int]]:
    """For each pair, which difference explains which aspect of it."""
    owners: dict[tuple[str | None, str | None], dict[str, int]] = {}
    for number, difference in enumerate(differences):
        for finding in difference.findings:
            if finding.aspect:
                owners.setdefault(finding.pair.names, {}).setdefault(finding.aspect, number)
    return owners


def _learned_once(graph: Graph) -> dict[str, dict[str, int]]:
    """Learned numbers of each node by role; a tensor that several share belongs to the first."""
    sizes: dict[str, dict[str, int]] = {node.name: {} for node in graph}
    for node, learned in graph.learned_tensors():
        roles = sizes[node.name]
        roles[learned.role] = roles.get(learned.role, 0) + learned.size
    return sizes


def _add(total: Logs, more: Logs) -> None:
    for key, value in more.items():
        total[key] = total.get(key, 0.0) + value


def _whole_numbers(sums: Logs, count: int) -> dict[int, int]:
    """Rounded so that the total stays what it is: the largest remainders are rounded up."""
    keys = [*range(count), NOBODY]
    exact = {key: sums.get(key, 0.0) for key in keys}
    rounded = {key: floor(exact[key] + 1e-6) for key in keys}
    missing = round(sum(exact.values())) - sum(rounded.values())
    for key in sorted(keys, key=lambda k: rounded[k] - exact[k])[:missing]:
        rounded[key] += 1
    return rounded
