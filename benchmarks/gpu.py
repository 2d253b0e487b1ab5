"""Evaluation, trace and divergence on a CUDA device: ResNet-50 in torch and in JAX, with weights from a seed.

    python benchmarks/gpu.py                           # all sections; needs a GPU, torch, torchvision and jax
    python benchmarks/gpu.py --section torch --batch 1,32 --seconds 1
    python benchmarks/gpu.py --device cpu --small      # tries the script itself where there is no GPU
    python benchmarks/gpu.py --wheels .gpu-deps        # with packages that are not installed, from wheels in a folder

Sections: facts, torch, jax, eval (SampLeNet on CIFAR-10, where the assets are), fastest (the mode that `eval` chooses
by itself), trace, roofline, diverge. Each runs in a process of its own within a time limit, so that one that fails
costs no other. Tables are printed; --out keeps them as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpu_networks import jax_network, torch_network
from gpu_tables import measured_rows, show_differences, show_layers
from wheels import unpacked

ROOT = Path(__file__).parent.parent
LIMITS = {
    "facts": 40,
    "torch": 150,
    "trace": 70,
    "roofline": 90,
    "diverge": 150,
    "eval": 80,
    "fastest": 210,
    "jax": 150,
}  # seconds
BATCHES = (1, 8, 32, 128, 256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", choices=tuple(LIMITS), action="append")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", default=",".join(map(str, BATCHES)))
    parser.add_argument("--seconds", type=float, default=1.5, help="of latency and of energy, each, for a batch size")
    parser.add_argument("--small", action="store_true", help="images of 64 × 64 and an eighth of the channels in JAX")
    parser.add_argument("--no-energy", action="store_true", help="leave energy out, which takes 5 s for a batch size")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to unpack and import from")
    parser.add_argument("--assets", type=Path, help="folder of the reference models; default: $ZOOLENS_ASSETS")
    parser.add_argument("--out", type=Path, help="folder for results")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here:
        SECTIONS[chosen.section[0]](chosen)
        return
    with tempfile.TemporaryDirectory(prefix="gpu-benchmark-") as folder:
        run_sections(chosen, Path(folder))


def run_sections(chosen: argparse.Namespace, folder: Path) -> None:
    paths = [str(ROOT / "src")]
    if chosen.wheels:
        paths.append(str(unpacked(chosen.wheels, folder / "packages")))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
        "ZOOLENS_HOME": str(folder / "home"),
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "180",
    }
    if chosen.assets:
        environment["ZOOLENS_ASSETS"] = str(chosen.assets.absolute())
    for section in chosen.section or LIMITS:
        print(f"\n=== {section}", flush=True)
        command = [sys.executable, __file__, "--here", "--section", section]
        command += ["--device", chosen.device, "--batch", chosen.batch, "--seconds", str(chosen.seconds)]
        command += ["--small"] * chosen.small + ["--no-energy"] * chosen.no_energy
        command += ["--out", str(chosen.out)] if chosen.out else []
        began = time.monotonic()
        try:
            done = subprocess.run(command, env=environment, timeout=LIMITS[section], cwd=ROOT, check=False)
            state = "done" if done.returncode == 0 else f"FAILED with {done.returncode}"
        except subprocess.TimeoutExpired:
            state = "STOPPED at its time limit"
        print(f"--- {section}: {state} after {time.monotonic() - began:.0f} s", flush=True)


def keep(chosen: argparse.Namespace, name: str, content: Any) -> None:
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / f"{name}.json").write_text(json.dumps(content, indent=1, default=str))


def sizes(chosen: argparse.Namespace) -> list[int]:
    return [int(batch) for batch in chosen.batch.split(",")]


def side(chosen: argparse.Namespace) -> int:
    return 64 if chosen.small else 224


# --- what runs here


def facts(chosen: argparse.Namespace) -> None:
    from zoolens.base.engine.machine import describe_machine
    from zoolens.findings.measure.lock import accelerator_identity

    known: dict[str, Any] = {"machine": describe_machine().cpu, "cores": describe_machine().cores}
    if chosen.device != "cpu":
        known["accelerator"] = accelerator_identity(chosen.device)
    for package in ("torch", "jax"):
        try:
            known[package] = __import__(package).__version__
        except ImportError as error:
            known[package] = str(error)
    print(json.dumps(known, indent=1))
    keep(chosen, "facts", known)


# --- times, memory and energy by batch size


def torch_times(chosen: argparse.Namespace) -> None:
    from zoolens.inventory.runtimes.torch.torch_runtime import Torch

    files, _ = torch_network(side(chosen))
    some = [size for size in sizes(chosen) if size in (1, 32, 256)]
    ways = {"eager": sizes(chosen)}
    if chosen.device != "cpu":  # one batch size of what is compiled: each is compiled anew
        ways |= {"cuda-graphs": some, "autocast-bfloat16": some, "compiled": some[-1:]}
    rows = []
    for mode, batches in ways.items():
        how = (chosen.device, chosen.seconds, not chosen.no_energy)
        rows += measured_rows(how, Torch(), files, mode, batches)
        keep(chosen, "torch", rows)


def jax_times(chosen: argparse.Namespace) -> None:
    import numpy as np

    from zoolens.inventory.runtimes.jax.jax_runtime import Jax
    from zoolens.inventory.runtimes.runtime import Options

    files = jax_network(side(chosen), 8 if chosen.small else 1)
    batches = [size for size in sizes(chosen) if size in (1, 32, 256)]
    how = (chosen.device, chosen.seconds, not chosen.no_energy)
    keep(chosen, "jax", measured_rows(how, Jax(), files, "default", batches))
    images = np.random.default_rng(1).normal(size=(32, side(chosen), side(chosen), 3)).astype(np.float32)
    answers: dict[str, Any] = {}

    def on_device() -> None:
        with Jax().open(files, Options(device=chosen.device)) as session:
            feeds = {session.inputs[0].name: images}
            answers[chosen.device] = next(iter(session.predict(feeds).values()))
            show_layers("jax, batch 32", session.profile(feeds, 5, kernels=True))

    def beside_the_cpu() -> None:
        with Jax().open(files, Options()) as session:
            answers["cpu"] = next(iter(session.predict({session.inputs[0].name: images}).values()))
        show_differences("jax", answers, "cpu")

    attempt(on_device)
    attempt(beside_the_cpu)


def attempt(part: Callable[[], None]) -> None:
    """A part that fails says so, and the next ones are tried all the same."""
    try:
        part()
    except Exception as error:
        print(f"{getattr(part, '__name__', 'part')} FAILED: {type(error).__name__}: {str(error)[:500]}", flush=True)


# --- the product's own commands


def zoolens(*arguments: str) -> int:
    """Run a command of zoolens and show what it prints."""
    print("$ zoolens", *arguments, flush=True)
    return subprocess.run([sys.executable, "-m", "zoolens", *arguments], check=False).returncode


def variants(chosen: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    yield "cpu", ["--device", "cpu"]
    if chosen.device != "cpu":
        yield "TF32", ["--device", chosen.device]
        yield "float32", ["--device", chosen.device, "--precision", "float32"]


def evaluation(chosen: argparse.Namespace) -> None:
    assets = Path(os.environ.get("ZOOLENS_ASSETS", ROOT / "shared" / "assets"))
    data = assets / "data" / "cifar10" / "test_batch_first2000.bin.gz"
    model = ROOT / "tests" / "reference_zoo" / "cifar10" / "samplenet_torch.yaml"
    if not data.exists():
        print(f"There are no assets under {assets}: the accuracy is not measured.")
        _, model = torch_network(64, "resnet18")
    shared = ["-r", "torch", "--allow-code", "--no-cold", "--wide", "--batch", "1,256", "--latency-seconds", "1"]
    shared += ["--data", f"cifar10:{data}"] if data.exists() else ["--no-accuracy"]
    for _, options in variants(chosen):
        if zoolens("eval", str(model), *shared, *options):
            zoolens("eval", str(model), *shared, *options, "--trust")


def fastest(chosen: argparse.Namespace) -> None:
    """Every mode is timed and the quickest one evaluated; the same command again finds the times."""
    _, manifest = torch_network(side(chosen))
    shared = ["-r", "torch", "--device", chosen.device, "--mode", "fastest", "--batch", "1,32", "--no-accuracy"]
    shared += ["--latency-seconds", str(chosen.seconds), "--wide"]
    if zoolens("eval", str(manifest), *shared):
        shared += ["--trust"]
        zoolens("eval", str(manifest), *shared)
    zoolens("eval", str(manifest), *shared)


def trace(chosen: argparse.Namespace) -> None:
    _, manifest = torch_network(side(chosen))
    out = ["--chrome", str(chosen.out / "trace.chrome.json")] if chosen.out else []
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
    shared = ["-r", "torch", "--batch", "32", "--repeats", "20", "--seconds", "5", "--device", chosen.device]
    attempt(lambda: own_profiles(chosen))
    zoolens("trace", str(manifest), *shared, "--level", "library", "--trust", *out)


def roofline(chosen: argparse.Namespace) -> None:
    """The peaks of the device beside a plain loop of products and copies, and ResNet-50 against them."""
    attempt(lambda: zoolens("machine", "peaks", "--device", chosen.device))
    attempt(lambda: plain_loops(chosen))
    _, manifest = torch_network(side(chosen))
    out = ["--html", str(chosen.out / "roofline.html")] if chosen.out else []
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
    shared = ["-r", "torch", "--batch", "32", "--repeats", "20", "--seconds", "5", "--device", chosen.device]
    zoolens("trace", str(manifest), *shared, "--trust", "--roofline", *out)


def plain_loops(chosen: argparse.Namespace) -> None:
    """What somebody would write who does not know zoolens: a loop, with the device synchronised around it."""
    import torch

    def seconds(call: Callable[[], Any], times: int) -> float:
        call()
        torch.cuda.synchronize(chosen.device)
        began = time.perf_counter()
        for _ in range(times):
            call()
        torch.cuda.synchronize(chosen.device)
        return (time.perf_counter() - began) / times

    for kind in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        x = torch.randn(8192, 8192, device=chosen.device).to(kind)
        print(f"plain loop, {kind}: {2 * 8192**3 / seconds(lambda x=x: x @ x, 20) / 1e12:.1f} TFLOP/s", flush=True)
    torch.backends.cuda.matmul.allow_tf32 = True
    x = torch.randn(8192, 8192, device=chosen.device)
    print(f"plain loop, tf32: {2 * 8192**3 / seconds(lambda: x @ x, 20) / 1e12:.1f} TFLOP/s", flush=True)
    source = torch.ones(1 << 30, dtype=torch.uint8, device=chosen.device)
    target = torch.empty_like(source)
    print(f"plain loop, copy: {2 * (1 << 30) / seconds(lambda: target.copy_(source), 20) / 1e9:.0f} GB/s", flush=True)


def own_profiles(chosen: argparse.Namespace) -> None:
    """Layers and kernels of each mode, without the command."""
    import numpy as np

    from zoolens.inventory.runtimes.runtime import Options
    from zoolens.inventory.runtimes.torch.torch_runtime import Torch

    files, _ = torch_network(side(chosen))
    feeds = {"input": np.random.default_rng(0).normal(size=(32, 3, side(chosen), side(chosen))).astype(np.float32)}
    for mode in ("eager", "cuda-graphs") if chosen.device != "cpu" else ("eager",):
        with Torch().open(files, Options(device=chosen.device, mode=mode)) as session:
            show_layers(f"torch {mode}, batch 32", session.profile(feeds, 5, kernels=True))


def divergence(chosen: argparse.Namespace) -> None:
    import numpy as np

    from zoolens.inventory.runtimes.runtime import Options
    from zoolens.inventory.runtimes.torch.torch_runtime import Torch

    files, manifest = torch_network(64, "resnet18")
    images = np.random.default_rng(1).normal(size=(64, 3, 64, 64)).astype(np.float32)
    answers = {}
    ways = {"cpu": Options()}
    if chosen.device != "cpu":
        ways |= {
            "TF32": Options(device=chosen.device),
            "float32": Options(device=chosen.device, precision="float32"),
            "bfloat16": Options(device=chosen.device, mode="autocast-bfloat16"),
        }
    for name, options in ways.items():

        def answer(name: str = name, options: Any = options) -> None:
            with Torch().open(files, options) as session:
                answers[name] = next(iter(session.predict({"input": images}).values()))
                print(f"{name}: {session.effective().precision}", flush=True)

        attempt(answer)
    attempt(lambda: show_differences("torch resnet18", answers, "cpu"))
    data = Path(tempfile.mkdtemp()) / "noise.npz"
    pixels = np.random.default_rng(2).integers(0, 256, (16, 64, 64, 3), np.uint8)
    np.savez(data, images=pixels, labels=np.arange(16) % 10)
    on_cpu = f"{manifest}@torch"
    for other in (f"{on_cpu}:device={chosen.device}", f"{on_cpu}:device={chosen.device},mode=autocast-bfloat16"):
        zoolens("diverge", on_cpu, other, "--data", f"npz:{data}", "--examine", "2")


SECTIONS = {
    "facts": facts,
    "torch": torch_times,
    "jax": jax_times,
    "eval": evaluation,
    "fastest": fastest,
    "trace": trace,
    "roofline": roofline,
    "diverge": divergence,
}

if __name__ == "__main__":
    main()
