"""Requests per second with dynamic batching and without it, by model and number of clients, in turns.

    python benchmarks/serve_batching.py [--model NAME@RUNTIME …] [--clients 1 4 8 32] [--rounds 3] [--same]

Each model is served twice, with `--batching auto` and with `--batching off`, and asked by closed loops of so many
clients over REST. A ratio is taken in each round, and the median over the rounds counts. Client and servers share the
cores, so that seconds of processor for a request (server and worker) stand beside the rate: they say the same where
other work keeps the cores busy.

`--same` serves each model without batching once more, in the same turns: its ratio to the first such server shows what
nothing but chance does. Geometric means of ratios stand with 95 % intervals over the rounds (Student's t).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import zoolens
from serve_peers import Contestant, ask
from served import MISSED, serving_process
from zoolens.base.protocol.address import parse_address
from zoolens.base.protocol.messages import InferRequest
from zoolens.base.statistics.student import mean_estimate
from zoolens.faces.load.http_transport import HttpTransport
from zoolens.faces.load.workload import Workload

MODELS = ("lenet-wide@onnxruntime", "resnet-tiny@onnxruntime", "mlp-small@onnxruntime", "lenet-wide@litert")
CLIENTS = (1, 4, 8, 32)
WAYS = ("auto", "off")
AGAIN = "off again"
GOAL = 1.0  # on ÷ off
NOISE = 0.05  # what two measurements of the same differ by on idle cores


@dataclass(frozen=True)
class Rate:
    per_second: float
    p99: float  # seconds
    processor: float  # seconds for a request, of server and worker


def workload(model: str, runtime: str) -> Workload:
    with zoolens.trusting(), zoolens.open_session(f"demo:{model}", runtime=runtime) as session:
        spec = session.inputs[0]
        shape = [extent or 1 for extent in spec.shape]
    random = np.random.default_rng(0)
    requests = [InferRequest(model, {spec.name: random.random(shape).astype(np.float32)}) for _ in range(4)]
    return Workload(tuple(requests), "random")


def processor_seconds(process: int) -> float:
    server = psutil.Process(process)
    times = [each.cpu_times() for each in (server, *server.children(recursive=True))]
    seconds: float = sum(time.user + time.system for time in times)
    return seconds


def measured(served: tuple[Contestant, int], requests: Workload, options: argparse.Namespace, clients: int) -> Rate:
    contestant, process = served
    began = processor_seconds(process)
    results = ask(contestant, requests, options.seconds, clients)
    spent = processor_seconds(process) - began
    return Rate(results.answered_rate, results.percentiles[2].asked, spent / max(1, results.requests))


def compare(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    model, _, runtime = name.partition("@")
    requests = workload(model, runtime)
    with ExitStack() as stack:
        served = {}
        ways = (*WAYS, AGAIN) if options.same else WAYS
        for way in ways:
            arguments = (f"demo:{model}", "--runtime", runtime, "--batching", way.removesuffix(" again"))
            urls, process = stack.enter_context(serving_process(*arguments))
            address = parse_address(urls["http"])
            served[way] = Contestant(way, partial(HttpTransport, address, "", binary=True)), process
        for clients in options.clients:
            rounds = [
                {way: measured(served[way], requests, options, clients) for way in ways} for _ in range(options.rounds)
            ]
            yield summary(name, clients, rounds)


def summary(name: str, clients: int, rounds: list[dict[str, Rate]]) -> dict[str, Any]:
    def median(way: str, figure: str) -> float:
        return statistics.median(getattr(row[way], figure) for row in rounds)

    return {
        "model": name,
        "clients": clients,
        "ratio": statistics.median(row["auto"].per_second / row["off"].per_second for row in rounds),
        "mean_ratio": ratio_interval(rounds, "auto"),
        "same_ratio": ratio_interval(rounds, AGAIN) if AGAIN in rounds[0] else None,
        "processor_ratio": statistics.median(row["off"].processor / row["auto"].processor for row in rounds),
        **{f"{figure}_{way}": median(way, figure) for way in WAYS for figure in ("per_second", "p99", "processor")},
    }


def ratio_interval(rounds: list[dict[str, Rate]], way: str) -> tuple[float, float, float] | None:
    """The geometric mean of a way's rates ÷ those without batching, and its interval."""
    if len(rounds) < 2:
        return None
    logs = [math.log(row[way].per_second / row["off"].per_second) for row in rounds]
    found = mean_estimate(logs)
    assert found.interval is not None  # there are two rounds
    return math.exp(found.value), math.exp(found.interval.low), math.exp(found.interval.high)


def interval_words(found: tuple[float, float, float] | None) -> str:
    return "" if found is None else "{:.2f} [{:.2f}, {:.2f}]".format(*found)


def show(row: dict[str, Any]) -> None:
    cells = [f"{row['model']:24} {row['clients']:>7}"]
    for way in WAYS:
        cells.append(f"{row[f'per_second_{way}']:>9.0f} {1e3 * row[f'p99_{way}']:>8.1f} ms")
        cells.append(f"{1e6 * row[f'processor_{way}']:>7.0f} µs")
    means = f"{interval_words(row['mean_ratio']):>20} {interval_words(row['same_ratio']):>20}"
    print(*cells, f"{row['ratio']:>7.2f} {row['processor_ratio']:>9.2f} {means}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", metavar="NAME@RUNTIME", help=f"default: {', '.join(MODELS)}")
    parser.add_argument("--clients", type=int, nargs="+", default=list(CLIENTS))
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--same", action="store_true", help="serve without batching twice, to see what chance does")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    head = "".join(f" {f'{way}: per s':>9} {'p99':>11} {'CPU each':>10}" for way in ("on", "off"))
    print(f"{'':24} {'clients':>7}{head} {'on/off':>7} {'in CPU':>9} {'mean':>20} {'off/off':>20}")
    rows = []
    for name in options.model or MODELS:
        for row in compare(name, options):
            show(row)
            rows.append(row)
    least = min(rows, key=lambda row: row["ratio"])
    print(f"\nload of the machine before: {load:.1f}")
    where = f"{least['model']}, {least['clients']} clients"
    print(f"least: {least['ratio']:.2f} ({where}); goal: ≥ {GOAL:g}, noise {NOISE:.0%}")
    if options.json:
        options.json.write_text(json.dumps({"least": least["ratio"], "rows": rows}, indent=2))
    return MISSED if least["ratio"] < GOAL - NOISE else 0


if __name__ == "__main__":
    raise SystemExit(main())
