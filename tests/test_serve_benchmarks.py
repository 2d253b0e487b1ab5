"""The benchmarks of serving run and print their ratios; their figures are judged by people, on a quiet machine.

What they judge themselves is tried on made-up runs: a verdict that cannot fail says nothing.
"""

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from zoolens.base.statistics.intervals import Interval
from zoolens.conftest import ASSETS
from zoolens.faces.serving.services.events import ModelComparison

pytest.importorskip("uvicorn")
pytest.importorskip("grpc")

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def soak(monkeypatch):
    """The module, and a run of 400 seconds in which nothing grows."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = pytest.importorskip("serve_soak", reason="the benchmarks need packages that are absent")
    random = np.random.default_rng(0)
    samples = [
        module.Sample(1000.0 + second, 100_000_000 + random.integers(1_000_000), 500_000_000, 40, 20, frozenset((7, 8)))
        for second in range(400)
    ]
    arrivals = np.sort(random.random(3200) * 400)
    run = module.Soak(10.0, 1000.0, 400.0, samples, arrivals, random.random(3200), np.arange(3.0, 400.0, 6.0))
    return module, run


def failing(module, run):
    return [verdict.words.partition(":")[0] for verdict in module.verdicts(run) if not verdict.holds]


def test_a_soak_in_which_nothing_grows_holds(soak):
    assert failing(*soak) == []


@pytest.mark.parametrize(
    ("what", "grown"),
    [
        ("memory of the server", lambda sample, age: {"server_bytes": sample.server_bytes + 20_000 * age}),
        ("memory of the workers", lambda sample, age: {"workers_bytes": sample.workers_bytes + 100_000 * age}),
        ("open files of the server", lambda sample, age: {"server_files": sample.server_files + age // 40}),
        ("open files of the workers", lambda sample, age: {"workers_files": sample.workers_files + age // 40}),
        ("workers", lambda sample, age: {"workers": frozenset((7, 8 if age < 200 else 9))}),
    ],
)
def test_a_soak_notices_what_grows(soak, what, grown):
    module, run = soak
    samples = [replace(sample, **grown(sample, age)) for age, sample in enumerate(run.samples)]
    assert failing(module, replace(run, samples=samples)) == [what]


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("p99", lambda run: {"latency": run.latency * np.where(run.arrivals > 300, 2, 1)}),
        ("answers", lambda run: {"latency": np.where(np.arange(len(run.latency)) == 5, np.inf, run.latency)}),
        ("switches", lambda run: {"switches": run.switches[:5]}),
        ("switches", lambda run: {"switches": run.switches[run.switches < 300]}),
        ("load", lambda run: {"capacity": 20.0}),
    ],
)
def test_a_soak_notices_a_run_that_is_not_steady(soak, what, changed):
    module, run = soak
    assert failing(module, replace(run, **changed(run))) == [what]


def run(name, *arguments, home):
    environment = {**os.environ, "ZOOLENS_HOME": str(home)}
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *arguments], capture_output=True, text=True, timeout=400,
        env=environment, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_overhead(tmp_path):
    done = run("serve_overhead.py", "--rounds", "1", "--calls", "20", home=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "REST adds" in done.stdout
    assert done.stdout.count("bare gRPC") == 3


@pytest.mark.slow
def test_switching(tmp_path):
    done = run(
        "serve_switching.py", "--demo", "--seconds", "6", "--inputs", "20", "--report", str(tmp_path / "out"),
        home=tmp_path,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert "goodput with switching" in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "fixed", "two-replicas-(ideal)", "switching", "both",
    }  # fmt: skip


@pytest.mark.slow
def test_peers(tmp_path):
    done = run("serve_peers.py", "--seconds", "0.5", "--rounds", "1", "--batching", "on", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("zoolens") == 3


@pytest.mark.slow
def test_soak(tmp_path):
    """A minute instead of an hour: models of the demonstration, every verdict is reached, whatever it says."""
    done = run("serve_soak.py", "--demo", "--seconds", "60", "--inputs", "50", home=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    held = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("holds")]
    assert {"answers:", "workers:", "open"} <= set(held), done.stdout
    assert done.stdout.count("holds ") + done.stdout.count("FAILS ") == 9


@pytest.mark.slow
def test_promise(tmp_path):
    done = run("serve_promise.py", "--demo", "--seconds", "30", "--usual-priority", home=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "the shadow says" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not (ASSETS / "tasks" / "detection").is_dir(), reason="the reference assets are not here")
def test_promise_of_detectors(tmp_path):
    pytest.importorskip("ai_edge_litert.interpreter")
    done = run("serve_promise.py", "--detectors", "--seconds", "30", "--share", "1", "--usual-priority", home=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    # A machine that is quick enough needs no fallback.
    assert "agree with the reference's by" in done.stdout or "No fallback was compared" in done.stdout


@pytest.mark.parametrize("busy", [True, False])
def test_a_server_does_not_yield_on_a_machine_that_others_keep_busy(monkeypatch, tmp_path, busy):
    """Neither while the capacity is measured: it would not start."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    promise = pytest.importorskip("serve_promise", reason="the benchmarks need packages that are absent")
    switching = pytest.importorskip("serve_switching")
    asked = []

    @contextmanager
    def serving(*arguments, yielding):
        asked.append(yielding)
        raise SystemExit(0)
        yield

    for module in (promise, switching):
        monkeypatch.setattr(module, "serving", serving)
    monkeypatch.setattr(promise, "fill", lambda store, setup: None)
    arguments = ["serve_promise.py", "--demo", *(["--usual-priority"] if busy else [])]
    for known in ([], ["--capacity", "10", "--bound", "1"]):
        monkeypatch.setattr(sys, "argv", [*arguments, *known])
        with pytest.raises(SystemExit):
            promise.main()
    assert asked == [not busy, not busy]


@pytest.mark.parametrize(
    ("value", "high", "shadowed", "failing"),
    [
        (0.30, 0.40, 0.31, []),
        (0.22, 0.30, 0.21, []),  # less than promised was seen, which may be chance
        (0.15, 0.20, 0.16, ["promised"]),
        (0.30, 0.40, 0.60, ["shadow"]),
    ],
)
def test_a_promise_of_agreement_that_is_broken_is_noticed(monkeypatch, value, high, shadowed, failing):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    promise = pytest.importorskip("serve_promise", reason="the benchmarks need packages that are absent")
    row = promise.Agreed("small", 300, value, Interval(value - 0.1, high))
    promised = {"small": promise.Promise(0.3, 0.25)}
    served = promise.Served(None, "large", promised, (row,), boxes=True)
    compared = ModelComparison("small", "large", 60, shadowed, shadowed - 0.05, shadowed + 0.05)
    verdicts = promise.verdicts(served, SimpleNamespace(comparisons=(compared,)))
    assert len(verdicts) == 2
    assert "agree with the reference's by" in verdicts[0].words
    words = [verdict.words for verdict in verdicts if not verdict.holds]
    assert len(words) == len(failing)
    assert all(word in said for word, said in zip(failing, words, strict=True))
