"""Steps of `zoolens port train` against the loop that a user writes by hand, in the same process and in turns.

    python benchmarks/port_loops.py [--framework torch|keras|jax] [--rounds 30] [--threads 1] [--device cpu|gpu]

Each framework has a process of its own. Ours is what a side's process runs: it reads the recorded stream, turns and
places each batch, steps, and hands back the losses. The user's loop finds its batches in memory, in its own order of
channels. Both start from the same weights, and train one epoch after the other in turns, so that other load on the
machine hits both alike. The ratio of medians is judged; `benchmarks/crosstrain.py --only port` runs this, too. The exit
status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from training_loops import Compared, Way, clocks

FRAMEWORKS = ("torch", "keras", "jax")
ROUNDS, RATIO_GOAL = 30, 1.05
STEPS = {"cpu": 8, "gpu": 100}  # of an epoch
BATCH = 32
APART = 0.01  # of the mean loss of the first epoch: rounding grows, on a GPU most of all
EXAMPLES = Path(__file__).parent.parent / "examples" / "port"

Batches = list[tuple[np.ndarray, np.ndarray]]
Epoch = Callable[[Batches], list[float]]  # the user's own: the losses of one epoch


# --- what a user writes


def torch_side() -> tuple[Any, Epoch]:
    """What the user's function returns, and the loop by hand with another network of the same weights."""
    import torch

    made, (network, optimizer, loss_of) = (example("residual_torch").net() for _ in range(2))
    network.load_state_dict(made[0].state_dict())
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.to(device).train()

    def epoch(batches: Batches) -> list[float]:
        losses = []
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_of(network(torch.from_numpy(x).to(device)), torch.from_numpy(y).to(device))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return [float(loss) for loss in torch.stack(losses).cpu()]

    return made, epoch


def keras_side() -> tuple[Any, Epoch]:
    import keras
    import tensorflow as tf

    made, model = keras_network(keras), keras_network(keras)
    model.set_weights(made.get_weights())
    optimizer, loss_of = model.optimizer, model.loss

    @tf.function(jit_compile=bool(model.jit_compile))
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def epoch(batches: Batches) -> list[float]:
        losses = [step(tf.constant(x), tf.constant(y)) for x, y in batches]
        return [float(loss) for loss in losses]

    return made, epoch


