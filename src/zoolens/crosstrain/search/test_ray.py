"""Ray runs the same trials as this machine does, into the same journal."""

import sys
import threading

import pytest

from zoolens.crosstrain.search.budget import Budget
from zoolens.crosstrain.search.running import run_search
from zoolens.errors import MissingDependency, ZoolensError


@pytest.fixture(scope="module")
def ray(tmp_path_factory):
    """One small cluster for all tests here: starting it takes most of their time."""
    ray = pytest.importorskip("ray", reason="RAY ABSENT: install zoolens[ray] to test searching on it")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))  # Ray keeps a token there
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
        yield ray
        ray.shutdown()


def asked(result):
    return [one.asked for one in result.finished]


@pytest.mark.slow
def test_both_ways_run_the_same_trials_and_continue_each_other(ray, tmp_path, plan, hill):
    here = run_search(plan(split=None), hill, tmp_path / "here", backend="local")
    seen = []
    there = run_search(plan(split=None), hill, tmp_path / "there", backend="ray", workers=2, progress=seen.append)
    assert there.complete
    assert asked(there) == asked(here)
    assert [one.told.delta for one in there.finished] == [one.told.delta for one in here.finished]
    assert [one.done for one in seen] == list(range(7))
    more = plan(split=None, trials=9)
    run_search(more, hill, tmp_path / "there", backend="local", budget=Budget(trials=7))
    assert asked(run_search(more, hill, tmp_path / "there", backend="ray")) == asked(
        run_search(more, hill, tmp_path / "here")
    )


@pytest.mark.slow
def test_what_is_raised_there_is_said_here(ray, tmp_path, plan, hill):
    def broken(trial, hyperparameters):
        if trial == "0003":
            raise ZoolensError("The trainer is not there.", hint="Install it.")
        return hill(trial, hyperparameters)

    with pytest.raises(ZoolensError, match="trainer is not there") as caught:
        run_search(plan(), broken, tmp_path / "j", backend="ray")
    assert caught.value.hint == "Install it."

    def wrong(trial, hyperparameters):
        raise ValueError("a mistake")

    with pytest.raises(ZoolensError, match="Trial 0003 broke off"):
        run_search(plan(), wrong, tmp_path / "j", backend="ray")
    assert run_search(plan(), hill, tmp_path / "j").complete


def test_what_cannot_travel_is_said(tmp_path, plan):
    pytest.importorskip("ray", reason="RAY ABSENT: install zoolens[ray] to test searching on it")
    held = threading.Lock()
    with pytest.raises(ZoolensError, match="cannot be sent to Ray"):
        run_search(plan(), lambda trial, point: held.acquire(), tmp_path / "j", backend="ray")


def test_missing_ray_is_explained(tmp_path, plan, hill, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_ADDRESS", "ray.example:6379")  # "auto" goes where a cluster is named
    with pytest.raises(MissingDependency, match=r"zoolens\[ray\]"):
        run_search(plan(), hill, tmp_path / "j")
