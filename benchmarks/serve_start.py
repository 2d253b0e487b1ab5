"""How long `zoolens serve` takes to start three services with their ladders: the first time, and again.

    python benchmarks/serve_start.py [--again 2] [--json FILE]

All demo networks are measured into a store first, which does not count. Then the same command is started from a cold
process and stopped as soon as it listens, the first time with nothing but that store, then again. Seconds of the clock
and of the processor, of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from served import MISSED, serving

GOAL = 10.0  # seconds, after the first time
SERVICE = """\
  {name}:
    reference: demo:{name}
    within: 80%
    objectives: {{latency: {{percentile: 99, bound: 30 ms}}}}
    batch: {{size: 8}}
"""
REFERENCES = ("lenet-wide", "lenet-deep", "resnet-tiny")


def measure(folder: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "zoolens", "eval", "demo:*", "--data", "demo", "--limit", "1000"]
    command += ["--runtime", "onnxruntime", "--store", str(folder / "store.db")]
    subprocess.run(command, check=True, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)


def start(folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds until it listens; and seconds of the processor, its end included."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with serving(str(folder / "services.yaml"), "--store", str(folder / "store.db"), environment=environment):
        seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", type=int, default=2, help="starts after the first; their median counts")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {"ZOOLENS_HOME": str(folder / "home")}
        services = "".join(SERVICE.format(name=reference) for reference in REFERENCES)
        (folder / "services.yaml").write_text(f"services:\n{services}")
        measure(folder, environment)
        first = start(folder, environment)
        others = [start(folder, environment) for _ in range(options.again)]
    again = tuple(statistics.median(column) for column in zip(*others, strict=True))
    for title, (seconds, processor) in (("first", first), ("again", again)):
        print(f"{title}: {seconds:.1f} s, {processor:.1f} s of the processor")
    print(f"load of the machine before: {load:.1f}; goal: again ≤ {GOAL:g} s")
    if options.json:
        options.json.write_text(json.dumps({"first": first, "again": again}, indent=2))
    return MISSED if again[0] > GOAL else 0


if __name__ == "__main__":
    raise SystemExit(main())
