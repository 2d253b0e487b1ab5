"""Runs the two examples that each command's help begins with, in a folder that has what they name.

    python -m scripts.run_examples FOLDER [--only TEXT …]

FOLDER is made anew: models, pictures, a store with the runs of the demo, a study and a plan. An example fails if it
ends with an error, or with an exit code that is no answer of its command. What needs a network, a cluster or a
PostgreSQL server is left out, and named with its reason; so are studies that train for more than some minutes.

A test holds every example to parse; this takes a quarter of an hour of processor, and is run before a release.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from zoolens.faces.cli.examples import EXAMPLES
from zoolens.testing import language_models

ROOT: Final = Path(__file__).parent.parent
MODELS: Final = ROOT / "src" / "zoolens" / "inventory" / "zoos" / "demo_data" / "models"
SERVED: Final = 15  # seconds
LONGEST: Final = 2400  # `index estimate` counts every model of every zoo that is installed
LEFT_OUT: Final[Mapping[str, str]] = {
    "zoolens pull": "it fetches from the network",
    "postgresql://": "it needs a PostgreSQL server",
    "--ray auto": "it needs a cluster",
    "crosstrain explain": "140 trainings; tests/test_readme.py runs it",
    "crosstrain run": "16 trainings and more; src/zoolens/training/crosstrain has tests of it",
    "report library": "it needs the two studies of the documentation",
    "events fashion": "it needs a session of a service",
    "fleet log": "it needs a job on another machine",
    "fleet cancel": "it needs a job on another machine",
    "env remove": "it needs an isolated environment",
    "env list | grep": "it needs an isolated environment",
    "trace write model.yaml": "it needs a language model of torch; tests/test_trace_writing.py traces one",
    "zoolens verify-endpoint": "it needs a server; src/zoolens/findings/endpoints asks real ones",
    "zoolens load": "it needs a server; the tests of serving put load on one",
}
SERVERS: Final = ("zoolens ui", "zoolens serve model", "zoolens agent --name")
GATE: Final = 3  # --fail-on says so with an error
# An answer that is an exit code, as the command's help says.
ANSWERS: Final[Mapping[str, tuple[int, ...]]] = {
    "zoolens identify models/": (1, 4),
    "zoolens audit": (1, 3, 4),
    "zoolens compare": (3,),
    "zoolens diverge": (1, 4),
    "zoolens diff": (1, 4),
    "zoolens reproduce": (1, 4),
    "zoolens port": (1, 4),
    "zoolens trace compare": (1, 4),
    "zoolens fleet grid": (3,),
}
FLEET: Final = """\
name: nightly
models: [demo:mlp-small]
datasets: demo
runtimes: onnxruntime
on: local
options: {limit: 200, latency_seconds: 0.2}
"""
SERVICE: Final = """\
services:
  fashion:
    reference: demo:lenet-wide
    within: 85%
    objectives:
      latency: {percentile: 99, bound: 20 ms}
    batch: {size: 1}
