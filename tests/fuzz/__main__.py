"""`python -m tests.fuzz [TARGET…] --seconds 60 --seed 1`: every target in its own process; exits 1 on a failure."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable

from tests.fuzz import readers, texts
from tests.fuzz.harness import Attempt, fuzz, limit_memory

TARGETS: dict[str, Attempt] = {
    "manifests": texts.manifest,
    "plans": texts.plan,
    "queries": texts.query,
    "environments": texts.environment,
    "npz": readers.npz,
    "parquet": readers.parquet,
    "idx": readers.idx,
    "cifar": readers.cifar,
    "images": readers.image,
    "onnx": readers.onnx,
    "tflite": readers.tflite,
    "caffe": readers.caffe,
    "archives": readers.archive,
    "submissions": readers.submission,
}

# What a target needs once is made before its first attempt, whose time is limited.
PREPARATIONS: dict[str, Callable[[], object]] = {"submissions": readers.exported_study}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat one attempt")
    given = parser.parse_args()
    if unknown := [name for name in given.targets if name not in TARGETS]:
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    if len(given.targets) == 1:
        return _fuzzed(given.targets[0], given)
    codes = [_in_own_process(name, given) for name in given.targets or TARGETS]
    return int(any(codes))


def _fuzzed(name: str, given: argparse.Namespace) -> int:
    PREPARATIONS.get(name, lambda: None)()
    limit_memory()
    outcome = fuzz(name, TARGETS[name], seed=given.seed, seconds=given.seconds, only=given.only)
    for kind, (number, trace) in outcome.failures.items():
        print(f"{name}: {kind}; again with: python -m tests.fuzz {name} --seed {given.seed} --only {number}\n{trace}")
    print(outcome, flush=True)
    return int(bool(outcome.failures))


def _in_own_process(name: str, given: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(given.seconds), "--seed", str(given.seed)]
    code = subprocess.run(command, check=False).returncode
    if code < 0:
        print(f"{name}: the process was ended by signal {-code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
