"""A run under load in the store: its figures as observations, its requests as a series."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zoolens.load.api import LoadRun
from zoolens.load.report import run_as_data
from zoolens.load.results import Share
from zoolens.protocol.documents import model_to_data, server_to_data
from zoolens.statistics.intervals import CONFIDENCE
from zoolens.store.records import DatasetRecord, ModelRecord, Observation, Run, RunKind, StackRecord, fingerprint
from zoolens.store.series import append_series
from zoolens.store.store import Store

STAGE: Final = "load"
REQUESTS: Final = "requests"  # the series with a row for each request; `zoolens load --trace` replays it


def store_run(store: Store, run: LoadRun) -> Run:
    """Every run is a run of its own: load is never measured twice under the same conditions."""
    target = run.target
    document = {"address": str(target.address), **model_to_data(target.model)}
    model = ModelRecord(fingerprint(document), f"served:{target.model.name}", "v2-endpoint", document)
    dataset = DatasetRecord(fingerprint(["load", run.sent, run.pattern]), f"load: {run.sent}", run.results.requests)
    identity = {"address": str(target.address), **server_to_data(target.server)}
    stack = StackRecord(fingerprint(identity), "load", identity, identity)
    attempt = store.next_attempt(model.fingerprint, dataset.fingerprint, stack.fingerprint)
    details = {**run_as_data(run), "arrivals": run.pattern}
    stored = store.begin_run(model, dataset, stack, kind=RunKind.LOAD, attempt=attempt, resolved={"load": details})
    append_series(store, stored.id, REQUESTS, run.exchanges.table(run.started_ns))
    store.finish_stage(stored.id, STAGE, list(_observations(run)))
    return store.run(stored.id)


def _observations(run: LoadRun) -> Iterator[Observation]:
    results = run.results
    about = {"loop": results.loop, "valid": results.valid, "confidence": CONFIDENCE}
    answered = sum(row.count for row in results.models)
    for row in results.percentiles:
        if row.answered == row.answered:  # not a number where nothing was answered
            yield Observation(
                f"load_latency_{row.name}",
                row.answered,
                unit="s",
                low=row.low,
                high=row.high,
                n=answered,
                details=about,
            )
    yield from _share("goodput", results.goodput)
    yield from _share("answer_accuracy", results.accuracy)
    yield Observation("answered_rate", results.answered_rate, unit="requests/s", details=about)


def _share(metric: str, share: Share | None) -> Iterator[Observation]:
    if share is not None and share.total:
        low, high = share.interval if share.interval is not None else (None, None)
        yield Observation(metric, share.value, unit="fraction", low=low, high=high, n=share.total)
