"""What OpenVINO says of the layers it runs: their times, kernels and precisions, and which operators of the file each
one computes.

OpenVINO's counters tell each layer's average over all calls since the model was compiled, in whole microseconds. The
time of one call is recovered from the averages before and after it; `Counters` says how exact that is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Final

from zoolens.inventory.runtimes.litert import tflite_file
from zoolens.inventory.runtimes.observing import CapturePoint, OperatorTime
from zoolens.inventory.runtimes.onnx import onnx_file
from zoolens.inventory.runtimes.onnx.onnx_editing import node_label
from zoolens.inventory.runtimes.onnxruntime.fused_operators import with_lost_producers
from zoolens.inventory.runtimes.openvino.openvino_tflite import FoundLayer, found_layers
from zoolens.inventory.runtimes.runtime import ModelFiles

PRECISIONS: Final = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "i8": "int8", "u8": "int8"}
_NOT_RUN: Final = ("Input", "Output", "Const")
_ENDS: Final = ("Parameter", "Result", "Constant")
_SPLIT: Final = "/WithoutBiases"  # behind the name of an operator whose bias is added by another one
_NUMBERED: Final = re.compile(r"(?<![A-Za-z])([A-Z][A-Za-z]+)_\d+")
_CONVERTS: Final = re.compile(r"Convert_\d+|.+\.\d+")  # a change of type before the model, and at one of its outputs
_FEWEST_CALLS, _MOST_CALLS = 2, 50
_TOLERATED: Final = 0.01  # error of a call's time, as a part of it
_SPREAD: Final = 1 / sqrt(6)  # standard deviation of the difference of two numbers, each cut to a whole one


@dataclass(frozen=True)
class ExecutedLayer:
    """One layer of the executed graph. `originals` are names of operators of the model that was compiled."""

    name: str
    kind: str
    precision: str
    kernel: str
    originals: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]


def executed_layers(compiled: Any) -> Iterator[ExecutedLayer]:
    """Every layer as the plug-in really runs it."""
    for op in compiled.get_runtime_model().get_ops():
        info = op.get_rt_info()
        kind, precision, kernel, names = (
            info[key].astype(str) for key in ("layerType", "runtimePrecision", "primitiveType", "originalLayersNames")
        )
        if kind not in _NOT_RUN:
            shapes = [port.get_partial_shape() for port in op.outputs()]
            static = tuple(tuple(shape.to_shape()) for shape in shapes if shape.is_static)
            originals = tuple(filter(None, names.split(",")))
            yield ExecutedLayer(op.get_friendly_name(), kind, computed_in(kernel, precision), kernel, originals, static)


def computed_in(kernel: str, told: str) -> str:
    """The precision that a layer is computed in: the primitive's name ends with it. What OpenVINO 2026.4 tells beside
    it is that of the weights: "f16" for a float32 convolution of a file whose constants were compressed."""
    ending = kernel.rpartition("_")[2]
    return ending if ending in ("f32", "f16", "bf16") and told in ("f32", "f16", "bf16") else told


class Counters:
    """A request's counters, read between calls.

    An average of n calls is cut to whole microseconds, so that the sum of these calls is known to within n. The time of
    the n-th call is the difference of two such sums. On average over many calls the errors cancel.
    """

    def __init__(self, request: Any) -> None:
        self._request = request
        self._calls = 0
        self._sums: list[float] = []
        self.ran: set[int] = set()  # places of the layers that ran in a call so far

    def durations(self) -> list[tuple[Any, int]]:
        """Every layer with its nanoseconds in the call since the counters were read last."""
        self._calls += 1
        infos = self._request.get_profiling_info()
        unread = (self._calls - 1) / 2  # what is cut off, on average
        sums = [info.real_time.total_seconds() * 1e6 * self._calls + unread for info in infos]
        before = self._sums or [0.0] * len(sums)
        self._sums = sums
        # OpenVINO 2026.4 calls a layer "not run" whose average falls below a microsecond. A warm cache is enough for
        # that on a fast CPU, so that a layer which ran in one call seemed to be gone in the next.
        self.ran |= {place for place, info in enumerate(infos) if info.status == info.Status.EXECUTED}
        return [(info, max(0, round((now - then) * 1000))) for info, now, then in zip(infos, sums, before, strict=True)]


def calls_per_compilation(nanoseconds: int, layers: int) -> int:
    """Returns how many calls can be separated before rounding of their sums matters."""
    # Of a call's layers together, in microseconds, for each call before.
    error = _SPREAD * sqrt(max(1, layers))
    return max(_FEWEST_CALLS, min(_MOST_CALLS, int(nanoseconds / 1000 * _TOLERATED / error)))


def operators(
    durations: Sequence[tuple[Any, int]], layers: Mapping[str, ExecutedLayer], names: Mapping[str, tuple[str, ...]]
) -> tuple[OperatorTime, ...]:
    """`names`: what the file calls each operator, as `file_names` gives it."""
    ran = []
    seen: Counter[str] = Counter()
    for info, duration in durations:
        # Operators that OpenVINO names itself are numbered on through the life of a process.
        given = info.node_name.removesuffix(_SPLIT) in names.get(info.node_name, ())
        name = info.node_name if given else _NUMBERED.sub(r"\1", info.node_name)
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name} #{seen[name]}"
        ran.append(_operator(info, unique, duration, layers.get(info.node_name), names))
    return tuple(ran)


def with_all_nodes(ran: Sequence[OperatorTime], file: onnx_file.OnnxGraph) -> tuple[OperatorTime, ...]:
    """Returns layers that also name the file's operators whose names OpenVINO has lost."""
    convolutions = {node_label(node) for node in file.nodes if node.op == "Conv"}
    grouped = _with_groups(list(ran), convolutions)
    layers = [(operator.kind, operator.nodes) for operator in grouped]
    complete = with_lost_producers(file, layers)
    return tuple(replace(operator, nodes=nodes) for operator, nodes in zip(grouped, complete, strict=True))


