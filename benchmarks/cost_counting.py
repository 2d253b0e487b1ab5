"""How long counting takes: ours beside fvcore's tracing and onnx-tool, on the same networks, in the same run.

    python benchmarks/cost_counting.py [--rounds 7]

One process, one thread, the median of several rounds in which all ways take turns. "counting" is ours alone, from a
canonical graph that is at hand (as it is for everything in the store); "reading" is what it takes to get there:
building the network without weights, tracing it and making it canonical, or reading and translating the file. fvcore
gets a network that is already built, with weights; onnx-tool reads the file as we do.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.counters.subjects import CountedModel, torch_network
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.importers.onnx import ONNX
from zoolens.findings.graph.importers.torch import TORCHVISION
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.passes.canonical import canonical

NETWORKS = ("alexnet", "squeezenet1_0", "resnet50", "mobilenet_v2", "densenet121", "vit_b_16")
FILES = ("bvlc_alexnet", "squeezenet", "resnet50", "shufflenet", "densenet121")
GOAL = 10


def medians(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds each way takes; the first round is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            if number:
                taken[name].append(time.perf_counter() - started)
    return {name: statistics.median(some) for name, some in taken.items()}


def read(importer: Importer, subject: str) -> Graph:
    return canonical(importer.load(Request(subject)))


def torch_ways(name: str) -> dict[str, Callable[[], object]]:
    from fvcore.nn import FlopCountAnalysis

    module, inputs = torch_network(CountedModel("torchvision", Request(name)))
    example = tuple(inputs.values())
    graph = read(TORCHVISION, name)

    def traced() -> Any:
        analysis = FlopCountAnalysis(module, example)
        return analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()

    return {
        "theirs": traced,
        "counting": lambda: cost(graph),
        "reading": lambda: cost(read(TORCHVISION, name)),
    }


def file_ways(name: str) -> dict[str, Callable[[], object]]:
    import onnx
    import onnx_tool

    path = str(Path(onnx.__file__).parent / f"backend/test/data/light/light_{name}.onnx")
    graph = read(ONNX, path)
    [image] = graph.inputs

    def profiled() -> Any:
        found = onnx_tool.Model(path).graph
        found.shape_infer({image.source or image.name: np.zeros(image.shape, np.float32)})
        found.profile()
        return found.macs

    return {"theirs": profiled, "counting": lambda: cost(graph), "reading": lambda: cost(read(ONNX, path))}


def report(title: str, name: str, times: Mapping[str, float]) -> float:
    theirs, counting, reading = (1e3 * times[key] for key in ("theirs", "counting", "reading"))
    print(
        f"{name:14} {title} {theirs:8.1f} ms   counting {counting:6.2f} ms = {theirs / counting:6.0f}× faster   "
        f"with reading {reading:8.1f} ms = {theirs / reading:5.2f}×"
    )
    return theirs / counting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    import torch

    torch.set_num_threads(1)
    faster = [report("fvcore   ", name, medians(torch_ways(name), rounds)) for name in NETWORKS]
    print(f"counting alone against tracing with fvcore: at least {min(faster):.0f}× faster (goal ≥ {GOAL})")
    faster = [report("onnx-tool", name, medians(file_ways(name), rounds)) for name in FILES]
    print(f"counting alone against onnx-tool: at least {min(faster):.0f}× faster")


if __name__ == "__main__":
    main()
