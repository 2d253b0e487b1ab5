"""Which known network a graph is, or is nearest to, by structure alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.signatures.known_networks import PAPER, KnownNetwork
from zoolens.findings.graph.signatures.resized_signatures import ResizedSignatures
from zoolens.findings.graph.signatures.signatures import UNPADDED, StructureSignature, signature, without_width

NEAR: Final = 0.6  # below, a network is said to be near nothing
OTHER_ACTIVATIONS: Final = 0.97  # relu for relu6, at the same places
MOVED_ACTIVATIONS: Final = 0.9  # pre-activation and post-activation residual networks
SAME_BUT_WIDTHS: Final = 0.8  # at least
_LIKE: Final = 0.89  # at most, for networks whose layers or links differ
_SHOWN: Final = 4  # differences in words
_PLACE: Final = re.compile(r"/\d+| dilated \d+")
_CONTAINED: Final = 0.9  # of a network's layers and links, for it to be part of another


class Padding(StrEnum):
    """How the padding of two networks with the same layers compares."""

    EQUAL = "equal"
    OTHER = "differs"
    UNKNOWN = "unknown"  # the sizes differ, and so may what follows from them; papers seldom say


@dataclass(frozen=True)
class NetworkMatch:
    """A known network beside a graph. `similarity` is from 0 to 1; `exact` says that the layers are the same, up to
    class count, image size, norms, biases and padding.

    `differences` say what the graph has instead of what the known network has.
    """

    name: str
    zoo: str
    similarity: float
    exact: bool
    differences: tuple[str, ...]
    architecture: str = ""
    note: str = ""
    padding: Padding = Padding.UNKNOWN

    @property
    def ref(self) -> str:
        return f"{self.zoo}:{self.name}"

    def as_data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "zoo": self.zoo,
            "architecture": self.architecture or None,
            "note": self.note or None,
            "similarity": round(self.similarity, 4),
            "exact": self.exact,
            "padding": str(self.padding),
            "differences": list(self.differences),
        }


def nearest(
    graph: Graph | StructureSignature,
    known: Iterable[KnownNetwork],
    n: int = 5,
    resized: ResizedSignatures | None = None,
) -> list[NetworkMatch]:
    """The known networks most like a graph, best first; all that are exactly equal even if they are more than `n`.
    With `resized`, padding is compared at the image size of the known network."""
    own = signature(graph) if isinstance(graph, Graph) else graph
    scores = ((similarity(own, network.signature), network) for network in known)
    scored = sorted(scores, key=lambda pair: (-pair[0], pair[1].ref))
    kept = [(score, network) for place, (score, network) in enumerate(scored) if place < n or score == 1.0]
    return [_match(own, score, network, resized) for score, network in kept]


def _match(
    own: StructureSignature, score: float, network: KnownNetwork, resized: ResizedSignatures | None
) -> NetworkMatch:
    exact = is_equal(own, network.signature)
    words = () if exact else tuple(differences(own, network.signature))
    named = network.name, network.zoo
    padding = compare_padding(own, network, resized if exact else None)
    return NetworkMatch(*named, score, exact, words, network.architecture, network.note, padding)


def compare_padding(
    own: StructureSignature, network: KnownNetwork, resized: ResizedSignatures | None = None
) -> Padding:
    theirs = network.signature
    if network.zoo == PAPER or not own.padding or not theirs.padding:
        return Padding.UNKNOWN
    if own.size == theirs.size:
        return Padding.EQUAL if own.padding == theirs.padding else Padding.OTHER
    if own.padding == theirs.padding == UNPADDED:
        return Padding.EQUAL
    # Pads that differ at another size prove nothing: what was fixed may have followed from the size, and conversely.
    at_their_size = resized.at(theirs.size) if resized else None
    agrees = at_their_size is not None and at_their_size.padding == theirs.padding
    return Padding.EQUAL if agrees else Padding.UNKNOWN


def contains(whole: StructureSignature, part: StructureSignature) -> bool:
    """Whether a network has another within it, such as a detector its backbone, whatever its strides and dilations."""
    pairs = (
        (_placeless(whole.layers), _placeless(part.layers)),
        (_placeless_links(whole), _placeless_links(part)),
    )
    return all(_held(large, small) >= _CONTAINED for large, small in pairs)


def _held(large: Mapping[Any, int], small: Mapping[Any, int]) -> float:
    total = sum(small.values())
    if total:
        return sum(min(count, large.get(key, 0)) for key, count in small.items()) / total
    return 0.0


def _placeless(layers: Mapping[str, int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for layer, count in layers.items():
        if not layer.endswith("→classes"):
            counts[_PLACE.sub("", layer)] += count
    return counts


def _placeless_links(signature: StructureSignature) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for (a, b), count in signature.links.items():
        if not b.endswith("→classes"):
            counts[_PLACE.sub("", a), _PLACE.sub("", b)] += count
    return counts


def similarity(a: StructureSignature, b: StructureSignature) -> float:
    """The similarity of two networks, from 0 to 1 (equal): mostly the overlap of layers, of links, and of layers
    without their widths."""
    if is_equal(a, b):
        return 1.0
    if a.skeleton == b.skeleton:
        return OTHER_ACTIVATIONS if a.activated == b.activated else MOVED_ACTIVATIONS
    shared = 0.4 * _overlap(a.layers, b.layers) + 0.3 * _overlap(a.links, b.links)
    overlap = shared + 0.3 * _overlap(_widthless(a.layers), _widthless(b.layers))
    if a.outline == b.outline:
        return SAME_BUT_WIDTHS + overlap * (_LIKE - SAME_BUT_WIDTHS)
    return min(overlap, _LIKE)


def is_equal(own: StructureSignature, other: StructureSignature) -> bool:
    """Whether two networks have the same layers and activations. A quantiser may leave a ReLU6 as ReLUs with a cap of
    their own, at the same places."""
    if own.digest == other.digest:
        return True
    both = own.activations, other.activations
    return own.activated == other.activated and any(map(_is_capped, both)) and all(map(_may_be_relu6, both))


def same_learned_layers(own: StructureSignature, other: StructureSignature) -> bool:
    """Whether two networks have the same layers with weights and the same activations, in whatever arrangement."""
    return own.activations == other.activations and _learned(own.layers) == _learned(other.layers)


def same_kinds_of_layers(own: StructureSignature, other: StructureSignature) -> bool:
    """Whether two networks have the same layers with weights where a dense layer counts as the 1×1 convolution that it
    is beside a transposition, and one as wide as its input may mix any number of places."""
    return own.activations == other.activations and _kinds(own.layers) == _kinds(other.layers)


def _kinds(layers: Mapping[str, int]) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for layer, count in _learned(layers).items():
        name, _, widths = layer.rpartition(" ")
        given, _, made = widths.partition("→")
        pointwise = name in ("dense", "conv 1×1")
        kind = "mixes places" if pointwise and given == made else f"pointwise {widths}" if pointwise else layer
        kinds[kind] += count
    return kinds


def _learned(layers: Mapping[str, int]) -> dict[str, int]:
    return {layer: count for layer, count in layers.items() if "→" in layer and not layer.startswith("slice")}


def _is_capped(activations: Mapping[str, int]) -> bool:
    return "minimum" in activations


def _may_be_relu6(activations: Mapping[str, int]) -> bool:
    capped = _is_capped(activations) and activations.keys() <= {"minimum", "relu", "relu6"}
    return capped or activations.keys() == {"relu6"}


def _overlap(a: Mapping[Any, int], b: Mapping[Any, int]) -> float:
    common = sum(min(count, b[key]) for key, count in a.items() if key in b)
    together = sum(a.values()) + sum(b.values()) - common
    return common / together if together else 1.0


def _widthless(layers: Mapping[str, int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for layer, count in layers.items():
        counts[without_width(layer)] += count
    return counts


def differences(own: StructureSignature, other: StructureSignature) -> list[str]:
    """What `own` has instead of what `other` has, in a few words each, the most telling first."""
    if own.skeleton == other.skeleton:
        return _activations(own, other) or ["activations at other places"]
    if own.outline == other.outline:
        return [_width_words(own, other)]
    more = dict(Counter(own.layers) - Counter(other.layers))
    less = dict(Counter(other.layers) - Counter(own.layers))
    sentences = [*_replaced(more, less), *_alone(more, "more"), *_alone(less, "fewer")]
    rest = len(sentences) - _SHOWN
    shown = sentences[:_SHOWN] + ([f"{rest} more differences"] if rest > 0 else [])
    return shown or _activations(own, other) or ["the same layers, linked otherwise"]


def _activations(own: StructureSignature, other: StructureSignature) -> list[str]:
    more = Counter(own.activations) - Counter(other.activations)
    less = Counter(other.activations) - Counter(own.activations)
    if more and less:
        return [f"{' and '.join(sorted(more))} instead of {' and '.join(sorted(less))}"]
    return [f"{count} {'more' if more else 'fewer'} {op}" for op, count in sorted((more or less).items())]


def _width_words(own: StructureSignature, other: StructureSignature) -> str:
    """Says by how much the widths differ. Networks of one outline have the same kinds of layers, whose widths are
    compared in order of size."""
    ratios = [
        width_a / width_b
        for kind in {without_width(layer) for layer in own.layers}
        for width_a, width_b in zip(_widths(own, kind), _widths(other, kind), strict=False)
    ]
    changed = sorted({f"{ratio:.2g}" for ratio in ratios if ratio != 1}, key=float)
    if not changed:
        return "the same layers in other widths"
    span = f"{changed[0]} ×" if len(changed) == 1 else f"{changed[0]} to {changed[-1]} ×"
    count = sum(ratio != 1 for ratio in ratios)
    which = "" if count == len(ratios) else f", {count} of {len(ratios)} of them"
    return f"the same layers{which} with {span} the width"


def _widths(known: StructureSignature, kind: str) -> list[int]:
    widths = []
    for layer, count in known.layers.items():
        width = _width(layer)
        if width and without_width(layer) == kind:
            widths += [width] * count
    return sorted(widths)


def _width(layer: str) -> int:
    text = layer.rpartition("→")[2]
    return int(text) if text.isdecimal() else 0


def _replaced(more: dict[str, int], less: dict[str, int]) -> list[str]:
    """Layers of one kind that stand for each other: taken out of both, the rarest and narrowest (stems) first."""
    sentences = []
    for extra in sorted(more, key=lambda layer: (more[layer], _input_width(layer), layer)):
        missing = next((layer for layer in sorted(less) if _stand_for(extra, layer, more, less)), None)
        if missing is not None:
            sentences.append(f"{_times(more.pop(extra))}{extra} instead of {_times(less.pop(missing))}{missing}")
    return sentences


def _stand_for(extra: str, missing: str, more: Mapping[str, int], less: Mapping[str, int]) -> bool:
    """Whether two layers are of one kind and differ in their output width only, or take the same input."""
    if more[extra] != less[missing] or extra.split(maxsplit=1)[0] != missing.split(maxsplit=1)[0]:
        return False
    if without_width(extra) == without_width(missing):
        return True
    return "→" in extra and _input_width(extra) == _input_width(missing)


def _input_width(layer: str) -> int:
    text = layer.rpartition(" ")[2].partition("→")[0]
    return int(text) if text.isdecimal() else 0


def _alone(layers: Mapping[str, int], word: str) -> list[str]:
    ordered = sorted(layers, key=lambda layer: ("→" not in layer, -layers[layer], layer))
    return [f"{layers[layer]} {word} {layer}" for layer in ordered]


def _times(count: int) -> str:
    return f"{count} × " if count > 1 else ""