def _with_groups(ran: list[OperatorTime], convolutions: Set[str]) -> list[OperatorTime]:
    """Layers, where the parts of a convolution in groups belong to it: on ARM OpenVINO splits its input, convolves each
    group under a name of its own, and joins what comes out under the name of the convolution."""
    for end, joined in enumerate(ran):
        place = end - 1
        while joined.kind.startswith("Concat") and convolutions & set(joined.nodes) and place >= 0:
            part = ran[place]
            if part.nodes or part.kind not in ("Split", "Convolution", "Reorder"):
                break
            ran[place] = part if part.kind == "Reorder" else replace(part, nodes=joined.nodes)
            place -= 1
    return ran


def _operator(
    info: Any, name: str, duration: int, layer: ExecutedLayer | None, names: Mapping[str, tuple[str, ...]]
) -> OperatorTime:
    nodes = [node for original in layer.originals for node in names.get(original, ())] if layer else []
    converts = layer is not None and not nodes and all(_CONVERTS.fullmatch(name) for name in layer.originals)
    return OperatorTime(
        name,
        "Convert" if converts and info.node_type == "Subgraph" else info.node_type,
        duration,
        nodes=tuple(dict.fromkeys(nodes)),
        kernel=info.exec_type,
        precision=PRECISIONS.get(layer.precision, layer.precision) if layer else None,
        shapes=layer.shapes if layer else (),
    )


def file_names(graph: Any, model: ModelFiles) -> dict[str, tuple[str, ...]]:
    """What the file calls the operators of the model that OpenVINO made of it, by OpenVINO's names for them.

    OpenVINO adds operators under names such as "Reshape_17", which nodes of the file may have as well. Of a format
    whose tensors have names those operators count that make such a tensor. A name that two operators have says nothing.
    """
    makers = _tensor_makers(graph, model)
    names: dict[str, tuple[str, ...]] = {}
    shared = _shared_names(graph)
    parts = {part: layer.label for layer in _layers_by_weights(graph, model) for part in layer.parts}
    for op in graph.get_ops():
        name = op.get_friendly_name()
        if name in shared:
            continue
        if makers is None:
            names[name] = (name,)
            continue
        made = [makers[tensor] for port in op.outputs() for tensor in sorted(port.get_names()) if tensor in makers]
        if made:
            names[name] = names[name + _SPLIT] = tuple(made)
        elif op.get_name() in parts:
            names[name] = (parts[op.get_name()],)
    if model.format == "onnx":
        _name_parts(graph, names, shared)
    return names


def _name_parts(graph: Any, names: dict[str, tuple[str, ...]], shared: set[str]) -> None:
    """Operators that OpenVINO made of one of the file, such as a layer normalisation, before the one that makes the
    file's tensor: they belong to the operator of the file that alone uses them."""
    ordered = list(graph.get_ordered_ops())
    computed = {op.get_name() for op in ordered if op.get_type_name() == "Parameter"}
    for op in ordered:
        sources = (source.get_source_output().get_node().get_name() for source in op.inputs())
        if not computed.isdisjoint(sources):
            computed.add(op.get_name())
    for op in reversed(ordered):
        name = op.get_friendly_name()
        if name in names or name in shared or op.get_name() not in computed or op.get_type_name() in _ENDS:
            continue
        users = {target.get_node().get_friendly_name() for port in op.outputs() for target in port.get_target_inputs()}
        labels = {names.get(user, ()) for user in users}
        if len(labels) == 1 and len(next(iter(labels))) == 1:
            names[name] = next(iter(labels))


