"""A stitched model on disk: an ONNX file named by its content, and a manifest that says what it was made of.

The manifest is the reference's own, so that the stitched model gets the same inputs and its answers mean the same, with
its claims removed: what others said of the reference, nobody said of the stitched model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.base.paths import data_dir
from zoolens.base.store.json_columns import json_value
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.onnx_writer.written_file import batch_is_free, onnx_bytes, write_whole
from zoolens.findings.twins.pieces import Piece
from zoolens.inventory.manifests.files import dump_manifest
from zoolens.inventory.manifests.formats import legal_name
from zoolens.inventory.manifests.schema import Asset, AssetFile, Input, Manifest, Output
from zoolens.inventory.manifests.twins import TWINS_POSSIBLE
from zoolens.inventory.preprocess.outputs import labels_of
from zoolens.inventory.zoos.zoo import Entry

MADE_BY: Final = "zoolens"
_DIGITS: Final = 12  # of the content's digest, in the file's name
_LONGEST: Final = 80  # characters of a model's name in it
_MOVED: Final = {"NHWC": (0, 3, 1, 2)}  # how the canonical form arranges an input


@dataclass(frozen=True)
class WrittenTwin:
    manifest: Path
    model: Path
    name: str
    new: tuple[Path, ...] = ()  # files that were not there before


def twins_folder() -> Path:
    return data_dir() / "twins"


def write_twin(
    graph: Graph, reference: Entry, donor: Entry, pieces: Sequence[Piece], folder: Path, *, among: int | None = None
) -> WrittenTwin:
    """Write the spliced graph and its manifest; what is there already with the same content is left as it is. `among`:
    how many stitched models its search might have made."""
    content = onnx_bytes(graph)
    digest = hashlib.sha256(content).hexdigest()
    stem = f"{_short(reference)}-with-{_short(donor)}-{digest[:_DIGITS]}"
    model, path = folder / f"{stem}.onnx", folder / f"{stem}.yaml"
    asset = Asset(format="onnx", files=(AssetFile(location=model.name, sha256=digest, bytes=len(content)),))
    manifest = twin_manifest(graph, reference, donor, pieces, name=stem, asset=asset, among=among)
    new = tuple(file for file in (model, path) if not file.exists())
    _write(model, content)
    _write(path, dump_manifest(manifest).encode())
    return WrittenTwin(path, model, stem, new)


def _short(entry: Entry) -> str:
    return legal_name(entry.manifest.name.rpartition("/")[2])[:_LONGEST]


def _write(path: Path, content: bytes) -> None:
    if _content(path) != content:
        write_whole(path, content)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def twin_manifest(
    graph: Graph,
    reference: Entry,
    donor: Entry,
    pieces: Sequence[Piece],
    *,
    name: str,
    asset: Asset,
    among: int | None = None,
) -> Manifest:
    own = reference.manifest
    if own.code is not None:
        raise ModelError(
            f"{reference.ref} is prepared by Python code in its manifest, which a stitched model cannot have.",
            hint="Declare its preprocessing instead.",
        )
    return own.model_copy(
        update={
            "name": name,
            "description": f"{reference.ref} in which parts of {donor.ref} stand in for its own.",
            "license": _licence(own, donor.manifest),
            "framework": None,
            "element_type": "float32",
            "requires": "",
            "inputs": tuple(_input(given, graph, place, reference) for place, given in enumerate(own.inputs)),
            "outputs": tuple(_output(output, graph, place, reference) for place, output in enumerate(own.outputs)),
            "assets": (asset,),
            "claims": (),
            "attributes": _attributes(own, reference, donor, pieces, among or len(pieces)),
        }
    )


def _licence(own: Manifest, other: Manifest) -> str | None:
    """Names both licences where they differ: a stitched model is bound by each."""
    return " and ".join(dict.fromkeys(text for text in (own.license, other.license) if text)) or None


def _attributes(own: Manifest, reference: Entry, donor: Entry, pieces: Sequence[Piece], among: int) -> dict[str, Any]:
    kept = {name: own.attributes[name] for name in ("architecture",) if name in own.attributes}
    return {
        **kept,
        "twin_of": reference.full_ref,
        "donor": donor.full_ref,
        "segments": [segment_data(piece) for piece in pieces],
        TWINS_POSSIBLE: among,
        "made_by": MADE_BY,
    }


def segment_data(piece: Piece) -> dict[str, Any]:
    """A piece as plain values."""
    ours, theirs = piece.common.a, piece.common.b
    return {
        "entry": ours.entry,
        "exit": ours.exit,
        "nodes": len(ours),
        "donor_entry": theirs.entry,
        "donor_exit": theirs.exit,
        "donor_nodes": len(theirs),
        "kind": piece.kind,
        "distance": json_value(piece.distance),
        "parameters": piece.parameters,
        "macs": piece.macs,
    }


def _input(given: Input, graph: Graph, place: int, reference: Entry) -> Input:
    """The input as the canonical form takes it: real numbers, channels first, any batch where the graph allows it."""
    if place >= len(graph.inputs):
        raise ModelError(f"{reference.ref} declares more inputs than its network has.")
    node = next(
        (node_in for node_in in graph.inputs if given.name in (node_in.name, node_in.source)), graph.inputs[place]
    )
    axes = str(graph.facts.get("input_axes", {}).get(node.name, ""))
    moved = axes in _MOVED and given.layout == axes
    shape = tuple(given.shape[axis] for axis in _MOVED[axes]) if moved else given.shape
    if [extent or own for extent, own in zip(shape[1:], node.shape[1:], strict=False)] != list(node.shape[1:]):
        raise ModelError(
            f"{reference.ref} declares an input of {_words(given.shape)} ({given.layout}), and its network takes "
            f"{_words(node.shape)}: a stitched model could not be fed."
        )
    batch = None if batch_is_free(graph) else 1
    return given.model_copy(
        update={
            "name": node.name if len(graph.inputs) > 1 else None,
            "shape": (batch, *shape[1:]),
            "layout": "NCHW" if moved else given.layout,
            "dtype": "float32",
        }
    )


def _words(shape: Sequence[int | None]) -> str:
    return "×".join("?" if extent is None else str(extent) for extent in shape)


def _output(declared: Output, graph: Graph, place: int, reference: Entry) -> Output:
    """Class names in place, for the stitched model lies in another folder; the name that its output has in the new
    file."""
    names = list(graph.facts.get("file_outputs", ()))
    number = names.index(declared.name) if declared.name in names else place
    if number >= len(graph.outputs):
        raise ModelError(f"{reference.ref} declares more outputs than its network has.")
    name = graph.outputs[number] if len(graph.outputs) > 1 else None
    return declared.model_copy(
        update={"name": name, "labels": labels_of(declared, reference.folder), "labels_file": None},
    )
