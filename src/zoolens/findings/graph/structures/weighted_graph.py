"""The canonical graph of a model with its real weights: what can be cut, joined and run again.

Files in the formats that have an importer carry them (quantised ones as the real numbers they stand for), and torch
weights together with a library's architecture. `facts` says how the file's own inputs and outputs look: "input_axes"
has the order of axes that each input had, where it is known, and "file_outputs" the names of the outputs.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base import plugins
from zoolens.base.engine.process import WorkerProcess
from zoolens.base.engine.sandbox import trusted
from zoolens.base.errors import AssetError, ModelError, UnexpectedError, ZoolensError
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.importers.input_shapes import with_extents
from zoolens.findings.graph.importers.torch import state_dict
from zoolens.findings.graph.ir.model import Array, Graph
from zoolens.findings.graph.ir.serialisation import unpack
from zoolens.findings.graph.passes.axis_labels import labels
from zoolens.findings.graph.passes.canonical import steps
from zoolens.findings.graph.passes.folded_norms import folded_norms
from zoolens.findings.graph.structures.export_pool import TIMEOUT, reader
from zoolens.findings.graph.structures.structure_sources import find_entries, manifest_extents, manifest_size
from zoolens.inventory.catalog.lookup import Model
from zoolens.inventory.manifests.locations import resolve_asset
from zoolens.inventory.manifests.schema import Asset
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.zoos.zoo import Entry

_STATE_DICT: Final = "torch-state-dict"
_SLACK: Final = 1 << 26  # bytes


def weighted_graph(model: Model, extents: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
    """The canonical graph of one model (a reference, a path or an entry), with weights; ModelError if it has none.
    `extents`: shapes of inputs, which fill in what the file leaves open."""
    entries = find_entries([model])
    if len(entries) != 1:
        raise ModelError(f"{model} names {len(entries)} models.", hint="Name a single model.")
    return canonical_with_facts(_raw(entries[0], extents))


def raw_graph(entry: Entry, asset: Asset, extents: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
    """The raw graph of one asset of a model, with weights; ModelError where no importer reads its format. `extents`:
    shapes of inputs, which fill in what the file leaves open."""
    if asset.format != _STATE_DICT and asset.format not in plugins.registered(plugins.GRAPH_FILES):
        known = ", ".join((*plugins.names(plugins.GRAPH_FILES), _STATE_DICT))
        raise ModelError(
            f"The graph of {entry.ref} cannot be read from {asset.format} files.", hint=f"Graphs are read from {known}."
        )
    if asset.format == _STATE_DICT:
        return _from_weights(entry, asset, extents or {})
    return _from_file(entry, asset, extents)


def canonical_with_facts(raw: Graph) -> Graph:
    """The canonical form of a raw graph with weights, and how its ends looked before."""
    graph = raw
    known = labels(raw)
    for name, after in steps(raw):
        if name == "layout":
            known = labels(graph)
        graph = after
    _check_weights(graph)
    axes = {node.name: known.get(node.name, "") for node in raw.inputs}
    return replace(graph, facts={**graph.facts, "input_axes": axes, "file_outputs": raw.outputs})


def folded(graph: Graph) -> Graph:
    """The graph with the norm of every layer multiplied into its kernel, as converters do it: only so are the weights
    of a trained network and of its exported or quantised copy the same kind of thing."""
    plain = folded_norms(graph, ("conv", "dense"))
    used = {parameter.key for node in plain.nodes for parameter in node.parameters}
    made = used - graph.weights.keys()  # computed in double precision
    weights = {
        key: values.astype(np.float32) if key in made else values
        for key, values in plain.weights.items()
        if key in used
    }
    return replace(plain, weights=weights)


def _check_weights(graph: Graph) -> None:
    for node in graph.nodes:
        lost = next((tensor for tensor in node.parameters if tensor.key not in graph.weights), None)
        if lost is not None:
            raise ModelError(
                f"{graph.name} has no values for the {lost.role} of {node.name[:60]!r}.",
                hint="Name a model whose weights are on this machine.",
            )


def _raw(entry: Entry, extents: Mapping[str, tuple[int, ...]] | None) -> Graph:
    """The raw graph from the first asset that is here and can be read; what keeps the others from it is said if none
    is."""
    reasons: list[str] = []
    for asset in _readable(entry):
        try:
            return raw_graph(entry, asset, extents or manifest_extents(entry.manifest))
        except AssetError as error:
            reasons.append(str(error))
    if reasons:
        raise ModelError(f"The weights of {entry.ref} cannot be read: {' '.join(reasons)}")
    formats = ", ".join(dict.fromkeys(asset.format for asset in entry.manifest.assets))
    known = ", ".join((*plugins.names(plugins.GRAPH_FILES), _STATE_DICT))
    raise ModelError(
        f"{entry.ref} has no weights that can be read into a graph"
        f"{f': it comes as {formats}' if formats else ': only its structure is here'}.",
        hint=f"Weights are read from {known}.",
    )


def _readable(entry: Entry) -> Iterator[Asset]:
    known = plugins.registered(plugins.GRAPH_FILES)
    yield from (asset for asset in entry.manifest.assets if asset.format in known)
    yield from (asset for asset in entry.manifest.assets if asset.format == _STATE_DICT)


def _from_file(entry: Entry, asset: Asset, extents: Mapping[str, tuple[int, ...]] | None) -> Graph:
    files = resolve_asset(asset, entry.folder, fetch=False)
    importer: Importer = plugins.load(plugins.GRAPH_FILES, asset.format)
    size = manifest_size(entry.manifest) if entry.described else None
    return importer.load(Request.of_files(files, size, weights=True, extents=extents))


def _from_weights(entry: Entry, asset: Asset, extents: Mapping[str, tuple[int, ...]]) -> Graph:
    """A library's network with these weights: torch reads them in a sandboxed worker, unless the user trusts them."""
    assert asset.architecture is not None  # the schema demands it of this format
    if asset.architecture.library == "code":
        raise ModelError(
            f"{entry.ref} builds its network by Python code in its manifest, which is not run to read a graph.",
            hint="Export it to ONNX.",
        )
    files = {role: str(path.absolute()) for role, path in resolve_asset(asset, entry.folder, fetch=False).items()}
    given = entry.manifest.inputs[0]
    arguments = {
        "architecture": asset.architecture.model_dump(),
        "shape": _input_shape(entry, extents),
        "whole": given.dtype.startswith("int"),
    }
    request = Request(entry.manifest.name, arguments=arguments, files=files, weights=True)
    if trusted():
        return state_dict.STATE_DICT.load(request)
    message = {**request.as_message(), "importer": f"{state_dict.__name__}:STATE_DICT", "raw": True}
    # Half precision doubles when it is read as float32; buffers that the file leaves out come from the library.
    limit = 8 * sum(Path(path).stat().st_size for path in files.values()) + _SLACK
    worker = WorkerProcess(reader(state_dict.__name__, None, files.values()))
    try:
        answer = worker.ask(message, f"reading {entry.manifest.name}", timeout=TIMEOUT)
        with worker.sensible():
            values = {name: view.copy() for name, view in worker.outputs.read(answer["weights"], limit).items()}
            packed = base64.b64decode(answer["graph"])
    except UnexpectedError as error:
        raise ModelError(error.message, hint=error.hint) from error
    finally:
        worker.stop()
    return _with_values(unpack(packed), values)


def _with_values(graph: Graph, values: dict[str, Array]) -> Graph:
    for node in graph.nodes:
        for tensor in node.parameters:
            if tensor.key in values and values[tensor.key].size != math.prod(tensor.shape):
                raise ModelError(f"The {tensor.role} of {node.name[:60]!r} has {values[tensor.key].size:,} values.")
    return replace(graph, weights=values)


def _input_shape(entry: Entry, extents: Mapping[str, tuple[int, ...]]) -> list[int]:
    """Extents of the first input without its batch: those of the manifest, and where it leaves them open, the given."""
    given = entry.manifest.inputs[0]
    spec = TensorSpec(given.name or "", tuple(given.shape), given.dtype)
    known = [extent for extent in with_extents(spec, extents).shape[1:] if extent is not None]
    if len(known) == len(given.shape) - 1 and None in given.shape[1:] and len(extents) > 1:
        # Such as tokens beside their mask: a network that is traced without one is another.
        raise ModelError(f"{entry.ref} takes {len(extents)} inputs, of which a network is not traced here.")
    if len(known) < len(given.shape) - 1:
        raise ZoolensError(f"The manifest of {entry.ref} leaves the input's size open.", hint="Give its extents.")
    return known