def capture_points(graph: Any, model: ModelFiles, kept: set[str]) -> dict[str, tuple[CapturePoint, PortKey]]:
    """The tensors that depend on an input, by name, each with what `find_port` finds it by in a copy of the model.
    `kept`: operators whose output is made anyway, by OpenVINO's names."""
    makers = _tensor_makers(graph, model)
    shared = _shared_names(graph)
    by_last = {layer.last: layer for layer in _layers_by_weights(graph, model) if layer.last is not None}
    points: dict[str, tuple[CapturePoint, PortKey]] = {}
    computed: set[str] = set()
    for op in graph.get_ordered_ops():
        kind, own = op.get_type_name(), op.get_friendly_name()
        sources = {source.get_source_output().get_node().get_name() for source in op.inputs()}
        if kind != "Parameter" and computed.isdisjoint(sources):
            continue
        computed.add(op.get_name())
        if kind in ("Parameter", "Result"):
            continue
        for place, port in enumerate(op.outputs()):
            for name, key in _port_names(port, own, place, named=makers is not None or own in shared):
                node = own if makers is None else makers.get(name)
                if node is not None and name not in points:
                    point = _point(name, node, port, kept=place == 0 and own in kept)
                    # Where names of operators count, this one is the name of the tensor as well.
                    points[name] = (point if makers is not None else replace(point, tensor=name)), key
        layer = by_last.get(op.get_name())
        if layer is not None and own not in shared and layer.label not in points:
            point = _point(layer.label, layer.label, op.output(0), kept=own in kept)
            points[layer.label] = replace(point, tensor=layer.label, axes=layer.axes), (own, 0)
    return points


def _layers_by_weights(graph: Any, model: ModelFiles) -> list[FoundLayer]:
    return found_layers(graph, tflite_file.read_graph(model.path())) if model.format == "tflite" else []


PortKey = tuple[str, int | None]  # a tensor's name and None, or an operator's name and the place of the output


def _port_names(port: Any, operator: str, place: int, *, named: bool) -> list[tuple[str, PortKey]]:
    """Returns the names of an output: of its tensors, or the operator's unless only `named` tensors count."""
    names = sorted(port.get_names())
    if names or named:
        return [(name, (name, None)) for name in names]
    return [(operator if place == 0 else f"{operator}.{place}", (operator, place))]


def find_port(graph: Any, key: PortKey) -> Any:
    """The output of an operator in a copy of the model for which `capture_points` were made."""
    name, place = key
    if place is None:
        made = (port for op in graph.get_ops() if op.get_type_name() != "Result" for port in op.outputs())
        return next(port for port in made if name in port.get_names())
    return next(op for op in graph.get_ops() if op.get_friendly_name() == name).output(place)


def _shared_names(graph: Any) -> set[str]:
    counts = Counter(op.get_friendly_name() for op in graph.get_ops())
    return {name for name, count in counts.items() if count > 1}


def _point(name: str, node: str, port: Any, *, kept: bool) -> CapturePoint:
    shape = port.get_partial_shape()
    extents = () if shape.rank.is_dynamic else tuple(None if each.is_dynamic else each.get_length() for each in shape)
    tensor = name if name in port.get_names() else ""
    return CapturePoint(name, node, tensor, kept, extents, str(port.get_element_type().to_dtype()))


def kept_operators(graph: Any, layers: Sequence[ExecutedLayer]) -> set[str]:
    """The operators whose output a layer of the executed graph gives on: the last one of those that it computes."""
    order = {op.get_friendly_name(): place for place, op in enumerate(graph.get_ordered_ops())}
    return {
        max(known, key=order.__getitem__)
        for layer in layers
        if (known := [name for name in layer.originals if name in order])
    }


def _tensor_makers(graph: Any, model: ModelFiles) -> dict[str, str] | None:
    """The label of the operator that makes each tensor of the file; None where OpenVINO keeps all names of operators,
    as it does in its own format."""
    if model.format == "onnx":
        nodes = onnx_file.read_graph(model.path()).nodes
        return {tensor: node_label(node) for node in nodes for tensor in node.outputs if tensor}
    if model.format == "tflite":
        file = tflite_file.read_graph(model.path())
        labels = tflite_file.tensor_labels(file)
        return {
            file.tensors[index].name: labels[operator.outputs[0]]
            for operator in file.operators
            for index in operator.outputs
            if labels[index] == file.tensors[index].name
        }
    # Whose tensors are called after their operators: "conv:0".
    if model.format in ("tf-savedmodel", "tf-frozen"):
        names = {name for op in graph.get_ops() for port in op.outputs() for name in port.get_names()}
        return {name: name.rpartition(":")[0] or name for name in names}
    return None
