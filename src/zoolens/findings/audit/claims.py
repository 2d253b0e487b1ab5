"""What zoos say about their models, as observations of provenance *claimed* in the one store.

A claim hangs on a run like any other fact, so that every query, export and report finds it: the model is the manifest
that carries the claims (its fingerprint is theirs, so equal claims are one run and changed ones a new one), the
dataset is "published claims", the stack is "claim:published", which the store leaves out wherever measured runs are
asked for. What the claim is about, such as ImageNet-1K at 288×288, is the scope; its source is in the details.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any, Final

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import (
    DONE,
    DatasetRecord,
    ModelRecord,
    Observation,
    Provenance,
    RunKey,
    RunKind,
    StackRecord,
    Stage,
    fingerprint,
)
from zoolens.base.store.store import Store
from zoolens.inventory.manifests.schema import Input, Manifest
from zoolens.inventory.manifests.schema_boxes import Letterbox
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize
from zoolens.inventory.zoos.zoo import Entry

STAGE: Final = Stage.CLAIMS
RUNTIME: Final = "claim:published"
DATASET: Final = DatasetRecord(fingerprint(["published claims"]), "published claims", 0)
_CARRIED: Final = {"name", "version", "references", "framework", "inputs", "attributes", "claims"}


@dataclass(frozen=True)
class ClaimRow:
    """One claim of one model. `dataset` is what it was measured on, "" for params and the like; `value` is None for
    what is not a number (preprocessing), which is in `details`."""

    ref: str  # zoo:name
    metric: str
    value: float | None
    unit: str
    dataset: str
    source: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def zoo(self) -> str:
        return self.ref.partition(":")[0]

    @property
    def name(self) -> str:
        return self.ref.partition(":")[2]


@dataclass(frozen=True)
class RecordedClaims:
    """What `record_claims` did: models whose claims are new, and those that were known already."""

    written: int
    kept: int


def claims_of(entry: Entry) -> tuple[ClaimRow, ...]:
    """Every claim an entry carries: its figures, input size and preprocessing."""
    return (*_figures(entry), *_input_claims(entry))


def record_claims(store: Store, entries: Iterable[Entry]) -> RecordedClaims:
    """Write the claims of these entries. Those that the store has already are left alone, whoever wrote them."""
    known = {run.id for run in store.runs(kind=RunKind.CLAIM) if run.stages.get(STAGE) == DONE}
    written = kept = 0
    for entry in entries:
        rows = claims_of(entry)
        if rows and _key(entry).id in known:
            kept += 1
        elif rows:
            run = store.begin_run(_model(entry), DATASET, _stack(entry.zoo), kind=RunKind.CLAIM)
            store.finish_stage(run.id, STAGE, _observations(rows))
            written += 1
    return RecordedClaims(written, kept)


def claims_from(store: Store, entries: Sequence[Entry] | None = None) -> list[ClaimRow]:
    """The claims in the store: of these entries as they are now, or else the newest of every model."""
    refs = {_key(entry).id: entry.ref for entry in entries} if entries is not None else _newest(store)
    observations = store.observations_by_run(list(refs))
    return [_row(refs[run_id], observation) for run_id in refs for observation in observations.get(run_id, ())]


def first_claims(claims: Iterable[ClaimRow]) -> dict[tuple[str, str], ClaimRow]:
    """The first claim of each model about each metric. Zoos list the figure at the manifest's own image size first."""
    firsts: dict[tuple[str, str], ClaimRow] = {}
    for claim in claims:
        firsts.setdefault((claim.ref, claim.metric), claim)
    return firsts


# --- claims of an entry


def _figures(entry: Entry) -> Iterator[ClaimRow]:
    for claim in entry.manifest.claims:
        yield ClaimRow(entry.ref, claim.metric, claim.value, claim.unit, claim.dataset or "", claim.source)


