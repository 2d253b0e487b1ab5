"""/audits: what audits of zoos found. An audit is a job, and what it found is kept with the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field

from zoolens.base.present.text import clean
from zoolens.base.verdicts import Outcome
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, NotFound, Paged, Query, RowPage, Shown
from zoolens.faces.ui.facets import Facet, facet_column, faceted
from zoolens.faces.ui.jobs.folder import JobFolder
from zoolens.faces.ui.resources.jobs import Job, JobList, job_of, jobs, printed_by_kind
from zoolens.faces.ui.verdict_items import VerdictItem, printed_verdict

_LONGEST: Final = 200  # letters of a search or of a value
_KIND: Final = "audit"
_MOST_LINES: Final = 50  # of evidence, of models, of notes, unless more are asked for
_OF_NETWORKS: Final = frozenset(
    {"structure", "size", "constants", "shortcuts"}
)  # groups of rules that compare networks
_FACETS: Final[dict[str, Callable[[Mapping[str, Any]], list[str]]]] = {
    "severity": lambda finding: [str(finding["severity"])],
    "rule": lambda finding: [str(finding["rule"])],
    "architecture": lambda finding: [str(finding["architecture"])],
    "zoo": lambda finding: sorted({str(model).partition(":")[0] for model in finding["models"]}),
}

SeverityName = Literal["high", "medium", "low", "info"]


_GRAVEST_FIRST: Final[tuple[SeverityName, ...]] = ("high", "medium", "low", "info")


def audits(context: Context, query: Paged) -> JobList:
    """Audits that were started from the explorer, newest first."""
    return jobs(context, query, _KIND)


class AuditQuery(Query):
    id: str = Field(max_length=50, description="The id of the audit's job.")


class SeverityCount(Answer):
    severity: SeverityName
    count: int


class AuditSummary(Answer):
    """One audit, without its findings."""

    job: Job
    summary: Shown
    """The result in one sentence."""
    judged: VerdictItem
    """The same with its coverage, and an outcome where it is not known whether names stand for one network each."""
    notes: list[Shown]
    """Which zoos were left out, and why; the first of `total_notes`."""
    total_notes: int
    architectures: int
    severities: list[SeverityCount]
    """How many findings there are of each, the gravest first."""


def audit(context: Context, query: AuditQuery) -> AuditSummary:
    folder, printed = _audit(context, query.id)
    counts = gravest_first(context, query.id, None)
    return AuditSummary(
        job=job_of(folder),
        summary=printed["facts"].get("summary", ""),
        judged=_judged(printed),
        notes=printed["notes"][:_MOST_LINES],
        total_notes=len(printed["notes"]),
        architectures=len(printed["architectures"]),
        severities=[SeverityCount(severity=severity, count=counts.get(severity, 0)) for severity in _GRAVEST_FIRST],
    )


def gravest_first(context: Context, job_id: str, about: Collection[str] | None) -> dict[SeverityName, int]:
    """How many findings of an audit there are of each severity; `about`: only those about a model of such a name,
    whatever its version."""
    _, printed = _audit(context, job_id)
    names = None if about is None else {_bare(name) for name in about}
    counts = Counter(
        finding["severity"]
        for finding in printed["findings"]
        if names is None or not names.isdisjoint(_bare(str(model)) for model in finding["models"])
    )
    return {severity: counts[severity] for severity in _GRAVEST_FIRST if counts[severity]}


def _bare(ref: str) -> str:
    return ref.partition("@")[0]


def _judged(printed: dict[str, Any]) -> VerdictItem:
    """An audit finds faults and does not say that two things are the same: only that it is not known is an outcome."""
    verdict = printed_verdict(printed["facts"].get("summary", ""), printed)
    return verdict if verdict.outcome is Outcome.NOT_KNOWN else verdict.model_copy(update={"outcome": None})


class FindingsQuery(Paged):
    """Several values of one facet mean any of them; several facets, and several words of a search, all of them."""

    id: str = Field(max_length=50, description="The id of the audit's job.")
    q: str = Field("", max_length=_LONGEST, description="Words: parts of titles, evidence, names of models and rules.")
    severity: list[SeverityName] = Field([])
    rule: list[str] = Field([], max_length=50)
    architecture: list[str] = Field([], max_length=50)
    zoo: list[str] = Field([], max_length=50)


class FindingItem(Answer):
    """One thing that is not as it is said to be."""

    id: Shown
    severity: SeverityName
    rule: Shown
    architecture: Shown
    title: Shown
    models: list[Shown]
    """The models that it is about, the odd one first; at most the first 50 of `total_models`."""
    total_models: int
    evidence: list[Shown]
    total_evidence: int
    networks: list[Shown]
    """Two models whose networks the finding is about, the odd one first; empty where it is about something else."""
    fix: Shown


class FindingPage(Answer):
    """`total` findings fit, of `all`; the gravest come first."""

    total: int
    all: int
    offset: int
    rows: list[FindingItem]
    facets: list[Facet]


def findings(context: Context, query: FindingsQuery) -> FindingPage:
    _, printed = _audit(context, query.id)
    known = printed["findings"]
    words = query.q.casefold().split()
    searched = np.array([all(word in _text(finding) for word in words) for finding in known], np.bool_)
    columns = {name: facet_column(map(values, known)) for name, values in _FACETS.items()}
    fitting, facets = faceted(searched, columns, {name: getattr(query, name) for name in _FACETS})
    places = np.flatnonzero(fitting)[query.page].tolist()
    return FindingPage(
        total=int(np.count_nonzero(fitting)),
        all=len(known),
        offset=query.offset,
        rows=[_item(known[place]) for place in places],
        facets=[_by_gravity(facet) if facet.name == "severity" else facet for facet in facets],
    )


def _by_gravity(facet: Facet) -> Facet:
    by_value = {value.value: value for value in facet.values}
    return Facet(name=facet.name, values=[by_value[name] for name in _GRAVEST_FIRST if name in by_value])


def _text(finding: Mapping[str, Any]) -> str:
    parts = [finding[name] for name in ("title", "rule", "architecture")]
    parts += [*finding["models"], *finding["evidence"]]
    return "\n".join(map(str, parts)).casefold()


def _item(finding: Mapping[str, Any]) -> FindingItem:
    return FindingItem.of(
        finding,
        models=finding["models"][:_MOST_LINES],
        total_models=len(finding["models"]),
        evidence=finding["evidence"][:_MOST_LINES],
        total_evidence=len(finding["evidence"]),
        networks=_networks(finding),
    )


def _networks(finding: Mapping[str, Any]) -> list[str]:
    """The odd network and the one that it is held against, which rules name last: between them may stand others that
    are odd in the same way."""
    models = finding["models"]
    compares = str(finding["rule"]).partition("/")[0] in _OF_NETWORKS
    return [models[0], models[-1]] if compares and len(models) > 1 else []


class LinesQuery(Paged):
    """Long lists of an audit come in parts: its notes, or the models or the evidence of one finding."""

    id: str = Field(max_length=50, description="The id of the audit's job.")
    of: Literal["notes", "models", "evidence"]
    finding: str = Field("", max_length=2000, description="The id of the finding; empty for notes.")


class LinePage(RowPage[Shown]):
    pass


def lines(context: Context, query: LinesQuery) -> LinePage:
    _, printed = _audit(context, query.id)
    every = printed["notes"] if query.of == "notes" else _finding(printed, query.finding)[query.of]
    return LinePage(total=len(every), offset=query.offset, rows=every[query.page])


def _finding(printed: Mapping[str, Any], finding_id: str) -> Mapping[str, Any]:
    for finding in printed["findings"]:
        if clean(finding["id"]) == finding_id:  # the id as the browser was given it
            return dict(finding)
    raise NotFound("This audit has no such finding.")


def _audit(context: Context, job_id: str) -> tuple[JobFolder, dict[str, Any]]:
    return printed_by_kind(context, job_id, _KIND, "This job is not an audit.")


ENDPOINTS: Final = (
    Endpoint("/audits", "Audits of zoos, newest first", audits),
    Endpoint("/audits/{id}", "One audit: how many findings of each severity", audit),
    Endpoint("/audits/{id}/findings", "What an audit found", findings),
    Endpoint("/audits/{id}/lines", "Models or evidence of a finding, or notes of an audit", lines),
)
