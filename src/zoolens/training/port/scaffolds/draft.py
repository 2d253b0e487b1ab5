"""`draft_of`: the code of a network in another framework, from what was read of it."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.outline.outline import outline
from zoolens.training.pairs.reading.side_facts import LayerFact
from zoolens.training.port.scaffolds import keras_code, keras_operations, keras_pools, torch_code, torch_operations
from zoolens.training.port.scaffolds.blocks import Arrangement, Path, arranged, renamed, without_aliases
from zoolens.training.port.scaffolds.keras_code import KerasWriter
from zoolens.training.port.scaffolds.keras_file import keras_file
from zoolens.training.port.scaffolds.names import comment
from zoolens.training.port.scaffolds.plain_graph import PlainGraph, plain_graph
from zoolens.training.port.scaffolds.steps import CodeStep
from zoolens.training.port.scaffolds.torch_code import TorchWriter
from zoolens.training.port.scaffolds.torch_file import torch_file
from zoolens.training.port.scaffolds.writer import CannotWrite, SourceFacts, Todo, Writer

TARGETS: Final = ("keras", "torch")
_CONTAINERS: Final = frozenset({"Sequential", "ModuleList", "ModuleDict"})


@dataclass(frozen=True)
class Draft:
    """A first draft of a port."""

    framework: str
    code: str  # the whole file
    todos: tuple[Todo, ...]  # what its reader has to write
    notes: tuple[str, ...]  # what else the draft does not have
    blocks: int

    @property
    def lines(self) -> int:
        return self.code.count("\n")


def draft_of(
    graph: Graph,
    raw: Graph,
    source: SourceFacts,
    dropouts: Sequence[LayerFact],
    to: str,
    name: str,
    inputs: Sequence[str],
) -> Draft:
    """`graph` is canonical, `raw` the source's own; `name` and `inputs` are what the user wrote."""
    plain = plain_graph(graph, raw, source.origins, dropouts)
    integers = frozenset(
        node.name for node, text in zip(graph.inputs, inputs, strict=False) if text.strip().startswith("int:")
    )
    writer, layout, outputs = min(
        (_written(to, plain, graph, source, explicit, integers) for explicit in (False, True)),
        key=lambda made: made[1].size,
    )
    notes = tuple(_notes(plain, graph, source, writer.shared_tensors))
    code = _file(writer, layout, outputs, _header(name, to, inputs, writer.todos, notes), name.rpartition(":")[2])
    return Draft(to, code, tuple(writer.todos), notes, len(layout.blocks))


def _written(
    to: str, plain: PlainGraph, graph: Graph, source: SourceFacts, explicit: bool, integers: frozenset[str]
) -> tuple[Writer, Arrangement, list[str]]:
    """`explicit`: convolutions without a stride have their padding as a layer, too, so that all of them are alike."""
    writer = _writer(to, plain.graph, source)
    writer.integers, writer.explicit = integers, explicit
    steps = writer.written()
    try:
        finished = writer.finished(plain.graph.outputs)
    except CannotWrite as error:
        raise ModelError(f"No draft can return what the network returns: {error}.") from error
    steps, outputs = without_aliases(steps, finished)
    return writer, _arranged(steps, outputs, plain, graph, source), outputs


def _writer(to: str, graph: Graph, source: SourceFacts) -> Writer:
    if to == "keras":
        return KerasWriter(graph, source, {**keras_code.LAYERS, **keras_pools.POOLS, **keras_operations.OPERATIONS})
    return TorchWriter(graph, source, {**torch_code.LAYERS, **torch_operations.OPERATIONS})


def _file(writer: Writer, layout: Arrangement, outputs: Sequence[str], header: Sequence[str], name: str) -> str:
    if isinstance(writer, KerasWriter):
        return keras_file(writer, layout, outputs, header, name)
    return torch_file(writer, layout, outputs, header)


def _arranged(
    steps: Sequence[CodeStep], outputs: Sequence[str], plain: PlainGraph, graph: Graph, source: SourceFacts
) -> Arrangement:
    """Arranges the steps into blocks by the names of the source; where these show no blocks, by the blocks that the
    graph has."""

    def eligible(path: Path) -> bool:
        return source.classes.get(".".join(path), "") not in _CONTAINERS

    def is_class(path: Path) -> bool:
        return ".".join(path) in source.classes

    layout = arranged(steps, outputs, eligible, is_class)
    if layout.blocks:
        return layout
    paths = _paths_by_outline(steps, plain, graph)
    again = arranged(renamed(steps, paths), outputs, lambda _: True)
    return again if again.blocks else layout


def _paths_by_outline(steps: Sequence[CodeStep], plain: PlainGraph, graph: Graph) -> Mapping[str, Path]:
    home: dict[str, str] = {}
    for number, block in enumerate(outline(graph), 1):
        if not block.plain:
            kind = block.kind.replace(" ", "_")
            home.update((layer.node.name, f"{kind}_{number}") for layer in block.layers)
    counts: dict[tuple[str, str], int] = {}
    paths: dict[str, Path] = {}
    for step in steps:
        value = step.values[0].rstrip("@_0123456789") if "@" in step.values[0] else step.values[0]
        part = home.get(plain.homes.get(value, value))
        if part is not None:
            counts[part, step.label] = counts.get((part, step.label), 0) + 1
            paths[step.values[0]] = (part, f"{step.label}_{counts[part, step.label]}")
    return paths


def _header(name: str, to: str, inputs: Sequence[str], todos: Sequence[Todo], notes: Sequence[str]) -> list[str]:
    framework = {"keras": "Keras", "torch": "PyTorch"}[to]
    lines = [f"A draft of {comment(name)} for {framework}, for inputs of {comment(', '.join(inputs))}."]
    if todos:
        lines += ["", f"TODO: {len(todos)} of its layers could not be written: the functions todo_*."]
    return [*lines, *(line for note in notes for line in ("", *_folded(note)))]


def _folded(text: str) -> list[str]:
    return textwrap.wrap(text, 96)


def _notes(plain: PlainGraph, graph: Graph, source: SourceFacts, shared_layers: Collection[str]) -> list[str]:
    notes = []
    if plain.unplaced:
        names = ", ".join(comment(name) for name in plain.unplaced[:4])
        more = f" and {len(plain.unplaced) - 4} more" if len(plain.unplaced) > 4 else ""
        notes.append(f"Dropout layers of the source whose place is not known are missing: {names}{more}.")
    shared = [key for key in _shared(graph) if key not in shared_layers]
    if shared:
        names = ", ".join(comment(source.origins[key].tensor if key in source.origins else key) for key in shared[:4])
        more = f" and {len(shared) - 4} more" if len(shared) > 4 else ""
        notes.append(f"Tensors that layers of the source share are separate here: {names}{more}.")
    return notes


def _shared(graph: Graph) -> list[str]:
    users: dict[str, int] = {}
    for node in graph.nodes:
        for key in {tensor.key for tensor in node.parameters if tensor.key}:
            users[key] = users.get(key, 0) + 1
    return [key for key, count in users.items() if count > 1]