"""
# What makes room or way for an example, since others before it wrote the same file or the last trace.
JUST_BEFORE: Final[Mapping[str, str]] = {
    "zoolens ui export": "rm -rf for-anna",
    "zoolens manifest init model.onnx": "rm -f model.yaml",
    "zoolens manifest import config.pbtxt -o": "mv model.yaml drafted.yaml",
    "zoolens trace compare": "zoolens trace run demo:lenet-wide -r onnxruntime -r openvino --fresh",
}
# The manifest that others need is another one.
JUST_AFTER: Final[Mapping[str, str]] = {"zoolens manifest import config.pbtxt -o": "mv drafted.yaml model.yaml"}
# What has to be there before the examples, in this order.
BEFORE: Final = (
    "zoolens demo",
    "zoolens init --example shoes",
    "zoolens manifest init model.onnx -o drafted.yaml",
    "zoolens crosstrain train convnorm.yaml --with torch --with tensorflow --threads 1",
    "zoolens eval a.onnx b.onnx --data shoes/photos -r onnxruntime",
    "zoolens store copy home/data/store.sqlite team.sqlite",
    "zoolens crosstrain train convnorm.yaml --with torch --with tensorflow --threads 1 --store team.sqlite",
)


def prepare(folder: Path, environment: Mapping[str, str]) -> None:
    import onnx

    for name, model in {"model": "lenet-wide", "a": "lenet-wide-int8", "b": "lenet-wide"}.items():
        shutil.copy(MODELS / f"{model}.onnx", folder / f"{name}.onnx")
    language_models.gguf(folder).path().rename(folder / "model.gguf")
    for name in ("torch_net.py", "keras_net.py"):
        shutil.copy(ROOT / "examples" / "port" / name, folder / name)
    for name in ("recipe.yaml", "convnorm.yaml"):
        shutil.copy(ROOT / "examples" / "crosstrain" / "convnorm.yaml", folder / name)
    shutil.copy(ROOT / "examples" / "crosstrain" / "library.yaml", folder / "plan.yaml")
    shutil.copytree(ROOT / "examples" / "triton" / "shoes", folder, dirs_exist_ok=True)
    (folder / "1").mkdir(exist_ok=True)
    shutil.copy(folder / "model.onnx", folder / "1" / "model.onnx")
    (folder / "fleet.yaml").write_text(FLEET)
    (folder / "service.yaml").write_text(SERVICE)
    (folder / "pictures").mkdir()
    for line in BEFORE:
        done = call(line, folder, environment)
        if done.returncode:
            sys.exit(f"{line} ended with {done.returncode}: {done.stdout[-800:]}")
    (folder / "shoes" / "photos").rename(folder / "photos")
    (folder / "shoes").rename(folder / "models")
    shutil.copy(MODELS / "lenet-wide.yaml", folder / "models" / "named.yaml")
    shutil.copy(MODELS / "lenet-wide.tflite", folder / "models" / "lenet-wide.tflite")
    (folder / "drafted.yaml").rename(folder / "model.yaml")
    whole = onnx.shape_inference.infer_shapes(onnx.load(folder / "model.onnx"))
    onnx.save(whole, folder / "whole.onnx")
    middle, ends = whole.graph.node[len(whole.graph.node) // 2].output[0], (whole.graph.input, whole.graph.output)
    first, last = (end[0].name for end in ends)
    onnx.utils.extract_model(str(folder / "whole.onnx"), str(folder / "trunk.onnx"), [first], [middle])
    onnx.utils.extract_model(str(folder / "whole.onnx"), str(folder / "head.onnx"), [middle], [last])


def call(line: str, folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A server is ended as by Ctrl-C once it had time to say that it is there."""
    line = line.replace("~/", f"{folder}/")
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    serves = line.startswith(SERVERS) and "export" not in line
    with subprocess.Popen(
        f"exec {line}",
        shell=True,
        cwd=folder,
        env=dict(environment),
        text=True,
        **pipes,  # type: ignore[call-overload]
    ) as process:
        try:
            said, _ = process.communicate(timeout=SERVED if serves else LONGEST)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
            return subprocess.CompletedProcess(line, 0 if serves else -1, said)
    return subprocess.CompletedProcess(line, process.returncode, said)


def _place(line: str) -> int:
    """What writes comes before what reads it, and what removes comes last; otherwise in the order of the help."""
    return ("crosstrain export" in line) * -1 + (" remove " in line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="examples with one of these texts in them")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True)
    tools = folder / "bin"
    tools.mkdir()
    (tools / "zoolens").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zoolens "$@"\n')
    (tools / "zoolens").chmod(0o755)
    path = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    environment = {**os.environ, **path, "ZOOLENS_HOME": str(folder / "home")}
    # A shell starts what runs in the background with Ctrl-C ignored, and servers would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    prepare(folder, environment)
    failed = 0
    for line in sorted(dict.fromkeys(line for both in EXAMPLES.values() for line in both), key=_place):
        if chosen.only and not any(text in line for text in chosen.only):
            continue
        if reason := next((reason for text, reason in LEFT_OUT.items() if text in line), None):
            print(f"left out  {line}: {reason}", flush=True)
            continue
        for text in (text for text in JUST_BEFORE if line.startswith(text)):
            call(JUST_BEFORE[text], folder, environment)
        done = call(line, folder, environment)
        for text in (text for text in JUST_AFTER if line.startswith(text)):
            call(JUST_AFTER[text], folder, environment)
        answers = {code for text, codes in ANSWERS.items() if line.startswith(text) for code in codes}
        is_answer = done.returncode in answers and (done.returncode == GATE or "Error: " not in done.stdout)
        ended_well = done.returncode == 0 or is_answer
        failed += not ended_well
        print(f"{'works' if ended_well else 'FAILS'} ({done.returncode})  {line}", flush=True)
        if not ended_well:
            print("    " + "\n    ".join(done.stdout[-600:].splitlines()), flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
