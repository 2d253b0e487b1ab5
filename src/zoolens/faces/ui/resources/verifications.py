"""/endpoints: which model answers behind an address: what `zoolens verify-endpoint` asked and found, over time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from pydantic import Field

from zoolens.base.present.charts import Spec, drawn_spec, themed
from zoolens.base.present.figures import figure
from zoolens.base.present.tables import Column, Table
from zoolens.base.store.records import RunKind
from zoolens.base.verdicts import Outcome
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, NotFound, Paged, Query, RowPage, RunName, Shown
from zoolens.faces.ui.page_figures import TileItem
from zoolens.faces.ui.resources.run import facts_of
from zoolens.faces.ui.resources.runs import Fact
from zoolens.faces.ui.verdict_items import VerdictItem, verdict_item
from zoolens.faces.ui.word_tables import WordTable, word_table
from zoolens.findings.endpoints.endpoint_charts import distance_chart, evidence_chart, verdicts_chart
from zoolens.findings.endpoints.endpoint_history import (
    MOST,
    AskedPrompt,
    StoredVerification,
    evidence_of,
    prompts_of,
    read_verification,
    verifications,
)
from zoolens.findings.endpoints.questions import By

_COMPARED: Final = {By.LOGPROBS: "log-probabilities", By.TOKENS: "tokens", None: "not known"}
_HISTORY: Final = 100  # verifications of one endpoint that are listed
_AGAINST: Final = "evidence_against"
_MODELS: Final = (
    Column("model"),
    Column("standing", "key"),
    Column("evidence against it", "number"),
    Column("mean distance", "number"),
    Column("largest distance", "number"),
)


class EndpointsQuery(Paged):
    limit: int = Field(20, ge=1, le=100)


class VerificationQuery(Query):
    run: RunName


class VerificationItem(Answer):
    """One time that an endpoint was asked."""

    run: str
    created: datetime
    address: Shown
    claimed: Shown
    """The model that it is said to have."""
    outcome: Outcome
    sentence: Shown
    """The verdict in words."""
    prompts: int
    error: float


class EndpointItem(Answer):
    """An endpoint with the newest verdict on it, of `verifications` in all."""

    newest: VerificationItem
    verifications: int


class EndpointList(RowPage[EndpointItem]):
    older: bool
    """Whether there may be older verifications, which were not counted."""


class EndpointDetail(Answer):
    """One verification with its evidence, and the others of the same endpoint."""

    verification: VerificationItem
    verdict: VerdictItem
    tiles: list[TileItem]
    models: WordTable
    """How each model stands that was considered."""
    evidence: Spec
    evidence_known: bool
    """Whether the evidence against other models is known, too."""
    distances: Spec | None
    """null where the endpoint told no log-probabilities."""
    told: list[Fact]
    """What the endpoint told, and what it did not."""
    stated: list[Fact]
    """What it states of its model, which nobody has checked."""
    limits: list[Shown]
    """What the verdict does not say."""
    settings: list[Fact]
    history: list[VerificationItem]
    """The newest first, of `history_total`."""
    history_total: int
    verdicts: Spec | None
    """null where it was asked only once."""


def endpoints(context: Context, query: EndpointsQuery) -> EndpointList:
    known = verifications(context.store)
    counts = Counter(found.address for found in known)
    newest = list({found.address: found for found in reversed(known)}.values())
    newest.sort(key=lambda found: found.when, reverse=True)
    rows = [EndpointItem(newest=_item(found), verifications=counts[found.address]) for found in newest[query.page]]
    return EndpointList(total=len(newest), offset=query.offset, rows=rows, older=len(known) == MOST)


def endpoint(context: Context, query: VerificationQuery) -> EndpointDetail:
    run = context.store.run(query.run)
    if run.kind is not RunKind.VERIFICATION:
        raise NotFound(f"Run {run.id[:8]} is no verification of an endpoint.")
    found, prompts = read_verification(run), prompts_of(context.store, run)
    evidence = evidence_of(found, prompts)
    history = [other for other in verifications(context.store) if other.address == found.address]
    shown = history[:_HISTORY]
    return EndpointDetail(
        verification=_item(found),
        verdict=verdict_item(found.sentence, found.verdict),
        tiles=list(_tiles(found)),
        models=word_table(_models(context, found, prompts)),
        evidence=themed(evidence_chart(found, evidence)),
        evidence_known=bool(evidence.other),
        distances=drawn_spec(distance_chart(found, prompts)),
        told=list(_told(found, prompts)),
        stated=facts_of(found.stated),
        limits=list(found.limits),
        settings=list(_settings(found)),
        history=[_item(other) for other in shown],
        history_total=len(history),
        verdicts=_verdicts(context, shown) if len(shown) > 1 else None,
    )


def _item(found: StoredVerification) -> VerificationItem:
    return VerificationItem.of(found, run=found.run.id, created=found.when)


def _tiles(found: StoredVerification) -> Iterator[TileItem]:
    yield TileItem(figure=f"{found.prompts:,}", title="prompts were asked")
    yield TileItem(figure=f"{found.error:g}", title="error level")
    yield TileItem(figure=f"{found.allowance:g}", title="allowance, as a total variation")
    yield TileItem(figure=_COMPARED[found.by], title="what was compared")


def _models(context: Context, found: StoredVerification, prompts: Sequence[AskedPrompt]) -> Table:
    stored = context.store.observations(found.run.id)
    against = {each.scope: each.value for each in stored if each.metric == _AGAINST}
    rows = []
    for place, (name, standing) in enumerate(found.models.items()):
        power = against.get(name)
        told = [prompt.distances[place] for prompt in prompts if not math.isnan(prompt.distances[place])]
        rows.append(
            (
                name,
                standing,
                None if power is None else f"10^{power:.1f}".replace("-", "−"),
                figure(sum(told) / len(told), "") if told else None,
                figure(max(told), "") if told else None,
            )
        )
    return Table("models", _MODELS, tuple(rows))


def _told(found: StoredVerification, prompts: Sequence[AskedPrompt]) -> Iterator[Fact]:
    if found.by is By.LOGPROBS:
        whole = sum(not math.isnan(prompt.distances[0]) for prompt in prompts)
        yield Fact(name="log-probabilities", value=f"enough of them for {whole:,} of {len(prompts):,} prompts")
        if whole < len(prompts):
            lacking = f"{len(prompts) - whole:,} prompts: it refused them, or told too few likely tokens"
            yield Fact(name="not told", value=lacking)
    elif found.by is By.TOKENS:
        yield Fact(name="log-probabilities", value="none were compared: only the tokens that it chose")
    if found.failure:
        yield Fact(name="asking ended early", value=found.failure)
    if not found.stated:
        yield Fact(name="about its model", value="it states nothing")


def _settings(found: StoredVerification) -> Iterator[Fact]:
    settings = found.settings
    yield Fact(name="texts", value=settings["data"] or "Python's help")
    yield Fact(name="long prompts", value=f"{settings['context']:,} tokens")
    yield Fact(name="prompts at most", value=f"{settings['most']:,}")
    yield Fact(name="sent as", value="conversations" if settings["chat"] else "tokens")
    yield Fact(name="seed", value=str(settings["seed"]))


def _verdicts(context: Context, history: Sequence[StoredVerification]) -> Spec | None:
    ids = [found.run.id for found in history]
    stored = context.store.observations_by_run(ids, metrics=[_AGAINST])
    ends = {
        run: each.value
        for found in history
        for run in [found.run.id]
        for each in stored.get(run, ())
        if each.scope == found.claimed and each.value is not None
    }
    drawn = [found for found in history if found.run.id in ends]
    return themed(verdicts_chart(drawn, [ends[found.run.id] for found in drawn])) if len(drawn) > 1 else None


ENDPOINTS: Final = (
    Endpoint("/endpoints", "Endpoints that were asked which model they have, with the newest verdict", endpoints),
    Endpoint("/endpoints/{run}", "One verification of an endpoint: verdict, evidence, history", endpoint),
)
