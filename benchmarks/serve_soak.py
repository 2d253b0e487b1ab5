"""A service for a long time at 80 % of its reference's capacity, with a switch every few seconds: does anything grow?

    python benchmarks/serve_soak.py [--seconds 3600] [--store FILE] [--demo]

The load alternates between 0.3 and 1.3 times the capacity every six seconds, so that the policy goes down and returns
again and again. Once a second, resident memory and open files of the server and of its workers are read, each by
itself: a leak of the small server would not be seen beside the workers' memory. The last quarter of the run is held
against the second one (in the first, models and connections are still opened): the median of open files, the 99th
percentile of the latency, and the least tenth of the memory, for what a call takes and gives back is no growth. The
exit status is 1 where something grows, where a request gets no answer, where a worker had to be replaced, or where the
run was not what it is meant to be: 80 % load, and a switch every few seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import yaml
from numpy.typing import NDArray

from serve_switching import DEMO, Bench, definition, fill, imagenet
from served import serving_process
from zoolens.faces.load.arrivals import Arrivals, varying
from zoolens.faces.load.run_load import LoadRun

LOW, HIGH = 0.3, 1.3  # times the capacity: 0.8 on average
PHASE = 6.0  # seconds of each
HOLD = 0.5  # seconds that a better model must have kept the promise on paper, so that the policy returns in a phase
MOST_MEMORY = 1.03  # times the memory of the second quarter
MOST_FILES = 3  # more than in the second quarter
MOST_SLOWER = 1.5  # of the 99th percentile, which is noisier
MEAN_GAP, LONGEST_GAP = 10.0, 60.0  # seconds between two switches

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """The server and its workers at one moment."""

    time: float  # Unix seconds
    server_bytes: int
    workers_bytes: int
    server_files: int
    workers_files: int
    workers: frozenset[int]  # process numbers


@dataclass(frozen=True)
class Soak:
    """What a run left behind. `start`: when its first request was due, in Unix seconds."""

    capacity: float
    start: float
    seconds: float
    samples: list[Sample]
    arrivals: Numbers  # seconds after the start, of every request
    latency: Numbers  # seconds, infinite for those without an answer
    switches: Numbers  # seconds after the start
    answers: dict[str, int] = field(default_factory=dict)  # by model


class Watcher(threading.Thread):
    """Reads memory and open files of a process and its children once a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._process, self._ended = psutil.Process(pid), threading.Event()
        self.samples: list[Sample] = []

    def run(self) -> None:
        while not self._ended.wait(1.0):
            try:
                self.samples.append(self._sample())
            except psutil.Error:  # a worker has ended meanwhile
                continue

    def _sample(self) -> Sample:
        workers = self._process.children(recursive=True)
        return Sample(
            time.time(),
            self._process.memory_info().rss,
            sum(worker.memory_info().rss for worker in workers),
            self._process.num_fds(),
            sum(worker.num_fds() for worker in workers),
            frozenset(worker.pid for worker in workers),
        )

    def stop(self) -> None:
        self._ended.set()
        self.join()


def pattern(capacity: float, seconds: float, seed: int) -> Arrivals:
    phases = max(8, 8 * round(seconds / PHASE / 8))  # so that every quarter has as many busy phases as quiet ones
    parts = [(seconds / phases, capacity * (LOW if number % 2 == 0 else HIGH)) for number in range(phases)]
    return varying(parts, seed, f"Poisson, {LOW * capacity:.1f} and {HIGH * capacity:.1f} requests/s in turns")


# --- verdicts


@dataclass(frozen=True)
class Verdict:
    holds: bool
    words: str


def verdicts(soak: Soak) -> list[Verdict]:
    return [
        _load(soak),
        _switching(soak),
        _answers(soak),
        _workers(soak),
        _memory("server", soak, [sample.server_bytes for sample in soak.samples]),
        _memory("workers", soak, [sample.workers_bytes for sample in soak.samples]),
        _files("server", soak, [sample.server_files for sample in soak.samples]),
        _files("workers", soak, [sample.workers_files for sample in soak.samples]),
        _p99(soak),
    ]


