"""Real training processes, and what becomes of a job when one of them dies."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from zoolens.base import plugins
from zoolens.base.engine.faults import rebuild
from zoolens.base.engine.service import response
from zoolens.base.errors import MissingDependency, ModelError, UnknownName, WorkerError
from zoolens.training.crosstrain.training.job import Epoch, Job, Outcome
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers, _kind
from zoolens.training.crosstrain.training.trainer_process import TrainerWorker, doing
from zoolens.training.crosstrain.training.trainers.trainer import Trained, Trainer
from zoolens.training.crosstrain.training.weights import read_weights


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for part, count in (("train", 64), ("test", 20)):
        labels = generator.integers(0, 3, count).astype(np.int32)
        images = generator.integers(0, 100, (count, 8, 8, 1)).astype(np.uint8)
        images[np.arange(count), labels] += 100
        np.save(folder / f"{part}_x.npy", images)
        np.save(folder / f"{part}_y.npy", labels)
    return folder


LIGHT = """
import time
import numpy as np
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.job import Epoch, Outcome
from zoolens.training.pairs.semantics import ALIGNED
from zoolens.training.crosstrain.training.trainers.trainer import Trained, Trainer

class Light(Trainer):
    # It answers class 1 to every image.
    name, summary, distributions = "light", "learns nothing", ()

    def train(self, job, data, weights, report):
        build(job.recipe.architecture, ALIGNED, (1, 8, 8), data.classes)
        epochs, correct = [], (data.test_y == 1).sum()
        for number in range(1, job.recipe.epochs + 1):
            time.sleep(0.01)
            epochs.append(Epoch(number=number, loss=0.5, correct=int(correct), total=20, seconds=0.01))
            report(epochs[-1])
        outcome = Outcome(framework="light", versions={}, status="finished", epochs=tuple(epochs))
        kept = {"dense1.kernel": np.ones((128, 64), np.float32)} if job.keep_weights else None
        return Trained(outcome, np.ones(20, np.int32), kept)
