"""Killed with -9 at random moments, run again each time: the store ends as if nothing had happened.

Slow: `make test-slow`. ZOOLENS_KILLS changes the number of kills (200).
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.reproduce import DRIFTING

KILLS = int(os.environ.get("ZOOLENS_KILLS", "200"))
MODELS = 6


def command(models, data, store):
    words = ["eval", *map(str, models), "--data", str(data), "--store", str(store), "--batch", "1,4"]
    return [sys.executable, "-m", "zoolens", *words, "--no-cold", "--latency-seconds", "0.1"]


def facts(target):
    """Everything that does not depend on the clock, and the keys of what does."""
    with open_store(target) as store:
        found = {}
        for run in store.runs():
            assert all(state.done for state in store.stages(run.id).values())
            observations = store.observations(run.id)
            keys = [(one.metric, one.scope) for one in observations]
            assert len(keys) == len(set(keys)), "doubled observations"
            steady = {
                key: (one.value, one.low, one.high, one.n)
                for key, one in zip(keys, observations, strict=True)
                if not one.metric.startswith(DRIFTING)
            }
            predictions = store.table(run.id, "predictions").to_pydict()
            assert predictions["index"] == list(range(len(predictions["index"])))
            found[run.id] = (sorted(keys), steady, predictions, sorted(store.stages(run.id)))
        return found


@pytest.mark.slow
def test_two_hundred_kills(home, fake_model, data, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_PART_SECONDS", "0.05")  # many parts: kills fall between them, too
    models = [fake_model(f"m{seed}", seed=seed, latency_us=30_000) for seed in range(MODELS)]
    undisturbed = tmp_path / "undisturbed.sqlite"
    started = time.monotonic()
    subprocess.run(command(models, data, undisturbed), check=True, capture_output=True)
    whole = time.monotonic() - started
    expected = facts(undisturbed)
    assert len(expected) == MODELS
    with open_store(undisturbed) as store:
        assert all(len(store.parts(run, "predictions")) >= 4 for run in expected)
    moments = random.Random(1)
    kills = rounds = 0
    while kills < KILLS:
        store = tmp_path / f"round{rounds}.sqlite"
        rounds += 1
        while True:
            process = subprocess.Popen(
                command(models, data, store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:
                # Never past the middle: a run that resumes has less to do than a whole one.
                process.wait(timeout=moments.uniform(0.02, whole / 2) if kills < KILLS else None)
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
        assert process.returncode == 0
        assert facts(store) == expected
    print(f"\n{kills} kills in {rounds} rounds of {MODELS} evaluations ({whole:.1f} s undisturbed): all equal")


@pytest.mark.slow
@pytest.mark.postgres
def test_postgres_stopped_and_started_during_an_evaluation(home, fake_model, data, tmp_path, monkeypatch):
    from zoolens.testing.postgres import postgres_server

    pytest.importorskip("psycopg")
    monkeypatch.setenv("ZOOLENS_BULK", str(tmp_path / "bulk"))
    models = [fake_model(f"m{seed}", seed=seed, latency_us=3000) for seed in range(MODELS)]
    with postgres_server() as server:
        undisturbed, disturbed = server.database(), server.database()
        subprocess.run(command(models, data, undisturbed), check=True, capture_output=True)
        expected = facts(undisturbed)
        process = subprocess.Popen(command(models, data, disturbed), stderr=subprocess.PIPE)
        stops = 0
        while process.poll() is None and stops < 6:
            time.sleep(1.5)
            server.stop(crash=stops % 2 == 1)
            time.sleep(0.7)
            server.start()
            stops += 1
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        assert stops >= 2
        assert facts(disturbed) == expected
        print(f"\n{stops} stops and starts of PostgreSQL during {MODELS} evaluations: all equal")
