"""How long segments take: matching ResNet-50 with ResNet-101, and norms of all layers of ResNet-50.

    python benchmarks/segments.py [--rounds 5]

Matching is of canonical graphs at hand, without weights. Beside it stands the plain way: every single-entry,
single-exit segment of one network against every one of the other, by the hash of what it computes.

Norms are those of every convolution and dense layer, norms folded in, with weights as the library initialises them.
Such weights are the hard case: all frequencies are nearly as large as the largest, so that hardly any can be left out.
"cholesky" is certain, "random" is wrong with a probability below 1e-12 for each matrix; both are upper bounds. Beside
them stands the plain way, a singular value decomposition at every frequency, timed on a few frequencies of each layer
multiplied by how many there are, and halved for the second core. Two threads work on a layer each.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from zoolens.contrib.layerwise.linear import LINEAR, Linear, linear, norms_of
from zoolens.contrib.layerwise.spectra import Proof
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.torch import TORCHVISION
from zoolens.findings.graph.ir.equality import structure_hash
from zoolens.findings.graph.ir.model import Graph, Node, pruned
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.segments.common_segments import common_segments
from zoolens.findings.graph.segments.segment import Segment
from zoolens.findings.graph.segments.single_entry_exit import chains, joined

MATCHING_GOAL = 0.05
NORMS_GOAL = 1.0
WORKERS = 2
SAMPLED = 2  # frequencies of each layer that the plain way is timed on


def median(way: Callable[[], object], rounds: int) -> float:
    """Seconds; the first round is not counted."""
    taken = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        way()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])


# --- matching


def every_segment(graph: Graph) -> Iterator[Segment]:
    place = {node.name: number for number, node in enumerate(graph.nodes)}
    for chain in chains(graph):
        for start in range(len(chain.steps)):
            for stop in range(start + 1, len(chain.steps) + 1):
                yield joined(chain.steps[start:stop], place)


def hashed(graph: Graph, segment: Segment) -> str:
    start = Node(segment.entry, "input", (), graph.by_name[segment.entry].shape)
    return structure_hash(pruned(Graph("part", (start, *segment.of(graph)), (segment.exit,))))


def compared(a: Graph, b: Graph) -> int:
    """The size of the largest common segment, by hashing all."""
    theirs = {hashed(b, segment) for segment in every_segment(b)}
    return max(len(segment) for segment in every_segment(a) if hashed(a, segment) in theirs)


def matching(rounds: int) -> None:
    a, b = (canonical(TORCHVISION.load(Request(name))) for name in ("resnet50", "resnet101"))
    ours = median(lambda: common_segments(a, b), rounds)
    started = time.perf_counter()
    largest = compared(a, b)
    theirs = time.perf_counter() - started
    found = common_segments(a, b)
    runs = [one for one in found if one.kind != "same interface"]
    assert max(len(one.a) for one in runs) == largest
    print(f"matching ResNet-50 ({len(a)} nodes) with ResNet-101 ({len(b)} nodes)")
    for one in found:
        print(f"  {one.kind:15} {len(one.a):4} and {len(one.b):4} nodes   {one.a.entry} to {one.a.exit}")
    print(f"  ours {1e3 * ours:.1f} ms (goal < {1e3 * MATCHING_GOAL:.0f} ms), all against all {theirs:.1f} s: ", end="")
    print(f"{theirs / ours:,.0f}× faster")


# --- norms


def all_norms(graph: Graph, proof: Proof) -> list[float]:
    return list(norms_of(graph, graph.nodes, proof=proof, workers=WORKERS).values())


def plain_seconds(layer: Linear) -> float:
    """What singular value decompositions at all frequencies take, from a few of them."""
    phases = prod(layer.stride)
    window = layer.kernel.shape[2:]
    places = [-(-(n + max(0, *layer.pads)) // s) for n, s in zip(layer.extents, layer.stride, strict=True)]
    count = prod(places) if prod(window) > 1 else 1
    out, inner = layer.kernel.shape[:2]
    generator = np.random.default_rng(0)
    matrices = generator.standard_normal((SAMPLED, out, inner * phases))
    started = time.perf_counter()
    np.linalg.svd(matrices + 1j * matrices[::-1] if count > 1 else matrices, compute_uv=False)
    return (time.perf_counter() - started) / SAMPLED * count


def norms(rounds: int) -> None:
    graph = canonical(TORCHVISION.load(Request("resnet50", weights=True)))
    layers = [linear(graph, node) for node in graph.nodes if node.op in LINEAR]
    theirs = sum(plain_seconds(layer) for layer in layers) / WORKERS
    exact = all_norms(graph, "cholesky")
    print(f"norms of the {len(layers)} layers of ResNet-50")
    for proof in ("cholesky", "random"):
        ours = median(lambda proof=proof: all_norms(graph, proof), rounds)  # type: ignore[misc]
        looser = np.array(all_norms(graph, proof)) / np.array(exact)
        goal = f" (goal < {NORMS_GOAL:.0f} s)" if proof == "random" else ""
        print(f"  {proof:9} {ours:5.2f} s{goal}, decompositions at all frequencies {theirs:,.0f} s: ", end="")
        print(f"{theirs / ours:,.0f}× faster; {looser.mean():.3f} times the certain bound, at most {looser.max():.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")
    matching(rounds)
    norms(rounds)


if __name__ == "__main__":
    main()
