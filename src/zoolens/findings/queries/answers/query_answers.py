"""What a query returns: the models that fit, the figures that were asked for, and why the others do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from zoolens.base.phrases import first_few
from zoolens.base.present.results import Result
from zoolens.base.verdicts import Verdict, judged
from zoolens.findings.queries.answers.explanation import Timings, explain, explain_analyze
from zoolens.findings.queries.answers.frame import frame_of
from zoolens.findings.queries.answers.matches import Match, match_of, record_names
from zoolens.findings.queries.answers.near_misses import COUNT, near_misses, wider_guarantee
from zoolens.findings.queries.answers.query_coverage import coverage_of, coverage_words
from zoolens.findings.queries.answers.unchanged_rows import settled
from zoolens.findings.queries.answers.wording import amount, lower_bound
from zoolens.findings.queries.language.unparser import to_text
from zoolens.findings.queries.planning.guarantees import Guarantee
from zoolens.findings.queries.planning.query_plan import Plan
from zoolens.findings.queries.planning.view import View

_LISTED: Final = 3  # named in a note; the others are counted


class Answer(Result):
    """True where something was found. Everything but the rows themselves is made when it is looked at."""

    def __init__(self, plan: Plan, rows: Sequence[int], timings: Timings | None = None) -> None:
        self._planned = plan
        self._found = rows
        self._timings = timings or {}

    @cached_property
    def _settled(self) -> tuple[Plan, Sequence[int]]:
        """The plan and its rows without models whose file is another by now than the one that was measured."""
        return settled(self._planned, self._found)

    @property
    def plan(self) -> Plan:
        return self._settled[0]

    @property
    def _rows(self) -> Sequence[int]:
        return self._settled[1]

    def __bool__(self) -> bool:
        return len(self._rows) > 0 or bool(self.matches)

    def __len__(self) -> int:
        return len(self.matches)

    @cached_property
    def matches(self) -> tuple[Match, ...]:
        """Best first, one for each model. Where nothing fits: none, or with ELSE NEAREST the nearest misses."""
        if not len(self._rows) and self.plan.query.nearest:
            return self.misses[: self.plan.limit]
        return tuple(match_of(self.plan, row, self.guarantee) for row in self._rows)

    @property
    def best(self) -> Match | None:
        return self.matches[0] if self else None

    @property
    def exact(self) -> bool:
        """Whether the matches fit; False where they are the nearest misses, or none."""
        return len(self._rows) > 0

    @cached_property
    def misses(self) -> tuple[Match, ...]:
        """The models that come nearest without fitting, with every predicate that rejects them."""
        return near_misses(self.plan, max(COUNT, self.plan.limit) if self.plan.query.nearest else COUNT)

    @cached_property
    def fitting(self) -> int:
        """How many models fit, whatever the limit."""
        return int(np.count_nonzero(np.bincount(self.plan.view.models[self.plan.fitting])))

    @cached_property
    def undecided(self) -> int:
        """How many models may or may not fit: a figure of theirs is unknown."""
        (models,) = self.verdict.coverage.tallies
        return (models.total or 0) - models.understood

    @cached_property
    def reference(self) -> Match | None:
        reference = self.plan.reference
        return None if reference is None else match_of(self.plan, reference.row)

    @property
    def dataset(self) -> str:
        """The probe data."""
        return self.plan.view.dataset

    @property
    def n(self) -> int:
        """Probe inputs."""
        return self.plan.view.probes

    @property
    def equivalence_name(self) -> str:
        """What the equivalence of a match is a share of."""
        return self.plan.view.equivalence_name

    @property
    def confidence(self) -> float | None:
        """The confidence of every bound here, for all candidates together; None: nothing is bounded."""
        return self.guarantee.confidence if self.guarantee else None

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What the lower bounds of the matches, or of the near misses where nothing fits, are made from."""
        return self.plan.guarantee if self.exact else wider_guarantee(self.plan)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What the index lacks, and which of the models shown are not what was measured any more."""
        shown = [] if self.plan.reference is None else [self.plan.reference.row]
        keys = [] if self.exact else self.plan.view.index.rows.columns["key"].to_list()
        rows = {key: number for number, key in enumerate(keys)}
        shown += self._rows if self.exact else [rows[match.row.key] for match in self.matches or self.misses]
        not_judged = coverage_words(self.verdict.coverage)
        return (
            *_compared(self.plan), *_disturbed_bounds(self.plan), *([not_judged] if not_judged else []),
            *self.plan.view.index.notes, *_left_out(self.plan), *self.plan.view.index.changed_files(shown),
        )  # fmt: skip

    @cached_property
    def verdict(self) -> Verdict:
        """ "same": a model fits, and every model could be judged; "different": every model could be judged, and none
        fits; "not known": some could not, so that others may fit, or fit better."""
        coverage = coverage_of(self.plan)
        return judged(coverage, different=coverage.whole and not self.exact)

    @property
    def query(self) -> str:
        """The query as text."""
        return to_text(self.plan.query)

    @cached_property
    def explanation(self) -> str:
        """What EXPLAIN says; with EXPLAIN ANALYZE also what it took, and the near misses."""
        if self.plan.query.explain == "analyze":
            return explain_analyze(self.plan, len(self._rows), self.misses, self._timings)
        return explain(self.plan)

    def as_data(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        guarantee, wider = self.guarantee, wider_guarantee(self.plan)
        return {
            "query": self.query,
            "dataset": self.dataset,
            "inputs": self.n,
            "confidence": self.confidence,
            "comparisons": guarantee.comparisons if guarantee else None,
            "comparisons_of_misses": wider.comparisons if wider else None,
            "bound_from": guarantee.agreement.dataset if guarantee and guarantee.agreement else None,
            "candidates": self.plan.candidates,
            "fitting": self.fitting,
            "not_known": self.undecided,
            "reference": self.reference.as_data() if self.reference else None,
            "matches": [match.as_data() for match in self.matches],
            "misses": [match.as_data() for match in self.misses],
            "notes": list(self.notes),
            **self.verdict.as_data(),
        }

    def frame(self) -> Any:
        """A pandas DataFrame, one row for each match."""
        return frame_of(self.matches, self.columns)

    @property
    def columns(self) -> list[str]:
        """The columns of `frame` and of CSV, which an empty answer has too."""
        records = [match.record() for match in self.matches]
        return list(dict.fromkeys(name for record in records for name in record)) or record_names(self.plan)

    def __repr__(self) -> str:
        if self.plan.query.explain:
            return self.explanation
        head = f"{len(self.matches)} of {self.fitting} models that fit" if self.exact else "Nothing fits"
        what = self.equivalence_name
        lines = [f"  {_line(match, what)}" for match in self.matches]
        if not self.exact:
            nearest = self.matches or self.misses
            lines = [
                f"  {_line(match, what)}: {'; '.join(why.sentence for why in match.rejections)}" for match in nearest
            ]
            head += "; the nearest misses are" if lines else ", and there is no candidate"
        return "\n".join([head, *lines])


def _line(match: Match, what: str) -> str:
    name = f"{match.ref} in {match.runtime}" if match.runtime else match.ref
    if match.equivalence is None:
        return name
    return f"{name}, {amount(match.equivalence, 'fraction')} {what}{lower_bound(match.equivalence_lower)}"


def without_bounds(view: View) -> str:
    """What the equivalence of answers that agree in part is, of which queries know no bounds."""
    most = (
        "" if view.agreement_is_exact else " The agreement is at most that; WITHIN asks for the least that it can be."
    )
    return (
        f"{view.equivalence_name.capitalize()} is the mean over the inputs of what the task says of each. It is no "
        f"share of equal answers, and has no bounds here; `zoolens equiv` gives one for each pair.{most}"
    )


def _compared(plan: Plan) -> Iterator[str]:
    """What equivalence does not say of answers that are vectors. Of classifiers nothing is looked up, which would open
    the store."""
    view, reference = plan.view, plan.reference
    if reference is None or view.counts_answers or not view.answered[reference.row]:
        return
    if view.searched_by_distance:
        yield (
            "The answers are vectors: the similarity of two models is 1 minus the mean relative distance of their "
            "answers, not a share of equal ones."
        )
    else:
        yield without_bounds(view)
    outputs = view.index.outputs(reference.row)
    if len(outputs) > 1:
        yield (
            f"Of the {len(outputs)} outputs of the reference only the first ({outputs[0]}) is compared; "
            "`zoolens equiv` compares all of them."
        )


def _left_out(plan: Plan) -> Iterator[str]:
    """Which models would have fitted by what was measured of a file that is not there any more."""
    column = plan.view.index.rows.columns["ref"]
    refs = list(dict.fromkeys(str(column[row]) for row in plan.changed))
    if refs:
        verb = "has" if len(refs) == 1 else "have"
        yield (
            f"{first_few(refs, _LISTED)} {verb} another file than the one that was measured, and "
            f"{'is' if len(refs) == 1 else 'are'} left out: `zoolens eval` measures it again."
        )


def _disturbed_bounds(plan: Plan) -> Iterator[str]:
    """One sentence for each figure that ON bounds and that was disturbed while some of the models were measured."""
    rows = plan.view.index.rows
    for name in dict.fromkeys(bound.metric for bound in plan.query.on):
        metric = plan.metrics.get(name)
        if metric is None or metric.derived:
            continue
        disturbed = rows.columns["ref"].take(np.flatnonzero(rows.figures.disturbed(metric.column)))
        refs = list(dict.fromkeys(str(ref).partition("@")[0] for ref in disturbed.values))
        if refs:
            yield (
                f"{name} of {first_few(refs, _LISTED)} was measured with fewer than 20 undisturbed samples: "
                "the bound includes other load there. Measure again on an idle machine (`zoolens eval --fresh`)."
            )
