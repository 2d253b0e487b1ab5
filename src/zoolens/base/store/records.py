"""The rows of the store, as plain values: what a caller writes and reads. No SQL here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from zoolens.base.store.json_columns import as_plain
from zoolens.base.store.scopes import parse_scope

DONE: Final = "done"  # a stage that came to its end
_FAILED: Final = "failed: "  # before the reason why a stage did not
FAILED: Final = "failed"
EVALUATED: Final = "evaluated"  # in run.resolved
EVALUATED_ORDER: Final = "evaluated_order"  # in run.resolved: how many evaluations the store had met by then
WITH_NETWORK: Final = "with_network"  # in the details of a timing of a model behind a server: what it includes
ROUND_TRIPS: Final = {  # what timings are called where a server answered
    **{f"latency_{name}": f"roundtrip_{name}" for name in ("p50", "p90", "p95", "p99")},
    "throughput": "roundtrip_throughput",
}
GUESSED: Final = "guessed"  # in run.resolved: what its accuracy rests on that nobody has checked; also in the details
# of each of its figures that rests on it, as they are read (`findings.measure.class_order.judged_right`)
MACHINE: Final = "machine"  # in the details of a timing: name and host (a digest) of the machine that measured it
MACHINES: Final = "machines"  # in run.resolved: the same of every machine that had the model open
OTHERS: Final = "others"  # in the details of a timing: the share of the cores that other work kept busy meanwhile
BUSY: Final = 0.25  # of that share, from which on a timing tells of the other work as much as of the machine
DISTURBED: Final = "disturbed"  # in the details of a timing called clean that is the raw one for want of clean samples


class Provenance(StrEnum):
    """Where a number comes from; never absent, never guessed."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    CLAIMED = "claimed"
    UNAVAILABLE = "unavailable"


class RunKind(StrEnum):
    """Which kind of facts a run holds. Only evaluations are listed unless another kind is asked for."""

    EVALUATION = "evaluation"  # somebody asked for this model on this data
    TRIAL = "trial"  # the doctor tried a manifest that may be wrong
    TRAINING = "training"  # one framework trained a recipe
    STRUCTURE = "structure"  # how a network is built
    CLAIM = "claim"  # what others say about a model
    OPERATOR = "operator"  # how long a single layer takes
    LOAD = "load"  # requests were sent to a server, to see how it bears them
    LABELS = "labels"  # the true classes of a dataset's test samples
    SERVING = "serving"  # what happened while a service was served: a series of events, and counts of answers
    TRACE = "trace"  # where the time of a model goes: series of spans
    MACHINE = "machine"  # what a machine can do at its best
    VERIFICATION = "verification"  # an endpoint was asked which model it has
    STUDY = "study"  # what was said of a study, in stores that were written before studies had a table
    OTHER = "other"  # facts of a plug-in, in stores that were written before runs had a kind


class Stage(StrEnum):
    """What a stage of a run does. One that is done for each of several things says for which behind a colon, such as
    "metric:topk" or "latency:batch=8"."""

    PREDICTIONS = "predictions"  # answers every input
    METRIC = "metric"  # derives figures from the answers, for each metric
    SIZE = "size"
    LATENCY = "latency"  # for each batch size, or of a single layer
    GENERATION = "generation"  # how fast texts are written, for each context length
    COLD = "cold"
    TRAINING = "training"
    STRUCTURE = "structure"
    CLAIMS = "claims"
    TRACE = "trace"  # observes the model at one level, for each level
    OPERATORS = "operators"  # sums the times of a model's layers, for each table of such times

    def of(self, what: str) -> str:
        """The name of this stage for one of several things."""
        return f"{self.value}:{what}"

    def parts(self, names: Iterable[str]) -> dict[str, str]:
        """Returns those of the given names that are of this stage, by what each is for."""
        prefix = self.of("")
        return {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}


MEASURED_KINDS: Final = (RunKind.EVALUATION, RunKind.TRIAL)  # a model was run on data
ANSWERING_KINDS: Final = (*MEASURED_KINDS, RunKind.TRAINING)  # a network answered inputs


def fingerprint(value: Any) -> str:
    """SHA-256 of a JSON-able value in canonical form: equal content, equal key."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=as_plain)
    # File names may hold lone surrogates.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Observation:
    """One fact. (metric, scope) is unique within a run; a scope is text such as "batch=8" (see `scopes`).

    `low`/`high`: interval at the confidence in `details["confidence"]`. A value that could not be had is None with
    provenance UNAVAILABLE and the reason in details["reason"]. A NaN or infinite `value`, `low` or `high` is stored
    and read back as None, with what it was in details["not_finite"], such as {"value": "nan"}: SQLite has no NaN,
    JSON has neither, and every reader handles None already. The provenance stays: a measured NaN was measured.
    """

    metric: str
    value: float | None
    scope: str = ""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    n: int | None = None
    provenance: Provenance = Provenance.MEASURED
    details: Mapping[str, Any] = field(default_factory=dict)


def is_disturbed(observation: Observation) -> bool:
    """Whether a timing called clean is the raw one: others kept the machine busy. Older runs have it in words only."""
    note = str(observation.details.get("note", ""))
    clean = not parse_scope(observation.scope).raw
    return clean and (bool(observation.details.get(DISTURBED)) or note.startswith("fewer than 20 undisturbed"))


def is_beside_work(observation: Observation) -> bool:
    """Whether a timing says nothing of its machine, since others used it meanwhile: its clean figures are the raw ones,
    or the cores were busy beside it, which samples that did not wait for one do not tell."""
    others = observation.details.get(OTHERS)
    return is_disturbed(observation) or (isinstance(others, int | float) and others >= BUSY)


def unavailable(metric: str, reason: str, scope: str = "", unit: str = "") -> Observation:
    """A figure that could not be had, and why."""
    return Observation(
        metric, None, scope=scope, unit=unit, provenance=Provenance.UNAVAILABLE, details={"reason": reason}
    )


@dataclass(frozen=True)
class ModelRecord:
    fingerprint: str  # content: asset bytes and the parts of the manifest that change answers
    ref: str  # zoo:name@version
    format: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class DatasetRecord:
    fingerprint: str
    name: str
    size: int
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StackRecord:
    """The software and machine that ran it. `fingerprint` is over what can change an answer or a time (`identity`);
    `lock` has everything, for `env export`."""

    fingerprint: str
    runtime: str
    identity: Mapping[str, Any]
    lock: Mapping[str, Any]

    @property
    def full_runtime(self) -> str:
        """What names the runtime again: with its address, where it has one."""
        return f"{self.runtime}:{self.address}" if self.address else self.runtime

    @property
    def address(self) -> str:
        """Where the model ran, if that was behind a server; empty: on the machine that measured it."""
        return str(self.identity.get("address") or "")

    @property
    def version(self) -> str | None:
        """The runtime's version, which `identity` holds under "version"."""
        version = self.identity.get("version")
        return None if version is None else str(version)


