"""How the windows of two networks are padded differently, layer by layer, and what gives one side the other's padding.

A layer's padding is all that is put around its input, wherever the code does it: in the layer, or in a layer of its own
before it. It is read from the graphs that `check` aligns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.diff import settings
from zoolens.findings.graph.diff.alignment import LayerPair
from zoolens.findings.graph.diff.phrases import pad_words
from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.training.pairs.live.differences import SettingDifference, Switches
from zoolens.training.pairs.live.live_training import NotSwitchable

PADDING: Final = "padding"
ZEROS: Final = "zeros"
LOWEST: Final = "lowest"  # of a maximum: numbers below all others
LEFT_OUT: Final = "left out"  # of an average: places that do not count
_WINDOWED: Final = ("conv", "max_pool", "avg_pool")


@dataclass(frozen=True)
class LayerPadding:
    """The padding of one layer: the begins of all spatial axes, then the ends. `mode`: what stands there: zeros,
    lowest, left out, reflect, or edge."""

    pads: tuple[int, ...]
    mode: str

    def words(self) -> str:
        if not any(self.pads):
            return "none"
        where = pad_words(self.pads).removeprefix("padding ")
        return f"{where} ({self.mode})" if self.mode in ("reflect", "edge", LEFT_OUT) else where


@dataclass(frozen=True)
class PaddedPair:
    """Two layers that stand beside each other, by their names in A and in B."""

    names: tuple[str, str]
    own: tuple[LayerPadding, LayerPadding]


def padding_difference(diff: Diff) -> SettingDifference | None:
    """All layers that are padded differently, as one setting; None where there are none."""
    pairs = list(_different(diff))
    if not pairs:
        return None
    words = tuple(", ".join(dict.fromkeys(pair.own[side].words() for pair in pairs)) for side in (0, 1))
    on = tuple(tuple(_switches(pairs, side, of) for of in (0, 1)) for side in (0, 1))
    return SettingDifference(PADDING, words[0], words[1], on)  # type: ignore[arg-type]


def _different(diff: Diff) -> Iterator[PaddedPair]:
    """A layer that is called twice is named once, unless its calls differ."""
    seen: set[PaddedPair] = set()
    for pair in diff.alignment.pairs:
        compared = _compared(pair, diff.a, diff.b)
        if compared is not None and compared not in seen:
            seen.add(compared)
            yield compared


def _compared(pair: LayerPair, a: Graph, b: Graph) -> PaddedPair | None:
    if pair.a is None or pair.b is None:
        return None
    ours, theirs = pair.a.node, pair.b.node
    if ours.op != theirs.op or ours.op not in _WINDOWED:
        return None
    windows = [(settings.kernel(node), settings.stride(node), settings.dilation(node)) for node in (ours, theirs)]
    own = layer_padding(ours, a), layer_padding(theirs, b)
    if windows[0] != windows[1] or own[0] is None or own[1] is None or own[0] == own[1]:
        return None
    if not any(own[0].pads) and not any(own[1].pads):
        return None
    return PaddedPair((ours.source or ours.name, theirs.source or theirs.name), (own[0], own[1]))


def layer_padding(node: Node, graph: Graph) -> LayerPadding | None:
    """Returns the padding of a layer with what a pad before it adds; None where two pads of different kinds stand one
    behind the other."""
    own = settings.pads(node)
    usual = {"max_pool": LOWEST, "avg_pool": ZEROS if node.get("count_pad") else LEFT_OUT}.get(node.op, ZEROS)
    before = graph.by_name.get(node.inputs[0])
    if before is None or before.op != "pad" or before.get("mode", "constant") == "constant":
        return LayerPadding(own, usual if node.get("pad_value") is None else ZEROS)
    pads, rank = before.get("pads"), len(before.shape)
    if any(own) or any((*pads[:2], *pads[rank : rank + 2])) or min(pads) < 0:
        return None
    return LayerPadding((*pads[2:rank], *pads[rank + 2 :]), str(before.get("mode")))


def _switches(pairs: list[PaddedPair], side: int, of: int) -> Switches:
    """For each layer its name, the padding that it has in all, and the one that it is to have; no rows give all layers
    their own again."""
    rows: tuple[Any, ...] = tuple(
        (pair.names[side], pair.own[side].pads, pair.own[of].pads, pair.own[of].mode) for pair in pairs if side != of
    )
    return ((PADDING, rows),)


def one_for_each(rows: Sequence[Any]) -> list[Any]:
    """The rows of a switch, one for each layer. NotSwitchable: two calls of one layer are to be padded differently."""
    by_layer: dict[str, Any] = {}
    for name, *rest in rows:
        if by_layer.setdefault(str(name), rest) != rest:
            raise NotSwitchable(f"{name} is called several times, and the other side pads the calls differently.")
    return [(name, *rest) for name, rest in by_layer.items()]


def try_paddings(
    run_once: Callable[[], list[tuple[int, ...]]],
    changes: Sequence[Callable[[], None]],
    restore: Callable[[], None],
    whose: str,
) -> None:
    """Make all changes, and undo them where the network does not run any more or answers with another shape.
    `run_once` gives the shapes of its answers; `whose` is what errors call it."""
    before = run_once()
    for change in changes:
        change()
    try:
        after = run_once()
    except ModelError as error:
        restore()
        raise NotSwitchable(f"With the other's padding the {whose} does not run: {error.message}") from error
    if after != before:
        restore()
        raise NotSwitchable(f"With the other's padding the {whose}'s answer has another shape.")
