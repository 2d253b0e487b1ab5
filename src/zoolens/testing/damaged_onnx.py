"""ONNX files with one fault each, and re-exports without any: what a comparison of two environments is tested with.

A fault is put into the protobuf by the `onnx` package, so that nothing of ours decides what the damaged file says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.inventory.manifests.schema import Asset, AssetFile
from zoolens.inventory.manifests.schema_steps import Resize
from zoolens.inventory.zoos.zoo import Entry


@dataclass(frozen=True)
class Damage:
    """One damaged copy. `tensor`: the output of the operator that was damaged, by which its layer is known; of a norm
    it is that of the layer before, to which it belongs; "" where the input is damaged."""

    kind: str
    tensor: str
    entry: Entry


def damaged_copies(
    entry: Entry, folder: Path, kinds: Mapping[str, Any] | None = None, seed: int = 0
) -> Iterator[Damage]:
    """One copy for each kind of damage that the file has a place for; the place is drawn."""
    import onnx

    source = model_file(entry)
    generator = np.random.default_rng(seed)
    for kind, damage in (kinds or KINDS).items():
        model = onnx.load(str(source))
        tensor = damage(model.graph, generator)
        if tensor is None:
            continue
        path = folder / f"{source.stem}-{kind}-{seed}.onnx"
        onnx.save(model, str(path))
        yield Damage(kind, tensor, with_file(entry, path))
    resized = wrong_resize(entry)
    if resized is not None and kinds is None:
        yield Damage("wrong resize", "", resized)


def with_file(entry: Entry, path: Path) -> Entry:
    """The entry with this ONNX file for its only asset."""
    asset = Asset(format="onnx", files=(AssetFile(location=f"file://{path}"),))
    name = f"{entry.manifest.name}-{path.stem}"[:100]
    return replace(entry, manifest=entry.manifest.model_copy(update={"assets": (asset,), "name": name, "aliases": ()}))


def model_file(entry: Entry) -> Path:
    from zoolens.inventory.manifests.locations import resolve_asset

    asset = next(asset for asset in entry.manifest.assets if asset.format == "onnx")
    return resolve_asset(asset, entry.folder, fetch=False)["model"]


def wrong_resize(entry: Entry) -> Entry | None:
    """The entry whose pictures are resized to half their size and back before anything else."""
    given = entry.manifest.inputs[0]
    if given.modality != "image" or "H" not in given.layout:
        return None
    sides = [given.shape[given.layout.index(axis)] for axis in "HW"]
    if None in sides:
        return None
    height, width = (side or 1 for side in sides)
    steps = tuple(
        Resize(op="resize", size=(height // divisor, width // divisor), method="bilinear") for divisor in (2, 1)
    )
    changed = given.model_copy(update={"preprocess": (*steps, *given.preprocess)})
    inputs = (changed, *entry.manifest.inputs[1:])
    return replace(entry, manifest=entry.manifest.model_copy(update={"inputs": inputs}))


# --- kinds of damage: each changes the graph and says which tensor's operator it has damaged


def _kernel_perturbed(graph: Any, generator: np.random.Generator) -> str | None:
    """One output channel of one kernel by a tenth of its size."""
    return _change_weights(graph, generator, _perturb)


def _perturb(values: Any, generator: np.random.Generator) -> Any:
    changed = values.copy()
    channel = int(generator.integers(len(values)))
    size = np.sqrt(np.mean(np.square(values)))
    changed[channel] += 0.1 * size * generator.standard_normal(values[channel].shape)
    return changed


def _channels_swapped(graph: Any, generator: np.random.Generator) -> str | None:
    """Two output channels of a kernel change places."""
    return _change_weights(graph, generator, lambda values, _: values[[1, 0, *range(2, len(values))]], least=2)


def _half_precision(graph: Any, generator: np.random.Generator) -> str | None:
    return _change_weights(graph, generator, lambda values, _: values.astype(np.float16).astype(np.float32))


def _change_weights(
    graph: Any, generator: np.random.Generator, change: Callable[..., Any], least: int = 1
) -> str | None:
    import onnx.numpy_helper

    tensors = {tensor.name: tensor for tensor in graph.initializer}
    uses = [name for node in graph.node for name in node.input]
    layers = [
        node
        for node in graph.node
        if node.op_type in ("Conv", "Gemm")
        and node.input[1] in tensors
        and uses.count(node.input[1]) == 1
        and tensors[node.input[1]].dims[0] >= least
    ]
    if not layers:
        return None
    node = layers[int(generator.integers(len(layers)))]
    tensor = tensors[node.input[1]]
    values = onnx.numpy_helper.to_array(tensor)
    changed = np.ascontiguousarray(change(values, generator), values.dtype)
    if np.array_equal(changed, values):
        return None
    tensor.CopyFrom(onnx.numpy_helper.from_array(changed, tensor.name))
    return str(node.output[0])


def _padding_moved(graph: Any, generator: np.random.Generator) -> str | None:
    """One row and column of padding from the end to the beginning."""
    padded = []
    for node in graph.node:
        pads: Any = next((part for part in node.attribute if part.name == "pads"), None)
        windowed = node.op_type in ("Conv", "MaxPool", "AveragePool") and pads is not None and len(pads.ints) == 4
        if windowed and min(pads.ints[2:]) > 0:
            padded.append((node, pads))
    if not padded:
        return None
    node, pads = padded[int(generator.integers(len(padded)))]
    moved = [pads.ints[0] + 1, pads.ints[1] + 1, pads.ints[2] - 1, pads.ints[3] - 1]
    del pads.ints[:]
    pads.ints.extend(moved)
    return str(node.output[0])


def _epsilon_changed(graph: Any, generator: np.random.Generator) -> str | None:
    import onnx.helper

    norms = [node for node in graph.node if node.op_type == "BatchNormalization"]
    if not norms:
        return None
    node = norms[int(generator.integers(len(norms)))]
    kept = [part for part in node.attribute if part.name != "epsilon"]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute("epsilon", 0.02)])
    return str(node.input[0])  # the layer whose norm it is


def _activation_removed(graph: Any, generator: np.random.Generator) -> str | None:
    saturating = [node for node in graph.node if node.op_type in ("Relu", "Clip", "Sigmoid", "HardSwish")]
    if not saturating:
        return None
    node = saturating[int(generator.integers(len(saturating)))]
    gone, kept = node.output[0], node.input[0]
    graph.node.remove(node)
    for other in graph.node:
        for place, name in enumerate(other.input):
            if name == gone:
                other.input[place] = kept
    if gone in {output.name for output in graph.output}:
        return None
    return str(gone)


KINDS: Final[Mapping[str, Callable[[Any, np.random.Generator], str | None]]] = {
    "kernel perturbed": _kernel_perturbed,
    "padding moved": _padding_moved,
    "epsilon changed": _epsilon_changed,
    "channels swapped": _channels_swapped,
    "weights in float16": _half_precision,
    "activation removed": _activation_removed,
}


# --- re-exports that compute the same


def reexports(entry: Entry, folder: Path) -> Iterator[tuple[str, Entry]]:
    """Files that say the same in another way: other names, constants as operators, idle operators, norms folded by
    onnxruntime, and our own writing of the graph."""
    import onnx

    source = model_file(entry)
    for kind, change in _REEXPORTS.items():
        model = onnx.load(str(source))
        changed = change(model)
        path = folder / f"{source.stem}-{kind.replace(' ', '-')}.onnx"
        onnx.save(changed, str(path))
        yield kind, with_file(entry, path)


def _renamed(model: Any) -> Any:
    """All inner tensors and operators have other names."""
    ends = {value.name for value in (*model.graph.input, *model.graph.output)}
    names: dict[str, str] = {}

    def new(name: str) -> str:
        return name if not name or name in ends else names.setdefault(name, f"t{len(names)}")

    for tensor in model.graph.initializer:
        tensor.name = new(tensor.name)
    for place, node in enumerate(model.graph.node):
        node.name = f"n{place}"
        for part in (node.input, node.output):
            renamed = [new(name) for name in part]
            del part[:]
            part.extend(renamed)
    del model.graph.value_info[:]
    return model


def _constants_as_operators(model: Any) -> Any:
    """Weights are made by Constant operators instead of lying beside the graph."""
    import onnx.helper

    made = [onnx.helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in model.graph.initializer]
    nodes = [*made, *model.graph.node]
    del model.graph.initializer[:]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _idle_operators(model: Any) -> Any:
    """An Identity behind every ReLU."""
    import onnx.helper

    nodes = []
    ends = {value.name for value in model.graph.output}
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type in ("Relu", "Clip") and node.output[0] not in ends:
            made = f"{node.output[0]}_before"
            nodes.append(onnx.helper.make_node("Identity", [made], [node.output[0]]))
            node.output[0] = made
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _later_opset(model: Any) -> Any:
    import onnx.version_converter

    return onnx.version_converter.convert_version(model, 17)


_REEXPORTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "renamed": _renamed,
    "constants as operators": _constants_as_operators,
    "idle operators": _idle_operators,
    "later opset": _later_opset,
}
