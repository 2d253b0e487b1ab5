"""Live torch networks: those of torchvision, timm and transformers by name, and any module at hand.

A network is run once on tensors without numbers and the calls it makes are written down (`recording`);
`lowerings` says what each call is in the vocabulary. With weights it runs on the CPU, and values come along.
"""

from __future__ import annotations

import inspect
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from zoolens.base.errors import MissingDependency, ModelError
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.importers.torch.departures import TorchDepartures
from zoolens.findings.graph.importers.torch.longer_texts import longer_texts
from zoolens.findings.graph.importers.torch.lowerings import LOWERINGS
from zoolens.findings.graph.importers.torch.modules import (
    BuildPlan,
    LibraryFailed,
    built,
    plan_timm,
    plan_torchvision,
    plan_transformers,
    reason,
)
from zoolens.findings.graph.importers.torch.recording import recording
from zoolens.findings.graph.importers.torch.rotary_positions import note_rotary_tables
from zoolens.findings.graph.importers.torch.trace import TensorTrace, tensors_in
from zoolens.findings.graph.ir.mask_values import LONGER_TEXTS
from zoolens.findings.graph.ir.model import Array, Graph, check_shape
from zoolens.findings.graph.ir.rotary_tables import with_rotary_tables
from zoolens.inventory.frameworks.placeholder_modules import without_torch_compiler


def graph_of_module(
    module: Any,
    example_inputs: Sequence[Any],
    name: str,
    *,
    weights: bool = False,
    departures: bool = False,
    answers: dict[str, Array] | None = None,
) -> Graph:
    """The raw graph of a torch.nn.Module, which is run once, in evaluation mode, on `example_inputs` (batch 1).

    Their numbers do not matter; with weights, the module's own values are copied into the graph. `departures`: a module
    within it that computes with other means than torch is one unknown layer. `answers` is filled with what the layers
    answer to these inputs that nobody here computes, by the names of their nodes.
    """
    names = [name for name in inspect.signature(module.forward).parameters if name != "self"]
    fed = dict(zip([*names, *(f"input{i}" for i in range(len(names), len(example_inputs)))], example_inputs))  # noqa: B905
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        trace = TensorTrace(module, name, weights=weights, answers=answers)
        return _traced(trace, module, fed, positional=True, departures=TorchDepartures(trace) if departures else None)
    finally:
        for part, training in modes:
            part.training = training


def _traced(
    trace: TensorTrace,
    module: Any,
    fed: Mapping[str, Any],
    *,
    positional: bool,
    departures: TorchDepartures | None = None,
    facts: Any = None,
) -> Graph:
    name = trace.builder.name
    for key, tensor in fed.items():
        axes = "NCHW" if tensor.dim() == 4 and tensor.is_floating_point() else ""
        trace.named(tensor, trace.builder.add("input", (), tensor.shape, name=key, source=key, axes=axes))
    try:
        with recording(trace, LOWERINGS, departures=departures):
            result = module(*fed.values()) if positional else module(**fed)
    except ModelError:
        raise
    except Exception as error:
        raise LibraryFailed(f"{name} cannot be traced: {reason(error)}") from error
    outputs = [trace.value(tensor) for tensor in tensors_in([result])]
    total = sum(tensor.numel() for tensor in module.parameters())
    known = {"name": name, "parameters_total": total, **(facts or {})}
    if departures is not None and departures.in_network:
        known["leaves_torch"] = True  # numbers that depend on an input, in the network's own forward
    if departures is not None and departures.decisions:
        known["decisions"] = [list(decision) for decision in departures.decisions]
    graph = with_rotary_tables(trace.builder.finish(outputs, known), trace.tables)
    unused = _unused(module, graph)
    return replace(graph, facts={**graph.facts, "unused": unused}) if unused else graph


def _unused(module: Any, graph: Graph) -> dict[str, int]:
    """Learned numbers that no node of the graph names, by the part of the network that holds them."""
    named = sorted({parameter.key for node in graph.nodes for parameter in node.parameters})
    unused: dict[str, int] = {}
    for name, tensor in module.named_parameters():
        place = bisect_left(named, name)
        if place == len(named) or not named[place].startswith(name):  # a key may add how the tensor is cut or computed
            part = name.partition(".")[0]
            unused[part] = unused.get(part, 0) + int(tensor.numel())
    return unused


def _load(library: str, distribution: str, plan_of: Callable[[Request], BuildPlan], request: Request) -> Graph:
    try:
        import torch
    except ImportError as error:
        raise MissingDependency("Reading a torch network", "torch", "torch") from error
    # transformers imports parts of torch's compiler by itself
    with nullcontext() if library == "transformers" else without_torch_compiler():
        plan = plan_of(request)
        facts = {"library": library, "version": version(distribution), "torch": str(torch.__version__)}
        if request.weights:
            return _loaded(plan, request, facts, "weights")
        for way in ("meta", "sketched"):
            with suppress(LibraryFailed):  # what we refuse, such as its size, stays refused: numbers would fill memory
                return _loaded(plan, request, facts, way)
        return _loaded(plan, request, facts, "cpu")


def _loaded(plan: BuildPlan, request: Request, facts: Mapping[str, Any], way: str) -> Graph:
    import torch

    module = built(plan, request.subject, way)
    shapes = plan.inputs(module)
    for key, shape in shapes.items():
        check_shape(shape, key, request.subject)
    device = "meta" if way in ("meta", "sketched") else "cpu"
    fed = {
        key: torch.zeros(shape, dtype=torch.float32 if len(shape) == 4 else torch.int64, device=device)
        for key, shape in shapes.items()
    }
    known = {**facts, "input_size": list(next(iter(shapes.values())))}
    if "input_ids" in shapes:
        known["context_length"] = getattr(module.config, "max_position_embeddings", None)
        known[LONGER_TEXTS] = longer_texts(module.config)
    trace = TensorTrace(module, request.subject, weights=request.weights)
    if way != "weights" and "input_ids" in shapes:
        note_rotary_tables(trace, module, shapes["input_ids"][1])
    return _traced(trace, module, fed, positional=False, facts=known)


TORCHVISION: Final = Importer(partial(_load, "torchvision", "torchvision", plan_torchvision), ("torchvision", "torch"))
TIMM: Final = Importer(partial(_load, "timm", "timm", plan_timm), ("timm", "torch"))
TRANSFORMERS: Final = Importer(
    partial(_load, "transformers", "transformers", plan_transformers), ("transformers", "torch")
)