@dataclass(frozen=True)
class RunKey:
    """The content key of a run: the same model on the same dataset in the same environment is the same run."""

    model: str
    dataset: str
    stack: str
    attempt: int = 0  # > 0 for deliberate repetitions (`--fresh`, `reproduce`)

    @property
    def id(self) -> str:
        return fingerprint([self.model, self.dataset, self.stack, self.attempt])[:16]


def joined_machines(*resolved: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The machines that several `resolved` of one run name, each once."""
    every = [dict(machine) for one in resolved for machine in one.get(MACHINES) or ()]
    return list({machine.get("host"): machine for machine in every}.values())


@dataclass(frozen=True, repr=False)
class Run:
    """Printed, it is one line; its records hold whole manifests and environments."""

    id: str
    key: RunKey
    created: datetime
    model: ModelRecord
    dataset: DatasetRecord
    stack: StackRecord
    resolved: Mapping[str, Any]  # what only the open session knew: effective precision, provider
    stages: Mapping[str, str]  # stage name -> "done" | "failed: …"; what is absent was not finished
    kind: RunKind = RunKind.EVALUATION
    number: int = field(default=0, compare=False)  # in the order in which its store got runs; clocks differ

    def __repr__(self) -> str:
        stack = f"{self.stack.runtime} {self.stack.version or ''}".strip()
        done = [name for name, state in self.stages.items() if state == DONE]
        failed = [f"{name}: {state[:60]}" for name, state in self.stages.items() if state != DONE]
        stages = ", ".join([*([f"{len(done)} stages done"] if done else []), *failed]) or "nothing yet"
        return f"<Run {self.id}: {self.ref} on {self.dataset.name}, {stack}, {self.created:%Y-%m-%d %H:%M}; {stages}>"

    @property
    def origin(self) -> Mapping[str, Any]:
        """Where this run's model and dataset were found, as told by whoever measured last: the same content may be
        reached by several names. Keys: ref, manifest, folder, data, limit, seed; file where a manifest was named by its
        path, classes where the data's are not called as in its record."""
        origin: Mapping[str, Any] = self.resolved.get("origin") or {}
        return origin

    @property
    def ref(self) -> str:
        """The model's name as this run's user gave it."""
        return str(self.origin.get("ref") or self.model.ref)

    @property
    def failures(self) -> dict[str, str]:
        """The stages that failed, and why."""
        return {stage: state.removeprefix(_FAILED) for stage, state in self.stages.items() if state != DONE}

    @property
    def inputs(self) -> int:
        """How many inputs it answers: all of its dataset, or the test samples of the data that it was trained on."""
        return (
            int(self.dataset.details.get("test", self.dataset.size))
            if self.kind is RunKind.TRAINING
            else (self.dataset.size)
        )

    @property
    def evaluated(self) -> str:
        """When a user's own evaluation last met this run, in ISO format; "" where that is not known. What the doctor or
        a reproduction runs is not marked."""
        return str(self.resolved.get(EVALUATED) or "")

    @property
    def met(self) -> str:
        """Orders the runs of one store by when evaluations met them, as the store counted them: a clock that was a year
        ahead must not make a run the last one for a year. "": no evaluation met it, as far as is known. Those of before
        evaluations were counted, and of other stores, come first, by their times."""
        return f"{int(self.resolved.get(EVALUATED_ORDER) or 0):012d} {self.evaluated}" if self.evaluated else ""

    @property
    def precision(self) -> str | None:
        """The precision in effect, as the session resolved it; None: not known."""
        precision = self.resolved.get("precision")
        return None if precision is None else str(precision)


@dataclass(frozen=True)
class StageState:
    """How far one stage of a run came. A stage that is done stays done; a failed one may be done later."""

    done: bool
    error: str | None
    details: Mapping[str, Any]
    updated: datetime

    def __str__(self) -> str:
        return stage_words(self.done, self.error)


def stage_words(done: bool, error: str | None) -> str:
    return DONE if done else f"{_FAILED}{error}"


@dataclass(frozen=True)
class Part:
    """One Parquet file of bulk facts, as registered. `address`: where it lies, a path or the URL of an object."""

    run_id: str
    kind: str
    part: int
    rows: int
    bytes: int
    sha256: str
    name: str  # below the place of bulk facts
    address: str
    created: datetime

    def __str__(self) -> str:
        return f"part {self.part} of {self.kind} of run {self.run_id}"
