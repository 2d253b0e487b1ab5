"""Whether two versions of zoolens answer alike on a GPU, and how fast each is: a ResNet-50 at batch 1 and 256.

    PYTHONPATH=old/src python benchmarks/gpu_answers.py --keep answers   # keeps the answers of this version
    PYTHONPATH=new/src python benchmarks/gpu_answers.py --keep answers   # compares its own with those that are kept

Weights and images are from a seed. "In turn" is what a batch takes where batch after batch is handed over as an
evaluation does it; of it, "compute" is the share in which the device computes. XLA chooses its kernels by time in each
process, so that two processes of one version may differ in the last bits of JAX's answers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import zoolens
from gpu_networks import jax_network, torch_network
from gpu_tables import seconds_in_turn
from zoolens.inventory.runtimes.runtime import ModelFiles, Options

LARGE = 256
WAYS = ("eager", "cuda-graphs", "compiled", "jax")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, required=True, help="folder of answers")
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--side", type=int, default=224, help="of images, in pixels")
    told = parser.parse_args()
    told.keep.mkdir(parents=True, exist_ok=True)
    print(f"zoolens of {Path(zoolens.__file__).parent}")
    for way in told.way or WAYS[:2]:
        runtime, files, shape = jax_case(told.keep, told.side) if way == "jax" else torch_case(told.side)
        with runtime.open(files, Options(device=told.device, mode="default" if way == "jax" else way)) as session:
            answers = measure(way, session, shape)
        compare(told.keep / f"{way}.npz", answers)


def torch_case(side: int) -> tuple[Any, ModelFiles, tuple[int, ...]]:
    from zoolens.inventory.runtimes.torch.torch_runtime import Torch

    files, _ = torch_network(side)
    return Torch(), files, (3, side, side)


def jax_case(folder: Path, side: int) -> tuple[Any, ModelFiles, tuple[int, ...]]:
    """The program is exported once for both versions."""
    from zoolens.inventory.runtimes.jax.jax_runtime import Jax

    path = folder / f"resnet50-{side}.jax"
    if not path.exists():
        path.write_bytes(jax_network(side, 1).path().read_bytes())
    return Jax(), ModelFiles("jax-export", {"model": path}), (side, side, 3)


def measure(way: str, session: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Print a line for each batch size; the answers to four batches and to one image."""
    random = np.random.default_rng(0)
    images = random.normal(size=(LARGE, *shape)).astype(np.float32)
    name = session.inputs[0].name
    batches = [{name: batch} for batch in (images, images + 1, images * 2, images - 1, images[:1].copy())]
    for feeds in (batches[-1], batches[0]):
        size = len(feeds[name])
        latency = median(lambda feeds=feeds: session.predict(feeds), 200 if size == 1 else 8)
        in_turn = seconds_in_turn(session, feeds, 0.5)
        line = f"{way:12} batch {size:>3}: latency {latency * 1e3:8.3f} ms, in turn {in_turn * 1e3:8.3f} ms a batch"
        try:
            parts = session.device_times(feeds, 10)
        except NotImplementedError:
            print(line, flush=True)
            continue
        inputs, compute = (float(np.median([getattr(one, part) for one in parts])) for part in ("inputs", "compute"))
        print(
            f"{line}, inputs {inputs / 1e6:.3f}, compute {compute / 1e6:.3f} ms: {compute / 1e9 / in_turn:.3f}",
            flush=True,
        )
    alone = [next(iter(session.predict(feeds).values())) for feeds in batches]
    begun = [session.begin_predict([feeds]) for feeds in batches[:4]]
    overlapped = [next(iter(finish()[0].values())) for finish in begun]
    same = all(np.array_equal(one, other) for one, other in zip(alone, overlapped, strict=False))
    print(f"{'':12} overlapping predictions give the same answers: {'yes' if same else 'NO'}", flush=True)
    return alone


def median(call: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times + 3):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return float(np.median(taken[3:]))


def compare(path: Path, answers: list[np.ndarray]) -> None:
    if not path.exists():
        np.savez(path, *answers)
        return
    with np.load(path) as kept:
        before = [kept[name] for name in kept.files]
    same = all(np.array_equal(one, other) for one, other in zip(before, answers, strict=True))
    apart = max(float(np.abs(one - other).max()) for one, other in zip(before, answers, strict=True))
    flips = sum(int((one.argmax(1) != other.argmax(1)).sum()) for one, other in zip(before, answers, strict=True))
    images = sum(map(len, answers))
    print(
        f"{'':12} as the answers that are kept: {'yes, bit for bit' if same else f'up to {apart:.1e} apart'}; "
        f"other classes for {flips} of {images:,} images",
        flush=True,
    )


if __name__ == "__main__":
    main()
