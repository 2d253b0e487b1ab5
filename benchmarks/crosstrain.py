"""What crosstrain costs, and what a kill costs it, in one run.

    python benchmarks/crosstrain.py [--quick] [--threads 1] [--only loops|search|kills|port]

Loops: our trainers as a worker process runs them against a hand-written loop of each framework in the same process,
epoch by epoch in turns (`training_loops.py` says how); LeNet and ResNet-8 on Fashion-MNIST. "start" is the first epoch
with building and compiling, and for ours, which comes first, with importing the framework. Ratios are ours / plain: of
the fastest tenth of epochs (which is judged), the median over neighbouring epochs, and that of CPU time. Search:
seconds a trial beside training (`search_cost.py`). Kills: a study killed with -9 at random moments
(`killed_study.py`). Port: steps of `zoolens port train` against loops by hand (`port_loops.py`).

The yardstick is the time of a fixed loop; where it is twice the fastest of the run, the machine was at half its speed.
The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from pathlib import Path

import numpy as np

from killed_study import TRIALS, survive
from port_loops import FRAMEWORKS
from port_loops import loops as port_loops
from query import against_fastest, yardstick
from search_cost import LAST, search_costs
from training_loops import LOOPS, TRAINED, Compared, compare
from zoolens.base.errors import ZoolensError

RATIO_GOAL, SEARCH_GOAL = 1.05, 0.5
PARTS = ("loops", "search", "kills", "port")


def loops(rounds: int, architectures: tuple[str, ...], threads: int) -> list[str]:
    print(f"\nLoops: seconds an epoch, {rounds} epochs each in turns, threads: {threads}")
    print(
        f"{'':30}{'start':>13}{'fastest':>15}{'median':>15}{'ratio: fastest':>15}{'median':>8}{'CPU':>7}"
        f"{'last loss':>17}{'right':>9}"
    )
    print(f"{'':30}" + f"{'ours plain':>13}" + f"{'ours  plain':>15}" * 2 + f"{'':30}{'ours   plain':>17}{'':9}")
    missed = []
    for framework, loop in LOOPS:
        try:
            for found in compare(framework, loop, architectures, rounds, threads):
                missed += show(found)
        except ChildProcessError as error:
            print(error)
            missed.append(str(error))
        print(f"{'':30}{against_fastest(yardstick())} so far", flush=True)
    return missed


def show(found: Compared) -> list[str]:
    name = f"{found.framework}, {found.loop}, {found.architecture}"
    ways = (found.ours, found.plain)
    cells = " ".join(f"{way.start:6.1f}" for way in ways)
    cells += "  " + " ".join(f"{way.fastest:6.3f}" for way in ways)
    cells += "  " + " ".join(f"{np.median(way.wall):6.3f}" for way in ways)
    losses = " ".join(f"{way.losses[-1]:.5f}" for way in ways)
    right = "/".join(str(way.correct) for way in ways)
    print(
        f"{name:30}{cells}{found.ratio:15.3f}{found.usual_ratio:8.3f}{found.cpu_ratio:7.3f}  {losses}{right:>9}",
        flush=True,
    )
    missed = [] if found.ratio <= RATIO_GOAL else [f"{name}: ratio {found.ratio:.3f} of {RATIO_GOAL}"]
    return missed + ([] if found.same_work else [f"{name}: the two do not do the same work"])


def search(trials: int, folder: Path) -> list[str]:
    costs = search_costs(folder, trials)
    print(
        f"\nSearch: {trials} trials, 4 dimensions, Gaussian process; seconds a trial beside training: mean "
        f"{np.mean(costs.whole):.3f}, median {np.median(costs.whole):.3f}, largest {max(costs.whole):.3f}, last {LAST} "
        f"{costs.last:.3f}; of the mean, the store {np.mean(costs.filing):.3f} ({against_fastest(yardstick())})",
        flush=True,
    )
    return [] if costs.last <= SEARCH_GOAL else [f"search: {costs.last:.3f} of {SEARCH_GOAL} s a trial"]


def kills(count: int, folder: Path, seed: int) -> list[str]:
    found = survive(folder, count, seed)
    print(
        f"\nKills: {found.kills} × kill -9 in a study of {TRIALS} trials (seed {seed}): finished trials repeated "
        f"{found.repeated}, lost {found.lost}, processes left behind {found.left}; all trials as in a study that was "
        f"left alone: {'yes' if found.same else 'NO'}",
        flush=True,
    )
    missed = [] if found.fine else ["kills: see above"]
    return missed if found.kills else [*missed, "kills: the study was always done before it could be killed"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="LeNet alone, few epochs, trials and kills")
    parser.add_argument("--threads", type=int, default=1, help="of each framework")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 16), help="of the moments of the kills")
    told = parser.parse_args()
    chosen, quick = told.only or PARTS, told.quick
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"yardstick {yardstick():.1f} µs; load {load} on {os.cpu_count()} cores before the run", flush=True)
    missed = []
    try:
        with tempfile.TemporaryDirectory() as name:
            if "loops" in chosen:
                missed += loops(10 if quick else 60, ("lenet",) if quick else tuple(TRAINED), told.threads)
            if "search" in chosen:
                missed += search(20 if quick else 60, Path(name))
            if "kills" in chosen:
                missed += kills(2 if quick else 5, Path(name), told.seed)
            if "port" in chosen:
                missed += port_loops(FRAMEWORKS, 5 if quick else 30, told.threads, "cpu")
    except ZoolensError as error:
        raise SystemExit(str(error)) from error
    print("\n" + ("\n".join(f"MISSED: {one}" for one in missed) or "All goals are met."))
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
