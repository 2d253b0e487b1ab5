"""Learning rates and weight decays that differ between tensors: which tensors of two sides have which.

Both sides may have as many numbers with each value, and yet spare different tensors. A row is the tensor's name, its
learning rate, of which only the share of the largest counts, and its weight decay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from zoolens.training.pairs.live.differences import SettingDifference, same_setting
from zoolens.training.pairs.live.live_training import Setting
from zoolens.training.pairs.mapping.parameter_map import ParameterMap

VARIED: Final = "optimizer.varied"
ROWS: Final = "optimizer.tensors"
_NAMED: Final = 4  # tensors that are named


def with_tensors(
    listed: Sequence[SettingDifference], a: Mapping[str, Setting], b: Mapping[str, Setting], map_: ParameterMap
) -> tuple[SettingDifference, ...]:
    """The differences, with what differs between groups among them where its words are the same and its tensors are
    not."""
    ours, theirs = _by_name(a.get(ROWS)), _by_name(b.get(ROWS))
    if any(difference.name == VARIED for difference in listed) or not ours or not theirs:
        return tuple(listed)
    pairs = [(move.a.tensor, move.b.tensor) for move in map_.moves]
    apart = [both for both in pairs if both[0] in ours and both[1] in theirs]
    apart = [both for both in apart if not same_setting(ours[both[0]], theirs[both[1]])]
    if not apart:
        return tuple(listed)
    mine = f"{a.get(VARIED)} ({_words(ours, [name for name, _ in apart])})"
    other = f"{b.get(VARIED)} ({_words(theirs, [name for _, name in apart])})"
    return (*listed, SettingDifference(VARIED, mine, other))


def _by_name(rows: Any) -> dict[str, tuple[float, float]]:
    given = [(str(name), float(rate), float(decay)) for name, rate, decay in rows or ()]
    largest = max((rate for _, rate, _ in given), default=0.0) or 1.0
    return {name: (rate / largest, decay) for name, rate, decay in given}


def _words(values: Mapping[str, tuple[float, float]], names: Sequence[str]) -> str:
    each = [f"{name}: {values[name][0]:g} and {values[name][1]:g}" for name in names[:_NAMED]]
    return f"share of the learning rate and weight decay of {', '.join(each)}{' …' * (len(names) > _NAMED)}"
