"""How many of the models that a query is about could be judged, and why the others could not.

A model is judged if what is known of it proves that it fits, or that it does not (`Plan.undecided`). One without
answers to the probes, or without a figure that the query bounds, may fit or not; a lower bound of a cost is no figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from zoolens.base.phrases import first_few
from zoolens.base.verdicts import Coverage, Gap, Tally
from zoolens.findings.queries.planning.admission import all_pass
from zoolens.inventory.catalog.names import bare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zoolens.findings.queries.planning.query_plan import Plan
    from zoolens.findings.queries.planning.view import Mask

_LISTED: Final = 3  # models that a gap names; the others are counted


def coverage_of(plan: Plan) -> Coverage:
    """The coverage of an answer. `plan.changed` holds the models among the best whose file was found to be another."""
    models = plan.view.models
    asked = int(np.count_nonzero(_with_a_row(models, _asked(plan))))
    left = _with_a_row(models, plan.undecided) & ~_with_a_row(models, plan.fitting)
    gaps = _gaps(plan, plan.undecided & left[models])
    return Coverage((Tally("models", asked - int(np.count_nonzero(left)), asked),), tuple(gaps))


def coverage_words(coverage: Coverage) -> str:
    """What an incomplete answer lacks; empty if every model was judged, or if there was none."""
    (models,) = coverage.tallies
    if coverage.whole or not models.total:
        return ""
    gaps = "; ".join(gap.text for gap in coverage.gaps)
    return f"{models.text} could be judged. Not judged: {gaps}. {' '.join(coverage.remedies)}"


def _asked(plan: Plan) -> Mask:
    """Every row of a model that the query is about, whatever is known of its answers and figures."""
    rows = all_pass((rule for rule in plan.clauses if not rule.looks_at_answers), len(plan.view))
    if plan.reference is not None:
        rows &= plan.reference.others(plan.view)
    return rows


def _gaps(plan: Plan, rows: Mask) -> Iterator[Gap]:
    """One gap for each reason; a model is counted for the first one that holds for all of its rows."""
    view, data = plan.view, plan.view.dataset
    left = rows.copy()
    changed = np.zeros(len(view), np.bool_)
    changed[list(plan.changed)] = True
    reasons: list[tuple[Mask, str, str]] = [
        (changed, "whose file is another than the one that was measured", "`zoolens eval` measures it again.")
    ]
    if plan.reference is not None:
        compared = ~np.isnan(view.agreement(plan.reference.row))
        # The name of a dataset in the store is not where it lies.
        evaluate = (
            f"Evaluate it on {data}: `zoolens runs show RUN` of any run on it shows what `zoolens eval --data` takes."
        )
        reasons += [
            (~view.answered, f"without answers on {data}", evaluate),
            (
                ~compared,
                "whose classes do not match the reference's",
                "A label_map in its manifest translates classes.",
            ),
        ]
    for predicate in plan.everything:
        name = predicate.metric.name
        too_little = "of whose answers too little is kept to know how far they agree"
        reasons.append((plan.between(predicate), too_little, view.closer_agreement))
        lacking = np.isnan(plan.values(predicate.metric))
        remedy = f"`zoolens eval` measures {name}; a lower bound from a structure does not count (`zoolens cost`)."
        reasons.append((lacking, f"without a known {name}", remedy))
    for holds, what, remedy in reasons:
        here = left & holds
        if here.any():
            counted = _with_a_row(view.models, here)
            names = _names(plan, np.flatnonzero(counted))
            left &= ~counted[view.models]
            yield Gap(f"model {what} ({first_few(names, _LISTED)})", len(names), remedy)


def _with_a_row(models: NDArray[np.int64], rows: Mask) -> Mask:
    """Whether a model has one of the rows; models are numbered as rows are (`RowTable.models`)."""
    # `np.unique` and `np.isin` would import `numpy.ma`, which takes longer than all of this.
    marked = np.zeros(len(models), np.bool_)
    marked[models[rows]] = True
    return marked


def _names(plan: Plan, models: NDArray[np.int64]) -> Sequence[str]:
    refs = plan.view.index.rows.columns["ref"]
    return [bare(str(refs[row])) for row in models.tolist()]
