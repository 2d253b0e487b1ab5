"""A run under load in the store: its figures as observations, its requests as a series."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from zoolens.base.protocol.documents import model_to_data, server_to_data
from zoolens.base.statistics.intervals import CONFIDENCE
from zoolens.base.store.records import (
    DatasetRecord,
    ModelRecord,
    Observation,
    Run,
    RunKind,
    StackRecord,
    fingerprint,
    unavailable,
)
from zoolens.base.store.series import append_series
from zoolens.base.store.store import Store
from zoolens.faces.load.exchanges import Outcome
from zoolens.faces.load.report import run_as_data
from zoolens.faces.load.results import Share
from zoolens.faces.load.run_load import LoadRun

STAGE: Final = "load"
ANSWERED: Final = "answered"  # the scope of latencies of answered requests alone
REQUESTS: Final = "requests"  # the series with a row for each request; `zoolens load --trace` replays it


def store_run(store: Store, run: LoadRun) -> Run:
    """Every run is a run of its own: load is never measured twice under the same conditions."""
    target = run.target
    document = {"address": str(target.address), **model_to_data(target.model)}
    model = ModelRecord(fingerprint(document), f"served:{target.model.name}", "v2-endpoint", document)
    load = fingerprint(["load", run.sent, run.pattern])
    dataset = DatasetRecord(load, f"load: {run.sent}", run.results.requests)
    identity = {"address": str(target.address), **server_to_data(target.server)}
    stack = StackRecord(fingerprint(identity), "load", identity, identity)
    details = {**run_as_data(run), "arrivals": run.pattern}
    stored = store.begin_attempt(model, dataset, stack, kind=RunKind.LOAD, resolved={"load": details})
    append_series(store, stored.id, REQUESTS, run.exchanges.table())
    store.finish_stage(stored.id, STAGE, list(_observations(run)))
    return store.run(stored.id)


def _observations(run: LoadRun) -> Iterator[Observation]:
    """Latencies of all requests, where one without an answer took for ever, and beside them those of the answered. What
    a driver that was late has measured says nothing about the server and is not stored as a figure."""
    results = run.results
    if not results.valid:
        reason = " ".join(results.invalid)
        yield from (unavailable(f"load_latency_{row.name}", reason, unit="s") for row in results.percentiles)
        return
    about = {"loop": results.loop, "confidence": CONFIDENCE}
    answered = results.outcomes.get(Outcome.ANSWERED, 0)
    for row in results.percentiles:
        metric = f"load_latency_{row.name}"
        if math.isfinite(row.asked):
            yield Observation(metric, row.asked, unit="s", n=results.requests, details=about)
        else:
            yield unavailable(metric, "so many requests were not answered that it is infinite", unit="s")
        if answered:
            yield Observation(
                metric, row.answered, scope=ANSWERED, unit="s", low=row.low, high=row.high, n=answered, details=about
            )
    yield from _share("goodput", results.goodput)
    yield from _share("answer_accuracy", results.accuracy)
    yield Observation("answered_rate", results.answered_rate, unit="requests/s", details=about)


def _share(metric: str, share: Share | None) -> Iterator[Observation]:
    if share is not None and share.total:
        low, high = share.interval if share.interval is not None else (None, None)
        yield Observation(metric, share.value, unit="fraction", low=low, high=high, n=share.total)
