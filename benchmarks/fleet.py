"""How well work is shared out: throughput over 1, 2, 4 and 8 nodes, beside plain Ray tasks in the same run.

    python benchmarks/fleet.py [--nodes 1 2 4 8] [--jobs 20] [--seconds 0.5] [--rounds 3]

A real Ray cluster on this machine, whose nodes are raylets of one core each. Work sleeps, so that 8 nodes need no 8
cores: what is measured is what sharing out costs. Ours (`run_jobs`, each job recorded in a SQLite store) and plain Ray
tasks take turns, and the best of all rounds counts. Of linear: the throughput beside that of as many nodes that lose
nothing. A job: what a job takes of a node's time beyond its sleep.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

FUNCTION = "zoolens.testing.executor_contract:answer"
LINEAR, COST, RATIO = 0.95, 0.020, 0.95


def cluster_of(nodes: int) -> Any:
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "num_cpus": 0, "include_dashboard": False})
    for _ in range(nodes):
        cluster.add_node(**small)
    cluster.wait_for_nodes()
    return cluster


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(nodes: int, jobs: int, seconds: float, rounds: int) -> tuple[float, float]:
    """The best times of ours and of plain Ray tasks, for so many jobs on each node."""
    import ray

    from zoolens.base.engine.executors.current_executor import open_executor
    from zoolens.base.engine.executors.executor import run_jobs
    from zoolens.base.engine.executors.job_events import RECORD
    from zoolens.base.store.store import open_store
    from zoolens.inventory.fleet.job_ledger import JobLedger

    store = open_store(Path(os.environ["ZOOLENS_HOME"]) / f"{nodes}.sqlite")
    cluster = cluster_of(nodes)
    os.environ["RAY_ADDRESS"] = cluster.address
    executor = open_executor("ray")
    job = {"do": "sleep", "seconds": seconds, "number": 1, "content": b""}

    @ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
    def nap() -> None:
        time.sleep(seconds)

    def ours(count: int) -> None:
        jobs = ({**job, RECORD: {"id": uuid4().hex, "model": "nap"}} for _ in range(count))
        with JobLedger(store, "benchmark") as ledger:
            for _, answer in run_jobs(ledger.around(executor), FUNCTION, jobs):
                if isinstance(answer, Exception):
                    raise answer

    try:
        # The first task on a node starts its process.
        ours(4 * nodes)
        ray.get([nap.remote() for _ in range(4 * nodes)])
        best = [float("inf"), float("inf")]
        for _ in range(rounds):
            best[0] = min(best[0], timed(lambda: ours(jobs * nodes)))
            best[1] = min(best[1], timed(lambda: ray.get([nap.remote() for _ in range(jobs * nodes)])))
        return best[0], best[1]
    finally:
        executor.close()
        store.close()
        cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--jobs", type=int, default=20, help="of each node")
    parser.add_argument("--seconds", type=float, default=0.5, help="that a job sleeps")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    print("nodes  jobs/s  of linear  a job costs  plain Ray  ours ÷ plain")
    met = True
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = os.environ["ZOOLENS_HOME"] = home  # Ray keeps a token there
        for nodes in asked.nodes:
            ours, plain = measure(nodes, asked.jobs, asked.seconds, asked.rounds)
            linear = asked.jobs * asked.seconds / ours
            cost = (ours - asked.jobs * asked.seconds) / asked.jobs
            ratio = plain / ours
            print(
                f"{nodes:5}  {asked.jobs * nodes / ours:6.2f}  {100 * linear:7.1f} %  {1e3 * cost:8.1f} ms"
                f"  {asked.jobs * nodes / plain:9.2f}  {ratio:12.3f}"
            )
            met = met and linear >= LINEAR and cost <= COST and ratio >= RATIO
    goals = f"at least {100 * LINEAR:.0f} % of linear, {1e3 * COST:.0f} ms a job, {RATIO} of plain Ray"
    print(f"goals ({goals}): {'met' if met else 'not met'}")


if __name__ == "__main__":
    main()
