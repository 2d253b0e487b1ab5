"""What this machine can do: operations per second in each precision, and bytes per second from caches and memory.

Peaks are measured once for a machine, the libraries that multiply and a number of threads, and kept as observations.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.function_process import call_in_process
from zoolens.base.engine.machine import available_cores, describe_machine
from zoolens.base.errors import ZoolensError
from zoolens.base.plugins import installed_version
from zoolens.base.store.records import (
    DISTURBED,
    DatasetRecord,
    ModelRecord,
    Observation,
    RunKind,
    StackRecord,
    fingerprint,
    unavailable,
)
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.measure.lock import accelerator_identity
from zoolens.findings.tracing.roofline import peak_process
from zoolens.inventory.runtimes.devices import device_kind
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.inventory.runtimes.outputs.noise_probe import made_up_feeds
from zoolens.inventory.runtimes.runtime import Options, Runtime
from zoolens.inventory.runtimes.runtime_names import runtime_named

STAGE: Final = "peaks"
TIMEOUT: Final = 300.0
PROTOCOL: Final = 2  # raised when the way of measuring changes what the figures mean
FLOPS: Final = "peak_flops"
BANDWIDTH: Final = "peak_bandwidth"
_DATASET: Final = DatasetRecord(fingerprint(["peaks of the machine"]), "peaks of the machine", 0)
CONVERTED: Final = "converted"  # in the details of a peak: it is that of float32
NARROW: Final = ("bfloat16", "float16", "int8")
PRODUCT: Final = 1024  # rows and columns of a product in a runtime
_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Peaks:
    """What a machine can do at most."""

    cpu: str  # or the name of the device that is no CPU
    threads: int | None  # None on a device
    flops: Mapping[str, float]  # operations per second by precision; a multiplication with an addition counts as two
    bandwidth: Mapping[int, float]  # bytes per second, read and written together, by size of the working set
    by: Mapping[str, str] = field(default_factory=dict)  # the fastest library, by precision
    missing: Mapping[str, str] = field(default_factory=dict)  # precisions that could not be measured, with the reason
    disturbed: tuple[str, ...] = ()  # figures of which no undisturbed repetition was had
    run: str = ""
    device: str = "cpu"

    @property
    def title(self) -> str:
        """What was measured: the processor and the number of threads, or the device."""
        if self.device != "cpu":
            return f"{self.cpu} ({self.device})"
        name = "Unnamed processor" if self.cpu == "unknown" else self.cpu
        return f"{name}, {self.threads} threads"

    def bytes_per_second(self, working_set: int) -> float:
        """The bandwidth for data of this size: that of the smallest measured size which holds them."""
        sizes = sorted(self.bandwidth)
        size = next((size for size in sizes if size >= working_set), sizes[-1])
        return self.bandwidth[size]


def machine_peaks(
    *,
    threads: int | None = None,
    device: str = "cpu",
    fresh: bool = False,
    store: Store | str | Path | None = None,
) -> Peaks:
    """The peaks of this machine with so many threads (default: one for each core), or of a CUDA device; from the store
    or measured now, which takes half a minute and wants the machine for itself."""
    if device_kind(device) not in ("cpu", "cuda"):
        raise ZoolensError(f"The peaks of {device} cannot be measured.", hint="Write cpu, cuda or cuda:N.")
    if device != "cpu" and threads is not None:
        raise ZoolensError(f"Threads do not count on {device}.", hint="Leave --threads out.")
    count = (threads or available_cores()) if device == "cpu" else None
    subject = _processor(count) if count is not None else _accelerator(device)
    model = ModelRecord(fingerprint(["machine", *subject.about]), f"machine:{subject.name}", "machine", {})
    stack = StackRecord(_fingerprint(subject), "machine:peaks", subject.identity, subject.identity)
    with borrowed_store(store) as opened:
        begin = opened.begin_attempt if fresh else opened.begin_run
        run = begin(model, _DATASET, stack, kind=RunKind.MACHINE)
        if not fresh:
            run = _newest(opened, run.id, stack.fingerprint)
        if STAGE not in opened.stages(run.id):
            measured = _measured(device, count)
            measured["gemm"] += _products_in_runtimes(count) if count is not None else []
            opened.finish_stage(run.id, STAGE, list(_observations(measured)))
        return replace(_read(opened.observations(run.id), subject.name, count, run.id), device=device)


def stored_peaks(store: Store, *, threads: int | None = None, device: str = "cpu") -> Peaks | None:
    """What `machine_peaks` gives, if it was measured before; None: it was not."""
    count = (threads or available_cores()) if device == "cpu" else None
    subject = _processor(count) if count is not None else _accelerator(device)
    stack = _fingerprint(subject)
    runs = [run for run in store.runs(kind=RunKind.MACHINE) if run.key.stack == stack and STAGE in run.stages]
    if not runs:
        return None
    return replace(_read(store.observations(runs[0].id), subject.name, count, runs[0].id), device=device)


@dataclass(frozen=True)
class _Subject:
    """What is measured."""

    name: str
    about: tuple[Any, ...]  # what makes it another one
    identity: Mapping[str, Any]  # what else the figures depend on


def _fingerprint(subject: _Subject) -> str:
    return fingerprint(["machine", subject.identity])


def _processor(threads: int) -> _Subject:
    machine = describe_machine()
    identity = {
        "protocol": PROTOCOL,
        "cpu": machine.cpu,
        "flags": fingerprint(machine.flags)[:12],
        "cores": machine.cores,
        "memory": machine.memory_bytes,
        "threads": threads,
        "packages": {name: installed_version(name) for name in ("numpy", "torch", "onnxruntime", "openvino")},
    }
    return _Subject(machine.cpu, (machine.cpu, machine.flags), identity)


def _accelerator(device: str) -> _Subject:
    accelerator = accelerator_identity(device)
    identity = {
        "protocol": PROTOCOL,
        "accelerator": accelerator,
        "device": device,
        "packages": {"torch": installed_version("torch")},
    }
    name = str(accelerator.get("name") or device)
    return _Subject(name, (name,), identity)


def _newest(store: Store, run_id: str, stack: str) -> Any:
    """The last attempt that was finished: one that was measured again counts."""
    attempts = [run for run in store.runs(kind=RunKind.MACHINE) if run.key.stack == stack]
    done = [run for run in attempts if STAGE in run.stages]
    return done[0] if done else store.run(run_id)


def _measured(device: str, threads: int | None) -> dict[str, Any]:
    """Measures in a process of its own, since libraries fix their threads when they load."""
    job = {"device": device, "threads": threads}
    variables = {} if threads is None else dict.fromkeys(_VARIABLES, str(threads))
    try:
        measured: dict[str, Any] = call_in_process(
            f"{peak_process.__name__}:measured_peaks", job, "measuring peaks", timeout=TIMEOUT, variables=variables
        )
    except ZoolensError as error:
        subject = device if threads is None else "this machine"
        raise ZoolensError(f"The peaks of {subject} could not be measured: {error.message}", hint=error.hint) from error
    return measured


def _products_in_runtimes(threads: int) -> Iterator[dict[str, Any]]:
    """Measure matrix products in ONNX runtimes, which have kernels of their own for half precision and 8 bits."""
    for name, integers in (("onnxruntime", False), ("onnxruntime", True), ("openvino", False)):
        try:
            runtime = runtime_named(name)
            if runtime.version() is not None:
                yield _product_in(runtime, threads, integers=integers)
        except (ZoolensError, ImportError) as error:
            _log.debug("product in %s: %s", name, error)


def _product_in(runtime: Runtime, threads: int, *, integers: bool) -> dict[str, Any]:
    from zoolens.inventory.runtimes.onnx.onnx_gemm import write_product

    with tempfile.TemporaryDirectory(prefix="zoolens-peaks-") as folder:
        files = write_product(Path(folder), PRODUCT, integers=integers)
        with open_isolated(runtime, files, Options(threads=threads)) as session:
            feeds = made_up_feeds(session.inputs, PRODUCT)
            repeated = session.repeat(feeds, 2, 0.1)
            seconds, clean = peak_process.shortest(repeated)
            repeated.close()
            precision = "int8" if integers else session.effective().precision or "float32"
    about = {"library": runtime.name, "version": runtime.version(), "precision": precision}
    return {**about, "per_second": 2 * PRODUCT**3 / seconds, "clean": clean}


def _observations(measured: Mapping[str, Any]) -> Iterator[Observation]:
    best: dict[str, Mapping[str, Any]] = {}
    for row in measured["gemm"]:
        if row.get("per_second", 0.0) > best.get(row["precision"], {}).get("per_second", 0.0):
            best[row["precision"]] = row
    plain = best.get("float32")
    for precision in NARROW:
        # Numbers that are converted can be multiplied as float32: a library without a kernel for them is no limit.
        if plain is not None and best.get(precision, {}).get("per_second", 0.0) < plain["per_second"]:
            best[precision] = {**plain, "precision": precision, CONVERTED: True}
    for row in best.values():
        details = {
            "by": f"{row['library']} {row['version']}",
            "what": "best of repeated matrix products",
            **_marked(row),
        }
        yield Observation(FLOPS, row["per_second"], scope=row["precision"], unit="FLOP/s", details=details)
    for row in measured["gemm"]:
        if row["precision"] not in best:
            yield unavailable(FLOPS, row["reason"], scope=row["precision"], unit="FLOP/s")
    for row in measured["copy"]:
        what = {"what": "best of repeated copies, bytes read and written together", **_marked(row)}
        yield Observation(BANDWIDTH, row["per_second"], scope=f"bytes={row['bytes']}", unit="B/s", details=what)


def _by(row: Observation) -> str:
    """The library that was quickest, and whether it was so by computing in float32."""
    return f"{row.details.get('by', '')}{' (as float32)' if row.details.get(CONVERTED) else ''}"


def _marked(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**({} if row["clean"] else {DISTURBED: True}), **({CONVERTED: True} if row.get(CONVERTED) else {})}


def _read(observations: list[Observation], cpu: str, threads: int | None, run: str) -> Peaks:
    flops = [row for row in observations if row.metric == FLOPS]
    copies = [row for row in observations if row.metric == BANDWIDTH and row.value is not None]
    return Peaks(
        cpu,
        threads,
        {row.scope: row.value for row in flops if row.value is not None},
        {int(row.scope.removeprefix("bytes=")): float(row.value or 0) for row in copies},
        {row.scope: _by(row) for row in flops if row.value is not None},
        {row.scope: str(row.details.get("reason", "")) for row in flops if row.value is None},
        tuple(row.scope for row in observations if row.details.get(DISTURBED)),
        run,
    )
