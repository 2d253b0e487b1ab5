"""In which order a variable of a draft has the axes of a canonical value.

Canonical values have their channels first, Keras has them last. Instead of turning axes at every step, each variable
remembers its order: `order[i]` is the canonical axis that is axis `i` of the variable.
"""

from __future__ import annotations

from collections.abc import Sequence

Order = tuple[int, ...]


def straight(rank: int) -> Order:
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    return (0, *range(2, rank), 1) if rank > 2 else straight(rank)


def turned(values: Sequence[int], order: Order) -> tuple[int, ...]:
    """One entry for each canonical axis, in the variable's order."""
    return tuple(values[axis] for axis in order)


def reshaped_order(before: Sequence[int], after: Sequence[int], order: Order) -> Order | None:
    """The order of a reshaped variable that need not be turned first; None where it must be.

    It need not where the reshape splits or joins axes that lie side by side in the variable, too.
    """
    groups = _groups(before, after)
    if groups is None:
        return None
    place = {axis: number for number, axis in enumerate(axis for axis in order if before[axis] != 1)}
    firsts = []
    for given, made in groups:
        places = [place[axis] for axis in given]
        if places != list(range(places[0], places[0] + len(places))):
            return None
        firsts.append((places[0], made))
    sequence = [axis for _, made in sorted(firsts) for axis in made]
    return _with_ones(sequence, after)


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """Canonical axes before and after that hold the same numbers, without axes of extent 1."""
    left = [axis for axis, extent in enumerate(before) if extent != 1]
    right = [axis for axis, extent in enumerate(after) if extent != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while left or right:
        if not (left and right):
            return None
        given, made = [left.pop(0)], [right.pop(0)]
        a, b = before[given[0]], after[made[0]]
        while a != b:
            side, axes, sizes = (left, given, before) if a < b else (right, made, after)
            if not side:
                return None
            axes.append(side.pop(0))
            if a < b:
                a *= sizes[axes[-1]]
            else:
                b *= sizes[axes[-1]]
        groups.append((given, made))
    return groups


def _with_ones(sequence: list[int], shape: Sequence[int]) -> Order:
    """The order whose axes of more than one element are in this sequence; axes of one element lie anywhere."""
    usual = (channels_last(len(shape)), straight(len(shape)))
    for whole in usual if len(shape) > 3 else reversed(usual):
        if [axis for axis in whole if shape[axis] != 1] == sequence:
            return whole
    known = [0, *(axis for axis in sequence if axis != 0)]
    return (*known, *(axis for axis in range(len(shape)) if axis not in known))
