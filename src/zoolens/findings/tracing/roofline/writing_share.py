"""What share of the memory's bandwidth a language model reaches when it writes.

For each token all weights and the cache are read once, and little is computed with them: with one sequence, memory sets
the pace. Only where both are read as they are stored is it known how many bytes that is: of llama.cpp's GGUF files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.engine.machine import this_machine
from zoolens.base.store.records import MACHINE, Observation, Run, is_disturbed
from zoolens.base.store.scopes import Dimension, parse_scope
from zoolens.base.store.store import Store
from zoolens.findings.graph.cost.generation import Generation
from zoolens.findings.measure.generation_speed import DECODE
from zoolens.findings.tracing.roofline.peaks import stored_peaks
from zoolens.inventory.zoos.zoo import Entry

_RUNTIME: Final = "llamacpp"
_CACHE_BYTES: Final = {"float16": 1, "float32": 2}  # times those of float16, which costs count


@dataclass(frozen=True)
class WritingShare:
    """One measured speed against the roof. `share`: of the bandwidth; None: it was not measured on this machine."""

    run: str
    threads: int | None
    tokens: int
    speed: float  # tokens per second
    disturbed: bool
    bytes_per_second: float
    share: float | None


def writing_shares(store: Store, entry: Entry, cost: Generation) -> Iterator[WritingShare]:
    """Every speed of one sequence that was measured on this machine, of the very file of `entry`."""
    digests = _digests(entry.manifest.model_dump(mode="json"))
    for run in store.runs(model=entry.full_ref):
        cache = _CACHE_BYTES.get((run.resolved.get("details") or {}).get("cache", ""))
        if run.stack.runtime != _RUNTIME or cache is None or _digests(run.model.manifest) != digests:
            continue
        for observed in store.observations(run.id, metric=DECODE):
            tokens = _tokens(observed)
            if tokens is not None:
                read = cost.weight_bytes + cache * cost.cache_bytes(tokens)
                yield _share(store, run, observed, tokens, read)


def _tokens(observed: Observation) -> int | None:
    """At which context a speed was measured that says what this machine can do; None: another one."""
    scope = parse_scope(observed.scope)
    here = observed.details.get(MACHINE) == this_machine()
    alone = scope.dimension is Dimension.CONTEXT and not scope.raw
    return scope.number if here and alone and observed.value else None


def _share(store: Store, run: Run, observed: Observation, tokens: int, read: int) -> WritingShare:
    speed = observed.value or 0.0
    threads = run.resolved.get("threads")
    peaks = stored_peaks(store, threads=threads)
    share = None if peaks is None else read * speed / peaks.bytes_per_second(read)
    return WritingShare(run.id, threads, tokens, speed, is_disturbed(observed), read * speed, share)


def _digests(manifest: Mapping[str, Any]) -> list[str]:
    return [file["sha256"] for asset in manifest["assets"] for file in asset["files"]]