def _input_claims(entry: Entry) -> Iterator[ClaimRow]:
    first = entry.manifest.inputs[0]
    if first.modality != "image":
        return
    source = _listed_from(entry)
    height = first.shape[first.layout.index("H")]
    if height is not None:
        details = {"shape": list(first.shape), "layout": first.layout}
        yield ClaimRow(entry.ref, "input_size", float(height), "pixels", "", source, details)
    if first.preprocess:
        details = preprocessing_facts(first)
        if assumed := entry.manifest.attributes.get("assumed"):
            details["assumed"] = assumed  # by us, where the zoo says nothing
        yield ClaimRow(entry.ref, "preprocessing", None, "", "", source, details)


def preprocessing_facts(first: Input) -> dict[str, Any]:
    """Resize, interpolation, crop and normalisation of an input as flat values that can be compared across zoos."""
    facts: dict[str, Any] = {"color": first.color, "layout": first.layout}
    for step in first.preprocess:
        if isinstance(step, Resize | Letterbox):
            size = list(step.size) if isinstance(step.size, tuple) else step.size
            facts |= {"resize": size, "interpolation": step.method, "resize_library": step.library}
            facts |= {"fit": step.fit, "fill": step.fill} if isinstance(step, Letterbox) else {}
        elif isinstance(step, CenterCrop):
            facts |= {"crop": list(step.size)} if step.size else {"crop_fraction": step.fraction}
        elif isinstance(step, Normalize):
            facts |= {"scale": step.scale, "mean": list(step.mean), "std": list(step.std)}
    return facts


def _listed_from(entry: Entry) -> str:
    """The package that the zoo's listing was read from, else the page its table cites."""
    versions = _versions(entry.zoo)
    if versions:
        name, version = next(iter(versions.items()))
        return f"{name} {version}"
    return next(iter(entry.manifest.references), f"the {entry.zoo} zoo")


@cache
def _versions(zoo: str) -> dict[str, str]:
    try:
        distributions = plugins.load(plugins.ZOOS, zoo).distributions
        return {name: metadata.version(name).partition("+")[0] for name in distributions}
    except (ZoolensError, metadata.PackageNotFoundError):
        # A model named by its path, or a zoo that is not registered.
        return {}


# --- records


def _content(manifest: Manifest) -> dict[str, Any]:
    """What a claim run keeps of a manifest: class names and file locations make no claim."""
    return manifest.model_dump(mode="json", exclude_defaults=True, include=_CARRIED)


def _model(entry: Entry) -> ModelRecord:
    content = _content(entry.manifest)
    return ModelRecord(fingerprint(["claims", entry.ref, content]), entry.full_ref, "manifest", content)


def _stack(zoo: str) -> StackRecord:
    identity = {"zoo": zoo}
    return StackRecord(fingerprint(["claims", identity]), RUNTIME, identity, {"packages": _versions(zoo)})


def _key(entry: Entry) -> RunKey:
    return RunKey(_model(entry).fingerprint, DATASET.fingerprint, _stack(entry.zoo).fingerprint)


def _observations(rows: Sequence[ClaimRow]) -> Iterator[Observation]:
    """A second claim of the same metric about the same data gets a number, since a scope is unique in a run."""
    seen: Counter[tuple[str, str]] = Counter()
    for row in rows:
        seen[row.metric, row.dataset] += 1
        count = seen[row.metric, row.dataset]
        yield Observation(
            metric=row.metric,
            value=row.value,
            scope=row.dataset if count == 1 else f"{row.dataset} ({count})",
            unit=row.unit,
            provenance=Provenance.CLAIMED,
            details={"source": row.source, "dataset": row.dataset, **row.details},
        )


def _row(ref: str, observation: Observation) -> ClaimRow:
    details = {key: value for key, value in observation.details.items() if key not in ("source", "dataset")}
    source, dataset = str(observation.details["source"]), str(observation.details["dataset"])
    return ClaimRow(ref, observation.metric, observation.value, observation.unit, dataset, source, details)


def _newest(store: Store) -> dict[str, str]:
    """Run id to ref, one run a model."""
    run_of_ref: dict[str, str] = {}
    for run in store.runs(kind=RunKind.CLAIM):
        run_of_ref.setdefault(run.model.ref.partition("@")[0], run.id)
    return {run_id: ref for ref, run_id in run_of_ref.items()}
