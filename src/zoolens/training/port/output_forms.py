"""Whether two networks give their outputs in one form: the same axes in the same order.

Numbers are compared with the channels of maps first, whatever a framework's own order is, and without axes of extent 1.
A permutation or a squeeze that a port has forgotten at its end would therefore not be seen in them.
"""

from __future__ import annotations

from collections.abc import Sequence

from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.network_sides import PortSide


def form_differences(
    sides: tuple[PortSide, PortSide], answers: tuple[Sequence[Array], Sequence[Array]]
) -> tuple[str, ...]:
    """Sentences about outputs that have other axes in B than in A. `answers`: those of each side to one input."""
    if len(answers[0]) != len(answers[1]):
        return ()
    axes = [side.output_axes() for side in sides]
    found = []
    for number, (a, b) in enumerate(zip(*answers, strict=True)):
        name = "The output" if len(answers[0]) == 1 else f"Output {number + 1}"
        if a.shape != b.shape and a.size == b.size:
            found.append(f"{name} has the shape {_size(a)} in A and {_size(b)} in B, for one input.")
        known = [each[number] if number < len(each) else "" for each in axes]
        if all(known) and not _alike(known, [side.facts.channels for side in sides]):
            found.append(f"{name} has its axes in the order {known[0]} in A and {known[1]} in B.")
    return tuple(found)


def _alike(axes: Sequence[str], channels: Sequence[str]) -> bool:
    """Whether both have one order, or each has its channels where its framework has them and places in one order."""
    usual = [each == _with_channels(each, where) for each, where in zip(axes, channels, strict=True)]
    return axes[0] == axes[1] or (all(usual) and _places(axes[0]) == _places(axes[1]))


def _with_channels(axes: str, where: str) -> str:
    """The axes with that of the channels behind that of the batch, or last."""
    if "C" not in axes:
        return axes
    batch = "N" if "N" in axes else ""
    return f"{batch}C{_places(axes)}" if where == "first" else f"{batch}{_places(axes)}C"


def _places(axes: str) -> str:
    return axes.replace("N", "").replace("C", "")


def _size(array: Array) -> str:
    return "×".join(map(str, array.shape)) or "of one number"
