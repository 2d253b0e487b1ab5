"""An answer as a page: the models that fit, all rows as a picture, and what each condition leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zoolens.base.present.charts import Chart
from zoolens.base.present.pages import Page, Section, Tile
from zoolens.base.present.tables import Column, Table
from zoolens.findings.index.tables.rows import Figure
from zoolens.findings.queries.answers.choice import answer_choice
from zoolens.findings.queries.answers.choice_chart import choice_chart
from zoolens.findings.queries.answers.explanation_charts import funnel_chart, misses_chart
from zoolens.findings.queries.answers.matches import Match
from zoolens.findings.queries.answers.query_answers import Answer
from zoolens.findings.queries.answers.wording import amount, at_least, lower_bound, mark
from zoolens.inventory.catalog.names import bare


def answer_page(answer: Answer) -> Page:
    """What `zoolens.query` found."""
    best = answer.best
    verdict = "Nothing fits."
    if answer.exact and best is not None:
        verdict = f"{bare(best.ref)} fits best; {answer.fitting:,} model{'s fit' if answer.fitting != 1 else ' fits'}."
    choice = answer_choice(answer)
    return Page(
        answer.query,
        f"{answer.n:,} inputs of {answer.dataset}.",
        verdict,
        answer.exact,
        tuple(_tiles(answer)),
        (
            *_models(answer),
            Section("All models", choice.notes, charts=(choice_chart(choice),)),
            Section("Conditions", charts=_present([funnel_chart(answer.plan), misses_chart(answer)])),
            *([Section("Notes", items=answer.notes)] if answer.notes else ()),
        ),
    )


def _present(charts: Sequence[Chart | None]) -> tuple[Chart, ...]:
    return tuple(chart for chart in charts if chart is not None)


def _tiles(answer: Answer) -> Iterator[Tile]:
    yield Tile(f"{answer.fitting:,}", "models fit")
    if answer.undecided:
        yield Tile(f"{answer.undecided:,}", "not known whether they fit")
    yield Tile(f"{answer.plan.candidates:,}", f"candidates of {len(answer.plan.view):,} rows")
    if answer.best is not None and answer.exact and answer.best.equivalence is not None:
        lower = answer.best.equivalence_lower
        by_distance = answer.plan.view.searched_by_distance
        what = "similarity of the best" if by_distance else f"{answer.equivalence_name} of the best"
        bound = "" if lower is None else f", {at_least(lower)} with {100 * (answer.confidence or 0):g} % confidence"
        yield Tile(amount(answer.best.equivalence, "fraction"), f"{what}{bound}")


def _models(answer: Answer) -> Iterator[Section]:
    shown = answer.matches or answer.misses
    if not shown:
        return
    title = "Models that fit" if answer.exact else "Nearest misses"
    listed = [*([answer.reference] if answer.reference else []), *shown]
    yield Section(title, tables=(("", matches_table(answer, listed)),))


def matches_table(answer: Answer, matches: Sequence[Match]) -> Table:
    """Models with the figures that were asked for; the reference is marked as such."""
    metrics = list(dict.fromkeys(name for match in matches for name in match.figures))
    compared = answer.reference is not None
    columns = [
        Column("model"),
        Column("runtime", "key"),
        *([Column(answer.equivalence_name, "number")] if compared else []),
    ]
    columns += [*(Column(name, "number") for name in metrics), Column("why not")]
    rows = []
    for match in matches:
        equal = "reference" if match is answer.reference else _equal(match)
        why = "; ".join(rejection.sentence for rejection in match.rejections)
        figures = [_figure(match.figures.get(name), match.ratios.get(name)) for name in metrics]
        rows.append((bare(match.ref), match.runtime or "", *([equal] if compared else []), *figures, why))
    return Table("models", tuple(columns), tuple(rows))


def _equal(match: Match) -> str:
    if match.equivalence is None:
        return "–"
    return f"{amount(match.equivalence, 'fraction')}{lower_bound(match.equivalence_lower)}"


def _figure(figure: Figure | None, ratio: float | None) -> str:
    if figure is None:
        return "–"
    times = "" if ratio is None or ratio == 1 else f" ×{ratio:.2f}"
    return f"{amount(figure.value, figure.unit)}{times}{mark(figure)}"