def quarter(number: int, times: Numbers, values: Numbers, seconds: float) -> Numbers:
    """The values of the first (0) to the last (3) quarter of a run."""
    return values[(times >= seconds * number / 4) & (times < seconds * (number + 1) / 4)]


def _quarters(soak: Soak, values: list[int]) -> tuple[Numbers, Numbers]:
    times = np.array([sample.time - soak.start for sample in soak.samples])
    numbers = np.array(values, np.float64)
    early, late = (quarter(number, times, numbers, soak.seconds) for number in (1, 3))
    if not (len(early) and len(late)):
        raise SystemExit("The run was too short: there is a quarter without a sample.")
    return early, late


def _load(soak: Soak) -> Verdict:
    load = len(soak.arrivals) / soak.seconds / soak.capacity
    return Verdict(0.75 <= load <= 0.85, f"load: {load:.1%} of the reference's capacity; meant to be 80 %")


def _switching(soak: Soak) -> Verdict:
    edges = np.concatenate([[0.0], soak.switches, [soak.seconds]])
    mean, longest = soak.seconds / max(1, len(soak.switches)), float(np.diff(edges).max())
    words = (
        f"switches: {len(soak.switches):,}, one every {mean:.1f} s, the longest time without one {longest:.1f} s; "
        f"meant to be at most {MEAN_GAP:g} and {LONGEST_GAP:g} s"
    )
    return Verdict(mean <= MEAN_GAP and longest <= LONGEST_GAP, words)


def _answers(soak: Soak) -> Verdict:
    lost = int(np.isinf(soak.latency).sum())
    return Verdict(not lost, f"answers: {lost:,} of {len(soak.latency):,} requests got none")


def _workers(soak: Soak) -> Verdict:
    """Processes of the second quarter that are gone at the end."""
    settled = [sample for sample in soak.samples if sample.time - soak.start >= soak.seconds / 4]
    gone = frozenset().union(*(sample.workers for sample in settled)) - settled[-1].workers
    return Verdict(not gone, f"workers: {len(settled[-1].workers)} at the end; {len(gone)} of those before have ended")


def _memory(whose: str, soak: Soak, values: list[int]) -> Verdict:
    early, late = (float(np.quantile(part, 0.1)) for part in _quarters(soak, values))
    words = f"{early / 1e6:.1f} MB in the second quarter, {late / 1e6:.1f} MB in the last"
    return Verdict(late <= MOST_MEMORY * early, f"memory of the {whose}: {words}; at most {MOST_MEMORY - 1:.0%} more")


def _files(whose: str, soak: Soak, values: list[int]) -> Verdict:
    early, late = (float(np.median(part)) for part in _quarters(soak, values))
    words = f"{early:g} in the second quarter, {late:g} in the last; at most {MOST_FILES} more"
    return Verdict(late <= early + MOST_FILES, f"open files of the {whose}: {words}")


def _p99(soak: Soak) -> Verdict:
    early, late = (_upper(quarter(number, soak.arrivals, soak.latency, soak.seconds), 0.99) for number in (1, 3))
    words = f"{1e3 * early:.1f} ms in the second quarter, {1e3 * late:.1f} ms in the last"
    return Verdict(late <= MOST_SLOWER * early, f"p99: {words}; at most {MOST_SLOWER:g} times as long")


def _upper(latency: Numbers, share: float) -> float:
    return float(np.quantile(latency, share, method="higher")) if len(latency) else float("inf")


def print_course(soak: Soak, parts: int = 10) -> None:
    """The run in tenths, so that a reader sees what the verdicts do not."""
    names = ("seconds", "requests", "switches", "p50", "p99", "server", "workers", "files")
    print(" ".join(f"{name:>{width}}" for name, width in zip(names, (13, 9, 9, 9, 9, 10, 10, 6), strict=True)))
    times = np.array([sample.time - soak.start for sample in soak.samples])
    for number in range(parts):
        begin, end = (soak.seconds * edge / parts for edge in (number, number + 1))
        latency = soak.latency[(soak.arrivals >= begin) & (soak.arrivals < end)]
        samples = [soak.samples[place] for place in np.flatnonzero((times >= begin) & (times < end))]
        if not samples:
            continue
        server, workers, files = (
            float(np.median([measure(sample) for sample in samples]))
            for measure in (
                lambda sample: sample.server_bytes,
                lambda sample: sample.workers_bytes,
                lambda sample: sample.server_files + sample.workers_files,
            )
        )
        switches = int(((soak.switches >= begin) & (soak.switches < end)).sum())
        print(
            f"{begin:6.0f}–{end:6.0f} {len(latency):9,} {switches:9,} {1e3 * _upper(latency, 0.5):6.1f} ms "
            f"{1e3 * _upper(latency, 0.99):6.1f} ms {server / 1e6:7.1f} MB {workers / 1e6:7.1f} MB {files:6g}"
        )


