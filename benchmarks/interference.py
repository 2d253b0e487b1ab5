"""Four CPU hogs start in the middle of a measurement: do the clean figures stay, while the raw ones explode?

    python benchmarks/interference.py [--seconds 6] [--hogs 4]

One model (demo:lenet-wide in ONNX Runtime, one thread, batch 32) is timed twice for the same time: on the machine as
it is, and with hogs started halfway through. Samples that waited for a core are left out of "clean".
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading

import numpy as np

from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.latency import LatencySamples, LatencySettings, measure_latency
from zoolens.findings.measure.subject import prepare_subject
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime
from zoolens.inventory.runtimes.runtime import Options

HOG = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"  # ends with us, however we end


def percentiles(times_ns: np.ndarray) -> str:
    p50, p90, p99 = np.quantile(times_ns, [0.5, 0.9, 0.99]) / 1e6
    return f"p50 {p50:7.3f}  p90 {p90:7.3f}  p99 {p99:7.3f} ms"


def show(title: str, samples: LatencySamples) -> tuple[float, float]:
    clean = samples.elapsed_ns[samples.clean]
    print(f"{title:6} raw    {percentiles(samples.elapsed_ns)}   {len(samples)} samples")
    print(f"{title:6} clean  {percentiles(clean)}   {100 * samples.clean.mean():.1f} % of them")
    return float(np.quantile(samples.elapsed_ns, 0.99)), float(np.quantile(clean, 0.99))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--hogs", type=int, default=4)
    chosen = parser.parse_args()
    entry = find("demo:lenet-wide")
    asset = next(one for one in entry.manifest.assets if one.format == "onnx")
    job = Job(entry, asset, OnnxRuntime(), Options(threads=1))
    settings = LatencySettings(precision=0.0, max_samples=10**7, max_seconds=chosen.seconds)
    hogs: list[subprocess.Popen[bytes]] = []

    def let_loose() -> None:
        hogs.extend(subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(chosen.hogs))

    with job.open() as session:
        data = open_dataset("demo")
        subject = prepare_subject(job, session, data)
        feeds = {subject.input.name: subject.inputs(data, 32)}
        quiet = measure_latency(lambda: session.predict(feeds), settings)
        timer = threading.Timer(chosen.seconds / 2, let_loose)
        timer.start()
        try:
            disturbed = measure_latency(lambda: session.predict(feeds), settings)
        finally:
            timer.cancel()
            for hog in hogs:
                hog.kill()
    quiet_raw, quiet_clean = show("quiet", quiet)
    raw, clean = show("hogs", disturbed)
    print(f"p99 with hogs against quiet: raw {raw / quiet_raw:.1f}×, clean {clean / quiet_clean:.2f}× (goal ≤ 1.20)")


if __name__ == "__main__":
    main()
