"""A runtime that computes the graph of an ONNX file in float32 with numpy and shows every tensor of it. It can be given
faults, so that what the comparison must find is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx import ONNX
from zoolens.findings.graph.reference.interpreter import node_values
from zoolens.findings.measure.jobs import Job
from zoolens.inventory.runtimes.observing import Captured, CapturePoint
from zoolens.inventory.runtimes.runtime import Effective, Options, Runtime, Session, TensorSpec

Fault = Callable[[str, Any], Any]  # node of the raw graph and its value -> what the runtime makes of it


class PlainRuntime(Runtime):
    name = "plain"
    summary = "computes the graph of an ONNX file in numpy"
    formats = ("onnx",)
    cannot: ClassVar[Mapping[str, str]] = {}
    plain = "it computes the graph that the importer reads"

    def __init__(self, fault: Fault | None = None, precision: str = "float32") -> None:
        super().__init__()
        self.fault, self.precision = fault, precision
        self.stubborn = False  # keeps its fault, whatever precision it is told to compute in

    def load_library(self):
        return np

    def load(self, model, options):
        return ONNX.load(Request(str(model.path()), weights=True))

    def compile(self, loaded, model, options):
        forced = options.precision == "float32" and not self.stubborn
        fault = None if forced else self.fault
        return PlainSession(loaded, fault, "float32" if options.precision == "float32" else self.precision)


class PlainSession(Session):
    def __init__(self, graph, fault: Fault | None, precision: str) -> None:
        self._graph, self._fault, self._precision = graph, fault, precision
        self.inputs = tuple(TensorSpec(node.source, (None, *node.shape[1:]), "float32") for node in graph.inputs)
        self._tensors = {node: tensor for tensor, node in graph.facts["tensors"].items()}
        self.outputs = tuple(
            TensorSpec(self._tensors[name], (None, *graph.by_name[name].shape[1:]), "float32") for name in graph.outputs
        )

    def predict(self, feeds):
        return self._answers(feeds, ())[1]

    def effective(self):
        return Effective("numpy", self._precision)

    def capture_points(self):
        return tuple(
            CapturePoint(tensor, node=self._graph.by_name[node].source, tensor=tensor, kept=True)
            for node, tensor in self._tensors.items()
            if node in self._graph.by_name and self._graph.by_name[node].op != "input"
        )

    def capture(self, feeds, names: Sequence[str]):
        return Captured(*self._answers(feeds, names))

    def _answers(self, feeds, names):
        rows = [self._row({name: value[place : place + 1] for name, value in feeds.items()}, names) for place in
                range(len(next(iter(feeds.values()))))]  # fmt: skip
        return tuple({name: np.concatenate([row[part][name] for row in rows]) for name in rows[0][part]} for part in
                     (0, 1))  # fmt: skip

    def _row(self, feeds, names):
        fault = self._fault
        adjust = None if fault is None else lambda node, value: fault(node.name, value)
        computed = {node.name: value for node, value in node_values(self._graph, feeds, adjust=adjust)}
        tensors = {name: computed[self._graph.facts["tensors"][name]] for name in names}
        return tensors, {spec.name: computed[self._graph.facts["tensors"][spec.name]] for spec in self.outputs}


@pytest.fixture
def plain_job():
    """The job of a model in the plain runtime, with a fault."""

    def make(entry, fault: Fault | None = None, precision: str = "float32") -> Job:
        asset = next(asset for asset in entry.manifest.assets if asset.format == "onnx")
        return Job(entry, asset, PlainRuntime(fault, precision), Options())

    return make
