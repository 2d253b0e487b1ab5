"""The attributes of a row: what WHERE and EXEC ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zoolens.base.store.records import ANSWERING_KINDS, Run, RunKind
from zoolens.findings.comparisons.contents import file_of, folder_of
from zoolens.findings.index.tables.rows import Attribute
from zoolens.inventory.manifests.twins import segments_of_twin
from zoolens.inventory.tasks.task import DEFAULT_TASK


def split_ref(ref: str) -> tuple[str, str, str]:
    """Split "zoo:name@version" into zoo, name and version; an absent part is ""."""
    zoo, colon, rest = ref.partition(":")
    name, _, version = (rest if colon else ref).partition("@")
    return zoo if colon else "", name, version


def manifest_of(run: Run) -> Mapping[str, Any]:
    """The manifest as this run's user had it."""
    manifest: Mapping[str, Any] = run.origin.get("manifest") or run.model.manifest
    return manifest


def run_attributes(run: Run) -> dict[str, Attribute]:
    """The attributes of a run: what its manifest says of the model, and in which environment it ran."""
    manifest = manifest_of(run)
    described = dict(_trained(run)) if run.kind is RunKind.TRAINING else dict(_described(manifest))
    known = {**described, **dict(_identified(run.ref)), "format": run.model.format}
    if run.kind in ANSWERING_KINDS:
        known |= dict(_ran_in(run))
    return {name: value for name, value in known.items() if value not in (None, "")}


def _identified(ref: str) -> Iterator[tuple[str, Attribute]]:
    zoo, name, version = split_ref(ref)
    yield from (("ref", ref), ("zoo", zoo), ("name", name), ("version", version))


def _described(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Attribute]]:
    given = manifest.get("attributes") or {}
    for name, value in given.items():
        if isinstance(value, str | int | float | bool):
            yield str(name), value
    yield "segments", segments_of_twin(given) if "twin_of" in given else ""
    # Absent where only claims are kept.
    outputs = manifest.get("outputs")
    yield "task", (outputs[0].get("task") or DEFAULT_TASK) if outputs else ""
    yield "element_type", manifest.get("element_type") or ("float32" if outputs else "")
    yield "license", manifest.get("license") or ""
    yield "description", manifest.get("description") or ""
    yield "framework", (manifest.get("framework") or {}).get("name") or ""


def _trained(run: Run) -> Iterator[tuple[str, Attribute]]:
    yield "framework", str(run.stack.identity.get("framework") or "")
    # Trainings of one recipe share its name, and are different models.
    yield "training", run.id


def _ran_in(run: Run) -> Iterator[tuple[str, Attribute]]:
    identity, options = run.stack.identity, run.stack.identity.get("options") or {}
    yield "runtime", run.stack.runtime
    yield "runtime_version", run.stack.version or ""
    yield "device", options.get("device") or "cpu"
    yield "precision", run.precision or ""
    yield "mode", options.get("mode") or ""
    threads = run.resolved.get("threads") or options.get("threads")
    if threads:
        yield "threads", float(threads)
    yield "cpu", (identity.get("machine") or {}).get("cpu") or ""
    yield "dataset", run.dataset.name
    yield "measured", run.created.isoformat(timespec="seconds")
    yield "evaluated", run.evaluated
    yield "folder", folder_of(run)
    yield "file", file_of(run)
