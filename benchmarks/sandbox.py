"""What the sandbox costs: the same evaluation in a sandboxed worker and, with `--trust`, in our own process.

    python benchmarks/sandbox.py [--rounds 7] [--repeats 9]

Three parts, each with turns that alternate, so that other load on the machine hits both alike: inputs per second of the
loop that predicts (the model is open), latency of one call, and the cold start of a fresh worker with and without
sandbox. Medians are compared; the spread of the rounds is printed with them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

import numpy as np

from zoolens.base.engine.sandbox import describe, trusting
from zoolens.findings.measure.jobs import Job, RunOptions, plan_jobs
from zoolens.findings.measure.latency import LatencySettings, measure_latency
from zoolens.findings.measure.prediction_stage import ACCURACY_BATCH, answered_batches
from zoolens.findings.measure.subject import prepare_subject
from zoolens.inventory.catalog.lookup import find_all
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.loader import batches
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.runtime import Options

MODELS = ("demo:mlp-small", "demo:lenet-wide", "demo:resnet-tiny")
THROUGHPUT_GOAL, COLD_GOAL = 0.95, 0.150
SANDBOXED, TRUSTED = "sandbox", "trust"
WAYS = (SANDBOXED, TRUSTED)


@dataclass(frozen=True)
class Compared:
    """Figures of both ways, turn by turn."""

    sandboxed: tuple[float, ...]
    trusted: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median of the ratios of neighbouring turns, which other load disturbs least."""
        return statistics.median(a / b for a, b in zip(self.sandboxed, self.trusted, strict=True))

    @property
    def difference(self) -> float:
        return statistics.median(a - b for a, b in zip(self.sandboxed, self.trusted, strict=True))


def alternate(rounds: int, measure: Callable[[str], float]) -> Compared:
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS if turn % 2 else reversed(WAYS):
            found[way].append(measure(way))
    return Compared(tuple(found[SANDBOXED]), tuple(found[TRUSTED]))


def throughput(job: Job, dataset: Dataset, rounds: int) -> Compared:
    """Inputs per second: read, prepare, predict, judge."""
    with ExitStack() as stack:
        subjects = {}
        for way in WAYS:
            with trusting(way == TRUSTED):
                session = stack.enter_context(closing(job.open()))
            subjects[way] = prepare_subject(job, session, dataset)

        def once(way: str) -> float:
            subject = subjects[way]
            inputs = batches(dataset, subject.preparation, subject.fixed_batch or ACCURACY_BATCH, workers=2)
            started = time.perf_counter()
            for _, answers in answered_batches(subject, inputs):
                subject.outputs[0].read(answers[0])
            return len(dataset) / (time.perf_counter() - started)

        for way in WAYS:
            once(way)
        return alternate(rounds, once)


def latency(job: Job, dataset: Dataset, rounds: int) -> Compared:
    """Median seconds of one call with one input."""
    with ExitStack() as stack:
        calls = {}
        for way in WAYS:
            with trusting(way == TRUSTED):
                session = stack.enter_context(closing(job.open()))
            subject = prepare_subject(job, session, dataset)
            feeds = {subject.input.name: subject.inputs(dataset, 1)}
            repeat = partial(session.repeat, feeds) if isinstance(session, IsolatedSession) else None
            calls[way] = partial(measure_latency, partial(session.predict, feeds), repeat=repeat)

        def once(way: str) -> float:
            samples = calls[way](LatencySettings(max_seconds=2.0))
            return float(np.median(samples.elapsed_ns)) / 1e9

        return alternate(rounds, once)


def cold(job: Job, rounds: int) -> Compared:
    """Seconds from asking for a worker to an opened model."""

    def once(way: str) -> float:
        with trusting(way == TRUSTED):
            started = time.perf_counter()
            with job.open_isolated():
                return time.perf_counter() - started

    for way in WAYS:
        once(way)
    return alternate(rounds, once)


def spread(values: Sequence[float], scale: float, unit: str) -> str:
    return f"{statistics.median(values) * scale:,.1f} [{min(values) * scale:,.1f}, {max(values) * scale:,.1f}] {unit}"


def show(what: str, found: Compared, scale: float, unit: str, verdict: str) -> None:
    sides = [spread(side, scale, unit) for side in (found.sandboxed, found.trusted)]
    print(f"{what:40} sandbox {sides[0]:34} trust {sides[1]:34} {verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each way, for throughput and latency")
    parser.add_argument("--repeats", type=int, default=9, help="cold starts of each way")
    parser.add_argument("--runtimes", default="onnxruntime,litert,openvino")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--data", default="demo")
    chosen = parser.parse_args()
    print(f"sandbox of this machine: {describe()}")
    wanted = RunOptions(runtimes=tuple(chosen.runtimes.split(",")), options=Options())
    jobs, _ = plan_jobs(find_all(chosen.models), wanted)
    with closing(open_dataset(chosen.data)) as dataset:
        for job in jobs:
            found = throughput(job, dataset, chosen.rounds)
            show(f"{job.title}, throughput", found, 1, "/s", f"ratio {found.ratio:.3f} (goal ≥ {THROUGHPUT_GOAL})")
            found = latency(job, dataset, chosen.rounds)
            show(f"{job.title}, latency", found, 1e6, "µs", f"ratio {found.ratio:.3f}")
    for job in {job.runtime.name: job for job in jobs}.values():
        found = cold(job, chosen.repeats)
        verdict = f"{found.difference * 1e3:+.0f} ms (goal ≤ {COLD_GOAL * 1e3:.0f})"
        show(f"{job.runtime.name}, cold start", found, 1e3, "ms", verdict)


if __name__ == "__main__":
    main()
