"""Epoch times of VGG16, ResNet50 and DenseNet121, as the libraries ship them, on a GPU: torch in a CUDA graph, JAX
(Keras) with a whole epoch as one program, beside the time that the arithmetic alone would take.

    python benchmarks/accelerator.py                 # needs a GPU, torch, torchvision, jax and keras
    python benchmarks/accelerator.py --framework jax --batch 1000 --precision bfloat16

Images are random: their content does not change the time. Each framework runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.semantics import Semantics

ARCHITECTURES = ("vgg16", "resnet50", "densenet121")
PEAK = {"tf32": 494e12, "bfloat16": 989e12, "float32": 67e12}  # FLOP/s of an H100 or H200, dense, by its data sheet
PASSES = 3  # forward, gradient of the inputs, gradient of the weights
FIRST, EPOCHS = 1, 4  # the first epoch compiles, records and chooses kernels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=("torch", "jax"), action="append")
    parser.add_argument("--architecture", choices=ARCHITECTURES, action="append")
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--precision", choices=tuple(PEAK), default="tf32")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.here:
        measure(told.framework[0], told.architecture[0], told.images, told.batch[0], told.precision)
        return
    heads = f"{'batch':>6}{'epoch 1':>9}{'then':>9}{'floor':>9}{'ratio':>7}{'images/s':>10}"
    print(f"{'':22}{heads}   times in seconds, {told.precision}")
    for architecture in told.architecture or ARCHITECTURES:
        for framework in told.framework or ("torch", "jax"):
            for batch in told.batch or (500,):
                show(framework, architecture, told.images, batch, told.precision)


def show(framework: str, architecture: str, images: int, batch: int, precision: str) -> None:
    command = [sys.executable, __file__, "--here", "--framework", framework, "--architecture", architecture]
    command += ["--images", str(images), "--batch", str(batch), "--precision", precision]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "KERAS_BACKEND": "jax"}, check=False
    )
    name = f"{architecture} {framework}"
    if done.returncode:
        print(f"{name:22}{batch:>6} failed: {done.stderr.strip().splitlines()[-1]}", flush=True)
        return
    found = json.loads(done.stdout.splitlines()[-1])
    epoch, floor = min(found["seconds"][FIRST:]), found["macs"] * 2 * PASSES * images / PEAK[precision]
    times = f"{found['seconds'][0]:>9.2f}{epoch:>9.4f}{floor:>9.4f}{epoch / floor:>7.1f}{images / epoch:>10,.0f}"
    print(f"{name:22}{batch:>6}{times}   {found['device']}", flush=True)


def measure(framework: str, architecture: str, images: int, batch: int, precision: str) -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(0, 256, (images, 32, 32, 3), np.uint8), random.integers(0, 10, images, np.int32)
    settings = {"mode": "library", "learning_rate": 1e-4, "batch_size": batch, "epochs": EPOCHS}
    recipe = Recipe(architecture=architecture, dataset="random", precision=precision, **settings)
    job = Job(
        recipe=recipe, framework=framework, semantics=Semantics(), data=Path(), output=Path(),
        device="cuda",
    )  # fmt: skip
    trainer, device, macs = on_torch(architecture) if framework == "torch" else on_jax(architecture)
    trained = trainer.train(job, TrainData(x, y, x[:1000], y[:1000], 10), None, lambda _: None)
    seconds = [epoch.seconds for epoch in trained.outcome.epochs]
    print(json.dumps({"seconds": seconds, "device": device, "macs": macs, "status": trained.outcome.status}))


def on_torch(architecture: str) -> tuple[object, str, int]:
    """The trainer, the device, and the multiplications of one image."""
    import torch

    from zoolens.training.crosstrain.training.trainers.torch_building import build_shipped
    from zoolens.training.crosstrain.training.trainers.torch_trainer import Torch

    total = 0

    def count(module: torch.nn.Module, _: object, output: torch.Tensor) -> None:
        nonlocal total
        total += output.numel() * module.weight[0].numel()

    network = build_shipped(architecture, (3, 32, 32), 10).eval()
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            module.register_forward_hook(count)
    network(torch.zeros(1, 3, 32, 32))
    return Torch(), torch.cuda.get_device_name(), total


def on_jax(architecture: str) -> tuple[object, str, int]:
    import jax

    from zoolens.training.crosstrain.training.trainers.keras_building import shipped_model
    from zoolens.training.crosstrain.training.trainers.keras_trainer import Jax

    total = 0
    for layer in shipped_model(architecture, (3, 32, 32), 10).model.layers:
        if type(layer).__name__ in ("Conv2D", "Dense"):
            total += int(np.prod(layer.output.shape[1:]) * np.prod(layer.kernel.shape[:-1]))
    return Jax(), jax.devices()[0].device_kind, total


if __name__ == "__main__":
    main()
