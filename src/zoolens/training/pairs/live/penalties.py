"""Regularisers of single tensors: which tensors of two sides are penalised, and how one side is given the other's.

A penalty is a row: the tensor's name, the factor of the sum of its absolute values, and that of the sum of its squares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from zoolens.training.pairs.live.differences import SettingDifference, Switches, same_setting
from zoolens.training.pairs.live.live_training import Setting
from zoolens.training.pairs.mapping.parameter_map import ParameterMap

REGULARISATION: Final = "regularisation"
PENALTIES: Final = "regularisation.penalties"
Rows = tuple[tuple[str, float, float], ...]


def with_penalties(
    listed: Sequence[SettingDifference], a: Mapping[str, Setting], b: Mapping[str, Setting], map_: ParameterMap
) -> tuple[SettingDifference, ...]:
    """The differences with one regularisation among them: by the tensors that are penalised, where both can tell, and
    by what it is called otherwise."""
    others = tuple(difference for difference in listed if difference.name not in (REGULARISATION, PENALTIES))
    rows = _rows(a.get(PENALTIES)), _rows(b.get(PENALTIES))
    named = {move.a.tensor: move.b.tensor for move in map_.moves}, {move.b.tensor: move.a.tensor for move in map_.moves}
    moved = _moved(rows[0], named[0]), _moved(rows[1], named[1])  # as the other side calls the tensors
    words = [a.get(REGULARISATION, "none"), b.get(REGULARISATION, "none")]
    if rows[0] is not None and rows[1] is not None and moved[0] is not None:
        if _same(moved[0], rows[1]):
            return others
        if words[0] == words[1]:  # as many of one size, of other tensors
            words = [
                f"{name} ({', '.join(row[0] for row in own or ())})" for name, own in zip(words, rows, strict=True)
            ]
    elif same_setting(words[0], words[1]):
        return others
    given = [_given(words[0], rows[0], moved[0]), _given(words[1], rows[1], moved[1])]
    on = ((_own(a), given[1]), (given[0], _own(b)))
    return (*others, SettingDifference(REGULARISATION, words[0], words[1], on))


def _rows(value: Setting) -> Rows | None:
    if not isinstance(value, tuple):
        return None
    return tuple((str(name), float(l1), float(l2)) for name, l1, l2 in value)


def _moved(rows: Rows | None, names: Mapping[str, str]) -> Rows | None:
    if rows is None or any(name not in names for name, *_ in rows):
        return None
    return tuple((names[name], l1, l2) for name, l1, l2 in rows)


def _same(first: Rows, second: Rows) -> bool:
    ordered: list[Any] = [sorted(rows) for rows in (first, second)]
    return same_setting(tuple(ordered[0]), tuple(ordered[1]))


def _given(words: Setting, rows: Rows | None, moved: Rows | None) -> Switches:
    """The rows where the other side has the tensors; without rows only that there is nothing can be given."""
    return ((REGULARISATION, "none" if rows == () else moved if moved is not None else words),)


def _own(settings: Mapping[str, Setting]) -> Switches:
    return ((REGULARISATION, settings.get(REGULARISATION, "none")),)
