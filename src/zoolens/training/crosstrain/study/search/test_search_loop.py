import re
import threading
from collections import Counter

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.training.crosstrain.study.search.budget import Budget
from zoolens.training.crosstrain.study.search.journal import TrialResult
from zoolens.training.crosstrain.study.search.search_loop import run_search
from zoolens.training.crosstrain.study.study_plan import Dimension, Plan


def asked(result):
    return [one.asked for one in result.finished]


def test_trials_are_run_and_the_best_is_told(tmp_path, plan, hill):
    seen = []
    result = run_search(plan(split=None, trials=8), hill, tmp_path / "j", progress=seen.append)
    assert Counter(one.asked.subspace for one in result.finished) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert result.complete
    assert result.new == 8
    assert result.best.told.delta == max(one.told.delta for one in result.finished)
    assert [one.done for one in seen] == list(range(9))
    assert (seen[0].eta_seconds, seen[0].best) == (None, None)
    assert (seen[-1].eta_seconds, seen[-1].total, seen[-1].best) == (0, 8, result.best)


def test_a_finished_search_runs_nothing_and_more_trials_go_on(tmp_path, plan, hill):
    first = run_search(plan(trials=4), hill, tmp_path / "j")
    again = run_search(plan(trials=4), hill, tmp_path / "j")
    assert (again.new, again.finished) == (0, first.finished)
    more = run_search(plan(trials=6), hill, tmp_path / "j")
    assert more.new == 2
    assert more.finished[:4] == first.finished
    assert asked(more) == asked(run_search(plan(trials=6), hill, tmp_path / "other"))


def test_the_gaussian_process_climbs_and_resumes_as_if_never_stopped(tmp_path, plan, hill):
    wanted = plan(sampler="gp", initial=4, trials=13)
    whole = run_search(wanted, hill, tmp_path / "whole")
    designed = run_search(plan(trials=13), hill, tmp_path / "designed")
    assert whole.best.told.delta > max(0.98, designed.best.told.delta)
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    (tmp_path / "part").write_text("".join(lines[: 1 + 2 * 11]))  # a header, then two lines to a trial
    part = run_search(wanted, hill, tmp_path / "part")
    assert part.new == 2
    assert asked(part) == asked(whole)


def test_failures_are_results_and_not_run_again(tmp_path, plan, hill):
    def objective(trial, hyperparameters):
        if hyperparameters["epochs"] > 20:
            return TrialResult(status="out-of-memory", message="too many")
        return hill(trial, hyperparameters)

    result = run_search(plan(sampler="gp", initial=5, trials=7), objective, tmp_path / "j")
    failed = [one for one in result.finished if one.told.delta is None]
    assert failed
    assert all(one.asked.hyperparameters["epochs"] > 20 and one.told.message == "too many" for one in failed)
    assert result.best.asked.hyperparameters["epochs"] <= 20
    assert run_search(plan(sampler="gp", initial=5, trials=7), objective, tmp_path / "j").new == 0


def test_workers_run_at_once_and_pending_trials_are_not_asked_twice(tmp_path, plan, hill):
    together = threading.Barrier(3, timeout=60)

    def objective(trial, hyperparameters):
        together.wait()
        return hill(trial, hyperparameters)

    result = run_search(plan(sampler="gp", initial=3, trials=6), objective, tmp_path / "j", workers=3)
    points = [tuple(one.asked.hyperparameters.values()) for one in result.finished]
    assert len(set(points)) == 6


def test_a_small_space_ends_when_all_is_tried(tmp_path, plan):
    space = (
        Dimension(name="epochs", low=1, high=3, integer=True),
        Dimension(name="optimizer.name", choices=("sgd", "adam")),
    )
    result = run_search(
        plan(space, sampler="gp", initial=2, trials=40),
        lambda _, point: TrialResult(delta=point["epochs"] / 9),
        tmp_path / "j",
    )
    assert len(result.finished) == 6
    assert "Every setting" in result.reason


