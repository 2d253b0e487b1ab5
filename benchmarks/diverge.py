"""How much memory and time the comparison of two runtimes layer by layer takes, beside "mark all outputs".

    python benchmarks/diverge.py [--inputs 725] [--polygraphy PYTHON] [--few 1 5]

The model is the largest of the reference models that can be written as ONNX, in ONNX Runtime and in OpenVINO. Every
way is a process of its own, whose peak memory the kernel tells. `zoolens diverge` answers all inputs and looks at the
worst of them layer by layer; its peak is also that of the two frameworks, so that the same process without the
comparison of layers stands beside it.

Beside it stands what Polygraphy does when all tensors are marked as outputs: it keeps those of every input until they
are compared. PYTHON is an interpreter with polygraphy and onnxruntime; it is run on a few inputs, since its memory
grows with their number, and what all of them would take is computed from that.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from zoolens.findings.graph.structures.weighted_graph import weighted_graph
from zoolens.findings.twins.provenance import write_twin
from zoolens.inventory.catalog.lookup import find

REPO = Path(__file__).parent.parent
MODEL = REPO / "tests" / "reference_zoo" / "imagenet" / "tf_efficientnet_lite0_torch.yaml"
FEW = 8  # inputs; the memory of a comparison does not depend on their number

MARK_ALL = """
import sys
import numpy as np
import onnx
from polygraphy.backend.onnx import ModifyOutputs, BytesFromOnnx, OnnxFromPath
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator
from polygraphy import constants
path, count = sys.argv[1], int(sys.argv[2])
generator = np.random.default_rng(0)
name = onnx.load(path).graph.input[0].name
def inputs():
    for _ in range(count):
        yield {name: generator.standard_normal((1, 3, 224, 224)).astype(np.float32)}
marked = BytesFromOnnx(ModifyOutputs(OnnxFromPath(path), outputs=constants.MARK_ALL))
runners = [OnnxrtRunner(SessionFromOnnx(marked), name=name) for name in ("a", "b")]
results = Comparator.run(runners, data_loader=list(inputs()))
Comparator.compare_accuracy(results)
"""


def measured(command: list[str]) -> tuple[float, float, int]:
    """Seconds, peak memory in MB, and exit code of a process."""
    started = time.perf_counter()
    environment = {**os.environ, "ZOOLENS_ASSETS": str(assets())}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - started, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


def assets() -> Path:
    return Path(os.environ.get("ZOOLENS_ASSETS") or REPO.parent / "shared" / "assets")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=725)
    parser.add_argument("--polygraphy", help="an interpreter with polygraphy and onnxruntime")
    parser.add_argument("--few", type=int, nargs="+", default=[1, 5])
    chosen = parser.parse_args()
    os.environ["ZOOLENS_ASSETS"] = str(assets())
    with tempfile.TemporaryDirectory(prefix="zoolens-diverge-") as folder:
        entry = find(str(MODEL))
        written = write_twin(weighted_graph(entry), entry, entry, (), Path(folder))
        diverged(written.manifest, chosen.inputs)
        if chosen.polygraphy:
            marked(written.model, chosen.polygraphy, chosen.few, chosen.inputs)


def diverged(manifest: Path, inputs: int) -> None:
    data = f"imagefolder:{assets()}/data/imagenet_val"
    base = [sys.executable, "-m", "zoolens", "diverge", f"{manifest}@onnxruntime", f"{manifest}@openvino",
            "--data", data, "--trust", "--examine", "1"]  # fmt: skip
    for count, budget in ((FEW, "64 MB"), (FEW, "1 GB"), (inputs, "64 MB")):
        seconds, peak, code = measured([*base, "--limit", str(count), "--memory", budget])
        print(f"zoolens diverge, {count} inputs, budget {budget}: {seconds:.0f} s, peak {peak:.0f} MB, exit {code}")
    alone = [sys.executable, "-m", "zoolens", "eval", str(manifest), "-r", "onnxruntime", "-r", "openvino",
             "--data", data, "--trust", "--limit", str(FEW), "--no-cold", "--batch", "1", "--latency-seconds", "0.2",
             "--store", str(manifest.parent / "store.sqlite")]  # fmt: skip
    _, peak, code = measured(alone)
    print(f"both frameworks without a comparison of layers: peak {peak:.0f} MB, exit {code}")


def marked(model: Path, python: str, counts: list[int], inputs: int) -> None:
    peaks = []
    for count in counts:
        seconds, peak, code = measured([python, "-c", MARK_ALL, str(model), str(count)])
        print(f"polygraphy, all outputs marked, {count} inputs: {seconds:.0f} s, peak {peak:.0f} MB, exit {code}")
        peaks.append(peak)
    if len(counts) > 1:
        each = (peaks[-1] - peaks[0]) / (counts[-1] - counts[0])
        total = (peaks[0] + each * (inputs - counts[0])) / 1024
        print(f"polygraphy, {inputs} inputs: {total:.1f} GB, computed from {each:.0f} MB for each")


if __name__ == "__main__":
    main()
