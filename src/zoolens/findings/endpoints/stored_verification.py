"""A verification in the store: what it found as observations, its prompts as a series."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, Run, RunKind, StackRecord, fingerprint
from zoolens.base.store.series import append_series
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.endpoints.candidate_model import CandidateModel
from zoolens.findings.endpoints.verification import Verification
from zoolens.findings.endpoints.verification_words import limits, sentence
from zoolens.inventory.runtimes.openai.openai_runtime import ENDPOINT

STAGE: Final = "verification"
PROMPTS: Final = "prompts"
TOLD: Final = "verification"  # in run.resolved: the verdict and what it rests on


def store_verification(found: Verification, models: Sequence[CandidateModel], store: Store | str | Path | None) -> Run:
    """Every verification is a run of its own: the same question next week is asked anew."""
    import pyarrow as pa

    document = {"address": found.address, "stated": dict(found.about), "claimed": found.named.name}
    model = ModelRecord(fingerprint(document), f"endpoint:{found.named.name}", ENDPOINT, document)
    settings = dict(found.settings)
    dataset = DatasetRecord(fingerprint(["prompts", settings]), f"prompts of seed {settings['seed']}", len(found.asked))
    identity = {"address": found.address, "models": [each.placement.title for each in models]}
    stack = StackRecord(fingerprint(identity), "verify-endpoint", identity, identity)
    told = {
        "sentence": sentence(found),
        **found.verdict.as_data(),
        "settings": settings,
        "standings": {each.name: each.standing.value for each in found.hypotheses},
        "failure": found.failure,
        "by": None if found.by is None else found.by.value,
        "limits": list(limits(found)),
    }
    rows = [{**asdict(asked), "distances": [asked.distances.get(each.name, math.nan) for each in found.hypotheses]}
            for asked in found.asked]  # fmt: skip
    with borrowed_store(store) as opened:
        run = opened.begin_attempt(model, dataset, stack, kind=RunKind.VERIFICATION, resolved={TOLD: told})
        if rows:
            append_series(opened, run.id, PROMPTS, pa.Table.from_pylist(rows))
        opened.finish_stage(run.id, STAGE, list(_observations(found)))
        return opened.run(run.id)


def _observations(found: Verification) -> Iterator[Observation]:
    yield Observation("prompts_asked", float(len(found.asked)), unit="prompts")
    for each in found.hypotheses:
        about = {"standing": each.standing.value, "error": each.error, "allowance": each.allowance}
        against = each.log_against / math.log(10)
        yield Observation("evidence_against", against, each.name, unit="powers of ten", n=each.asked, details=about)
        if each.distances:
            mean = sum(each.distances) / len(each.distances)
            yield Observation("told_distance", mean, each.name, n=len(each.distances), details=about)
