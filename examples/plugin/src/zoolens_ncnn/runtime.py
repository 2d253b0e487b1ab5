"""ncnn models (.param graph, .bin weights) on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.runtime import (
    Effective,
    ModelFiles,
    Options,
    Runtime,
    Session,
    Tensor,
    Tensors,
    TensorSpec,
    check_feeds,
)


class Ncnn(Runtime):
    name = "ncnn"
    summary = "Tencent ncnn, CPU"
    formats = ("ncnn",)
    requirements = ("ncnn",)
    distributions = ("ncnn",)
    cannot: ClassVar[Mapping[str, str]] = {
        "dynamic_batch": "ncnn runs one input at a time",
        "count_parameters": "ncnn does not expose a model's weights",
        "compile_mode": "there is only one mode",
        "profile": "this plug-in times whole predictions only",
        "kernels": "this plug-in times whole predictions only",
        "capture": "this plug-in reads outputs only",
        "extend": "ncnn's models take whole inputs here",
    }

    def load_library(self) -> Any:
        import ncnn

        return ncnn

    def load(self, model: ModelFiles, options: Options) -> Any:
        net = self.load_library().Net()
        net.opt.num_threads = options.threads or net.opt.num_threads
        if options.precision == "float32":
            for name in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
                setattr(net.opt, name, False)
        graph, weights = model.path(), model.path("weights")
        _check_graph(graph.read_bytes())
        _check_weights(weights.read_bytes()[:4])
        if net.load_param(str(graph)) != 0:
            raise ModelError(f"ncnn cannot read the graph {graph.name}.", hint="Is it a .param file in text form?")
        if net.load_model(str(weights)) != 0:
            raise ModelError(f"ncnn cannot read the weights {weights.name}.", hint="Is the .bin file complete?")
        return net

    def compile(self, loaded: Any, model: ModelFiles, options: Options) -> Session:
        return NcnnSession(self.load_library(), loaded, model, options)


class NcnnSession(Session):
    def __init__(self, library: Any, net: Any, model: ModelFiles, options: Options) -> None:
        self._library, self._net, self._options = library, net, options
        declared = model.inputs[0].shape if model.inputs else (1, None, None, None)
        self.inputs = (TensorSpec(net.input_names()[0], (1, *declared[1:]), "float32"),)
        self.outputs = (TensorSpec(net.output_names()[0], (1, None), "float32"),)

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        check_feeds(self.inputs, feeds)
        extractor = self._net.create_extractor()
        # ncnn reads raw memory and keeps no copy of its own: it must be contiguous, and not the caller's
        image = np.ascontiguousarray(feeds[self.inputs[0].name][0])
        extractor.input(self.inputs[0].name, self._library.Mat(image).clone())
        failed, answer = extractor.extract(self.outputs[0].name)
        if failed:
            raise ModelError("ncnn failed while running the model.", hint="Are the weights those of this graph?")
        return {self.outputs[0].name: np.array(answer, np.float32).reshape(1, -1)}

    def effective(self) -> Effective:
        halves = self._net.opt.use_fp16_storage or self._net.opt.use_bf16_storage
        precision = "float32" if self._options.precision == "float32" or not halves else "float32 (fp16 storage)"
        return Effective(provider="ncnn-cpu", precision=precision, threads=self._net.opt.num_threads)

    def close(self) -> None:
        self._net = None


def _check_weights(start: bytes) -> None:
    """Weights are raw numbers behind a tag that says how they are stored; anything else there is no weights file."""
    if int.from_bytes(start, "little") not in (0, 0x01306B47, 0x000D4B38, 0x0002C056):
        raise ModelError("This is not an ncnn .bin file.", hint="It should start with a storage tag.")


def _check_graph(text: bytes) -> None:
    """ncnn trusts its input: refuse a graph whose layer count is not what its header says before it reads it."""
    lines = text.decode("ascii", "replace").splitlines()
    if len(lines) < 3 or lines[0].strip() != "7767517":
        raise ModelError("This is not an ncnn .param file.", hint="It should start with 7767517.")
    counts = lines[1].split()
    layers = [line for line in lines[2:] if line.strip()]
    if len(counts) != 2 or not counts[0].isdigit() or int(counts[0]) != len(layers):
        raise ModelError(f"The ncnn graph is cut off: it announces {counts[0]} layers and has {len(layers)}.")
