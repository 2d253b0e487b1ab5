"""A memory limit that falls while serving: a smaller model answers until there is room for the reference again.

    python examples/serve/memory.py

The limit is the content of a file, as a control group of Linux has it (memory.max). The demo models are tiny, so that a
process takes what its runtime takes: the reference runs in ONNX Runtime, its fallback in LiteRT, which needs less.
"""

from __future__ import annotations

import threading
import time

from common import ROWS, example_folder, last_session, lost, measure, print_events, requests, send, served, wait_until

from zoolens.faces.load.arrivals import poisson
from zoolens.faces.serving.services.hosting import build_ladders, read_service_files

REFERENCE = "demo:lenet-wide"
SERVICE = f"""
services:
  fashion:
    reference: {REFERENCE}
    within: 80%
    batch: {{size: {ROWS}}}
    policy: {{name: memory, hold: 2 s}}
    memory_limit_file: LIMIT_FILE
"""


def main() -> None:
    with example_folder() as folder:
        store, file, limit = folder / "store.sqlite", folder / "service.yaml", folder / "memory.max"
        limit.write_text("max")
        file.write_text(SERVICE.replace("LIMIT_FILE", str(limit)))
        print("Measuring two models …")
        measure(store, {"onnxruntime": [REFERENCE], "litert": ["demo:mlp-wide"]}, memory=True)
        large, small = build_ladders(read_service_files([file]), store)["fashion"].ladder.rungs
        for rung in (large, small):
            print(f"{rung.model} in {rung.runtime}: {(rung.memory_bytes or 0) / 1e6:.0f} MB")
        between = ((large.memory_bytes or 0) + (small.memory_bytes or 0)) // 2

        def change_the_limit() -> None:
            start = time.perf_counter()
            wait_until(start, 4)
            limit.write_text(str(between))
            wait_until(start, 9)
            limit.write_text("max")

        with served(file, store) as url:
            threading.Thread(target=change_the_limit, daemon=True).start()
            results = send(url, "fashion", requests(REFERENCE, "fashion"), poisson(10, 15.0), 1.0)
        p50, _, p99 = (percentile.asked * 1e3 for percentile in results.percentiles[:3])
        print(f"{results.requests} requests, {lost(results)} without an answer: p50 {p50:.0f} ms, p99 {p99:.0f} ms")
        print_events(last_session(store, "fashion"))


if __name__ == "__main__":
    main()
