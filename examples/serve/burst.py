"""A burst on one box: a service that promises 100 ms meets three times what its reference can bear.

    python examples/serve/burst.py

The same requests are sent twice: first the reference answers alone, then the service may switch. The demo networks are
so small that a request has 256 images: otherwise client and server would be the bottleneck, which no model relieves.
"""

from __future__ import annotations

from common import example_folder, last_session, measure, print_events, requests, send, served

from zoolens.faces.load.arrivals import burst
from zoolens.faces.serving.services.hosting import build_ladders, read_service_files

REFERENCE = "demo:lenet-deep"
ROWS = 256  # images in a request
DEADLINE = 0.1  # seconds
SERVICE = f"""
services:
  fashion:
    reference: {REFERENCE}
    within: 80%
    objectives:
      latency: {{percentile: 99, bound: 100 ms}}
    batch: {{size: {ROWS}}}
    fallback: best effort
    policy: POLICY
"""


def main() -> None:
    with example_folder() as folder:
        store, file = folder / "store.sqlite", folder / "service.yaml"
        print("Measuring three models …")
        measure(store, {"onnxruntime": [REFERENCE, "demo:lenet-torch", "demo:mlp-wide"]})
        workload = requests(REFERENCE, "fashion", ROWS, 4 * ROWS)
        file.write_text(SERVICE.replace("POLICY", "fixed"))
        reference = build_ladders(read_service_files([file]), store)["fashion"].ladder.reference
        capacity = 1 / reference.profile.of(ROWS)
        print(f"{reference.model} bears about {capacity:.0f} requests of {ROWS} images in a second.")
        for policy in ("fixed", "latency"):
            file.write_text(SERVICE.replace("POLICY", policy))
            with served(file, store) as url:
                results = send(url, "fashion", workload, burst(capacity / 2, 9.0, factor=6.0), DEADLINE)
            p50, p90, p99 = (percentile.asked * 1e3 for percentile in results.percentiles[:3])
            within = results.goodput.value if results.goodput else 0.0
            print(f"{policy}: p50 {p50:.0f} ms, p90 {p90:.0f} ms, p99 {p99:.0f} ms; {within:.1%} within 100 ms")
            if policy == "latency":
                print_events(last_session(store, "fashion"))


if __name__ == "__main__":
    main()
