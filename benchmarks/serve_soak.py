"""A service for a long time at 80 % of its reference's capacity, with a switch every few seconds: does anything grow?

    python benchmarks/serve_soak.py [--seconds 3600] [--store FILE] [--demo]

The load alternates between 0.3 and 1.3 times the capacity every few seconds, so that the policy goes down and returns
again and again. Resident memory and open files of the server and its workers are read every second. They may not grow:
the median of the last quarter is held against that of the second one (the first has models that are still loaded). The
same for the 99th percentile of the latency.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from pathlib import Path

import numpy as np
import psutil

from serve_switching import DEMO, Bench, definition, fill, imagenet
from served import serving_process
from zoolens.load.api import LoadRun
from zoolens.load.arrivals import Arrivals, varying

LOW, HIGH = 0.3, 1.3  # times the capacity: 0.8 on average
PHASE = 6.0  # seconds of each
MOST_GROWTH = 1.05  # of memory and files
MOST_SLOWER = 1.5  # of the 99th percentile, which is noisier


class Watcher(threading.Thread):
    """Reads memory and open files of a process and its children once a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._process, self._ended = psutil.Process(pid), threading.Event()
        self.rows: list[tuple[int, int]] = []

    def run(self) -> None:
        while not self._ended.wait(1.0):
            try:
                everyone = [self._process, *self._process.children(recursive=True)]
                self.rows.append((sum(p.memory_info().rss for p in everyone), sum(p.num_fds() for p in everyone)))
            except psutil.Error:  # a worker has ended meanwhile
                continue

    def stop(self) -> None:
        self._ended.set()
        self.join()


def pattern(capacity: float, seconds: float, seed: int) -> Arrivals:
    phases = max(2, round(seconds / PHASE))
    parts = [(seconds / phases, capacity * (LOW if number % 2 == 0 else HIGH)) for number in range(phases)]
    return varying(parts, seed, f"Poisson, {LOW * capacity:.1f} and {HIGH * capacity:.1f} requests/s in turns")


def quarters(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The second quarter and the last."""
    parts = np.array_split(values, 4)
    return parts[1], parts[3]


def p99(run: LoadRun) -> tuple[float, float]:
    latency = np.where(run.exchanges.answered, run.exchanges.latency, np.inf)
    early, late = quarters(latency)
    return float(np.quantile(early, 0.99, method="higher")), float(np.quantile(late, 0.99, method="higher"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demo", action="store_true", help="small built-in networks")
    parser.add_argument("--reference", default="tf_efficientnet_lite0_torch.yaml", help="of the reference zoo")
    parser.add_argument("--store", help="a store that may hold the models' answers already; default: a new one")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--inputs", type=int, default=100, help="different inputs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    setup = DEMO if options.demo else imagenet(options.reference)
    with tempfile.TemporaryDirectory() as name:
        store = options.store or str(Path(name) / "store.sqlite")
        fill(store, setup)
        timing = argparse.Namespace(**{**vars(options), "seconds": min(options.seconds, 60.0)})
        bench = Bench(setup, store, timing, Path(name))
        capacity, alone = bench.capacity()
        arrivals = pattern(capacity, options.seconds, options.seed)
        path = definition(setup, 3 * alone, "latency", Path(name))
        with serving_process(path, "--store", store, "--log-level", "warning") as (urls, pid):
            watcher = Watcher(pid)
            watcher.start()
            run = bench.load(urls["http"], arrivals, 3 * alone)
            watcher.stop()
    return report(run, np.array(watcher.rows))


def report(run: LoadRun, rows: np.ndarray) -> int:
    results = run.results
    print(f"{run.pattern}; {results.requests:,} requests, {len(results.switches):,} changes of the answering model")
    verdicts = []
    for column, name, unit in ((0, "resident memory", 1e6), (1, "open files", 1)):
        early, late = (float(np.median(part)) / unit for part in quarters(rows[:, column]))
        words = f"{name}: {early:.1f} in the second quarter, {late:.1f} in the last{' (MB)' * (unit > 1)}"
        verdicts.append((words, late <= MOST_GROWTH * early))
    early, late = p99(run)
    words = f"p99: {1e3 * early:.1f} ms in the second quarter, {1e3 * late:.1f} ms in the last"
    verdicts.append((words, late <= MOST_SLOWER * early))
    lost = results.requests - int(run.exchanges.answered.sum())
    verdicts.append((f"{lost:,} requests got no answer", lost == 0))
    for words, holds in verdicts:
        print(f"{'holds  ' if holds else 'GROWS  '} {words}")
    for reason in results.invalid:
        print(f"not valid: {reason}")
    return int(not all(holds for _, holds in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
