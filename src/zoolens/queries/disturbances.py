"""Bounds on timings that others disturbed: what they decide is how busy the machine was."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zoolens.queries.plan import Plan

_NAMED = 3


def disturbed_bounds(plan: Plan) -> Iterator[str]:
    """One sentence for each figure that ON bounds and that was disturbed for some of the models."""
    rows = plan.view.index.rows
    for name in dict.fromkeys(bound.metric for bound in plan.query.on):
        meaning = plan.meanings.get(name)
        if meaning is None or meaning.derived:
            continue
        disturbed = rows.columns["ref"].take(np.flatnonzero(rows.figures.disturbed(meaning.column)))
        refs = list(dict.fromkeys(str(ref).partition("@")[0] for ref in disturbed.values))
        if refs:
            more = f" and {len(refs) - _NAMED} more" if len(refs) > _NAMED else ""
            yield (
                f"{name} of {', '.join(refs[:_NAMED])}{more} was measured with fewer than 20 undisturbed samples: the "
                "bound judges a busy machine there. Measure again when it is quiet (`zoolens eval --fresh`)."
            )
