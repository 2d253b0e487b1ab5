"""Show a result in a notebook: figures, tables and charts in one piece, without a script and without a network.

import zoolens
zoolens.show(zoolens.compare("demo:lenet-wide", "demo:lenet-wide-int8"))
zoolens.show("last")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.present.notebook import Shown
from zoolens.base.present.pages import Page, Section

if TYPE_CHECKING:
    from zoolens.base.store.store import Store

# By name, so that nothing is imported that a notebook does not use.
# Which class of this package is shown by which function that makes a page of it:
_PAGES: Final = {
    "findings.comparisons.compare:Report": "findings.comparisons.report_page:report_page",
    "findings.comparisons.equivalence:Equivalence": "findings.comparisons.equivalence_page:equivalence_page",
    "findings.comparisons.disagreements:Disagreements": "findings.comparisons.disagreement_page:disagreement_page",
    "findings.comparisons.text_disagreements:TextDisagreements": (
        "findings.comparisons.disagreement_page:disagreement_page"
    ),
    "findings.comparisons.reproduce:Reproduction": "findings.comparisons.reproduction_page:reproduction_page",
    "findings.audit.doctor.diagnosis:Diagnosis": "findings.audit.doctor.diagnosis_page:diagnosis_page",
    "findings.audit.identification:Identification": "findings.audit.identification_page:identification_page",
    "findings.queries.answers.query_answers:Answer": "findings.queries.answers.query_page:answer_page",
    "findings.graph.diff.report:Diff": "findings.graph.diff.diff_page:diff_page",
    "findings.divergence.result:Divergence": "findings.divergence.divergence_page:divergence_page",
    "faces.load.run_load:LoadRun": "faces.load.report:load_page",
}
# Which class is shown by which function here, because its page needs the store or several parts:
_SHOWN: Final = {
    "zoolens.base.store.records:Run": "_run",
    "zoolens.findings.measure.plan:Outcome": "_outcome",
    "zoolens.findings.comparisons.matrix:Matrix": "_matrix",
    "zoolens.findings.queries.prepared_query:PreparedQuery": "_prepared",
    "zoolens.findings.index.index:Index": "_index",
    "zoolens.findings.graph.ir.model:Graph": "_graph",
    "zoolens.findings.graph.cost.cost:Cost": "_cost",
    "zoolens.findings.tracing.stored:Trace": "_trace",
    "zoolens.findings.tracing.comparison:TraceComparison": "_traces_compared",
    "zoolens.training.crosstrain.study.explanation.explanation_results:Explanation": "_explanation",
    "zoolens.faces.serving.services.events:Session": "_session",
    "zoolens.base.present.charts:Chart": "_chart",
    "zoolens.base.present.pages:Page": "_page",
}


def show(result: Any, *, store: Store | str | Path | None = None) -> Shown:
    """A result of this package as a notebook shows it; elsewhere it prints as text.

    `result`: what `evaluate`, `compare`, `reproduce`, `equiv`, `disagree`, `agreement_matrix`, `query`, `prepare`,
    `diff`, `cost`, `graph_of`, `identify`, `doctor`, `trace`, `diverge`, `build_index`, `run_load` and
    `crosstrain.explain` return, lists of outcomes or traces, a run of the store, or the id of one, a prefix of it,
    "last" or "last~1". `store`: where runs are read from.
    """
    if isinstance(result, str):
        return Shown(_run_named(result, store))
    if isinstance(result, list | tuple):
        return Shown(_several(result, store))
    return Shown(_page_of(result, store))


def _page_of(result: Any, store: Any) -> Page:
    for kind in type(result).__mro__:
        name = f"{kind.__module__}:{kind.__qualname__}"
        if maker := _PAGES.get(name.removeprefix("zoolens.")):
            module, _, function = maker.partition(":")
            page: Page = getattr(import_module(f"zoolens.{module}"), function)(result)
            return page
        if name in _SHOWN:
            make: Callable[[Any, Any], Page] = globals()[_SHOWN[name]]
            return make(result, store)
    known = ", ".join(sorted(name.partition(":")[2] for name in (*_PAGES, *_SHOWN)))
    raise ZoolensError(f"A {type(result).__name__} cannot be shown.", hint=f"What can be shown: {known}.")


def _several(results: Sequence[Any], store: Any) -> Page:
    """Traces share a page; of other results the sections follow each other."""
    if not results:
        return Page("Nothing to show", "The list is empty.")
    if all(type(result).__name__ == "Trace" for result in results):
        return _traces(results, store)
    pages = [
        _page_of(result, store) if not isinstance(result, str) else _run_named(result, store) for result in results
    ]
    if len(pages) == 1:
        return pages[0]
    sections: list[Section] = []
    for page in pages:
        tiles = tuple(f"{tile.figure}: {tile.caption}" for tile in page.tiles)
        sections.append(Section(page.title, tuple(text for text in (page.verdict, page.lead) if text), items=tiles))
        sections += page.sections
    return Page(f"{len(pages):,} results", sections=tuple(sections))


# --- one function for each kind


def _run_named(name: str, store: Any) -> Page:
    from zoolens.base.store.store import borrowed_store

    with borrowed_store(store, must_exist=True) as opened:
        return _page_of_run(opened, opened.run(name))


def _run(run: Any, store: Any) -> Page:
    return _run_named(run.id, store)


def _page_of_run(store: Store, run: Any) -> Page:
    from zoolens.base.store.records import RunKind
    from zoolens.findings.measure.evaluation_page import run_page

    if run.kind is RunKind.TRACE:
        from zoolens.findings.tracing.stored import load_trace

        return _traces([load_trace(run, store=store)], store)
    if run.kind is RunKind.SERVING:
        from zoolens.faces.serving.services.events import session_of

        return _session(session_of(store, run), store)
    return run_page(store, run)


def _outcome(outcome: Any, store: Any) -> Page:
    if outcome.run is None:
        return Page(outcome.title, verdict="; ".join(outcome.errors) or outcome.skipped or "Nothing was measured.")
    page = _run(outcome.run, store)
    remarks = (*outcome.errors, *outcome.warnings, *outcome.notes)
    return page if not remarks else Page(**{**vars(page), "sections": (Section(warnings=remarks), *page.sections)})


def _matrix(matrix: Any, _: Any) -> Page:
    from zoolens.findings.comparisons.matrix_chart import chart

    title = f"Agreement of {len(matrix.names)} models on {matrix.dataset}"
    return Page(title, sections=(Section(charts=(chart(matrix),), items=matrix.notes),))


def _prepared(prepared: Any, store: Any) -> Page:
    return _page_of(prepared.run(), store)


def _index(index: Any, _: Any) -> Page:
    from zoolens.findings.queries.answers.choice import index_choice
    from zoolens.findings.queries.answers.choice_chart import choice_chart

    choice = index_choice(index)
    return Page(
        f"{len(index):,} rows of the index", f"{choice.inputs:,} inputs of {choice.dataset}.",
        sections=(Section(paragraphs=choice.notes, charts=(choice_chart(choice),)),),
    )  # fmt: skip


def _graph(graph: Any, store: Any) -> Page:
    from zoolens.findings.graph.cost.cost import cost

    return _cost(cost(graph), store)


def _cost(spent: Any, _: Any) -> Page:
    from zoolens.findings.graph.cost.cost_chart import cost_chart, layer_costs

    return Page("Cost by layer", sections=(Section(charts=(cost_chart(layer_costs(spent)),)),))


def _trace(trace: Any, store: Any) -> Page:
    return _traces([trace], store)


def _traces(traces: Sequence[Any], store: Any, further: Sequence[Section] = ()) -> Page:
    from zoolens.base.store.store import borrowed_store
    from zoolens.findings.tracing.stored import spans_of
    from zoolens.findings.tracing.trace_page import page_of_traces

    with borrowed_store(store, must_exist=True) as opened:
        return page_of_traces([(trace, spans_of(opened, trace.run)) for trace in traces], further)


def _traces_compared(comparison: Any, store: Any) -> Page:
    from zoolens.findings.tracing.trace_page import comparison_section

    return _traces([comparison.a, comparison.b], store, [comparison_section(comparison)])


def _explanation(explanation: Any, _: Any) -> Page:
    from zoolens.training.crosstrain.study.explanation.share_chart import shares_chart
    from zoolens.training.crosstrain.study.explanation.study_explanation_words import lines

    chart = shares_chart(explanation)
    text = tuple(line.strip() for line in lines(explanation) if line.strip())
    return Page(f"Study {explanation.study}", sections=(Section(items=text, charts=(chart,) if chart else ()),))


def _session(session: Any, _: Any) -> Page:
    from zoolens.faces.serving.services.session_chart import session_chart, session_course

    return Page(session.service, sections=(Section(charts=(session_chart(session_course(session)),)),))


def _chart(chart: Any, _: Any) -> Page:
    return Page(chart.title, sections=(Section(charts=(chart,)),))


def _page(page: Any, _: Any) -> Page:
    given: Page = page
    return given