def keras_network(keras: Any) -> Any:
    """The residual network of the examples in Keras, compiled."""
    layers = keras.layers

    def block(x: Any, filters: int, stride: int) -> Any:
        y = layers.Conv2D(filters, 3, strides=stride, padding="same", activation="relu")(x)
        y = layers.Conv2D(filters, 3, padding="same")(y)
        return layers.ReLU()(layers.add([y, layers.Conv2D(filters, 1, strides=stride)(x) if stride > 1 else x]))

    image = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(image)
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        x = block(x, filters, stride)
    model = keras.Model(image, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def jax_side() -> tuple[Any, Epoch]:
    import jax

    apply, parameters, optimizer, loss_of = made = example("residual_jax").net()

    @jax.jit
    def step(parameters: Any, state: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda tree: loss_of(apply(tree, x), y))(parameters)
        changes, state = optimizer.update(gradients, state, parameters)
        return jax.tree_util.tree_map(lambda value, change: value + change, parameters, changes), state, loss

    state = parameters, optimizer.init(parameters)

    def epoch(batches: Batches) -> list[float]:
        nonlocal state
        losses = []
        for x, y in batches:
            *state, loss = step(*state, x, y)
            losses.append(loss)
        return [float(loss) for loss in jax.device_get(losses)]

    return made, epoch


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SIDES = {"torch": torch_side, "keras": keras_side, "jax": jax_side}


# --- in the process of its own


def take_turns(framework: str, rounds: int, device: str, threads: int) -> Compared:
    from zoolens.training.pairs.data.recording import record
    from zoolens.training.pairs.loop.trainable_recognition import trainable
    from zoolens.training.pairs.loop.training_course import TrainingCourse
    from zoolens.training.pairs.networks.recognition import recognised
    from zoolens.training.pairs.sides.network_sides import InputShape

    if framework == "torch":
        import torch

        torch.set_num_threads(threads)
    stream = images(STEPS[device], first=framework == "torch")
    ours, plain = Way(), Way()
    made, epoch = SIDES[framework]()
    network = recognised(made, [(3, 32, 32)], ["float"], framework)
    if device == "gpu":
        network.move_to_gpu()
    course = TrainingCourse(trainable(made, network))
    course.begin(0)
    with record(stream, [InputShape((3, 32, 32))], epochs=1) as source:
        for number in range(rounds + 1):
            for way in (0, 1) if number % 2 else (1, 0):
                since = clocks()
                if way:
                    plain.note(since, float(np.mean(epoch(stream))), 0)
                else:
                    losses = course.next_steps(source, 1, 0, source.steps + 1)
                    ours.note(since, float(np.mean(losses)), 0)
                    course._place = None  # the next turn replays the epoch
    return Compared(framework, device, "residual", ours, plain)


def images(steps: int, *, first: bool) -> Batches:
    """Batches in the framework's own order of channels."""
    values, labels = example("my_data").squares(steps * BATCH, 0)
    values = np.ascontiguousarray(values.transpose(0, 3, 1, 2)) if first else values
    return [(values[start : start + BATCH], labels[start : start + BATCH]) for start in range(0, len(labels), BATCH)]


# --- for all of them


def compare(framework: str, rounds: int, device: str, threads: int) -> Compared:
    """In a process of its own: thread pools and Keras' backend are settled when a framework is imported."""
    command = [sys.executable, __file__, "--here", json.dumps([framework, rounds, device, threads])]
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    own = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if device == "cpu":
        own |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu", **dict.fromkeys(names, str(threads))}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **own}, check=False)
    if done.returncode:
        raise ChildProcessError(f"{framework}: the comparison ended with status {done.returncode}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Compared(framework, device, "residual", Way(**found["ours"]), Way(**found["plain"]))


def loops(frameworks: Sequence[str], rounds: int, threads: int, device: str) -> Iterator[str]:
    """Print a line for each framework, and give what misses its goal."""
    print(f"\nPorts: seconds an epoch of {STEPS[device]} steps, {rounds} epochs each in turns, {device}")
    print(f"{'':10}{'start':>13}{'median':>17}{'ratio: median':>15}{'fastest':>9}{'CPU':>7}{'last loss':>19}")
    print(f"{'':10}{'ours plain':>13}{'ours   plain':>17}{'':31}{'ours    plain':>19}")
    for framework in frameworks:
        try:
            found = compare(framework, rounds, device, threads)
        except ChildProcessError as error:
            print(error)
            yield str(error)
            continue
        ours, plain = found.ours, found.plain
        ratio = float(np.median(ours.wall) / np.median(plain.wall))
        medians = f"{np.median(ours.wall):7.4f} {np.median(plain.wall):7.4f}"
        losses = f"{ours.losses[-1]:.5f} {plain.losses[-1]:.5f}"
        ratios = f"{ratio:15.3f}{found.ratio:9.3f}{found.cpu_ratio:7.3f}"
        print(f"{framework:10}{ours.start:6.1f} {plain.start:6.1f}  {medians}{ratios}  {losses}", flush=True)
        if ratio > RATIO_GOAL:
            yield f"port, {framework}: ratio {ratio:.3f} of {RATIO_GOAL}"
        if abs(ours.losses[0] - plain.losses[0]) > APART * plain.losses[0]:
            yield f"port, {framework}: the two do not do the same work"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=FRAMEWORKS, action="append")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--threads", type=int, default=1, help="of each framework on a CPU")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here:
        framework, rounds, device, threads = json.loads(chosen.here)
        found = take_turns(framework, rounds, device, threads)
        print("\n" + json.dumps({"ours": asdict(found.ours), "plain": asdict(found.plain)}))
        return
    missed = list(loops(chosen.framework or FRAMEWORKS, chosen.rounds, chosen.threads, chosen.device))
    print("\n" + ("\n".join(f"MISSED: {text}" for text in missed) or "All goals are met."))
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
