"""Our trainers, as a worker process runs them, against a plain loop of the same framework, in the same process.

After each of our epochs the plain loop (`plain_torch.py`, `plain_keras.py`) trains one on the same images in the same
order, from the same first weights; so the two take turns, and other load on the machine hits both alike. Ours makes
the order, scales, tests and reports as it does in a study; the plain loop finds ready batches of scaled images on the
device, and counts exactly too. `benchmarks/crosstrain.py` starts this once for every framework and loop.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zoolens.base import plugins
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.initial import initial_weights
from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_process import TrainerWorker
from zoolens.training.crosstrain.training.trainers.trainer import Weights
from zoolens.training.crosstrain.training.weights import write_weights
from zoolens.training.pairs.data.epoch_order import batches
from zoolens.training.pairs.data.prepared_data import load, prepared
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.semantics import USUAL, Semantics

LOOPS = (("torch", "eager"), ("torch", "compiled"), ("tensorflow", "compiled"), ("jax", "compiled"))
BATCHES = {"lenet": 128, "resnet8": 32}
TRAINED = {"lenet": 1280, "resnet8": 160}  # samples an epoch, whole batches; so short that some epochs are left alone
TESTED = TEST_BATCH = 100
FIRST_APART, LATER_APART, LATER = 1e-3, 0.05, 6  # of the loss of the first epoch, and of the next: rounding grows


@dataclass
class Way:
    """One of the two. `start`: seconds of its first epoch with all that comes before it; `wall`, `cpu`: seconds of each
    one after it; `losses`: of all, the mean over its samples; `correct`: test samples after the last."""

    start: float = 0.0
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    correct: int = 0

    @property
    def fastest(self) -> float:
        return float(np.mean(sorted(self.wall)[: max(1, len(self.wall) // 10)]))

    def note(self, since: tuple[float, float], loss: float, correct: int) -> None:
        wall, cpu = (now - before for now, before in zip(clocks(), since, strict=True))
        if self.start:
            self.wall.append(wall)
            self.cpu.append(cpu)
        else:
            self.start = wall
        self.losses.append(loss)
        self.correct = correct


@dataclass(frozen=True)
class Compared:
    framework: str
    loop: str
    architecture: str
    ours: Way
    plain: Way

    @property
    def ratio(self) -> float:
        """Of the fastest tenth of epochs: other load on the machine can only add to either."""
        return self.ours.fastest / self.plain.fastest

    @property
    def usual_ratio(self) -> float:
        """The median over neighbouring epochs."""
        return float(np.median(np.divide(self.ours.wall, self.plain.wall)))

    @property
    def cpu_ratio(self) -> float:
        return float(np.median(np.divide(self.ours.cpu, self.plain.cpu)))

    @property
    def same_work(self) -> bool:
        """As far as sums in another order allow."""
        losses = np.array([self.ours.losses, self.plain.losses])[:, :LATER]
        apart = np.abs(np.diff(losses, axis=0))[0] / losses.min(axis=0)
        return bool(apart[0] < FIRST_APART and apart.max() < LATER_APART)


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def compare(framework: str, loop: str, architectures: Sequence[str], rounds: int, threads: int) -> Iterator[Compared]:
    """In a process of its own: Keras' backend and most thread pools are settled when a framework is imported."""
    told = json.dumps([framework, loop, list(architectures), rounds, threads])
    command = [sys.executable, __file__, told]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(framework, threads)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            yield Compared(framework, loop, found["architecture"], Way(**found["ours"]), Way(**found["plain"]))
    if process.returncode:
        raise ChildProcessError(f"{framework}, {loop}: the comparison ended with status {process.returncode}")


def environment(framework: str, threads: int) -> dict[str, str]:
    """As `workers` gives it to a training process."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    own = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    variables = plugins.load(plugins.TRAINERS, framework).variables
    return {**os.environ, **own, **dict.fromkeys(names, str(threads)), **variables}


# --- in the process of its own


class Turns:
    """Hears of our epochs, and answers each with one of the plain loop."""

    def __init__(self, job: Job, data: TrainData, weights: Weights) -> None:
        self.ours, self.plain = Way(), Way()
        self._job, self._data, self._weights = job, data, weights
        self._since = clocks()

    def __call__(self, epoch: Mapping[str, Any]) -> None:
        self.ours.note(self._since, epoch["loss"], epoch["correct"])
        recipe = self._job.recipe
        told = batches(self._data, recipe, epoch["number"])
        train, test = scaled(told.x), scaled(self._data.test_x)
        began = clocks()
        if epoch["number"] == 1:
            self._loop = plain_loop(self._job.framework)(
                recipe.architecture, self._weights, recipe.learning_rate, self._job.loop
            )
        built = clocks()
        ready = self._loop.batches(train, told.y, recipe.batch_size)
        tested = self._loop.batches(test, np.array(self._data.test_y), TEST_BATCH)
        placing = tuple(now - before for now, before in zip(clocks(), built, strict=True))
        loss = self._loop.train(ready)
        correct = self._loop.test(tested)
        self.plain.note((began[0] + placing[0], began[1] + placing[1]), loss, correct)
        self._since = clocks()


def scaled(images: np.ndarray) -> np.ndarray:
    return images.astype(np.float32) / np.float32(255)


def plain_loop(framework: str) -> Any:
    if framework == "torch":
        from plain_torch import Plain

        return Plain
    from plain_keras import PlainJax, PlainTensorFlow

    return {"tensorflow": PlainTensorFlow, "jax": PlainJax}[framework]


def take_turns(framework: str, loop: str, architecture: str, rounds: int, threads: int) -> Turns:
    recipe = Recipe(
        architecture=architecture,
        mode="library",
        weights="shared",
        semantics=Semantics(norm_momentum=0.9),  # Keras' own 0.99 would not be warm after so few steps
        train_limit=TRAINED[architecture],
        test_limit=TESTED,
        learning_rate=1e-3,
        batch_size=BATCHES[architecture],
        epochs=rounds + 1,
    )
    data = prepared(recipe)
    weights = initial_weights(build(architecture, USUAL, data.input_shape, data.classes), USUAL, 0)
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "initial.safetensors"
        write_weights(given, weights)
        job = Job(
            recipe=recipe,
            framework=framework,
            semantics=recipe.wanted,
            data=data.folder,
            output=Path(folder) / "output",
            weights=given,
            loop=loop,  # type: ignore[arg-type]
            threads=threads,
        )
        turns = Turns(job, load(data.folder), weights)
        worker = TrainerWorker(plugins.load(plugins.TRAINERS, framework)(), turns)
        worker.answer({"job": job.model_dump(mode="json")})
    return turns


def main() -> None:
    answers = os.dup(1)
    os.dup2(2, 1)  # frameworks print
    framework, loop, architectures, rounds, threads = json.loads(sys.argv[1])
    with os.fdopen(answers, "w") as out:
        for architecture in architectures:
            turns = take_turns(framework, loop, architecture, rounds, threads)
            found = {"architecture": architecture, "ours": asdict(turns.ours), "plain": asdict(turns.plain)}
            print(json.dumps(found), file=out, flush=True)


if __name__ == "__main__":
    main()
