"""A port that a GPU trains: the residual network of examples/port in torch and in JAX, in lockstep and to the end.

    python benchmarks/port_gpu.py                        # needs a GPU, torch and jax
    python benchmarks/port_gpu.py --device cpu --quick   # tries the script itself where there is no GPU
    python benchmarks/port_gpu.py --wheels .gpu-deps     # with packages that are not installed, from wheels in a folder

Lockstep compares all quantities of the first steps in float32, TF32 off, and names the first that parts beyond
rounding. Training says whether the accuracies differ beyond seed noise. Loops: our steps against a loop by hand
(`port_loops.py`). The exit status is 1 if the pair departs, differs, or a loop misses its goal.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path

from wheels import unpacked

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "port"
SIDES = f"{EXAMPLES / 'residual_torch.py'}:net", f"{EXAMPLES / 'residual_jax.py'}:net"
SHAPE, DATA = "3x32x32", f"{EXAMPLES / 'my_data.py'}:arrays"
STEPS = (1, 2, 10)


def lockstep_part(device: str) -> list[str]:
    from zoolens.training.pairs.data.opening import DataChoice, opened_data
    from zoolens.training.pairs.lockstep.lockstep import lockstep_of
    from zoolens.training.pairs.lockstep.lockstep_words import lockstep_lines
    from zoolens.training.pairs.loop.trainable_sides import open_trainable_side
    from zoolens.training.pairs.sides.network_sides import InputShape
    from zoolens.training.pairs.sides.open_pair import opened

    open_ = partial(open_trainable_side, device=device)
    with (
        opened_data(DataChoice(DATA), [InputShape.parse(SHAPE)], epochs=1, seeds=1) as source,
        opened(*SIDES, [SHAPE], open_=open_) as pair,
    ):
        found = lockstep_of(pair, list(islice(source.batches(1, 0), max(STEPS))), steps=STEPS)
    print("\n".join(lockstep_lines(found)), flush=True)
    return [] if found.agree else ["lockstep: the pair departs"]


def training_part(device: str, epochs: int, seeds: int) -> list[str]:
    from zoolens.training.port.training.paired import train
    from zoolens.training.port.training.paired_words import paired_lines

    found = train(*SIDES, [SHAPE], data=DATA, epochs=epochs, seeds=seeds, device=device)
    print("\n".join(paired_lines(found)))
    for seed in found.seeds:
        taken = ", ".join(f"{name} {run.seconds:.2f} s" for name, run in zip(found.frameworks, seed.runs, strict=True))
        print(f"seed {seed.seed}: {taken} for {seed.runs[0].steps} steps, both at once on the device")
    return ["training: the pair differs beyond seed noise"] if found.beyond_noise else []


def here(device: str, quick: bool) -> None:
    missed: list[str] = []
    for name, part in (
        ("lockstep", lambda: lockstep_part(device)),
        ("training", lambda: training_part(device, 1 if quick else 40, 2 if quick else 3)),
    ):
        began = time.monotonic()
        print(f"\n=== {name}", flush=True)
        missed += part()
        print(f"--- {name}: {time.monotonic() - began:.0f} s", flush=True)
    print(
        "\n" + ("\n".join(f"MISSED: {text}" for text in missed) or "Lockstep and training meet their goals."),
        flush=True,
    )
    raise SystemExit(1 if missed else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--quick", action="store_true", help="one epoch, two seeds, few turns of the loops")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to unpack and import from")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here:
        here(chosen.device, chosen.quick)
    with tempfile.TemporaryDirectory(prefix="port-benchmark-") as name:
        paths = [str(ROOT / "src"), *([str(unpacked(chosen.wheels, Path(name) / "packages"))] if chosen.wheels else [])]
        search = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": search, "ZOOLENS_HOME": str(Path(name) / "home")}
        command = [sys.executable, __file__, "--here", "--device", chosen.device, *["--quick"] * chosen.quick]
        missed = subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode
        loops = [sys.executable, str(Path(__file__).with_name("port_loops.py")), "--device", chosen.device]
        loops += ["--framework", "torch", "--framework", "jax", "--rounds", "5" if chosen.quick else "40"]
        missed = subprocess.run(loops, env=environment, cwd=ROOT, check=False).returncode or missed
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
