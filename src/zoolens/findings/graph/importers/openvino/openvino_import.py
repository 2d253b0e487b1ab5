"""OpenVINO's IR, version 10 and later: an .xml with layers and a .bin with constants.

Each layer is written as ONNX's operators of the same arithmetic, and the rest is left to the importer of ONNX. A layer
that ONNX has no operators for stays one that nobody knows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.importer import Importer, Request, model_path
from zoolens.findings.graph.importers.onnx.onnx_import import translated
from zoolens.findings.graph.importers.openvino.operators import CAST_TYPES, OPERATORS, Translation
from zoolens.findings.graph.importers.openvino.writing import LayerWriting, OnnxWriting, Untranslatable, spec_of
from zoolens.findings.graph.ir.model import Graph
from zoolens.inventory.runtimes.onnx.onnx_value_types import DTYPES
from zoolens.inventory.runtimes.openvino.openvino_file import FORMAT, IrLayer, read_layers


def load(request: Request) -> Graph:
    path = model_path(request)
    weights = Path(request.files.get("weights", path.with_suffix(".bin")))
    if weights.parent.resolve() != path.parent.resolve():
        raise ModelError(f"{weights.name} does not lie beside {path.name}.", hint="Put both into one folder.")
    graph = OnnxWriting(path)
    layers = read_layers(path)
    for layer in layers:
        graph.ports.update((port.name, port) for port in layer.outputs)
    for layer in layers:
        _write(layer, graph, weights.name)
    graph.graph.values.update((name, spec_of(port)) for name, port in graph.ports.items())
    return translated(graph.graph, path, request, FORMAT)


def _write(layer: IrLayer, graph: OnnxWriting, weights: str) -> None:
    writing = LayerWriting(layer, graph)
    try:
        if layer.kind == "Parameter":
            graph.graph.inputs.append(spec_of(layer.outputs[0]))
        elif layer.kind == "Result":
            graph.graph.outputs.append(spec_of(graph.ports[layer.inputs[0]]))
        elif layer.kind == "Const":
            kind = writing.text("element_type")
            place = writing.whole("offset"), writing.whole("size")
            graph.stored(layer.outputs[0], DTYPES.get(CAST_TYPES.get(kind, 0), kind), place, weights)
        else:
            _translation(layer)(writing)
    except Untranslatable:
        writing.give_up()
    except (IndexError, KeyError, ValueError) as error:
        raise ModelError(f"The layer {layer.name[:60]!r} ({layer.kind[:40]}) lacks an input or a setting.") from error


def _translation(layer: IrLayer) -> Translation:
    known = layer.opset.startswith("opset") and layer.outputs
    return OPERATORS.get(layer.kind, LayerWriting.give_up) if known else LayerWriting.give_up


OPENVINO: Final = Importer(load, distributions=())
