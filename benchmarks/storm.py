"""A storm: evaluations and a study on a real cluster, while everything they need is killed at random.

    make object-server
    python benchmarks/storm.py [--evaluations 200] [--kills 50] [--seed 1] [--folder FOLDER]

A Ray cluster of four raylets with different resources, PostgreSQL and moto's server of S3's protocol run on this
machine. Two drivers, one with evaluations and one with a study of crosstrain, are started, and run again whenever they
end before their work is done, as cron would. Meanwhile nodes, the head, PostgreSQL, the object store and the drivers
are killed (SIGKILL) and brought back. At the end the store must hold what a run on this machine alone gives: the same
runs, figures and predictions, nothing twice, nothing missing, every object whole, and no password anywhere. Otherwise
the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storm_cluster import RayCluster, killed
from storm_work import KINDS, Work, differences, leaks, litter, prepare, repeated, told_twice
from zoolens.base.store.store import open_store
from zoolens.testing.object_server import VARIABLES, object_server
from zoolens.testing.postgres import PostgresServer, postgres_server

SECRETS = ("swordfish-of-the-database", "swordfish-of-the-objects")
BUCKET = "facts"
PAUSE = 3.0  # seconds after which a driver that ended is started again
STALLED = 900.0  # seconds without progress after which the storm gives up
# How often each is killed, and how long it is away, in seconds.
KILLS: dict[str, tuple[int, float, float]] = {
    "node": (15, 1, 8),
    "postgres": (12, 1, 12),
    "objects": (12, 1, 12),
    "driver": (6, 0, 0),
    "head": (5, 1, 5),
}


class Timeline:
    def __init__(self, path: Path) -> None:
        self._began, self._path, self._lock = time.monotonic(), path, threading.Lock()

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def say(self, words: str) -> None:
        line = f"{self.now:7.1f} s  {words}"
        with self._lock, self._path.open("a") as file:
            print(line, flush=True)
            file.write(line + "\n")


class Driver(threading.Thread):
    """Runs its commands one after the other, each until it succeeds."""

    def __init__(self, name: str, commands: list[list[str]], environment: dict[str, str], storm: Storm) -> None:
        super().__init__(daemon=True)
        self.label, self._commands, self._environment, self._storm = name, commands, environment, storm
        self.process: subprocess.Popen[bytes] | None = None
        self.log = storm.folder / f"{name}.log"
        self.ends: Counter[str] = Counter()
        self._hit = False

    def run(self) -> None:
        for command in self._commands:
            while not self._once(command):
                time.sleep(PAUSE)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self._hit = True
            killed(self.process)

    def _once(self, command: list[str]) -> bool:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)
            code = self.process.wait()
        how = "killed by us" if self._hit else "finished" if code == 0 else f"ended with {code}"
        self._hit = False
        self.ends[how] += 1
        last = self.log.read_text(errors="replace").strip().rpartition("\n")[2][:240]
        self._storm.timeline.say(f"driver {self.label}: {how}" + ("" if code == 0 else f" — {last}"))
        return code == 0


@dataclass
class Storm:
    folder: Path
    cluster: RayCluster
    postgres: PostgresServer
    objects: Any
    timeline: Timeline
    target: str = ""
    drivers: list[Driver] = field(default_factory=list)
    away: dict[str, threading.Thread] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    def strike(self, draw: random.Random) -> None:
        kind = draw.choices(list(KILLS), [weight for weight, _, _ in KILLS.values()])[0]
        _, low, high = KILLS[kind]
        seconds = draw.uniform(low, high)
        if kind == "driver":
            alive = [driver for driver in self.drivers if driver.is_alive()]
            driver = draw.choice(alive)
            self._struck(kind, f"driver {driver.label}")
            driver.kill()
            return
        name = draw.choice(self.cluster.names) if kind == "node" else kind
        if kind in ("node", "head"):
            # A head takes its nodes with it: one after the other.
            self.settle("head", *self.cluster.names)
        self.settle(name)
        self._struck(kind, f"{name}, for {seconds:.1f} s")
        kill, restore = self._ways(name)
        kill()
        back = threading.Thread(target=self._bring_back, args=(name, seconds, restore), daemon=True)
        self.away[name] = back
        back.start()

    def _struck(self, kind: str, words: str) -> None:
        self.count[kind] += 1
        self.timeline.say(f"KILL {sum(self.count.values())}: {words}")

    def _ways(self, name: str) -> tuple[Callable[[], None], Callable[[], None]]:
        if name == "postgres":
            return self.postgres.kill, self.postgres.start
        if name == "objects":
            return self.objects.stop, self.objects.start
        if name == "head":
            return lambda: self.cluster.kill("head"), self.cluster.restart_head
        return lambda: self.cluster.kill(name), lambda: self.cluster.start_node(name)

    def _bring_back(self, name: str, seconds: float, restore: Callable[[], None]) -> None:
        time.sleep(seconds)
        restore()
        self.timeline.say(f"back: {name}")

    def kill_drivers(self) -> None:
        for driver in self.drivers:
            driver.kill()

    def settle(self, *names: str) -> None:
        """Waits until these are back; all, if none is named."""
        for name in names or list(self.away):
            if (thread := self.away.pop(name, None)) is not None:
                thread.join()

    def revive(self) -> None:
        """Starts again what ended by itself, as a supervisor does: Ray gives up if it cannot start in half a minute."""
        head = self.cluster.running.get("head")
        if head is not None and head.poll() is not None and not self._busy("head", *self.cluster.names):
            self.timeline.say("the head ended by itself, and is started again")
            self.cluster.restart_head()
            return
        for name in self.cluster.names:
            process = self.cluster.running.get(name)
            if process is not None and process.poll() is not None and not self._busy(name, "head"):
                self.timeline.say(f"{name} ended by itself, and is started again")
                self.cluster.kill(name)
                self.cluster.start_node(name)

    def _busy(self, *names: str) -> bool:
        return any(self.away[name].is_alive() for name in names if name in self.away)

    def stages(self) -> int | None:
        """How many stages of runs are done; None: PostgreSQL is away."""
        import psycopg

        with suppress(psycopg.OperationalError), psycopg.connect(self.target, connect_timeout=2) as connection:
            row = connection.execute("SELECT count(*) FROM stages WHERE state = 'done'").fetchone()
            return int(row[0]) if row else 0
        return None


def rage(storm: Storm, kills: int, expected: int, seed: int) -> bool:
    """Kills at moments that are spread over the work. Returns whether the drivers finished."""
    draw = random.Random(seed)
    last, changed = 0, time.monotonic()
    while any(driver.is_alive() for driver in storm.drivers):
        done = storm.stages()
        if done is not None and done != last:
            last, changed = done, time.monotonic()
        struck = sum(storm.count.values())
        if struck < kills and last / expected >= (struck + 0.5) / (kills + 1):
            time.sleep(draw.uniform(0, 3))
            storm.strike(draw)
        storm.revive()
        if time.monotonic() - changed > STALLED:
            storm.timeline.say(f"no progress for {STALLED:.0f} s: giving up")
            return False
        time.sleep(0.5)
    return True


def run_here(work: Work, folder: Path, environment: dict[str, str], timeline: Timeline) -> Path:
    """The same commands on this machine alone, undisturbed."""
    store = folder / "here.sqlite"
    with (folder / "here.log").open("wb") as log:
        for commands in work.commands("local").values():
            for command in commands:
                alone = {**environment, "ZOOLENS_STORE": str(store)}
                subprocess.run(command, stdout=log, stderr=log, env=alone, check=True)
    timeline.say("the same work was done on this machine alone")
    return store


def judge(storm: Storm, here: Path, secrets_in: dict[str, list[Path]]) -> list[str]:
    with open_store(here) as ours, open_store(storm.target) as theirs:
        problems = list(differences(ours, theirs))
        runs = {kind.value: len(theirs.runs(kind=kind)) for kind in KINDS}
        journal = theirs.local_dir / "journals" / "storm.jsonl"
        storm.timeline.say(f"runs: {runs}; objects that no row names: {litter(theirs)}")
    problems += [f"Trial {trial} was told twice." for trial in told_twice(journal)]
    output = "".join(driver.log.read_text(errors="replace") for driver in storm.drivers)
    problems += [f"{model} was measured twice." for model in repeated(output)]
    for words in ("Traceback", "failed unexpectedly"):
        if words in output:
            problems.append(f"A driver said {words!r}, {output.count(words)} times.")
    return problems + list(leaks(secrets_in, SECRETS))


def dumped(target: str, path: Path) -> Path:
    """All rows of the database as text."""
    import psycopg

    with psycopg.connect(target) as connection, path.open("wb") as file:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            with connection.cursor().copy(f'COPY "{table}" TO STDOUT') as rows:
                file.writelines(bytes(row) for row in rows)
    return path


def environments(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The variables of drivers, and those of nodes, which have nothing of the store."""
    driver = {name: value for name, value in os.environ.items() if not name.startswith(("ZOOLENS_", "RAY_", "AWS_"))}
    driver |= {"ZOOLENS_HOME": str(folder / "home"), "HOME": str(folder), "RAY_AUTH_MODE": "disabled", **VARIABLES}
    driver |= {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    node = {name: value for name, value in driver.items() if not name.startswith("AWS_")}
    # Otherwise Ray takes 127.0.0.1 for this machine's address in its network, where the cluster of the storm is not.
    # A node would refuse to join others with this variable.
    driver["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    return driver, node


def blow(work: Work, storm: Storm, driving: dict[str, str], kills: int, seed: int) -> list[str]:
    """The storm between the start of everything and the judgement. Returns what went wrong."""
    here = run_here(work, storm.folder, driving, storm.timeline)
    storm.cluster.start()
    driving = driving | {"ZOOLENS_STORE": storm.target, "ZOOLENS_BULK": storm.objects.url(BUCKET)}
    driving |= {"AWS_SECRET_ACCESS_KEY": SECRETS[1], "RAY_ADDRESS": storm.cluster.address}
    # The judge has another secret: moto takes any, and ours must be found nowhere.
    os.environ.update({name: driving[name] for name in ("ZOOLENS_HOME", "ZOOLENS_BULK")} | VARIABLES)
    with open_store(here) as store:
        expected = sum(len(store.stages(run.id)) for kind in KINDS for run in store.runs(kind=kind))
    open_store(storm.target).close()
    storm.timeline.say(f"the cluster is up; {expected} stages are expected")
    began = storm.timeline.now
    storm.drivers += [Driver(name, commands, driving, storm) for name, commands in work.commands("ray").items()]
    for driver in storm.drivers:
        driver.start()
    finished = rage(storm, kills, expected, seed)
    storm.settle()
    ends = "; ".join(f"{driver.label}: {dict(driver.ends)}" for driver in storm.drivers)
    storm.timeline.say(f"drivers ended after {storm.timeline.now - began:.0f} s: {ends}")
    storm.cluster.stop()
    ray = storm.cluster.folder
    texts = {
        "Ray's file": [path for path in ray.rglob("*") if path.is_file()] + [ray.parent / "ray.log"],
        "The log": [driver.log for driver in storm.drivers],
        "The database, as": [dumped(storm.target, storm.folder / "rows.txt")],
        "The object store, as": [storm.folder / "objects.log"],
    }
    return judge(storm, here, texts) + ([] if finished else ["The drivers did not finish."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers are stopped on the way out
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="zoolens-storm-"))
    (folder / "models").mkdir(parents=True)
    timeline = Timeline(folder / "timeline.txt")
    timeline.say(f"seed {chosen.seed}, {chosen.evaluations} evaluations, {chosen.kills} kills, in {folder}")
    work = prepare(folder / "models", chosen.evaluations)
    driving, node = environments(folder)
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server())
        objects = stack.enter_context(object_server(folder / "objects.log"))
        objects.make_bucket(BUCKET)
        short = stack.enter_context(tempfile.TemporaryDirectory(prefix="zs-", ignore_cleanup_errors=True))
        cluster = RayCluster(Path(short) / "r", node)  # sockets have short names
        stack.callback(cluster.stop)
        target = postgres.database().replace("//zoolens@", f"//zoolens:{SECRETS[0]}@")
        storm = Storm(folder, cluster, postgres, objects, timeline, target)
        stack.callback(storm.kill_drivers)
        problems = blow(work, storm, driving, chosen.kills, chosen.seed)
    if sum(storm.count.values()) < chosen.kills:
        problems.append(f"Only {sum(storm.count.values())} kills fell into the work.")
    timeline.say(f"kills: {dict(storm.count)}")
    for problem in problems:
        timeline.say(f"PROBLEM: {problem}")
    timeline.say("the store is that of an undisturbed run" if not problems else f"{len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
