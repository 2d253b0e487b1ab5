"""How long the server takes to prepare one input for a model and to read its answer: measured once on this machine.

It is kept in the store. Models that prepare their inputs in the same way share one measurement, so that noise cannot
tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from zoolens.base.engine.machine import describe_machine
from zoolens.base.errors import ZoolensError
from zoolens.base.plugins import installed_version
from zoolens.base.store.records import (
    DatasetRecord,
    ModelRecord,
    RunKind,
    StackRecord,
    Stage,
    fingerprint,
    is_disturbed,
)
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.store import Store
from zoolens.base.version import __version__
from zoolens.faces.serving.contracts.ladder import LatencyProfile
from zoolens.faces.serving.services.candidates import Candidate
from zoolens.faces.serving.services.profiles import StoredTiming
from zoolens.findings.measure.latency import LatencySettings, latency_observations, measure_latency
from zoolens.inventory.manifests.digests import digest
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER

_STAGE: Final = Stage.LATENCY.of("preparation")
_METRIC: Final = "latency_p50"
_NO_DATA: Final = DatasetRecord(fingerprint(["a picture made up for timing"]), "made-up picture", 1)
_LONGEST: Final = 1.0  # seconds of one measurement: thousands of small pictures, some hundred large ones
_LIBRARIES: Final = ("numpy", "pillow", "opencv-python-headless")  # that decode and resize
_FURTHER: Final = {"text": ("tokenizers",), "sound": ("soundfile", "soxr")}


def ensure_preparation(
    store: Store,
    candidate: Candidate,
    sent: str,
    convert: Callable[[], object],
    settings: LatencySettings | None,
) -> StoredTiming:
    """Seconds that one input takes, as clean as timings of models are. `sent`: what clients send, such as an image or
    its pixels. Without `settings` nothing is measured."""
    model, stack = _records(candidate, sent)
    run = store.begin_run(model, _NO_DATA, stack, kind=RunKind.MACHINE)
    if _STAGE not in run.stages:
        if settings is None:
            raise ZoolensError(
                "how long its inputs take to prepare was not measured on this machine: start the server again."
            )
        samples = measure_latency(convert, replace(settings, max_seconds=min(settings.max_seconds, _LONGEST)))
        store.finish_stage(run.id, _STAGE, latency_observations(samples, 1))
    dated = store.dated_observations([run.id], _METRIC)[run.id]
    [(found, measured)] = [each for each in dated if each[0].scope == batch_scope(1)]
    return StoredTiming(found.value, found.low, found.high, is_disturbed(found), measured)


def with_preparation(profile: LatencyProfile, timing: StoredTiming) -> LatencyProfile:
    """The profile of a model whose inputs are prepared by the server: each takes so much longer."""
    seconds, low, high = profile.seconds, profile.low, profile.high
    each = timing.seconds or 0.0
    least, most = timing.low or each, timing.high or each
    return LatencyProfile(
        {size: value + size * each for size, value in seconds.items()},
        {size: value + size * least for size, value in {**seconds, **low}.items()},
        {size: value + size * most for size, value in {**seconds, **high}.items()},
        min((when for when in (profile.measured, timing.measured) if when is not None), default=None),
    )


def _records(candidate: Candidate, sent: str) -> tuple[ModelRecord, StackRecord]:
    """What is timed, and on what: another picture size, decoder, library or machine is another measurement."""
    spec, tensor = candidate.input, candidate.source
    content: dict[str, Any] = {
        "sent": sent,
        "input": spec.model_dump(mode="json", exclude={"name"}),
        "tensor": [list(tensor.shape), tensor.dtype, tensor.scale, tensor.zero_point],
    }
    if candidate.columns is None:
        # Reading boxes or masks takes as long as some models do.
        content["output"] = candidate.output.model_dump(mode="json")
        content["answers"] = {name: list(array.shape) for name, array in candidate.example.answers.items()}
    if TOKENIZER in candidate.job.paths:
        content["tokenizer"] = digest(candidate.job.paths[TOKENIZER])
    machine = describe_machine()
    libraries = (*_LIBRARIES, *_FURTHER.get(spec.modality, ()))
    identity = {
        "preparation": __version__,
        "machine": [machine.cpu, machine.cores],
        "libraries": {name: installed_version(name) for name in libraries},
    }
    model = ModelRecord(fingerprint(["preparation", content]), f"preparation:{sent}", "preparation", content)
    return model, StackRecord(fingerprint(identity), "zoolens", identity, identity)