# --- the run


def service_file(path: str) -> str:
    """The service of the burst, but it checks its promise as services do by default and returns more quickly."""
    file = Path(path)
    defined = yaml.safe_load(file.read_text())
    for service in defined["services"].values():
        service.pop("promise")
        service["policy"] = {"name": "latency", "hold": HOLD}
    file.write_text(yaml.safe_dump(defined))
    return path


def soaked(capacity: float, seconds: float, run: LoadRun, samples: list[Sample]) -> Soak:
    exchanges = run.exchanges
    return Soak(
        capacity=capacity,
        start=exchanges.started_ns / 1e9,
        seconds=seconds,
        samples=[sample for sample in samples if 0 <= sample.time - exchanges.started_ns / 1e9 <= seconds],
        arrivals=exchanges.intended,
        latency=np.where(exchanges.answered, exchanges.latency, np.inf),
        switches=np.array(run.results.switches),
        answers={row.model: row.count for row in run.results.models},
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demo", action="store_true", help="small built-in networks")
    parser.add_argument("--reference", default="tf_efficientnet_lite0_torch.yaml", help="of the reference zoo")
    parser.add_argument("--store", help="a store that may hold the models' answers already; default: a new one")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--capacity", type=float, help="requests/s of the reference; default: measured now")
    parser.add_argument("--bound", type=float, help="seconds; default: three times a lone request, measured now")
    parser.add_argument("--inputs", type=int, default=100, help="different inputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    setup = DEMO if options.demo else imagenet(options.reference)
    with tempfile.TemporaryDirectory() as name:
        store = options.store or str(Path(name) / "store.sqlite")
        fill(store, setup)
        timing = argparse.Namespace(**{**vars(options), "seconds": min(options.seconds, 60.0)})
        bench = Bench(setup, store, timing, Path(name))
        capacity, bound = options.capacity, options.bound
        if capacity is None or bound is None:
            capacity, alone = bench.capacity()
            bound = bound or 3 * alone
            print(f"The reference answers {capacity:.1f} requests/s, a lone one in {1e3 * alone:.1f} ms.")
        arrivals = pattern(capacity, options.seconds, options.seed)
        print(f"{arrivals.pattern}; bound {1e3 * bound:.0f} ms", flush=True)
        path = service_file(definition(setup, bound, "latency", Path(name)))
        with serving_process(path, "--store", store, "--log-level", "warning", yielding=True) as (urls, pid):
            watcher = Watcher(pid)
            watcher.start()
            run = bench.load(urls["http"], arrivals, bound)
            watcher.stop()
    return report(soaked(capacity, options.seconds, run, watcher.samples), run, options.json)


def report(soak: Soak, run: LoadRun, file: Path | None) -> int:
    who = ", ".join(f"{model.rpartition('/')[2]} {count:,}" for model, count in soak.answers.items())
    print(f"{len(soak.arrivals):,} requests, answered by {who}\n")
    print_course(soak)
    print()
    results = verdicts(soak)
    for verdict in results:
        print(f"{'holds ' if verdict.holds else 'FAILS '} {verdict.words}")
    for reason in run.results.invalid:
        print(f"note: {reason}")
    if file is not None:
        rows = [{**vars(sample), "workers": sorted(sample.workers)} for sample in soak.samples]
        file.write_text(json.dumps({"verdicts": [vars(verdict) for verdict in results], "samples": rows}))
    return int(not all(verdict.holds for verdict in results))


if __name__ == "__main__":
    raise SystemExit(main())
