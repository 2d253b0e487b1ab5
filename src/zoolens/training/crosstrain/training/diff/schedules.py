"""What schedules of the learning rate do with their defaults, found by running them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import Final

from zoolens.training.pairs.reading.side_facts import BehaviourFact

LENGTH: Final = 10  # of the cosine, in its own units
BOUNDARY: Final = 2


def measured(
    name: str, *, cosine: Sequence[float], warmup: str, falling: Sequence[float], by_itself: bool
) -> BehaviourFact:
    """All rates are shares of the full one. `cosine`: of each unit of one of LENGTH, and of five more; `warmup`: in
    words, the first one of a warm-up; `falling`: of the first units of a schedule that falls to a tenth at BOUNDARY;
    `by_itself`: a step of the optimizer alone moves it on."""
    units = "of its own, at every step of the optimizer" if by_itself else "when it is told to, mostly once an epoch"
    middle, after = cosine[LENGTH // 2], cosine[LENGTH + 5]
    fall = next((place for place, rate in enumerate(falling) if rate < 0.5), None)
    does = {
        "goes on": units,
        "a warm-up begins at": warmup,
        "a cosine is halfway at": f"{round(middle, 4):g} of the rate",
        "after its end a cosine": "stays" if isclose(after, cosine[LENGTH], abs_tol=1e-6) else "rises again",
        f"a boundary of {BOUNDARY} lowers the rate": "never" if fall is None else f"after {fall} units",
    }
    return BehaviourFact(kind="schedule", subject="the schedule", name=name, does=does)
