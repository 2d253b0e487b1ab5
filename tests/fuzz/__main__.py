"""`python -m tests.fuzz [TARGET…] --seconds 60 --seed 1`: every target in its own process; exits 1 on a failure."""

from __future__ import annotations

import argparse
import faulthandler
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.fuzz import checks, readers, texts
from tests.fuzz.harness import STUCK, Attempt, fuzz, limit_memory

TARGETS: dict[str, Attempt] = {
    "manifests": texts.manifest,
    "foreign": texts.foreign,
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
    "torchscript": checks.torchscript,
    "torch-export": checks.torch_export,
    "keras": checks.keras,
    "hdf5": checks.hdf5,
    "mxnet": checks.mxnet,
    "submissions": readers.submission,
}

# What a target needs once is made before its first attempt, whose time is limited.
PREPARATIONS: dict[str, Callable[[], object]] = {"submissions": readers.exported_study}
DONE = "done"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat one attempt")
    parser.add_argument("--note", type=Path, help="file that is told the number of every attempt as it begins")
    given = parser.parse_args()
    if unknown := [name for name in given.targets if name not in TARGETS]:
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    if len(given.targets) == 1:
        return _fuzzed(given.targets[0], given)
    codes = [_in_own_process(name, given) for name in given.targets or TARGETS]
    return int(any(codes))


def _fuzzed(name: str, given: argparse.Namespace) -> int:
    def begin(number: int) -> None:
        faulthandler.dump_traceback_later(STUCK, exit=True)  # where a library goes on for ever, Python cannot stop it
        if given.note is not None:
            given.note.write_text(str(number))

    PREPARATIONS.get(name, lambda: None)()
    limit_memory()
    outcome = fuzz(name, TARGETS[name], seed=given.seed, seconds=given.seconds, only=given.only, begin=begin)
    faulthandler.cancel_dump_traceback_later()
    if given.note is not None:
        given.note.write_text(DONE)
    for kind, (number, trace) in outcome.failures.items():
        print(f"{name}: {kind}; again with: python -m tests.fuzz {name} --seed {given.seed} --only {number}\n{trace}")
    print(outcome, flush=True)
    return int(bool(outcome.failures))


def _in_own_process(name: str, given: argparse.Namespace) -> int:
    with tempfile.NamedTemporaryFile("r") as note:
        options = ["--seconds", str(given.seconds), "--seed", str(given.seed), "--note", note.name]
        code = subprocess.run([sys.executable, "-m", "tests.fuzz", name, *options], check=False).returncode
        note.seek(0)
        number = note.read()
    if number == DONE:
        return code
    how = f"by signal {-code}" if code < 0 else f"after {STUCK} seconds without a word"
    again = f"python -m tests.fuzz {name} --seed {given.seed} --only {number}"
    print(f"{name}: the process ended {how}; again with: {again}", flush=True)
    return code or 1


if __name__ == "__main__":
    sys.exit(main())
