"""Caffe networks: the text graph (.prototxt) for structure, and the .caffemodel beside it where weights are wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.contrib.caffe.caffe_layers import LAYERS, CaffeCall, CaffeTranslation
from zoolens.contrib.caffe.net import Net, read_blobs, read_net
from zoolens.findings.graph.importers.importer import Importer, Request, counted
from zoolens.findings.graph.importers.input_shapes import fixed_batch, sized
from zoolens.findings.graph.importers.translation import damage_at
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Graph


def load(request: Request) -> Graph:
    graph_path, weights_path = _paths(request)
    net = read_net(graph_path)
    blobs = read_blobs(weights_path) if weights_path is not None and request.weights else {}
    builder = GraphBuilder(graph_path.stem, keep_weights=request.weights)
    state = CaffeTranslation(builder, net.uses, fixed_batch(spec.shape for spec in net.inputs), blobs=blobs)
    for spec in net.inputs:
        shape = sized(spec, request.size)
        axes = "NCHW" if len(shape) == 4 else ""
        state.values[spec.name] = state.add("input", (), shape, source=spec.name, axes=axes)
    for layer in net.layers:
        if layer.tops:
            _translate(CaffeCall(layer, state))
    return counted(builder.finish(_outputs(net, state), {"format": "caffe", "name": net.name[:80]}))


def _translate(call: CaffeCall) -> None:
    with np.errstate(all="ignore"), damage_at(call):
        LAYERS.get(call.kind, CaffeCall.unknown)(call)
        call.check_answered()


def _outputs(net: Net, state: CaffeTranslation) -> dict[str, None]:
    return dict.fromkeys(name for top in net.outputs if isinstance(name := state.values.get(top), str))


def _paths(request: Request) -> tuple[Path, Path | None]:
    """The paths of the graph and of the weights: the subject is one of them, the other has its role among the files."""
    subject = Path(request.subject)
    given = {role: Path(path) for role, path in request.files.items()}
    only_weights = subject.suffix == ".caffemodel"
    graph = given.get("model") if only_weights else subject
    weights = subject if only_weights else given.get("weights")
    if graph is None:
        raise ModelError(
            f"{subject.name} holds a Caffe network's weights; its graph is a .prototxt file.",
            hint="Give the .prototxt as the file in the role 'model'.",
        )
    if weights is None and request.weights:
        raise ModelError(
            f"{graph.name} is a Caffe graph without weights.", hint="Give the .caffemodel in the role 'weights'."
        )
    for path in (graph, *([weights] if weights is not None and request.weights else [])):
        if not path.is_file():
            raise ModelError(f"There is no file {path}.")
    return graph, weights


CAFFE: Final = Importer(load, distributions=())
