"""The margin bound of Arora et al. 2018 for the model of a run, on inputs of the run."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.store.records import Run
from zoolens.contrib.arora.bound import AroraBound, arora_bound
from zoolens.findings.comparisons.origins import open_inputs
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.structures.weighted_graph import weighted_graph
from zoolens.inventory.catalog.stored import check_model, stored_entry
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.manifests.schema_steps import DropLeading, Softmax
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.runtimes.runtime import TensorSpec

INPUTS: Final = 200  # enough to see that it is vacuous; the cushions are a minimum over them


def arora_of(run: Run) -> AroraBound | str:
    """The bound, or the sentence that says why there is none: most networks are not covered by the theorem."""
    try:
        entry = stored_entry(run)
        check_model(entry, run)
        graph = weighted_graph(entry)
        inputs, labels = _inputs(run, entry.manifest.inputs[0], graph)
        return arora_bound(graph, inputs, labels + _dropped(entry.manifest.outputs[0]))
    except ZoolensError as error:
        return str(error)


def _inputs(run: Run, spec: Input, graph: Graph) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The first inputs as the canonical graph takes them: real numbers, channels first."""
    prepare = build_prepare(spec, TensorSpec(spec.name or "input", tuple(spec.shape), "float32"))
    with closing(open_inputs(run)) as dataset:
        decoded = dataset.decoded_with(spec.decoder)
        count = min(INPUTS, len(decoded))
        values = np.stack([prepare(decoded.read(index).value) for index in range(count)])
        labels = decoded.labels()[:count]
    moved = spec.layout == graph.facts["input_axes"].get(graph.inputs[0].name) == "NHWC"
    return np.moveaxis(values, -1, 1) if moved else values, labels


def _dropped(output: Output) -> int:
    """How many outputs the network has before that of the data's first class."""
    if output.label_map or any(not isinstance(step, DropLeading | Softmax) for step in output.postprocess):
        raise ModelError("The manifest rearranges the classes behind the network, so that its margins are not known.")
    return sum(step.count for step in output.postprocess if isinstance(step, DropLeading))
