"""Which requests a bundle can answer, derived from the endpoints' own declarations.

The first part of an endpoint's path says what it is about, and so which of the chosen things fill its fields. Fields
with a fixed set of values are asked with each of them; others keep their default, unless CHOICES knows more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Lt

from zoolens.base.errors import ZoolensError
from zoolens.base.present.text import clean
from zoolens.base.store.browsing import figures_stored
from zoolens.base.store.records import RunKind
from zoolens.faces.ui.bundle.contents import BundleContents
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, File, Paged
from zoolens.faces.ui.jobs.outputs import printed_by
from zoolens.faces.ui.known_datasets import known_datasets
from zoolens.faces.ui.resources.choose import ChooseQuery, choose
from zoolens.faces.ui.resources.model import ModelQuery, model
from zoolens.faces.ui.resources.run_answers import PredictionsQuery
from zoolens.faces.ui.resources.studies import study_findings
from zoolens.findings.comparisons.answer_pages import AnswersWithin, order_of_answers
from zoolens.findings.queries.planning.metrics import ALIASES
from zoolens.training.crosstrain.study.report.plane_chart import plane_names

Parameters = dict[str, Any]
Subjects = Callable[[Context, BundleContents], Iterable[Parameters]]

X, Y = (str(ChooseQuery.model_fields[name].default) for name in "xy")  # what models are compared by, unless asked
PAGING: Final = ("offset", "limit")
MOST_PARTS: Final = 100
MOST_PLANES: Final = 400  # pictures of one study's space
MOST_DATASETS: Final = 6
MOST_REDRAWN: Final = 200  # runs that can be chosen from by other figures than the usual ones
LEFT_OUT: Final = {  # first parts of paths, or whole ones -> why no bundle has them
    "choose/completions": "queries are typed where there is a server",
    "jobs": "jobs need a server",
    "home": "what is new and what needs a look are about a store that is used",
    "search": "lists are searched in the browser",
    "folder": "folders of this machine",
    "fleet": "machines and jobs change while they are looked at; `fleet grid --json` has the table",
    "services": "what runs now needs a server",
    "endpoints": "who answers at an address is about an address, and `runs --kind verification` lists it",
    "live": "models need a server",
    "comparison/finding": "it is about a job",
    "divergences/{id}/inputs": "`inputs` sees to it",
    "divergences/{id}/inputs/{index}": "`inputs` sees to it",
    "runs/{run}/json": "the page shows the same",
    "runs/{run}/inputs": "`inputs` sees to it",
    "runs/{run}/inputs/{index}": "`inputs` sees to it",
    "traces/{run}/span": "the timeline shows where it is and how long it takes",
    "traces/{run}/data": "the page shows the same",
    "traces/{run}/chrome": "the page shows the same",
}


def _once(_: Context, __: BundleContents) -> Iterator[Parameters]:
    yield {}


def _of_runs(_: Context, chosen: BundleContents) -> Iterator[Parameters]:
    yield {}
    yield from ({"run": run.id} for run in chosen.runs)
    yield from ({"run": a, "other": b} for a, b in chosen.pairs)


def _of_models(context: Context, chosen: BundleContents) -> Iterator[Parameters]:
    yield from ({"ref": ref} for ref in chosen.models)
    yield from ({"ref": ref, "data": data} for ref in chosen.models for data in _dataset_names(context))


def _of_networks(context: Context, chosen: BundleContents) -> Iterator[Parameters]:
    """Networks that findings of audits set against each other, and those of chosen models of one name."""
    pairs = list(chosen.network_pairs)
    for ref in chosen.models:
        with suppress(ZoolensError):
            pairs += [(ref, other.ref) for other in model(context, ModelQuery(ref=ref)).namesakes]
    yield from ({"a": a, "b": b} for a, b in dict.fromkeys(pairs))


def _of_audits(_: Context, chosen: BundleContents) -> Iterator[Parameters]:
    yield {}
    for audit in chosen.audits:
        yield {"id": audit.id}
        yield from ({"id": audit.id, "finding": clean(finding["id"])} for finding in printed_by(audit)["findings"])


def _of_divergences(_: Context, chosen: BundleContents) -> Iterator[Parameters]:
    yield {}
    yield from ({"id": job.id} for job in chosen.divergences)


def _of_choices(context: Context, chosen: BundleContents) -> Iterator[Parameters]:
    """Every query, and all runs without one, by every two of the usual figures where the runs are few."""
    if not chosen.runs:
        return
    for q, data in (*((q, "") for q in ("", *chosen.queries)), *(("", name) for name in _dataset_names(context))):
        asked = {"q": q, "data": data}
        try:
            known = [metric.name for metric in choose(context, ChooseQuery.model_validate(asked)).metrics]
        except ZoolensError:
            # Such as a store of detectors alone, where the query has to name the task: the page says so.
            known = []
        named = [name for name in known if name in ALIASES]
        few = len(chosen.runs) <= MOST_REDRAWN
        yield from ({**asked, "x": x, "y": y} for x in named for y in named if few and x != y)
        if not few or not {X, Y} <= set(named):
            yield {**asked, "x": X, "y": Y}


def _dataset_names(context: Context) -> list[str]:
    """The datasets that a reader of the bundle can choose; none where there is but one."""
    names = [known.name for known in known_datasets(context)]
    return names[:MOST_DATASETS] if len(names) > 1 else []


def _of_traces(_: Context, chosen: BundleContents) -> Iterator[Parameters]:
    yield {}
    yield from ({"run": run.id} for run in chosen.traces)
    yield from ({"run": a.id, "other": b.id} for a in chosen.traces for b in chosen.traces if a.id != b.id)


def _of_reports(_: Context, chosen: BundleContents) -> Iterator[Parameters]:
    yield {}
    yield from ({"id": report} for report in chosen.reports)


def _of_studies(context: Context, chosen: BundleContents) -> Iterator[Parameters]:
    for name in chosen.studies:
        yield {"name": name}
        findings = study_findings(context, name)
        yield from ({"name": name, "trial": trial.id} for trial in findings.study.trials)
        axes = plane_names(findings)
        if len(axes) ** 2 <= MOST_PLANES:
            yield from ({"name": name, "x": x, "y": y} for x in axes for y in axes)


SUBJECTS: Final[Mapping[str, Subjects]] = {
    "about": _once,
    "models": _once,
    "figures": _once,
    "studies": _once,
    "runs": _of_runs,
    "comparison": lambda _, chosen: ({"a": a, "b": b} for a, b in chosen.pairs),
    "model": _of_models,
    "network": _of_models,
    "history": _of_models,
    "measured": _of_models,
    "networks": _of_networks,
    "audits": _of_audits,
    "divergences": _of_divergences,
    "choose": _of_choices,
    "datasets": _once,
    "reports": _of_reports,
    "traces": _of_traces,
    "study": _of_studies,
}


@dataclass(frozen=True)
class Listing:
    """How a list is searched in the browser."""

    # The fields of a row whose words `q` looks through; none: all
    search: tuple[str, ...] = ()
    # Whether `q` is a search at all; otherwise it says what the list is about
    searched: bool = True
    # Fields of the query that end in _low or _high, and the numbers of rows that they limit
    ranges: Mapping[str, str] = field(default_factory=dict)
    # Fields of the query that name a field of the row with * and ?
    patterns: Mapping[str, str] = field(default_factory=dict)
    # Fields of the query that must equal a field of the row, such as "ours.answer"
    equals: Mapping[str, str] = field(default_factory=dict)
    # The field of a row that `since` and `until` are compared with
    since: str = ""
    # What is meant where a facet is not chosen
    usual: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Numbers of the answer that say how many rows come last, because what they are sorted by is not known
    last: tuple[str, ...] = ()
    # The places, among the rows of the usual request, of those that another request lists: for lists that are too long
    # to be asked again for each order
    order: Callable[[Context, Parameters], list[int]] | None = None


def _order_of_predictions(context: Context, parameters: Parameters) -> list[int]:
    query = PredictionsQuery.model_validate(parameters)
    run, other = (context.store.run(name) if name else None for name in (query.run, query.other))
    assert run is not None
    within = AnswersWithin(query.label, query.answer, query.bin)
    return order_of_answers(context.answers, run, other, order=query.order, shown=query.shown, within=within)


LISTINGS: Final[Mapping[str, Listing]] = {
    "/runs": Listing(
        search=("model", "dataset", "runtime", "id"),
        patterns={"model": "model", "dataset": "dataset", "runtime": "runtime"},
        since="created",
        usual={"kind": (str(RunKind.EVALUATION),)},
        last=("lacking",),
    ),
    "/runs/{run}/predictions": Listing(
        equals={"label": "label", "answer": "ours.answer"}, last=("unknown",), order=_order_of_predictions
    ),
    "/runs/{run}/observations": Listing(equals={"metric": "figure.metric"}),
    "/models": Listing(search=("ref", "description", "licence", "formats", "runtimes", "datasets")),
    "/traces": Listing(search=("model", "inputs", "runtime", "id"), patterns={"model": "model", "runtime": "runtime"}),
    "/studies": Listing(search=("name",)),
    "/choose/rows": Listing(
        searched=False,
        ranges={"x_low": "x_value", "x_high": "x_value", "y_low": "y_value", "y_high": "y_value"},
    ),
    "/audits/{id}/findings": Listing(search=("title", "rule", "architecture", "models", "evidence")),
}


def _run_sorts(context: Context, _: Parameters) -> list[str]:
    names = ["created"]
    for metric, scope in figures_stored(context.store):
        names.append(f"{metric}@{scope}" if scope else metric)
    return [f"{sign}{name}" for name in names for sign in ("", "-")]


def _levels(context: Context, parameters: Parameters) -> list[str]:
    run = context.store.run(parameters["run"])
    return ["", *context.traces.timelines(run)]


CHOICES: Final[Mapping[tuple[str, str], Callable[[Context, Parameters], Sequence[Any]]]] = {
    ("/runs", "sort"): _run_sorts,
    ("/models", "data"): lambda context, _: ("", *_dataset_names(context)),
    ("/study/trials", "sort"): lambda _, __: ("delta", "-delta", "trial", "-trial"),
    ("/traces/{run}/timeline", "level"): _levels,
}


def is_recorded(endpoint: Endpoint) -> bool:
    """Whether bundles have what this endpoint answers."""
    path = endpoint.template.strip("/")
    root = path.split("/")[0]
    return endpoint.method == "GET" and not endpoint.stream and root in SUBJECTS and path not in LEFT_OUT


def is_list(endpoint: Endpoint) -> bool:
    """Whether its answer is a page of rows, all of which a bundle has."""
    if issubclass(endpoint.answer, File) or not issubclass(endpoint.query, Paged):
        return False
    return issubclass(endpoint.answer, Answer) and {"rows", "total"} <= set(endpoint.answer.model_fields)


def subjects(endpoint: Endpoint, context: Context, chosen: BundleContents) -> Iterator[Parameters]:
    """What fills the fields of the endpoint that say what it is about."""
    fields = endpoint.query.model_fields
    needed = {name for name, info in fields.items() if info.is_required() and not _values(info.annotation)}
    needed |= set(endpoint.names)
    for candidate in SUBJECTS[endpoint.template.split("/")[1]](context, chosen):
        if needed <= set(candidate) <= set(fields):
            yield candidate


def variants(endpoint: Endpoint, context: Context, subject: Parameters) -> Iterator[Parameters]:
    """Every combination of the further fields, the defaults first. Fields that narrow a list are not among them: the
    browser does that."""
    offered: dict[str, list[Any]] = {}
    for name, info in endpoint.query.model_fields.items():
        if name in subject or name in PAGING:
            continue
        known = CHOICES.get((endpoint.template, name))
        values = list(known(context, subject)) if known is not None else _values(info.annotation)
        if values and info.is_required():
            offered[name] = values
        elif values:
            default = info.get_default(call_default_factory=True)
            offered[name] = [default, *(value for value in values if value != default)]
    for combination in product(*offered.values()):
        yield dict(zip(offered, combination, strict=True))


def parts(endpoint: Endpoint) -> dict[str, range]:
    """Fields that narrow a list to one of a few numbered parts, such as a bin, and these numbers."""
    ranges: dict[str, range] = {}
    for name, info in endpoint.query.model_fields.items():
        limits: list[Any] = [limit.lt for limit in info.metadata if isinstance(limit, Lt)]
        if name not in PAGING and not info.is_required() and limits and limits[0] <= MOST_PARTS:
            ranges[name] = range(limits[0])
    return ranges


def _values(annotation: Any) -> list[Any]:
    """The values that a field can have; none where they cannot be counted."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        return _values(parts[0]) if len(parts) == 1 else []
    if annotation is bool:
        return [False, True]
    return (
        [member.value for member in annotation] if isinstance(annotation, type) and issubclass(annotation, Enum) else []
    )