"""


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    """A trainer of somebody else that imports no framework: where the processes matter and not what they learn. Its
    folder, which is on the path."""
    site = tmp_path_factory.mktemp("site")
    (site / "light_trainer.py").write_text(LIGHT)
    described = site / "light_trainer-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: light-trainer\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[zoolens.trainers]\nlight = light_trainer:Light\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        plugins.forget()
        yield site
    plugins.forget()


@pytest.fixture
def job(tmp_path, data, light):
    def make(name="out", *, framework="light", keep_weights=False, **changes):
        recipe = Recipe(**{"architecture": "mlp", "learning_rate": 0.01, "batch_size": 16, "epochs": 2, **changes})
        return Job(
            recipe=recipe, framework=framework, semantics=recipe.wanted, data=data, output=tmp_path / name,
            loop="eager", threads=1, keep_weights=keep_weights,
        )  # fmt: skip

    return make


def test_programs_compiled_by_jax_are_kept_apart_by_threads_and_on_a_cpu_alone(job, tmp_path, monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")

    def folder(**changes):
        return dict(_kind(job().model_copy(update=changes)).variables).get("JAX_COMPILATION_CACHE_DIR")

    assert folder() == folder()
    assert folder() != folder(threads=2) != folder(threads=None)
    assert folder(device="gpu") is None
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "kept"))
    assert folder() == str(tmp_path / "kept" / "threads-1")


def children():
    return {one.pid for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE}


def test_one_process_trains_one_job_after_another(job):
    before = children()
    seen = []
    with Workers() as workers:
        first, answers = workers.train(job("one", keep_weights=True), seen.append)
        (pid,) = children() - before
        second, _ = workers.train(job("two"))
        assert children() - before == {pid}
    assert not psutil.pid_exists(pid)
    assert (first.status, second.status) == ("finished", "finished")
    assert tuple(seen) == first.epochs == pytest.approx(first.epochs)
    folder = job("one").output
    assert Outcome.model_validate(json.loads((folder / "outcome.json").read_text())) == first
    np.testing.assert_array_equal(np.load(folder / "predictions.npy"), answers)
    assert first.epochs[-1].correct == (answers == np.load(job().data / "test_y.npy")).sum()
    assert read_weights(folder / "weights.safetensors")["dense1.kernel"].shape == (128, 64)
    assert {one.name for one in folder.iterdir()} == {"outcome.json", "predictions.npy", "weights.safetensors"}


def test_errors_a_user_can_mend_are_raised_and_a_killed_process_is_an_outcome(job):
    before = children()
    with Workers() as workers:
        with pytest.raises(UnknownName, match="resnet8"):
            workers.train(job(architecture="resnet7"))
        (pid,) = children() - before
        damaged = job().model_copy(update={"weights": job().data / "train_x.npy"})
        with pytest.raises(ModelError, match="cannot be read"):
            workers.train(damaged)
        assert children() - before == {pid}  # it serves on

        outcome, answers = workers.train(job(epochs=9), lambda _: os.kill(pid, signal.SIGKILL))
        assert (outcome.status, len(answers)) == ("failed", 0)
        assert "killed" in outcome.message
        again, _ = workers.train(job())
        assert again.status == "finished"
        assert pid not in children()


def test_a_process_that_was_killed_while_idle_fails_no_job(job):
    before = children()
    with Workers() as workers:
        workers.train(job())
        (pid,) = children() - before
        psutil.Process(pid).kill()
        while pid in children():
            time.sleep(0.01)
        assert workers.train(job())[0].status == "finished"


def test_leaving_ends_a_process_in_the_middle_of_a_job(job):
    before = children()
    started, ended = threading.Event(), []

    def train(workers):
        try:
            workers.train(job(epochs=10_000), lambda _: started.set())
        except WorkerError as error:
            ended.append(error.message)

    with Workers() as workers:
        thread = threading.Thread(target=train, args=(workers,))
        thread.start()
        assert started.wait(120)
    thread.join(20)
    assert ended == ["The training was stopped."]
    assert children() <= before
    with pytest.raises(WorkerError, match="stopped"):
        workers.train(job())


def test_a_process_is_recycled_and_two_jobs_at_once_have_two(job):
    before, pids = children(), set()
    with Workers(recycled=1) as workers:
        threads = [threading.Thread(target=workers.train, args=(job(str(number)),)) for number in range(2)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 60
        while len(pids) < 2 and time.monotonic() < deadline:
            pids |= children() - before
        for thread in threads:
            thread.join()
        assert len(pids) == 2
        assert not pids & children()


def test_a_process_does_not_outlive_a_killed_parent(job):
    """kill -9 of whoever trains, in the middle of a job."""
    code = (
        "import os, sys, psutil\n"
        "from zoolens.training.crosstrain.training.job import Job\n"
        "from zoolens.training.crosstrain.training.trainer_pool import Workers\n"
        "def die(_):\n"
        "    print(psutil.Process().children()[0].pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "Workers().train(Job.model_validate_json(sys.argv[1]), die)\n"
    )
    told = job(epochs=10_000).model_dump_json()
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, told],
        env=os.environ | path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, deadline = int(done.stdout), time.monotonic() + 30
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_unknown_framework(job):
    with Workers() as workers, pytest.raises(UnknownName, match="Did you mean torch"):
        workers.train(job(framework="torhc"))


class Scripted(Trainer):
    """Prints, then does what a test says."""

    name, summary, distributions = "scripted", "", ()

    def __init__(self, do):
        self._do = do

    def train(self, job, data, weights, report):
        print("a library that prints")
        report(Epoch(number=1, loss=0.5, correct=1, total=20, seconds=0.1))
        return self._do(data)


def failure(do, job, report=lambda _: None):
    """How the worker describes what went wrong."""
    return response({"job": job.model_dump(mode="json")}, TrainerWorker(Scripted(do), report).answer, doing)["error"]


def test_a_crash_is_an_answer_in_one_sentence(job):
    def crash(_):
        raise KeyError("unheard of")

    sent = []
    told = failure(crash, job(), sent.append)
    assert told["type"] == "UnexpectedError"
    assert told["message"].startswith("The training process met an unexpected KeyError at test_trainer_pool.py:")
    assert sent[0]["correct"] == 1


def test_no_memory_outside_of_the_training_is_said(job):
    assert failure(lambda _: bytes(1 << 62), job())["message"] == "The training process ran out of memory."


@pytest.mark.parametrize("do", [lambda _: exec("raise SystemExit(3)"), lambda _: None])
def test_a_trainer_that_breaks_the_contract_does_not_end_the_process(job, do):
    assert failure(do, job())["type"] == "UnexpectedError"


def test_nonsense_instead_of_a_job():
    worker = TrainerWorker(Scripted(lambda _: None), lambda _: None)
    assert response({"job": {"recipe": 1}}, worker.answer, doing)["error"]["type"] == "UnexpectedError"


def test_a_missing_framework_reaches_the_user_with_its_extra(job):
    def missing(_):
        raise MissingDependency("The trainer scripted", "torch", "torch")

    error = rebuild(failure(missing, job()))
    assert isinstance(error, MissingDependency)
    assert str(error) == str(MissingDependency("The trainer scripted", "torch", "torch"))
    assert type(rebuild({"type": "Exception", "message": "m", "hint": None})) is WorkerError


def test_the_data_stay_mapped_between_jobs(job):
    seen = []

    def keep(data):
        seen.append(data)
        return Trained(Outcome(framework="scripted", versions={}, status="finished"), np.zeros(20, np.int32))

    worker = TrainerWorker(Scripted(keep), lambda _: None)
    for name in ("one", "two"):
        assert worker.answer({"job": job(name).model_dump(mode="json")})["status"] == "finished"
    assert seen[0] is seen[1]
