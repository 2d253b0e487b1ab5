"""Where the resolution and the width of every value come from, as logarithms of the ratio b ÷ a by difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import log, prod

from zoolens.findings.graph.diff import settings
from zoolens.findings.graph.diff.alignment import Alignment, LayerPair
from zoolens.findings.graph.diff.similarity import channels
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import VIEWS
from zoolens.findings.graph.outline.blocks import LEARNED, is_depthwise, resolution

Logs = dict[int, float]  # number of a difference -> its part of a logarithm; -1: nobody's
Owners = Mapping[tuple[str | None, str | None], Mapping[str, int]]
NOBODY = -1
NEGLIGIBLE = 1e-12
EVEN_OUT = 1e-9
# In another arrangement extents are not what they were; the causes are propagated as they came.
PASSING = (VIEWS - {"flatten"}) | {"attention", "matmul", "softmax"}
SPATIAL_ASPECTS = ("spatial", "kernel", "whole")


@dataclass(frozen=True)
class Origins:
    """The causes of the resolution and of the width of every value, by its name on each side; matched values have the
    same on both."""

    spatial_a: dict[str, Logs] = field(default_factory=dict)
    spatial_b: dict[str, Logs] = field(default_factory=dict)
    width_a: dict[str, Logs] = field(default_factory=dict)
    width_b: dict[str, Logs] = field(default_factory=dict)


def combined(parts: Iterable[Mapping[int, float]]) -> Logs:
    total: Logs = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0.0) + value
    return {key: value for key, value in total.items() if abs(value) > NEGLIGIBLE}


@dataclass(frozen=True)
class _Compared:
    """Two graphs with the layers that are aligned, and the difference that owns each."""

    a: Graph
    b: Graph
    alignment: Alignment
    owners: Owners


def origins(alignment: Alignment, a: Graph, b: Graph, owners: Owners) -> Origins:
    """Trace every difference of extents back to the difference of layers that causes it."""
    known = Origins()
    compared = _Compared(a, b, alignment, owners)
    for pair in alignment.pairs:
        own = owners.get(pair.names, {})
        if pair.a and pair.b:
            _both(pair.a.node, pair.b.node, own, compared, known)
        else:
            _alone(pair, own, a if pair.a else b, known)
    return known


def _both(a: Node, b: Node, own: Mapping[str, int], compared: _Compared, known: Origins) -> None:
    first_a = _main_input(a, compared.a)
    first_b = _main_input(b, compared.b)
    spatial = _merged(known.spatial_a.get(first_a, {}), known.spatial_b.get(first_b, {}))
    width = _merged(known.width_a.get(first_a, {}), known.width_b.get(first_b, {}))
    if a.op == "flatten" and b.op == "flatten":
        width = combined([width, spatial])
        spatial = {}
    elif a.op == "concat" and b.op == "concat":
        width = _concatenated(a, b, compared, known)
    elif a.op in LEARNED and not (is_depthwise(a) and is_depthwise(b)):
        width = {}
    if a.op not in PASSING or b.op not in PASSING:
        spatial, width = _settled(a, b, spatial, width, own)
    known.spatial_a[a.name] = known.spatial_b[b.name] = spatial
    known.width_a[a.name] = known.width_b[b.name] = width


def _settled(a: Node, b: Node, spatial: Logs, width: Logs, own: Mapping[str, int]) -> tuple[Logs, Logs]:
    """Logs that say exactly how the extents of two aligned values differ."""
    grown = _log(_area(b), _area(a))
    widened = _log(channels(b), channels(a))
    spatial = _closed(spatial, grown, own, SPATIAL_ASPECTS) if resolution(b.shape) else {}
    return spatial, _closed(width, widened, own, ("width", "whole"))


def _main_input(node: Node, graph: Graph) -> str:
    """The largest: a gate scales a map, and not the other way round. Attention answers its queries."""
    if node.op == "attention":
        return node.inputs[0]
    return max(node.inputs, key=lambda name: prod(graph.by_name[name].shape), default="")


def _alone(pair: LayerPair, own: Mapping[str, int], graph: Graph, known: Origins) -> None:
    node = pair.either.node
    sign = -1.0 if pair.a else 1.0
    spatial, width = (known.spatial_a, known.width_a) if pair.a else (known.spatial_b, known.width_b)
    before = graph.by_name[_main_input(node, graph)] if node.inputs else node
    spatial_before = spatial.get(before.name, {})
    width_before = width.get(before.name, {})
    if node.op in VIEWS:
        spatial[node.name] = dict(spatial_before)
        width[node.name] = dict(width_before)
        return
    grown = sign * _log(_area(node), _area(before))
    spatial[node.name] = combined([spatial_before, {owner_of(("spatial", "whole"), own, NOBODY): grown}])
    widened = sign * _log(channels(node), channels(before))
    width[node.name] = combined([width_before, {own.get("whole", NOBODY): widened}])


def owner_of(aspects: Iterable[str], own: Mapping[str, int], otherwise: int) -> int:
    """The difference that owns the first of these aspects of a layer."""
    return next((own[aspect] for aspect in aspects if aspect in own), otherwise)


def _merged(logs_a: Logs, logs_b: Logs) -> Logs:
    """What two sides carry into a matched layer: the common past once, the doings of each side beside it."""
    return {**logs_a, **logs_b}


def _closed(logs: Logs, target: float, own: Mapping[str, int], aspects: tuple[str, ...]) -> Logs:
    """Logs that sum to the target: what is open is the layer's own doing, else its strongest cause's."""
    if abs(target) <= EVEN_OUT:
        return {}  # level again: what came in between has evened out
    open_ = target - sum(logs.values())
    if abs(open_) <= NEGLIGIBLE:
        return combined([logs])
    strongest = max(logs, key=lambda key: abs(logs[key]), default=NOBODY)
    return combined([logs, {owner_of(aspects, own, strongest): open_}])


def _concatenated(a: Node, b: Node, compared: _Compared, known: Origins) -> Logs:
    """The width of a concat: each input's change of channels, booked on that input's causes."""
    changes: list[Logs] = []
    seen: set[str] = set()
    for name in a.inputs:
        partner = compared.alignment.partner.get(name)
        before = channels(compared.a.by_name[name])
        if partner is not None and partner.name in b.inputs:
            seen.add(partner.name)
            changes.append(_scaled(known.width_b.get(partner.name, {}), channels(partner) - before))
        else:
            owner = compared.owners.get((name, None), {}).get("whole", NOBODY)
            changes.append({owner: -float(before)})
    for name in b.inputs:
        if name not in seen:
            owner = compared.owners.get((None, name), {}).get("whole", NOBODY)
            changes.append({owner: float(channels(compared.b.by_name[name]))})
    return _scaled(combined(changes), _log(channels(b), channels(a)))


def _scaled(logs: Logs, total: float) -> Logs:
    """Scale logs to another sum; without any proportions the sum is booked on nobody."""
    whole = sum(logs.values())
    if abs(whole) <= NEGLIGIBLE:
        return {NOBODY: total} if abs(total) > NEGLIGIBLE else {}
    return {key: value * total / whole for key, value in logs.items()}


def kernel_factors(a: Node, b: Node, own: Mapping[str, int], known: Origins) -> Logs:
    """Logs of the ratio of kernel sizes: output width × input width ÷ groups × area."""
    width = known.width_b.get(b.name, {})
    if a.op not in LEARNED or b.op not in LEARNED:
        return dict(width)
    if is_depthwise(a) and is_depthwise(b):
        return combined([width, _area_factor(a, b, own)])
    inputs_a = known.width_a.get(a.inputs[0], {}) if a.inputs else {}
    inputs_b = known.width_b.get(b.inputs[0], {}) if b.inputs else {}
    inputs = _merged(inputs_a, inputs_b)
    inputs = _closed(inputs, _log(_taken(b), _taken(a)), {}, ())
    grouped = {own.get("groups", NOBODY): -_log(settings.groups(b), settings.groups(a))}
    return combined([width, inputs, grouped, _area_factor(a, b, own)])


def _taken(node: Node) -> int:
    """Channels that a learned layer takes in."""
    kernel = node.parameter("kernel")
    if kernel and len(kernel.shape) > 1:
        return kernel.shape[1] * settings.groups(node)
    return 1


def _area_factor(a: Node, b: Node, own: Mapping[str, int]) -> Logs:
    area_a = prod(settings.kernel(a))
    area_b = prod(settings.kernel(b))
    return {own.get("kernel", NOBODY): _log(area_b, area_a)}


def _area(node: Node) -> int:
    return prod(resolution(node.shape))


def _log(numerator: float, denominator: float) -> float:
    return log(numerator / denominator) if numerator > 0 and denominator > 0 else 0.0