def test_a_slice_stops_before_what_would_not_fit(tmp_path, plan):
    def objective(trial, hyperparameters):
        return TrialResult(delta=0.5, seconds=200)

    first = run_search(plan(), objective, tmp_path / "j", budget=Budget(seconds=100))
    assert len(first.finished) == 1  # the first is let in; a second is known not to fit
    assert "longer than the whole slice" in first.reason
    second = run_search(plan(), objective, tmp_path / "j", budget=Budget(device_seconds=700))
    assert len(second.finished) == 3
    assert not second.complete
    assert run_search(plan(), objective, tmp_path / "j").complete


def test_what_is_raised_ends_the_search_and_is_run_again(tmp_path, plan, hill):
    def broken(trial, hyperparameters):
        if trial == "0003":
            raise ZoolensError("The trainer is not there.", hint="Install it.")
        return hill(trial, hyperparameters)

    with pytest.raises(ZoolensError, match="trainer is not there"):
        run_search(plan(), broken, tmp_path / "j", workers=2)
    ran = []
    result = run_search(plan(), lambda trial, point: ran.append(trial) or hill(trial, point), tmp_path / "j")
    assert result.complete
    assert ran[0] == "0003"
    assert asked(result) == asked(run_search(plan(), hill, tmp_path / "other"))


def test_an_interrupt_is_passed_on_at_once(tmp_path, plan):
    released = threading.Event()

    def objective(trial, hyperparameters):
        released.wait(60)
        return TrialResult(delta=0.5)

    def interrupt(progress):
        if progress.done == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_search(plan(), objective, tmp_path / "j", progress=interrupt)
    released.set()
    assert run_search(plan(), objective, tmp_path / "j").complete


def test_no_worker_is_refused(tmp_path, plan, hill):
    with pytest.raises(ZoolensError, match="0 workers"):
        run_search(plan(), hill, tmp_path / "j", workers=0)


SEARCHING = """
import os, time
from pathlib import Path
from zoolens.training.crosstrain.study.study_plan import Plan
from zoolens.training.crosstrain.study.search.journal import TrialResult
from zoolens.training.crosstrain.study.search.search_loop import run_search
def work(path):
    folder = Path(path)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    def objective(trial, point):
        os.write(log, f"begun {trial} {point}\\n".encode())
        time.sleep(0.02)
        return TrialResult(delta=point["epochs"] / 50)
    def progress(state):
        if state.best:
            os.write(log, f"done {state.done}\\n".encode())
    plan = Plan.model_validate_json((folder / "plan.json").read_text())
    result = run_search(plan, objective, folder / "journal", workers=2, progress=progress)
    os.write(log, b"complete\\n" if result.complete else b"ended\\n")
"""


def test_kill_at_any_moment_loses_and_repeats_nothing(killable, tmp_path, plan, hill):
    wanted = plan(split=None, trials=40)
    (tmp_path / "plan.json").write_text(wanted.model_dump_json())
    log = tmp_path / "log"
    log.touch()
    processes = killable(SEARCHING, tmp_path)
    kills = 0
    while "complete" not in log.read_text():
        target = log.read_text().count("begun") + 9
        processes.start()
        while (seen := log.read_text()).count("begun") < target and "complete" not in seen:
            assert "ended" not in seen
        kills += "complete" not in seen
        processes.kill()
    assert kills >= 3
    begun = Counter(re.findall(r"begun (.*)", log.read_text()))
    assert len({line.split()[0] for line in begun}) == len(begun) == 40  # a trial always has the same hyperparameters
    assert sum(begun.values()) <= 40 + 2 * kills  # no more than the two that ran when it was killed are run again
    result = run_search(wanted, hill, tmp_path / "journal")
    assert (result.new, len(result.finished), result.warnings) == (0, 40, ())
    fresh = run_search(Plan.model_validate(wanted.model_dump()), hill, tmp_path / "fresh")
    assert asked(result) == asked(fresh)
